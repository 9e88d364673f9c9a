// Turns counting `while` loops into `for` loops, which other passes can pipeline, split, and compute the trip count of:
//
//   %r, %n = while %x, %i0 (%a, %i) {                    %r, %n = for %i0, %end, 64, %x, %i0 (%i, %a, %last) {
//     condition (cmpi %i, %end {slt}), %a, %i               ...
//   } do (%a, %i) {                                  =>      yield %b, (add %i, 64)
//     ...                                                 }
//     yield %b, (add %i, 64)
//   }
//
// The counter, an i32 or i64, is compared with a loop-invariant value and increases by a positive constant in every
// iteration; the condition does nothing else. The loop carries the counter's last value only if it has a use after the
// loop. As in `range`, the pass assumes that a counter does not overflow its type.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void countLoops(ir::Module &m);

} // namespace tegula
