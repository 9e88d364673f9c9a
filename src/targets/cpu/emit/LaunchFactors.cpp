// See LaunchFactors.h.
#include "targets/cpu/emit/LaunchFactors.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include <algorithm>
#include <map>

namespace tegula::cpu {
using Kind = WorkExpr::Kind;

int32_t LaunchFactors::add(const WorkExpr &e) {
  auto known = std::ranges::find(exprs_, e);
  if (known == exprs_.end())
    known = exprs_.insert(known, e);
  return static_cast<int32_t>(known - exprs_.begin());
}

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
  if (auto *by = op->getOpcode() == I::SDiv ? llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1)) : nullptr; by && r >= 0 && by->getSExtValue() > 0)
    r = add({Kind::Div, r, constant(by->getSExtValue())});
  return bounds_[v] = r;
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

// One number for all: how often the magnitudes reach their limits, which are divided by.
LaunchForms LaunchFactors::forms() const {
  LaunchForms out;
  std::vector<int32_t> numbers(exprs_.size(), -1);
  const auto append = [&](const WorkExpr &e) {
    auto known = std::ranges::find(out.exprs, e);
    if (known == out.exprs.end())
      known = out.exprs.insert(known, e);
    return static_cast<int32_t>(known - out.exprs.begin());
  };
  const auto copy = [&](auto &self, int32_t i) -> int32_t {
    int32_t &number = numbers[static_cast<size_t>(i)];
    if (number < 0) {
      WorkExpr e = exprs_[static_cast<size_t>(i)];
      for (int32_t *operand : {&e.a, &e.b})
        if (*operand >= 0)
          *operand = self(self, *operand);
      number = append(e);
    }
    return number;
  };
  std::map<int64_t, int32_t> largest; // of those with one limit
  for (auto [x, limit] : least_) {
    auto [it, isFirst] = largest.try_emplace(limit, copy(copy, x));
    if (!isFirst)
      it->second = append({Kind::Max, it->second, copy(copy, x)});
  }
  int32_t worst = -1;
  for (auto [limit, x] : largest) {
    const int32_t times = append({Kind::Div, x, append({Kind::Constant, -1, -1, -1, limit})});
    worst = worst < 0 ? times : append({Kind::Max, worst, times});
  }
  if (worst < 0 || out.exprs.size() > LaunchForms::mostExprs)
    return {};
  out.axes = {{worst, {0}}};
  out.forms = {plainForm, exactForm};
  out.unknown = out.form = plainForm;
  return out;
}

} // namespace tegula::cpu
