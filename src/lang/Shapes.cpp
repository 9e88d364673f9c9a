// Block shapes: checks and broadcasting (LANGUAGE 2.1, 2.5).
#include "lang/Emit.h"
#include "support/Bits.h"
#include <bit>
#include <algorithm>

namespace tegula::lang {

namespace {

constexpr int64_t maxNumel = 1 << 20;

/// As the targets see it: each extent counts as the next power of two.
int64_t paddedNumel(const ir::Shape &s) {
  int64_t n = 1;
  for (int64_t d : s)
    n *= static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(d)));
  return n;
}

/// Extent i of `s` seen as a shape of `rank` dimensions, 1 where it has none.
int64_t extent(const ir::Shape &s, unsigned rank, unsigned i) {
  unsigned pad = rank - s.rank();
  return i < pad ? 1 : s[i - pad];
}

} // namespace

std::string shapeText(const ir::Shape &s) {
  std::string t = "[";
  for (unsigned i = 0; i < s.rank(); ++i)
    t += (i ? ", " : "") + std::to_string(s[i]);
  return t + "]";
}

Value shapeValue(const ir::Shape &s) {
  std::vector<Value> items;
  for (int32_t d : s)
    items.push_back(Value::integer(d));
  return Value::tuple(std::move(items));
}

std::optional<ir::Shape> commonShape(Context &c, const ir::Shape &a, const ir::Shape &b, Loc loc, Loc aLoc, Loc bLoc) {
  unsigned rank = std::max(a.rank(), b.rank());
  ir::Shape out;
  for (unsigned i = 0; i < rank; ++i) {
    int64_t x = extent(a, rank, i), y = extent(b, rank, i);
    if (x != y && x != 1 && y != 1) {
      auto d = c.diag().report(diag::incompatibleShapes, loc, i, x, y);
      if (aLoc && bLoc)
        d.label(aLoc, "shape " + shapeText(a)).label(bLoc, "shape " + shapeText(b));
      return std::nullopt;
    }
    out.push(std::max(x, y));
  }
  int64_t numel = paddedNumel(out);
  if (numel > maxNumel) {
    fail(c, diag::tooManyElements, loc, numel, maxNumel);
    return std::nullopt;
  }
  return out;
}

ir::Value *insertAxis(Context &c, ir::Value *x, unsigned axis) {
  return x->type.isScalar() ? c.builder().splat(x, ir::Shape{1}) : c.builder().expandDims(x, axis);
}

Tensor spread(Context &c, const Tensor &x, const ir::Shape &shape) {
  ir::Builder &b = c.builder();
  if (x.shape() == shape)
    return x;
  if (x.isScalar())
    return {x.dtype, b.splat(x.value, shape)};
  ir::Value *v = x.value;
  while (v->type.shape.rank() < shape.rank())
    v = b.expandDims(v, 0);
  return {x.dtype, v->type.shape == shape ? v : b.broadcast(v, shape)};
}

Value broadcastTo(Context &c, const Value &x, const ir::Shape &shape, Loc loc) {
  LocScope scope(c, loc);
  Value t = toTensor(c, x, loc);
  if (t.isError())
    return t;
  std::optional<ir::Shape> common = commonShape(c, t.asTensor().shape(), shape, loc);
  if (!common)
    return Value::error();
  if (*common != shape)
    return fail(c, diag::wrongShape, loc, kindName(t), shapeText(t.asTensor().shape()), "shape " + shapeText(shape));
  return tensor(spread(c, t.asTensor(), shape));
}

bool broadcastPair(Context &c, Value &a, Value &b, Loc loc) {
  LocScope scope(c, loc);
  a = toTensor(c, a, loc);
  b = toTensor(c, b, loc);
  if (a.isError() || b.isError())
    return false;
  std::optional<ir::Shape> s = commonShape(c, a.asTensor().shape(), b.asTensor().shape(), loc);
  if (!s)
    return false;
  a = tensor(spread(c, a.asTensor(), *s));
  b = tensor(spread(c, b.asTensor(), *s));
  return true;
}

std::optional<std::vector<int64_t>> intList(Context &c, const Value &v, Loc loc, std::string_view what) {
  if (v.isError())
    return std::nullopt;
  const std::vector<Value> *given = sequenceItems(v);
  std::vector<Value> items = given ? *given : std::vector<Value>{v};
  // f((2, 3)) and f(2, 3) are the same for *shape parameters: unwrap a single nested tuple.
  if (items.size() == 1 && sequenceItems(items[0])) {
    std::vector<Value> inner = *sequenceItems(items[0]);
    items = std::move(inner);
  }
  std::vector<int64_t> out;
  for (size_t i = 0; i < items.size(); ++i) {
    const Value &item = items[i];
    if (item.isError())
      return std::nullopt;
    if (item.isTensor()) {
      fail(c, diag::runtimeInShape, loc, what, static_cast<uint64_t>(i), kindName(item));
      return std::nullopt;
    }
    bool small = item.isInt() && item.asInt() >= INT64_MIN && item.asInt() <= INT64_MAX;
    if (!small && !item.isBool()) {
      fail(c, diag::notIntList, loc, what, item.isInt() ? repr(item) : kindName(item));
      return std::nullopt;
    }
    out.push_back(static_cast<int64_t>(item.asInt()));
  }
  return out;
}

bool allowsExtent(Context &c, int64_t n, Loc loc) {
  bool isPower = isPowerOfTwo(n);
  if (isPower || n <= 0 || c.target().strict)
    return isPower;
  // The library makes blocks of the extents that it was given.
  bool inLibrary = loc.file && loc.file->name().starts_with("tegula/lib/");
  if (!inLibrary)
    c.extension(diag::oddExtent, loc, n, std::bit_ceil(static_cast<uint64_t>(n)));
  return true;
}

bool requirePowers(Context &c, const char *function, const ir::Shape &s, Loc loc) {
  for (int64_t d : s)
    if (!isPowerOfTwo(d)) {
      fail(c, diag::needsPowers, loc, function, shapeText(s));
      return false;
    }
  return true;
}

std::optional<ir::Shape> blockShape(Context &c, const Value &v, Loc loc) {
  std::optional<std::vector<int64_t>> dims = intList(c, v, loc, "a shape's elements");
  if (!dims)
    return std::nullopt;
  if (dims->size() > ir::Shape::maxRank) {
    fail(c, diag::rankTooHigh, loc, ir::Shape::maxRank, static_cast<uint64_t>(dims->size()));
    return std::nullopt;
  }
  int64_t numel = 1;
  for (size_t i = 0; i < dims->size(); ++i) {
    int64_t d = (*dims)[i];
    if (d <= maxNumel && !allowsExtent(c, d, loc)) {
      fail(c, diag::notPowerOfTwo, loc, static_cast<uint64_t>(i), d);
      return std::nullopt;
    }
    if (d > maxNumel || (numel *= static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(d)))) > maxNumel) {
      fail(c, diag::tooManyElements, loc, d > maxNumel ? d : numel, maxNumel);
      return std::nullopt;
    }
  }
  return ir::Shape(dims->begin(), dims->end());
}

} // namespace tegula::lang
