// Odd tiles as tiles of powers of two; see PadTiles.h.
#include "passes/PadTiles.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/Neutral.h"
#include "support/Bits.h"
#include <bit>

namespace tegula {

using namespace ir;

Shape paddedShape(const Shape &s) {
  Shape out;
  for (int64_t d : s)
    out.push(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(d))));
  return out;
}

namespace {

bool isOdd(const Type &t) { return t.isTensor() && paddedShape(t.shape) != t.shape; }

bool anyOdd(const std::vector<Value *> &values) {
  for (const Value *v : values)
    if (isOdd(v->type))
      return true;
  return false;
}

/// Operations that cannot exclude elements.
bool isRefused(const Op &op) {
  if (op.kind == OpKind::Cat) {
    unsigned axis = static_cast<unsigned>(op.axis());
    int64_t a = op.operands[0]->type.shape[axis], b = op.operands[1]->type.shape[axis];
    return a != b && !(isPowerOfTwo(a) && isPowerOfTwo(b));
  }
  return (op.has(traits::Reads) || op.has(traits::Writes)) && !op.maskAt() && op.kind != OpKind::Call;
}

/// Each extent that is a power of two goes into the one before: extents that agree then are the same elements in the
/// same places, before and after padding.
std::vector<int64_t> normalForm(const Shape &s) {
  std::vector<int64_t> out{1};
  for (int64_t d : s)
    if (isPowerOfTwo(d) || out.back() == 1)
      out.back() *= d;
    else
      out.push_back(d);
  return out;
}

class Padder {
public:
  Padder(Module &m) : m_(m), b_(m) {}
  void run(Function &f) {
    for (Type &t : f.resultTypes)
      t = t.withShape(paddedShape(t.shape));
    widen(*f.block());
    rewrite(*f.block());
  }

private:
  void widen(Value *v) {
    if (!isOdd(v->type))
      return;
    real_.emplace(v, v->type.shape);
    v->type = v->type.withShape(paddedShape(v->type.shape));
  }
  void widen(Block &b) {
    for (Value *v : b.args)
      widen(v);
    for (Op *op : b.ops) {
      for (Value *v : op->results)
        widen(v);
      for (Region *r : op->regions)
        widen(*r->block);
    }
  }
  void rewrite(Block &b);
  void rewrite(Op &op);

  /// The shape of a value before padding; null if it was not odd.
  const Shape *oddShape(const Value *v) const {
    auto it = real_.find(v);
    return it == real_.end() ? nullptr : &it->second;
  }
  bool isOddAlong(const Value *v, unsigned axis) const {
    const Shape *s = oddShape(v);
    return s && (*s)[axis] != v->type.shape[axis];
  }

  /// A line of dimension `d` as a tile of shape `to`.
  Value *along(Value *line, unsigned d, const Shape &to) {
    for (unsigned i = 0; i < d; ++i)
      line = b_.expandDims(line, 0);
    while (line->type.shape.rank() < to.rank())
      line = b_.expandDims(line, line->type.shape.rank());
    return b_.broadcast(line, to);
  }
  Value *rangeAlong(unsigned d, const Shape &to) { return along(b_.range(0, to[d]), d, to); }
  /// Which elements along dimension `d` are real.
  Value *realAlong(unsigned d, const Shape &real, const Shape &padded) {
    Value *line = b_.range(0, padded[d]);
    return along(b_.cmp(CmpPred::Slt, line, b_.constInt(line->type, real[d])), d, padded);
  }
  Value *isReal(const Shape &real) {
    const Shape padded = paddedShape(real);
    Value *all = nullptr;
    for (unsigned d = 0; d < real.rank(); ++d)
      if (real[d] != padded[d])
        all = all ? b_.binary(OpKind::And, all, realAlong(d, real, padded)) : realAlong(d, real, padded);
    return all;
  }
  void addMask(Op &op, const Shape &real) {
    Value *mask = isReal(real);
    if (op.mask())
      op.operands[op.maskAt()] = b_.binary(OpKind::And, op.mask(), mask);
    else
      op.operands.push_back(mask);
  }

  void reduce(Op &op);
  void flagged(Op &op, unsigned axis, const Shape &real);
  void dot(Op &op);
  void reshape(Op &op);
  void cat(Op &op);
  void gatherIndex(Op &op);

  Module &m_;
  Builder b_;
  std::unordered_map<const Value *, Shape> real_;
};

void Padder::rewrite(Block &b) {
  Block *outer = b_.block();
  std::vector<Op *> ops;
  ops.swap(b.ops);
  b_.setBlock(&b);
  for (Op *op : ops) {
    for (Region *r : op->regions)
      rewrite(*r->block);
    b_.setLoc(op->loc);
    b_.setInlinedAt(op->inlinedAt);
    rewrite(*op);
    b.ops.push_back(op);
  }
  b_.setBlock(outer);
}

void Padder::rewrite(Op &op) {
  const Shape *odd = op.operands.empty() ? nullptr : oddShape(op.operands[0]);
  switch (op.kind) {
  case OpKind::Load:
  case OpKind::Assert:
  case OpKind::Histogram:
  case OpKind::Store:
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    if (odd)
      addMask(op, *odd);
    return;
  case OpKind::Reduce:
  case OpKind::Scan: return reduce(op);
  case OpKind::Dot: return dot(op);
  case OpKind::Reshape: return reshape(op);
  case OpKind::Cat: return cat(op);
  case OpKind::Gather: return gatherIndex(op);
  default: return;
  }
}

void Padder::reduce(Op &op) {
  unsigned axis = static_cast<unsigned>(op.axis());
  bool fromStart = op.kind == OpKind::Scan && !op.reverse();
  if (fromStart || !isOddAlong(op.operands[0], axis))
    return;
  const Shape real = *oddShape(op.operands[0]);
  Value *otherwise = neutralElement(b_, op, op.operands[0]->type);
  if (!otherwise)
    return flagged(op, axis, real);
  op.operands[0] = b_.select(realAlong(axis, real, op.operands[0]->type.shape), op.operands[0], otherwise);
}

/// Adds an input and a result: a flag that tells real elements from padding.
void Padder::flagged(Op &op, unsigned axis, const Shape &real) {
  size_t n = op.operands.size();
  Block &before = *op.region(0);
  op.operands.push_back(realAlong(axis, real, op.operands[0]->type.shape));
  std::vector<Type> types;
  for (int side = 0; side < 2; ++side)
    for (const Value *v : op.operands)
      types.push_back(v->type.scalarType());
  Region *region = m_.createRegion(types, &op);
  Block &body = *region->block;
  Cloner clone(m_);
  for (size_t i = 0; i < n; ++i) {
    clone.map(before.args[i], body.args[i]);
    clone.map(before.args[n + i], body.args[n + 1 + i]);
  }
  Block *outside = b_.block();
  b_.setBlock(&body);
  for (size_t i = 0; i + 1 < before.ops.size(); ++i)
    clone.copy(*before.ops[i], body);
  Value *left = body.args[n], *right = body.args[2 * n + 1];
  std::vector<Value *> yields;
  for (size_t i = 0; i < n; ++i) {
    Value *both = clone(before.ops.back()->operands[i]);
    yields.push_back(b_.select(left, b_.select(right, both, body.args[i]), body.args[n + 1 + i]));
  }
  yields.push_back(b_.binary(OpKind::Or, left, right));
  b_.yield(yields);
  b_.setBlock(outside);
  op.regions = {region};
  const Type &result = op.results[0]->type;
  m_.addResult(&op, Type{Elem::I1, false, result.shape});
}

/// Elements beyond K add nothing; those beyond M and N only reach padding of the result.
void Padder::dot(Op &op) {
  for (unsigned side = 0; side < 2; ++side) {
    Value *x = op.operands[side];
    unsigned k = x->type.shape.rank() - 1 - side;
    if (isOddAlong(x, k))
      op.operands[side] = b_.select(realAlong(k, *oddShape(x), x->type.shape), x,
                                    x->type.isFloatLike() ? b_.constFloat(x->type, 0) : b_.constInt(x->type, 0));
  }
}

/// Becomes a reshape of a gather of a reshape: the gather works on a one-dimensional tile in memory order.
void Padder::reshape(Op &op) {
  Value *x = op.operands[0];
  const Shape from = oddShape(x) ? *oddShape(x) : x->type.shape,
              to = oddShape(op.result()) ? *oddShape(op.result()) : op.result()->type.shape;
  if ((!oddShape(x) && !oddShape(op.result())) || normalForm(from) == normalForm(to))
    return;
  const Shape paddedFrom = paddedShape(from), paddedTo = paddedShape(to);
  const Type line{Elem::I32, false, paddedTo};
  // Of each element of the result: its number, then its place among the elements of the operand.
  Value *number = nullptr, *place = nullptr;
  int64_t stride = 1;
  auto scaled = [&](Value *v, int64_t by) { return by == 1 ? v : b_.binary(OpKind::Mul, v, b_.constInt(line, by)); };
  auto sum = [&](Value *a, Value *b) { return a ? b_.binary(OpKind::Add, a, b) : b; };
  for (unsigned d = to.rank(); d-- > 0; stride *= to[d])
    number = sum(number, scaled(rangeAlong(d, paddedTo), stride));
  int64_t paddedStride = 1;
  stride = 1;
  for (unsigned d = from.rank(); d-- > 0; stride *= from[d], paddedStride *= paddedFrom[d]) {
    Value *c = stride == 1 ? number : b_.binary(OpKind::UDiv, number, b_.constInt(line, stride));
    place = sum(place, scaled(b_.binary(OpKind::URem, c, b_.constInt(line, from[d])), paddedStride));
  }
  Value *operands[] = {b_.reshape(x, Shape{paddedFrom.numel()}), b_.reshape(place, Shape{paddedTo.numel()})};
  const Type moved = x->type.withShape(Shape{paddedTo.numel()});
  op.operands = {b_.create(OpKind::Gather, operands, {&moved, 1}, {{attr::axis, 0}})->result()};
  op.attrs.clear();
}

/// Becomes a gather from the two padded tiles one after the other.
void Padder::cat(Op &op) {
  unsigned axis = static_cast<unsigned>(op.axis());
  if (!isOddAlong(op.operands[0], axis))
    return;
  const int64_t n = (*oddShape(op.operands[0]))[axis], padded = op.operands[0]->type.shape[axis];
  const Type t = op.result()->type;
  assert(t.shape[axis] == 2 * padded && "twice an extent has twice its power of two");
  Value *both = b_.create(OpKind::Cat, op.operands, {&t, 1}, {{attr::axis, axis}})->result();
  Value *i = b_.range(0, 2 * padded);
  Value *second = b_.binary(OpKind::And, b_.binary(OpKind::Add, i, b_.constInt(i->type, padded - n)),
                            b_.constInt(i->type, 2 * padded - 1));
  Value *index = b_.select(b_.cmp(CmpPred::Slt, i, b_.constInt(i->type, n)), i, second);
  op.kind = OpKind::Gather;
  op.operands = {both, along(index, axis, t.shape)};
}

void Padder::gatherIndex(Op &op) {
  unsigned axis = static_cast<unsigned>(op.axis());
  if (!isOddAlong(op.operands[0], axis))
    return;
  Value *i = op.operands[1], *n = b_.constInt(i->type, (*oddShape(op.operands[0]))[axis]);
  Value *r = b_.binary(OpKind::SRem, i, n);
  op.operands[1] = b_.select(b_.cmp(CmpPred::Slt, r, b_.constInt(i->type, 0)), b_.binary(OpKind::Add, r, n), r);
}

} // namespace

void padTiles(Module &m) {
  std::vector<Function *> odd;
  bool allowed = true; // all or none, as functions pass tiles to each other
  for (Function *f : m.functions) {
    bool hasOdd = false;
    allowed = allowed && !anyOp(*f->block(), [&](const Op &op) {
                bool is = anyOdd(op.results) || anyOdd(op.operands);
                hasOdd |= is;
                return is && isRefused(op);
              });
    if (hasOdd)
      odd.push_back(f);
  }
  for (Function *f : odd)
    if (allowed)
      Padder(m).run(*f);
}

} // namespace tegula
