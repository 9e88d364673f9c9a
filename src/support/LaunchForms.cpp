// See LaunchForms.h.
#include "support/LaunchForms.h"
#include <algorithm>

namespace tegula {

using Kind = WorkExpr::Kind;

uint8_t LaunchForms::formFor(int64_t programs, uint32_t cores, Argument argument, const void *context) const {
  int64_t values[mostExprs];
  bool known[mostExprs];
  for (size_t i = 0; i < exprs.size(); ++i) {
    const WorkExpr &e = exprs[i];
    switch (e.kind) {
    case Kind::Constant: values[i] = e.value, known[i] = true; break;
    case Kind::ProgramId: values[i] = 0, known[i] = true; break;
    case Kind::NumPrograms: values[i] = programs, known[i] = programs > 0 && e.value == 0; break;
    case Kind::Argument:
      values[i] = argument ? argument(context, static_cast<uint32_t>(e.value)) : LaunchFacts::notKnown;
      known[i] = values[i] != LaunchFacts::notKnown;
      break;
    default: {
      const auto a = static_cast<size_t>(e.a), b = static_cast<size_t>(e.b);
      known[i] = known[a] && known[b] && (e.c < 0 || known[static_cast<size_t>(e.c)]) &&
                 computeExpr(e.kind, values[a], values[b], e.c < 0 ? 0 : values[e.c], values[i]);
    }
    }
  }
  size_t index = 0;
  for (const Axis &axis : axes) {
    int64_t n;
    if (axis.number == Axis::grid) {
      if (programs <= 0) return unknown;
      n = programs > INT64_MAX / 16 - cores ? INT64_MAX : (16 * programs + cores - 1) / cores;
    } else {
      if (!known[axis.number]) return unknown;
      n = values[axis.number];
    }
    index =
        index * (axis.limits.size() + 1) + static_cast<size_t>(std::count_if(axis.limits.begin(), axis.limits.end(),
                                                                             [&](int64_t limit) { return limit < n; }));
  }
  return forms[index];
}

uint8_t LaunchForms::formFor(const LaunchFacts &f) const {
  const Argument at = [](const void *context, uint32_t index) {
    return (*static_cast<const std::vector<int64_t> *>(context))[index];
  };
  const bool has = std::ranges::all_of(exprs, [&](const WorkExpr &e) {
    return e.kind != Kind::Argument || static_cast<size_t>(e.value) < f.arguments.size();
  });
  return formFor(f.programs, f.cores, has ? at : nullptr, &f.arguments);
}

bool LaunchForms::isValid(size_t arguments) const {
  if (!asks()) return exprs.empty() && axes.empty();
  if (exprs.size() > mostExprs || axes.size() > mostAxes || forms.size() > mostForms) return false;
  for (size_t i = 0; i < exprs.size(); ++i) {
    const WorkExpr &e = exprs[i];
    const auto isBefore = [&](int32_t operand) { return operand >= 0 && static_cast<size_t>(operand) < i; };
    switch (e.kind) {
    case Kind::Constant: case Kind::ProgramId: case Kind::NumPrograms: break;
    case Kind::Argument:
      if (e.value < 0 || static_cast<uint64_t>(e.value) >= arguments) return false;
      break;
    case Kind::Add:
    case Kind::Sub:
    case Kind::Mul:
    case Kind::Div:
    case Kind::Shl:
    case Kind::Shr:
    case Kind::Min:
    case Kind::Max:
    case Kind::Trips:
      if (!isBefore(e.a) || !isBefore(e.b) || (e.kind == Kind::Trips ? !isBefore(e.c) : e.c != -1)) return false;
      break;
    default: return false;
    }
  }
  size_t classes = 1;
  for (const Axis &axis : axes) {
    if (axis.number != Axis::grid && (axis.number < 0 || static_cast<size_t>(axis.number) >= exprs.size()))
      return false;
    if (axis.limits.size() >= mostForms) return false;
    classes *= axis.limits.size() + 1;
  }
  return classes == forms.size() && unknown && form && std::ranges::find(forms, 0) == forms.end();
}

} // namespace tegula
