// Linear forms of index tensors: base + sum over index bits of coefficient * bit + opaque parts.
//
// Every integer and pointer tensor has one. `pid * 1024 + arange(0, 1024)` is {base: pid*1024, coefficients 1, 2, 4,
// ...};
// a pointer counts in bytes. A nonlinear term (a remainder, an index loaded from memory) is an opaque part: a tensor
// that is evaluated where it is needed. Because coefficients belong to bits, shape operations only move them.
//
// Sign extensions to 64 bits are distributed: sext(a + b) becomes sext(a) + sext(b), which differs where the 32-bit sum
// wraps around. Such forms are marked `assumed` and used for addresses only; values used as data (hashes, random
// numbers) are exact, as all arithmetic on them is modulo 2^32. The address of each element that exists is correct:
//   * Terms that are uniform over the tile, and opaque parts, are added and multiplied modulo 2^32 before they are
//     extended (Narrow): an exact 32-bit number, even if it wrapped.
//   * The other terms, coefficients times bits, are together less than 2^30. For constants a test here ensures that
//     (extendLin); for factors known at launch only, a test of each launch does (LaunchFactors.h). A launch that fails
//     it runs code that multiplies by that factor modulo 2^32, element by element. (Loaded factors are assumed to be
//     small.)
//   * So the form differs from the 32-bit number only if that is 2^30 or more away from 0, and no tensor has such an
//     element: where one does, passes/WidenOffsets.h has already widened the arithmetic to 64 bits.
#pragma once
#include "targets/cpu/plan/BitMap.h"
#include "llvm/IR/Value.h"
#include <optional>

namespace tegula::cpu {

/// k * s, or k if s is null.
struct Coef {
  int64_t k = 0;
  llvm::Value *s = nullptr;
  bool zero() const { return k == 0; }
  bool operator==(const Coef &) const = default;
};

struct Opaque {
  const ir::Value *value;
  Bits at;             // bits of the owner of the form
  Coef scale{1};
  bool extend = false; // signed extension to 64 bits before scaling
  int narrow = -1;     // index into Lin::narrow: scaled by `scale` in 32 bits and added to that sum
};

/// The 32-bit sum of `base` and the opaque parts whose `narrow` is its index, then extended to 64 bits and scaled.
struct Narrow {
  llvm::Value *base; // i32
  Coef scale{1};
};

struct Lin {
  llvm::Value *base = nullptr;
  llvm::SmallVector<Coef, 12> coef;
  llvm::SmallVector<Opaque, 1> opaque;
  llvm::SmallVector<Narrow, 1> narrow; // each with opaque parts
  /// The form is the value itself: evaluate it, do not decompose it.
  bool self = false;
  /// Contains a distributed sign extension: valid for addresses, not exact as data.
  bool split = false;
  /// Correct only where it is less than 2^30 from 0: for addresses, not for data.
  bool assumed = false;

  bool uniform() const {
    for (const Coef &c : coef)
      if (!c.zero())
        return false;
    return opaque.empty() && !self;
  }
};

/// A comparison of two forms as a < b or, with `orEqual`, a <= b; `swapped`: the operands are exchanged.
struct Below {
  bool isUnsigned = false, swapped = false, orEqual = false;
};

/// Nullopt for equal and not equal.
inline std::optional<Below> asBelow(ir::CmpPred pred) {
  using enum ir::CmpPred;
  switch (pred) {
  case Slt: return Below{};
  case Sle: return Below{.orEqual = true};
  case Sgt: return Below{.swapped = true};
  case Sge: return Below{.swapped = true, .orEqual = true};
  case Ult: return Below{.isUnsigned = true};
  case Ule: return Below{.isUnsigned = true, .orEqual = true};
  case Ugt: return Below{.isUnsigned = true, .swapped = true};
  case Uge: return Below{.isUnsigned = true, .swapped = true, .orEqual = true};
  default: return {};
  }
}

/// `x % bound`, or where(x < bound, x, 0): equal to x where x is in bounds.
struct Wrapped {
  const ir::Value *x, *bound;
};
/// Nullopt if the operation is neither of these (`op` may be null).
std::optional<Wrapped> wrapped(const ir::Op *op);

} // namespace tegula::cpu
