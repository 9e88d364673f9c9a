// What the targets share of LLVM's machinery: making a target machine, running a pipeline of function passes with the
// analyses they need, and emitting a file.
#pragma once
#include "support/Diag.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace tegula::targets {

struct MachineSpec {
  std::string triple, cpu, features;
  unsigned optLevel = 2; // 0..3
};

/// Initializes the LLVM target that the triple names (once per process, and no other), and makes a machine that emits
/// position-independent code and fuses multiplications only where an instruction's flags allow it. Null if there is no
/// such target. From any thread; the first call of a thread asks the kernel for large pages in some 28 MiB of the
/// thread's heap, as far as they come to be used.
std::unique_ptr<llvm::TargetMachine> createMachine(const MachineSpec &spec);

/// Stands in for llvm::LoopAnalysis in runPipeline(): loops of more blocks than `largest` are not in the result, as
/// cycles that are no natural loops never are; the loops in them are. What LICM hoists out of a loop of thousands of
/// blocks (the loop over programs around a thousand loops in a row: first tests, addresses) is of use in few of them
/// and alive in all, and register allocation takes values times blocks; LCSSA collects the exits of such a loop for
/// each loop in it.
struct SmallLoops {
  static constexpr unsigned largest = 512; // some 100 loops over tiles in a row
  using Result = llvm::LoopInfo;
  static llvm::AnalysisKey *ID() { return llvm::LoopAnalysis::ID(); }
  static llvm::StringRef name() { return "SmallLoops"; }
  Result run(llvm::Function &f, llvm::FunctionAnalysisManager &am);
};

/// Cleans up code that is already vectorized and scheduled by us: little, and cheap. None of these passes moves or
/// copies a convergent operation into or out of a branch.
llvm::FunctionPassManager cleanupPasses(unsigned optLevel);

/// Triple and data layout of the machine, then the passes, with the machine's own analyses. The registered analyses are
/// those that SROA, EarlyCSE, InstSimplify, SimplifyCFG, LICM and the like ask for; a pass that needs another one gets
/// it in registerAnalyses() (Pipeline.cpp).
void runPipeline(llvm::Module &m, llvm::TargetMachine &tm, llvm::FunctionPassManager passes);

/// Has the loops of functions of hundreds of blocks test at their end, after a first test before them. For code
/// generators that ask ScalarEvolution about loops (NVPTX: Straight line strength reduction, Nary reassociation,
/// Canonicalize Freeze, Induction Variable Users): where loops test at their beginning, one's exit is the only way to
/// the next one, so that what is known at the n-th of a row is a minimum of n things, and their time was cubic: 12 s
/// for 330 loops, 184 s for a thousand, now 0.3 and 1.0. Other functions stay as they are measured; for the assembler
/// both forms are the same (registers of 82 loops: 22 either way).
void rotateLoopsOfLarge(llvm::Module &m, llvm::TargetMachine &tm);

/// LLVM's verifier. False if `m`, made of the kernel at `kernel`, breaks a rule `when` ("before optimization"):
/// diag::malformedLlvm has been reported.
bool verifyModule(const llvm::Module &m, std::string_view when, Loc kernel, DiagEngine &diag);

/// A pass of the code generator that takes quadratic time and is left out: always, or for functions of thousands of
/// blocks, of many thousand instructions, or of fifty thousand.
struct SlowPass {
  enum class Of { All, ManyBlocks, ManyInstructions, FiftyThousand };
  llvm::StringRef name; // LLVM's
  Of of;
};
llvm::ArrayRef<SlowPass> slowPasses();

/// Without the slow passes; the module's context leaves them out from then on.
void emitFile(llvm::Module &m, llvm::TargetMachine &tm, llvm::CodeGenFileType type, llvm::raw_pwrite_stream &os);
std::vector<char> emitObjectBytes(llvm::Module &m, llvm::TargetMachine &tm);
std::string emitAssemblyText(llvm::Module &m, llvm::TargetMachine &tm);

} // namespace tegula::targets
