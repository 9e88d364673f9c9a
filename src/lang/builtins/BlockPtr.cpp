// Block pointers: make_block_ptr, advance, and the expansion to pointer tensors and masks.
#include "lang/builtins/BlockPtr.h"
#include "lang/builtins/Families.h"
#include <algorithm>

namespace tegula::lang {

namespace {

using ir::OpKind;

enum Field : size_t { Base, ShapeField, Strides, Offsets, BlockShape, Order };

std::shared_ptr<const RecordClass> blockPtrClass() {
  static const auto cls = std::make_shared<const RecordClass>(RecordClass{
      RecordClass::Kind::BlockPtr, "block_ptr", {"base", "shape", "strides", "offsets", "block_shape", "order"}, {}});
  return cls;
}

/// Runtime or compile-time integer scalars as int64 scalars.
std::optional<std::vector<Value>> wideScalars(Args &a, size_t i, const char *name) {
  const std::vector<Value> *given = sequenceItems(a[i]);
  std::vector<Value> out;
  for (const Value &v : given ? *given : std::vector<Value>{a[i]}) {
    bool isInt = v.isInt() || v.isBool() || (v.isTensor() && v.asTensor().dtype.isInt() && v.asTensor().isScalar());
    if (!isInt) {
      a.fail(diag::badArgument, a.loc(i), a.function(), name, "integer scalars", kindName(v));
      return std::nullopt;
    }
    Value wide = v.isTensor() ? cast(a.ctx(), v, dtype(Scalar::Int64), a.loc(i))
                              : constant(a.ctx(), v, dtype(Scalar::Int64), a.loc(i));
    if (wide.isError())
      return std::nullopt;
    out.push_back(wide);
  }
  return out;
}

Value makeBlockPtr(BuiltinCall &call) {
  Args a(call, "make_block_ptr");
  call.diag().report(diag::deprecatedBlockPtr, a.loc());
  if (!a[Base].isTensor() || !a[Base].asTensor().dtype.isPtr || !a[Base].asTensor().isScalar())
    return a.fail(diag::badArgument, a.loc(Base), "make_block_ptr", "base", "a scalar pointer", kindName(a[Base]));
  auto shape = wideScalars(a, ShapeField, "shape"), strides = wideScalars(a, Strides, "strides");
  auto offsets = wideScalars(a, Offsets, "offsets");
  auto block = blockShape(call.ctx, a[BlockShape], a.loc(BlockShape));
  auto order = intList(call.ctx, a[Order], a.loc(Order), "the dimensions in `order`");
  if (!shape || !strides || !offsets || !block || !order)
    return Value::error();
  size_t n = shape->size();
  if (n == 0 || strides->size() != n || offsets->size() != n || block->rank() != n || order->size() != n) {
    std::string found;
    for (size_t count : {n, strides->size(), offsets->size(), static_cast<size_t>(block->rank()), order->size()})
      found += (found.empty() ? "" : ", ") + std::to_string(count);
    return a.fail(diag::blockPtrLengths, a.loc(), found);
  }
  std::vector<int64_t> sorted = *order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < n; ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return a.fail(diag::blockPtrOrder, a.loc(Order), static_cast<uint64_t>(n - 1), repr(a[Order]));
  std::vector<Value> orderItems;
  for (int64_t o : *order)
    orderItems.push_back(Value::integer(o));
  return Value(std::make_shared<const RecordValue>(
      RecordValue{blockPtrClass(),
                  {a[Base], Value::tuple(std::move(*shape)), Value::tuple(std::move(*strides)),
                   Value::tuple(std::move(*offsets)), shapeValue(*block), Value::tuple(std::move(orderItems))}}));
}

Value advance(BuiltinCall &call) {
  Args a(call, "advance");
  if (!isBlockPtr(a[0]))
    return a.fail(diag::badArgument, a.loc(0), "advance", "base", "a block pointer", kindName(a[0]));
  const RecordValue &r = a[0].record();
  auto by = wideScalars(a, 1, "offsets");
  if (!by)
    return Value::error();
  const std::vector<Value> &old = r.fields[Offsets].items();
  if (by->size() != old.size())
    return a.fail(diag::advanceLength, a.loc(1), static_cast<uint64_t>(old.size()), static_cast<uint64_t>(by->size()));
  std::vector<Value> offsets;
  for (size_t i = 0; i < old.size(); ++i)
    offsets.push_back(
        tensor(dtype(Scalar::Int64), a.b().binary(OpKind::Add, old[i].asTensor().value, (*by)[i].asTensor().value)));
  RecordValue moved = r;
  moved.fields[Offsets] = Value::tuple(std::move(offsets));
  return Value(std::make_shared<const RecordValue>(std::move(moved)));
}

/// Which dimensions are checked, by position.
std::optional<std::vector<bool>> checkedDims(Args &a, const Value &list, Loc loc, unsigned rank) {
  std::vector<bool> checked(rank, false);
  if (list.isNone())
    return checked;
  auto dims = intList(a.ctx(), list, loc, "`boundary_check`");
  if (!dims)
    return std::nullopt;
  for (int64_t d : *dims) {
    bool inside = d >= 0 && d < rank;
    if (!inside)
      a.fail(diag::badBoundaryDim, loc, d, rank);
    else if (checked[d])
      a.fail(diag::duplicateBoundaryDim, loc, d);
    if (!inside || checked[d])
      return std::nullopt;
    checked[d] = true;
  }
  return checked;
}

} // namespace

bool isBlockPtr(const Value &v) { return v.isRecord() && v.record().cls->kind == RecordClass::Kind::BlockPtr; }

std::optional<BlockAccess> expandBlockPtr(Args &a, const Value &blockPtr, const Value &boundaryCheck, Loc boundaryLoc) {
  const RecordValue &r = blockPtr.record();
  std::optional<ir::Shape> shape = blockShape(a.ctx(), r.fields[BlockShape], a.loc());
  if (!shape)
    return std::nullopt;
  auto checked = checkedDims(a, boundaryCheck, boundaryLoc, shape->rank());
  if (!checked)
    return std::nullopt;
  ir::Builder &b = a.b();
  const Tensor &base = r.fields[Base].asTensor();
  BlockAccess out{base.dtype, b.splat(base.value, *shape), nullptr};
  for (unsigned d = 0; d < shape->rank(); ++d) {
    auto scalar = [&](Field f) { return r.fields[f].items()[d].asTensor().value; };
    // Along one dimension first: index = offset + 0, 1, ...; then spread over the block.
    ir::Shape line{(*shape)[d]};
    ir::Value *steps = b.cast(OpKind::SExt, b.range(0, line[0]), ir::Elem::I64);
    ir::Value *index = b.binary(OpKind::Add, b.splat(scalar(Offsets), line), steps);
    auto spreadOut = [&](ir::Value *v) {
      for (unsigned i = 0; i < d; ++i)
        v = b.expandDims(v, 0);
      while (v->type.shape.rank() < shape->rank())
        v = b.expandDims(v, v->type.shape.rank());
      return v->type.shape == *shape ? v : b.broadcast(v, *shape);
    };
    ir::Value *elements = b.binary(OpKind::Mul, index, b.splat(scalar(Strides), line));
    out.pointers = b.addPtr(out.pointers, spreadOut(elements));
    if (!(*checked)[d])
      continue;
    ir::Value *inside = b.binary(OpKind::And, b.cmp(ir::CmpPred::Sge, index, b.constInt(index->type, 0)),
                                 b.cmp(ir::CmpPred::Slt, index, b.splat(scalar(ShapeField), line)));
    inside = spreadOut(inside);
    out.mask = out.mask ? b.binary(OpKind::And, out.mask, inside) : inside;
  }
  return out;
}

namespace {
constexpr Builtin rows[] = {
    {"make_block_ptr", "base, shape, strides, offsets, block_shape, order", makeBlockPtr, 0,
     "A pointer to a block of a tensor in memory (deprecated)."},
    {"advance", "base, offsets", advance, Builtin::MustUse, "A block pointer moved by offsets."},
};
} // namespace

std::span<const Builtin> blockPtrBuiltins() { return rows; }

} // namespace tegula::lang
