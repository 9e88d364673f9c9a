// Replaces calls by the bodies of their callees, except callees marked noinline, and drops functions nobody calls.
//
// Functions stand callees first, so one walk over the functions in order copies bodies that are already free of calls.
// Every copied operation remembers the way it came: Op::inlinedAt is a chain of call sites, innermost first, that ends
// at the call in the function it now stands in. Runs first, because everything else looks at one function at a time.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void inlineCalls(ir::Module &m);

} // namespace tegula
