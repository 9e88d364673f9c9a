// What a GPU can do at most: the numbers that the cost model (Model.h) divides a kernel's work by, and how many blocks
// fit on a multiprocessor.
//
// A table by compute capability and name, so that a kernel for a GPU can be judged on a machine that has none. Rates
// are those of the data sheets, which name sustained clocks and dense matrices; what a kernel reaches of them is the
// model's business.
#pragma once
#include <cstdint>
#include <string_view>

namespace tegula::tune {

struct GpuCeilings {
  const char *name;      // found in the driver's description of the device
  uint32_t capability;   // 90
  uint32_t cores;        // multiprocessors
  double clockGhz;       // boost
  double memoryGBs;      // device memory, peak
  double l2GBs;          // L2 to all multiprocessors, reads
  uint64_t l2Bytes;
  // Of each multiprocessor:
  uint32_t threads, blocks, registers, sharedBytes;
  uint32_t mma16, mma8, mmaTf32; // multiply-adds of tensor cores a clock: 16-bit, 8-bit, tf32 operands
  uint32_t fp32, fp64, special;  // lanes a clock: FMAs, double FMAs, elementary functions
  uint32_t int32;                // lanes a clock: integer additions and the like
};

/// The row of the device: the first of its capability whose name `description` contains, else the first of its
/// capability; of a capability that the table has not, the nearest row below (or the first). `cores`: what the device
/// says it has, 0: unknown, the row's.
GpuCeilings gpuCeilings(uint32_t capability, std::string_view description = {}, uint32_t cores = 0);

/// Blocks that share a multiprocessor; 0 if not even one fits. Registers are given out in units of 256 to whole warps,
/// of which each quarter of a multiprocessor has a quarter; shared memory in units of 128 bytes, and from 8.0 on the
/// system takes 1 KiB for each block.
uint32_t blocksPerCore(const GpuCeilings &gpu, uint32_t threads, uint32_t registers, uint32_t sharedBytes);

} // namespace tegula::tune
