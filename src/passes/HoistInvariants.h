// Hoists pure operations whose operands are loop-invariant out of loops.
//
// Inner loops come first, so one walk hoists an operation out of as many loops as possible. Only operations directly in
// the body of a loop move (not those under an `if`: they may be expensive and rarely executed), and only pure ones:
// loads stay, because a loop that runs zero times must not touch memory. A loop with attribute disable_licm = 1 keeps
// its operations; a loop around dozens of loops keeps scalars, addresses and offsets that are cheap to compute. Runs
// after Simplify has merged equal operations, so that it hoists one copy and not ten.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void hoistInvariants(ir::Module &m);

} // namespace tegula
