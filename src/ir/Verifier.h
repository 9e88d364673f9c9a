// Checks that a module keeps the rules of the IR: what Ops.def says of operands, results, regions and attributes, the
// types and shapes every operation asks for, dominance, terminators.
//
// Passes and targets trust these rules and do not check them again. After sema every failure is an internal error.
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

/// False if a rule is broken; `why` (may be null) then says which operation breaks which rule, with its text, and `where`
/// (may be null) is its place, or that of its function.
bool verify(const Module &m, std::string *why, Loc *where = nullptr);

} // namespace tegula::ir
