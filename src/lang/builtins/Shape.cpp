// Shape manipulation (LANGUAGE 3.2).
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <algorithm>

namespace tegula::lang {

namespace {

using ir::OpKind;
using ir::Shape;

ir::Value *unsplat(Args &a, ir::Value *x) { return a.b().create1(OpKind::Unsplat, {x}, x->type.scalarType()); }

/// Whether there is room for `more` further dimensions.
bool rankFits(Args &a, const Tensor &x, size_t more) {
  size_t rank = x.shape().rank() + more;
  if (rank <= Shape::maxRank)
    return true;
  a.fail(diag::rankTooHigh, a.loc(), Shape::maxRank, static_cast<uint64_t>(rank));
  return false;
}

Value expandDims(BuiltinCall &call) {
  Args a(call, "expand_dims");
  std::optional<Tensor> x = a.tensor(0);
  std::optional<std::vector<int64_t>> axes = intList(call.ctx, a[1], a.loc(1), "expand_dims's axes");
  if (!x || !axes || !rankFits(a, *x, axes->size()))
    return Value::error();
  int64_t rank = x->shape().rank() + static_cast<int64_t>(axes->size());
  for (int64_t &axis : *axes) {
    if (axis < -rank || axis >= rank)
      return a.fail(diag::invalidAxis, a.loc(1), axis, -rank, rank);
    axis = axis < 0 ? axis + rank : axis;
  }
  std::string given;
  for (int64_t axis : *axes)
    given += (given.empty() ? "" : ", ") + std::to_string(axis);
  std::sort(axes->begin(), axes->end());
  if (std::adjacent_find(axes->begin(), axes->end()) != axes->end())
    return a.fail(diag::duplicateAxes, a.loc(1), given);
  ir::Value *v = x->value;
  for (int64_t axis : *axes)
    v = insertAxis(call.ctx, v, static_cast<unsigned>(axis));
  return tensor(x->dtype, v);
}

ir::Value *reshaped(Args &a, ir::Value *x, const Shape &s, bool reorder = false) {
  if (x->type.shape == s)
    return x;
  if (s.rank() == 0)
    return unsplat(a, x);
  return x->type.isScalar() ? a.b().splat(x, s) : a.b().reshape(x, s, reorder);
}

Value squeeze(BuiltinCall &call) {
  Args a(call, "squeeze");
  std::optional<Tensor> x = a.tensor(0);
  std::optional<unsigned> dim = x ? a.axis(1, "dim", x->shape().rank()) : std::nullopt;
  if (!dim)
    return Value::error();
  Shape s = x->shape();
  if (s[*dim] != 1)
    return a.fail(diag::squeezeExtent, a.loc(1), *dim, kindName(a[0]), s[*dim]);
  s.erase(*dim);
  return tensor(x->dtype, reshaped(a, x->value, s));
}

Value unsqueeze(BuiltinCall &call) {
  Args a(call, "unsqueeze");
  std::optional<Tensor> x = a.tensor(0);
  std::optional<unsigned> dim = x ? a.axis(1, "dim", x->shape().rank() + 1) : std::nullopt;
  if (!dim || !rankFits(a, *x, 1))
    return Value::error();
  return tensor(x->dtype, insertAxis(call.ctx, x->value, *dim));
}

Value broadcast(BuiltinCall &call) {
  Value x = call.args[0], y = call.args[1];
  if (!broadcastPair(call.ctx, x, y, call.loc))
    return Value::error();
  return Value::tuple({x, y});
}

Value broadcastToShape(BuiltinCall &call) {
  Args a(call, "broadcast_to");
  std::optional<Tensor> x = a.tensor(0);
  std::optional<Shape> s = blockShape(call.ctx, a[1], a.loc(1));
  if (!x || !s)
    return Value::error();
  if (x->isScalar() || x->shape() == *s)
    return tensor(spread(call.ctx, *x, *s));
  if (x->shape().rank() != s->rank())
    return a.fail(diag::rankMismatch, a.loc(), kindName(a[0]), shapeText(*s));
  for (unsigned i = 0; i < s->rank(); ++i)
    if (x->shape()[i] != 1 && x->shape()[i] != (*s)[i])
      return a.fail(diag::incompatibleShapes, a.loc(), i, x->shape()[i], (*s)[i]);
  return tensor(spread(call.ctx, *x, *s));
}

Value reshapeTo(Args &a, const Value &shape, bool reorder) {
  std::optional<Tensor> x = a.tensor(0);
  std::optional<Shape> s = blockShape(a.ctx(), shape, a.loc(1));
  if (!x || !s)
    return Value::error();
  if (s->numel() != x->shape().numel())
    return a.fail(diag::changesElements, a.loc(), kindName(tensor(*x)), x->shape().numel(), shapeText(*s), s->numel());
  return tensor(x->dtype, reshaped(a, x->value, *s, reorder));
}

Value reshape(BuiltinCall &call) {
  Args a(call, "reshape");
  std::optional<bool> reorder = a.flag(2, "can_reorder");
  return reorder ? reshapeTo(a, a[1], *reorder) : Value::error();
}

Value view(BuiltinCall &call) {
  Args a(call, "view");
  call.diag().report(diag::deprecatedView, a.loc());
  return reshapeTo(a, a[1], true);
}

Value permuted(Args &a, const Tensor &x, const std::vector<int64_t> &dims) {
  std::vector<int64_t> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  bool ok = dims.size() == x.shape().rank();
  for (size_t i = 0; ok && i < sorted.size(); ++i)
    ok = sorted[i] == static_cast<int64_t>(i);
  if (!ok)
    return a.fail(diag::badPermutation, a.loc(), x.shape().rank(), repr(a[1]));
  return tensor(x.dtype, a.b().permute(x.value, dims));
}

Value permute(BuiltinCall &call) {
  Args a(call, "permute");
  std::optional<Tensor> x = a.tensor(0);
  std::optional<std::vector<int64_t>> dims = intList(call.ctx, a[1], a.loc(1), "permute's dimensions");
  return x && dims ? permuted(a, *x, *dims) : Value::error();
}

Value trans(BuiltinCall &call) {
  Args a(call, "trans");
  std::optional<Tensor> x = a.tensor(0);
  std::optional<std::vector<int64_t>> dims = intList(call.ctx, a[1], a.loc(1), "trans's dimensions");
  if (!x || !dims)
    return Value::error();
  unsigned rank = x->shape().rank();
  if (dims->empty()) {
    if (rank < 2)
      return a.fail(diag::rankTooLow, a.loc(0), "trans", 2, kindName(a[0]));
    for (unsigned i = 0; i < rank; ++i)
      dims->push_back(i);
    std::swap((*dims)[rank - 1], (*dims)[rank - 2]);
  }
  return permuted(a, *x, *dims);
}

Value join(BuiltinCall &call) {
  Args a(call, "join");
  Value x = call.args[0], y = call.args[1];
  if (!broadcastPair(call.ctx, x, y, call.loc))
    return Value::error();
  Tensor s = x.asTensor(), t = y.asTensor();
  if (s.dtype != t.dtype)
    return a.fail(diag::typesMismatch, a.loc(), "join", kindName(x), kindName(y));
  if (!rankFits(a, s, s.isScalar() ? 2 : 1))
    return Value::error();
  bool scalars = s.isScalar();
  if (scalars)
    s = spread(call.ctx, s, Shape{1}), t = spread(call.ctx, t, Shape{1});
  Shape shape = s.shape();
  shape.push(2);
  ir::Value *v = a.b().create1(OpKind::Join, {s.value, t.value}, s.value->type.withShape(shape));
  return tensor(s.dtype, scalars ? a.b().reshape(v, Shape{2}) : v);
}

Value split(BuiltinCall &call) {
  Args a(call, "split");
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  Shape s = x->shape();
  if (s.rank() == 0 || s[s.rank() - 1] != 2)
    return a.fail(diag::splitExtent, a.loc(0), kindName(a[0]));
  ir::Value *v = x->value;
  bool scalars = s.rank() == 1;
  if (scalars)
    v = a.b().reshape(v, s = Shape{1, 2});
  s.erase(s.rank() - 1);
  ir::Value *operands[] = {v};
  const ir::Type types[] = {v->type.withShape(s), v->type.withShape(s)};
  ir::Op *op = a.b().create(OpKind::Split, operands, types);
  auto part = [&](unsigned i) { return tensor(x->dtype, scalars ? unsplat(a, op->result(i)) : op->result(i)); };
  return Value::tuple({part(0), part(1)});
}

Value cat(BuiltinCall &call) {
  Args a(call, "cat");
  std::optional<Tensor> x = a.tensor(0), y = a.tensor(1);
  std::optional<bool> reorder = a.flag(2, "can_reorder");
  if (!x || !y || !reorder)
    return Value::error();
  unsigned rank = x->shape().rank();
  if (rank == 0 || y->shape().rank() != rank)
    return a.fail(diag::catRanks, a.loc(), kindName(a[0]), kindName(a[1]));
  std::optional<unsigned> dim = a.axis(3, "dim", rank);
  if (!dim)
    return Value::error();
  if (x->dtype != y->dtype)
    return a.fail(diag::typesMismatch, a.loc(), "cat", kindName(a[0]), kindName(a[1]));
  Shape s = x->shape();
  if (s != y->shape())
    return a.fail(diag::catShapes, a.loc(), kindName(a[0]), kindName(a[1]));
  s.set(*dim, 2 * s[*dim]);
  if (!blockShape(call.ctx, shapeValue(s), a.loc()))
    return Value::error();
  return tensor(x->dtype, a.b().create1(OpKind::Cat, {x->value, y->value}, x->value->type.withShape(s),
                                        {{ir::attr::axis, static_cast<int64_t>(*dim)}}));
}

Value item(BuiltinCall &call) {
  Args a(call, "item");
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  if (x->shape().numel() != 1)
    return a.fail(diag::notOneElement, a.loc(0), kindName(a[0]));
  return tensor(x->dtype, x->isScalar() ? x->value : unsplat(a, x->value));
}

constexpr Builtin rows[] = {
    {"expand_dims", "input, axis", expandDims, Builtin::Method,
     "Inserts dimensions of extent 1; axes count in the result."},
    {"squeeze", "x, dim", squeeze, 0, "Removes a dimension of extent 1."},
    {"unsqueeze", "x, dim", unsqueeze, 0, "Inserts a dimension of extent 1."},
    {"broadcast", "input, other", broadcast, 0, "Both operands, broadcast to their common shape."},
    {"broadcast_to", "input, *shape", broadcastToShape, Builtin::Method,
     "The tensor broadcast to a shape of the same rank."},
    {"reshape", "input, *shape, can_reorder=False", reshape, Builtin::Method,
     "The elements, in row-major order, as another shape."},
    {"view", "input, *shape", view, Builtin::Method,
     "The elements as another shape, in any order (deprecated: use reshape)."},
    {"trans", "input, *dims", trans, Builtin::Method, "Swaps the last two dimensions, or permutes them all."},
    {"permute", "input, *dims", permute, Builtin::Method, "Permutes the dimensions."},
    {"join", "a, b", join, 0, "Stacks two tensors along a new last dimension."},
    {"split", "a", split, Builtin::Method, "Takes a tensor apart along its last dimension of extent 2."},
    {"cat", "input, other, can_reorder=False, dim=0", cat, 0, "Concatenates two blocks along a dimension."},
    {"item", "input", item, Builtin::Method, "The value of a one-element block as a scalar."},
};

} // namespace

std::span<const Builtin> shapeBuiltins() { return rows; }

} // namespace tegula::lang
