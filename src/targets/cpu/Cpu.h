// The CPU target: from tile IR to an object file, one function per arrow.
//
//   ir::Module --plan--> Plan (loop nests over native vectors and scratch buffers) --emit--> LLVM IR --codegen-->
//     object
// compile() runs them all; each arrow can be printed (Stage). Thread-safe: no global mutable state, one LLVMContext a
// call.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include "targets/Meta.h"
#include "targets/Options.h"
#include <optional>
#include <string>
#include <vector>

namespace tegula::cpu {

/// What code is generated for. `triple`/`cpu`/`features` are LLVM's; the rest is derived from them.
struct CpuTarget {
  std::string triple;    // x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu
  std::string cpu;       // LLVM CPU name, used for scheduling
  std::string features;  // "+avx512f,+avx512bf16,..."
  unsigned vectorBits = 128; // native vector register width
  bool avx512Bf16 = false, avx512Vnni = false, avxVnni = false, fma = false, f16c = false, avx512 = false, avx2 = false;
  bool slowPairsOfBf16 = false; // one vdpbf16ps in two cycles: two multiply-adds of float a cycle do more
  /// One instruction adds four products of bytes to each sum of a native vector.
  bool multipliesBytes() const { return avx512 ? avx512Vnni : avxVnni; }
  uint64_t l1Bytes = 32768, l2Bytes = 524288, l3Bytes = 32 << 20;
  /// Cores with that much L2 share their last level with many others, 300 cycles away (Emerald Rapids), where those
  /// with less have it beside them.
  bool lastLevelIsFar() const { return l2Bytes >= 2 << 20; }

  bool operator==(const CpuTarget &) const = default;
};

/// "cpu" or "cpu:native" = this machine; "cpu:x86-64" (baseline, SSE2), "cpu:avx2", "cpu:avx2vnni", "cpu:avx512",
/// "cpu:avx512bf16", "cpu:aarch64" (NEON). Returns nullopt for other names; `knownTargetNames` lists them for the
/// message.
std::optional<CpuTarget> parseTarget(std::string_view name);
std::vector<std::string> knownTargetNames();
/// Can a machine that is `machine` execute code made for `code`?
bool runsOn(const CpuTarget &code, const CpuTarget &machine);
/// The instructions of `code`, the caches and the speed of instructions of `machine`.
CpuTarget tunedFor(CpuTarget code, const CpuTarget &machine);
/// Canonical text of everything that changes generated code; part of the cache key.
std::string targetKey(const CpuTarget &t);

using targets::Depth;
using targets::Options;
using targets::ArgSlot;
using targets::CompileTimes;
using targets::KernelMeta;
using targets::Site;
using CpuKernel = targets::Compiled;

enum class Stage : uint8_t { Plan, Llvm, Asm, Object };

/// Compiles the module's kernel. On failure the reason has been reported to `diag` and nullopt comes back.
/// `module` is read only.
std::optional<CpuKernel> compile(const ir::Module &module, const CpuTarget &target, const Options &options,
                                 DiagEngine &diag);
/// The text (or bytes) of one stage, for `tegula compile --emit cpu|llvm|asm|obj`.
std::optional<std::string> emitStage(const ir::Module &module, const CpuTarget &target, const Options &options,
                                     Stage stage, DiagEngine &diag);

} // namespace tegula::cpu
