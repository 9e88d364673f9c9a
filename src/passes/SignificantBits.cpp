#include "passes/SignificantBits.h"
#include <algorithm>
#include <bit>

namespace tegula {

using ir::Op, ir::OpKind, ir::Value;

namespace {

/// The value of a constant, scalar or tile, also behind a splat; null if it is none.
const Op *constantOf(const Value *v) {
  while (v->def && v->def->kind == OpKind::Splat)
    v = v->def->operands[0];
  return v->def && v->def->kind == OpKind::Const && v->type.isIntLike() ? v->def : nullptr;
}

unsigned bitsOf(const Value *v, unsigned &budget) {
  unsigned width = ir::bitWidth(v->type.elem);
  if (!v->type.isIntLike() || !v->def || budget == 0)
    return width;
  --budget;
  const Op &op = *v->def;
  auto of = [&](size_t i) { return bitsOf(op.operands[i], budget); };
  if (const Op *constant = constantOf(v)) {
    int64_t value = constant->intValue();
    return value < 0 ? width : std::min(width, static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(value))));
  }
  switch (op.kind) {
  case OpKind::Range: {
    int64_t last = op.start() + v->type.shape[0] - 1;
    return op.start() < 0 || last < 0
               ? width
               : std::min(width, static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(last))));
  }
  case OpKind::And:
    return std::min(of(0), of(1));
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::UMax:
    return std::max(of(0), of(1));
  case OpKind::UMin:
    return std::min(of(0), of(1));
  case OpKind::Select:
    return std::max(of(1), of(2));
  case OpKind::LShr: {
    const Op *amount = constantOf(op.operands[1]);
    unsigned bits = of(0);
    int64_t by = amount ? amount->intValue() : 0;
    return by <= 0 ? bits : by >= bits ? 0 : bits - static_cast<unsigned>(by);
  }
  case OpKind::Trunc:
    return std::min(width, of(0));
  case OpKind::ZExt:
    return of(0);
  case OpKind::SExt: {
    unsigned bits = of(0);
    return bits < ir::bitWidth(op.operands[0]->type.elem) ? bits : width;
  }
  default:
    break;
  }
  if (!op.has(ir::traits::Shape))
    return width;
  unsigned bits = 0;
  for (size_t i = 0; i < op.operands.size(); ++i)
    bits = std::max(bits, of(i));
  return bits;
}

unsigned zerosOf(const Value *v, unsigned &budget) {
  unsigned width = ir::bitWidth(v->type.elem);
  if (!v->type.isIntLike() || !v->def || budget == 0)
    return 0;
  --budget;
  const Op &op = *v->def;
  auto of = [&](size_t i) { return zerosOf(op.operands[i], budget); };
  if (const Op *constant = constantOf(v))
    return std::min(width, static_cast<unsigned>(std::countr_zero(static_cast<uint64_t>(constant->intValue()))));
  switch (op.kind) {
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Or:
  case OpKind::Xor:
    return std::min(of(0), of(1));
  case OpKind::And:
    return std::max(of(0), of(1));
  case OpKind::Mul:
    return std::min(width, of(0) + of(1));
  case OpKind::Shl: {
    const Op *amount = constantOf(op.operands[1]);
    int64_t by = amount ? amount->intValue() : 0;
    return by < 0 || by >= width ? 0 : std::min(width, of(0) + static_cast<unsigned>(by));
  }
  case OpKind::Select:
    return std::min(of(1), of(2));
  case OpKind::Trunc:
    return std::min(width, of(0));
  case OpKind::ZExt:
  case OpKind::SExt: { // zero stays zero
    unsigned zeros = of(0);
    return zeros < ir::bitWidth(op.operands[0]->type.elem) ? zeros : width;
  }
  default:
    break;
  }
  if (!op.has(ir::traits::Shape))
    return 0;
  unsigned zeros = width;
  for (size_t i = 0; i < op.operands.size(); ++i)
    zeros = std::min(zeros, of(i));
  return zeros;
}

} // namespace

unsigned significantBits(const Value *v) {
  unsigned budget = 64;
  return bitsOf(v, budget);
}

unsigned trailingZeros(const Value *v) {
  unsigned budget = 64;
  return zerosOf(v, budget);
}

bool addsDisjointBits(const Op &op) {
  auto isAbove = [&](size_t high, size_t low) {
    return trailingZeros(op.operands[high]) >= significantBits(op.operands[low]);
  };
  return op.kind == OpKind::Add && (isAbove(0, 1) || isAbove(1, 0));
}

} // namespace tegula
