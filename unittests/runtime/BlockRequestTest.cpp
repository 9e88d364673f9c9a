#include "runtime/cuda/BlockRequest.h"
#include <gtest/gtest.h>

using namespace tegula::runtime::cuda;

static std::string ptx(const std::string &directives) {
  return ".visible .entry k(\n)\n" + directives + "{\nret;\n}\n";
}

TEST(BlockRequest, Read) {
  BlockRequest none = BlockRequest::of(ptx(""));
  EXPECT_EQ(none.blocks, 0u);
  EXPECT_EQ(none.threads, 0u);
  EXPECT_FALSE(none.hasRegisterBound);
  EXPECT_EQ(none.registers(), 0u);
  BlockRequest r = BlockRequest::of(ptx(".reqntid 256, 1, 1\n.minnctapersm 6\n"));
  EXPECT_EQ(r.blocks, 6u);
  EXPECT_EQ(r.threads, 256u);
  EXPECT_EQ(r.registers(), 40u) << "65536 / 1536 is 42, given out in eights";
  EXPECT_TRUE(BlockRequest::of(ptx(".reqntid 256\n.maxnreg 41\n")).hasRegisterBound);
}

TEST(BlockRequest, RegistersThatAreNoBound) {
  EXPECT_EQ(BlockRequest::of(ptx(".reqntid 128\n.minnctapersm 1\n")).registers(), 0u);
  EXPECT_EQ(BlockRequest::of(ptx(".reqntid 128\n.minnctapersm 2\n")).registers(), 0u) << "256 for each thread";
  EXPECT_EQ(BlockRequest::of(ptx(".minnctapersm 4\n")).registers(), 0u) << "of how many threads?";
}

TEST(BlockRequest, Written) {
  EXPECT_EQ(withRequest(ptx(".reqntid 128\n"), 4), ptx(".minnctapersm 4\n.reqntid 128\n"));
  EXPECT_EQ(withRequest(ptx(".reqntid 128\n.minnctapersm 8\n"), 4), ptx(".reqntid 128\n.minnctapersm 4\n"));
  EXPECT_EQ(withRequest(ptx(".reqntid 128\n.minnctapersm 8\n"), 1), ptx(".reqntid 128\n\n"));
  EXPECT_EQ(withRequest(ptx(".reqntid 128\n"), 1), ptx(".reqntid 128\n"));
  EXPECT_EQ(withRequest(ptx(""), 4), ptx("")) << "of how many threads?";
}

TEST(BlockRequest, FewerBlocks) {
  EXPECT_EQ(BlockRequest::of(withFewerBlocks(ptx(".reqntid 256\n.minnctapersm 8\n"), 4)).blocks, 6u);
  EXPECT_EQ(BlockRequest::of(withFewerBlocks(ptx(".reqntid 256\n.minnctapersm 2\n"), 4)).blocks, 0u);
  EXPECT_EQ(BlockRequest::of(withFewerBlocks(ptx(".reqntid 256\n.minnctapersm 8\n//" + std::string(64 << 10, ' ')), 4))
                .blocks,
            0u);
  const std::string twelve = ptx(".reqntid 128\n.minnctapersm 12\n");
  EXPECT_EQ(BlockRequest::of(withFewerBlocks(twelve, 20)).blocks, 10u) << "one step of registers for five";
  EXPECT_EQ(BlockRequest::of(withFewerBlocks(twelve, 200)).blocks, 9u)
      << "fifty are missing: a quarter of the blocks at a time";
  // CTAs of a cluster give up as few as can be.
  for (auto [blocks, fewer] : {std::pair{10u, 8u}, {5u, 4u}, {4u, 3u}, {3u, 2u}, {2u, 0u}})
    EXPECT_EQ(BlockRequest::of(
                  withFewerBlocks(
                      ptx(".reqntid 256\n.minnctapersm " + std::to_string(blocks) + "\n// barrier.cluster.arrive"), 4))
                  .blocks,
              fewer);
}

/// What a register more can save is known, so that requests which cannot do are not tried.
TEST(BlockRequest, FewerBlocksPassesOverWhatCannotDo) {
  const auto after = [](unsigned spilledBytes) {
    return BlockRequest::of(withFewerBlocks(ptx(".reqntid 128\n.minnctapersm 16\n"), spilledBytes)).blocks;
  };
  EXPECT_EQ(after(128), 12u) << "40 registers for 32";
  EXPECT_EQ(after(188), 9u) << "56 registers: eight more cannot save 188 bytes";
  EXPECT_EQ(after(600), 6u) << "80 registers: nor 24 more 600";
  EXPECT_EQ(after(904), 4u) << "128 registers: nor 48 more 904";
  EXPECT_EQ(after(100000), 2u) << "any number of registers";
}

TEST(BlockRequest, BoundAndMoreRegisters) {
  const std::string six = ptx(".reqntid 256\n.minnctapersm 6\n");
  EXPECT_EQ(withRegisterBound(six), ptx(".reqntid 256\n.maxnreg 41\n"));
  EXPECT_EQ(withRegisterBound(ptx(".reqntid 256\n")), "");
  EXPECT_EQ(BlockRequest::of(withMoreRegisters(six)).blocks, 5u);
  EXPECT_EQ(BlockRequest::of(withMoreRegisters(ptx(".reqntid 512\n.minnctapersm 4\n"))).blocks, 3u);
  EXPECT_EQ(withMoreRegisters(ptx(".reqntid 512\n.minnctapersm 3\n")), "") << "two of three blocks";
}

TEST(BlockRequest, OneBlockMore) {
  const std::string text = ptx(".reqntid 256\n");
  EXPECT_EQ(BlockRequest::of(withOneBlockMore(text, 70, 1000)).blocks, 4u) << "64 registers";
  EXPECT_EQ(withOneBlockMore(text, 80, 1000), "") << "two steps of registers, where 24 warps run";
  EXPECT_EQ(withOneBlockMore(text, 70, 100000), "") << "no room in shared memory";
  EXPECT_EQ(withOneBlockMore(text, 40, 1000), "") << "a seventh block is less than a quarter more";
  EXPECT_EQ(BlockRequest::of(withOneBlockMore(text, 180, 1000)).blocks, 2u)
      << "few warps: up to a third of the registers";
  EXPECT_EQ(withOneBlockMore(text, 255, 1000), "") << "half of them";
  EXPECT_EQ(withOneBlockMore(ptx(".reqntid 256\n.minnctapersm 3\n"), 70, 1000), "") << "the compiler has chosen";
  EXPECT_EQ(BlockRequest::of(withOneBlockMore(ptx(".reqntid 256\n.minnctapersm 2\n"), 70, 1000)).blocks, 4u)
      << "more fit than it asked for";
  EXPECT_EQ(BlockRequest::of(withOneBlockMore(ptx(".reqntid 1024\n"), 58, 1000)).blocks, 2u)
      << "half of the registers of many warps that run alone";
  EXPECT_EQ(withOneBlockMore(ptx(".reqntid 1024\n") + "mma.sync", 58, 1000), "") << "but for products";
  EXPECT_EQ(withOneBlockMore(ptx(".reqntid 256\n.maxnreg 80\n"), 70, 1000), "");
}

TEST(BlockRequest, WarpsAreCountedByQuarters) {
  // 2 warps of 184 registers are on a quarter: four blocks of two warps run, and 168 registers let three of them in.
  EXPECT_EQ(BlockRequest::of(withOneBlockMore(ptx(".reqntid 64\n"), 184, 1000)).blocks, 5u);
  EXPECT_EQ(BlockRequest::of(ptx(".reqntid 64\n.minnctapersm 5\n")).registers(), 168u);
  EXPECT_EQ(BlockRequest::of(ptx(".reqntid 128\n.minnctapersm 5\n")).registers(), 96u);
}

TEST(BlockRequest, OneBlockMoreThanDotsAskFor) {
  const std::string text = ptx(".reqntid 256\n.minnctapersm 2\n") + "wgmma.mma_async.sync.aligned";
  EXPECT_EQ(BlockRequest::of(withOneBlockMore(text, 84, 50000)).blocks, 3u) << "80 registers";
  EXPECT_EQ(withOneBlockMore(text, 128, 50000), "") << "48 registers, where 16 warps run";
  EXPECT_EQ(withOneBlockMore(text, 140, 50000), "") << "one block runs, two were asked for and cost spills";
}
