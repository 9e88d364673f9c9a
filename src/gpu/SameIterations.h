// Recognizes values that iterations of two loops compute in the same way.
//
//   for off in range(0, n, BLOCK): total += tl.load(X + off + cols)                   # off, X + off + cols:
//   for at in range(0, n, BLOCK): tl.store(Y + at, tl.load(X + at + cols) - mean)     # the same as at, X + at + cols in iterations of the same number
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula::gpu {

/// Two values are the same if the same operations, none of which reads memory, compute them from the same values. The
/// IR must not change between two queries.
class SameIterations {
public:
  /// Alike: values of iterations with the same number. InFront: values before the first loop are compared with those of
  /// the first iteration of the second. GoesOn: the second loop does the later iterations of one loop.
  enum class Case : uint8_t { Alike, InFront, GoesOn };
  SameIterations(const ir::Op &first, const ir::Op &second, Case which = Case::Alike);

  bool haveSameBounds();
  bool same(const ir::Value *a, const ir::Value *b, unsigned depth = 0);

private:
  const ir::Op *first_, *second_;
  const Case case_;
  // from values of the first loop, or the values before it that they are computed from, to those of the second
  std::unordered_map<const ir::Value *, const ir::Value *> same_;
};

/// Does `loop` continue `before`: does it begin where `before` ends, a whole number of steps after `before` begins, and
/// make the same stores? So does the rest of a loop after the part whose rows are held (loops/HoldRows.h).
bool goesOn(const ir::Op &loop, const ir::Op &before);

} // namespace tegula::gpu
