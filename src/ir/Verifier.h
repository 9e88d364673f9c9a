// Checks that a module obeys the rules of the IR: the operands, results, regions and attributes in Ops.def, the types
// and shapes that each operation requires, dominance, terminators; and that tile IR contains nothing of the GPU level.
//
// Passes and targets trust these rules and do not check them again. After sema every failure is an internal error.
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

/// Tile IR has no layouts, no tiles in shared memory, and none of the additions in the tables of src/gpu.
enum class Level : uint8_t { Tile, Gpu };

/// False if a rule is broken; `why` (may be null) then says which operation breaks which rule, with its text, and
/// `where` (may be null) is its place, or that of its function.
bool verify(const Module &m, std::string *why, Loc *where = nullptr, Level level = Level::Gpu);

} // namespace tegula::ir
