// Loads of the next iteration's dot operands are issued before the dot of this iteration, so that their latency
// overlaps with it: software pipelining by registers, one iteration ahead; a few elements, beside copies to shared
// memory that are further ahead, as far as those.
//
//   for k:  a = load p(k); acc = dot(a, ...)      becomes      a = load p(lb);  for k: next = load p(k+1); acc = dot(a, ...); a = next
//
// So are loads of loops without a dot in which threads synchronize (a row is reduced): no load moves over a barrier, so
// without this a block waits for memory in each iteration. One iteration ahead if that takes few registers, or if the
// launch says that there are many (a loop over blocks of a row may be over at once, and then registers cost warps for
// nothing); as many as the loop asks for itself (num_stages of tl.range), or registers allow. Where threads do not
// synchronize, warps run ahead by themselves (sums of arrays lost 5 % on an H200), unless an iteration loads so little
// that all warps together leave memory idle, and the loop asks for stages.
// The loads of the iteration after the last are masked off. A loop is left alone if it may write what it loads, if an
// address depends on something loaded, or if it asks for one stage (num_stages = 1).
#pragma once
#include "gpu/TargetInfo.h"
#include "support/LaunchForms.h"

namespace tegula::gpu {

/// The bit of a form (LaunchForms) whose loops load more ahead than those of unknown trips do. Whoever makes the forms
/// of a kernel has the others.
constexpr uint8_t aheadForm = 128;
/// More trips than these are many for a scan; also a limit by which others class trips
/// (targets/nvidia/occupancy/LoopBlocks.cpp).
constexpr int64_t fewTrips = 3;

/// `blocks`: on a multiprocessor; 0: as many as there are threads for. `facts`: of the launches that code is made for;
/// null: not to be decided by. Where a loop is by its trips, `asked` becomes two forms over the grid and that number, 1
/// and aheadForm, of which `form` is that of this code. It and those with the same trips are decided alike, others as
/// if nothing was known.
void prefetchLoads(ir::Module &m, const TargetInfo &target, const Options &options, unsigned blocks = 0,
                   const LaunchFacts *facts = nullptr, LaunchForms *asked = nullptr);

} // namespace tegula::gpu
