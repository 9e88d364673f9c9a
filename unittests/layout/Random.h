// Random layouts for property tests: deterministic, so a failing seed can be repeated. A fuzzer's input takes the
// seed's place.
#pragma once
#include "layout/LinearLayout.h"
#include <random>
#include <span>

namespace tegula::layout::test {

class Random {
public:
  explicit Random(uint64_t seed) : gen_(seed) {}
  /// Choices follow these bytes, which must outlive this, while they last.
  explicit Random(std::span<const uint8_t> choices) : gen_(choices.size()), choices_(choices) {}
  uint64_t below(uint64_t n) { return next() % n; }
  uint64_t bits(unsigned n) { return next() & ((uint64_t{1} << n) - 1); }
  bool chance(unsigned percent) { return below(100) < percent; }

  /// Sizes for these dimensions, each of 0 ... maxBits bits.
  DimList dims(std::initializer_list<Dim> names, unsigned maxBits) {
    DimList list;
    for (Dim d : names)
      list.push({d, static_cast<uint8_t>(below(maxBits + 1))});
    return list;
  }
  /// Any linear map.
  LinearLayout any(const DimList &ins, const DimList &outs) {
    std::vector<uint64_t> bases(ins.totalBits());
    for (uint64_t &b : bases)
      b = chance(15) ? 0 : bits(outs.totalBits());
    return LinearLayout(ins, outs, bases);
  }
  LinearLayout any() {
    return any(dims({Dim::Register, Dim::Lane, Dim::Warp}, 4), dims({Dim::Dim1, Dim::Dim0}, 5));
  }
  /// An invertible matrix of n columns, as a product of elementary steps.
  std::vector<uint64_t> invertible(unsigned n) {
    std::vector<uint64_t> cols(n);
    for (unsigned i = 0; i < n; ++i)
      cols[i] = uint64_t{1} << i;
    for (unsigned k = 0; n > 1 && k < 4 * n; ++k) {
      unsigned a = static_cast<unsigned>(below(n)), b = static_cast<unsigned>(below(n));
      if (chance(50))
        std::swap(cols[a], cols[b]);
      else if (a != b)
        cols[a] ^= cols[b];
    }
    return cols;
  }
  /// A random order of n unit vectors.
  std::vector<uint64_t> shuffled(unsigned n) {
    std::vector<uint64_t> cols(n);
    for (unsigned i = 0; i < n; ++i)
      cols[i] = uint64_t{1} << i;
    for (unsigned i = n; i > 1; --i)
      std::swap(cols[i - 1], cols[below(i)]);
    return cols;
  }
  /// A layout of a tensor of 2^outBits elements over register, lane (laneBits), warp (warpBits): surjective, as every
  /// layout of a tensor is; with `mixed`, bases of several bits; otherwise a permutation; copies where there is room.
  LinearLayout distributed(const DimList &outs, unsigned laneBits, unsigned warpBits, bool mixed) {
    unsigned n = outs.totalBits(), hw = laneBits + warpBits;
    unsigned copies = static_cast<unsigned>(below(3)), fromHw = std::min(hw, n);
    copies = std::max(copies, hw - fromHw);
    unsigned total = std::max(n + copies, hw);
    std::vector<uint64_t> bases = mixed ? invertible(n) : shuffled(n);
    while (bases.size() < total)
      bases.push_back(mixed && chance(20) && n ? bits(n) : 0);
    for (size_t i = bases.size(); i > 1; --i)
      std::swap(bases[i - 1], bases[below(i)]);
    DimList ins{{Dim::Register, static_cast<uint8_t>(total - hw)},
                {Dim::Lane, static_cast<uint8_t>(laneBits)},
                {Dim::Warp, static_cast<uint8_t>(warpBits)}};
    return LinearLayout(ins, outs, bases);
  }

private:
  uint64_t next() {
    if (choices_.empty())
      return gen_();
    // Two bytes: enough for every choice, and a change of one byte changes one choice.
    uint64_t v = choices_[0];
    choices_ = choices_.subspan(1);
    if (!choices_.empty()) {
      v |= static_cast<uint64_t>(choices_[0]) << 8;
      choices_ = choices_.subspan(1);
    }
    return v;
  }

  std::mt19937_64 gen_;
  std::span<const uint8_t> choices_;
};

} // namespace tegula::layout::test
