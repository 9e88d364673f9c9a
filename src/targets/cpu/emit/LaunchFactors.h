// Numbers that terms of addresses are multiplied with, and that only a launch knows (strides): how large they may be.
//
//   x + rows[:, None] * stride + columns[None, :]       63 rows: 63 * |stride| < 2^28
//
// Code whose linear forms (plan/Lin.h) count on that has two forms (support/LaunchForms.h), and launches ask for
// `exactForm` where a number is larger. That form multiplies by such factors modulo 2^32, element by element. What no
// formula of arguments and the grid bounds, such as a stride that is loaded, is counted on unseen: grouped products
// with such strides would be a quarter slower.
#pragma once
#include "support/LaunchForms.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Constants.h"

namespace tegula::cpu {

inline constexpr uint8_t plainForm = 1, exactForm = 2;

struct Opaque;

class LaunchFactors {
public:
  /// `exact`: nothing may be counted on.
  explicit LaunchFactors(bool exact) : exact_(exact) {}
  /// An argument of the kernel, an integer, by its index; a number that is not negative and less than the grid's
  /// programs, or their number.
  void isArgument(llvm::Value *v, uint32_t index) {
    named_[v] = magnitude({WorkExpr::Kind::Argument, -1, -1, -1, index});
  }
  void isProgram(llvm::Value *v) { named_[v] = add({WorkExpr::Kind::NumPrograms}); }
  /// The counter of a loop, no farther from 0 than one of its bounds.
  void isBetween(llvm::Value *v, llvm::Value *from, llvm::Value *to);
  /// Of a number of 32 bits.
  bool mayAssume(const llvm::Value *factor) const { return !exact_ || llvm::isa<llvm::ConstantInt>(factor); }
  /// times * |factor| < limit, of a factor that may be counted on.
  void assume(llvm::Value *factor, int64_t times, int64_t limit);
  /// Asks for exactForm where one of these does not hold. For more factors than a table has room for (nine arguments)
  /// by the least limit of all, for still more for nothing.
  LaunchForms forms() const;

private:
  int32_t add(const WorkExpr &e);
  int32_t constant(int64_t c) { return add({WorkExpr::Kind::Constant, -1, -1, -1, c}); }
  int32_t magnitude(const WorkExpr &e);
  /// A number that the magnitude does not exceed, at most 2^31; -1: there is none.
  int32_t bound(llvm::Value *v, unsigned depth);
  /// `oneLimit`: for all of them; 0: each has its own.
  LaunchForms formsBy(int64_t oneLimit) const;

  const bool exact_;
  std::vector<WorkExpr> exprs_;
  llvm::DenseMap<llvm::Value *, int32_t> named_, bounds_;
  std::vector<std::pair<int32_t, int64_t>> least_; // of a magnitude, what it must be less than
};

/// May a part of a linear form (plan/Lin.h) that grows by so much in a trip become terms of bits there? Multiplied in
/// 32 bits, two such parts are less than 2^28, which launches see to from now on.
bool mayBeTerms(const Opaque &part, int64_t growth, LaunchFactors &factors);

} // namespace tegula::cpu
