// Shared by the parts of the conversion planner.
#pragma once
#include "layout/Conversion.h"

namespace tegula::layout::detail {

/// The bases of a layout by hardware dimension. Register bits that hold mere copies of other registers are left out:
/// bit i of a compact register number is bit registerBits[i] of the real one.
struct Places {
  std::vector<uint64_t> reg, lane, warp, block;
  std::vector<unsigned> registerBits;
  uint16_t realRegister(uint64_t compact) const;
};

/// `order` of outputs as in src, five lane bits.
Places placesOf(const LinearLayout &l);

/// A solution by shuffles; scope must be Thread or Warp.
ConversionPlan planShuffles(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits);
/// A solution through shared memory.
ConversionPlan planShared(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits, ExchangeScope scope,
                          const ConversionOptions &options);

/// One side, into or out of a given memory layout (outputs in the order of `registers`).
SharedSide planAccess(const LinearLayout &registers, const LinearLayout &memory, unsigned elemBits, bool store,
                      const ConversionOptions &options);

/// Vectors that span the intersection of two subspaces.
std::vector<uint64_t> intersection(std::span<const uint64_t> a, std::span<const uint64_t> b);

} // namespace tegula::layout::detail
