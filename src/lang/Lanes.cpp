// See Lanes.h.
#include "lang/Lanes.h"

namespace tegula::lang {

using namespace ir;

namespace {

/// Hints have an entry for each dimension of the one value they were given for.
std::vector<Attr> withoutHints(const std::vector<Attr> &attrs) {
  std::vector<Attr> out;
  for (const Attr &a : attrs)
    if (!isHint(a.key))
      out.push_back(a);
  return out;
}

/// Keeps where the builder stands, and in whose name.
class Place {
public:
  explicit Place(Builder &b) : b_(b), block_(b.block()), loc_(b.loc()), site_(b.inlinedAt()) {}
  ~Place() {
    b_.setBlock(block_);
    b_.setLoc(loc_);
    b_.setInlinedAt(site_);
  }
  Place(const Place &) = delete;

private:
  Builder &b_;
  Block *block_;
  Loc loc_;
  int32_t site_;
};

} // namespace

Value *Lanes::value(const Value *scalar) const {
  auto it = tiles_.find(scalar);
  // Values defined outside the code are the same for all elements.
  return it == tiles_.end() ? const_cast<Value *>(scalar) : it->second;
}

std::vector<Value *> Lanes::spreadAll(std::span<Value *const> scalars) {
  std::vector<Value *> out;
  for (const Value *v : scalars)
    out.push_back(tile(v));
  return out;
}

void Lanes::bindAll(std::span<Value *const> scalars, std::span<Value *const> tiles) {
  for (size_t i = 0; i < scalars.size(); ++i)
    bind(scalars[i], tiles[i]);
}

Value *Lanes::any(Value *mask) {
  Value *flat = shape_.rank() == 1 ? mask : b_.reshape(mask, Shape{shape_.numel()}, true);
  Value *inputs[] = {flat};
  Op *reduce = b_.reduceOp(OpKind::Reduce, inputs, 0);
  Place outside(b_);
  b_.setBlock(reduce->region(0));
  Value *either[] = {b_.binary(OpKind::Or, reduce->region(0)->args[0], reduce->region(0)->args[1])};
  b_.yield(either);
  return reduce->result();
}

const Op *Lanes::block(const Block &code) {
  Place here(b_);
  for (const Op *o : code.ops) {
    if (o->has(traits::Terminator))
      return nullptr;
    b_.setLoc(o->loc);
    b_.setInlinedAt(o->inlinedAt);
    if (const Op *bad = op(*o))
      return bad;
  }
  return nullptr;
}

const Op *Lanes::inside(Block *to, const Block &code, Value *mask) {
  Place outside(b_);
  if (to)
    b_.setBlock(to);
  Value *before = mask_;
  mask_ = mask;
  const Op *bad = block(code);
  mask_ = before;
  return bad;
}

const Op *Lanes::op(const Op &op) {
  switch (op.kind) {
  case OpKind::If: return branch(op);
  case OpKind::For: return forLoop(op);
  case OpKind::While: return whileLoop(op);
  case OpKind::Load: case OpKind::Store: case OpKind::AtomicRmw: case OpKind::AtomicCas: return access(op);
  case OpKind::Assert: case OpKind::Assume: return check(op);
  case OpKind::Const:
  case OpKind::Poison:
  case OpKind::ProgramId:
  case OpKind::NumPrograms:
  case OpKind::SmId:
  case OpKind::Clock: break;
  default:
    if (!op.has(traits::Elementwise))
      return &op;
  }
  for (const Value *r : op.results)
    if (!r->type.isScalar())
      return &op;
  return plain(op);
}

const Op *Lanes::plain(const Op &op) {
  std::vector<Value *> operands;
  bool same = true;
  for (const Value *v : op.operands) {
    operands.push_back(value(v));
    same = same && isSame(operands.back());
  }
  if (!same)
    for (Value *&v : operands)
      v = spread(v);
  const Type &t = op.result()->type;
  const Type type = same ? t : t.withShape(shape_);
  std::vector<Attr> attrs = withoutHints(op.attrs);
  Value *folded = fold(b_, op.kind, operands, type, attrs);
  bind(op.result(), folded ? folded : b_.create(op.kind, operands, {&type, 1}, std::move(attrs))->result());
  return nullptr;
}

/// A load or a store by one address for all may stay what it is; an atomic happens once for every element.
const Op *Lanes::access(const Op &op) {
  if (op.operands[0]->type.isTensor())
    return &op;
  bool same = op.kind != OpKind::AtomicRmw && op.kind != OpKind::AtomicCas && !mask_;
  for (const Value *v : op.operands)
    same = same && isSame(value(v));
  size_t maskAt = op.maskAt();
  std::vector<Value *> operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Value *v = value(op.operands[i]);
    operands.push_back(same ? v : i == maskAt ? both(mask_, spread(v)) : spread(v));
  }
  if (!same && mask_ && operands.size() <= maskAt)
    operands.push_back(mask_);
  std::vector<Type> results;
  for (const Value *r : op.results)
    results.push_back(same ? r->type : r->type.withShape(shape_));
  Op *made = b_.create(op.kind, operands, results, withoutHints(op.attrs));
  bindAll(op.results, made->results);
  return nullptr;
}

const Op *Lanes::check(const Op &op) {
  bool same = !mask_;
  for (const Value *v : op.operands)
    same = same && isSame(value(v));
  // An assumption holds for one scalar; for many elements it is dropped.
  if (op.kind == OpKind::Assume && !same)
    return nullptr;
  std::vector<Value *> operands;
  for (const Value *v : op.operands)
    operands.push_back(same ? value(v) : tile(v));
  if (!same && mask_) {
    operands.resize(1);
    operands.push_back(op.operands.size() > 1 ? both(mask_, tile(op.operands[1])) : mask_);
  }
  b_.create(op.kind, operands, {}, op.attrs);
  return nullptr;
}

const Op *Lanes::branch(const Op &op) {
  Value *cond = value(op.operands[0]);
  if (isSame(cond))
    return branchTogether(op, cond);
  if (const Op *bad = inside(nullptr, *op.region(0), both(mask_, cond)))
    return bad;
  std::vector<Value *> then = spreadAll(op.region(0)->terminator()->operands);
  if (const Op *bad = inside(nullptr, *op.region(1), both(mask_, negated(cond))))
    return bad;
  for (size_t i = 0; i < op.results.size(); ++i)
    bind(op.results[i], b_.select(cond, then[i], tile(op.region(1)->terminator()->operands[i])));
  return nullptr;
}

const Op *Lanes::branchTogether(const Op &op, Value *cond) {
  std::vector<Type> types;
  for (const Value *r : op.results)
    types.push_back(r->type.withShape(shape_));
  Op *made = b_.ifOp(cond, types);
  for (unsigned arm : {0u, 1u}) {
    if (const Op *bad = inside(made->region(arm), *op.region(arm), mask_))
      return bad;
    Place outside(b_);
    b_.setBlock(made->region(arm));
    b_.yield(spreadAll(op.region(arm)->terminator()->operands));
  }
  bindAll(op.results, made->results);
  return nullptr;
}

const Op *Lanes::forTogether(const Op &op, Value *const bounds[3]) {
  std::vector<Value *> inits = spreadAll(std::span(op.operands).subspan(3));
  Op *made = b_.forOp(bounds[0], bounds[1], bounds[2], inits, op.attrs);
  Block *body = made->region(0);
  bindAll(op.region(0)->args, body->args);
  if (const Op *bad = inside(body, *op.region(0), mask_))
    return bad;
  Place outside(b_);
  b_.setBlock(body);
  b_.yield(spreadAll(op.region(0)->terminator()->operands));
  bindAll(op.results, made->results);
  return nullptr;
}

/// Bounds of their own for each element: the loop carries which elements go on, the counters, then what the code
/// carries. The test for a next iteration uses the distance to the end, which cannot overflow.
const Op *Lanes::forLoop(const Op &op) {
  Value *bounds[] = {value(op.operands[0]), value(op.operands[1]), value(op.operands[2])};
  if (isSame(bounds[0]) && isSame(bounds[1]) && isSame(bounds[2]))
    return forTogether(op, bounds);
  bool reverse = op.reverse();
  Value *first = spread(bounds[0]), *end = spread(bounds[1]), *step = spread(bounds[2]);
  std::vector<Value *> inits{both(mask_, b_.cmp(reverse ? CmpPred::Sgt : CmpPred::Slt, first, end)), first};
  for (Value *v : spreadAll(std::span(op.operands).subspan(3)))
    inits.push_back(v);
  Op *made = b_.whileOp(inits);
  Place outside(b_);
  Block *test = made->region(0), *body = made->region(1);
  b_.setBlock(test);
  std::vector<Value *> passed{any(test->args[0])};
  passed.insert(passed.end(), test->args.begin(), test->args.end());
  b_.create(OpKind::Condition, passed, {});
  Value *on = body->args[0], *at = body->args[1];
  bindAll(op.region(0)->args, std::span(body->args).subspan(1));
  if (const Op *bad = inside(body, *op.region(0), on))
    return bad;
  b_.setBlock(body);
  Value *left = reverse ? b_.binary(OpKind::Sub, at, end) : b_.binary(OpKind::Sub, end, at);
  std::vector<Value *> next{both(on, b_.cmp(CmpPred::Ugt, left, step)),
                            b_.binary(reverse ? OpKind::Sub : OpKind::Add, at, step)};
  for (size_t i = 0; i + 2 < body->args.size(); ++i)
    next.push_back(b_.select(on, tile(op.region(0)->terminator()->operands[i]), body->args[i + 2]));
  b_.yield(next);
  bindAll(op.results, std::span(made->results).subspan(2));
  return nullptr;
}

const Op *Lanes::whileLoop(const Op &op) {
  std::vector<Value *> inits{mask_ ? mask_ : allOn()};
  for (Value *v : spreadAll(op.operands))
    inits.push_back(v);
  Op *made = b_.whileOp(inits);
  Place outside(b_);
  Block *test = made->region(0), *body = made->region(1);
  // The test's results count for elements that were still in the loop.
  Value *on = test->args[0];
  bindAll(op.region(0)->args, std::span(test->args).subspan(1));
  if (const Op *bad = inside(test, *op.region(0), on))
    return bad;
  b_.setBlock(test);
  const Op &condition = *op.region(0)->terminator();
  Value *goes = both(on, tile(condition.operands[0]));
  std::vector<Value *> passed{any(goes), goes};
  for (size_t i = 1; i < condition.operands.size(); ++i)
    passed.push_back(b_.select(on, tile(condition.operands[i]), test->args[i]));
  b_.create(OpKind::Condition, passed, {});
  goes = body->args[0];
  bindAll(op.region(1)->args, std::span(body->args).subspan(1));
  if (const Op *bad = inside(body, *op.region(1), goes))
    return bad;
  b_.setBlock(body);
  std::vector<Value *> next{goes};
  for (size_t i = 0; i < op.region(1)->terminator()->operands.size(); ++i)
    next.push_back(b_.select(goes, tile(op.region(1)->terminator()->operands[i]), body->args[i + 1]));
  b_.yield(next);
  bindAll(op.results, std::span(made->results).subspan(1));
  return nullptr;
}

} // namespace tegula::lang
