// See Neutral.h.
#include "passes/Neutral.h"
#include <cmath>
#include <limits>

namespace tegula {

using namespace ir;

static Value *neutral(Builder &b, const Op &combination, const Type &t) {
  const double infinity = std::numeric_limits<double>::infinity();
  unsigned bits = bitWidth(t.elem);
  int64_t least = bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
  switch (combination.kind) {
  case OpKind::Add:
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::UMax: return b.constInt(t, 0);
  case OpKind::Mul: return b.constInt(t, 1);
  case OpKind::And:
  case OpKind::UMin: return b.constInt(t, -1);
  case OpKind::SMin:
    return b.constInt(t,
                      least == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max() : -least - 1);
  case OpKind::SMax: return b.constInt(t, least);
  default: break;
  }
  if (isFp8(t.elem)) // not all of them have infinities, NaNs and zeros of both signs
    return nullptr;
  switch (combination.kind) {
  case OpKind::FAdd: return b.constFloat(t, -0.0);
  case OpKind::FMul: return b.constFloat(t, 1);
  case OpKind::MinNum:
  case OpKind::MaxNum: return b.constFloat(t, std::nan("")); // the other operand is the result
  case OpKind::Minimum: return b.constFloat(t, infinity);
  case OpKind::Maximum: return b.constFloat(t, -infinity);
  default: return nullptr;
  }
}

/// The operation by which two values are combined; null if it takes several.
static const Op *onlyCombination(const Block &body) {
  const Op *only = body.ops.size() == 2 ? body.ops[0] : nullptr;
  bool combinesBoth = only && body.ops[1]->operands == only->results && only->operands.size() == 2 &&
                      only->operands[0]->def == nullptr && only->operands[1]->def == nullptr &&
                      only->operands[0] != only->operands[1] && only->operands[0]->block == &body &&
                      only->operands[1]->block == &body;
  return combinesBoth ? only : nullptr;
}

Value *neutralElement(Builder &b, const Op &reduction, const Type &t) {
  const Op *only = onlyCombination(*reduction.region(0));
  return only && !t.isPtr ? neutral(b, *only, t) : nullptr;
}

bool isReorderable(const Op &op) {
  if (op.results.size() != 1 || isFp8(op.result()->type.elem))
    return false;
  switch (op.kind) {
  case OpKind::FAdd: {
    const Elem e = op.result()->type.elem;
    return (e == Elem::F32 || e == Elem::F64) && !op.rounded();
  }
  case OpKind::Add:
  case OpKind::Mul:
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::SMin:
  case OpKind::SMax:
  case OpKind::UMin:
  case OpKind::UMax:
  case OpKind::MinNum:
  case OpKind::MaxNum:
  case OpKind::Minimum:
  case OpKind::Maximum:
    return true;
  default:
    return false;
  }
}

} // namespace tegula
