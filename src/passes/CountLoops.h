// `while` loops that count become `for` loops, which other passes know how to pipeline, share, and ask how often they
// run:
//
//   %r, %n = while %x, %i0 (%a, %i) {                    %r, %n = for %i0, %end, 64, %x, %i0 (%i, %a, %last) {
//     condition (cmpi %i, %end {slt}), %a, %i               ...
//   } do (%a, %i) {                                  =>      yield %b, (add %i, 64)
//     ...                                                 }
//     yield %b, (add %i, 64)
//   }
//
// The counter, an i32 or i64, is compared with a value from outside of the loop and goes up by a positive constant in
// every iteration; the condition does nothing else. What it is after the loop is carried only if somebody reads it
// there. As in `range`, a counter is not expected to go beyond its type's largest number.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void countLoops(ir::Module &m);

} // namespace tegula
