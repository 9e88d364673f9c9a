// Bounds on the factors of address terms that are known at launch only (strides).
//
//   x + rows[:, None] * stride + columns[None, :]       63 rows: 63 * |stride| < 2^28
//
// Code whose linear forms (plan/Lin.h) assume such a bound has two forms (support/LaunchForms.h), and a launch selects
// `exactForm` if a factor exceeds its bound. That form multiplies by such factors modulo 2^32, element by element. If
// no formula of arguments and grid sizes bounds a factor, e.g. a loaded stride, the bound is assumed without a test:
// grouped products with such strides would be a quarter slower otherwise.
#pragma once
#include "support/LaunchForms.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Constants.h"

namespace tegula::cpu {

inline constexpr uint8_t plainForm = 1, exactForm = 2;

struct Opaque;

class LaunchFactors {
public:
  /// `exact`: no bound may be assumed.
  explicit LaunchFactors(bool exact) : exact_(exact) {}
  /// Declares `v`: isArgument: the kernel's integer argument with that index; isProgram: a number between 0 and the
  /// number of programs in the grid.
  void isArgument(llvm::Value *v, uint32_t index) {
    named_[v] = magnitude({WorkExpr::Kind::Argument, -1, -1, -1, index});
  }
  void isProgram(llvm::Value *v) { named_[v] = add({WorkExpr::Kind::NumPrograms}); }
  /// Declares `v` a loop counter: its magnitude is at most that of one of the loop's bounds.
  void isBetween(llvm::Value *v, llvm::Value *from, llvm::Value *to);
  /// May a bound on this 32-bit factor be assumed?
  bool mayAssume(const llvm::Value *factor) const { return !exact_ || llvm::isa<llvm::ConstantInt>(factor); }
  /// Assumes that times * |factor| < limit. Requires mayAssume(factor).
  void assume(llvm::Value *factor, int64_t times, int64_t limit);
  /// The table that selects exactForm where an assumption does not hold. If there are more factors than the table has
  /// room for (nine arguments), all get the least limit; if there are still more, it tests nothing.
  LaunchForms forms() const;

private:
  int32_t add(const WorkExpr &e);
  int32_t constant(int64_t c) { return add({WorkExpr::Kind::Constant, -1, -1, -1, c}); }
  int32_t magnitude(const WorkExpr &e);
  /// The expression of an upper bound of the magnitude of `v`, at most 2^31; -1 if there is none.
  int32_t bound(llvm::Value *v, unsigned depth);
  /// `oneLimit`: the limit of all factors; 0: each has its own.
  LaunchForms formsBy(int64_t oneLimit) const;

  const bool exact_;
  std::vector<WorkExpr> exprs_;
  llvm::DenseMap<llvm::Value *, int32_t> named_, bounds_;
  std::vector<std::pair<int32_t, int64_t>> least_; // a magnitude, and its exclusive upper limit
};

/// May an opaque part of a linear form (plan/Lin.h) that grows by `growth` in a trip become terms of bits there? If so,
/// assumes that two such parts, scaled in 32 bits, are together less than 2^28, which launches test.
bool mayBeTerms(const Opaque &part, int64_t growth, LaunchFactors &factors);

} // namespace tegula::cpu
