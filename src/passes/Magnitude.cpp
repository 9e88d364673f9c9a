// See Magnitude.h.
#include "passes/Magnitude.h"
#include "ir/Builder.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace tegula {

using namespace ir;

namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();
constexpr unsigned depth = 8;     // operations in a row
// more than what rounds up in an operation of any type of 8 bits of precision or more; narrower ones are not asked
// about
constexpr double rounding = 1.01;

double bound(const Value *v, unsigned left) {
  if (std::optional<double> c = constantFloat(v))
    return std::isnan(*c) ? 0 : std::abs(*c);
  if (!v->def || !left || bitWidth(v->type.elem) < 16)
    return unknown;
  const Op &op = *v->def;
  auto of = [&](size_t i) { return bound(op.operands[i], left - 1); };
  // Zero times what is infinite, or unknown, is not zero.
  auto times = [](double a, double b) { return std::isinf(a) || std::isinf(b) ? unknown : a * b; };
  double most = unknown;
  switch (op.kind) {
  case OpKind::SIToFp:
    return std::ldexp(1, static_cast<int>(bitWidth(op.operands[0]->type.elem)) - 1);
  case OpKind::UIToFp:
    return std::ldexp(1, static_cast<int>(bitWidth(op.operands[0]->type.elem)));
  case OpKind::Sin: case OpKind::Cos: case OpKind::Erf: case OpKind::Tanh:
    return 1;
  case OpKind::FMul:
    most = times(of(0), of(1));
    break;
  case OpKind::FAdd: case OpKind::FSub:
    most = of(0) + of(1);
    break;
  case OpKind::Fma:
    most = times(of(0), of(1)) + of(2);
    break;
  case OpKind::Select:
    return std::max(of(1), of(2));
  case OpKind::MinNum: case OpKind::MaxNum: case OpKind::Minimum: case OpKind::Maximum:
    return std::max(of(0), of(1));
  case OpKind::Floor: case OpKind::Ceil: case OpKind::Rint:
    return of(0) + 1;
  case OpKind::FpTrunc:
    most = of(0);
    break;
  case OpKind::FNeg:
  case OpKind::FAbs:
  case OpKind::FpExt:
  case OpKind::Splat:
  case OpKind::Unsplat:
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Permute: case OpKind::Split: case OpKind::Convert:
    return of(0);
  default:
    break;
  }
  return most * rounding;
}

} // namespace

double magnitude(const Value *v) { return bound(v, depth); }

} // namespace tegula
