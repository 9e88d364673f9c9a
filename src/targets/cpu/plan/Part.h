// Which part of a dot counts: rows and columns, or one side of a diagonal, of the result that somebody sees, and the k
// at which not all of both operands are zero.
//
// Tiles at the end of a matrix are full tiles for the language. What lies after the matrix is loaded as zero or from
// elsewhere (`% M`), multiplied, and not stored.
#pragma once
#include "targets/cpu/plan/BitMap.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

struct DotPart {
  /// An integer comparison that is made for each element of a tile; `at`: bits of its own result as bits of the tile.
  /// `bothDims`: it depends on row and column.
  struct Condition {
    const ir::Op *compare;
    Bits at;
    bool bothDims;
  };
  using Conditions = llvm::SmallVector<Condition, 2>; // all of them
  /// Of the result [m][n], for each store and each `select` that sees it: it looks at no element for which one of these
  /// does not hold. Nothing: it may be seen as a whole.
  llvm::SmallVector<Conditions, 1> seen;
  /// Of the operands [m][k] and [k][n]: elements for which one of these does not hold are zero.
  Conditions left, right;
  /// A store that writes the result (or what is made of it element by element) to one place after all loops that carry
  /// it; null: none is known.
  const ir::Op *store = nullptr;
};

/// Whatever the conditions of `seen` are made from is defined outside of every loop that carries the result into its
/// next iteration: they are the same there.
DotPart partOf(const ir::Op &dot, const Uses &uses);

} // namespace tegula::cpu
