// Bank conflicts by simulation and by rank.
#include "layout/Banks.h"
#include <algorithm>

namespace tegula::layout {

/// Wavefronts of the lanes of one phase: the largest number of distinct words in one bank.
static unsigned phase(std::span<const uint32_t> addresses, unsigned accessBytes, uint32_t active) {
  std::vector<uint32_t> words[32];
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!(active >> i & 1))
      continue;
    for (unsigned b = 0; b < std::max(accessBytes, 4u); b += 4)
      words[(addresses[i] + b) / 4 % 32].push_back((addresses[i] + b) / 4);
  }
  size_t worst = 1;
  for (std::vector<uint32_t> &w : words) {
    std::sort(w.begin(), w.end());
    worst = std::max<size_t>(worst, static_cast<size_t>(std::unique(w.begin(), w.end()) - w.begin()));
  }
  return static_cast<unsigned>(worst);
}

unsigned simulateWavefronts(std::span<const uint32_t> byteAddresses, unsigned accessBytes, uint32_t activeMask) {
  unsigned phases = accessBytes > 4 ? accessBytes / 4 : 1, lanes = 32 / phases, total = 0;
  for (unsigned p = 0; p < phases; ++p)
    total += phase(byteAddresses.subspan(p * lanes, lanes), accessBytes, activeMask >> (p * lanes));
  return total;
}

unsigned simulateMatrixWavefronts(std::span<const uint32_t> rowAddresses, unsigned matrices) {
  unsigned total = 0;
  for (unsigned m = 0; m < matrices; ++m)
    total += phase(rowAddresses.subspan(8 * m, 8), 16, ~0u);
  return total;
}

unsigned bankConflicts(const LinearLayout &access, unsigned elemBits, unsigned vec) {
  unsigned bytes = elemBits / 8, accessBytes = bytes * vec, phases = accessBytes > 4 ? accessBytes / 4 : 1, worst = 0;
  assert(accessBytes <= 16 && access.inBits(Dim::Lane) <= 5);
  for (uint64_t w = 0; w < static_cast<uint64_t>(access.inSize(Dim::Warp)); ++w)
    for (uint64_t r = 0; r < static_cast<uint64_t>(access.inSize(Dim::Register)); r += vec) {
      std::array<uint32_t, 32> at{};
      for (uint64_t lane = 0; lane < 32; ++lane) {
        uint64_t in = access.ins().flat(Dim::Lane, lane & (static_cast<uint64_t>(access.inSize(Dim::Lane)) - 1)) |
                      access.ins().flat(Dim::Register, r) | access.ins().flat(Dim::Warp, w);
        at[lane] = static_cast<uint32_t>(access.apply(in)) * bytes;
        for ([[maybe_unused]] uint64_t j = 1; j < vec; ++j)
          assert(access.apply(in | access.ins().flat(Dim::Register, j)) == access.apply(in) + j &&
                 "not a vector access");
      }
      worst = std::max(worst, simulateWavefronts(at, accessBytes));
    }
  return worst - phases;
}

/// Distinct words, and distinct banks, that the span of these addresses reaches: the quotient is the conflict degree,
/// because a linear map spreads its image evenly.
static unsigned degree(std::span<const uint64_t> images, unsigned lowBit) {
  Subspace words, banks;
  for (uint64_t a : images) {
    words.insert(a >> lowBit, 0);
    banks.insert((a & 127) >> lowBit, 0);
  }
  return 1u << (words.rank() - banks.rank());
}

unsigned linearWavefronts(std::span<const uint64_t> laneImages, unsigned accessBytes) {
  unsigned low = std::max(2u, log2Exact(accessBytes)), phaseLanes = 7 - low;
  return (1u << (low - 2)) * degree(laneImages.first(std::min<size_t>(phaseLanes, laneImages.size())), low);
}

unsigned linearMatrixWavefronts(std::span<const uint64_t> rowImages, unsigned matrices) {
  return matrices * degree(rowImages, 4);
}

} // namespace tegula::layout
