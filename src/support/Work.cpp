// Evaluates the expressions of Work.h.
#include "support/Work.h"
#include <algorithm>

namespace tegula {

namespace {
using Kind = WorkExpr::Kind;

bool isLeaf(Kind k) { return k < Kind::Add; }

/// Unsigned arithmetic wraps around without a trap.
int64_t wrap(uint64_t v) { return static_cast<int64_t>(v); }
} // namespace

bool computeExpr(Kind k, int64_t a, int64_t b, int64_t c, int64_t &out) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (k) {
  case Kind::Add: out = wrap(ua + ub); return true;
  case Kind::Sub: out = wrap(ua - ub); return true;
  case Kind::Mul: out = wrap(ua * ub); return true;
  case Kind::Div:
  case Kind::Rem:
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    out = k == Kind::Div ? a / b : a % b;
    return true;
  case Kind::And: out = a & b; return true;
  case Kind::Or: out = a | b; return true;
  case Kind::Xor: out = a ^ b; return true;
  case Kind::Shl: out = b >= 0 && b < 64 ? wrap(ua << b) : 0; return true;
  case Kind::Shr: out = a >> std::clamp<int64_t>(b, 0, 63); return true;
  case Kind::Min: out = std::min(a, b); return true;
  case Kind::Max: out = std::max(a, b); return true;
  case Kind::Equal: out = a == b; return true;
  case Kind::Less: out = a < b; return true;
  case Kind::LessEqual: out = a <= b; return true;
  case Kind::Select: out = a ? b : c; return true;
  case Kind::Trips:
    if (c <= 0) return false;
    out = b > a ? wrap((ub - ua - 1) / static_cast<uint64_t>(c) + 1) : 0;
    return true;
  default: return false;
  }
}

void WorkValues::evaluateOne(size_t i, const WorkPoint &p, std::span<const int64_t> coordinates) {
  const WorkExpr &e = work_.exprs[i];
  auto at = static_cast<size_t>(e.value);
  bool known = true;
  int64_t v = 0;
  switch (e.kind) {
  case Kind::Unknown: known = false; break;
  case Kind::Constant: v = e.value; break;
  case Kind::Argument:
    known = at < p.arguments.size();
    if (known) v = p.arguments[at];
    break;
  case Kind::ProgramId: v = p.program[at]; break;
  case Kind::NumPrograms: v = p.grid[at]; break;
  case Kind::Coordinate: v = at < coordinates.size() ? coordinates[at] : 0; break;
  case Kind::Iteration: {
    // The expression of the trip count precedes the loop's body.
    int32_t trips = work_.scopes[at].count;
    int64_t last = isKnown(trips) ? std::max<int64_t>(values_[static_cast<size_t>(trips)], 1) - 1 : 0;
    v = moment_ == WorkMoment::Middle ? last / 2 : moment_ == WorkMoment::Last ? last : 0;
    break;
  }
  case Kind::Select:
    known = known_[static_cast<size_t>(e.a)];
    if (known) {
      auto chosen = static_cast<size_t>(values_[static_cast<size_t>(e.a)] ? e.b : e.c);
      known = known_[chosen];
      v = values_[chosen];
    }
    break;
  default: {
    auto a = static_cast<size_t>(e.a), b = static_cast<size_t>(e.b);
    int64_t c = e.c >= 0 ? values_[static_cast<size_t>(e.c)] : 0;
    known = known_[a] && known_[b] && (e.c < 0 || known_[static_cast<size_t>(e.c)]) &&
            computeExpr(e.kind, values_[a], values_[b], c, v);
  }
  }
  known_[i] = known;
  values_[i] = v;
}

WorkValues::WorkValues(const Work &work) : work_(work), values_(work.exprs.size()), known_(work.exprs.size()) {}
WorkValues::~WorkValues() = default;
WorkValues::WorkValues(const WorkValues &) = default;

void WorkValues::evaluate(const WorkPoint &point, WorkMoment moment) {
  moment_ = moment;
  for (size_t i = 0; i < values_.size(); ++i) evaluateOne(i, point, {});
}

void WorkValues::at(const WorkPoint &point, std::span<const int64_t> coordinates) {
  if (varies_.empty()) {
    varies_.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      const WorkExpr &e = work_.exprs[i];
      bool varies = e.kind == Kind::Coordinate;
      if (!isLeaf(e.kind))
        for (int32_t x : {e.a, e.b, e.c}) varies |= x >= 0 && varies_[static_cast<size_t>(x)];
      varies_[i] = varies;
    }
  }
  for (size_t i = 0; i < values_.size(); ++i)
    if (varies_[i]) evaluateOne(i, point, coordinates);
}

double WorkValues::executions(int32_t scope, double guessedTrips) const {
  double n = 1;
  for (; scope >= 0; scope = work_.scopes[static_cast<size_t>(scope)].parent) {
    const WorkScope &s = work_.scopes[static_cast<size_t>(scope)];
    if (s.kind == WorkScope::Kind::Loop)
      n *= isKnown(s.count) ? static_cast<double>(std::max<int64_t>(0, (*this)[s.count])) : guessedTrips;
    else if (s.kind == WorkScope::Kind::Branch)
      n *= isKnown(s.count) ? ((*this)[s.count] != 0) != s.otherwise : 0.5;
  }
  return n;
}

} // namespace tegula
