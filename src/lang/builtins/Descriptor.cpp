// Tensor descriptors (LANGUAGE 3.3): make_tensor_descriptor and the accesses.
#include "lang/Descriptor.h"
#include "lang/builtins/Families.h"
#include "lang/builtins/Pointers.h"
#include <limits>

namespace tegula::lang {

const std::shared_ptr<const RecordClass> &descriptorClass() {
  static const auto cls = std::make_shared<const RecordClass>(
      RecordClass{RecordClass::Kind::Descriptor,
                  "tensor_descriptor",
                  {"base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32"},
                  {}});
  return cls;
}

namespace {

using ir::CmpPred;
using ir::OpKind;

/// A descriptor taken apart.
struct Desc {
  const RecordValue &record;
  Dtype pointer, element, inMemory;
  ir::Shape block;
  bool nan = false, tf32 = false;

  ir::Value *base() const { return field(record, DescField::Base).asTensor().value; }
  ir::Value *extent(unsigned d) const { return field(record, DescField::Shape).items()[d].asTensor().value; }
  /// Strides are tensors except the last, a compile-time 1.
  ir::Value *stride(ir::Builder &b, unsigned d) const {
    const Value &s = field(record, DescField::Strides).items()[d];
    return s.isTensor() ? s.asTensor().value : b.constI64(static_cast<int64_t>(s.asInt()));
  }
};

std::optional<Desc> descriptorOperand(Args &a, size_t i) {
  if (!isDescriptor(a[i])) {
    a.fail(diag::badArgument, a.loc(i), a.function(), "desc", "a tensor descriptor", kindName(a[i]));
    return std::nullopt;
  }
  const RecordValue &r = a[i].record();
  auto block = blockShape(a.ctx(), field(r, DescField::BlockShape), a.loc(i));
  Dtype pointer = field(r, DescField::Base).asTensor().dtype;
  if (!block)
    return std::nullopt;
  const Value &padding = field(r, DescField::Padding);
  return Desc{r,
              pointer,
              pointer.pointee(),
              memoryDtype(pointer.pointee()),
              *block,
              padding.isStr() && padding.asStr() == "nan",
              field(r, DescField::RoundTf32).asBool()};
}

/// One integer scalar of shape, strides or offsets as a scalar of `to`.
ir::Value *integerScalar(Args &a, const Value &v, Scalar to, Loc loc, const char *name) {
  bool isInt = v.isInt() || v.isBool() || (v.isTensor() && v.asTensor().dtype.isInt() && v.asTensor().isScalar());
  if (!isInt) {
    a.fail(diag::badArgument, loc, a.function(), name, "integer scalars", kindName(v));
    return nullptr;
  }
  Value x = v.isTensor() ? cast(a.ctx(), v, dtype(to), loc) : constant(a.ctx(), v, dtype(to), loc);
  return x.isError() ? nullptr : x.asTensor().value;
}

std::optional<std::vector<Value>> items(Args &a, size_t i, const char *name) {
  if (const auto *list = sequenceItems(a[i]))
    return *list;
  a.fail(diag::badArgument, a.loc(i), a.function(), name, "a tuple or list", kindName(a[i]));
  return std::nullopt;
}

// Making one.

bool isOne(const Value &v) {
  return v.isTensor() ? ir::constantInt(v.asTensor().value) == 1 : v.isNumber() && !v.isFloat() && v.asInt() == 1;
}

bool checkBlock(Args &a, Dtype element, const ir::Shape &block, bool nan) {
  int64_t columns = block[block.rank() - 1], bytes = columns * memoryDtype(element).bits() / 8;
  if (bytes < descriptorGrain)
    a.fail(diag::descriptorBlockBytes, a.loc(3), shapeText(block), spelling(element), bytes,
           descriptorGrain * 8 / memoryDtype(element).bits());
  else if (nan && !element.isFloat())
    a.fail(diag::nanPadding, a.loc(4), spelling(element));
  else
    return true;
  return false;
}

Value makeTensorDescriptor(BuiltinCall &call) {
  Args a(call, "make_tensor_descriptor");
  if (!a[0].isTensor() || !a[0].asTensor().dtype.isPtr || !a[0].asTensor().isScalar() ||
      a[0].asTensor().dtype.scalar == Scalar::Void)
    return a.fail(diag::badArgument, a.loc(0), a.function(), "base", "a scalar pointer", kindName(a[0]));
  auto shape = items(a, 1, "shape"), strides = items(a, 2, "strides");
  auto block = blockShape(call.ctx, a[3], a.loc(3));
  auto padding = a.choice(4, "padding_option", "Padding option", "zero nan");
  if (!shape || !strides || !block || !padding || !requirePowers(call.ctx, "make_tensor_descriptor", *block, a.loc(3)))
    return Value::error();
  size_t n = shape->size();
  if (n < 1 || n > maxDescriptorRank)
    return a.fail(diag::descriptorRank, a.loc(1), maxDescriptorRank, static_cast<uint64_t>(n));
  if (strides->size() != n || block->rank() != n)
    return a.fail(diag::descriptorLengths, a.loc(), static_cast<uint64_t>(n), static_cast<uint64_t>(strides->size()),
                  block->rank());
  if (!isOne(strides->back()))
    return a.fail(diag::descriptorLastStride, a.loc(2),
                  strides->back().isTensor() ? kindName(strides->back()) : repr(strides->back()));
  if (!checkBlock(a, a[0].asTensor().dtype.pointee(), *block, *padding == "nan"))
    return Value::error();
  for (size_t d = 0; d < n; ++d) {
    ir::Value *extent = integerScalar(a, (*shape)[d], Scalar::Int32, a.loc(1), "shape");
    ir::Value *stride = d + 1 < n ? integerScalar(a, (*strides)[d], Scalar::Int64, a.loc(2), "strides") : nullptr;
    if (!extent || (!stride && d + 1 < n))
      return Value::error();
    (*shape)[d] = tensor(dtype(Scalar::Int32), extent);
    (*strides)[d] = stride ? tensor(dtype(Scalar::Int64), stride) : Value::integer(1);
  }
  return Value(std::make_shared<const RecordValue>(
      RecordValue{descriptorClass(),
                  {a[0], Value::tuple(std::move(*shape)), Value::tuple(std::move(*strides)), shapeValue(*block),
                   Value::str(padding->empty() ? "zero" : *padding), Value::boolean(false)}}));
}

// Accesses to whole blocks.

/// int64 offsets are rejected: hardware takes 32 bits, and a silent truncation would hide an overflow.
ir::Value *offsetScalar(Args &a, const Value &v, Loc loc) {
  if (v.isTensor() && v.asTensor().dtype.isInt() && v.asTensor().dtype.bits() > 32) {
    a.fail(diag::descriptorWideOffset, loc, a.function(), kindName(v));
    return nullptr;
  }
  return integerScalar(a, v, Scalar::Int32, loc, "offsets");
}

/// base, extents, strides, offsets: the operands that all accesses begin with.
std::optional<std::vector<ir::Value *>> accessOperands(Args &a, const Desc &d, size_t offsetsArg) {
  auto offsets = items(a, offsetsArg, "offsets");
  if (!offsets)
    return std::nullopt;
  unsigned n = d.block.rank();
  if (offsets->size() != n) {
    a.fail(diag::descriptorOffsets, a.loc(offsetsArg), a.function(), n, static_cast<uint64_t>(offsets->size()));
    return std::nullopt;
  }
  std::vector<ir::Value *> out{d.base()};
  for (unsigned i = 0; i < n; ++i)
    out.push_back(d.extent(i));
  for (unsigned i = 0; i < n; ++i)
    out.push_back(d.stride(a.b(), i));
  for (const Value &v : *offsets) {
    ir::Value *o = offsetScalar(a, v, a.loc(offsetsArg));
    if (!o)
      return std::nullopt;
    out.push_back(o);
  }
  return out;
}

Value loaded(Args &a, const Desc &d, const std::vector<ir::Value *> &operands, const ir::Shape &shape) {
  std::vector<ir::Attr> attrs;
  if (d.nan)
    attrs.push_back({ir::attr::nan, true});
  if (d.tf32)
    attrs.push_back({ir::attr::tf32, true});
  const ir::Type types[] = {irType(d.inMemory, shape)};
  ir::Op *op = a.b().create(OpKind::DescLoad, operands, types, std::move(attrs));
  return tensor(convert(a.ctx(), {d.inMemory, op->result()}, d.element));
}

Value descLoad(BuiltinCall &call) {
  Args a(call, "tensor descriptor load");
  auto d = descriptorOperand(a, 0);
  auto operands = d ? accessOperands(a, *d, 1) : std::nullopt;
  return operands ? loaded(a, *d, *operands, d->block) : Value::error();
}

bool isWritable(Args &a, const Desc &d) {
  if (d.pointer.isConst)
    a.fail(diag::storeToConst, a.loc(0), spelling(d.pointer));
  return !d.pointer.isConst;
}

/// Argument i as a tensor of exactly this shape: descriptors broadcast nothing.
std::optional<Tensor> blockOperand(Args &a, size_t i, const ir::Shape &shape) {
  std::optional<Tensor> v = a.tensor(i);
  if (v && v->shape() != shape) {
    a.fail(diag::wrongShape, a.loc(i), "the value", v->isScalar() ? "[] (a scalar)" : shapeText(v->shape()),
           "the shape of the descriptor's block, " + shapeText(shape));
    return std::nullopt;
  }
  return v;
}

/// Writes argument `i`; `operands` are the others.
Value stored(Args &a, const Desc &d, std::vector<ir::Value *> operands, size_t i, const ir::Shape &shape) {
  auto value = blockOperand(a, i, shape);
  Value v = value ? cast(a.ctx(), tensor(*value), d.element, a.loc(i)) : Value::error();
  if (v.isError())
    return v;
  operands.push_back(convert(a.ctx(), v.asTensor(), d.inMemory).value);
  a.b().create(OpKind::DescStore, operands, {});
  return Value::none();
}

Value descStore(BuiltinCall &call) {
  Args a(call, "tensor descriptor store");
  auto d = descriptorOperand(a, 0);
  auto operands = d && isWritable(a, *d) ? accessOperands(a, *d, 1) : std::nullopt;
  return operands ? stored(a, *d, *operands, 2, d->block) : Value::error();
}

// Reductions in memory.

struct ReduceInfo {
  const char *name, *onSigned, *onUnsigned, *onFloat;
  std::string_view dtypes;
};
constexpr ReduceInfo reduceInfos[] = {
    {"atomic_add", "add", "add", "fadd", "uint32 int32 uint64 float32 float16 bfloat16"},
    {"atomic_min", "smin", "umin", "fmin", "uint32 int32 uint64 int64 float16 bfloat16"},
    {"atomic_max", "smax", "umax", "fmax", "uint32 int32 uint64 int64 float16 bfloat16"},
    {"atomic_and", "and", "and", nullptr, "uint32 int32 uint64 int64"},
    {"atomic_or", "or", "or", nullptr, "uint32 int32 uint64 int64"},
    {"atomic_xor", "xor", "xor", nullptr, "uint32 int32 uint64 int64"},
};
enum Reduce : uint8_t { Add, Min, Max, And, Or, Xor };

template <Reduce Kind> Value descReduce(BuiltinCall &call) {
  const ReduceInfo &info = reduceInfos[Kind];
  Args a(call, info.name);
  auto d = descriptorOperand(a, 0);
  if (!d || !isWritable(a, *d))
    return Value::error();
  if ((" " + std::string(info.dtypes) + " ").find(" " + spelling(d->element) + " ") == std::string::npos)
    return a.fail(diag::descriptorReduceDtype, a.loc(0), info.name, spelling(d->element), info.dtypes);
  auto operands = accessOperands(a, *d, 1);
  auto value = operands ? blockOperand(a, 2, d->block) : std::nullopt;
  if (!value)
    return Value::error();
  if (value->dtype != d->element)
    return a.fail(diag::descriptorReduceValue, a.loc(2), info.name, spelling(d->element), spelling(value->dtype));
  operands->push_back(value->value);
  const char *rmw = d->element.isFloat() ? info.onFloat : d->element.isSigned() ? info.onSigned : info.onUnsigned;
  a.b().create(OpKind::DescReduce, *operands, {}, {{ir::attr::rmw, std::string(rmw)}});
  return Value::none();
}

// Rows by index.

/// Rows x_offsets[i], columns y_offset + j of a descriptor with blocks [1, N]: the operands that an access begins with.
std::optional<std::vector<ir::Value *>> rowOperands(Args &a, const Desc &d, size_t xArg, size_t yArg) {
  if (d.block.rank() != 2 || d.block[0] != 1)
    return a.fail(diag::descriptorGatherBlock, a.loc(0), a.function(), shapeText(d.block)), std::nullopt;
  int64_t leastColumns = 256 / d.inMemory.bits();
  if (d.block[1] < leastColumns)
    return a.fail(diag::descriptorGatherColumns, a.loc(0), a.function(), leastColumns, spelling(d.element), d.block[1]),
           std::nullopt;
  const Value &x = a[xArg];
  bool ok = x.isTensor() && x.asTensor().shape().rank() == 1 && x.asTensor().dtype.isInt() &&
            x.asTensor().dtype.isSigned() && (x.asTensor().dtype.bits() == 16 || x.asTensor().dtype.bits() == 32);
  if (!ok)
    return a.fail(diag::badArgument, a.loc(xArg), a.function(), "x_offsets",
                  "a one-dimensional block of int16 or int32", kindName(x)),
           std::nullopt;
  if (x.asTensor().shape()[0] < 8)
    return a.fail(diag::descriptorGatherRows, a.loc(xArg), a.function(), x.asTensor().shape()[0]), std::nullopt;
  ir::Value *y = offsetScalar(a, a[yArg], a.loc(yArg));
  if (!y || !requirePowers(a.ctx(), a.function(), x.asTensor().shape(), a.loc(xArg)))
    return std::nullopt;
  ir::Value *rows = convert(a.ctx(), x.asTensor(), dtype(Scalar::Int32)).value;
  return std::vector<ir::Value *>{d.base(), d.extent(0), d.extent(1), d.stride(a.b(), 0), d.stride(a.b(), 1), rows, y};
}

Value descGather(BuiltinCall &call) {
  Args a(call, "tensor descriptor gather");
  auto d = descriptorOperand(a, 0);
  auto operands = d ? rowOperands(a, *d, 1, 2) : std::nullopt;
  return operands ? loaded(a, *d, *operands, {(*operands)[5]->type.shape[0], d->block[1]}) : Value::error();
}

Value descScatter(BuiltinCall &call) {
  Args a(call, "tensor descriptor scatter");
  auto d = descriptorOperand(a, 0);
  auto operands = d && isWritable(a, *d) ? rowOperands(a, *d, 2, 3) : std::nullopt;
  return operands ? stored(a, *d, *operands, 1, {(*operands)[5]->type.shape[0], d->block[1]}) : Value::error();
}

constexpr Builtin table[] = {
    {"make_tensor_descriptor", "base, shape, strides, block_shape, padding_option=\"zero\"", makeTensorDescriptor, Builtin::MustUse,
     "A descriptor of a tensor in memory, read and written in blocks of one shape."},
    {"load_tensor_descriptor", "desc, offsets", descLoad, 0, "The block of a descriptor's tensor at offsets."},
    {"store_tensor_descriptor", "desc, offsets, value", descStore, 0, "Writes a block of a descriptor's tensor at offsets."},
    {"descriptor.load", "self, offsets", descLoad, 0, "The block at offsets; what is outside the tensor is padding."},
    {"descriptor.store", "self, offsets, value", descStore, 0, "Writes the block at offsets; what is outside is dropped."},
    {"descriptor.atomic_add", "self, offsets, value", descReduce<Add>, 0, "Adds a block to memory."},
    {"descriptor.atomic_min", "self, offsets, value", descReduce<Min>, 0, "Minimum of a block with memory."},
    {"descriptor.atomic_max", "self, offsets, value", descReduce<Max>, 0, "Maximum of a block with memory."},
    {"descriptor.atomic_and", "self, offsets, value", descReduce<And>, 0, "Bitwise and of a block with memory."},
    {"descriptor.atomic_or", "self, offsets, value", descReduce<Or>, 0, "Bitwise or of a block with memory."},
    {"descriptor.atomic_xor", "self, offsets, value", descReduce<Xor>, 0, "Bitwise xor of a block with memory."},
    {"descriptor.gather", "self, x_offsets, y_offset", descGather, 0, "Rows by index, from one column on."},
    {"descriptor.scatter", "self, value, x_offsets, y_offset", descScatter, 0, "Writes rows by index, from one column on."},
};

} // namespace

std::span<const Builtin> descriptorBuiltins() { return table; }

} // namespace tegula::lang
