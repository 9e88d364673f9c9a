// The cost model: estimates the time of a launch, and its bottleneck, from the kernel's work (support/Work.h), its
// resources (registers, shared memory) and the device's peak rates (Ceilings.h). A pure function: it measures nothing
// and reads no clock; equal inputs give equal numbers.
//
//   Work --demandOf (grid, arguments)--> Demand --gpuTime | cpuTime (ceilings)--> parts --> ns
//
// Its purpose is to rank forms of one kernel (tile sizes, warps, stages) on one shape, not to predict times: parts that
// all forms share may have a common error. docs/autotuning.md describes how it was fitted and how well it ranks.
#pragma once
#include "tune/Ceilings.h"
#include "tune/Demand.h"

namespace tegula::tune {

/// Peak rates and capacities of a CPU; of one core unless stated otherwise.
struct CpuCeilings {
  double threads = 1;      // that run programs
  double vectorBits = 128;
  double fmasPerClock = 2; // vectors
  double clockGhz = 2.5;
  double l1Bytes = 32768, l2Bytes = 1 << 20, l3Bytes = 32 << 20; // the last one of all cores
  bool dots16 = false, dots8 = false;                            // has instructions for bf16 and int8 dots
};

/// One component of the time.
struct Part {
  const char *name; // "tensor cores"
  double ns;        // of the launch if this were its only cost
};

struct Estimate {
  double ns = 0;
  std::vector<Part> parts;
  Demand demand;
  /// For people: the part that limits the launch, then parts and demand, one line each.
  std::string why() const;
};

/// `d` as from demandOf, with `blocks` filled in.
Estimate gpuTime(const Demand &d, const GpuCeilings &gpu);
Estimate cpuTime(const Demand &d, const CpuCeilings &cpu);

/// `use` as far as the assembler or the driver reported it; without registers, a typical number is assumed.
Estimate estimateGpu(const runtime::KernelInfo &info, runtime::GpuUse use, const Launch &launch,
                     const GpuCeilings &gpu);
Estimate estimateCpu(const runtime::KernelInfo &info, const Launch &launch, const CpuCeilings &cpu);

} // namespace tegula::tune
