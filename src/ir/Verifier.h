// Checks that a module keeps the rules of the IR: what Ops.def says of operands, results, regions and attributes, the
// types and shapes every operation asks for, dominance, terminators; and that nothing of the GPU level stands in tile
// IR.
//
// Passes and targets trust these rules and do not check them again. After sema every failure is an internal error.
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

/// Tile IR has neither layouts, tiles in shared memory, nor what the tables of src/gpu add.
enum class Level : uint8_t { Tile, Gpu };

/// False if a rule is broken; `why` (may be null) then says which operation breaks which rule, with its text, and
/// `where` (may be null) is its place, or that of its function.
bool verify(const Module &m, std::string *why, Loc *where = nullptr, Level level = Level::Gpu);

} // namespace tegula::ir
