// map_elementwise: a function of scalars, control flow and all, applied to the elements of blocks (LANGUAGE 3.6).
#include "lang/Lanes.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include "lang/builtins/Neighbours.h"

namespace tegula::lang {

namespace {

using ir::OpKind;
using ir::Shape;

std::optional<std::vector<Tensor>> mapInputs(Args &a) {
  std::vector<Tensor> in;
  Shape shape;
  for (const Value &v : *sequenceItems(a[1])) {
    Value t = toTensor(a.ctx(), v, a.loc(1));
    auto common =
        t.isError() ? std::nullopt : commonShape(a.ctx(), shape, t.asTensor().shape(), a.loc(), a.loc(1), a.loc(1));
    if (!common)
      return std::nullopt;
    shape = *common;
    in.push_back(t.asTensor());
  }
  if (in.empty()) {
    a.badArgument(1, "args", "at least one tensor");
    return std::nullopt;
  }
  for (Tensor &t : in)
    t = spread(a.ctx(), t, shape);
  return in;
}

struct Mapped {
  std::vector<Tensor> results; // those of the first, second, ... call argument by argument
  bool isTuple = false;
};

/// The results of the function as tensors of scalars.
std::optional<Mapped> scalarResults(Args &a, const Value &result, unsigned pack) {
  const std::vector<Value> *given = sequenceItems(result);
  Mapped out{{}, given != nullptr};
  for (const Value &v : given ? *given : std::vector<Value>{result}) {
    Value t = v.isNumber() || v.isTensor() ? toTensor(a.ctx(), v, a.loc(0)) : v;
    if (!t.isTensor() || !t.asTensor().isScalar()) {
      a.fail(diag::mapResult, a.loc(0), kindName(v));
      return std::nullopt;
    }
    out.results.push_back(t.asTensor());
  }
  for (size_t i = 0; i < out.results.size(); ++i)
    if (out.results[i].dtype != out.results[i / pack * pack].dtype) {
      a.fail(diag::mapTypes, a.loc(0), pack, spelling(out.results[i / pack * pack].dtype),
             spelling(out.results[i].dtype));
      return std::nullopt;
    }
  if (!out.results.empty() && out.results.size() % pack == 0)
    return out;
  a.fail(diag::mapCount, a.loc(0), pack, out.results.size());
  return std::nullopt;
}

/// Calls the function on scalars, in a detached block, and vectorizes that block over all elements of `in`.
std::optional<Mapped> mapLanes(Args &a, const std::vector<Tensor> &in, unsigned pack) {
  ir::Builder &b = a.b();
  ir::Block *outside = b.block();
  // An operation of its own, as code in a region may look at who owns it.
  ir::Op *holder = b.ifOp(b.constInt(ir::Type::scalar(ir::Elem::I1), 1), {});
  ir::Block *code = holder->region(0);
  std::vector<Value> args;
  for (const Tensor &t : in)
    args.push_back(tensor(t.dtype, b.module().addArg(code, t.value->type.scalarType())));
  b.setBlock(code);
  Value result = a.ctx().call(a[0], args, a.loc());
  // Calls may leave the builder in a block of their own.
  b.setBlock(code);
  std::optional<Mapped> mapped = result.isError() ? std::nullopt : scalarResults(a, result, pack);
  b.setBlock(outside);
  std::erase(outside->ops, holder);
  if (!mapped)
    return std::nullopt;
  Lanes lanes(b, in.front().shape());
  for (size_t i = 0; i < in.size(); ++i)
    lanes.bind(code->args[i], in[i].value);
  if (const ir::Op *bad = lanes.block(*code)) {
    a.ctx()
        .diag()
        .report(diag::mapOperation, bad->loc, ir::info(bad->kind).name)
        .note(a.loc(0), "in a function for map_elementwise");
    return std::nullopt;
  }
  for (Tensor &t : mapped->results)
    t.value = lanes.tile(t.value);
  return mapped;
}

Value mapElementwise(BuiltinCall &call) {
  Args a(call, "map_elementwise");
  auto in = mapInputs(a);
  std::optional<int64_t> pack = in ? a.integer(2, "pack") : std::nullopt;
  if (!pack)
    return Value::error();
  if (*pack < 1 || *pack > 64 || (*pack & (*pack - 1)))
    return a.badArgument(2, "pack", "a power of 2 up to 64");
  auto count = static_cast<unsigned>(*pack);
  Shape shape = in->front().shape();
  if (count > 1 && !requirePowers(call.ctx, "map_elementwise with `pack`", shape, a.loc(1)))
    return Value::error();
  if (shape.rank() == 0 && count == 1) {
    std::vector<Value> args(in->begin(), in->end());
    Value result = call.ctx.call(a[0], args, a.loc());
    std::optional<Mapped> mapped = result.isError() ? std::nullopt : scalarResults(a, result, 1);
    if (!mapped)
      return Value::error();
    return mapped->isTuple ? Value::tuple({mapped->results.begin(), mapped->results.end()})
                           : tensor(mapped->results[0]);
  }
  ir::Builder &b = call.b();
  int64_t n = shape.numel(), done = std::max<int64_t>(n, count);
  if (n % count && count % n)
    return a.badArgument(2, "pack", "a divisor of the number of elements");
  std::vector<Tensor> parts;
  for (const Tensor &t : *in) {
    if (count == 1) {
      parts.push_back(t);
      continue;
    }
    ir::Value *flat = n < count ? repeated(b, t.value, count) : b.reshape(t.value, Shape{n});
    for (ir::Value *part : deal(b, flat, count))
      parts.push_back({t.dtype, part});
  }
  auto mapped = mapLanes(a, parts, count);
  if (!mapped)
    return Value::error();
  std::vector<Value> out;
  for (size_t i = 0; i < mapped->results.size(); i += count) {
    std::vector<ir::Value *> slots;
    for (size_t k = 0; k < count; k += static_cast<size_t>(done / n))
      slots.push_back(mapped->results[i + k].value);
    ir::Value *x = gatherUp(b, slots);
    if (shape.rank() == 0)
      x = b.create1(OpKind::Unsplat, {x}, x->type.scalarType());
    else if (x->type.shape != shape)
      x = b.reshape(x, shape);
    out.push_back(tensor(mapped->results[i].dtype, x));
  }
  return mapped->isTuple ? Value::tuple(std::move(out)) : out[0];
}

constexpr Builtin rows[] = {
    {"map_elementwise", "scalar_fn, *args, pack=1", mapElementwise, 0,
     "Applies a function of scalars to the elements of blocks, `pack` elements a call; a tuple if the function returns one."},
};

} // namespace

std::span<const Builtin> mapBuiltins() { return rows; }

} // namespace tegula::lang
