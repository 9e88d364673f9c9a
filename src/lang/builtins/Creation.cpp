// The programming model and tensors out of nothing: program_id, arange, full, cast (LANGUAGE 3.1).
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <limits>

namespace tegula::lang {

namespace {

using ir::OpKind;

Value gridValue(BuiltinCall &call, const char *function, OpKind k) {
  Args a(call, function);
  std::optional<int64_t> axis = a.integer(0, "axis");
  if (!axis)
    return Value::error();
  if (*axis < 0 || *axis > 2)
    return a.fail(diag::badProgramAxis, a.loc(0), function, *axis);
  return tensor(dtype(Scalar::Int32), a.b().create1(k, {}, ir::Type::scalar(ir::Elem::I32), {{ir::attr::axis, *axis}}));
}
Value programId(BuiltinCall &call) { return gridValue(call, "program_id", OpKind::ProgramId); }
Value numPrograms(BuiltinCall &call) { return gridValue(call, "num_programs", OpKind::NumPrograms); }

Value arange(BuiltinCall &call) {
  Args a(call, "arange");
  Int bounds[2];
  static constexpr const char *names[] = {"start", "end"};
  for (size_t i = 0; i < 2; ++i) {
    if (a[i].isFloat())
      return a.badArgument(i, names[i], "an integer");
    if (!a[i].isInt() && !a[i].isBool())
      return a.fail(diag::arangeConstexpr, a.loc(i), kindName(a[i]), names[i]);
    bounds[i] = a[i].asInt();
  }
  std::string from = intToString(bounds[0]), to = intToString(bounds[1]);
  if (bounds[0] < std::numeric_limits<int32_t>::min() || bounds[1] > std::numeric_limits<int32_t>::max())
    return a.fail(diag::arangeInt32, a.loc(), from, to);
  if (bounds[1] <= bounds[0])
    return a.fail(diag::arangeEmpty, a.loc(), from, to);
  int64_t start = static_cast<int64_t>(bounds[0]), n = static_cast<int64_t>(bounds[1]) - start;
  if (!allowsExtent(call.ctx, n, a.loc())) {
    int64_t next = 1;
    while (next < n)
      next *= 2;
    call.diag()
        .report(diag::arangeRange, a.loc(), n, from, to)
        .note(a.loc(), "take the next power of 2, " + std::to_string(next) + ", and mask the rest");
    return Value::error();
  }
  if (!blockShape(call.ctx, Value::integer(n), a.loc()))
    return Value::error();
  return tensor(dtype(Scalar::Int32), a.b().range(start, start + n));
}

Value full(BuiltinCall &call) {
  Args a(call, "full");
  std::optional<ir::Shape> shape = blockShape(call.ctx, a[0], a.loc(0));
  std::optional<Dtype> d = a.type(2, "dtype");
  if (!shape || !d)
    return Value::error();
  if (a[1].isNumber())
    return constant(call.ctx, a[1], *d, a.loc(1), *shape);
  if (!a[1].isTensor() || a[1].asTensor().shape().numel() != 1)
    return a.fail(diag::fullValue, a.loc(1), kindName(a[1]));
  Tensor x = a[1].asTensor();
  if (!x.isScalar())
    x.value = a.b().create1(OpKind::Unsplat, {x.value}, x.value->type.scalarType());
  Value v = cast(call.ctx, tensor(x), *d, a.loc(1));
  return v.isError() ? v : tensor(spread(call.ctx, v.asTensor(), *shape));
}

Value castTo(BuiltinCall &call) {
  Args a(call, "cast");
  std::optional<Dtype> d = a.type(1, "dtype");
  std::optional<bool> bitcast = a.flag(3, "bitcast");
  if (!d || !bitcast)
    return Value::error();
  // A number or an object that is no tensor is wrong by itself, not as a part of the cast.
  Value x = toTensor(call.ctx, a[0], a.loc(0));
  return x.isError() ? x : cast(call.ctx, x, *d, a.loc(), a[2], *bitcast, a.loc(2));
}

Value makeTensor(BuiltinCall &call) { return toTensor(call.ctx, call.args[0], Args(call, "to_tensor").loc(0)); }

constexpr Builtin rows[] = {
    {"program_id", "axis", programId, 0, "The index of this program along an axis of the grid, int32."},
    {"num_programs", "axis", numPrograms, 0, "The number of programs along an axis of the grid, int32."},
    {"arange", "start, end", arange, 0,
     "The integers from start up to end (left out), int32; their count is a power of 2."},
    {"full", "shape, value, dtype", full, 0, "A block of one value."},
    {"cast", "input, dtype, fp_downcast_rounding=None, bitcast=False", castTo, Builtin::Method,
     "The value converted to a dtype, or its bits reinterpreted."},
    {"tensor.to", "input, dtype, fp_downcast_rounding=None, bitcast=False", castTo, 0, "The same as tl.cast."},
    {"to_tensor", "x", makeTensor, 0, "A number as a scalar tensor of the type that literals have."},
};

} // namespace

std::span<const Builtin> creationBuiltins() { return rows; }

} // namespace tegula::lang
