// Moves pure operations out of loops when nothing they need changes in the loop.
//
// Inner loops come first, so an operation climbs as many loops as it can in one walk. Only operations that stand
// directly in the body of a loop move (not those under an `if`: they may be expensive and rarely needed), and only pure
// ones:
// loads stay, because a loop that runs zero times must not touch memory. A loop with attribute disable_licm = 1 keeps
// what it has; one around dozens of loops keeps scalars, addresses and offsets that are cheap to make. Runs after
// Simplify has merged equal operations, so that one copy moves and not ten.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void hoistInvariants(ir::Module &m);

} // namespace tegula
