// Dot products by multiply-adds: what has no tensor-core instruction (float64, IEEE float32, tiny shapes).
//
// A thread holds its rows of A and columns of B for all of K, so a product needs no exchange (fmaOperandLayout).
#include "targets/nvidia/Lower.h"

namespace tegula::nvidia {

using ir::Elem;

void Lowering::dot(const Op &op) {
  const ir::Type &ta = op.operands[0]->type, &tb = op.operands[1]->type, &tc = op.result()->type;
  const LinearLayout &la = m_.layoutOf(ta), &lb = m_.layoutOf(tb), &lc = m_.layoutOf(tc);
  unsigned rank = tc.shape.rank();
  auto depth = static_cast<uint64_t>(ta.shape[rank - 1]), columns = static_cast<uint64_t>(tc.shape[rank - 1]),
       rows = static_cast<uint64_t>(tc.shape[rank - 2]);
  // Integers are summed in 32 bits, narrow floats in float: both exact products.
  llvm::Type *sum = regType(tc);
  bool isInt = ir::isInt(tc.elem), narrowAcc = !isInt && sum->isIntegerTy();
  if (narrowAcc)
    sum = b_.getFloatTy();
  auto widen = [&](V x, Elem e) -> V {
    if (isInt)
      return b_.CreateSExtOrTrunc(x, sum);
    V w = vec_->widen(x, e);
    return w->getType() == sum ? w : b_.CreateFPCast(w, sum);
  };
  auto widened = [&](const Value *v) {
    Regs out;
    for (V x : get(v))
      out.push_back(widen(x, v->type.elem));
    return out;
  };
  Regs a = widened(op.operands[0]), b = widened(op.operands[1]), out;
  const Regs &c = get(op.operands[2]);
  for (unsigned r = 0; r < c.size(); ++r) {
    uint64_t flat = lc.apply(r), n = flat % columns, m = flat / columns % rows, batch = flat / columns / rows;
    auto count = static_cast<unsigned>(depth);
    Regs x = pick(a, la, count, [&](unsigned k) { return (batch * rows + m) * depth + k; });
    Regs y = pick(b, lb, count, [&](unsigned k) { return (batch * depth + k) * columns + n; });
    V acc = narrowAcc ? vec_->widen(c[r], tc.elem) : c[r];
    for (unsigned k = 0; k < count; ++k)
      acc = isInt ? b_.CreateAdd(acc, b_.CreateMul(x[k], y[k]))
                  : static_cast<V>(b_.CreateIntrinsic(llvm::Intrinsic::fma, {sum}, {x[k], y[k], acc}));
    out.push_back(narrowAcc ? vec_->narrow(acc, tc.elem) : acc);
  }
  set(op.result(), std::move(out));
}

} // namespace tegula::nvidia
