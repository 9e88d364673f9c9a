// Tile operations of the interpreter: everything that only moves elements or sums them up.
#include "ir/Interp.h"
#include "ir/Scalar.h"
#include <cmath>

namespace tegula::ir {

std::vector<int64_t> coordinates(const Shape &s, int64_t linear) {
  std::vector<int64_t> c(s.rank());
  for (unsigned d = s.rank(); d-- > 0;) {
    c[d] = linear % s[d];
    linear /= s[d];
  }
  return c;
}

int64_t linearIndex(const Shape &s, std::span<const int64_t> c) {
  int64_t i = 0;
  for (unsigned d = 0; d < s.rank(); ++d)
    i = i * s[d] + c[d];
  return i;
}

namespace {

/// Fills the result from the source position of each of its coordinates.
template <typename From> Tile fill(const Shape &s, From &&from) {
  Tile t(static_cast<size_t>(s.numel()));
  for (size_t i = 0; i < t.size(); ++i)
    t[i] = from(coordinates(s, static_cast<int64_t>(i)));
  return t;
}

uint64_t at(const Tile &t, const Shape &s, std::span<const int64_t> c) {
  return t[static_cast<size_t>(linearIndex(s, c))];
}

Tile broadcast(const Op &op, const Tile &x) {
  const Shape &from = op.operands[0]->type.shape;
  return fill(op.result()->type.shape, [&](std::vector<int64_t> c) {
    for (unsigned d = 0; d < from.rank(); ++d)
      if (from[d] == 1)
        c[d] = 0;
    return at(x, from, c);
  });
}

Tile permute(const Op &op, const Tile &x) {
  std::span<const int64_t> perm = op.perm();
  return fill(op.result()->type.shape, [&](const std::vector<int64_t> &c) {
    std::vector<int64_t> source(c.size());
    for (size_t i = 0; i < c.size(); ++i)
      source[static_cast<size_t>(perm[i])] = c[i];
    return at(x, op.operands[0]->type.shape, source);
  });
}

Tile cat(const Op &op, const Tile &a, const Tile &b) {
  const Shape &sa = op.operands[0]->type.shape, &sb = op.operands[1]->type.shape;
  size_t axis = static_cast<size_t>(op.axis());
  int64_t extent = sa[static_cast<unsigned>(axis)];
  return fill(op.result()->type.shape, [&](std::vector<int64_t> c) {
    if (c[axis] < extent)
      return at(a, sa, c);
    c[axis] -= extent;
    return at(b, sb, c);
  });
}

Tile gather(const Op &op, const Tile &x, const Tile &index) {
  const Type &from = op.operands[0]->type, &indexType = op.operands[1]->type;
  size_t axis = static_cast<size_t>(op.axis());
  return fill(op.result()->type.shape, [&](std::vector<int64_t> c) -> uint64_t {
    // Modulo the extent, as every target treats an index out of range.
    int64_t n = from.shape[static_cast<unsigned>(axis)],
            i = signExtend(indexType.elem, at(index, indexType.shape, c)) % n;
    c[axis] = i < 0 ? i + n : i;
    return at(x, from.shape, c);
  });
}

Tile exchange(const Op &op, const Tile &x) {
  const Shape &s = op.result()->type.shape;
  return fill(s, [&](std::vector<int64_t> c) {
    c[static_cast<size_t>(op.axis())] ^= op.distance();
    return at(x, s, c);
  });
}

Tile histogram(const Op &op, const Tile &values, const Tile *mask) {
  Tile bins(static_cast<size_t>(op.result()->type.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    if ((!mask || (*mask)[i]) && values[i] < bins.size())
      bins[values[i]] = (bins[values[i]] + 1) & 0xFFFFFFFF;
  return bins;
}

/// A float32 as a tf32 dot reads it: thirteen bits of the significand are truncated. A NaN with a payload only in these
/// bits stays a NaN.
uint64_t cutToTf32(uint64_t bits) { return std::isnan(decodeFloat(Elem::F32, bits)) ? bits : bits & 0xFFFFE000; }

/// The values of the elements of an operand.
template <typename Number> std::vector<Number> decoded(const Type &t, const Tile &x, bool tf32) {
  std::vector<Number> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if constexpr (std::is_same_v<Number, double>)
      out[i] = decodeFloat(t.elem, tf32 && t.elem == Elem::F32 ? cutToTf32(x[i]) : x[i]);
    else
      out[i] = static_cast<uint64_t>(signExtend(t.elem, x[i]));
  }
  return out;
}

/// As the CPU's kernels do it: a chain of fused multiply-adds along k, and the accumulator last.
template <typename Sum>
uint64_t floatDot(Elem e, const double *row, const double *column, uint64_t acc, int64_t k, int64_t n) {
  Sum sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum = std::fma(static_cast<Sum>(row[i]), static_cast<Sum>(column[i * n]), sum);
  return encodeFloat(e, static_cast<long double>(sum + static_cast<Sum>(decodeFloat(e, acc))));
}

uint64_t intDot(Elem e, const uint64_t *row, const uint64_t *column, uint64_t acc, int64_t k, int64_t n) {
  for (int64_t i = 0; i < k; ++i)
    acc += row[i] * column[i * n];
  return acc & elemMask(e);
}

template <typename Number>
Tile dotOf(const Op &op, const Tile &ta, const Tile &tb, const Tile &acc,
           uint64_t (*sum)(Elem, const Number *, const Number *, uint64_t, int64_t, int64_t)) {
  const Shape &sa = op.operands[0]->type.shape, &sc = op.result()->type.shape;
  // The other precisions split float32 operands for units that are less precise; their sums equal those of "ieee"
  // except for the last bits.
  const bool tf32 = op.precision() == "tf32";
  std::vector<Number> a = decoded<Number>(op.operands[0]->type, ta, tf32),
                      b = decoded<Number>(op.operands[1]->type, tb, tf32);
  unsigned r = sa.rank();
  int64_t m = sc[r - 2], n = sc[r - 1], k = sa[r - 1], batch = r == 3 ? sc[0] : 1;
  Tile c(acc.size());
  for (int64_t z = 0; z < batch; ++z)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        size_t at = static_cast<size_t>((z * m + i) * n + j);
        c[at] = sum(op.result()->type.elem, a.data() + (z * m + i) * k, b.data() + z * k * n + j, acc[at], k, n);
      }
  return c;
}

Tile dot(const Op &op, const Tile &a, const Tile &b, const Tile &acc) {
  if (op.operands[0]->type.isIntLike())
    return dotOf<uint64_t>(op, a, b, acc, intDot);
  return dotOf<double>(op, a, b, acc, op.result()->type.elem == Elem::F64 ? floatDot<double> : floatDot<float>);
}

Tile range(const Op &op) {
  Tile t(static_cast<size_t>(op.result()->type.numel()));
  for (size_t i = 0; i < t.size(); ++i)
    t[i] = static_cast<uint64_t>(op.start() + static_cast<int64_t>(i)) & 0xFFFFFFFF;
  return t;
}

std::vector<Tile> split(const Tile &x) {
  std::vector<Tile> halves(2);
  for (size_t i = 0; i < x.size(); ++i)
    halves[i % 2].push_back(x[i]);
  return halves;
}

Tile join(const Tile &a, const Tile &b) {
  Tile t;
  for (size_t i = 0; i < a.size(); ++i)
    t.push_back(a[i]), t.push_back(b[i]);
  return t;
}

} // namespace

std::optional<std::vector<Tile>> evalTileOp(const Op &op, std::span<const Tile *const> args) {
  auto one = [](Tile t) {
    std::vector<Tile> list;
    list.push_back(std::move(t));
    return list;
  };
  const size_t numel = op.results.empty() ? 0 : static_cast<size_t>(op.result()->type.numel());
  switch (op.kind) {
  case OpKind::Const: return one(Tile(numel, constantBits(op.result()->type.elem, *op.value())));
  case OpKind::Poison: return one(Tile(numel, 0));
  case OpKind::Range: return one(range(op));
  case OpKind::Splat: return one(Tile(numel, (*args[0])[0]));
  // Row-major order is kept; `reorder` allows any order, this one too.
  case OpKind::Unsplat:
  case OpKind::Convert:
  case OpKind::ToShared:
  case OpKind::ExpandDims:
  case OpKind::Reshape: return one(*args[0]);
  case OpKind::Broadcast: return one(broadcast(op, *args[0]));
  case OpKind::Permute: return one(permute(op, *args[0]));
  case OpKind::Join: return one(join(*args[0], *args[1]));
  case OpKind::Split: return split(*args[0]);
  case OpKind::Cat: return one(cat(op, *args[0], *args[1]));
  case OpKind::Gather: return one(gather(op, *args[0], *args[1]));
  case OpKind::Exchange: return one(exchange(op, *args[0]));
  case OpKind::Histogram: return one(histogram(op, *args[0], args.size() > 1 ? args[1] : nullptr));
  case OpKind::Dot: return one(dot(op, *args[0], *args[1], *args[2]));
  default: return std::nullopt;
  }
}

} // namespace tegula::ir
