// Targets by name, and the way from tile IR to code that a device loads. Adapts the table of targets (targets/Target.h)
// to the runtime's types.
#pragma once
#include "runtime/Device.h"
#include "sema/Sema.h"
#include "targets/Target.h"
#include <functional>

namespace tegula::api {

struct CompileOptions;
using targets::Depth;

/// A target of code generation.
struct Target {
  targets::TargetRef what; // null: nothing can be compiled for it
  std::string name;        // "cpu:avx512bf16", "sm_90a", "sim"
  // GPU: the architecture that the assembler is given; newer than the code's own target for GPUs without a target of
  // their own
  std::string arch;

  bool isCpu() const { return is(targets::Machine::Cpu); }
  bool isGpu() const { return is(targets::Machine::Gpu); }
  bool isSim() const { return is(targets::Machine::Sim); }
  const targets::Target *operator->() const { return what.get(); }
  /// Is it the same code, apart from the target's name and the assembler's architecture?
  bool sameCode(const Target &o) const { return what && o.what && what->key() == o->key(); }

private:
  bool is(targets::Machine m) const { return what && what->machine() == m; }
};

/// The target of a name as `-t` takes it; nullopt: no target has this name.
std::optional<Target> parseTarget(std::string_view name);
/// All target names, and the message for a name that is not among them.
std::vector<std::string> targetNames();
std::string noSuchTarget(std::string_view name);
/// The target of this machine's processor.
Target hostProcessor();
/// The target whose code a GPU of this driver ("cuda") and compute capability (90) runs; nullopt, with the reason in
/// `why`, if there is none.
std::optional<Target> targetOfGpu(std::string_view driver, uint32_t capability, std::string &why);
/// Canonical text of everything that decides the code besides source and options: the target and, for GPUs, the
/// assembler.
std::string targetKey(const Target &t);
/// The assembler of PTX: "nvJitLink 12.9", "driver 12.8", or "none".
std::string assemblerName();

/// The dtype of a value of tile IR.
TegulaDtype dtypeOf(ir::Elem e, bool isSigned);

/// Fills in what sema needs to know about the target.
void describeTarget(const Target &t, lang::TargetInfo &out);

/// The options that a target's code generator gets.
targets::Options targetOptions(const CompileOptions &o, Depth depth = Depth::Code);

struct Generated {
  std::vector<char> code; // object file; cubin, or PTX without an assembler
  runtime::KernelInfo info;
  std::string serialized; // AssemblyStats
};
/// Compiles tile IR to code. False: the error is reported to `diag` or, from the assembler, in `status`. `interrupted`
/// is called between stages, on this thread: true ends the compilation with TEGULA_CANCELLED.
bool generate(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name, Generated &out,
              TegulaTimings &times, DiagEngine &diag, runtime::Status &status, Depth depth = Depth::Code,
              const std::function<bool()> &interrupted = {});

/// The stages of a target after tile IR, in order; and every stage name there is.
std::vector<const char *> targetStages(const Target &t);
/// The passes of the stage "gpu", in order: "gpu@NAME" shows the IR after one of them.
std::vector<const char *> gpuPassNames();
/// Text or bytes of one of targetStages, or of "gpu@NAME"; nullopt: the error is reported, or in `status`.
std::optional<std::string> emitTargetStage(const ir::Module &tile, const Target &t, const CompileOptions &o,
                                           const std::string &name, std::string_view stage, DiagEngine &diag,
                                           runtime::Status &status);

} // namespace tegula::api
