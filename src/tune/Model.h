// The cost model: an estimate of the time of a launch, and what bounds it, from what the kernel does (support/Work.h),
// what it takes of the device (registers, shared memory) and what the device can do (Ceilings.h). A pure function:
// nothing is measured, no clock is read, equal inputs give equal numbers.
//
//   Work --demandOf (grid, arguments)--> Demand --gpuTime | cpuTime (ceilings)--> parts --> ns
//
// It is made to rank forms of one kernel (tile sizes, warps, stages) on one shape, not to predict times: parts that all
// forms share may be off together. docs/autotuning.md says how it was fitted and how well it ranks.
#pragma once
#include "tune/Ceilings.h"
#include "tune/Demand.h"

namespace tegula::tune {

/// What a CPU can do; of one core unless it says otherwise.
struct CpuCeilings {
  double threads = 1;      // that run programs
  double vectorBits = 128;
  double fmasPerClock = 2; // vectors
  double clockGhz = 2.5;
  double l1Bytes = 32768, l2Bytes = 1 << 20, l3Bytes = 32 << 20; // the last one of all cores
  bool dots16 = false, dots8 = false;                            // has instructions for bf16 and int8 dots
};

/// One cause of time.
struct Part {
  const char *name; // "tensor cores"
  double ns;        // that the launch would take if nothing else took any
};

struct Estimate {
  double ns = 0;
  std::vector<Part> parts;
  Demand demand;
  /// For people: the part that bounds the launch, then parts and demand, a line each.
  std::string why() const;
};

/// `d` as demandOf gives it, with `blocks` filled in.
Estimate gpuTime(const Demand &d, const GpuCeilings &gpu);
Estimate cpuTime(const Demand &d, const CpuCeilings &cpu);

/// `use` as far as the assembler or the driver told; without registers an ordinary number is taken.
Estimate estimateGpu(const runtime::KernelInfo &info, runtime::GpuUse use, const Launch &launch,
                     const GpuCeilings &gpu);
Estimate estimateCpu(const runtime::KernelInfo &info, const Launch &launch, const CpuCeilings &cpu);

} // namespace tegula::tune
