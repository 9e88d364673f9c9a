// What every target offers to those who compile for it, and the table of the families of targets that this build has.
//
//   ir::Module --prepare--> tile IR of the target --compile--> Compiled: code, and what the runtime must know of it
//
// A folder of src/targets that has a Register.cpp is a family; the build makes the table from the folders
// (CMakeLists.txt). Nobody outside of a folder names it or includes what is in it (scripts/check_layers.py): the api
// and the tools ask this interface. Everything here is immutable and thread-safe.
#pragma once
#include "ir/ExpandAsm.h"
#include "ir/StageVerifier.h"
#include "targets/Meta.h"
#include "targets/Options.h"
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace tegula::targets {

/// Who executes the code.
enum class Machine : uint8_t { Cpu, Gpu, Sim };

/// Options that no machine of a target can serve.
struct Refusal {
  enum class Kind : uint8_t { None, Invalid, Unsupported, Exhausted } kind = Kind::None;
  std::string text;                // "num_ctas is 3; it must be a power of 2"
  const char *resource = "";       // Exhausted: what there is too little of,
  uint64_t wanted = 0, most = 0;   // how much is asked for, how much there is
  explicit operator bool() const { return kind != Kind::None; }
};

/// What the language shows of a target.
struct Language {
  const char *name;         // "cpu", "cuda"
  int capability = 0;       // GPUs: 90 for sm_90
  const char *dotPrecision; // of fp32 dots that ask for none
};

/// What a cost model and a list of devices say of a CPU.
struct Processor {
  std::string features; // LLVM's
  unsigned vectorBits = 128;
  bool fma = false, dots16 = false, dots8 = false; // instructions for dots of bf16, of int8
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
};

class Target;
using TargetRef = std::shared_ptr<const Target>;

/// A row of the table.
struct Family {
  const char *name;                            // of its folder
  TargetRef (*parse)(std::string_view name);   // null: no target of this family
  std::vector<std::string> (*names)();         // all that parse() takes
  /// The processor that this process runs on; null function: the family is for other machines.
  TargetRef (*host)() = nullptr;
  /// From the bytes that Target::saved() gave; null: they are damaged. Null function: nothing of this family is saved
  /// but by name.
  TargetRef (*restore)(std::string_view bytes) = nullptr;
  /// Of a GPU of its driver, by compute capability (90): the target whose code it runs, and what an assembler is told.
  struct GpuCode {
    const char *target;
    std::string arch;
  };
  const char *driver = nullptr;                // "cuda"; null: the family is for no GPU
  std::optional<GpuCode> (*forGpu)(uint32_t capability) = nullptr; // nullopt: too old
  const char *oldestGpu = nullptr;             // for the message about those: "8.0 (Ampere)"
};

/// In the order in which names are looked up and listed.
std::span<const Family *const> families();

class Target {
public:
  explicit Target(const Family &f) : family(f) {}
  virtual ~Target() = default;
  const Family &family;

  virtual Machine machine() const = 0;
  /// Canonical text of everything that changes generated code: a part of cache keys. Targets are equal if their keys
  /// are.
  virtual std::string key() const = 0;
  virtual Language language() const = 0;
  /// Who executes PTX that a kernel wrote as operations of the IR; nullopt: it stays text, for an assembler.
  virtual std::optional<ir::AsmExecutor> asmExecutor() const { return std::nullopt; }

  /// Does what this target is execute code that was made for `code`?
  virtual bool runs(const Target &code) const { return key() == code.key(); }
  /// These instructions with the caches of `machine`, which runs them: what its launches are compiled for where they
  /// are held to fewer instructions than it has. Null: there is no such thing, or it does not run them.
  virtual TargetRef tunedFor(const Target &) const { return nullptr; }
  /// What a machine must have to run its code, in the words of runtime/BundleMachine.h. `cubin`: for which GPU it was
  /// assembled, "" if it was not.
  virtual std::string needs(std::string_view cubin) const = 0;
  /// The richest target with a fixed meaning whose code runs wherever this one's does; "": it is one itself.
  virtual std::string portable() const { return {}; }
  /// The target that simulates this one; "": there is none.
  virtual std::string simulator() const { return {}; }
  /// What its name does not say on another machine; "": the name says all.
  virtual std::string saved() const { return {}; }

  /// Null for what is no CPU.
  virtual const Processor *processor() const { return nullptr; }
  /// Most bytes of shared memory that a block can have.
  virtual uint64_t sharedLimit() const { return UINT64_MAX; }
  /// What the passes of the GPU level ask; null: the target does not use that level.
  virtual const gpu::TargetInfo *gpuInfo() const { return nullptr; }

  virtual Refusal refuses(const Options &) const { return {}; }
  /// The passes that all targets share (passes/Pipeline.h), and what this one changes in tile IR before and after them.
  /// False: reported.
  virtual bool prepare(ir::Module &tile, const Options &options, const ir::StageVerifier &verifier) const;
  /// Of prepared tile IR, for options that are not refused. Nullopt: reported to `diag`. More shared memory than
  /// sharedLimit(): the code is empty.
  virtual std::optional<Compiled> compile(const ir::Module &tile, const Options &options, DiagEngine &diag) const = 0;
  /// Is the code PTX, which is text for an assembler, and not an object?
  virtual bool makesPtx() const { return false; }

  /// What can be printed after tile IR, in order.
  virtual std::span<const char *const> stages() const = 0;
  /// The text or bytes of one of stages(). `lastPass`: for "gpu", the pass to stop after; "": all of them. Nullopt:
  /// reported to `diag`.
  virtual std::optional<std::string> emit(const ir::Module &tile, const Options &options, std::string_view stage,
                                          std::string_view lastPass, DiagEngine &diag) const = 0;
};

} // namespace tegula::targets
