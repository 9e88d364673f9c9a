// See LaunchFactors.h.
#include "targets/cpu/emit/LaunchFactors.h"
#include "support/FormulaTable.h"
#include "targets/cpu/plan/Lin.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include <algorithm>
#include <map>
#include <span>

namespace tegula::cpu {
using Kind = WorkExpr::Kind;

int32_t LaunchFactors::add(const WorkExpr &e) { return numberIn(exprs_, e); }

int32_t LaunchFactors::magnitude(const WorkExpr &e) {
  const int32_t x = add(e), negative = add({Kind::Sub, constant(0), x});
  return add({Kind::Max, x, negative});
}

int32_t LaunchFactors::bound(llvm::Value *v, unsigned depth) {
  constexpr unsigned deepest = 8;
  if (auto named = named_.find(v); named != named_.end())
    return named->second;
  if (auto *c = llvm::dyn_cast<llvm::ConstantInt>(v))
    return c->getBitWidth() <= 32 ? constant(std::abs(c->getSExtValue())) : -1;
  auto *op = llvm::dyn_cast<llvm::Instruction>(v);
  if (!op || depth == deepest || !op->getType()->isIntegerTy())
    return -1;
  if (auto known = bounds_.find(v); known != bounds_.end())
    return known->second;
  const auto of = [&](unsigned i) { return bound(op->getOperand(i), depth + 1); };
  const auto both = [&](Kind kind, unsigned i = 0) {
    const int32_t a = of(i), b = a < 0 ? -1 : of(i + 1);
    return b < 0 ? -1 : add({kind, a, b});
  };
  // Products of bounds stay below 2^63. What a number of 32 bits has wrapped around to is one, too.
  const auto wrapped = [&](int32_t x) { return x < 0 ? -1 : add({Kind::Min, x, constant(int64_t(1) << 31)}); };
  const auto ofIntrinsic = [&] {
    const auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(op);
    switch (call ? call->getIntrinsicID() : llvm::Intrinsic::not_intrinsic) {
    case llvm::Intrinsic::smin: case llvm::Intrinsic::smax: return both(Kind::Max);
    case llvm::Intrinsic::abs: return of(0);
    default: return -1;
    }
  };
  using I = llvm::Instruction;
  int32_t r = -1;
  if (op->getOpcode() == I::Trunc && named_.contains(op->getOperand(0)))
    r = wrapped(of(0));
  else if (op->getType()->getIntegerBitWidth() <= 32)
    switch (op->getOpcode()) {
    case I::Add: case I::Sub: r = wrapped(both(Kind::Add)); break;
    case I::Mul: r = wrapped(both(Kind::Mul)); break;
    case I::SDiv: case I::AShr: r = of(0); break;
    case I::SRem: r = both(Kind::Min); break;
    case I::Select: r = both(Kind::Max, 1); break;
    case I::SExt: case I::Freeze: r = of(0); break;
    case I::Shl:
      if (auto *by = llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1)); by && by->getZExtValue() < 31)
        if (const int32_t x = of(0); x >= 0)
          r = wrapped(add({Kind::Mul, x, constant(int64_t(1) << by->getZExtValue())}));
      break;
    case I::Call: r = ofIntrinsic(); break;
    default: break;
    }
  if (auto *by = op->getOpcode() == I::SDiv ? llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1)) : nullptr;
      by && r >= 0 && by->getSExtValue() > 0)
    r = add({Kind::Div, r, constant(by->getSExtValue())});
  return bounds_[v] = r;
}

void LaunchFactors::isBetween(llvm::Value *v, llvm::Value *from, llvm::Value *to) {
  const int32_t a = bound(from, 0), b = a < 0 ? -1 : bound(to, 0);
  if (b >= 0)
    named_[v] = add({Kind::Max, a, b});
}

void LaunchFactors::assume(llvm::Value *factor, int64_t times, int64_t limit) {
  const int32_t x = bound(factor, 0);
  if (x < 0)
    return;
  const int64_t most = (limit + times - 1) / times;
  auto known = std::ranges::find(least_, x, &std::pair<int32_t, int64_t>::first);
  if (known == least_.end())
    least_.emplace_back(x, most);
  else
    known->second = std::min(known->second, most);
}

namespace {
/// A table of formulas that is made from another one's.
class Table {
public:
  explicit Table(std::span<const WorkExpr> from) : from_(from), numbers_(from.size(), -1) {}
  int32_t add(const WorkExpr &e) { return numberIn(out.exprs, e); }
  int32_t copy(int32_t i) {
    int32_t &number = numbers_[static_cast<size_t>(i)];
    if (number < 0) {
      WorkExpr e = from_[static_cast<size_t>(i)];
      for (int32_t *operand : {&e.a, &e.b})
        if (*operand >= 0)
          *operand = copy(*operand);
      number = add(e);
    }
    return number;
  }
  /// The larger, or smaller, one; `x` may be -1: none.
  int32_t extreme(Kind kind, int32_t x, int32_t y) { return x < 0 ? y : add({kind, x, y}); }
  int32_t constant(int64_t c) { return add({Kind::Constant, -1, -1, -1, c}); }
  LaunchForms out;

private:
  std::span<const WorkExpr> from_;
  std::vector<int32_t> numbers_;
};
} // namespace

// One number for all: how often the magnitudes reach their limits. Of arguments with one limit the least and the
// greatest tell, which are fewer formulas than magnitudes.
LaunchForms LaunchFactors::formsBy(int64_t oneLimit) const {
  struct Extremes {
    int32_t most = -1, least = -1;
  };
  Table t(exprs_);
  std::map<int64_t, Extremes> byLimit;
  for (auto [x, limit] : least_) {
    Extremes &e = byLimit[oneLimit ? oneLimit : limit];
    const WorkExpr &magnitude = exprs_[static_cast<size_t>(x)];
    const bool isArgument = magnitude.kind == Kind::Max &&
                            exprs_[static_cast<size_t>(magnitude.a)].kind == Kind::Argument &&
                            exprs_[static_cast<size_t>(magnitude.b)].kind == Kind::Sub;
    const int32_t number = t.copy(isArgument ? magnitude.a : x);
    e.most = t.extreme(Kind::Max, e.most, number);
    if (isArgument)
      e.least = t.extreme(Kind::Min, e.least, number);
  }
  int32_t worst = -1;
  for (auto [limit, e] : byLimit) {
    const int32_t x = e.least < 0 ? e.most : t.extreme(Kind::Max, e.most, t.add({Kind::Sub, t.constant(0), e.least}));
    worst = t.extreme(Kind::Max, worst, t.add({Kind::Div, x, t.constant(limit)}));
  }
  t.out.axes = {{worst, {0}}};
  t.out.forms = {plainForm, exactForm};
  t.out.unknown = t.out.form = plainForm;
  return std::move(t.out);
}

LaunchForms LaunchFactors::forms() const {
  if (least_.empty())
    return {};
  LaunchForms out = formsBy(0);
  if (out.exprs.size() > LaunchForms::mostExprs)
    out = formsBy(std::ranges::min_element(least_, {}, &std::pair<int32_t, int64_t>::second)->second);
  return out.exprs.size() > LaunchForms::mostExprs ? LaunchForms{} : out;
}

bool mayBeTerms(const Opaque &part, int64_t growth, LaunchFactors &factors) {
  if (part.narrow < 0 || !growth)
    return true;
  if (growth >= int64_t(1) << 27 || growth * std::abs(part.scale.k) >= int64_t(1) << 27 ||
      (part.scale.s && !factors.mayAssume(part.scale.s)))
    return false;
  if (part.scale.s)
    factors.assume(part.scale.s, growth * std::abs(part.scale.k) * 2, int64_t(1) << 28);
  return true;
}

} // namespace tegula::cpu
