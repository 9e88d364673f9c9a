// See LowerBound.h.
#include "gpu/LowerBound.h"
#include "gpu/Layouts.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr double kUnknown = -std::numeric_limits<double>::infinity();

// Rounding is monotonic, so the sum of bounds, rounded like the values, is a bound of their sum.
double bound(const Value *v, unsigned depth) {
  const Op *op = v->def;
  if (!op || depth == 0)
    return kUnknown;
  const auto of = [&](size_t i) { return bound(op->operands[i], depth - 1); };
  switch (op->kind) {
  case OpKind::Const: return std::isnan(op->floatValue(kUnknown)) ? kUnknown : op->floatValue(kUnknown);
  case OpKind::Exp:
  case OpKind::Exp2:
  case OpKind::FAbs:
  case OpKind::Sqrt:
  case OpKind::UIToFp: return 0;
  case OpKind::FAdd:
    return op->operands[0]->type.elem == Elem::F32 ? static_cast<float>(of(0)) + static_cast<float>(of(1)) : kUnknown;
  case OpKind::FMul: return op->operands[0] == op->operands[1] || std::min(of(0), of(1)) >= 0 ? 0 : kUnknown;
  case OpKind::Maximum: return std::max(of(0), of(1));
  case OpKind::MaxNum: // a NaN is as if it were not there
  case OpKind::Minimum:
  case OpKind::MinNum: return std::min(of(0), of(1));
  case OpKind::Select: return std::min(of(1), of(2));
  default: return isView(op->kind) ? of(0) : kUnknown;
  }
}

} // namespace

double lowerBound(const Value *v) { return bound(v, 8); }

} // namespace tegula::gpu
