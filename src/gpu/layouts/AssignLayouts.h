// Decides where every tensor of a kernel lives among registers, lanes and warps, and writes the kernel with layouts in
// its types: tile IR in, GPU IR out. Where a value is needed in another layout than it was computed in, either a
// `convert` stands in the result or, for values that cost almost nothing (ranges, splats, index arithmetic), a second
// computation.
//
// How a value gets its home layout, strongest first (Rank):
//   accumulator   dot: the instruction decides
//   memory        load, atomic: coalesced, from the axis facts of the pointer
//   other         scans, results of histogram ...: what the operation needs
//   (none)        element-wise: the strongest of the operands; carried values: the strongest of initial value and update;
//                 what is still open has no home and is computed wherever it is used, or gets layout::dealtByRows
// Operations that only rename coordinates (expand_dims, broadcast, permute, reshape, splat) have no home: they are made
// in the layout a user wants, from the operand in the layout that needs no movement.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <memory>

namespace tegula::gpu {

/// `module` holds a kernel without calls. The result holds that kernel alone; memory operations in it carry the
/// attribute `vec`: elements of one access, consecutive in registers and in memory. `remarks`, if given, is told which
/// accesses are not wide.
std::unique_ptr<ir::Module> assignLayouts(const ir::Module &module, const TargetInfo &target, const Options &options,
                                          DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
