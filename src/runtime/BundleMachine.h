// Which entries of a bundle run on a machine, and which of them runs best. The words of `needs`:
//
//   CPU        "x86-64", "x86-64-v3", "x86-64-v3 avxvnni", "x86-64-v4 avx512vnni avx512bf16", "aarch64"
//   GPU        "cubin sm_80": this generation, later members of it too; "ptx sm_80": this and every later one; a name that ends in `a`: that GPU alone
//   simulator  "sim sm_90 x86-64-v3"
#pragma once
#include "runtime/Device.h"

namespace tegula::runtime {

/// Larger is better; -1: it does not run, and `why` is the end of a sentence ("needs avx512bf16, which this CPU
/// lacks"). Code with a rank above `most` (a rank of this function; $TEGULA_CPU_TARGET) is not used; negative: no
/// limit.
int cpuRank(std::string_view needs, int most, std::string &why);
/// `capability`: 90 for 9.0.
int gpuRank(std::string_view needs, uint32_t capability, std::string &why);
int simRank(std::string_view needs, std::string &why);

/// The rank of code with these needs, independent of this machine; -1: unknown words.
int cpuRankOf(std::string_view needs);

} // namespace tegula::runtime
