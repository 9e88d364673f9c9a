// Runs neighbouring programs as the lanes of vectors, where the accesses of one program are scattered and those of its
// neighbours are next to them in memory.
//
//   x + n[:, None] * K + program_id(1)        tensor<128x1>       becomes       tensor<128x1x16>: the last dimension are 16 programs
//
// A softmax over a middle axis, a sum down one column or a scan over gates of one head reads elements that are K apart:
// one from each cache line, lane by lane. The next program reads the adjacent elements. So up to `size` consecutive
// programs along one axis of the grid run as one: every value that differs between programs, scalars included, gets the
// programs as an additional last dimension, through loops, branches, reductions and scans. The lanes of a vector then
// hold the same element of different programs, and nothing is combined across lanes.
//
// The kernel tests how many programs there are. At least three quarters of `size` run as lanes, with all loads and
// stores masked to the programs that exist; fewer run one by one, as before:
//
//   count = <how many run now>                                       ProgramGroup::count
//   if count > 1 { the kernel, of `size` programs } else { the kernel }
//
// Correct for each kernel whose programs are independent. Kernels with atomics, barriers over the grid, output,
// assertions, products, `while`, volatile accesses or pointers from memory are left unchanged, as are kernels in which
// loops or branches differ between programs.
#pragma once
#include "targets/cpu/plan/GroupPrograms.h"

namespace tegula::cpu {

/// How programs of the kernel of `m` run as lanes; nullopt if that does not pay or is not known to be correct.
std::optional<ProgramGroup> programLanes(const ir::Module &m, const CpuTarget &target);
/// Rewrites the kernel for `group`, which programLanes() returned for this module, and completes `group`.
void programsAsLanes(ir::Module &m, ProgramGroup &group);

} // namespace tegula::cpu
