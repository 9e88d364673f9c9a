// When a mask is on for every element of its tile, as a condition on scalars.
//
//   start + range(1024) < n                              start + 1023 <= n - 1, and start + 1023 is a number of 32 bits
//   all | (rows[:, None] >= columns[None, :])            all, or smallest row >= largest column
//
// Exact where elements have 32 bits: bounds are computed in 64, and where a tile's arithmetic would have wrapped the
// condition is false. 64-bit index arithmetic is trusted not to overflow inside a tile (AxisFacts.h). The condition
// suffices; where ranges along one axis stand in both operands of a comparison it need not be necessary.
//
// Reading a mask and writing the condition are apart: passes decide by the first whether to do anything, and the second
// adds operations.
#pragma once
#include "ir/Builder.h"
#include <functional>
#include <optional>
#include <vector>

namespace tegula::gpu {

/// The elements of an integer tile: a sum of scalars times constants, which all elements have, and a number from
/// `least` to `most`.
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
  /// The scalars that a condition may be made of: those that exist where it is written. Empty: all.
  using IsKnown = std::function<bool(const ir::Value *)>;

  /// Of a mask: a tile of i1 (or a scalar). Nullopt: it depends on what is no scalar, or on scalars that are not known.
  /// Looks at a bounded number of operations.
  static std::optional<Everywhere> of(ir::Value *mask, const IsKnown &isKnown = {});

  /// Writes the condition at the builder's place. Returns an i1.
  ir::Value *write(ir::Builder &b) const;

private:
  friend class MaskReader;
  enum class Kind : uint8_t { Scalar, AtMost, And, Or };
  Kind kind = Kind::And;
  ir::Value *scalar = nullptr;       // Scalar
  Elements less, more;               // AtMost: all elements of `less` are at most those of `more`, less `margin`
  int64_t margin = 0;
  std::vector<Elements> numbers;     // AtMost: what was computed in 32 bits
  std::vector<Everywhere> parts;     // And, Or
};

} // namespace tegula::gpu
