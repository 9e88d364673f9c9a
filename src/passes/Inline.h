// Replaces calls by the bodies of their callees, except callees marked noinline, and removes functions without callers.
//
// Functions stand callees first, so one walk over the functions in order copies bodies that are already free of calls.
// Every copied operation records its call path: Op::inlinedAt is a chain of call sites, innermost first, that ends at
// the call in the function that now contains it. Runs first, because every later pass looks at one function at a time.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void inlineCalls(ir::Module &m);

} // namespace tegula
