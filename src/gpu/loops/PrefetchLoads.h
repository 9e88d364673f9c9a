// Software pipelining through registers: loads of the next iteration's dot operands are issued before this iteration's
// dot, so that the dot hides their latency. Loads of a few elements beside copies to shared memory are issued as many
// iterations ahead as those copies.
//
//   for k:  a = load p(k); acc = dot(a, ...)      becomes      a = load p(lb);  for k: next = load p(k+1); acc = dot(a, ...); a = next
//
// The same holds for loops without a dot in which threads synchronize (a row is reduced): no load moves over a barrier,
// so without this pass a block waits for memory in each iteration. Such loads go one iteration ahead if that takes few
// registers, or if the launch implies many iterations. (A loop over blocks of a row may run only once, and then the
// registers cost warps for nothing.) A loop with num_stages of its own (tl.range) goes as many iterations ahead as it
// asks for, or as registers allow. Where threads do not synchronize, warps drift apart without help (sums of arrays
// lost 5 % on an H200). The pass changes such a loop only if it asks for stages and an iteration loads so little that
// all warps together leave memory idle.
// The loads of the iteration after the last one are masked off. A loop stays as it is if it may write memory that it
// loads, if an address depends on a loaded value, or if it asks for one stage (num_stages = 1).
#pragma once
#include "gpu/TargetInfo.h"
#include "support/LaunchForms.h"

namespace tegula::gpu {

/// The bit of a form (LaunchForms) whose loops load further ahead than loops with an unknown trip count. The other bits
/// belong to the caller that makes the forms of a kernel.
constexpr uint8_t aheadForm = 128;
/// A trip count above this is large for a scan. It is also a limit between classes of trip counts in
/// targets/nvidia/occupancy/LoopBlocks.cpp.
constexpr int64_t fewTrips = 3;

/// Rewrites the loops of the kernel (GPU IR) in place. `blocks`: on a multiprocessor; 0: as many as fit by their
/// threads. `facts`: of the launches that the code is compiled for; null: decide without them. Where the decision for a
/// loop depends on its trip count, `asked` becomes two forms over the grid and the trip count, 1 and aheadForm;
/// `asked->form` is the form of this code. Loops with the same trip count get the same decision, others are decided as
/// if the trip count was unknown.
void prefetchLoads(ir::Module &m, const TargetInfo &target, const Options &options, unsigned blocks = 0,
                   const LaunchFacts *facts = nullptr, LaunchForms *asked = nullptr);

} // namespace tegula::gpu
