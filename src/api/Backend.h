// The code generators behind one face: what a target is, and from tile IR to code that a device loads.
#pragma once
#include "ir/ExpandAsm.h"
#include "runtime/Device.h"
#include "sema/Sema.h"
#include "targets/cpu/Cpu.h"
#include "targets/nvidia/Nvidia.h"
#include <variant>

namespace tegula::api {

struct CompileOptions;

/// What code is generated for.
struct Target {
  std::variant<cpu::CpuTarget, nvidia::NvTarget> what;
  std::string name; // "cpu:avx512bf16", "sm_90a", "sim"
  std::string arch; // GPU: what the assembler takes; newer than the code's own target for GPUs that we have no target for

  const cpu::CpuTarget *cpu() const { return std::get_if<cpu::CpuTarget>(&what); }
  const nvidia::NvTarget *nv() const { return std::get_if<nvidia::NvTarget>(&what); }
  bool isGpu() const { return nv() && !nv()->simulate; }
  bool isSim() const { return nv() && nv()->simulate; }
};

/// Any name that `-t` takes.
std::optional<Target> parseTarget(std::string_view name);
/// All names, and the message for one that is none of them.
std::vector<std::string> targetNames();
std::string noSuchTarget(std::string_view name);
/// What a GPU of this compute capability (90) runs; nullopt: too old.
std::optional<Target> targetOfGpu(uint32_t capability);
/// Canonical text of everything outside of source and options that decides the code: the target and, for GPUs, the assembler.
std::string targetKey(const Target &t);
/// "nvJitLink 12.9", "driver 12.8", or "none": who assembles PTX for `t`.
std::string assemblerName();

/// Of a value of tile IR.
TegulaDtype dtypeOf(ir::Elem e, bool isSigned);

/// Fills in what sema must know of the target.
void describeTarget(const Target &t, lang::TargetInfo &out);

/// Who executes PTX that the kernel wrote as operations of the IR; nullopt: it stays text, for a GPU's assembler.
std::optional<ir::AsmExecutor> asmExecutor(const Target &t);

/// What a target changes in tile IR behind the passes that all share.
void finishTile(ir::Module &tile, const Target &t);

struct Generated {
  std::vector<char> code; // object file; cubin, or PTX where there is no assembler
  runtime::KernelInfo info;
};
enum class Depth : uint8_t {
  Code,
  Sketch, // everything but the code, in a few hundredths of the time
  Source  // the same with the work as the source has it, whatever the target splits
};
/// Tile IR to code. False: reported to `diag`, or (assembler) in `status`.
bool generate(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name, Generated &out, TegulaTimings &times,
              DiagEngine &diag, runtime::Status &status, Depth depth = Depth::Code);

/// Stages of a target after tile IR, in order; and every stage name there is.
std::span<const char *const> targetStages(const Target &t);
/// Passes of the stage "gpu", in order: "gpu@NAME" is what there is behind one of them.
std::vector<const char *> gpuPassNames();
/// Text or bytes of one of targetStages, or of "gpu@NAME"; nullopt: reported, or in `status`.
std::optional<std::string> emitTargetStage(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name,
                                           std::string_view stage, DiagEngine &diag, runtime::Status &status);

} // namespace tegula::api
