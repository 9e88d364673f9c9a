// One walk over the kernel in program order (Counter), and symbolic values on demand (Symbols).
#include "passes/WorkCount.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include "passes/ArgumentAccess.h"
#include "passes/AxisFacts.h"
#include "passes/Users.h"
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tegula {
using namespace ir;

namespace {
using Expr = WorkExpr;
using Kind = WorkExpr::Kind;

/// For each dimension of a tile the coordinate of the access that it is; `zero`: always its first element.
using Coordinates = std::string;
constexpr char zero = '\x7f';

Coordinates identity(unsigned rank) {
  Coordinates c;
  for (unsigned d = 0; d < rank; ++d)
    c.push_back(static_cast<char>(d));
  return c;
}

/// A value that advances by the same addend in every iteration of a loop: its initial value, and the addend.
struct Induction {
  const Value *start = nullptr, *addend = nullptr; // no addend: it never changes
  bool subtracts = false;
};

/// `next`: what the loop's end gives for `argument`; `same`: what else stands for the argument within the iteration.
std::optional<Induction> inductionOf(const Op &loop, const Value *start, const Value *argument, const Value *next,
                                     const Value *same) {
  auto isArgument = [&](const Value *v) { return v == argument || v == same; };
  if (isArgument(next))
    return Induction{start, nullptr, false};
  if (!next->def)
    return std::nullopt;
  const Op &op = *next->def;
  if (op.kind != OpKind::Add && op.kind != OpKind::Sub && op.kind != OpKind::AddPtr)
    return std::nullopt;
  const Value *left = op.operands[0], *right = op.operands[1];
  if (op.kind == OpKind::Add && isArgument(right))
    std::swap(left, right);
  if (!isArgument(left) || !isInvariant(right, loop))
    return std::nullopt;
  return Induction{start, right, op.kind == OpKind::Sub};
}

std::optional<Induction> inductionOf(const Op &loop, size_t i) {
  if (loop.kind == OpKind::For) {
    const Block &body = *loop.region(0);
    return inductionOf(loop, loop.operands[3 + i], body.args[i + 1], body.terminator()->operands[i], nullptr);
  }
  const Block &head = *loop.region(0), &body = *loop.region(1);
  if (head.terminator()->operands[i + 1] != head.args[i])
    return std::nullopt;
  return inductionOf(loop, loop.operands[i], head.args[i], body.terminator()->operands[i], body.args[i]);
}

/// Values as expressions.
class Symbols {
public:
  explicit Symbols(Work &work) : work_(work) { unknown_ = make(Kind::Unknown); }

  int32_t unknown() const { return unknown_; }
  int32_t make(Kind k, int32_t a = -1, int32_t b = -1, int32_t c = -1, int64_t value = 0);
  int32_t constant(int64_t v) { return make(Kind::Constant, -1, -1, -1, v); }
  int32_t leaf(Kind k, int64_t v) { return make(k, -1, -1, -1, v); }
  bool isConstant(int32_t e, int64_t v) const { return at(e).kind == Kind::Constant && at(e).value == v; }

  /// Integers as they are, pointers as bytes from the argument they come from.
  int32_t of(const Value *v, const Coordinates &c = {});
  int32_t negated(int32_t e) { return make(Kind::Sub, constant(0), e); }
  int32_t both(int32_t a, int32_t b) { return isConstant(a, 1) ? b : isConstant(b, 1) ? a : make(Kind::And, a, b); }

  /// The scope of a loop's body, from where on its iterations have a number.
  void enter(const Op &loop, int32_t scope) { loops_[&loop] = scope; }
  /// A value that stands for another one (arguments of a function that is called).
  void stands(const Value *v, int32_t e) { given_[v] = e; }
  void forget() { known_.clear(); }

private:
  const Expr &at(int32_t e) const { return work_.exprs[static_cast<size_t>(e)]; }
  int32_t compute(const Value *v, const Coordinates &c);
  int32_t ofArgument(const Value *v, const Coordinates &c);
  int32_t ofOp(const Op &op, const Value *v, const Coordinates &c);
  int32_t carried(const Op &loop, size_t i, int32_t iterations, const Coordinates &c);
  int32_t compare(const Op &op, const Coordinates &c);

  struct Key {
    const Value *value;
    Coordinates coordinates;
    bool operator==(const Key &) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key &k) const {
      return std::hash<const void *>()(k.value) * 31 + std::hash<std::string>()(k.coordinates);
    }
  };
  struct ExprHash {
    size_t operator()(const Expr &e) const {
      uint64_t h = static_cast<uint64_t>(e.kind);
      for (int64_t x : {int64_t(e.a), int64_t(e.b), int64_t(e.c), e.value})
        h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
      return h;
    }
  };
  static constexpr unsigned deepest = 400;
  static constexpr size_t most = 20000;
  Work &work_;
  int32_t unknown_ = 0;
  unsigned depth_ = 0;
  std::unordered_map<Key, int32_t, KeyHash> known_;
  std::unordered_map<Expr, int32_t, ExprHash> interned_;
  std::unordered_map<const Op *, int32_t> loops_;
  std::unordered_map<const Value *, int32_t> given_;
};

int32_t Symbols::make(Kind k, int32_t a, int32_t b, int32_t c, int64_t value) {
  Expr e{k, a, b, c, value};
  if (k >= Kind::Add) {
    if ((a == unknown_ || b == unknown_ || c == unknown_) && k != Kind::Select)
      return unknown_;
    if (isConstant(b, 0) &&
        (k == Kind::Add || k == Kind::Sub || k == Kind::Or || k == Kind::Xor || k == Kind::Shl || k == Kind::Shr))
      return a;
    if (k == Kind::Add && isConstant(a, 0))
      return b;
    if (k == Kind::Mul && (isConstant(a, 1) || isConstant(b, 0)))
      return b;
    if ((k == Kind::Mul && (isConstant(b, 1) || isConstant(a, 0))) || (k == Kind::Div && isConstant(b, 1)))
      return a;
  }
  auto it = interned_.find(e);
  if (it != interned_.end())
    return it->second;
  if (work_.exprs.size() >= most)
    return unknown_;
  work_.exprs.push_back(e);
  return interned_[e] = static_cast<int32_t>(work_.exprs.size() - 1);
}

int32_t Symbols::of(const Value *v, const Coordinates &c) {
  if (auto g = given_.find(v); g != given_.end())
    return g->second;
  if (!v->type.isPtr && !v->type.isIntLike())
    return unknown_;
  auto [it, isNew] = known_.try_emplace({v, c}, unknown_);
  if (!isNew)
    return it->second;
  if (depth_ >= deepest)
    return unknown_;
  ++depth_;
  int32_t e = compute(v, c);
  --depth_;
  return known_[{v, c}] = e;
}

int32_t Symbols::compute(const Value *v, const Coordinates &c) {
  return v->def ? ofOp(*v->def, v, c) : ofArgument(v, c);
}

int32_t Symbols::ofArgument(const Value *v, const Coordinates &c) {
  const Op *owner = v->block->parent->op;
  if (!owner)
    return v->type.isTensor() ? unknown_ : v->type.isPtr ? constant(0) : leaf(Kind::Argument, v->index);
  auto it = loops_.find(owner);
  if (it == loops_.end())
    return unknown_;
  int32_t iteration = leaf(Kind::Iteration, it->second);
  if (owner->kind == OpKind::While)
    return carried(*owner, v->index, iteration, c);
  if (v->index > 0)
    return carried(*owner, v->index - 1, iteration, c);
  int32_t moved = make(Kind::Mul, iteration, of(owner->operands[2]));
  return make(owner->reverse() ? Kind::Sub : Kind::Add, of(owner->operands[0]), moved);
}

int32_t Symbols::carried(const Op &loop, size_t i, int32_t iterations, const Coordinates &c) {
  std::optional<Induction> in = inductionOf(loop, i);
  if (!in)
    return unknown_;
  int32_t start = of(in->start, c);
  if (!in->addend)
    return start;
  int32_t moved = make(Kind::Mul, of(in->addend, c), iterations);
  if (loop.results[i]->type.isPtr)
    moved = make(Kind::Mul, moved, constant(byteWidth(loop.results[i]->type.elem)));
  return make(in->subtracts ? Kind::Sub : Kind::Add, start, moved);
}

int32_t Symbols::compare(const Op &op, const Coordinates &c) {
  int32_t a = of(op.operands[0], c), b = of(op.operands[1], c);
  CmpPred p = op.pred();
  auto less = [&](Kind k, int32_t x, int32_t y, bool isUnsigned) {
    int32_t e = make(k, x, y);
    // No kernel has numbers of 2^63; a negative number is a large one.
    return isUnsigned ? both(make(Kind::LessEqual, constant(0), x), e) : e;
  };
  switch (p) {
  case CmpPred::Eq: return make(Kind::Equal, a, b);
  case CmpPred::Ne: return make(Kind::Equal, make(Kind::Equal, a, b), constant(0));
  case CmpPred::Slt: case CmpPred::Ult: return less(Kind::Less, a, b, p == CmpPred::Ult);
  case CmpPred::Sle: case CmpPred::Ule: return less(Kind::LessEqual, a, b, p == CmpPred::Ule);
  case CmpPred::Sgt: case CmpPred::Ugt: return less(Kind::Less, b, a, p == CmpPred::Ugt);
  case CmpPred::Sge: case CmpPred::Uge: return less(Kind::LessEqual, b, a, p == CmpPred::Uge);
  default: return unknown_;
  }
}

struct BinaryRow {
  OpKind op;
  Kind kind;
};
constexpr BinaryRow binaries[] = {
    {OpKind::Add, Kind::Add},  {OpKind::Sub, Kind::Sub},  {OpKind::Mul, Kind::Mul},  {OpKind::SDiv, Kind::Div},
    {OpKind::UDiv, Kind::Div}, {OpKind::SRem, Kind::Rem}, {OpKind::URem, Kind::Rem}, {OpKind::And, Kind::And},
    {OpKind::Or, Kind::Or},    {OpKind::Xor, Kind::Xor},  {OpKind::Shl, Kind::Shl},  {OpKind::AShr, Kind::Shr},
    {OpKind::LShr, Kind::Shr}, {OpKind::SMin, Kind::Min}, {OpKind::UMin, Kind::Min}, {OpKind::SMax, Kind::Max},
    {OpKind::UMax, Kind::Max},
};

int32_t Symbols::ofOp(const Op &op, const Value *v, const Coordinates &c) {
  auto operand = [&](size_t i) { return of(op.operands[i], op.operands[i]->type.isTensor() ? c : Coordinates()); };
  for (const BinaryRow &r : binaries)
    if (r.op == op.kind) {
      int32_t a = operand(0);
      return a == unknown_ ? a : make(r.kind, a, operand(1));
    }
  switch (op.kind) {
  case OpKind::Const:
    if (std::optional<int64_t> n = constantInt(v))
      return constant(*n);
    return unknown_;
  case OpKind::ProgramId: return leaf(Kind::ProgramId, op.axis());
  case OpKind::NumPrograms: return leaf(Kind::NumPrograms, op.axis());
  case OpKind::Range:
    return make(Kind::Add, c[0] == zero ? constant(0) : leaf(Kind::Coordinate, c[0]), constant(op.start()));
  case OpKind::AddPtr:
    return make(Kind::Add, operand(0), make(Kind::Mul, operand(1), constant(byteWidth(v->type.elem))));
  case OpKind::CmpI: return op.operands[0]->type.isPtr ? unknown_ : compare(op, c);
  case OpKind::Select: {
    int32_t cond = operand(0), a = operand(1), b = operand(2);
    return cond == unknown_ ? a == b ? a : unknown_ : make(Kind::Select, cond, a, b);
  }
  case OpKind::SExt: case OpKind::Trunc: case OpKind::Convert: return operand(0);
  case OpKind::ZExt: return operand(0); // numbers of programs and elements are not negative
  case OpKind::Bitcast: return op.operands[0]->type.isPtr == v->type.isPtr ? operand(0) : unknown_;
  case OpKind::Splat: return of(op.operands[0]);
  case OpKind::Unsplat: return of(op.operands[0], Coordinates(op.operands[0]->type.shape.rank(), zero));
  case OpKind::ExpandDims: {
    Coordinates inner = c;
    inner.erase(static_cast<size_t>(op.axis()), 1);
    return of(op.operands[0], inner);
  }
  case OpKind::Broadcast: {
    Coordinates inner = c;
    for (unsigned d = 0; d < inner.size(); ++d)
      if (op.operands[0]->type.shape[d] == 1)
        inner[d] = zero;
    return of(op.operands[0], inner);
  }
  case OpKind::Permute: {
    std::span<const int64_t> perm = op.perm();
    Coordinates inner = c;
    for (size_t d = 0; d < perm.size(); ++d)
      inner[static_cast<size_t>(perm[d])] = c[d];
    return of(op.operands[0], inner);
  }
  case OpKind::Reshape: {
    // Extents of 1 may come and go.
    Coordinates inner, left;
    for (unsigned d = 0; d < c.size(); ++d)
      if (v->type.shape[d] != 1)
        left.push_back(c[d]);
    const Shape &from = op.operands[0]->type.shape;
    size_t next = 0;
    std::vector<int64_t> a, b;
    for (int64_t e : from)
      if (e != 1)
        a.push_back(e);
    for (int64_t e : v->type.shape)
      if (e != 1)
        b.push_back(e);
    if (a != b)
      return unknown_;
    for (int64_t e : from)
      inner.push_back(e == 1 ? zero : left[next++]);
    return of(op.operands[0], inner);
  }
  case OpKind::For: case OpKind::While: {
    auto it = loops_.find(&op);
    if (it == loops_.end())
      return unknown_;
    return carried(op, v->index, work_.scopes[static_cast<size_t>(it->second)].count, c);
  }
  case OpKind::If: {
    int32_t cond = of(op.operands[0]), a = of(op.region(0)->terminator()->operands[v->index], c),
            b = of(op.region(1)->terminator()->operands[v->index], c);
    return a == b ? a : cond == unknown_ ? unknown_ : make(Kind::Select, cond, a, b);
  }
  default: return unknown_;
  }
}

/// The cost of an elementwise operation per element, if it exceeds one operation of its type.
struct CostRow {
  OpKind op;
  double special, arithmetic;
};
// Instructions counted in PTX for sm_90a.
constexpr CostRow costs[] = {
    {OpKind::Exp, 1, 4},  {OpKind::Exp2, 1, 2},  {OpKind::Log, 0, 18}, {OpKind::Log2, 0, 18}, {OpKind::Sin, 0, 40},
    {OpKind::Cos, 0, 40}, {OpKind::Rsqrt, 1, 1}, {OpKind::Erf, 1, 25}, {OpKind::Tanh, 1, 16}, {OpKind::UMulHi, 0, 2},
};

class Counter {
public:
  explicit Counter(const Module &m) : module_(m), symbols_(work_) {}
  Work run();

private:
  void function(const Function &f, int32_t scope);
  void block(const Block &b, int32_t scope);
  void visit(const Op &op, int32_t scope);
  void loop(const Op &op, int32_t scope);
  void call(const Op &op, int32_t scope);
  void elementwise(const Op &op, int32_t scope);
  void access(const Op &op, int32_t scope);
  void descriptor(const Op &op, int32_t scope);
  void dot(const Op &op, int32_t scope);
  int32_t tripsOf(const Op &loop);
  int32_t whileTrips(const Op &loop);
  int32_t child(WorkScope::Kind kind, int32_t parent, int32_t count, bool otherwise = false);
  WorkScope &at(int32_t scope) { return work_.scopes[static_cast<size_t>(scope)]; }
  void add(int32_t scope, WorkKind k, double n) { at(scope)[k] += n; }
  uint32_t vectorBytes(const Value *pointer, const Value *mask) const;
  bool feedsDots(const Value *v, unsigned depth = 0) const;
  static bool isLoaded(const Value *v);
  bool isIndex(const Value *v) const {
    return v->type.isScalar() ? v->type.isIntLike() || v->type.isPtr : index_.count(v) != 0;
  }
  int32_t dotOf(const Value *v) const {
    auto it = dots_.find(v);
    return it == dots_.end() ? -1 : it->second;
  }
  void follow(const Op &op);
  void findAddresses(const Block &b);
  void leadsToAddress(const Value *v);

  const Module &module_;
  Work work_;
  Symbols symbols_;
  std::optional<AxisFacts> facts_;
  const Function *function_ = nullptr;
  Users users_;
  std::unordered_map<const Value *, int32_t> dots_;       // the last dot that a value is computed from
  // tiles made of ranges and scalars alone, for addresses and masks
  std::unordered_map<const Value *, bool> index_;
  std::unordered_set<const Value *> addresses_;           // that pointers and masks of accesses are made of
  size_t visited_ = 0;
};

int32_t Counter::child(WorkScope::Kind kind, int32_t parent, int32_t count, bool otherwise) {
  WorkScope s;
  s.kind = kind, s.parent = parent, s.count = count, s.otherwise = otherwise;
  work_.scopes.push_back(s);
  return static_cast<int32_t>(work_.scopes.size() - 1);
}

void Counter::leadsToAddress(const Value *v) {
  std::vector<const Value *> left{v};
  while (!left.empty()) {
    const Value *at = left.back();
    left.pop_back();
    if (!at || !addresses_.insert(at).second)
      continue;
    const Op *op = at->def ? at->def : at->block->parent->op;
    if (!op)
      continue;
    const bool isLoop = op->kind == OpKind::For || op->kind == OpKind::While;
    if (at->def && op->regions.empty())
      left.insert(left.end(), op->operands.begin(), op->operands.end());
    // What regions give for it; of a loop also what it starts with.
    size_t i = at->index - (!at->def && op->kind == OpKind::For);
    if (at->def && op->kind == OpKind::If)
      for (const Region *r : op->regions)
        left.push_back(r->block->terminator()->operands[i]);
    if (isLoop && (at->def || op->kind == OpKind::While || at->index > 0)) {
      left.push_back(op->operands[i + (op->kind == OpKind::For ? 3 : 0)]);
      left.push_back(op->regions.back()->block->terminator()->operands[i]);
    }
  }
}

/// A hash of a program's offsets is made of ranges, too; only what accesses need is computed once for all that a thread
/// moves at once.
void Counter::findAddresses(const Block &b) {
  for (const Op *op : b.ops) {
    switch (op->kind) {
    case OpKind::Load: case OpKind::Store: case OpKind::AtomicRmw: case OpKind::AtomicCas:
      leadsToAddress(op->operands[0]);
      if (const Value *mask = op->mask())
        leadsToAddress(mask);
      break;
    default: break;
    }
    for (const Region *r : op->regions)
      findAddresses(*r->block);
  }
}

bool Counter::feedsDots(const Value *v, unsigned depth) const {
  std::span<Op *const> users = users_.of(v);
  if (users.empty() || depth > 8)
    return false;
  return std::all_of(users.begin(), users.end(), [&](const Op *u) {
    if (u->kind == OpKind::Dot)
      return u->operands[0] == v || u->operands[1] == v;
    return u->has(traits::Shape) && u->results.size() == 1 && feedsDots(u->result(), depth + 1);
  });
}

bool Counter::isLoaded(const Value *v) {
  while (v->def && v->def->has(traits::Shape) && v->def->operands.size() == 1)
    v = v->def->operands[0];
  return v->def && (v->def->kind == OpKind::Load || v->def->kind == OpKind::DescLoad);
}

uint32_t Counter::vectorBytes(const Value *pointer, const Value *mask) const {
  int64_t bytes = byteWidth(pointer->type.elem), best = bytes;
  for (unsigned d = 0; d < pointer->type.shape.rank(); ++d) {
    int64_t aligned = facts_->of(pointer, d).divisibility;
    int64_t together = facts_->vectorWidth(pointer, mask, d) * bytes;
    best = std::max(best, std::min(together, std::gcd(std::gcd(aligned, together), int64_t(1024))));
  }
  return static_cast<uint32_t>(best);
}

/// Which values are addresses and masks, and which come from a dot.
void Counter::follow(const Op &op) {
  int32_t last = -1;
  for (const Value *v : op.operands)
    last = std::max(last, dotOf(v));
  bool isPlain =
      op.has(traits::Elementwise) || op.has(traits::Shape) || op.kind == OpKind::Range || op.kind == OpKind::Const;
  bool isIndexed =
      isPlain && std::all_of(op.operands.begin(), op.operands.end(), [&](const Value *v) { return isIndex(v); });
  for (const Value *v : op.results) {
    if (last >= 0)
      dots_[v] = last;
    if (isIndexed && v->type.isTensor() && (v->type.isPtr || (v->type.isIntLike() && addresses_.count(v))))
      index_[v] = true;
  }
}

void Counter::elementwise(const Op &op, int32_t scope) {
  const Type &t = op.result()->type, &from = op.operands[0]->type;
  double n = static_cast<double>(t.numel());
  if (index_.count(op.result())) {
    bool isView =
        op.kind == OpKind::SExt || op.kind == OpKind::ZExt || op.kind == OpKind::Trunc || op.kind == OpKind::Bitcast;
    return add(scope, WorkKind::Index, isView ? 0 : n);
  }
  bool isDouble = t.elem == Elem::F64 || from.elem == Elem::F64;
  WorkKind base = isDouble                                               ? WorkKind::Double
                  : t.isPtr || (t.isIntLike() && bitWidth(t.elem) == 64) ? WorkKind::Wide
                  : t.isIntLike()                                        ? WorkKind::Integer
                  : t.elem == Elem::F32                                  ? WorkKind::Float
                                                                         : WorkKind::Half;
  for (const CostRow &r : costs)
    if (r.op == op.kind) {
      add(scope, WorkKind::Special, isDouble ? 0 : n * r.special);
      bool isShort = op.approx() || op.fast();
      return add(scope, base, n * (isDouble ? 30 : isShort ? 1 : r.arithmetic));
    }
  switch (op.kind) {
  case OpKind::FDiv: case OpKind::Sqrt: case OpKind::FRem:
    return isDouble ? add(scope, base, 15 * n) : add(scope, WorkKind::Divide, op.approx() || op.fast() ? n / 4 : n);
  case OpKind::SDiv: case OpKind::UDiv: case OpKind::SRem: case OpKind::URem:
    return constantInt(op.operands[1]) ? add(scope, base, 3 * n) : add(scope, WorkKind::IntDivide, n);
  case OpKind::FpTrunc:
  case OpKind::FpExt:
  case OpKind::FpToSI:
  case OpKind::FpToUI:
  case OpKind::SIToFp:
  case OpKind::UIToFp: return add(scope, WorkKind::Convert, n);
  case OpKind::Bitcast: return;
  case OpKind::CmpI: case OpKind::CmpF: case OpKind::Select: return add(scope, WorkKind::Integer, n);
  case OpKind::FMul: {
    // A product whose only use is a sum is part of it.
    const Op *user = users_.only(op.result());
    if (user && !op.rounded() && !user->rounded() && (user->kind == OpKind::FAdd || user->kind == OpKind::FSub))
      return;
    return add(scope, base, n);
  }
  default: return add(scope, base, n);
  }
}

void Counter::access(const Op &op, int32_t scope) {
  const Value *pointer = op.operands[0], *mask = op.mask();
  WorkAccess a;
  a.kind = op.kind == OpKind::Load    ? WorkAccess::Kind::Load
           : op.kind == OpKind::Store ? WorkAccess::Kind::Store
                                      : WorkAccess::Kind::Atomic;
  a.scope = scope;
  a.elementBytes = static_cast<uint8_t>(byteWidth(pointer->type.elem));
  a.vectorBytes = vectorBytes(pointer, mask);
  a.feedsDot = op.kind == OpKind::Load && feedsDots(op.result());
  a.shape.assign(pointer->type.shape.begin(), pointer->type.shape.end());
  a.argument = function_->isKernel ? baseArgument(pointer) : -1;
  Coordinates c = identity(pointer->type.shape.rank());
  a.offset = symbols_.of(pointer, c);
  if (mask)
    a.mask = symbols_.of(mask, mask->type.isTensor() ? c : Coordinates());
  work_.accesses.push_back(std::move(a));
}

void Counter::descriptor(const Op &op, int32_t scope) {
  DescAccess d = descAccess(op);
  WorkAccess a;
  a.kind = op.kind == OpKind::DescLoad    ? WorkAccess::Kind::Load
           : op.kind == OpKind::DescStore ? WorkAccess::Kind::Store
                                          : WorkAccess::Kind::Atomic;
  a.descriptor = true;
  a.scope = scope;
  a.elementBytes = static_cast<uint8_t>(byteWidth(d.base->type.elem));
  a.vectorBytes = 16;
  a.feedsDot = op.kind == OpKind::DescLoad && feedsDots(op.result());
  a.shape.assign(d.block.begin(), d.block.end());
  a.argument = function_->isKernel ? baseArgument(d.base) : -1;
  a.offset = symbols_.of(d.base);
  a.mask = symbols_.constant(1);
  for (unsigned i = 0; i < d.rank(); ++i) {
    int32_t at = d.offsets[i]->type.isTensor()
                     ? symbols_.of(d.offsets[i], Coordinates(1, static_cast<char>(i)))
                     : symbols_.make(Kind::Add, symbols_.of(d.offsets[i]), symbols_.leaf(Kind::Coordinate, i));
    int32_t bytes = symbols_.make(Kind::Mul, symbols_.of(d.strides[i]), symbols_.constant(a.elementBytes));
    a.offset = symbols_.make(Kind::Add, a.offset, symbols_.make(Kind::Mul, at, bytes));
    a.mask = symbols_.both(a.mask, symbols_.make(Kind::Less, at, symbols_.of(d.extents[i])));
  }
  work_.accesses.push_back(std::move(a));
}

void Counter::dot(const Op &op, int32_t scope) {
  const Type &a = op.operands[0]->type, &acc = op.result()->type;
  unsigned rank = a.shape.rank();
  WorkDot d;
  d.scope = scope;
  d.batch = rank == 3 ? a.shape[0] : 1;
  d.m = a.shape[rank - 2], d.k = a.shape[rank - 1], d.n = acc.shape[rank - 1];
  Elem widest = bitWidth(a.elem) >= bitWidth(op.operands[1]->type.elem) ? a.elem : op.operands[1]->type.elem;
  d.isFloat = isFloat(widest);
  d.bits = static_cast<uint8_t>(bitWidth(widest));
  struct Row {
    std::string_view precision;
    uint8_t bits, products;
  };
  static constexpr Row rows[] = {{"tf32", 19, 1}, {"tf32x3", 19, 3}, {"bf16x3", 16, 3}, {"bf16x6", 16, 6}};
  for (const Row &r : rows)
    if (widest == Elem::F32 && op.precision() == r.precision)
      d.bits = r.bits, d.products = r.products;
  d.loadsA = isLoaded(op.operands[0]), d.loadsB = isLoaded(op.operands[1]);
  d.waitsFor = std::max(dotOf(op.operands[0]), dotOf(op.operands[1]));
  if (d.waitsFor >= 0 && work_.dots[static_cast<size_t>(d.waitsFor)].scope != scope)
    d.waitsFor = -1;
  dots_[op.result()] = static_cast<int32_t>(work_.dots.size());
  work_.dots.push_back(d);
}

/// Of a condition `i < n` or one of its conjuncts, where every iteration adds the same to i.
int32_t Counter::whileTrips(const Op &loop) {
  const Block &head = *loop.region(0);
  std::vector<const Value *> conditions{head.terminator()->operands[0]};
  for (size_t at = 0; at < conditions.size() && at < 16; ++at) {
    const Op *c = conditions[at]->def;
    if (!c)
      continue;
    if (c->kind == OpKind::And)
      conditions.insert(conditions.end(), {c->operands[0], c->operands[1]});
    if (c->kind != OpKind::CmpI)
      continue;
    bool isStrict = c->pred() == CmpPred::Slt || c->pred() == CmpPred::Ult,
         isLoose = c->pred() == CmpPred::Sle || c->pred() == CmpPred::Ule;
    const Value *i = c->operands[0], *bound = c->operands[1];
    if (!(isStrict || isLoose) || i->block != &head || !isInvariant(bound, loop))
      continue;
    std::optional<Induction> in = inductionOf(loop, i->index);
    if (!in || !in->addend || in->subtracts)
      continue;
    int32_t end = symbols_.make(Kind::Add, symbols_.of(bound), symbols_.constant(isLoose));
    return symbols_.make(Kind::Trips, symbols_.of(in->start), end, symbols_.of(in->addend));
  }
  return symbols_.unknown();
}

int32_t Counter::tripsOf(const Op &loop) {
  if (loop.kind == OpKind::While)
    return whileTrips(loop);
  int32_t from = symbols_.of(loop.operands[0]), to = symbols_.of(loop.operands[1]),
          step = symbols_.of(loop.operands[2]);
  return loop.reverse() ? symbols_.make(Kind::Trips, to, from, step) : symbols_.make(Kind::Trips, from, to, step);
}

void Counter::loop(const Op &op, int32_t scope) {
  int32_t inner = child(WorkScope::Kind::Loop, scope, tripsOf(op));
  at(inner).stages = static_cast<uint32_t>(std::clamp<int64_t>(op.numStages(), 0, 64));
  symbols_.enter(op, inner);
  size_t first = op.kind == OpKind::For ? 3 : 0, skip = op.kind == OpKind::For ? 1 : 0;
  for (const Region *r : op.regions) {
    for (size_t i = skip; i < r->block->args.size(); ++i)
      if (isIndex(op.operands[first + i - skip]) && inductionOf(op, i - skip))
        index_[r->block->args[i]] = true;
    block(*r->block, inner);
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Type &t = op.results[i]->type;
    if (t.isTensor() && !index_.count(op.regions[0]->block->args[i + skip]))
      add(inner, WorkKind::Carried, static_cast<double>(t.numel()));
    const Value *end = op.regions.back()->block->terminator()->operands[i];
    if (int32_t d = dotOf(end); d >= 0) {
      dots_[op.results[i]] = d;
      if (end->def && end->def->kind == OpKind::Dot)
        add(inner, WorkKind::Carried, -static_cast<double>(t.numel()));
    }
    if (isIndex(op.operands[first + i]) && inductionOf(op, i))
      index_[op.results[i]] = true;
  }
}

/// Counts the callee's body in place of the call.
void Counter::call(const Op &op, int32_t scope) {
  const Function *f = module_.find(op.callee());
  constexpr size_t enough = 100000;
  if (!f || visited_ > enough)
    return;
  std::vector<int32_t> given;
  for (const Value *v : op.operands)
    given.push_back(v->type.isTensor() ? symbols_.unknown() : symbols_.of(v));
  for (size_t i = 0; i < given.size(); ++i)
    symbols_.stands(f->block()->args[i], given[i]);
  symbols_.forget(); // of an earlier call
  const Function *caller = function_;
  std::optional<AxisFacts> facts = std::exchange(facts_, std::nullopt);
  function(*f, scope);
  facts_ = std::move(facts);
  function_ = caller;
}

void Counter::visit(const Op &op, int32_t scope) {
  ++visited_;
  follow(op);
  switch (op.kind) {
  case OpKind::For: case OpKind::While: return loop(op, scope);
  case OpKind::If: {
    int32_t cond = symbols_.of(op.operands[0]);
    for (unsigned i = 0; i < 2; ++i)
      block(*op.region(i), child(WorkScope::Kind::Branch, scope, cond, i == 1));
    return;
  }
  case OpKind::Call: return call(op, scope);
  case OpKind::Load: case OpKind::Store: case OpKind::AtomicRmw: case OpKind::AtomicCas: return access(op, scope);
  case OpKind::DescLoad: case OpKind::DescStore: case OpKind::DescReduce: return descriptor(op, scope);
  case OpKind::Dot: return dot(op, scope);
  case OpKind::Reduce:
    for (const Value *v : op.operands)
      add(scope, WorkKind::Reduce, static_cast<double>(v->type.numel()));
    ++at(scope).barriers;
    return;
  case OpKind::Scan: case OpKind::Gather: case OpKind::Histogram:
    add(scope, WorkKind::Exchange, static_cast<double>(op.operands[0]->type.numel()));
    ++at(scope).barriers;
    return;
  case OpKind::Permute:
    // Operands of dots are read transposed; addresses are computed so.
    if (!op.result()->type.isPtr && !feedsDots(op.result()) && !index_.count(op.result())) {
      add(scope, WorkKind::Exchange, static_cast<double>(op.result()->type.numel()));
      ++at(scope).barriers;
    }
    return;
  default: break;
  }
  if (op.has(traits::Terminator) || op.has(traits::Shape) || op.kind == OpKind::Const || op.kind == OpKind::Poison ||
      op.kind == OpKind::Range)
    return;
  if (op.results.empty() || op.result()->type.isScalar())
    return add(scope, WorkKind::Scalar, 1);
  if (op.has(traits::Elementwise) && !op.operands.empty())
    elementwise(op, scope);
  else
    add(scope, WorkKind::Integer, static_cast<double>(op.result()->type.numel()));
}

void Counter::block(const Block &b, int32_t scope) {
  for (const Op *op : b.ops)
    visit(*op, scope);
}

void Counter::function(const Function &f, int32_t scope) {
  function_ = &f;
  facts_.emplace(f);
  users_.add(*f.block());
  findAddresses(*f.block());
  block(*f.block(), scope);
}

Work Counter::run() {
  child(WorkScope::Kind::Body, -1, -1);
  function(*module_.kernel(), 0);
  return std::move(work_);
}
} // namespace

Work countWork(const Module &m) { return m.kernel() ? Counter(m).run() : Work(); }

} // namespace tegula
