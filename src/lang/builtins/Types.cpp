// Types as objects: constructors of types, predicates of dtypes, constexpr and tuple.
#include "lang/HostTypes.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"

namespace tegula::lang {

namespace {

using Type = std::shared_ptr<const TypeValue>;

/// The dtype of the receiver, void for a block type (which is neither int nor float).
Dtype receiver(BuiltinCall &call) {
  const Value &v = call.args[0];
  if (v.is<Type>() && v.get<Type>()->isBlockPtr())
    return v.get<Type>()->dtype;
  return v.isDtype() ? v.asDtype() : Dtype{};
}

template <Scalar S> Value isScalar(BuiltinCall &call) { return Value::boolean(receiver(call) == dtype(S)); }
template <bool (Dtype::*Test)() const> Value isKind(BuiltinCall &call) {
  return Value::boolean((receiver(call).*Test)());
}

Value isStandardFloating(BuiltinCall &call) {
  Dtype d = receiver(call);
  return Value::boolean(d.isFloat() && !d.isFp8());
}
Value isPtr(BuiltinCall &call) { return Value::boolean(receiver(call).isPtr); }
Value isConst(BuiltinCall &call) { return Value::boolean(receiver(call).isPtr && receiver(call).isConst); }
Value isBlock(BuiltinCall &call) {
  return Value::boolean(call.args[0].is<Type>() && call.args[0].get<Type>()->isBlock);
}
Value isVoid(BuiltinCall &call) { return Value::boolean(call.args[0].isDtype() && receiver(call).isVoid()); }

Value kindOf(BuiltinCall &call) {
  Dtype d = receiver(call);
  return Value::integer(d.isBool() ? 0 : d.isInt() ? 1 : 2);
}

Value blockShapes(BuiltinCall &call) {
  if (!call.args[0].is<Type>() || !call.args[0].get<Type>()->isBlock)
    return Args(call, "get_block_shapes").badArgument(0, "self", "a block type");
  return shapeValue(call.args[0].get<Type>()->shape);
}
/// The same shape with elements of another type.
Value withElement(BuiltinCall &call) {
  Args a(call, "with_element_ty");
  std::optional<Dtype> d = a.type(1, "element_ty");
  if (!d)
    return Value::error();
  if (!call.args[0].is<Type>() || !call.args[0].get<Type>()->isBlock)
    return Value::type(*d);
  return Value(std::make_shared<const TypeValue>(TypeValue{*d, call.args[0].get<Type>()->shape, true}));
}

Value intLimit(BuiltinCall &call, bool most) {
  Args a(call, most ? "get_int_max_value" : "get_int_min_value");
  Dtype d = receiver(call);
  if (!d.isInt())
    return a.badArgument(0, "self", "an integer dtype");
  unsigned bits = d.isSigned() ? d.bits() - 1 : d.bits();
  Int magnitude = static_cast<Int>(1) << bits;
  return Value::integer(most ? magnitude - 1 : d.isSigned() ? -magnitude : 0);
}
Value intMin(BuiltinCall &call) { return intLimit(call, false); }
Value intMax(BuiltinCall &call) { return intLimit(call, true); }

Value makeDtype(BuiltinCall &call) {
  Args a(call, "dtype");
  std::optional<Dtype> d = a.type(0, "name");
  return d ? Value::type(*d) : Value::error();
}

Value getIntDtype(BuiltinCall &call) {
  Args a(call, "get_int_dtype");
  std::optional<int64_t> bits = a.integer(0, "bitwidth");
  std::optional<bool> isSigned = a.flag(1, "signed");
  if (!bits || !isSigned)
    return Value::error();
  for (Scalar s : {Scalar::Int1, Scalar::Int8, Scalar::Int16, Scalar::Int32, Scalar::Int64, Scalar::UInt8,
                   Scalar::UInt16, Scalar::UInt32, Scalar::UInt64})
    if (dtype(s).bits() == *bits && (s == Scalar::Int1 || dtype(s).isSigned() == *isSigned))
      return Value::type(dtype(s));
  return a.badArgument(0, "bitwidth", "1, 8, 16, 32 or 64");
}

Value pointerType(BuiltinCall &call) {
  Args a(call, "pointer_type");
  std::optional<Dtype> d = a.type(0, "element_ty");
  std::optional<bool> isConst = a.flag(2, "const");
  if (!d || !isConst)
    return Value::error();
  if (d->isPtr)
    return a.badArgument(0, "element_ty", "a scalar dtype, not a pointer");
  return Value::type(Dtype::ptr(d->scalar, *isConst));
}

Value blockType(BuiltinCall &call) {
  Args a(call, "block_type");
  std::optional<Dtype> d = a.type(0, "element_ty");
  std::optional<ir::Shape> s = blockShape(call.ctx, a[1], a.loc(1));
  if (!d || !s)
    return Value::error();
  if (s->rank() == 0)
    return a.badArgument(1, "shape", "a shape of one or more dimensions");
  return Value(std::make_shared<const TypeValue>(TypeValue{*d, *s, true}));
}

/// Everything that is not a tensor is a compile-time object already. A tensor in such a box (kernels keep masks in one)
/// is used as the tensor; operations that need a number reject it.
Value makeConstexpr(BuiltinCall &call) { return call.args[0]; }

/// Compile-time objects are not wrapped here, so unwrapping one gives itself.
Value unwrapped(BuiltinCall &call) { return call.args[0]; }

Value makeTuple(BuiltinCall &call) {
  if (const auto *items = sequenceItems(call.args[0]))
    return Value::tuple(*items);
  return Args(call, "tuple").badArgument(0, "args", "a tuple");
}

Value makeConstexprType(BuiltinCall &call) {
  if (call.args[0].isConstexpr())
    return constexprType(call.args[0]);
  return Args(call, "constexpr_type").badArgument(0, "value", "known at compile time");
}

Value makeTupleType(BuiltinCall &call) {
  if (const auto *types = sequenceItems(call.args[0]))
    return tupleType(*types);
  return Args(call, "tuple_type").badArgument(0, "types", "a tuple");
}

Value level(BuiltinCall &call) { return Value::integer(static_cast<Int>(call.ctx.target().level)); }

constexpr Builtin rows[] = {
    {"dtype", "name", makeDtype, 0, "The dtype of that name."},
    {"pointer_type", "element_ty, address_space=1, const=False", pointerType, 0,
     "The type of pointers to `element_ty`."},
    {"block_type", "element_ty, shape", blockType, 0, "The type of blocks of that element type and shape."},
    {"constexpr", "value", makeConstexpr, 0, "The value itself. A tensor stays one."},
    {"tuple", "args=()", makeTuple, 0, "A tuple of the items of `args`."},
    {"constexpr_type", "value", makeConstexprType, 0, "The type of a compile-time value, which it holds."},
    {"tuple_type", "types", makeTupleType, 0, "The type of a tuple whose items are of these types."},
    {"get_int_dtype", "bitwidth, signed", getIntDtype, 0, "The integer dtype of that width; int1 for 1 bit."},
    {"_unwrap_if_constexpr", "o", unwrapped, 0, "The value itself: compile-time objects have no wrapper in kernels."},
    {"_constexpr_to_value", "v", unwrapped, 0, "The value itself, as _unwrap_if_constexpr."},
    {"_level", "", level, 0, "The level of the language (lang/Level.h): 36, 37 or 39. For the library."},
    {"dtype.is_fp8", "self", isKind<&Dtype::isFp8>, 0, "True for every 8-bit float type."},
    {"dtype.is_fp8e5", "self", isScalar<Scalar::Fp8e5>, 0, "True for float8e5."},
    {"dtype.is_fp8e4nv", "self", isScalar<Scalar::Fp8e4nv>, 0, "True for float8e4nv."},
    {"dtype.is_fp8e4b8", "self", isScalar<Scalar::Fp8e4b8>, 0, "True for float8e4b8."},
    {"dtype.is_fp8e4b15", "self", isScalar<Scalar::Fp8e4b15>, 0, "True for float8e4b15."},
    {"dtype.is_fp8e5b16", "self", isScalar<Scalar::Fp8e5b16>, 0, "True for float8e5b16."},
    {"dtype.is_fp16", "self", isScalar<Scalar::Fp16>, 0, "True for float16."},
    {"dtype.is_bf16", "self", isScalar<Scalar::Bf16>, 0, "True for bfloat16."},
    {"dtype.is_fp32", "self", isScalar<Scalar::Fp32>, 0, "True for float32."},
    {"dtype.is_fp64", "self", isScalar<Scalar::Fp64>, 0, "True for float64."},
    {"dtype.is_int1", "self", isScalar<Scalar::Int1>, 0, "True for int1."},
    {"dtype.is_int8", "self", isScalar<Scalar::Int8>, 0, "True for int8."},
    {"dtype.is_int16", "self", isScalar<Scalar::Int16>, 0, "True for int16."},
    {"dtype.is_int32", "self", isScalar<Scalar::Int32>, 0, "True for int32."},
    {"dtype.is_int64", "self", isScalar<Scalar::Int64>, 0, "True for int64."},
    {"dtype.is_uint8", "self", isScalar<Scalar::UInt8>, 0, "True for uint8."},
    {"dtype.is_uint16", "self", isScalar<Scalar::UInt16>, 0, "True for uint16."},
    {"dtype.is_uint32", "self", isScalar<Scalar::UInt32>, 0, "True for uint32."},
    {"dtype.is_uint64", "self", isScalar<Scalar::UInt64>, 0, "True for uint64."},
    {"dtype.is_floating", "self", isKind<&Dtype::isFloat>, 0, "True for float types."},
    {"dtype.is_standard_floating", "self", isStandardFloating, 0, "True for float types of 16 bits or more."},
    {"dtype.is_int", "self", isKind<&Dtype::isInt>, 0, "True for integer types, int1 included."},
    {"dtype.is_int_signed", "self", isKind<&Dtype::isSigned>, 0, "True for signed integer types."},
    {"dtype.is_int_unsigned", "self", isKind<&Dtype::isUnsigned>, 0, "True for unsigned integer types, int1 included."},
    {"dtype.is_bool", "self", isScalar<Scalar::Int1>, 0, "True for int1."},
    {"dtype.is_ptr", "self", isPtr, 0, "True for pointer types."},
    {"dtype.is_const", "self", isConst, 0, "True for pointers to constant data."},
    {"dtype.is_block", "self", isBlock, 0, "True for block types."},
    {"dtype.get_block_shapes", "self", blockShapes, 0, "The shape of a block type."},
    {"dtype.with_element_ty", "self, element_ty", withElement, 0,
     "The type of the same shape with elements of another type."},
    {"dtype.is_void", "self", isVoid, 0, "True for void."},
    {"dtype.kind", "self", kindOf, 0, "0 for int1, 1 for integers, 2 for floats."},
    {"dtype.get_int_min_value", "self", intMin, 0, "The least value of an integer type."},
    {"dtype.get_int_max_value", "self", intMax, 0, "The greatest value of an integer type."},
};

} // namespace

std::span<const Builtin> typeBuiltins() { return rows; }

} // namespace tegula::lang
