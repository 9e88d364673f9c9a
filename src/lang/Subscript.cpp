// Subscripts of tensors. `None` and `:` are Triton's (LANGUAGE 1.4); integers, slices and `...` have the meaning of
// numpy's basic indexing and are an extension: each axis that is cut is gathered by the positions that are kept.
//
//   x[a:b, None, -1]      gather along 0 by range(b - a) + a, gather along 1 by the last position, reshape to [b - a, 1]
#include "lang/Emit.h"
#include <algorithm>

namespace tegula::lang {

namespace {

bool isFullSlice(const Value &v) {
  if (!v.is<std::shared_ptr<const SliceValue>>())
    return false;
  const auto &parts = v.get<std::shared_ptr<const SliceValue>>()->parts;
  return std::all_of(parts.begin(), parts.end(), [](const Value &p) { return p.isNone(); });
}

bool isSlice(const Value &v) { return v.is<std::shared_ptr<const SliceValue>>(); }
bool isEllipsis(const Value &v) { return v.is<EllipsisValue>(); }
/// Does it stand for an axis of the block?
bool takesAxis(const Value &v) { return !v.isNone() && !isEllipsis(v); }

/// The rest of a block while its axes are processed.
class Cutter {
public:
  Cutter(Context &c, const Tensor &x, Loc loc) : c_(c), b_(c.builder()), x_(x), loc_(loc) {}

  /// `parts`: one for each axis, and `None`s. False after a report.
  bool cut(const std::vector<Value> &parts) {
    std::vector<int64_t> shape;
    for (const Value &p : parts) {
      if (p.isNone()) {
        shape.push_back(1);
        continue;
      }
      if (isSlice(p) ? !slice(p) : !item(p))
        return false;
      if (isSlice(p))
        shape.push_back(x_.shape()[axis_]);
      ++axis_;
    }
    if (shape.size() > ir::Shape::maxRank)
      return fail(c_, diag::rankTooHigh, loc_, ir::Shape::maxRank, static_cast<uint64_t>(shape.size())), false;
    ir::Shape out(shape.begin(), shape.end());
    if (x_.isScalar())
      x_.value = b_.splat(x_.value, out);
    else if (out.rank() == 0)
      x_.value = b_.create1(ir::OpKind::Unsplat, {x_.value}, x_.value->type.scalarType());
    else if (x_.shape() != out)
      x_.value = b_.reshape(x_.value, out);
    return true;
  }
  const Tensor &result() const { return x_; }

private:
  bool slice(const Value &p) {
    if (isFullSlice(p))
      return true;
    int64_t extent = x_.shape()[axis_];
    const SliceValue &s = *p.get<std::shared_ptr<const SliceValue>>();
    std::optional<std::vector<size_t>> at = slicePositions(s, extent);
    if (!at)
      return fail(c_, diag::sliceBounds, loc_, repr(p)), false;
    auto n = static_cast<int64_t>(at->size());
    if (!allowsExtent(c_, n, loc_))
      return fail(c_, diag::emptySlice, loc_, repr(p), axis_, extent), false;
    auto first = static_cast<int64_t>(at->front());
    int64_t step = n > 1 ? static_cast<int64_t>((*at)[1]) - first : 1;
    if (n == extent && step == 1)
      return true;
    ir::Value *index = b_.range(0, n);
    if (step != 1)
      index = b_.binary(ir::OpKind::Mul, index, b_.constInt(index->type, step));
    if (first != 0)
      index = b_.binary(ir::OpKind::Add, index, b_.constInt(index->type, first));
    gather(index, n);
    return true;
  }

  bool item(const Value &p) {
    int64_t extent = x_.shape()[axis_];
    if (p.isInt()) {
      if (p.asInt() < -extent || p.asInt() >= extent)
        return fail(c_, diag::itemOutOfRange, loc_, repr(p), axis_, extent), false;
      int64_t at = static_cast<int64_t>(p.asInt()) + (p.asInt() < 0 ? extent : 0);
      gather(b_.constI32(static_cast<int32_t>(at)), 1);
      return true;
    }
    bool isNumber =
        p.isTensor() && p.asTensor().isScalar() && p.asTensor().dtype.isInt() && !p.asTensor().dtype.isBool();
    if (!isNumber) {
      c_.diag()
          .report(diag::wrongIndex, loc_, p.isTensor() ? kindName(p) : repr(p))
          .note({}, "tl.gather takes a block of indices, tl.where a condition");
      return false;
    }
    // A gather counts modulo the extent, a power of two: so -1 is the last one at run time too.
    Tensor at = p.asTensor();
    if (at.dtype.bits() < 32)
      at = convert(c_, at, dtype(Scalar::Int32));
    gather(at.value, 1);
    return true;
  }

  /// `index`: a scalar, or the `n` positions that are kept of the axis.
  void gather(ir::Value *index, int64_t n) {
    ir::Shape shape;
    for (unsigned d = 0; d < x_.shape().rank(); ++d)
      shape.push(d == axis_ ? n : x_.shape()[d]);
    if (index->type.isScalar()) {
      index = b_.splat(index, shape);
    } else {
      for (unsigned d = 0; d < shape.rank(); ++d)
        if (d != axis_)
          index = b_.expandDims(index, d);
      index = index->type.shape == shape ? index : b_.broadcast(index, shape);
    }
    // An axis of one element needs no gather.
    if (x_.shape()[axis_] != 1)
      x_.value =
          b_.create1(ir::OpKind::Gather, {x_.value, index}, x_.value->type.withShape(shape), {{ir::attr::axis, axis_}});
  }

  Context &c_;
  ir::Builder &b_;
  Tensor x_;
  Loc loc_;
  unsigned axis_ = 0; // of x_
};

/// `...` and missing indices at the end stand for `:`; nullopt after a report.
std::optional<std::vector<Value>> everyAxis(Context &c, const std::vector<Value> &parts, unsigned rank, Loc loc) {
  auto used = static_cast<size_t>(std::count_if(parts.begin(), parts.end(), takesAxis));
  if (used > rank)
    return fail(c, diag::tooManyIndices, loc, rank), std::nullopt;
  const Value full(std::make_shared<const SliceValue>(SliceValue{{Value::none(), Value::none(), Value::none()}}));
  std::vector<Value> out;
  bool filled = false;
  for (const Value &p : parts) {
    if (!isEllipsis(p)) {
      out.push_back(p);
      continue;
    }
    if (filled)
      return fail(c, diag::twoEllipses, loc), std::nullopt;
    out.insert(out.end(), rank - used, full);
    filled = true;
  }
  if (!filled)
    out.insert(out.end(), rank - used, full);
  return out;
}

} // namespace

std::optional<std::vector<size_t>> slicePositions(const SliceValue &s, Int n) {
  auto part = [&](size_t i) -> std::optional<Int> {
    const Value &v = s.parts[i];
    return v.isInt() || v.isBool() ? std::optional<Int>(v.asInt()) : std::nullopt;
  };
  for (size_t i = 0; i < 3; ++i)
    if (!s.parts[i].isNone() && !part(i))
      return std::nullopt;
  Int step = part(2).value_or(1);
  if (step == 0)
    return std::nullopt;
  auto clamp = [&](std::optional<Int> v, Int otherwise) {
    if (!v)
      return otherwise;
    Int x = *v < 0 ? *v + n : *v;
    Int low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    return x < low ? low : x > high ? high : x;
  };
  Int first = clamp(part(0), step > 0 ? 0 : n - 1), last = clamp(part(1), step > 0 ? n : -1);
  std::vector<size_t> out;
  for (Int i = first; step > 0 ? i < last : i > last; i += step)
    out.push_back(static_cast<size_t>(i));
  return out;
}

Value subscript(Context &c, const Value &x, const Value &index, Loc loc) {
  if (x.isError() || index.isError())
    return Value::error();
  LocScope scope(c, loc);
  std::vector<Value> parts = index.isTuple() ? index.items() : std::vector<Value>{index};
  ir::Value *v = x.asTensor().value;
  unsigned axis = 0, rank = v->type.shape.rank();
  auto other = std::find_if(parts.begin(), parts.end(), [](const Value &p) { return !p.isNone() && !isFullSlice(p); });
  if (other != parts.end() && rank == 0 && x.asTensor().dtype.isPtr) {
    c.diag()
        .report(diag::tooManyIndices, loc, rank)
        .note(loc, "it is a pointer: elements are read by tl.load(p + i) and written by tl.store(p + i, value)");
    return Value::error();
  }
  if (other != parts.end() && c.target().strict) {
    c.diag()
        .report(diag::badIndex, loc, repr(*other))
        .note(loc, "elements are chosen where they are loaded (pointers and a mask), or by tl.gather");
    return Value::error();
  }
  if (other != parts.end()) {
    std::optional<std::vector<Value>> all = everyAxis(c, parts, rank, loc);
    Cutter cutter(c, x.asTensor(), loc);
    if (!all || !cutter.cut(*all))
      return Value::error();
    c.extension(diag::cutsBlock, loc);
    return tensor(cutter.result());
  }
  // A `:` may stand for an axis that is not there, as in Triton 3.6 and 3.7: `p[None, :]` is one more axis of a block
  // and of a scalar, and `scale[:, None]` a block of one element, as kernels for block scales write it. Triton 3.9
  // refuses that, and so does `strict`.
  bool exact = c.target().strict && c.target().level >= Level::v39;
  if (exact && std::count_if(parts.begin(), parts.end(), takesAxis) > static_cast<std::ptrdiff_t>(rank))
    return fail(c, diag::tooManyIndices, loc, rank);
  for (const Value &p : parts) {
    if (p.isNone()) {
      if (v->type.shape.rank() == ir::Shape::maxRank)
        return fail(c, diag::rankTooHigh, loc, ir::Shape::maxRank, ir::Shape::maxRank + 1);
      if (axis > v->type.shape.rank() && rank != 0)
        return fail(c, diag::tooManyIndices, loc, rank);
      v = insertAxis(c, v, std::min(axis, v->type.shape.rank()));
    }
    ++axis;
  }
  return tensor(x.asTensor().dtype, v);
}

} // namespace tegula::lang
