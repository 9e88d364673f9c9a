// Shared by the parts of the conversion planner.
#pragma once
#include "layout/Conversion.h"

namespace tegula::layout::detail {

/// The bases of a layout by hardware dimension. Register bits that only select copies are left out: bit i of a compact
/// register number is bit registerBits[i] of the real one.
struct Places {
  std::vector<uint64_t> reg, lane, warp, block;
  std::vector<unsigned> registerBits;
  uint16_t realRegister(uint64_t compact) const;
};

/// `order` of outputs as in src, five lane bits.
Places placesOf(const LinearLayout &l);

/// Plans a conversion by shuffles; scope must be Thread or Warp.
ConversionPlan planShuffles(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits);
/// Plans a conversion through shared memory.
ConversionPlan planShared(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits, ExchangeScope scope,
                          const ConversionOptions &options);

/// Plans one side, the stores to or the loads from a given memory layout (outputs in the order of `registers`).
SharedSide planAccess(const LinearLayout &registers, const LinearLayout &memory, unsigned elemBits, bool store,
                      const ConversionOptions &options);

/// A spanning set of the intersection of two subspaces.
std::vector<uint64_t> intersection(std::span<const uint64_t> a, std::span<const uint64_t> b);

} // namespace tegula::layout::detail
