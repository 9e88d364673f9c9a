// LLVM code that the targets share: creating a target machine, running a pipeline of function passes with the analyses
// they need, and emitting a file.
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

/// Initializes the LLVM target that the triple names (once per process, and no other target), and creates a machine
/// that emits position-independent code and fuses multiplications only where an instruction's flags allow it. Null if
/// there is no such target. Thread-safe. A thread's first call asks the operating system to use large pages for about
/// 28 MiB of the thread's heap.
std::unique_ptr<llvm::TargetMachine> createMachine(const MachineSpec &spec);

/// Replaces llvm::LoopAnalysis in runPipeline(). The result omits loops of more than `largest` blocks, but includes the
/// loops inside them. Values that LICM hoists out of a loop of thousands of blocks (the loop over programs around a
/// thousand loops in a row: first tests, addresses) are used in few of the blocks and live in all, and the time of
/// register allocation is the product of values and blocks. LCSSA collects the exits of such a loop for each loop
/// inside it.
struct SmallLoops {
  static constexpr unsigned largest = 512; // some 100 loops over tiles in a row
  using Result = llvm::LoopInfo;
  static llvm::AnalysisKey *ID() { return llvm::LoopAnalysis::ID(); }
  static llvm::StringRef name() { return "SmallLoops"; }
  Result run(llvm::Function &f, llvm::FunctionAnalysisManager &am);
};

/// A few inexpensive passes that clean up code which the target has already vectorized and scheduled. None of them
/// moves or copies a convergent operation into or out of a branch.
llvm::FunctionPassManager cleanupPasses(unsigned optLevel);

/// Sets the module's triple and data layout to the machine's, then runs the passes with the machine's analyses. The
/// registered analyses are those that SROA, EarlyCSE, InstSimplify, SimplifyCFG, LICM and similar passes use; if a pass
/// needs another one, add it to registerAnalyses() (Pipeline.cpp).
void runPipeline(llvm::Module &m, llvm::TargetMachine &tm, llvm::FunctionPassManager passes);

/// Rotates the loops of functions of hundreds of blocks: the exit test moves to the latch, with a guard before the
/// loop. This is for code generators that query ScalarEvolution about loops (NVPTX: Straight line strength reduction,
/// Nary reassociation, Canonicalize Freeze, Induction Variable Users). If loops test in their headers, the exit of one
/// loop is the only path to the next, so a fact at the n-th loop of a row is a minimum of n terms, and compile time was
/// cubic: 12 s for 330 loops, 184 s for a thousand, now 0.3 and 1.0. Smaller functions keep their form, in which they
/// were measured; the assembler treats both forms alike (registers of 82 loops: 22 either way).
void rotateLoopsOfLarge(llvm::Module &m, llvm::TargetMachine &tm);

/// Runs LLVM's verifier on `m`, the code of the kernel at `kernel`. If `m` is malformed, reports diag::malformedLlvm
/// and returns false. `when`: for the message ("before optimization").
bool verifyModule(const llvm::Module &m, std::string_view when, Loc kernel, DiagEngine &diag);

/// A pass of the code generator that takes quadratic time and is skipped: always, or for functions of thousands of
/// blocks, of many thousand instructions, or of fifty thousand.
struct SlowPass {
  enum class Of { All, ManyBlocks, ManyInstructions, FiftyThousand };
  llvm::StringRef name; // LLVM's
  Of of;
};
llvm::ArrayRef<SlowPass> slowPasses();

/// Emits the module without the slow passes; the module's context skips them from then on.
void emitFile(llvm::Module &m, llvm::TargetMachine &tm, llvm::CodeGenFileType type, llvm::raw_pwrite_stream &os);
std::vector<char> emitObjectBytes(llvm::Module &m, llvm::TargetMachine &tm);
std::string emitAssemblyText(llvm::Module &m, llvm::TargetMachine &tm);

} // namespace tegula::targets
