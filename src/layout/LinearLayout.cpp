// Composition, inversion and relabelling of linear layouts. See LinearLayout.h for the mathematics.
#include "layout/LinearLayout.h"
#include <algorithm>

namespace tegula::layout {

using std::span;

DimList::DimList(span<const DimBits> dims) {
  for (DimBits d : dims)
    push(d);
}

DimList tensorDims(const Extents &shape) {
  DimList outs;
  for (unsigned i = shape.rank(); i-- > 0;)
    outs.push(dimOfSize(tensorDim(i), shape[i]));
  return outs;
}

Extents shapeOf(const LinearLayout &layout) {
  Extents shape;
  for (unsigned i = 0; i < kMaxRank && layout.hasOut(tensorDim(i)); ++i)
    shape.push(layout.outSize(tensorDim(i)));
  return shape;
}

LinearLayout::LinearLayout(const DimList &ins, const DimList &outs, span<const uint64_t> bases)
    : ins_(ins), outs_(outs) {
  assert(ins.totalBits() == bases.size() && bases.size() <= kMaxInBits && outs.totalBits() < 64);
  count_ = static_cast<uint8_t>(bases.size());
  std::copy(bases.begin(), bases.end(), bases_.begin());
  for ([[maybe_unused]] uint64_t b : bases)
    assert(b >> outs.totalBits() == 0 && "basis outside the output");
}

LinearLayout LinearLayout::tensor(const Extents &shape, std::initializer_list<BasisRow> rows) {
  DimList ins, outs = tensorDims(shape);
  std::vector<uint64_t> bases;
  for (const BasisRow &row : rows) {
    ins.push({row.in, static_cast<uint8_t>(row.images.size())});
    for (const std::vector<int64_t> &image : row.images) {
      assert(image.size() == shape.size());
      uint64_t flat = 0;
      for (unsigned i = 0; i < image.size(); ++i)
        flat |= outs.flat(tensorDim(i), static_cast<uint64_t>(image[i]));
      bases.push_back(flat);
    }
  }
  return LinearLayout(ins, outs, bases);
}

LinearLayout LinearLayout::sublayout(std::initializer_list<Dim> inDims, std::initializer_list<Dim> outDims) const {
  return sublayout(span(inDims.begin(), inDims.size()), span(outDims.begin(), outDims.size()));
}
LinearLayout LinearLayout::transposeIns(std::initializer_list<Dim> order) const {
  return transposeIns(span(order.begin(), order.size()));
}
LinearLayout LinearLayout::transposeOuts(std::initializer_list<Dim> order) const {
  return transposeOuts(span(order.begin(), order.size()));
}

LinearLayout LinearLayout::identity(int64_t size, Dim in, Dim out) { return strided(size, 1, in, out); }

LinearLayout LinearLayout::zeros(int64_t size, Dim in, Dim out, int64_t outSize) {
  std::array<uint64_t, kMaxInBits> zero{};
  return LinearLayout({dimOfSize(in, size)}, {dimOfSize(out, outSize)}, span(zero).first(log2Exact(size)));
}

LinearLayout LinearLayout::strided(int64_t size, int64_t stride, Dim in, Dim out) {
  std::array<uint64_t, kMaxInBits> bases;
  for (unsigned i = 0; i < log2Exact(size); ++i)
    bases[i] = static_cast<uint64_t>(stride) << i;
  return LinearLayout({dimOfSize(in, size)}, {dimOfSize(out, size * stride)}, span(bases).first(log2Exact(size)));
}

LinearLayout LinearLayout::identity(const DimList &dims) {
  std::array<uint64_t, kMaxInBits> bases;
  for (unsigned i = 0; i < dims.totalBits(); ++i)
    bases[i] = uint64_t{1} << i;
  return LinearLayout(dims, dims, span(bases).first(dims.totalBits()));
}

span<const uint64_t> LinearLayout::bases(Dim d) const {
  if (!ins_.has(d))
    return {};
  return bases().subspan(ins_.shift(d), ins_.bits(d));
}

uint64_t LinearLayout::flatIn(std::initializer_list<std::pair<Dim, uint64_t>> in) const {
  uint64_t flat = 0;
  for (auto [d, v] : in)
    flat |= ins_.flat(d, v);
  return flat;
}

std::vector<std::pair<Dim, uint32_t>> LinearLayout::apply(std::initializer_list<std::pair<Dim, uint64_t>> in) const {
  uint64_t out = apply(flatIn(in));
  std::vector<std::pair<Dim, uint32_t>> result;
  for (DimBits d : outs_)
    result.emplace_back(d.dim, outs_.part(out, d.dim));
  return result;
}

LinearLayout LinearLayout::compose(const LinearLayout &outer) const {
  LinearLayout r = *this;
  r.outs_ = outer.outs_;
  for (unsigned i = 0; i < count_; ++i)
    r.bases_[i] = outer.apply(outs_.regroup(bases_[i], outer.ins_));
  return r;
}

LinearLayout LinearLayout::invert() const {
  assert(isInvertible());
  return pseudoInvert();
}

LinearLayout LinearLayout::pseudoInvert() const {
  Subspace image;
  for (unsigned i = 0; i < count_; ++i)
    image.insert(bases_[i], uint64_t{1} << i);
  // An output bit that is not reached still needs some image. reduce() splits it into a member and a rest; taking the
  // member's preimage makes the result linear, and right on the image because there the rests cancel.
  LinearLayout r;
  r.ins_ = outs_;
  r.outs_ = ins_;
  r.count_ = static_cast<uint8_t>(totalOutBits());
  assert(r.count_ <= kMaxInBits);
  for (unsigned i = 0; i < r.count_; ++i)
    r.bases_[i] = image.reduce(uint64_t{1} << i).combo;
  return r;
}

LinearLayout LinearLayout::invertAndCompose(const LinearLayout &other) const {
  Subspace image;
  for (unsigned i = 0; i < other.count_; ++i)
    image.insert(other.bases_[i], uint64_t{1} << i);
  LinearLayout r = *this;
  r.outs_ = other.ins_;
  unsigned flat = 0;
  for (DimBits d : ins_) {
    span<const uint64_t> same = other.bases(d.dim);
    for (unsigned i = 0; i < d.bits; ++i, ++flat) {
      uint64_t target = outs_.regroup(bases_[flat], other.outs_);
      if (i < same.size() && same[i] == target) {
        r.bases_[flat] = uint64_t{1} << (other.ins_.shift(d.dim) + i);
        continue;
      }
      Subspace::Reduced sol = image.reduce(target);
      assert(sol.rest == 0 && "an element of this is not in the other layout");
      r.bases_[flat] = sol.combo;
    }
  }
  return r;
}

/// The dimensions of a followed by the new ones of b, sizes multiplied.
static DimList joined(const DimList &a, const DimList &b) {
  DimList r = a;
  for (DimBits d : b) {
    if (int i = r.index(d.dim); i >= 0)
      r[static_cast<unsigned>(i)].bits = static_cast<uint8_t>(r[static_cast<unsigned>(i)].bits + d.bits);
    else
      r.push(d);
  }
  return r;
}

LinearLayout LinearLayout::operator*(const LinearLayout &hi) const {
  LinearLayout r;
  r.ins_ = joined(ins_, hi.ins_);
  r.outs_ = joined(outs_, hi.outs_);
  assert(r.ins_.totalBits() <= kMaxInBits && r.outs_.totalBits() < 64);
  auto raise = [&](uint64_t flat) {
    uint64_t v = 0;
    for (DimBits d : hi.outs_)
      v |= r.outs_.flat(d.dim, static_cast<uint64_t>(hi.outs_.part(flat, d.dim)) << outBits(d.dim));
    return v;
  };
  for (DimBits d : r.ins_) {
    for (uint64_t b : bases(d.dim))
      r.bases_[r.count_++] = outs_.regroup(b, r.outs_);
    for (uint64_t b : hi.bases(d.dim))
      r.bases_[r.count_++] = raise(b);
  }
  return r;
}

/// Splits `whole` into lo * hi where one factor is given; `givenIsLow` says which.
static std::optional<LinearLayout> divide(const LinearLayout &whole, const LinearLayout &given, bool givenIsLow) {
  DimList ins = whole.ins(), outs = whole.outs();
  auto shrink = [](DimList &dims, const DimList &by) {
    for (DimBits d : by) {
      int i = dims.index(d.dim);
      if (i < 0 ? d.bits > 0 : dims[static_cast<unsigned>(i)].bits < d.bits)
        return false;
      if (i >= 0)
        dims[static_cast<unsigned>(i)].bits = static_cast<uint8_t>(dims[static_cast<unsigned>(i)].bits - d.bits);
    }
    return true;
  };
  if (!shrink(ins, given.ins()) || !shrink(outs, given.outs()))
    return std::nullopt;
  // A flat output of the whole, cut into the part of the given factor and the part of the quotient.
  auto split = [&](uint64_t flat, bool wantGiven) {
    uint64_t v = 0;
    for (DimBits d : whole.outs()) {
      uint64_t x = whole.outs().part(flat, d.dim);
      unsigned lowBits = givenIsLow ? given.outBits(d.dim) : outs.bits(d.dim);
      uint64_t part = wantGiven == givenIsLow ? x & ((uint64_t{1} << lowBits) - 1) : x >> lowBits;
      const DimList &to = wantGiven ? given.outs() : outs;
      v |= to.flat(d.dim, part);
    }
    return v;
  };
  std::vector<uint64_t> bases;
  for (DimBits d : whole.ins()) {
    span<const uint64_t> all = whole.bases(d.dim), part = given.bases(d.dim);
    unsigned first = givenIsLow ? 0 : d.bits - static_cast<unsigned>(part.size());
    for (unsigned i = 0; i < d.bits; ++i) {
      bool inGiven = i >= first && i < first + part.size();
      if (split(all[i], true) != (inGiven ? part[i - first] : 0) || (inGiven && split(all[i], false) != 0))
        return std::nullopt;
      if (!inGiven)
        bases.push_back(split(all[i], false));
    }
  }
  return LinearLayout(ins, outs, bases);
}

std::optional<LinearLayout> LinearLayout::divideLeft(const LinearLayout &lo) const { return divide(*this, lo, true); }
std::optional<LinearLayout> LinearLayout::divideRight(const LinearLayout &hi) const { return divide(*this, hi, false); }

LinearLayout LinearLayout::sublayout(span<const Dim> inDims, span<const Dim> outDims) const {
  LinearLayout r;
  for (Dim d : outDims)
    r.outs_.push({d, static_cast<uint8_t>(outBits(d))});
  for (Dim d : inDims) {
    r.ins_.push({d, static_cast<uint8_t>(inBits(d))});
    for (uint64_t b : bases(d)) {
      uint64_t v = 0;
      for (DimBits o : r.outs_)
        v |= r.outs_.flat(o.dim, outs_.part(b, o.dim));
      r.bases_[r.count_++] = v;
    }
  }
  return r;
}

bool LinearLayout::sublayoutIsZero(std::initializer_list<Dim> inDims, std::initializer_list<Dim> outDims) const {
  uint64_t mask = 0;
  for (Dim d : outDims)
    mask |= outs_.mask(d);
  return std::all_of(inDims.begin(), inDims.end(), [&](Dim d) {
    auto b = bases(d);
    return std::all_of(b.begin(), b.end(), [&](uint64_t v) { return (v & mask) == 0; });
  });
}

static std::vector<Dim> namesWithout(const DimList &dims, Dim gone) {
  std::vector<Dim> names;
  for (DimBits d : dims)
    if (d.dim != gone)
      names.push_back(d.dim);
  return names;
}

LinearLayout LinearLayout::removeIn(Dim d) const {
  return sublayout(namesWithout(ins_, d), namesWithout(outs_, static_cast<Dim>(0xff)));
}
LinearLayout LinearLayout::removeOut(Dim d) const {
  return sublayout(namesWithout(ins_, static_cast<Dim>(0xff)), namesWithout(outs_, d));
}

LinearLayout LinearLayout::selectIn(Dim d, uint64_t mask) const {
  LinearLayout r;
  r.outs_ = outs_;
  for (DimBits e : ins_) {
    unsigned kept = 0;
    for (unsigned i = 0; i < e.bits; ++i) {
      if (e.dim == d && !(mask >> i & 1))
        continue;
      r.bases_[r.count_++] = basis(e.dim, i);
      ++kept;
    }
    r.ins_.push({e.dim, static_cast<uint8_t>(kept)});
  }
  return r;
}

LinearLayout LinearLayout::removeZeroBases(Dim d) const {
  uint64_t mask = 0;
  for (unsigned i = 0; i < inBits(d); ++i)
    mask |= uint64_t{basis(d, i) != 0} << i;
  return selectIn(d, mask);
}

bool LinearLayout::isTrivialOver(std::initializer_list<Dim> dims) const {
  for (Dim d : dims) {
    if (inBits(d) != outBits(d))
      return false;
    uint64_t mask = outs_.mask(d);
    for (DimBits e : ins_)
      for (unsigned i = 0; i < e.bits; ++i)
        if (e.dim == d ? basis(d, i) != outs_.flat(d, uint64_t{1} << i) : (basis(e.dim, i) & mask) != 0)
          return false;
  }
  return true;
}

std::optional<LinearLayout> LinearLayout::quotient(std::initializer_list<Dim> dims) const {
  if (!isTrivialOver(dims))
    return std::nullopt;
  LinearLayout r = *this;
  for (Dim d : dims)
    r = r.removeIn(d).removeOut(d);
  return r;
}

} // namespace tegula::layout
