// Tiles in shared memory: which axis is contiguous.
#include "gpu/shared/Tiles.h"
#include "layout/Constructors.h"
#include <gtest/gtest.h>

namespace tegula::gpu {
namespace {

using layout::Extents;
using layout::Threads;

TEST(ContiguousAxis, IsTheOneOfALongerRunOfRegisters) {
  EXPECT_EQ(contiguousAxis(layout::dealt(Extents{64, 64}, {1, 0}, 8, Threads{32, 4}), 2), 1u);
  EXPECT_EQ(contiguousAxis(layout::dealt(Extents{64, 64}, {0, 1}, 8, Threads{32, 4}), 2), 0u);
}

TEST(ContiguousAxis, OfElementsOneByOneFollowsNeighbouringLanes) {
  // Images by channels: pixels, whose elements are apart in memory for all that is known, over lanes, channels over
  // registers.
  EXPECT_EQ(contiguousAxis(layout::dealt(Extents{64, 32}, {0, 1}, 1, Threads{32, 4}), 2), 0u);
  EXPECT_EQ(contiguousAxis(layout::dealt(Extents{64, 32}, {1, 0}, 1, Threads{32, 4}), 2), 1u);
}

} // namespace
} // namespace tegula::gpu
