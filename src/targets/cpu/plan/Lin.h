// Linear forms of index tensors: base + sum over index bits of coefficient * bit + opaque parts.
//
// Every integer and pointer tensor has one. `pid * 1024 + arange(0, 1024)` is {base: pid*1024, coefficients 1, 2, 4,
// ...};
// a pointer counts in bytes. What is not linear (a remainder, an index loaded from memory) is an opaque part: a tensor
// that is evaluated where it is needed. Because coefficients belong to bits, all shape operations only move them.
//
// Extensions to 64 bits are taken apart: sext(a + b) becomes sext(a) + sext(b), which is another number where the
// 32-bit sum wraps around. Such forms are marked `assumed` and serve addresses only; values used as data (hashes,
// random numbers) are exact, as all arithmetic on them is modulo 2^32. An address of an element that exists is right,
// for:
//   * What is the same for the whole tile, and opaque parts, are added and multiplied modulo 2^32 before they are
//     extended (Narrow): a number of 32 bits, whatever wrapped.
//   * The other terms, coefficients times bits, are together less than 2^30: constant ones by a test here (extendLin),
//     those with a factor that only a launch knows by a test of each launch (LaunchFactors.h). Where a launch fails it,
//     it runs code that multiplies by that factor modulo 2^32, element by element. (Factors that are loaded are taken
//     for small ones.)
//   * So the form differs from the 32-bit number only if that is 2^30 or more away from 0, and no tensor has such an
//     element: for those that do, passes/WidenOffsets.h has made it 64-bit arithmetic.
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
  int narrow = -1;     // of Lin::narrow: scaled by `scale` in 32 bits and added to that sum
};

/// A sum in 32 bits of `base` and the opaque parts that name it, then extended to 64 bits and scaled.
struct Narrow {
  llvm::Value *base; // i32
  Coef scale{1};
};

struct Lin {
  llvm::Value *base = nullptr;
  llvm::SmallVector<Coef, 12> coef;
  llvm::SmallVector<Opaque, 1> opaque;
  llvm::SmallVector<Narrow, 1> narrow; // each with opaque parts
  /// Nothing but the value itself: evaluate it, do not take it apart.
  bool self = false;
  /// Goes through a sign extension that was taken apart: good for addresses, not exact as data.
  bool split = false;
  /// Right only where it is less than 2^30 from 0: for addresses, not for data.
  bool assumed = false;

  bool uniform() const {
    for (const Coef &c : coef)
      if (!c.zero())
        return false;
    return opaque.empty() && !self;
  }
};

/// A comparison of two forms as a < b or, with `orEqual`, a <= b; `swapped`: the operands stand the other way round.
struct Below {
  bool isUnsigned = false, swapped = false, orEqual = false;
};

/// None for equal and not equal.
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

/// `x % bound`, or where(x < bound, x, 0): x itself where it is inside.
struct Wrapped {
  const ir::Value *x, *bound;
};
/// Nothing: the operation is none of these (`op` may be null).
std::optional<Wrapped> wrapped(const ir::Op *op);

} // namespace tegula::cpu
