// Sinks conversions to a wider type as far as possible: loaded values stay packed, and loads with conversions between
// them start together.
//
//   scale = load(w).to(f32); shift = load(b).to(f32); ... scale * y + shift      becomes      load(w); load(b); ...; extend both; scale * y + shift
// Code generation keeps this order, and the assembler does not bring loads together by itself where registers are
// short.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Sinks each elementwise operation whose result takes more registers than its only tile operand to just before its
/// first user (or the loop or branch that contains the user), in place. Linear in the number of operations and their
/// nesting.
void sinkWidening(ir::Module &m);

} // namespace tegula::gpu
