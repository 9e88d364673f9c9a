// Derives a condition on scalars under which a mask is on for every element of its tile.
//
//   start + range(1024) < n                              start + 1023 <= n - 1, and start + 1023 is a number of 32 bits
//   all | (rows[:, None] >= columns[None, :])            all, or smallest row >= largest column
//
// Sound for 32-bit elements: bounds are computed in 64 bits, and the condition is false where the arithmetic of the
// tile would wrap. 64-bit index arithmetic is assumed not to overflow inside a tile (AxisFacts.h). The condition is
// sufficient; where both operands of a comparison have ranges along one axis, it may not be necessary.
//
// Reading a mask and writing the condition are separate: passes decide after the first whether to rewrite, and only the
// second adds operations.
#pragma once
#include "ir/Builder.h"
#include <functional>
#include <optional>
#include <vector>

namespace tegula::gpu {

/// The elements of an integer tile: each is the sum of scalars times constants, common to all elements, and of a number
/// from `least` to `most`.
struct Elements {
  struct Term {
    ir::Value *scalar; // signed, of 32 or 64 bits
    int64_t factor;
  };
  std::vector<Term> terms;
  int64_t least = 0, most = 0;
};

class Everywhere {
public:
  /// May a condition use the scalar? It must be defined where the condition is written. Empty: all scalars may be used.
  using IsKnown = std::function<bool(const ir::Value *)>;

  /// Reads a mask, a tile of i1 (or a scalar). Nullopt if the mask is not computed from scalars, ranges and constants,
  /// or depends on scalars for which `isKnown` is false. Looks at a bounded number of operations.
  static std::optional<Everywhere> of(ir::Value *mask, const IsKnown &isKnown = {});

  /// Writes the condition at the builder's insertion point. Returns an i1.
  ir::Value *write(ir::Builder &b) const;

private:
  friend class MaskReader;
  enum class Kind : uint8_t { Scalar, AtMost, And, Or };
  Kind kind = Kind::And;
  ir::Value *scalar = nullptr;       // Scalar
  Elements less, more;               // AtMost: all elements of `less` are at most those of `more` minus `margin`
  int64_t margin = 0;
  std::vector<Elements> numbers;     // AtMost: intermediate values in 32 bits, which must not wrap
  std::vector<Everywhere> parts;     // And, Or
};

} // namespace tegula::gpu
