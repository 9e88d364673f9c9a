// Neighbouring programs as the lanes of vectors, where what one program touches is scattered and what its neighbours
// touch lies beside it.
//
//   x + n[:, None] * K + program_id(1)        tensor<128x1>       becomes       tensor<128x1x16>: the last dimension are 16 programs
//
// A softmax over a middle axis, a sum down one column or a scan over gates of one head reads elements that are K apart:
// one of each line, lane by lane, and the next program reads the ones beside them. So up to `size` programs that follow
// each other along one axis of the grid run as one: all that differs from program to program, scalars included, gets
// the programs as one dimension more, the last one, through loops, branches, reductions and scans. There lanes of one
// vector are in one place of as many programs, and nothing is combined across them.
//
// The kernel asks how many programs there are. From three quarters of `size` on they run so, all loads and stores under
// a mask of those that are there; fewer run one by one, as they did:
//
//   count = <how many run now>                                       ProgramGroup::count
//   if count > 1 { the kernel, of `size` programs } else { the kernel }
//
// It is right for each kernel whose programs know nothing of each other: those with atomics, barriers over the grid,
// output, assertions, products, `while`, volatile accesses or pointers from memory are left as they are, and so are
// those in which loops or branches differ from program to program.
#pragma once
#include "targets/cpu/plan/GroupPrograms.h"

namespace tegula::cpu {

/// How programs of the kernel of `m` run as lanes; nothing if that is not worth it, or not known to be right.
std::optional<ProgramGroup> programLanes(const ir::Module &m, const CpuTarget &target);
/// Writes the kernel anew for `group`, which programLanes() has found for this module, and completes it.
void programsAsLanes(ir::Module &m, ProgramGroup &group);

} // namespace tegula::cpu
