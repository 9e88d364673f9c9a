// The part of a dot that counts: the rows and columns (or one side of a diagonal) of the result that are used, and the
// k at which the operands are not all zero.
//
// In the language, tiles at the edge of a matrix are full tiles. Elements beyond the edge are loaded as zero or from
// elsewhere (`% M`), multiplied, and not stored.
#pragma once
#include "targets/cpu/plan/BitMap.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

struct DotPart {
  /// An integer comparison that is evaluated for each element of a tile; `at`: bits of its result as bits of the tile.
  /// `bothDims`: it depends on row and column.
  struct Condition {
    const ir::Op *compare;
    Bits at;
    bool bothDims;
  };
  using Conditions = llvm::SmallVector<Condition, 2>; // their conjunction
  /// For each store and each `select` that uses the result [m][n]: it ignores elements for which one of these
  /// conditions does not hold. Empty: all elements may be used.
  llvm::SmallVector<Conditions, 1> seen;
  /// Elements of the operands [m][k] and [k][n] for which one of these conditions does not hold are zero.
  Conditions left, right;
  /// A store that writes the result (or a value computed from it element by element) to one place after all loops that
  /// carry it; null: none is known.
  const ir::Op *store = nullptr;
};

/// The operands of the conditions of `seen` are defined outside every loop that carries the result, so the conditions
/// are the same in each iteration.
DotPart partOf(const ir::Op &dot, const Uses &uses);

} // namespace tegula::cpu
