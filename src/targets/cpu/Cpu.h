// The CPU target: from tile IR to an object file, one function per arrow.
//
//   ir::Module --plan--> Plan (loop nests over native vectors and scratch buffers) --emit--> LLVM IR --codegen-->
//     object
// compile() runs them all; the result of each arrow can be printed (Stage). Thread-safe: no global mutable state, one
// LLVMContext per call.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include "targets/Meta.h"
#include "targets/Options.h"
#include <optional>
#include <string>
#include <vector>

namespace tegula::cpu {

/// The machine that code is generated for. `triple`/`cpu`/`features` are LLVM's; the rest is derived from them.
struct CpuTarget {
  std::string triple;    // x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu
  std::string cpu;       // LLVM CPU name, used for scheduling
  std::string features;  // "+avx512f,+avx512bf16,..."
  unsigned vectorBits = 128; // native vector register width
  bool avx512Bf16 = false, avx512Vnni = false, avxVnni = false, fma = false, f16c = false, avx512 = false, avx2 = false;
  bool slowPairsOfBf16 = false; // one vdpbf16ps per two cycles: two float multiply-adds per cycle do more
  /// One instruction adds four products of bytes to each sum of a native vector.
  bool multipliesBytes() const { return avx512 ? avx512Vnni : avxVnni; }
  uint64_t l1Bytes = 32768, l2Bytes = 524288, l3Bytes = 32 << 20;
  /// Cores with at least 2 MiB of L2 share a last-level cache with many other cores, 300 cycles away (Emerald Rapids);
  /// cores with less L2 have their last-level cache nearby.
  bool lastLevelIsFar() const { return l2Bytes >= 2 << 20; }

  bool operator==(const CpuTarget &) const = default;
};

/// "cpu" or "cpu:native" = this machine; "cpu:x86-64" (baseline, SSE2), "cpu:avx2", "cpu:avx2vnni", "cpu:avx512",
/// "cpu:avx512bf16", "cpu:aarch64" (NEON). Returns nullopt for other names; `knownTargetNames` lists them for the
/// message.
std::optional<CpuTarget> parseTarget(std::string_view name);
std::vector<std::string> knownTargetNames();
/// Can `machine` execute code that was generated for `code`?
bool runsOn(const CpuTarget &code, const CpuTarget &machine);
/// A target with the instruction set of `code` and the cache sizes and instruction speeds of `machine`.
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

/// Compiles the module's kernel. On failure reports the reason to `diag` and returns nullopt.
/// Does not change `module`.
std::optional<CpuKernel> compile(const ir::Module &module, const CpuTarget &target, const Options &options,
                                 DiagEngine &diag);
/// The text (or bytes) of one stage, for `tegula compile --emit cpu|llvm|asm|obj`.
std::optional<std::string> emitStage(const ir::Module &module, const CpuTarget &target, const Options &options,
                                     Stage stage, DiagEngine &diag);

} // namespace tegula::cpu
