// Creation of operations; folding itself is in Fold.cpp.
#include "ir/Builder.h"
#include "ir/Scalar.h"

namespace tegula::ir {

Op *Builder::create(OpKind k, std::span<Value *const> operands, std::span<const Type> results,
                    std::vector<Attr> attrs) {
  assert(block_ && "no insertion point");
  Op *op = module_.createOp(k, loc_, operands, results, std::move(attrs));
  op->parent = block_;
  op->inlinedAt = inlinedAt_;
  for (Region *r : op->regions)
    r->function = block_->parent->function;
  block_->ops.push_back(op);
  return op;
}

Value *Builder::create1(OpKind k, std::initializer_list<Value *> operands, const Type &result,
                        std::vector<Attr> attrs) {
  std::span<Value *const> list(operands.begin(), operands.size());
  if (folding_)
    if (Value *v = fold(*this, k, list, result, attrs))
      return v;
  return create(k, list, {&result, 1}, std::move(attrs))->result();
}

Value *Builder::constInt(const Type &t, int64_t v) {
  if (t.isPtr) // only null in practice; an address is an integer first
    return create1(OpKind::IntToPtr, {constInt(Type::tensor(t.shape, Elem::I64), v)}, t);
  if (t.isFloatLike())
    return constFloat(t, static_cast<double>(v));
  AttrValue value = toConstInt(t.elem, static_cast<uint64_t>(v));
  return create(OpKind::Const, {}, {&t, 1}, {{attr::value, std::move(value)}})->result();
}

Value *Builder::constFloat(const Type &t, double v) {
  if (!t.isFloatLike())
    return constInt(t, static_cast<int64_t>(v));
  // A NaN keeps its bits in f64; elsewhere it goes through the format, as everything does.
  AttrValue value = t.elem == Elem::F64 ? v : decodeFloat(t.elem, encodeFloat(t.elem, v));
  return create(OpKind::Const, {}, {&t, 1}, {{attr::value, std::move(value)}})->result();
}

Value *Builder::range(int64_t start, int64_t end) {
  return create1(OpKind::Range, {}, Type::tensor({end - start}, Elem::I32), {{attr::start, start}});
}

Value *Builder::splat(Value *scalar, const Shape &s) {
  if (s.rank() == 0 || scalar->type.shape == s)
    return scalar;
  return create1(OpKind::Splat, {scalar}, scalar->type.withShape(s));
}

Value *Builder::roundToTf32(Value *x) {
  Value *bits = cast(OpKind::Bitcast, x, Elem::I32);
  auto number = [&](int64_t v) { return constInt(bits->type, v); };
  // Half of the last place, less one bit unless that place is odd.
  Value *odd = binary(OpKind::And, binary(OpKind::LShr, bits, number(13)), number(1));
  Value *sum = binary(OpKind::Add, bits, binary(OpKind::Add, odd, number(0xfff)));
  Value *rounded = binary(OpKind::And, sum, number(0xffffe000));
  Value *isNan = cmp(CmpPred::Ugt, binary(OpKind::And, bits, number(0x7fffffff)), number(0x7f800000));
  return cast(OpKind::Bitcast, select(isNan, number(0x7fffe000), rounded), Elem::F32);
}

Value *Builder::expandDims(Value *x, unsigned axis) {
  Shape s = x->type.shape;
  s.insert(axis, 1);
  return create1(OpKind::ExpandDims, {x}, x->type.withShape(s), {{attr::axis, axis}});
}

Value *Builder::broadcast(Value *x, const Shape &s) {
  if (x->type.shape == s)
    return x;
  return create1(OpKind::Broadcast, {x}, x->type.withShape(s));
}

Value *Builder::reshape(Value *x, const Shape &s, bool reorder) {
  std::vector<Attr> attrs;
  if (reorder)
    attrs.push_back({attr::reorder, true});
  return create1(OpKind::Reshape, {x}, x->type.withShape(s), std::move(attrs));
}

Value *Builder::permute(Value *x, std::span<const int64_t> perm) {
  Shape s;
  for (int64_t p : perm)
    s.push(x->type.shape[static_cast<unsigned>(p)]);
  return create1(OpKind::Permute, {x}, x->type.withShape(s),
                 {{attr::perm, std::vector<int64_t>(perm.begin(), perm.end())}});
}

namespace {
std::vector<Type> typesOf(std::span<Value *const> values) {
  std::vector<Type> types;
  types.reserve(values.size());
  for (Value *v : values)
    types.push_back(v->type);
  return types;
}
} // namespace

Op *Builder::forOp(Value *lb, Value *ub, Value *step, std::span<Value *const> inits, std::vector<Attr> attrs) {
  std::vector<Value *> operands{lb, ub, step};
  operands.insert(operands.end(), inits.begin(), inits.end());
  Op *op = create(OpKind::For, operands, typesOf(inits), std::move(attrs));
  module_.addArg(op->region(0), lb->type);
  for (Value *v : inits)
    module_.addArg(op->region(0), v->type);
  return op;
}

Op *Builder::ifOp(Value *cond, std::span<const Type> results) { return create(OpKind::If, {&cond, 1}, results); }

Op *Builder::whileOp(std::span<Value *const> inits) {
  Op *op = create(OpKind::While, inits, typesOf(inits));
  for (Region *r : op->regions)
    for (Value *v : inits)
      module_.addArg(r->block, v->type);
  return op;
}

Op *Builder::reduceOp(OpKind kind, std::span<Value *const> inputs, unsigned axis, bool reverse) {
  assert(kind == OpKind::Reduce || kind == OpKind::Scan);
  std::vector<Type> results;
  for (Value *v : inputs) {
    Shape s = v->type.shape;
    if (kind == OpKind::Reduce)
      s.erase(axis);
    results.push_back(v->type.withShape(s));
  }
  std::vector<Attr> attrs{{attr::axis, axis}};
  if (reverse)
    attrs.push_back({attr::reverse, true});
  Op *op = create(kind, inputs, results, std::move(attrs));
  for (int side = 0; side < 2; ++side)
    for (Value *v : inputs)
      module_.addArg(op->region(0), v->type.scalarType());
  return op;
}

} // namespace tegula::ir
