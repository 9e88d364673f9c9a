// See LaunchNumbers.h.
#include "passes/LaunchNumbers.h"
#include "ir/Builder.h"
#include "support/FormulaTable.h"

namespace tegula {

using namespace ir;
using Kind = WorkExpr::Kind;

int32_t LaunchNumbers::add(Kind kind, int64_t value, int32_t a, int32_t b, int32_t c) {
  return numberIn(out_.exprs, {kind, a, b, c, value}, LaunchForms::mostExprs);
}

int32_t LaunchNumbers::of(const Value *v, unsigned depth) {
  constexpr unsigned deepest = 12; // of what programs write as the bound of a loop
  if (depth == deepest || !v->type.isScalar() || v->type.isPtr)
    return -1;
  if (std::optional<int64_t> c = constantInt(v))
    return add(Kind::Constant, *c);
  if (!v->def)
    return v->block == kernel_.block() ? add(Kind::Argument, v->index) : -1;
  const Op &op = *v->def;
  const auto operand = [&](unsigned i) { return of(op.operands[i], depth + 1); };
  const auto both = [&](Kind kind) {
    const int32_t a = operand(0), b = a < 0 ? -1 : operand(1);
    return b < 0 ? -1 : add(kind, 0, a, b);
  };
  switch (op.kind) {
  case OpKind::ProgramId: return add(Kind::ProgramId, op.axis());
  case OpKind::NumPrograms: return op.axis() == 0 ? add(Kind::NumPrograms, 0) : -1;
  case OpKind::SExt: case OpKind::ZExt: case OpKind::Trunc: return operand(0); // bounds that fit
  case OpKind::Add: return both(Kind::Add);
  case OpKind::Sub: return both(Kind::Sub);
  case OpKind::Mul: return both(Kind::Mul);
  case OpKind::SDiv: case OpKind::UDiv: return both(Kind::Div);
  case OpKind::Shl: return both(Kind::Shl);
  case OpKind::AShr: case OpKind::LShr: return both(Kind::Shr);
  case OpKind::SMin: case OpKind::UMin: return both(Kind::Min);
  case OpKind::SMax: case OpKind::UMax: return both(Kind::Max);
  default: return -1;
  }
}

int32_t LaunchNumbers::tripsOf(const Op &loop) {
  const int32_t from = of(loop.operands[0], 0), to = from < 0 ? -1 : of(loop.operands[1], 0),
                step = to < 0 ? -1 : of(loop.operands[2], 0);
  return step < 0 ? -1 : add(Kind::Trips, 0, from, to, step);
}

} // namespace tegula
