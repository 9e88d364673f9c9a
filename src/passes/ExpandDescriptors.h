// Turns accesses through tensor descriptors (desc_load, desc_store, desc_reduce) into plain loads, stores and atomics.
//
//   %x = desc_load %base, %e0, %e1, %s0, %s1, %o0, %o1
//     =>  %p    = base + o0 * s0 + o1                       one scalar address, in 64 bits
//         %ptrs = %p + range(B0)[:, None] * s0 + range(B1)[None, :]
//         %mask = (o0 + range(B0) in [0, e0))[:, None] & (o1 + range(B1) in [0, e1))[None, :]
//         %x    = load %ptrs, %mask, 0 (or NaN)                 tf32 = 1: rounded by integer arithmetic
//
// Where the first offset is a tensor (rows by index), it takes the place of o0 + range(B0).
//
// By contract the last stride is 1 and the others are multiples of 16 bytes: hints on the scalar address and on the
// rows' offsets pass this to AxisFacts. The two bounds are one unsigned comparison, and a signed one where the offset
// cannot be negative. A store whose blocks never overlap in part gets `tiled = 1`: the same thread writes an element at
// every execution of the store. The pass stands after the first simplify, so that a target that asks to keep some
// operations sees their operands in simple form, and before the passes that move addresses out of loops.
#pragma once
#include "passes/AxisFacts.h"

namespace tegula {

/// Whether the target keeps this desc operation because it has a better implementation. The facts are of the function
/// before the pass: TMA, for one, takes only blocks whose innermost offset is known to be a multiple of 16 bytes
/// (docs/hopper.md §2.2).
using KeepDescriptor = bool (*)(const ir::Op &op, const AxisFacts &facts, const void *target);

/// True if anything was expanded.
bool expandDescriptors(ir::Module &m, KeepDescriptor keep, const void *target = nullptr);
/// Expands all of them.
void expandDescriptors(ir::Module &m);

} // namespace tegula
