// Relabelling of dimensions, and questions about a layout (ranks, free bits, equality).
#include "layout/LinearLayout.h"
#include <algorithm>

namespace tegula::layout {

using std::span;

static DimList reordered(const DimList &dims, span<const Dim> order) {
  assert(order.size() == dims.size());
  DimList r;
  for (Dim d : order) {
    assert(dims.has(d));
    r.push({d, static_cast<uint8_t>(dims.bits(d))});
  }
  return r;
}

LinearLayout LinearLayout::transposeIns(span<const Dim> order) const {
  LinearLayout r;
  r.outs_ = outs_;
  r.ins_ = reordered(ins_, order);
  for (Dim d : order)
    for (uint64_t b : bases(d))
      r.bases_[r.count_++] = b;
  return r;
}

LinearLayout LinearLayout::transposeOuts(span<const Dim> order) const {
  LinearLayout r = *this;
  r.outs_ = reordered(outs_, order);
  for (unsigned i = 0; i < count_; ++i)
    r.bases_[i] = outs_.regroup(bases_[i], r.outs_);
  return r;
}

LinearLayout LinearLayout::reshapeIns(const DimList &dims) const {
  assert(dims.totalBits() == count_);
  LinearLayout r = *this;
  r.ins_ = dims;
  return r;
}

LinearLayout LinearLayout::reshapeOuts(const DimList &dims) const {
  assert(dims.totalBits() == totalOutBits());
  LinearLayout r = *this;
  r.outs_ = dims;
  return r;
}

static DimList renamed(const DimList &dims, Dim from, Dim to) {
  assert(dims.has(from) && (from == to || !dims.has(to)));
  DimList r = dims;
  r[static_cast<unsigned>(dims.index(from))].dim = to;
  return r;
}

LinearLayout LinearLayout::renameIn(Dim from, Dim to) const {
  LinearLayout r = *this;
  r.ins_ = renamed(ins_, from, to);
  return r;
}
LinearLayout LinearLayout::renameOut(Dim from, Dim to) const {
  LinearLayout r = *this;
  r.outs_ = renamed(outs_, from, to);
  return r;
}

LinearLayout LinearLayout::growOut(Dim d, unsigned bits) const {
  LinearLayout r = *this;
  if (!r.outs_.has(d))
    r.outs_.push({d, 0});
  DimBits &entry = r.outs_[static_cast<unsigned>(r.outs_.index(d))];
  entry.bits = static_cast<uint8_t>(std::max<unsigned>(entry.bits, bits));
  for (unsigned i = 0; i < count_; ++i)
    r.bases_[i] = outs_.regroup(bases_[i], r.outs_);
  return r;
}

LinearLayout LinearLayout::growIn(Dim d, unsigned bits) const {
  LinearLayout r;
  r.outs_ = outs_;
  r.ins_ = ins_;
  if (!r.ins_.has(d))
    r.ins_.push({d, 0});
  DimBits &entry = r.ins_[static_cast<unsigned>(r.ins_.index(d))];
  entry.bits = static_cast<uint8_t>(std::max<unsigned>(entry.bits, bits));
  assert(r.ins_.totalBits() <= kMaxInBits);
  for (DimBits e : r.ins_)
    for (unsigned i = 0; i < e.bits; ++i)
      r.bases_[r.count_++] = i < inBits(e.dim) ? basis(e.dim, i) : 0;
  return r;
}

bool LinearLayout::isProjectedPermutation() const {
  uint64_t seen = 0;
  for (uint64_t b : bases()) {
    if ((b & (b - 1)) != 0 || (b & seen) != 0)
      return false;
    seen |= b;
  }
  return true;
}

bool LinearLayout::isPermutation() const {
  auto all = bases();
  return count_ == totalOutBits() && isProjectedPermutation() && std::find(all.begin(), all.end(), 0u) == all.end();
}

uint64_t LinearLayout::freeMask() const {
  Subspace image;
  uint64_t mask = 0;
  for (unsigned i = 0; i < count_; ++i)
    if (!image.insert(bases_[i], uint64_t{1} << i))
      mask |= uint64_t{1} << i;
  return mask;
}

std::vector<uint64_t> LinearLayout::kernel() const {
  Subspace image;
  std::vector<uint64_t> result;
  for (unsigned i = 0; i < count_; ++i)
    if (!image.insert(bases_[i], uint64_t{1} << i))
      result.push_back(image.dependency());
  return result;
}

LinearLayout::AxisBits LinearLayout::axisBits(Dim d, Dim out) const {
  AxisBits bits;
  uint64_t along = outs_.mask(out);
  uint32_t copies = freeMask(d);
  for (unsigned i = 0; i < inBits(d); ++i) {
    uint64_t b = basis(d, i);
    if ((b & along) != 0 && !(copies >> i & 1))
      ((b & ~along) == 0 ? bits.pure : bits.mixed) |= 1u << i;
  }
  return bits;
}

int64_t LinearLayout::contiguous(Dim d) const {
  auto own = bases(d);
  unsigned n = 0;
  while (n < own.size() && own[n] == uint64_t{1} << n)
    ++n;
  unsigned shift = ins_.has(d) ? ins_.shift(d) : 0;
  for (unsigned i = 0; i < count_; ++i)
    if (i < shift || i >= shift + n)
      while (n > 0 && (bases_[i] & ((uint64_t{1} << n) - 1)) != 0)
        --n;
  return int64_t{1} << n;
}

bool operator==(const LinearLayout &a, const LinearLayout &b) {
  auto x = a.bases(), y = b.bases();
  return a.ins_ == b.ins_ && a.outs_ == b.outs_ && std::equal(x.begin(), x.end(), y.begin(), y.end());
}

static std::vector<Dim> nonTrivial(const DimList &dims) {
  std::vector<Dim> names;
  for (DimBits d : dims)
    if (d.bits > 0)
      names.push_back(d.dim);
  return names;
}

bool LinearLayout::sameMap(const LinearLayout &b) const {
  std::vector<Dim> in = nonTrivial(ins_), out = nonTrivial(outs_);
  return nonTrivial(b.ins_).size() == in.size() && nonTrivial(b.outs_).size() == out.size() &&
         sublayout(in, out) == b.sublayout(in, out);
}

uint64_t LinearLayout::hash() const {
  // FNV-1a over the dimensions and bases, 64 bits at a time, with a final mix.
  uint64_t h = 0xcbf29ce484222325u;
  auto mix = [&](uint64_t v) { h = (h ^ v) * 0x100000001b3u, h ^= h >> 29; };
  for (const DimList *list : {&ins_, &outs_}) {
    mix(list->size());
    for (DimBits d : *list)
      mix(static_cast<uint64_t>(d.dim) << 8 | d.bits);
  }
  for (uint64_t b : bases())
    mix(b);
  return h ^ h >> 32;
}

} // namespace tegula::layout
