// Removes dead code: operations whose results have no live uses, results of `if`, and loop-carried values that only
// feed themselves.
//
// Liveness starts at effects (Effects.h) and returns and propagates backwards along operands. A carried value is live
// if its result or one of its region arguments is; its initial value and its update are then live, too. So a counter
// that only updates itself stays dead. Loops and `if`s are live if they contain a live operation.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void removeDead(ir::Module &m);
void removeDead(ir::Function &f);

} // namespace tegula
