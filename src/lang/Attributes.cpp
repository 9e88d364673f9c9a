// Attributes of values (x.shape, x.dtype.element_ty, x.sum) and the constants of the language's modules.
#include "lang/Containers.h"
#include "lang/Descriptor.h"
#include "lang/Emit.h"
#include "lang/HostTypes.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tegula::lang {

namespace {

using Type = std::shared_ptr<const TypeValue>;

constexpr std::string_view libraryMethods[] = {"cdiv", "sigmoid", "softmax", "max", "min", "argmax", "argmin",
                                               "sum", "xor_sum", "reduce_or", "cumsum", "cumprod", "flip", "ravel"};

Value typeValue(TypeValue t) { return Value(std::make_shared<const TypeValue>(std::move(t))); }

Value typeOf(const Tensor &t) {
  return t.isScalar() ? Value::type(t.dtype) : typeValue({t.dtype, t.shape(), true});
}

Value bind(const Value &self, Value callee) {
  return Value(std::make_shared<const BoundMethod>(
      BoundMethod{std::make_shared<const Value>(self), std::make_shared<const Value>(std::move(callee))}));
}

Value bindBuiltin(const Value &self, const Builtin *b) { return bind(self, Value(b)); }

// Types.

Value elementOf(const TypeValue &t) {
  if (t.isBlockPtr())
    return typeValue({t.dtype.pointee(), t.shape, true});
  return t.isBlock ? Value::type(t.dtype) : t.dtype.isPtr ? Value::type(t.dtype.pointee()) : Value::type(t.dtype);
}

/// The type itself for pointers, the element type of blocks.
Value scalarOf(const TypeValue &t) { return t.isBlockPtr() ? typeValue(t) : Value::type(t.dtype); }

int64_t mantissaWidth(Scalar s) {
  switch (s) {
  case Scalar::Fp8e5:
  case Scalar::Fp8e5b16:
    return 2;
  case Scalar::Fp8e4nv:
  case Scalar::Fp8e4b15:
  case Scalar::Fp8e4b8:
    return 3;
  case Scalar::Fp16:
    return 10;
  case Scalar::Bf16:
    return 7;
  case Scalar::Fp32:
    return 23;
  default:
    return 53;
  }
}

int64_t exponentBias(Scalar s) {
  switch (s) {
  case Scalar::Fp8e4nv:
    return 7;
  case Scalar::Fp8e4b8:
    return 8;
  case Scalar::Fp8e5b16:
    return 16;
  case Scalar::Bf16:
  case Scalar::Fp32:
    return 127;
  case Scalar::Fp64:
    return 1023;
  default:
    return 15;
  }
}

struct TypeProperty {
  std::string_view name;
  bool (*applies)(const TypeValue &);
  Value (*get)(const TypeValue &);
};

bool always(const TypeValue &) { return true; }
bool isBlock(const TypeValue &t) { return t.isBlock; }
bool isIntType(const TypeValue &t) { return !t.isBlock && t.dtype.isInt(); }
bool isFloatType(const TypeValue &t) { return !t.isBlock && t.dtype.isFloat(); }
bool hasElement(const TypeValue &t) { return t.isBlock || t.dtype.isPtr; }

const TypeProperty typeProperties[] = {
    {"scalar", always, scalarOf},
    {"element_ty", hasElement, elementOf},
    {"name", always,
     [](const TypeValue &t) {
       return Value::str(t.isBlock || t.isBlockPtr() ? repr(typeValue(t)) : str(Value::type(t.dtype)));
     }},
    {"primitive_bitwidth", always, [](const TypeValue &t) { return Value::integer(t.dtype.bits()); }},
    {"itemsize", always, [](const TypeValue &t) { return Value::integer(t.dtype.bits() / 8); }},
    {"int_bitwidth", isIntType, [](const TypeValue &t) { return Value::integer(t.dtype.bits()); }},
    {"int_signedness", isIntType, [](const TypeValue &t) { return Value::integer(t.dtype.isSigned() ? 0 : 1); }},
    {"fp_mantissa_width", isFloatType,
     [](const TypeValue &t) { return Value::integer(mantissaWidth(t.dtype.scalar)); }},
    {"exponent_bias", isFloatType, [](const TypeValue &t) { return Value::integer(exponentBias(t.dtype.scalar)); }},
    {"shape", isBlock, [](const TypeValue &t) { return shapeValue(t.shape); }},
    {"numel", isBlock, [](const TypeValue &t) { return Value::integer(t.shape.numel()); }},
    {"nbytes", isBlock, [](const TypeValue &t) { return Value::integer(t.shape.numel() * (t.dtype.bits() / 8)); }},
    {"address_space", hasElement, [](const TypeValue &) { return Value::integer(1); }},
};

std::optional<Value> typeAttribute(const Value &object, const TypeValue &t, std::string_view name) {
  for (const TypeProperty &p : typeProperties)
    if (p.name == name && p.applies(t))
      return p.get(t);
  std::string full = "dtype." + std::string(name);
  if (const Builtin *b = findBuiltin(full))
    return bindBuiltin(object, b);
  return findConstant(full);
}

// Tensors.

std::optional<Value> methodOf(Context &c, const Value &object, std::string_view name) {
  if (const Builtin *b = findMethod(name))
    return bindBuiltin(object, b);
  if (isLibraryMethod(name)) {
    Value f = c.libraryFunction(name);
    return f.isError() ? std::nullopt : std::optional<Value>(bind(object, f));
  }
  return std::nullopt;
}

std::optional<Value> tensorAttribute(Context &c, const Value &object, std::string_view name, Loc loc) {
  const Tensor &t = object.asTensor();
  if (name == "shape")
    return shapeValue(t.shape());
  if (name == "dtype")
    return Value::type(t.dtype);
  if (name == "type")
    return typeOf(t);
  if (name == "numel")
    return Value::integer(t.shape().numel());
  if (name != "T")
    return methodOf(c, object, name);
  if (t.shape().rank() != 2)
    return fail(c, diag::wrongShape, loc, "the tensor of `.T`", shapeText(t.shape()), "a shape of two dimensions");
  LocScope scope(c, loc);
  const int64_t swapped[] = {1, 0};
  return tensor(t.dtype, c.builder().permute(t.value, swapped));
}

// Records.

std::optional<Value> blockPtrAttribute(const Value &object, std::string_view name) {
  const RecordValue &r = object.record();
  const Dtype base = r.fields[0].asTensor().dtype;
  // A pointer, whose element_ty is what the block is made of: as a dtype that of the base, as a type that of blocks.
  if (name == "dtype")
    return Value::type(base);
  if (name == "type") {
    TypeValue t{base, {}, false};
    for (const Value &d : r.fields[4].items())
      t.shape.push(static_cast<int64_t>(d.asInt()));
    return typeValue(std::move(t));
  }
  if (name == "store" || name == "advance")
    return bindBuiltin(object, findBuiltin(name));
  return std::nullopt;
}

Value typeOfItem(const Value &item);

/// The type of the blocks that a descriptor loads and stores.
Value blockTypeOf(const RecordValue &descriptor) {
  TypeValue t{field(descriptor, DescField::Base).asTensor().dtype.pointee(), {}, true};
  for (const Value &d : field(descriptor, DescField::BlockShape).items())
    t.shape.push(static_cast<int64_t>(d.asInt()));
  return typeValue(std::move(t));
}

/// `.type` of a descriptor, with Triton's attributes.
Value descriptorType(const RecordValue &descriptor) {
  static const auto cls = std::make_shared<const RecordClass>(RecordClass{
      RecordClass::Kind::Object, "tensor_descriptor_type", {"block_type", "shape_type", "strides_type"}, {}});
  return Value(std::make_shared<const RecordValue>(
      RecordValue{cls,
                  {blockTypeOf(descriptor), typeOfItem(field(descriptor, DescField::Shape)),
                   typeOfItem(field(descriptor, DescField::Strides))}}));
}

std::optional<Value> descriptorAttribute(const Value &object, std::string_view name) {
  const RecordValue &r = object.record();
  if (name == "dtype")
    return Value::type(field(r, DescField::Base).asTensor().dtype.pointee());
  if (name == "type")
    return descriptorType(r);
  if (name == "block_type")
    return blockTypeOf(r);
  const Builtin *method = findBuiltin("descriptor." + std::string(name));
  return method ? std::optional<Value>(bindBuiltin(object, method)) : std::nullopt;
}

/// A member of an aggregate's class, read from the class (`self` null) or from an instance of it.
std::optional<Value> memberAttribute(Context &c, const std::shared_ptr<const RecordClass> &cls, const Value *self,
                                     std::string_view name, Loc loc) {
  std::optional<Aggregate::Member> m = findMember(*cls, name);
  if (!m)
    return std::nullopt;
  using Role = Aggregate::Member::Role;
  if (m->role == Role::Class)
    return bind(Value(cls), m->value);
  if (!self || m->role == Role::Static || !m->value.is<std::shared_ptr<const Function>>())
    return m->value;
  if (m->role == Role::Property)
    return c.call(m->value, std::span(self, 1), loc);
  return bind(*self, m->value);
}

std::optional<Value> recordAttribute(Context &c, const Value &object, std::string_view name, Loc loc) {
  const RecordValue &r = object.record();
  auto it = std::find(r.cls->fields.begin(), r.cls->fields.end(), name);
  if (it != r.cls->fields.end())
    return r.fields[static_cast<size_t>(it - r.cls->fields.begin())];
  if (name == "_fields" && r.cls->kind == RecordClass::Kind::NamedTuple) {
    std::vector<Value> names;
    for (const std::string &f : r.cls->fields)
      names.push_back(Value::str(f));
    return Value::tuple(std::move(names));
  }
  if (r.cls->aggregate)
    return memberAttribute(c, r.cls, &object, name, loc);
  if (r.cls->kind == RecordClass::Kind::Descriptor)
    return descriptorAttribute(object, name);
  return r.cls->kind == RecordClass::Kind::BlockPtr ? blockPtrAttribute(object, name) : std::nullopt;
}

std::optional<Value> hostAttribute(const OpaqueValue &object, std::string_view name) {
  for (const auto &[n, v] : object.attributes)
    if (n == name)
      return v;
  return std::nullopt;
}

/// A method of Python's, of the class that the value is of there.
std::optional<Value> pythonMethod(const Value &object, std::string_view name) {
  const char *kind = object.isStr()                      ? "str."
                     : object.isInt() || object.isBool() ? "int."
                     : object.isFloat()                  ? "float."
                     : object.isTuple()                  ? "tuple."
                     : isDict(object)                    ? "dict."
                                                         : nullptr;
  const Builtin *method = kind ? findBuiltin("python." + (kind + std::string(name))) : nullptr;
  return method ? std::optional<Value>(bindBuiltin(object, method)) : std::nullopt;
}

std::optional<Value> nameAttribute(const Value &object) {
  if (object.is<const Builtin *>())
    return Value::str(object.get<const Builtin *>()->name);
  if (object.is<std::shared_ptr<const Function>>())
    return Value::str(nameOf(*object.get<std::shared_ptr<const Function>>()));
  if (object.is<std::shared_ptr<const RecordClass>>())
    return Value::str(object.get<std::shared_ptr<const RecordClass>>()->name);
  if (object.is<std::shared_ptr<const Module>>())
    return Value::str(nameOf(*object.get<std::shared_ptr<const Module>>()));
  return std::nullopt;
}

// Constants.

Value opaque(std::string name) {
  // Ids only have to differ between names: the text itself is compared too.
  uint64_t id = 1469598103934665603ull;
  for (char ch : name)
    id = (id ^ static_cast<unsigned char>(ch)) * 1099511628211ull;
  return Value(std::make_shared<const OpaqueValue>(OpaqueValue{std::move(name), id}));
}

Value propagateNan() {
  static const auto cls = std::make_shared<const RecordClass>(
      RecordClass{RecordClass::Kind::NamedTuple, "PropagateNan", {"NONE", "ALL"}, {}});
  return Value(
      std::make_shared<const RecordValue>(RecordValue{cls, {opaque("PropagateNan.NONE"), opaque("PropagateNan.ALL")}}));
}

Value names(std::initializer_list<const char *> list) {
  std::vector<Value> items;
  for (const char *n : list)
    items.push_back(Value::str(n));
  return Value::tuple(std::move(items));
}

/// A class whose members are plain numbers here: their names are all that programs look at.
Value numbered(const char *cls, std::initializer_list<const char *> members) {
  RecordClass c{RecordClass::Kind::Object, cls, {}, {}};
  std::vector<Value> values;
  for (const char *m : members) {
    c.fields.emplace_back(m);
    values.push_back(Value::integer(static_cast<Int>(values.size())));
  }
  return Value(std::make_shared<const RecordValue>(
      RecordValue{std::make_shared<const RecordClass>(std::move(c)), std::move(values)}));
}

/// What `.type` of a compile-time object, or of an item of a tuple, is.
Value typeOfItem(const Value &item) {
  if (item.isTensor())
    return typeOf(item.asTensor());
  if (item.isTuple()) {
    std::vector<Value> types;
    for (const Value &i : item.items())
      types.push_back(typeOfItem(i));
    return tupleType(std::move(types));
  }
  if (item.isConstexpr() || !item.isRecord())
    return constexprType(item);
  return isDescriptor(item) ? descriptorType(item.record()) : Value(item.record().cls);
}

struct Constant {
  std::string_view name;
  Value (*get)();
};

const Constant constants[] = {
    {"TRITON_MAX_TENSOR_NUMEL", [] { return Value::integer(1 << 20); }},
    {"PropagateNan", propagateNan},
    {"PropagateNan.NONE", [] { return opaque("PropagateNan.NONE"); }},
    {"CONSTEXPR_0", [] { return Value::integer(0); }},
    {"TRITON_BUILTIN", [] { return Value::str("__triton_builtin__"); }},
    {"dtype.SINT_TYPES", [] { return names({"int8", "int16", "int32", "int64"}); }},
    {"dtype.UINT_TYPES", [] { return names({"int1", "uint8", "uint16", "uint32", "uint64"}); }},
    {"dtype.FP_TYPES",
     [] { return names({"fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"}); }},
    {"dtype.STANDARD_FP_TYPES", [] { return names({"fp16", "bf16", "fp32", "fp64"}); }},
    {"dtype.OTHER_TYPES", [] { return names({"void"}); }},
    {"dtype.SIGNEDNESS", [] { return numbered("SIGNEDNESS", {"SIGNED", "UNSIGNED"}); }},
    {"dtype.KIND", [] { return numbered("KIND", {"BOOLEAN", "INTEGRAL", "FLOATING"}); }},
    {"pi32_t", [] { return Value::type(Dtype::ptr(Scalar::Int32)); }},
    {"tensor", [] { return opaque("tensor"); }},
    {"const", [] { return opaque("const"); }},
    {"tensor_descriptor", [] { return opaque("tensor_descriptor"); }},
    {"tensor_descriptor_type", [] { return opaque("tensor_descriptor_type"); }},
    {"python.NotImplemented", [] { return opaque("NotImplemented"); }},
    {"python.math.pi", [] { return Value::number(std::numbers::pi); }},
    {"python.math.e", [] { return Value::number(std::numbers::e); }},
    {"python.math.tau", [] { return Value::number(2 * std::numbers::pi); }},
    {"python.math.inf", [] { return Value::number(std::numeric_limits<double>::infinity()); }},
    {"python.math.nan", [] { return Value::number(std::numeric_limits<double>::quiet_NaN()); }},
};

} // namespace

bool isLibraryMethod(std::string_view name) {
  return std::find(std::begin(libraryMethods), std::end(libraryMethods), name) != std::end(libraryMethods);
}

static Value typeRecord(const std::shared_ptr<const RecordClass> &cls, Value held) {
  return Value(std::make_shared<const RecordValue>(RecordValue{cls, {std::move(held)}}));
}

Value constexprType(const Value &object) {
  if (object.isTuple())
    return typeOfItem(object); // one type for tuples, whether or not they are constexpr
  static const auto cls =
      std::make_shared<const RecordClass>(RecordClass{RecordClass::Kind::Object, "constexpr_type", {"value"}, {}});
  return typeRecord(cls, object);
}

Value tupleType(std::vector<Value> types) {
  static const auto cls =
      std::make_shared<const RecordClass>(RecordClass{RecordClass::Kind::Object, "tuple_type", {"types"}, {}});
  return typeRecord(cls, Value::tuple(std::move(types)));
}

std::optional<Value> findConstant(std::string_view name) {
  for (const Constant &k : constants)
    if (k.name == name)
      return k.get();
  // Dtypes by their own name only: tl.float32 exists, tl.fp32 does not.
  std::optional<Dtype> d = parseDtype(name);
  return d && spelling(*d) == name ? std::optional<Value>(Value::type(*d)) : std::nullopt;
}

std::vector<std::string> constantNames() {
  std::vector<std::string> out;
  for (const Constant &k : constants)
    out.emplace_back(k.name);
  for (int s = 0; s <= static_cast<int>(Scalar::Fp64); ++s)
    out.push_back(spelling(dtype(static_cast<Scalar>(s))));
  return out;
}

std::optional<Value> attribute(Context &c, const Value &object, std::string_view name, Loc loc) {
  if (object.isError())
    return object;
  if (object.isTensor())
    return tensorAttribute(c, object, name, loc);
  if (object.isDtype())
    return typeAttribute(object, TypeValue{object.asDtype(), {}, false}, name);
  if (object.is<Type>())
    return typeAttribute(object, *object.get<Type>(), name);
  if (std::optional<Value> own = memberAttribute(object, name))
    return own;
  if (std::optional<Value> method = pythonMethod(object, name))
    return method;
  if (object.is<std::shared_ptr<const OpaqueValue>>())
    return hostAttribute(*object.get<std::shared_ptr<const OpaqueValue>>(), name);
  if (object.isRecord())
    return recordAttribute(c, object, name, loc);
  using Class = std::shared_ptr<const RecordClass>;
  if (object.is<Class>() && object.get<Class>()->aggregate && name != "__name__")
    return memberAttribute(c, object.get<Class>(), nullptr, name, loc);
  if (name == "__name__")
    return nameAttribute(object);
  // Attributes of the class `dtype` itself.
  if (object.is<const Builtin *>() && std::string_view(object.get<const Builtin *>()->name) == "dtype")
    return findConstant("dtype." + std::string(name));
  return std::nullopt;
}

std::optional<Value> wrapperAttribute(const Value &object, std::string_view name) {
  if (object.isTuple() && name == "type")
    return typeOfItem(object);
  if (!object.isConstexpr())
    return std::nullopt;
  if (name == "value")
    return object;
  return name == "type" ? std::optional<Value>(constexprType(object)) : std::nullopt;
}

} // namespace tegula::lang
