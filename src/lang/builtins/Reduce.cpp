// Reductions and scans with a combination function, histogram and gather (LANGUAGE 3.7).
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"

namespace tegula::lang {

namespace {

using ir::OpKind;
using ir::Shape;

/// The inputs of a reduction as tensors of one shape; a single tensor counts as a tuple of one.
std::optional<std::vector<Tensor>> inputs(Args &a) {
  const std::vector<Value> *given = sequenceItems(a[0]);
  std::vector<Tensor> out;
  for (const Value &v : given ? *given : std::vector<Value>{a[0]}) {
    Value t = toTensor(a.ctx(), v, a.loc(0));
    if (t.isError())
      return std::nullopt;
    out.push_back(t.asTensor());
    if (out.back().shape() == out.front().shape())
      continue;
    a.fail(diag::inputShapes, a.loc(0), a.function(), kindName(tensor(out.front())), kindName(t));
    return std::nullopt;
  }
  if (!out.empty())
    return out;
  a.fail(diag::badArgument, a.loc(0), a.function(), "input", "a tensor or a tuple of tensors", "an empty tuple");
  return std::nullopt;
}

/// The combination's results, as scalars of the inputs' types; empty if they are wrong.
std::vector<ir::Value *> combined(Args &a, const Value &result, const std::vector<Tensor> &in) {
  const std::vector<Value> *given = sequenceItems(result);
  std::vector<Value> items = given ? *given : std::vector<Value>{result};
  std::vector<ir::Value *> out;
  std::string types;
  for (const Tensor &t : in)
    types += (types.empty() ? "" : ", ") + spelling(t.dtype);
  for (size_t i = 0; i < items.size() && i < in.size(); ++i) {
    Value v = items[i].isNumber() ? constant(a.ctx(), items[i], in[i].dtype, a.loc(2)) : items[i];
    if (v.isError())
      return {};
    if (v.isTensor() && v.asTensor().dtype == in[i].dtype && v.asTensor().isScalar())
      out.push_back(v.asTensor().value);
  }
  if (items.size() == in.size() && out.size() == in.size())
    return out;
  std::string found;
  for (const Value &v : items)
    found += (found.empty() ? "" : ", ") + kindName(v);
  std::string count = in.size() == 1 ? "one scalar" : std::to_string(in.size()) + " scalars";
  a.fail(diag::combineResults, a.loc(2), a.function(), count, types, found);
  return {};
}

/// Creates the op and fills its region by calling combine_fn on its arguments.
std::optional<std::vector<Value>> combine(Args &a, OpKind kind, const std::vector<Tensor> &in, unsigned axis,
                                          bool reverse) {
  ir::Builder &b = a.b();
  std::vector<ir::Value *> values;
  for (const Tensor &t : in)
    values.push_back(t.value);
  ir::Op *op = b.reduceOp(kind, values, axis, reverse);
  ir::Block *outside = b.block(), *body = op->regions[0]->block;
  b.setBlock(body);
  std::vector<Value> args;
  for (size_t i = 0; i < 2 * in.size(); ++i)
    args.push_back(tensor(in[i % in.size()].dtype, body->args[i]));
  Value result = a.ctx().call(a[2], args, a.loc());
  std::vector<ir::Value *> yields = result.isError() ? std::vector<ir::Value *>{} : combined(a, result, in);
  // Calls may leave the builder in a block of their own; ours is the region's.
  b.setBlock(body);
  if (!yields.empty())
    b.yield(yields);
  b.setBlock(outside);
  if (yields.empty())
    return std::nullopt;
  std::vector<Value> out;
  for (size_t i = 0; i < in.size(); ++i)
    out.push_back(tensor(in[i].dtype, op->result(static_cast<unsigned>(i))));
  return out;
}

Value packed(Args &a, std::vector<Value> items) {
  return sequenceItems(a[0]) ? Value::tuple(std::move(items)) : items[0];
}

Value withKeptDims(Args &a, std::vector<Value> items, const Shape &before, bool all, unsigned axis) {
  Shape kept;
  for (unsigned i = 0; i < before.rank(); ++i)
    kept.push(all || i == axis ? 1 : before[i]);
  for (Value &v : items) {
    ir::Value *x = v.asTensor().value;
    v = tensor(v.asTensor().dtype, x->type.isScalar() ? a.b().splat(x, kept) : a.b().reshape(x, kept));
  }
  return packed(a, std::move(items));
}

Value reduce(BuiltinCall &call) {
  Args a(call, "reduce");
  auto in = inputs(a);
  std::optional<bool> keep = a.flag(3, "keep_dims");
  if (!in || !keep)
    return Value::error();
  Shape before = in->front().shape();
  bool all = a[1].isNone();
  if (before.rank() == 0)
    return all ? a[0].isTensor() ? a[0] : packed(a, {in->begin(), in->end()})
               : a.fail(diag::reduceScalar, a.loc(0), "reduce", kindName(tensor(in->front())));
  unsigned axis = 0;
  if (all) {
    for (Tensor &t : *in)
      if (before.rank() != 1)
        t.value = a.b().reshape(t.value, Shape{before.numel()}, true);
  } else {
    auto given = a.axis(1, "axis", before.rank());
    if (!given)
      return Value::error();
    axis = *given;
  }
  auto out = combine(a, OpKind::Reduce, *in, axis, false);
  if (!out)
    return Value::error();
  return *keep ? withKeptDims(a, std::move(*out), before, all, axis) : packed(a, std::move(*out));
}

Value associativeScan(BuiltinCall &call) {
  Args a(call, "associative_scan");
  auto in = inputs(a);
  std::optional<bool> reverse = a.flag(3, "reverse");
  if (!in || !reverse)
    return Value::error();
  if (in->front().isScalar())
    return a.fail(diag::reduceScalar, a.loc(0), "associative_scan", kindName(tensor(in->front())));
  auto axis = a.axis(1, "axis", in->front().shape().rank());
  auto out = axis ? combine(a, OpKind::Scan, *in, *axis, *reverse) : std::nullopt;
  return out ? packed(a, std::move(*out)) : Value::error();
}

Value histogram(BuiltinCall &call) {
  Args a(call, "histogram");
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  if (x->shape().rank() != 1 || !x->dtype.isInt())
    return a.fail(diag::histogramInput, a.loc(0), kindName(a[0]));
  std::optional<int64_t> bins = a.integer(1, "num_bins");
  auto shape = bins ? blockShape(call.ctx, Value::integer(*bins), a.loc(1)) : std::nullopt;
  if (!shape)
    return Value::error();
  // Narrow values are extended by their own signedness; the operation takes 32 or 64 bits.
  if (x->dtype.bits() < 32)
    *x = convert(call.ctx, *x, dtype(Scalar::Int32));
  std::vector<ir::Value *> operands{x->value};
  if (!a[2].isNone()) {
    std::optional<Tensor> m = a.tensor(2);
    if (!m)
      return Value::error();
    if (!m->dtype.isBool())
      return a.fail(diag::maskNotBool, a.loc(2), kindName(a[2]));
    auto common = commonShape(call.ctx, x->shape(), m->shape(), a.loc(), a.loc(0), a.loc(2));
    if (!common || *common != x->shape())
      return common ? a.fail(diag::wrongShape, a.loc(2), "the mask", shapeText(m->shape()),
                             "the input's shape " + shapeText(x->shape()))
                    : Value::error();
    operands.push_back(spread(call.ctx, *m, x->shape()).value);
  }
  const ir::Type types[] = {ir::Type::tensor(*shape, ir::Elem::I32)};
  return tensor(dtype(Scalar::Int32), a.b().create(OpKind::Histogram, operands, types)->result());
}

Value gather(BuiltinCall &call) {
  Args a(call, "gather");
  std::optional<Tensor> x = a.tensor(0), index = a.tensor(1);
  if (!x || !index)
    return Value::error();
  unsigned rank = x->shape().rank();
  if (!index->dtype.isInt() || index->dtype.isBool() || rank == 0 || index->shape().rank() != rank)
    return a.fail(diag::gatherIndex, a.loc(1), kindName(tensor(*x)), kindName(tensor(*index)));
  auto axis = a.axis(2, "axis", rank);
  if (!axis)
    return Value::error();
  for (unsigned i = 0; i < rank; ++i)
    if (i != *axis && x->shape()[i] != index->shape()[i])
      return a.fail(diag::gatherExtent, a.loc(1), i, index->shape()[i], x->shape()[i]);
  // Narrow indices are extended by their own signedness; the operation takes 32 or 64 bits.
  if (index->dtype.bits() < 32)
    *index = convert(call.ctx, *index, dtype(Scalar::Int32));
  return tensor(x->dtype, a.b().create1(OpKind::Gather, {x->value, index->value}, irType(x->dtype, index->shape()),
                                        {{ir::attr::axis, static_cast<int64_t>(*axis)}}));
}

constexpr Builtin rows[] = {
    {"reduce", "input, axis, combine_fn, keep_dims=False", reduce, Builtin::Method,
     "Combines the elements along an axis (all of them if it is None)."},
    {"associative_scan", "input, axis, combine_fn, reverse=False", associativeScan, Builtin::Method,
     "The running combination of the elements along an axis."},
    {"histogram", "input, num_bins, mask=None", histogram, Builtin::Method,
     "How often each of 0 .. num_bins - 1 occurs."},
    {"gather", "src, index, axis", gather, Builtin::Method, "Elements of `src` at indices along an axis."},
};

} // namespace

std::span<const Builtin> reduceBuiltins() { return rows; }

} // namespace tegula::lang
