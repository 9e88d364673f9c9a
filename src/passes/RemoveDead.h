// Removes what has no influence: operations whose results nobody needs, results of `if`, and values carried around
// loops that only feed themselves.
//
// Liveness starts at effects (Effects.h) and returns and runs backwards along operands. A carried value is live if its
// result or one of its region arguments is, and then so are its initial value and its update; so a counter that only
// counts itself is never reached. Loops and `if`s are live if they hold something live.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void removeDead(ir::Module &m);
void removeDead(ir::Function &f);

} // namespace tegula
