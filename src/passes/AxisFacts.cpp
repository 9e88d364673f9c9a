// Transfer functions and the walk of AxisFacts.h.
#include "passes/AxisFacts.h"
#include "ir/Builder.h"
#include <algorithm>
#include <numeric>

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t largest = int64_t(1) << 40; // "divisible by everything": zero

/// Divisor of a constant: itself, or of what reaches `largest`, which would mean zero, its largest power of two below
/// that.
int64_t divisorOf(int64_t c) {
  if (c == 0)
    return largest;
  if (c > -largest && c < largest)
    return c < 0 ? -c : c;
  return static_cast<int64_t>(std::min(uint64_t(c) & -uint64_t(c), uint64_t(largest / 2)));
}

int64_t product(int64_t a, int64_t b) {
  if (a >= largest || b >= largest) // one of them is zero
    return largest;
  return a >= largest / b ? std::max(a, b) : a * b;
}

/// Both hold.
int64_t both(int64_t a, int64_t b) { return a % b == 0 ? a : b % a == 0 ? b : product(a / std::gcd(a, b), b); }

} // namespace

int64_t ValueFacts::divisorOfAll() const {
  int64_t best = 1;
  for (const AxisFact &a : axes)
    if (a.contiguity == 1)
      best = std::max(best, a.divisibility);
  return best;
}

int64_t ValueFacts::divisorAt(unsigned axis, int64_t group) const {
  const AxisFact &a = axes[axis];
  int64_t within = std::gcd(group, a.contiguity);
  return within == a.contiguity ? a.divisibility : std::gcd(a.divisibility, within);
}

namespace {

using Facts = std::unordered_map<const Value *, ValueFacts>;

class Analysis {
public:
  explicit Analysis(Facts &facts) : facts_(facts) {}
  void function(const Function &f);

private:
  void block(const Block &b);
  void visit(const Op &op);
  void loop(const Op &op);
  ValueFacts compute(const Op &op) const;
  ValueFacts computePure(const Op &op) const;
  ValueFacts sum(const Op &op) const;
  ValueFacts multiply(const Op &op) const;
  ValueFacts divide(const Op &op) const;
  ValueFacts shiftOrMask(const Op &op) const;
  ValueFacts compare(const Op &op) const;
  ValueFacts select(const Op &op) const;
  ValueFacts cast(const Op &op) const;
  ValueFacts reshape(const Op &op) const;
  ValueFacts uniform(const Op &op) const;
  Sign signBeside(const Value *v, const Value *other) const;
  Sign signOfSum(const Op &op) const;
  void branch(const Value *condition, bool holds);
  void hints(const Op &op, ValueFacts &f) const;

  const ValueFacts &of(const Value *v) const { return facts_.at(v); }
  static ValueFacts nothing(const Type &t) {
    return {std::vector<AxisFact>(std::max(1u, t.shape.rank())), Sign::Unknown};
  }
  static int64_t extent(const Type &t, unsigned axis) { return t.isScalar() ? 1 : t.shape[axis]; }
  static Sign signIf(bool isNonNegative) { return isNonNegative ? Sign::NonNegative : Sign::Unknown; }
  static ValueFacts constant(const Type &t, int64_t c) {
    ValueFacts f = nothing(t);
    for (unsigned d = 0; d < f.axes.size(); ++d)
      f.axes[d] = {1, divisorOf(c), extent(t, d)};
    f.sign = signIf(c >= 0);
    return f;
  }
  static ValueFacts meet(const ValueFacts &a, const ValueFacts &b);

  /// A fact from an enclosing branch: `a` is at least `b` plus `more`.
  struct Order {
    const Value *a, *b;
    int64_t more;
  };

  Facts &facts_;
  std::vector<Order> orders_; // of all enclosing branches
  std::unordered_map<const Op *, std::vector<ValueFacts>> loops_; // what was stable for the carried values
};

ValueFacts Analysis::meet(const ValueFacts &a, const ValueFacts &b) {
  ValueFacts f = a;
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    int64_t c = std::gcd(a.axes[d].contiguity, b.axes[d].contiguity);
    f.axes[d] = {c, std::gcd(a.divisorAt(d, c), b.divisorAt(d, c)), std::gcd(a.axes[d].constancy, b.axes[d].constancy)};
  }
  f.sign = std::min(a.sign, b.sign);
  return f;
}

void Analysis::function(const Function &f) {
  for (size_t i = 0; i < f.block()->args.size(); ++i) {
    const Value *v = f.block()->args[i];
    ValueFacts &facts = facts_[v] = nothing(v->type);
    for (AxisFact &a : facts.axes)
      a.divisibility = std::max<int64_t>(1, f.argInfo[i].divisibility);
    if (v->type.isScalar())
      continue;
    for (unsigned d = 0; d < facts.axes.size(); ++d) // a helper's tile may be anything
      facts.axes[d] = AxisFact();
  }
  block(*f.block());
}

void Analysis::block(const Block &b) {
  for (const Op *op : b.ops)
    visit(*op);
}

void Analysis::visit(const Op &op) {
  if (op.kind == OpKind::For || op.kind == OpKind::While)
    return loop(op);
  for (const Region *r : op.regions) {
    for (const Value *v : r->block->args)
      facts_[v] = nothing(v->type);
    size_t outer = orders_.size();
    if (op.kind == OpKind::If)
      branch(op.operands[0], r->block == op.region(0));
    block(*r->block);
    orders_.resize(outer);
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value *v = op.results[i];
    if (op.kind == OpKind::If)
      facts_[v] = meet(of(op.region(0)->terminator()->operands[i]), of(op.region(1)->terminator()->operands[i]));
    else
      facts_[v] = op.results.size() == 1 ? compute(op) : nothing(v->type);
  }
}

/// Computed from arguments by what keeps extents positive: a number of parts, of a grid or of what is left for one of
/// its programs.
static bool isExtent(const Value *v, unsigned depth = 8) {
  if (!v->def)
    return v->type.isScalar() && !v->block->parent->op;
  if (std::optional<int64_t> c = constantInt(v))
    return *c >= 0;
  switch (v->def->kind) {
  case OpKind::Add: case OpKind::Mul: case OpKind::SDiv: case OpKind::SRem: case OpKind::SMin: case OpKind::SMax:
    return depth && std::all_of(v->def->operands.begin(), v->def->operands.end(),
                                [&](const Value *o) { return isExtent(o, depth - 1); });
  default: return false;
  }
}

/// The sign of `v` in a product with `other`, or the minimum of both: pid * parts and min(pid, rest) say which parts
/// are the program's.
Sign Analysis::signBeside(const Value *v, const Value *other) const {
  bool isProgram = other->def && other->def->kind == OpKind::ProgramId;
  return std::max(of(v).sign, isProgram && isExtent(v) ? Sign::Taken : Sign::Unknown);
}

/// Records the consequences of a condition that holds, or does not.
void Analysis::branch(const Value *condition, bool holds) {
  const Op *c = condition->def;
  if (!c)
    return;
  if (c->kind == (holds ? OpKind::And : OpKind::Or)) {
    branch(c->operands[0], holds);
    branch(c->operands[1], holds);
  }
  if (c->kind != OpKind::CmpI)
    return;
  const Value *a = c->operands[0], *b = c->operands[1];
  auto note = [&](bool isLess, bool isStrict) {
    orders_.push_back(isLess ? Order{b, a, isStrict} : Order{a, b, isStrict});
  };
  switch (c->pred()) {
  case CmpPred::Slt: return note(holds, holds);
  case CmpPred::Sle: return note(holds, !holds);
  case CmpPred::Sgt: return note(!holds, holds);
  case CmpPred::Sge: return note(!holds, !holds);
  default: return;
  }
}

/// Programs that share a grid subtract those before them, in the branch that is theirs: pid - n where n <= pid.
Sign Analysis::signOfSum(const Op &op) const {
  const Value *a = op.operands[0], *b = op.operands[1];
  std::optional<int64_t> less = constantInt(b);
  if (op.kind == OpKind::Add && !(less && *less < 0 && *less > -largest))
    return std::min(of(a).sign, of(b).sign);
  if (less && op.kind == OpKind::Add)
    less = -*less;
  return signIf(std::any_of(orders_.begin(), orders_.end(), [&](const Order &o) {
    std::optional<int64_t> bound = constantInt(o.b);
    return o.a == a && (less && bound ? *less - o.more <= *bound : op.kind == OpKind::Sub && o.b == b);
  }));
}

/// Whether the `while` loop continues only if carried value `i` is less than some bound, and adds to it.
static bool countsUp(const Op &loop, size_t i) {
  const Block &head = *loop.region(0), &body = *loop.region(1);
  const Value *v = head.args[i];
  auto isBelow = [&](auto &&self, const Value *c) -> bool {
    if (!c->def)
      return false;
    if (c->def->kind == OpKind::And)
      return self(self, c->def->operands[0]) || self(self, c->def->operands[1]);
    if (c->def->kind != OpKind::CmpI)
      return false;
    CmpPred p = c->def->pred();
    return ((p == CmpPred::Slt || p == CmpPred::Sle) && c->def->operands[0] == v) ||
           ((p == CmpPred::Sgt || p == CmpPred::Sge) && c->def->operands[1] == v);
  };
  const Op *next = body.terminator()->operands[i]->def;
  return head.terminator()->operands[i + 1] == v && next && next->kind == OpKind::Add &&
         std::find(next->operands.begin(), next->operands.end(), body.args[i]) != next->operands.end() &&
         isBelow(isBelow, head.terminator()->operands[0]);
}

/// Iterates from optimistic to stable facts: those before the loop meet those of each iteration. An inner loop is
/// visited once per round of the outer one; it resumes from its last stable facts, as the facts around it only get
/// weaker. So a nest costs a few rounds a loop, not their product.
void Analysis::loop(const Op &op) {
  bool isFor = op.kind == OpKind::For;
  size_t first = isFor ? 3 : 0, n = op.results.size();
  const Block &head = *op.region(0), &body = *op.region(isFor ? 0 : 1);
  if (isFor) {
    ValueFacts iv = nothing(op.operands[0]->type);
    iv.axes[0].divisibility =
        std::gcd(of(op.operands[0]).axes[0].divisibility, of(op.operands[2]).axes[0].divisibility);
    iv.sign = op.reverse() ? Sign::Unknown : of(op.operands[0]).sign;
    facts_[head.args[0]] = iv;
  }
  std::vector<ValueFacts> carried;
  std::vector<ValueFacts> &known = loops_[&op];
  for (size_t i = 0; i < n; ++i) {
    const ValueFacts &before = of(op.operands[first + i]);
    carried.push_back(known.empty() ? before : meet(known[i], before));
  }
  for (int round = 0;; ++round) {
    for (size_t i = 0; i < n; ++i)
      facts_[head.args[i + (isFor ? 1 : 0)]] = carried[i];
    block(head);
    if (!isFor) {
      for (size_t i = 0; i < n; ++i)
        facts_[body.args[i]] = of(head.terminator()->operands[i + 1]);
      block(body);
    }
    bool stable = true;
    for (size_t i = 0; i < n; ++i) {
      ValueFacts after = of(body.terminator()->operands[i]);
      if (!isFor && countsUp(op, i))
        after.sign = std::max(after.sign, Sign::Taken);
      ValueFacts next = meet(carried[i], after);
      if (next == carried[i])
        continue;
      stable = false;
      carried[i] = round < 8 ? next : nothing(op.results[i]->type);
    }
    if (stable)
      break;
  }
  for (size_t i = 0; i < n; ++i)
    facts_[op.results[i]] = isFor ? carried[i] : of(head.terminator()->operands[i + 1]);
  loops_[&op] = std::move(carried);
}

ValueFacts Analysis::compute(const Op &op) const {
  ValueFacts f = computePure(op);
  hints(op, f);
  return f;
}

void Analysis::hints(const Op &op, ValueFacts &f) const {
  struct Hint {
    ListKey key;
    int64_t AxisFact::*member;
  };
  // Contiguity first: divisibility refers to the groups that contiguity defines.
  static constexpr Hint table[] = {{attr::contiguity, &AxisFact::contiguity},
                                   {attr::divisibility, &AxisFact::divisibility},
                                   {attr::constancy, &AxisFact::constancy}};
  for (const Hint &h : table) {
    std::span<const int64_t> list = op.get(h.key);
    for (size_t d = 0; d < list.size() && d < f.axes.size(); ++d) {
      int64_t x = list[d];
      if (x < 1)
        continue;
      if (h.member != &AxisFact::divisibility) {
        x = std::gcd(x, extent(op.result()->type, static_cast<unsigned>(d)));
        if (x <= f.axes[d].*h.member || x % (f.axes[d].*h.member) != 0)
          continue;
        if (h.member == &AxisFact::contiguity) // larger groups start at fewer places, so the divisor stays right
          f.axes[d].contiguity = x;
        else
          f.axes[d].constancy = x;
      } else {
        f.axes[d].divisibility = both(f.axes[d].divisibility, std::min(x, largest));
      }
    }
  }
}

ValueFacts Analysis::uniform(const Op &op) const {
  ValueFacts f = nothing(op.result()->type);
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    int64_t s = extent(op.result()->type, d);
    for (const Value *v : op.operands)
      s = std::gcd(s, of(v).axes[d].constancy);
    f.axes[d].constancy = s;
  }
  return f;
}

/// add, sub, addptr. A contiguous operand stays so over the groups where the other one is constant.
ValueFacts Analysis::sum(const Op &op) const {
  const ValueFacts &a = of(op.operands[0]), &b = of(op.operands[1]);
  int64_t scale = op.kind == OpKind::AddPtr ? byteWidth(op.result()->type.elem) : 1;
  ValueFacts f = uniform(op);
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    int64_t c = std::gcd(a.axes[d].contiguity, b.axes[d].constancy);
    if (op.kind != OpKind::Sub)
      c = std::max(c, std::gcd(a.axes[d].constancy, b.axes[d].contiguity));
    f.axes[d].contiguity = c;
    // A pointer's contiguity counts elements, its divisibility bytes.
    const AxisFact &p = a.axes[d];
    int64_t within = std::gcd(c, p.contiguity);
    int64_t left = within == p.contiguity ? p.divisibility : std::gcd(p.divisibility, within * scale);
    f.axes[d].divisibility = std::gcd(left, product(b.divisorAt(d, c), scale));
  }
  f.sign = op.kind == OpKind::AddPtr ? Sign::Unknown : signOfSum(op);
  return f;
}

ValueFacts Analysis::multiply(const Op &op) const {
  const ValueFacts &a = of(op.operands[0]), &b = of(op.operands[1]);
  ValueFacts f = uniform(op);
  for (unsigned d = 0; d < f.axes.size(); ++d)
    f.axes[d].divisibility =
        std::max(product(a.divisorAt(d, 1), b.divisorAt(d, 1)), product(a.divisorOfAll(), b.divisorOfAll()));
  f.sign = std::min(signBeside(op.operands[0], op.operands[1]), signBeside(op.operands[1], op.operands[0]));
  return f;
}

/// Divides x / n for all multiples x of `divisor`, if those are multiples of n too. Numbers that count from 2^n when
/// they are negative keep powers of two alone.
static int64_t divisorOfQuotient(int64_t divisor, int64_t n, bool isExact) {
  if (!isExact)
    divisor &= -divisor;
  if (n <= 0 || divisor % n != 0)
    return 1;
  return divisor >= largest ? largest : divisor / n;
}

/// x / n and x % n: a group of g consecutive numbers that starts at a multiple of g lies between two multiples of n if
/// g divides n. Signed division rounds toward zero, so there x must not be negative.
ValueFacts Analysis::divide(const Op &op) const {
  const ValueFacts &a = of(op.operands[0]), &b = of(op.operands[1]);
  bool isSigned = op.kind == OpKind::SDiv || op.kind == OpKind::SRem,
       isRem = op.kind == OpKind::SRem || op.kind == OpKind::URem;
  ValueFacts f = uniform(op);
  f.sign = a.sign; // quotients: extents that programs are counted by are taken to be positive
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    if (isRem) // a multiple of g modulo a multiple of g, also of the elements alone
      f.axes[d].divisibility = std::gcd(a.divisorAt(d, 1), b.divisorAt(d, 1));
    else if (std::optional<int64_t> n = constantInt(op.operands[1]))
      f.axes[d].divisibility = divisorOfQuotient(a.divisorAt(d, 1), *n, isSigned || a.isNonNegative());
    if (isSigned && a.sign == Sign::Unknown)
      continue;
    int64_t g = std::gcd(std::gcd(a.axes[d].contiguity, a.axes[d].divisibility),
                         std::gcd(b.divisorAt(d, 1), b.axes[d].constancy));
    if (!isSigned) // negative numbers count from 2^n, which only powers of two divide
      g &= -g;
    if (!isRem)
      f.axes[d].constancy = std::max(f.axes[d].constancy, g);
    else if (g > 1)
      f.axes[d] = {g, std::gcd(a.divisorAt(d, g), b.divisorAt(d, 1)), f.axes[d].constancy};
  }
  return f;
}

/// Shifts by constants, masks of low bits.
ValueFacts Analysis::shiftOrMask(const Op &op) const {
  const ValueFacts &a = of(op.operands[0]);
  ValueFacts f = uniform(op);
  std::optional<int64_t> c = constantInt(op.operands[1]);
  if (op.kind == OpKind::And)
    f.sign = std::max(a.sign, of(op.operands[1]).sign);
  if (!c || *c < 0 || *c >= largest)
    return f;
  bool isMask = op.kind == OpKind::And;
  if (isMask ? (*c & (*c + 1)) != 0 : *c > 30)
    return f;
  int64_t n = isMask ? *c + 1 : int64_t(1) << *c;
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    if (op.kind == OpKind::Shl) {
      f.axes[d].divisibility = product(a.divisorAt(d, 1), n);
      continue;
    }
    int64_t g = std::gcd(std::gcd(a.axes[d].contiguity, a.axes[d].divisibility), n);
    if (!isMask)
      f.axes[d].divisibility = divisorOfQuotient(a.divisorAt(d, 1), n, op.kind == OpKind::AShr || a.isNonNegative());
    if (isMask)
      f.axes[d] = {g, std::gcd(a.divisorAt(d, g), n), f.axes[d].constancy};
    else
      f.axes[d].constancy = std::max(f.axes[d].constancy, g);
  }
  f.sign = isMask || (op.kind == OpKind::LShr && *c > 0) ? Sign::NonNegative : a.sign;
  return f;
}

/// x < n with x consecutive and aligned: all of a group lie on one side of n if n is a multiple of the group.
ValueFacts Analysis::compare(const Op &op) const {
  ValueFacts f = uniform(op);
  if (op.operands[0]->type.isPtr)
    return f;
  CmpPred p = op.pred();
  bool below = p == CmpPred::Slt || p == CmpPred::Sge || p == CmpPred::Ult || p == CmpPred::Uge;  // x < n, x >= n
  bool above = p == CmpPred::Sgt || p == CmpPred::Sle || p == CmpPred::Ugt || p == CmpPred::Ule;  // n > x, n <= x
  if (!below && !above)
    return f;
  const ValueFacts &x = of(op.operands[below ? 0 : 1]), &n = of(op.operands[below ? 1 : 0]);
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    int64_t g = std::gcd(std::gcd(x.axes[d].contiguity, x.axes[d].divisibility),
                         std::gcd(n.divisorAt(d, 1), n.axes[d].constancy));
    if (p >= CmpPred::Ult)
      g &= -g;
    f.axes[d].constancy = std::max(f.axes[d].constancy, g);
  }
  return f;
}

ValueFacts Analysis::select(const Op &op) const {
  const ValueFacts &cond = of(op.operands[0]), &a = of(op.operands[1]), &b = of(op.operands[2]);
  ValueFacts f = uniform(op);
  for (unsigned d = 0; d < f.axes.size(); ++d) {
    int64_t c = std::gcd(cond.axes[d].constancy, std::gcd(a.axes[d].contiguity, b.axes[d].contiguity));
    f.axes[d].contiguity = c;
    // Contiguous groups of pointers start at bytes; go down to single elements only if they are no groups.
    bool whole = c % a.axes[d].contiguity == 0 && c % b.axes[d].contiguity == 0;
    f.axes[d].divisibility = whole || !op.result()->type.isPtr ? std::gcd(a.divisorAt(d, c), b.divisorAt(d, c)) : 1;
  }
  f.sign = std::min(a.sign, b.sign);
  return f;
}

ValueFacts Analysis::cast(const Op &op) const {
  const Type &from = op.operands[0]->type, &to = op.result()->type;
  ValueFacts f = of(op.operands[0]);
  switch (op.kind) {
  case OpKind::SExt: return f;
  case OpKind::ZExt:
    // Of -1, 0 only -1 moves; groups aligned to a power of two move as one, by a power of two.
    for (unsigned d = 0; d < f.axes.size() && !f.isNonNegative(); ++d) {
      AxisFact &a = f.axes[d];
      int64_t g = std::gcd(a.contiguity, a.divisibility & -a.divisibility);
      int64_t divisor = std::gcd(f.divisorAt(d, g), int64_t(1) << std::min(bitWidth(from.elem), 40u));
      a = {from.elem == Elem::I1 ? 1 : g, from.elem == Elem::I1 ? 1 : divisor, a.constancy};
    }
    f.sign = Sign::NonNegative;
    return f;
  case OpKind::Trunc: {
    int64_t modulus = int64_t(1) << bitWidth(to.elem); // Trunc's target is at most 32 bits wide
    for (AxisFact &a : f.axes)
      a.divisibility = a.divisibility >= largest ? largest : std::gcd(a.divisibility, modulus);
    f.sign = Sign::Unknown;
    return f;
  }
  default: break;
  }
  // Between pointers and integers: divisors are bytes on both sides, contiguity is in elements of different size.
  bool sameSize = byteWidth(from.isPtr ? from.elem : Elem::I8) == byteWidth(to.isPtr ? to.elem : Elem::I8);
  f.sign = Sign::Unknown;
  if (!sameSize)
    for (AxisFact &a : f.axes)
      if (a.contiguity > 1)
        a = {1, std::gcd<int64_t>(a.divisibility, from.isPtr ? byteWidth(from.elem) : 1), a.constancy};
  return f;
}

/// Extents of 1 come and go. The other axes form runs, the shortest that have as many elements in the source as in the
/// target: [4, 8] becomes [32], or [2, 16]. Both number the elements of a run with the last axis as the fastest, so the
/// groups of the source's last axis are groups of the target's, cut to its extent. Equal elements that fill an axis are
/// equal along the axis before, too.
ValueFacts Analysis::reshape(const Op &op) const {
  const Type &from = op.operands[0]->type, &to = op.result()->type;
  const ValueFacts &a = of(op.operands[0]);
  ValueFacts f = nothing(to);
  f.sign = a.sign;
  bool constant = true;
  for (unsigned d = 0; d < a.axes.size(); ++d)
    constant &= a.axes[d].constancy == extent(from, d);
  for (unsigned d = 0; d < f.axes.size(); ++d)
    f.axes[d] = {1, a.divisorOfAll(), constant ? extent(to, d) : 1};
  std::vector<unsigned> source, target; // axes that are left
  for (unsigned d = 0; d < from.shape.rank(); ++d)
    if (from.shape[d] != 1)
      source.push_back(d);
  for (unsigned d = 0; d < to.shape.rank(); ++d)
    if (to.shape[d] != 1)
      target.push_back(d);
  while (!op.reorder() && !source.empty() && !target.empty()) {
    size_t s = source.size() - 1, t = target.size() - 1; // where the run begins
    int64_t left = from.shape[source[s]], right = to.shape[target[t]];
    while (left != right)
      left < right ? left *= from.shape[source[--s]] : right *= to.shape[target[--t]];
    int64_t equal = a.axes[source.back()].constancy, size = from.shape[source.back()];
    for (size_t i = source.size() - 1; i-- > s && equal == size; size *= from.shape[source[i]])
      equal *= a.axes[source[i]].constancy;
    int64_t inner = 1;
    for (size_t i = target.size(); i-- > t && equal % inner == 0; inner *= to.shape[target[i]])
      f.axes[target[i]].constancy = std::gcd(equal / inner, to.shape[target[i]]);
    AxisFact &x = f.axes[target.back()];
    x.contiguity = std::gcd(a.axes[source.back()].contiguity, to.shape[target.back()]);
    int64_t divisor = a.divisorAt(source.back(), x.contiguity);
    x.divisibility = x.contiguity > 1 ? divisor : std::max(x.divisibility, divisor);
    source.resize(s);
    target.resize(t);
  }
  return f;
}

ValueFacts Analysis::computePure(const Op &op) const {
  const Type &t = op.result()->type;
  switch (op.kind) {
  case OpKind::Const:
    if (std::optional<int64_t> c = constantInt(op.result()))
      return constant(t, *c);
    return constant(t, 1);
  case OpKind::ProgramId: case OpKind::NumPrograms: case OpKind::ClusterRank: {
    ValueFacts f = nothing(t);
    f.sign = Sign::NonNegative;
    return f;
  }
  case OpKind::Range: {
    ValueFacts f = nothing(t);
    f.axes[0] = {t.shape[0], divisorOf(op.start()), 1};
    f.sign = signIf(op.start() >= 0);
    return f;
  }
  case OpKind::Add: case OpKind::Sub: case OpKind::AddPtr: return sum(op);
  case OpKind::Mul: return multiply(op);
  case OpKind::SDiv: case OpKind::UDiv: case OpKind::SRem: case OpKind::URem: return divide(op);
  case OpKind::Shl: case OpKind::LShr: case OpKind::AShr: case OpKind::And: return shiftOrMask(op);
  case OpKind::SMin: case OpKind::SMax: case OpKind::UMin: case OpKind::UMax: {
    ValueFacts f = uniform(op);
    for (unsigned d = 0; d < f.axes.size(); ++d)
      f.axes[d].divisibility = std::gcd(of(op.operands[0]).divisorAt(d, 1), of(op.operands[1]).divisorAt(d, 1));
    f.sign = std::min(signBeside(op.operands[0], op.operands[1]), signBeside(op.operands[1], op.operands[0]));
    return f;
  }
  case OpKind::CmpI: return compare(op);
  case OpKind::Select: return select(op);
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Trunc:
  case OpKind::IntToPtr:
  case OpKind::PtrToInt: return cast(op);
  case OpKind::Bitcast: return t.isPtr ? cast(op) : uniform(op);
  case OpKind::Splat: {
    ValueFacts f = nothing(t);
    const ValueFacts &a = of(op.operands[0]);
    for (unsigned d = 0; d < f.axes.size(); ++d)
      f.axes[d] = {1, a.axes[0].divisibility, t.shape[d]};
    f.sign = a.sign;
    return f;
  }
  case OpKind::Broadcast: {
    ValueFacts f = of(op.operands[0]);
    for (unsigned d = 0; d < f.axes.size(); ++d)
      if (op.operands[0]->type.shape[d] != t.shape[d])
        f.axes[d] = {1, f.axes[d].divisibility, t.shape[d]};
    return f;
  }
  case OpKind::ExpandDims: {
    ValueFacts f = of(op.operands[0]);
    f.axes.insert(f.axes.begin() + op.axis(), {1, f.divisorOfAll(), 1});
    return f;
  }
  case OpKind::Reshape: case OpKind::Unsplat: return reshape(op);
  case OpKind::Permute: {
    const ValueFacts &a = of(op.operands[0]);
    ValueFacts f = nothing(t);
    for (unsigned d = 0; d < f.axes.size(); ++d)
      f.axes[d] = a.axes[static_cast<size_t>(op.perm()[d])];
    f.sign = a.sign;
    return f;
  }
  case OpKind::Load: return op.isVolatile() ? nothing(t) : uniform(op);
  default: return op.has(traits::Elementwise) ? uniform(op) : nothing(t);
  }
}

} // namespace

AxisFacts::AxisFacts(const Function &f) { Analysis(facts_).function(f); }

const ValueFacts &AxisFacts::of(const Value *v) const { return facts_.at(v); }

int64_t AxisFacts::vectorWidth(const Value *pointer, const Value *mask, unsigned axis) const {
  int64_t n = of(pointer, axis).contiguity;
  return mask ? std::gcd(n, of(mask, axis).constancy) : n;
}

} // namespace tegula
