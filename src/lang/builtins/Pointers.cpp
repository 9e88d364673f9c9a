// Operands of memory operations and their messages.
#include "lang/builtins/Pointers.h"

namespace tegula::lang {

std::optional<Tensor> pointerOperand(Args &a, size_t i) {
  const Value &v = a[i];
  if (!v.isTensor() || !v.asTensor().dtype.isPtr || v.asTensor().dtype.scalar == Scalar::Void) {
    a.fail(diag::notPointer, a.loc(i), a.function(), kindName(v));
    return std::nullopt;
  }
  return v.asTensor();
}

std::optional<Tensor> maskOperand(Args &a, size_t i) {
  // Compile-time masks count by their truth, as in `mask=1`.
  if (a[i].isNumber() && !a[i].isFloat())
    return constant(a.ctx(), Value::boolean(constexprTruth(a[i])), dtype(Scalar::Int1), a.loc(i)).asTensor();
  std::optional<Tensor> m = a.tensor(i);
  if (m && !m->dtype.isBool()) {
    a.fail(diag::maskNotBool, a.loc(i), kindName(a[i]));
    return std::nullopt;
  }
  return m;
}

std::optional<Tensor> upTo(Args &a, const Tensor &x, const ir::Shape &pointerShape, size_t i) {
  auto shape = commonShape(a.ctx(), pointerShape, x.shape(), a.loc(), a.loc(0), a.loc(i));
  if (!shape)
    return std::nullopt;
  if (*shape != pointerShape) {
    a.fail(diag::pointerShape, a.loc(0), shapeText(*shape), shapeText(pointerShape));
    return std::nullopt;
  }
  return spread(a.ctx(), x, *shape);
}

} // namespace tegula::lang
