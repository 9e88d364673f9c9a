// Peak rates and capacities of GPUs: the cost model (Model.h) divides a kernel's work by them. Also computes how many
// blocks fit on a multiprocessor.
//
// A table by compute capability and name, so that a kernel can be evaluated for a GPU that the machine lacks. Rates are
// those of the data sheets, for sustained clocks and dense matrices; the model estimates which part of them a kernel
// reaches.
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
/// capability. For a capability that the table lacks, the nearest lower row (or the first). `cores`: the device's
/// multiprocessors; 0: unknown, then the row's.
GpuCeilings gpuCeilings(uint32_t capability, std::string_view description = {}, uint32_t cores = 0);

/// Blocks that share a multiprocessor; 0 if not even one fits. Registers are allocated to whole warps in units of 256,
/// and each quarter of a multiprocessor has a quarter of them. Shared memory is allocated in units of 128 bytes; from
/// 8.0 on the system takes 1 KiB for each block.
uint32_t blocksPerCore(const GpuCeilings &gpu, uint32_t threads, uint32_t registers, uint32_t sharedBytes);

} // namespace tegula::tune
