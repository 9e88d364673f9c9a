// Values that iterations of two loops compute in the same way.
//
//   for off in range(0, n, BLOCK): total += tl.load(X + off + cols)                   # off, X + off + cols:
//   for at in range(0, n, BLOCK): tl.store(Y + at, tl.load(X + at + cols) - mean)     # the same as at, X + at + cols in iterations of the same number
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula::gpu {

/// Values are the same if the same operations compute them of the same values, none of which reads memory. The IR must
/// not change between two questions.
class SameIterations {
public:
  /// Of iterations of one number; values before the first loop, which are those of the first iteration of the second;
  /// one loop, of which the second does later iterations than the first.
  enum class Case : uint8_t { Alike, InFront, GoesOn };
  SameIterations(const ir::Op &first, const ir::Op &second, Case which = Case::Alike);

  bool haveSameBounds();
  bool same(const ir::Value *a, const ir::Value *b, unsigned depth = 0);

private:
  const ir::Op *first_, *second_;
  const Case case_;
  // of the first loop, or the values before it that they are computed from
  std::unordered_map<const ir::Value *, const ir::Value *> same_;
};

/// Does the loop do the iterations after those of `before`, which ends where it begins, a whole number of steps after
/// its own beginning, with the same stores? As what a loop does after the part of it whose rows are held
/// (loops/HoldRows.h).
bool goesOn(const ir::Op &loop, const ir::Op &before);

} // namespace tegula::gpu
