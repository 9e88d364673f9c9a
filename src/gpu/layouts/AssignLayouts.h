// Assigns a layout over registers, lanes and warps to every tensor of a kernel, and writes the kernel with layouts in
// its types: tile IR in, GPU IR out. Where a user needs another layout than the value was computed in, the pass inserts
// a `convert`, or rematerializes cheap values (ranges, splats, index arithmetic).
//
// How a value gets its anchor layout (its home), strongest first (Rank):
//   accumulator   dot: the instruction decides
//   memory        load, atomic: coalesced, from the axis facts of the pointer
//   other         scans, results of histogram ...: what the operation needs
//   (none)        element-wise: the strongest of the operands; carried values: the strongest of initial value and update;
//                 what is still open has no home and is computed wherever it is used, or gets layout::dealtByRows
// View operations (expand_dims, broadcast, permute, reshape, splat) have no home: they are written in the layout that a
// user needs, from the operand in the layout from which no data moves.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <memory>

namespace tegula::gpu {

/// `module` holds a kernel without calls. The result has only that kernel; its memory operations have the attribute
/// `vec`: the number of elements of one access, consecutive in registers and in memory. `remarks`, if given, receives
/// the accesses that are not wide.
std::unique_ptr<ir::Module> assignLayouts(const ir::Module &module, const TargetInfo &target, const Options &options,
                                          DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
