// Grids that take fewer rounds with more blocks on a multiprocessor.
#include "gpu/loops/Crowd.h"
#include <gtest/gtest.h>

namespace tegula::gpu {
namespace {

TEST(CrowdTest, SavesARound) {
  const Crowd c{2, 3};
  EXPECT_FALSE(c.gains(0)); // not known
  EXPECT_FALSE(c.gains(16 * 2));
  EXPECT_TRUE(c.gains(16 * 2 + 1));
  EXPECT_TRUE(c.gains(16 * 3));
  EXPECT_FALSE(c.gains(16 * 3 + 1)); // two rounds either way
  EXPECT_FALSE(c.gains(16 * 4));
  EXPECT_TRUE(c.gains(16 * 4 + 1));
  EXPECT_TRUE(c.gains(UINT32_MAX));
}

TEST(CrowdTest, LimitsAreWhereThatChanges) {
  for (uint32_t few = 1; few < 12; ++few)
    for (uint32_t many = few + 1; many < 16; ++many) {
      const Crowd c = Crowd::of(Crowd{few, many}.asked());
      const std::vector<int64_t> limits = c.limits();
      ASSERT_EQ(limits.size() % 2, 1u) << few << " " << many;
      for (uint32_t programs = 0; programs < 16 * 200; ++programs) {
        size_t below = 0;
        for (int64_t limit : limits)
          below += limit < int64_t{programs};
        ASSERT_EQ(below % 2 == 1, c.gains(programs)) << few << " " << many << " " << programs;
      }
    }
}

} // namespace
} // namespace tegula::gpu
