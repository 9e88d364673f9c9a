// Targets by name, and from tile IR to code that a device loads: what the table of targets (targets/Target.h) says, in
// the words of the runtime.
#pragma once
#include "runtime/Device.h"
#include "sema/Sema.h"
#include "targets/Target.h"
#include <functional>

namespace tegula::api {

struct CompileOptions;
using targets::Depth;

/// What code is generated for.
struct Target {
  targets::TargetRef what; // null: nothing can be compiled for it
  std::string name;        // "cpu:avx512bf16", "sm_90a", "sim"
  // GPU: what the assembler takes; newer than the code's own target for GPUs that we have no target for
  std::string arch;

  bool isCpu() const { return is(targets::Machine::Cpu); }
  bool isGpu() const { return is(targets::Machine::Gpu); }
  bool isSim() const { return is(targets::Machine::Sim); }
  const targets::Target *operator->() const { return what.get(); }
  /// The same code, whatever it is called and assembled for?
  bool sameCode(const Target &o) const { return what && o.what && what->key() == o->key(); }

private:
  bool is(targets::Machine m) const { return what && what->machine() == m; }
};

/// Any name that `-t` takes.
std::optional<Target> parseTarget(std::string_view name);
/// All names, and the message for one that is none of them.
std::vector<std::string> targetNames();
std::string noSuchTarget(std::string_view name);
/// What this machine's processor is.
Target hostProcessor();
/// What a GPU of this driver ("cuda") and compute capability (90) runs; nullopt with the reason: nothing.
std::optional<Target> targetOfGpu(std::string_view driver, uint32_t capability, std::string &why);
/// Canonical text of everything outside of source and options that decides the code: the target and, for GPUs, the
/// assembler.
std::string targetKey(const Target &t);
/// "nvJitLink 12.9", "driver 12.8", or "none": who assembles PTX for `t`.
std::string assemblerName();

/// Of a value of tile IR.
TegulaDtype dtypeOf(ir::Elem e, bool isSigned);

/// Fills in what sema must know of the target.
void describeTarget(const Target &t, lang::TargetInfo &out);

/// What a target's code generator is told.
targets::Options targetOptions(const CompileOptions &o, Depth depth = Depth::Code);

struct Generated {
  std::vector<char> code; // object file; cubin, or PTX where there is no assembler
  runtime::KernelInfo info;
  std::string serialized; // AssemblyStats
};
/// Tile IR to code. False: reported to `diag`, or (assembler) in `status`. `interrupted` is asked between stages, on
/// this thread: true ends it as TEGULA_CANCELLED.
bool generate(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name, Generated &out,
              TegulaTimings &times, DiagEngine &diag, runtime::Status &status, Depth depth = Depth::Code,
              const std::function<bool()> &interrupted = {});

/// Stages of a target after tile IR, in order; and every stage name there is.
std::vector<const char *> targetStages(const Target &t);
/// Passes of the stage "gpu" of those that have one, in order: "gpu@NAME" is what there is after one of them.
std::vector<const char *> gpuPassNames();
/// Text or bytes of one of targetStages, or of "gpu@NAME"; nullopt: reported, or in `status`.
std::optional<std::string> emitTargetStage(const ir::Module &tile, const Target &t, const CompileOptions &o,
                                           const std::string &name, std::string_view stage, DiagEngine &diag,
                                           runtime::Status &status);

} // namespace tegula::api
