// The table of devices and the occupancy rule.
#include "tune/Ceilings.h"
#include <gtest/gtest.h>

using namespace tegula::tune;

TEST(Ceilings, RowsByCapabilityAndName) {
  EXPECT_STREQ(gpuCeilings(90).name, "H100");
  EXPECT_STREQ(gpuCeilings(90, "NVIDIA H200").name, "H200");
  EXPECT_STREQ(gpuCeilings(80, "NVIDIA H200").name, "A100"); // the capability decides first
  EXPECT_STREQ(gpuCeilings(89, "NVIDIA L4").name, "L4");
  EXPECT_EQ(gpuCeilings(90, "NVIDIA H100 PCIe", 114).cores, 114u);
  EXPECT_EQ(gpuCeilings(87).capability, 86u);
  EXPECT_EQ(gpuCeilings(70).capability, 80u);
  EXPECT_EQ(gpuCeilings(120).capability, 90u);
}

TEST(Ceilings, BlocksOfACore) {
  GpuCeilings h = gpuCeilings(90);
  EXPECT_EQ(blocksPerCore(h, 128, 32, 0), 16u);     // threads
  EXPECT_EQ(blocksPerCore(h, 32, 16, 0), 32u);      // blocks
  EXPECT_EQ(blocksPerCore(h, 128, 255, 0), 2u);     // registers
  EXPECT_EQ(blocksPerCore(h, 384, 168, 0), 1u);     // registers, a warpgroup more
  EXPECT_EQ(blocksPerCore(h, 128, 64, 100 * 1024), 2u); // shared memory
  EXPECT_EQ(blocksPerCore(h, 128, 64, 227 * 1024), 1u); // all of it
  EXPECT_EQ(blocksPerCore(h, 1024, 128, 0), 0u);
}
