// The interface of every compilation target, and the table of the target families in this build.
//
//   ir::Module --prepare--> tile IR of the target --compile--> Compiled: the code and its description for the runtime
//
// A folder of src/targets that has a Register.cpp is a family; the build generates the table from the folders
// (CMakeLists.txt). Code outside a family's folder neither names the family nor includes its headers
// (scripts/check_layers.py): the api and the tools use this interface. Everything here is immutable and thread-safe.
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

/// The kind of machine that executes the code.
enum class Machine : uint8_t { Cpu, Gpu, Sim };

/// Why a target rejects a set of options. Converts to false if it does not.
struct Refusal {
  enum class Kind : uint8_t { None, Invalid, Unsupported, Exhausted } kind = Kind::None;
  std::string text;                // "num_ctas is 3; it must be a power of 2"
  const char *resource = "";       // Exhausted: the resource that does not suffice
  uint64_t wanted = 0, most = 0;   // the amounts requested and available
  explicit operator bool() const { return kind != Kind::None; }
};

/// The properties of a target that kernels can query.
struct Language {
  const char *name;         // "cpu", "cuda"
  int capability = 0;       // GPUs: 90 for sm_90
  const char *dotPrecision; // the default precision of fp32 dots
};

/// Properties of a CPU, for the cost model and for lists of devices.
struct Processor {
  std::string features; // LLVM's
  unsigned vectorBits = 128;
  bool fma = false, dots16 = false, dots8 = false; // dots16, dots8: has instructions for dots of bf16, of int8
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
};

class Target;
using TargetRef = std::shared_ptr<const Target>;

/// A row of the table.
struct Family {
  const char *name;                            // the name of its folder
  TargetRef (*parse)(std::string_view name);   // null: no target of this family
  std::vector<std::string> (*names)();         // every name that parse() accepts
  /// The processor that this process runs on. Null function: the family does not target the host.
  TargetRef (*host)() = nullptr;
  /// The target for the bytes that Target::saved() returned; null: the bytes are damaged. Null function: targets of
  /// this family are saved by name only.
  TargetRef (*restore)(std::string_view bytes) = nullptr;
  /// For a GPU of the family's driver: the target whose code the GPU runs, and the architecture for the assembler.
  struct GpuCode {
    const char *target;
    std::string arch;
  };
  const char *driver = nullptr;                // "cuda"; null: the family has no GPU driver
  // by compute capability (90); nullopt: the GPU is too old
  std::optional<GpuCode> (*forGpu)(uint32_t capability) = nullptr;
  const char *oldestGpu = nullptr;             // for the message about a GPU that is too old: "8.0 (Ampere)"
};

/// All families, in the order in which names are looked up and listed.
std::span<const Family *const> families();

class Target {
public:
  explicit Target(const Family &f) : family(f) {}
  virtual ~Target() = default;
  const Family &family;

  virtual Machine machine() const = 0;
  /// Canonical text of everything that affects generated code; part of cache keys. Targets with equal keys are equal.
  virtual std::string key() const = 0;
  virtual Language language() const = 0;
  /// The executor of inline PTX that has been expanded to IR operations; nullopt: inline PTX stays text, for an
  /// assembler.
  virtual std::optional<ir::AsmExecutor> asmExecutor() const { return std::nullopt; }

  /// Whether a machine of this target executes code compiled for `code`.
  virtual bool runs(const Target &code) const { return key() == code.key(); }
  /// This target's instruction set with the cache sizes of the argument's machine, for launches on a machine that are
  /// restricted to fewer instructions than it has. Null: the target has no such variant, or the machine does not run
  /// this instruction set.
  virtual TargetRef tunedFor(const Target &) const { return nullptr; }
  /// The requirements of the code on a machine, in the format of runtime/BundleMachine.h. `cubin`: the GPU that the
  /// code was assembled for, "" if it was not assembled.
  virtual std::string needs(std::string_view cubin) const = 0;
  /// The richest target of fixed meaning whose code runs wherever this target's code does; "": this target is one.
  virtual std::string portable() const { return {}; }
  /// The target that simulates this one; "": there is none.
  virtual std::string simulator() const { return {}; }
  /// Bytes from which Family::restore rebuilds the target on another machine; "": its name suffices.
  virtual std::string saved() const { return {}; }

  /// Null unless the target is a CPU.
  virtual const Processor *processor() const { return nullptr; }
  /// Maximum bytes of shared memory per block.
  virtual uint64_t sharedLimit() const { return UINT64_MAX; }
  /// Target facts for the passes of the GPU level; null: the target does not use that level.
  virtual const gpu::TargetInfo *gpuInfo() const { return nullptr; }

  virtual Refusal refuses(const Options &) const { return {}; }
  /// Runs the passes that all targets share (passes/Pipeline.h), and this target's own passes over tile IR before and
  /// after them. False after a report.
  virtual bool prepare(ir::Module &tile, const Options &options, const ir::StageVerifier &verifier) const;
  /// Compiles prepared tile IR, for options that refuses() accepts. Nullopt after a report to `diag`. If the kernel
  /// needs more shared memory than sharedLimit(), the code is empty.
  virtual std::optional<Compiled> compile(const ir::Module &tile, const Options &options, DiagEngine &diag) const = 0;
  /// Whether the code is PTX text for an assembler, and not an object.
  virtual bool makesPtx() const { return false; }

  /// The stages after tile IR that can be printed, in order.
  virtual std::span<const char *const> stages() const = 0;
  /// The text or bytes of one of stages(). `lastPass`: for "gpu", the pass to stop after; "": run all of them. Nullopt
  /// after a report to `diag`.
  virtual std::optional<std::string> emit(const ir::Module &tile, const Options &options, std::string_view stage,
                                          std::string_view lastPass, DiagEngine &diag) const = 0;
};

} // namespace tegula::targets
