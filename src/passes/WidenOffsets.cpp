// Spans of values, the set of values to widen, and the rewriting; see WidenOffsets.h.
#include "passes/WidenOffsets.h"
#include "ir/Builder.h"
#include "passes/Effects.h"
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t least32 = std::numeric_limits<int32_t>::min(), most32 = std::numeric_limits<int32_t>::max();
constexpr int64_t unbounded = int64_t(1) << 62;

/// The range of the widened form of a value. `wraps`: it may differ from the extension of the 32-bit form.
struct Span {
  int64_t lo = least32, hi = most32;
  bool wraps = false;
};

int64_t clamp(__int128 x) { return static_cast<int64_t>(std::clamp<__int128>(x, -unbounded, unbounded)); }

/// The span of an operation on widened operands.
Span made(__int128 lo, __int128 hi, bool wraps) {
  Span s{clamp(lo), clamp(hi), wraps};
  s.wraps |= s.lo < least32 || s.hi > most32;
  return s;
}

Span join(const Span &a, const Span &b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.wraps || b.wraps}; }

constexpr Span anything{-unbounded, unbounded, true};

Span ofWidth(Elem e) {
  unsigned bits = std::min(bitWidth(e), 32u);
  if (bits == 1)
    return {-1, 1, false};
  return {-(int64_t(1) << (bits - 1)), (int64_t(1) << (bits - 1)) - 1, false};
}

bool isInt32(const Type &t) { return !t.isPtr && t.elem == Elem::I32; }

/// Moves elements of its operands; one operand for each result element.
bool movesElements(OpKind k) {
  switch (k) {
  case OpKind::Splat:
  case OpKind::Unsplat:
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Permute:
  case OpKind::Join: case OpKind::Split: case OpKind::Cat: case OpKind::Gather:
    return true;
  default: return false;
  }
}

bool isArithmetic(OpKind k) {
  switch (k) {
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Mul:
  case OpKind::Shl:
  case OpKind::SDiv:
  case OpKind::SRem:
  case OpKind::AShr:
  case OpKind::And: case OpKind::Or: case OpKind::SMin: case OpKind::SMax: case OpKind::AbsI:
    return true;
  default: return false;
  }
}

/// A reduction or scan of one tile whose combination is one widenable operation; else null.
const Op *combination(const Op &op) {
  if ((op.kind != OpKind::Reduce && op.kind != OpKind::Scan) || op.results.size() != 1)
    return nullptr;
  const Block &body = *op.region(0);
  const Op *only = body.ops.size() == 2 ? body.ops[0] : nullptr;
  if (!only || body.ops[1]->operands != only->results || only->operands.size() != 2)
    return nullptr;
  bool ofBoth = (only->operands[0] == body.args[0] && only->operands[1] == body.args[1]) ||
                (only->operands[0] == body.args[1] && only->operands[1] == body.args[0]);
  bool known = only->kind == OpKind::Add || only->kind == OpKind::Mul || only->kind == OpKind::SMin ||
               only->kind == OpKind::SMax;
  return ofBoth && known ? only : nullptr;
}

bool isMaskOfAccess(OpKind k, size_t operand) {
  return (k == OpKind::Load && operand == 1) || ((k == OpKind::Store || k == OpKind::AtomicRmw) && operand == 2) ||
         (k == OpKind::AtomicCas && operand == 3);
}

bool isUnsignedPred(CmpPred p) {
  return p == CmpPred::Ult || p == CmpPred::Ule || p == CmpPred::Ugt || p == CmpPred::Uge;
}

bool narrowsPointer(const Op &op) {
  const Type *from = op.kind == OpKind::Bitcast ? &op.operands[0]->type : nullptr;
  return from && from->isPtr && op.result()->type.isPtr && byteWidth(op.result()->type.elem) < byteWidth(from->elem);
}

/// Pointers that were cast to smaller elements, and those computed from them.
class NarrowedPointers {
public:
  explicit NarrowedPointers(const Function &f) {
    do {
      grows_ = false;
      block(*f.block());
    } while (grows_);
  }
  bool isAmong(std::span<Value *const> values) const {
    return std::any_of(values.begin(), values.end(), [&](const Value *v) { return found_.count(v); });
  }

private:
  void add(const Value *v) { grows_ |= found_.insert(v).second; }
  void block(const Block &b);
  /// If one of them is found, all are.
  void join(std::initializer_list<const Value *> same) {
    if (std::any_of(same.begin(), same.end(), [&](const Value *v) { return found_.count(v); }))
      std::for_each(same.begin(), same.end(), [&](const Value *v) { add(v); });
  }

  std::unordered_set<const Value *> found_;
  bool grows_ = false;
};

void NarrowedPointers::block(const Block &b) {
  for (const Op *op : b.ops) {
    for (const Region *r : op->regions)
      block(*r->block);
    const bool isFor = op->kind == OpKind::For;
    for (size_t i = 0; i < op->results.size(); ++i) {
      const Value *v = op->results[i];
      if (!v->type.isPtr)
        continue;
      if (op->kind == OpKind::If)
        join({v, op->region(0)->terminator()->operands[i], op->region(1)->terminator()->operands[i]});
      else if (isFor)
        join({v, op->operands[i + 3], op->region(0)->args[i + 1], op->region(0)->terminator()->operands[i]});
      else if (op->kind == OpKind::While)
        join({v, op->operands[i], op->region(0)->args[i], op->region(0)->terminator()->operands[i + 1],
              op->region(1)->args[i], op->region(1)->terminator()->operands[i]});
      else if (narrowsPointer(*op) || isAmong(op->operands))
        add(v);
    }
  }
}

class Widener {
public:
  /// `narrowed`: only what leads to accesses through those is widened; null: all.
  explicit Widener(Module &m, const NarrowedPointers *narrowed) : m_(m), b_(m), narrowed_(narrowed) {}
  void function(Function &f) {
    spans(*f.block());
    roots(*f.block());
    while (!work_.empty()) {
      Value *v = work_.back();
      work_.pop_back();
      follow(*v);
    }
    rewrite(*f.block());
    rewire(*f.block());
  }

private:
  // Spans, in program order.
  void spans(const Block &b);
  Span compute(const Op &op) const;
  Span arithmetic(const Op &op) const;
  Span of(const Value *v) const {
    auto it = spans_.find(v);
    return it == spans_.end() ? ofWidth(v->type.elem) : it->second;
  }

  // The values to widen, from the roots backwards.
  bool roots(const Block &b);
  void want(Value *v);
  void follow(Value &v);
  void followArg(Value &v);
  void followOp(Op &op, Value &v);
  void carried(Op &op, size_t i);

  // The new values.
  void rewrite(Block &b);
  void beforeRegions(Op &op);
  void terminator(Op &op, const Op &owner);
  void rewriteOperands(Op &op);
  void twins(Op &op);
  Value *wide(Value *v);
  void rewire(Block &b);
  static Type wideType(const Type &t) { return t.withElem(Elem::I64); }
  bool isWanted(const Value *v) const { return wanted_.count(v); }
  /// Is this an address, or an access, that is of interest?
  bool isRooted(const Op &op) const {
    return !narrowed_ || narrowed_->isAmong(op.operands) || narrowed_->isAmong(op.results);
  }

  Module &m_;
  Builder b_;
  const NarrowedPointers *narrowed_;
  std::unordered_map<const Value *, Span> spans_;
  std::unordered_set<const Value *> wanted_; // i32: widened. i1, i64: looked through
  std::unordered_map<const Op *, std::vector<size_t>> carried_; // numbers of the results that get a twin
  std::unordered_map<const Value *, Value *> twins_;
  std::vector<Value *> work_;
};

// ---- spans

void Widener::spans(const Block &b) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::For && isInt32(op->operands[0]->type)) {
      Span lb = of(op->operands[0]), ub = of(op->operands[1]), step = of(op->operands[2]);
      bool reverse = op->reverse(), inherits = lb.wraps || ub.wraps || step.wraps;
      // The counter is compared with the bound after each step.
      __int128 lo = reverse ? __int128(ub.lo) + 1 : __int128(lb.lo),
               hi = reverse ? __int128(lb.hi) : __int128(ub.hi) - 1;
      bool overshoots = reverse ? lo - step.hi < least32 : hi + step.hi > most32;
      Span iv = made(std::min(lo, hi), std::max(lo, hi), inherits || overshoots);
      spans_[op->region(0)->args[0]] = iv;
    }
    if (op->kind == OpKind::For || op->kind == OpKind::While)
      for (const Region *r : op->regions)
        for (size_t i = op->kind == OpKind::For; i < r->block->args.size(); ++i)
          if (isInt32(r->block->args[i]->type))
            spans_[r->block->args[i]] = anything;
    for (const Region *r : op->regions)
      spans(*r->block);
    for (size_t i = 0; i < op->results.size(); ++i) {
      const Value *v = op->results[i];
      if (v->type.isPtr || !isInt(v->type.elem) || v->type.elem == Elem::I64)
        continue;
      if (op->kind == OpKind::If)
        spans_[v] = join(of(op->region(0)->terminator()->operands[i]), of(op->region(1)->terminator()->operands[i]));
      else if (op->kind == OpKind::For || op->kind == OpKind::While)
        spans_[v] = isInt32(v->type) ? anything : ofWidth(v->type.elem);
      else
        spans_[v] = compute(*op);
    }
  }
}

Span Widener::compute(const Op &op) const {
  const Type &t = op.results[0]->type;
  if (movesElements(op.kind)) {
    Span s = of(op.operands[0]);
    return op.kind == OpKind::Join || op.kind == OpKind::Cat ? join(s, of(op.operands[1])) : s;
  }
  if (t.elem == Elem::I32 && isArithmetic(op.kind))
    return arithmetic(op);
  switch (op.kind) {
  case OpKind::Const: {
    int64_t c = op.intValue();
    return {c, c, false};
  }
  case OpKind::Range: {
    int64_t start = op.start();
    return {start, start + t.shape[0] - 1, false};
  }
  case OpKind::ProgramId: return {0, most32 - 1, false};
  case OpKind::NumPrograms: return {0, most32, false};
  case OpKind::Select: return join(of(op.operands[1]), of(op.operands[2]));
  case OpKind::SExt: return of(op.operands[0]);
  case OpKind::ZExt: return {0, (int64_t(1) << bitWidth(op.operands[0]->type.elem)) - 1, false};
  case OpKind::Reduce:
  case OpKind::Scan:
    if (const Op *only = t.elem == Elem::I32 ? combination(op) : nullptr)
      return only->kind == OpKind::Add || only->kind == OpKind::Mul ? anything : of(op.operands[0]);
    return ofWidth(t.elem);
  default: return ofWidth(t.elem);
  }
}

Span Widener::arithmetic(const Op &op) const {
  Span a = of(op.operands[0]), b = op.operands.size() > 1 ? of(op.operands[1]) : Span();
  bool wraps = a.wraps || b.wraps;
  __int128 farthest = std::max<__int128>(-__int128(a.lo), a.hi);
  auto corners = [&](int64_t x, int64_t y) {
    __int128 c[] = {__int128(a.lo) * x, __int128(a.lo) * y, __int128(a.hi) * x, __int128(a.hi) * y};
    return made(*std::min_element(c, c + 4), *std::max_element(c, c + 4), wraps);
  };
  switch (op.kind) {
  case OpKind::Add: return made(__int128(a.lo) + b.lo, __int128(a.hi) + b.hi, wraps);
  case OpKind::Sub: return made(__int128(a.lo) - b.hi, __int128(a.hi) - b.lo, wraps);
  case OpKind::Mul: return corners(b.lo, b.hi);
  case OpKind::Shl:
    if (b.lo < 0 || b.hi > 31)
      return anything;
    return corners(int64_t(1) << b.lo, int64_t(1) << b.hi);
  case OpKind::SDiv:
    if (b.lo > 0)
      return made(std::min<__int128>(a.lo / b.lo, a.lo / b.hi), std::max<__int128>(a.hi / b.lo, a.hi / b.hi), wraps);
    return made(-farthest, farthest, wraps);
  case OpKind::SRem: {
    __int128 most = std::min(farthest, std::max<__int128>(-__int128(b.lo), b.hi) - 1);
    return made(a.lo < 0 ? -most : 0, a.hi > 0 ? most : 0, wraps);
  }
  case OpKind::AShr: return made(std::min<int64_t>(a.lo, 0), std::max<int64_t>(a.hi, 0), wraps);
  case OpKind::And:
    // The low bits are those of the 32-bit form.
    for (Value *v : op.operands)
      if (std::optional<int64_t> c = constantInt(v); c && *c >= 0)
        return {0, *c, false};
    return wraps ? anything : ofWidth(Elem::I32);
  case OpKind::Or: return wraps ? anything : ofWidth(Elem::I32);
  case OpKind::SMin: return made(std::min(a.lo, b.lo), std::min(a.hi, b.hi), wraps);
  case OpKind::SMax: return made(std::max(a.lo, b.lo), std::max(a.hi, b.hi), wraps);
  case OpKind::AbsI: return made(0, farthest, wraps);
  default: return anything;
  }
}

// ---- what is widened

/// Collects the values to widen in the block. True if an operation in it touches memory.
bool Widener::roots(const Block &b) {
  bool touches = false;
  for (const Op *op : b.ops) {
    // Combinations are about data.
    bool touchesInside = false;
    if (op->kind != OpKind::Reduce && op->kind != OpKind::Scan)
      for (const Region *r : op->regions)
        touchesInside |= roots(*r->block);
    for (size_t i = 0; i < op->operands.size(); ++i) {
      bool offset = op->kind == OpKind::AddPtr && i == 1, address = op->kind == OpKind::IntToPtr;
      bool condition =
          i == 0 && ((op->kind == OpKind::If && touchesInside) || (op->kind == OpKind::Condition && !narrowed_));
      bool choice = op->kind == OpKind::Select && i == 0 && op->results[0]->type.isPtr;
      bool stride = isDescOp(op->kind) && op->operands[i]->type == Type::scalar(Elem::I64);
      if (condition || ((offset || address || choice || stride || isMaskOfAccess(op->kind, i)) && isRooted(*op)))
        want(op->operands[i]);
    }
    // A counter that passes its bound by a wrap would not end.
    if (op->kind == OpKind::For && (!narrowed_ || touchesInside))
      want(op->region(0)->args[0]);
    if (op->kind == OpKind::While && narrowed_ && touchesInside)
      want(op->region(0)->terminator()->operands[0]);
    touches |= touchesInside || ((op->has(traits::Reads) || op->has(traits::Writes)) && isRooted(*op));
  }
  return touches;
}

/// i32: to be widened, if that may make a difference. i64 and i1: to be looked through.
void Widener::want(Value *v) {
  const Type &t = v->type;
  bool relevant = !t.isPtr && (t.elem == Elem::I64 || t.elem == Elem::I1 || (t.elem == Elem::I32 && of(v).wraps));
  if (relevant && wanted_.insert(v).second)
    work_.push_back(v);
}

void Widener::follow(Value &v) {
  if (v.def)
    followOp(*v.def, v);
  else
    followArg(v);
}

void Widener::followArg(Value &v) {
  Op *op = v.block->parent->op;
  if (!op)
    return; // an argument of the kernel
  if (op->kind == OpKind::For && v.index == 0) {
    for (size_t i = 0; i < 3; ++i)
      want(op->operands[i]);
  } else if (op->kind == OpKind::For) {
    carried(*op, v.index - 1);
  } else if (op->kind == OpKind::While) {
    carried(*op, v.index);
  }
}

/// Every value that result `i` may come from.
void Widener::carried(Op &op, size_t i) {
  if (isInt32(op.results[i]->type)) {
    std::vector<size_t> &list = carried_[&op];
    if (std::find(list.begin(), list.end(), i) != list.end())
      return;
    list.push_back(i);
  }
  if (op.kind == OpKind::If) {
    want(op.operands[0]);
    want(op.region(0)->terminator()->operands[i]);
    want(op.region(1)->terminator()->operands[i]);
    return;
  }
  bool isFor = op.kind == OpKind::For;
  want(op.operands[i + (isFor ? 3 : 0)]);
  want(op.regions.back()->block->terminator()->operands[i]);
  if (!isFor)
    want(op.region(0)->terminator()->operands[i + 1]);
}

void Widener::followOp(Op &op, Value &v) {
  switch (op.kind) {
  case OpKind::If: case OpKind::For: case OpKind::While: return carried(op, v.index);
  case OpKind::CmpI:
    if (op.operands[0]->type.isPtr || isUnsignedPred(op.pred()))
      return;
    break;
  case OpKind::SExt:
    if (!isInt32(op.operands[0]->type))
      return;
    break;
  case OpKind::Reduce: case OpKind::Scan:
    if (v.type.elem == Elem::I32 && !combination(op))
      return;
    break;
  default:
    // Truncations, extensions from other types, loads and the like are leaves.
    bool through = op.kind == OpKind::Select || movesElements(op.kind) || isArithmetic(op.kind) ||
                   (v.type.elem == Elem::I1 && op.kind == OpKind::Xor);
    if (!through)
      return;
  }
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (!(op.kind == OpKind::Gather && i == 1))
      want(op.operands[i]);
}

// ---- the new values

/// The value in 64 bits, at the insertion point.
Value *Widener::wide(Value *v) {
  if (!isInt32(v->type))
    return v;
  if (auto it = twins_.find(v); it != twins_.end())
    return it->second;
  if (std::optional<int64_t> c = constantInt(v))
    return b_.constInt(wideType(v->type), *c);
  if (v->def &&
      (v->def->kind == OpKind::Splat || v->def->kind == OpKind::ExpandDims || v->def->kind == OpKind::Broadcast)) {
    Value *inner = wide(v->def->operands[0]);
    return b_.create1(v->def->kind, {inner}, wideType(v->type), v->def->attrs);
  }
  return b_.cast(OpKind::SExt, v, Elem::I64);
}

void Widener::rewrite(Block &b) {
  Block *outer = b_.block();
  std::vector<Op *> ops;
  ops.swap(b.ops);
  b_.setBlock(&b);
  const Op *owner = b.parent->op;
  for (Op *op : ops) {
    b_.setLoc(op->loc);
    b_.setInlinedAt(op->inlinedAt);
    rewriteOperands(*op);
    beforeRegions(*op);
    if (owner && op->has(traits::Terminator))
      terminator(*op, *owner);
    for (Region *r : op->regions)
      rewrite(*r->block);
    b_.setLoc(op->loc);
    b_.setInlinedAt(op->inlinedAt);
    b.ops.push_back(op);
    twins(*op);
  }
  b_.setBlock(outer);
}

void Widener::rewriteOperands(Op &op) {
  if (op.kind == OpKind::AddPtr && isWanted(op.operands[1]))
    op.operands[1] = wide(op.operands[1]);
  if (op.kind == OpKind::CmpI && !isUnsignedPred(op.pred()) && isWanted(op.result()) &&
      (isWanted(op.operands[0]) || isWanted(op.operands[1])))
    for (Value *&v : op.operands)
      v = wide(v);
}

/// Twins of loop-carried values, and a wide counter.
void Widener::beforeRegions(Op &op) {
  if (op.kind == OpKind::For && isWanted(op.region(0)->args[0]) && isInt32(op.operands[0]->type)) {
    for (size_t i = 0; i < 3; ++i)
      op.operands[i] = wide(op.operands[i]);
    Block &body = *op.region(0);
    Value *old = body.args[0], *counter = m_.createValue(wideType(old->type));
    counter->block = &body;
    counter->name = old->name;
    body.args[0] = counter;
    Op *narrow = m_.createOp(OpKind::Trunc, op.loc, {&counter, 1}, {&old->type, 1});
    narrow->parent = &body;
    narrow->inlinedAt = op.inlinedAt;
    narrow->results[0] = old;
    old->def = narrow, old->block = nullptr, old->index = 0;
    body.ops.insert(body.ops.begin(), narrow);
    twins_[old] = counter;
  }
  auto it = carried_.find(&op);
  if (it == carried_.end())
    return;
  std::sort(it->second.begin(), it->second.end());
  for (size_t i : it->second) {
    if (op.kind != OpKind::If)
      op.operands.push_back(wide(op.operands[i + (op.kind == OpKind::For ? 3 : 0)]));
    for (Region *r : op.regions)
      if (op.kind != OpKind::If)
        twins_[r->block->args[i + (op.kind == OpKind::For)]] = m_.addArg(r->block, wideType(op.results[i]->type));
  }
}

void Widener::terminator(Op &op, const Op &owner) {
  auto it = carried_.find(&owner);
  if (it == carried_.end())
    return;
  size_t first = op.kind == OpKind::Condition;
  for (size_t i : it->second)
    op.operands.push_back(wide(op.operands[first + i]));
}

/// The 64-bit forms of the results, after the operation.
void Widener::twins(Op &op) {
  if (auto it = carried_.find(&op); it != carried_.end()) {
    for (size_t i : it->second) {
      Value *old = op.results[i];
      twins_[old] = m_.addResult(&op, wideType(old->type));
    }
    return;
  }
  if (op.kind == OpKind::SExt && isWanted(op.result()) && isWanted(op.operands[0])) {
    Value *twin = wide(op.operands[0]);
    Op *def = twin->def;
    // Hints are about the same value. Beside other results, or on what has regions, they have no place.
    if (def && def->results.size() == 1 && def->regions.empty())
      for (const Attr &a : op.attrs)
        if (!def->find(a.key))
          def->set(a.key, a.value);
    op.result()->forward = twin;
    return;
  }
  bool any = false;
  for (const Value *v : op.results)
    any |= isInt32(v->type) && isWanted(v);
  if (!any || op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::If ||
      twins_.count(op.results[0]))
    return;
  if (op.kind == OpKind::Reduce || op.kind == OpKind::Scan) {
    const Op *only = combination(op);
    Value *input[] = {wide(op.operands[0])};
    Op *made = b_.reduceOp(op.kind, input, static_cast<unsigned>(op.axis()), op.reverse());
    Block *here = b_.block(), &body = *made->region(0);
    b_.setBlock(&body);
    Value *both[] = {b_.binary(only->kind, body.args[0], body.args[1])};
    b_.yield(both);
    b_.setBlock(here);
    twins_[op.results[0]] = made->results[0];
    return;
  }
  std::vector<Value *> operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    bool asItIs = (op.kind == OpKind::Select && i == 0) || (op.kind == OpKind::Gather && i == 1);
    operands.push_back(asItIs ? op.operands[i] : wide(op.operands[i]));
  }
  std::vector<Type> types;
  for (const Value *v : op.results)
    types.push_back(wideType(v->type));
  Op *made = b_.create(op.kind, operands, types, op.attrs);
  for (size_t i = 0; i < op.results.size(); ++i)
    twins_[op.results[i]] = made->results[i];
}

void Widener::rewire(Block &b) {
  for (Op *op : b.ops) {
    for (Value *&v : op->operands)
      v = resolve(v);
    for (Region *r : op->regions)
      rewire(*r->block);
  }
}

bool narrows(const Block &b) {
  for (const Op *op : b.ops) {
    if (narrowsPointer(*op))
      return true;
    for (const Region *r : op->regions)
      if (narrows(*r->block))
        return true;
  }
  return false;
}

} // namespace

bool narrowsPointers(const Module &m) {
  return std::any_of(m.functions.begin(), m.functions.end(), [](const Function *f) { return narrows(*f->block()); });
}

void widenOffsets(Module &m) {
  for (Function *f : m.functions)
    Widener(m, nullptr).function(*f);
}

void widenNarrowedOffsets(Module &m) {
  for (Function *f : m.functions) {
    NarrowedPointers narrowed(*f);
    Widener(m, &narrowed).function(*f);
  }
}

} // namespace tegula
