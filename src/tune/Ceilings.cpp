// The table of Ceilings.h.
#include "tune/Ceilings.h"
#include <algorithm>
#include <iterator>

namespace tegula::tune {

namespace {
// Sources. Multiprocessors, clocks, memory and tensor rates: NVIDIA's data sheets and architecture papers (A100 Tensor
// Core GPU Architecture, 2020, table 5;
// GA102 whitepaper, 2021, table 2; Ada whitepaper, 2023, appendix A; H100 Tensor Core GPU Architecture, 2022, table 3;
// H200 data sheet, 2023). Rates per multiprocessor and clock: CUDA C++ programming guide, table of arithmetic
// throughput; limits of a multiprocessor: its table of technical specifications. L2:
// bytes a clock from the papers (5120 on GA100, and taken to be that on GH100), less a tenth; of GA102 and AD102
// estimates.
constexpr uint32_t K = 1024;
constexpr uint64_t M = uint64_t(1) << 20;
constexpr GpuCeilings rows[] = {
    // name, capability, cores, GHz, memory, L2 GB/s, L2 bytes, threads, blocks, registers, shared, mma16, mma8, tf32,
    // fp32, fp64, special, int32
    {"A100", 80, 108, 1.41, 2039, 6500, 40 * M, 2048, 32, 64 * K, 164 * K, 1024, 2048, 512, 64, 32, 16, 64},
    {"A10", 86, 72, 1.70, 600, 1800, 6 * M, 1536, 16, 64 * K, 100 * K, 512, 1024, 256, 128, 2, 16, 64},
    {"L40S", 89, 142, 2.52, 864, 3500, 96 * M, 1536, 24, 64 * K, 100 * K, 512, 1024, 256, 128, 2, 16, 64},
    {"L4", 89, 58, 2.04, 300, 1700, 48 * M, 1536, 24, 64 * K, 100 * K, 512, 1024, 256, 128, 2, 16, 64},
    {"H100", 90, 132, 1.83, 3352, 8400, 50 * M, 2048, 32, 64 * K, 228 * K, 2048, 4096, 1024, 128, 64, 16, 64},
    {"H200", 90, 132, 1.83, 4800, 8400, 50 * M, 2048, 32, 64 * K, 228 * K, 2048, 4096, 1024, 128, 64, 16, 64},
};

constexpr uint32_t roundUp(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }
} // namespace

GpuCeilings gpuCeilings(uint32_t capability, std::string_view description, uint32_t cores) {
  const GpuCeilings *best = &rows[0];
  for (const GpuCeilings &r : rows)
    if (r.capability <= capability && r.capability > best->capability) best = &r;
  for (const GpuCeilings &r : rows)
    if (r.capability == best->capability && description.find(r.name) != description.npos) {
      best = &r;
      break;
    }
  GpuCeilings found = *best;
  if (cores) found.cores = cores;
  return found;
}

uint32_t blocksPerCore(const GpuCeilings &gpu, uint32_t threads, uint32_t registers, uint32_t sharedBytes) {
  constexpr uint32_t quarters = 4, reserved = 1 * K;
  uint32_t warps = (std::max(threads, 1u) + 31) / 32;
  uint32_t perWarp = roundUp(std::max(registers, 1u) * 32, 256);
  uint32_t fit = gpu.registers / quarters / perWarp * quarters / warps;
  fit = std::min({fit, gpu.threads / (warps * 32), gpu.blocks});
  return std::min(fit, gpu.sharedBytes / (roundUp(sharedBytes, 128) + reserved));
}

} // namespace tegula::tune
