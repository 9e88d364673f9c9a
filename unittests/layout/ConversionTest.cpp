// Conversion plans, executed by a small machine: every plan must deliver exactly the destination, with the cost it
// promised.
#include "KernelLayouts.h"
#include "Machine.h"
#include "Rounds.h"

using namespace tegula::layout;
using tegula::layout::test::Machine;
using tegula::layout::test::Observed;
using tegula::layout::test::Random;
using tegula::layout::test::someLayout;
using tegula::test::rounds;

namespace {

void check(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits, const ConversionOptions &options = {}) {
  ConversionPlan plan = planConversion(src, dst, elemBits, options);
  Observed seen = Machine(src, dst, elemBits).run(plan);
  EXPECT_EQ(seen.shuffles, plan.cost.shuffles);
  EXPECT_EQ(seen.bytes, plan.cost.bytes);
  EXPECT_LE(seen.storeWavefronts, plan.cost.storeWavefronts);
  EXPECT_LE(seen.loadWavefronts, plan.cost.loadWavefronts);
}

TEST(Conversion, RandomLayoutsArriveExactly) {
  Random rnd(21);
  for (uint64_t k = 0; k < rounds(1500) && !testing::Test::HasFailure(); ++k) {
    DimList outs{{Dim::Dim1, static_cast<uint8_t>(rnd.below(7))}, {Dim::Dim0, static_cast<uint8_t>(rnd.below(5))}};
    unsigned warpBits = static_cast<unsigned>(rnd.below(3));
    LinearLayout a = rnd.distributed(outs, 5, warpBits, rnd.chance(30));
    LinearLayout b = rnd.distributed(outs, 5, warpBits, rnd.chance(30));
    unsigned elemBits = 8u << rnd.below(4);
    ConversionOptions options;
    options.shuffles = rnd.chance(80);
    options.shared = rnd.chance(80);
    options.stmatrix = rnd.chance(70);
    if (rnd.chance(30))
      options.maxBytes = 256u << rnd.below(4);
    check(a, b, elemBits, options);
  }
}

/// Layouts that differ within a warp only, so that shuffles are possible; with copies and mixed bases.
TEST(Conversion, RandomShuffles) {
  Random rnd(22);
  unsigned viaShuffles = 0;
  for (uint64_t k = 0; k < rounds(2000) && !testing::Test::HasFailure(); ++k) {
    DimList outs{{Dim::Dim1, static_cast<uint8_t>(rnd.below(5))}, {Dim::Dim0, static_cast<uint8_t>(rnd.below(5))}};
    LinearLayout a = rnd.distributed(outs, 5, 0, rnd.chance(40)), b = rnd.distributed(outs, 5, 0, rnd.chance(40));
    // Warps: the same part for both, plus something inside the warp's part.
    LinearLayout warps = LinearLayout::identity(4, Dim::Warp, Dim::Dim2);
    auto skew = [&](const LinearLayout &l) {
      LinearLayout w = (l.removeIn(Dim::Warp) * warps).transposeIns({Dim::Register, Dim::Lane, Dim::Warp});
      std::vector<uint64_t> bases(w.bases().begin(), w.bases().end());
      if (rnd.chance(50))
        bases.back() ^= rnd.bits(outs.totalBits());
      return LinearLayout(w.ins(), w.outs(), bases);
    };
    ConversionOptions options;
    options.shared = false;
    LinearLayout s = skew(a), d = skew(b);
    viaShuffles += planConversion(s, d, 32, options).kind == ConversionKind::Shuffles;
    check(s, d, 8u << rnd.below(4), options);
  }
  EXPECT_GT(viaShuffles, rounds(1000));
}

TEST(Conversion, Clusters) {
  Random rnd(23);
  for (int k = 0; k < 300 && !testing::Test::HasFailure(); ++k) {
    DimList outs{{Dim::Dim1, static_cast<uint8_t>(3 + rnd.below(4))},
                 {Dim::Dim0, static_cast<uint8_t>(2 + rnd.below(3))}};
    auto spread = [&](bool mixed) {
      LinearLayout l = rnd.distributed(outs, 5, 2, mixed);
      // The highest bit of the registers, or of the warps, becomes the CTA.
      if (l.inBits(Dim::Register) > 0 && rnd.chance(50)) {
        DimList ins{{Dim::Register, static_cast<uint8_t>(l.inBits(Dim::Register) - 1)},
                    {Dim::Block, 1},
                    {Dim::Lane, 5},
                    {Dim::Warp, 2}};
        return l.reshapeIns(ins).growIn(Dim::Warp, 2).transposeIns({Dim::Register, Dim::Lane, Dim::Warp, Dim::Block});
      }
      return l
          .reshapeIns({{Dim::Register, static_cast<uint8_t>(l.inBits(Dim::Register))},
                       {Dim::Lane, 5},
                       {Dim::Warp, 1},
                       {Dim::Block, 1}})
          .growIn(Dim::Warp, 2);
    };
    check(spread(rnd.chance(30)), spread(rnd.chance(30)), 8u << rnd.below(4));
  }
}

TEST(Conversion, KernelLayoutsArriveExactly) {
  Random rnd(24);
  std::map<std::string, unsigned> tally;
  unsigned conflicts = 0;
  for (uint64_t k = 0; k < rounds(1500) && !testing::Test::HasFailure(); ++k) {
    Extents shape{int64_t{8} << rnd.below(4), int64_t{8} << rnd.below(4)};
    unsigned warps = 1u << rnd.below(4), elemBits = 8u << rnd.below(4);
    LinearLayout src = someLayout(rnd, shape, warps, elemBits), dst = someLayout(rnd, shape, warps, elemBits);
    ConversionOptions options;
    options.shuffles = rnd.chance(70);
    if (rnd.chance(20))
      options.maxBytes = 1024;
    ConversionPlan plan = planConversion(src, dst, elemBits, options);
    std::string kind = plan.print();
    ++tally[kind.substr(0, kind.find(' '))];
    if (plan.kind == ConversionKind::Shared) {
      ++tally[plan.shared.store.move == SharedMove::Matrix        ? "stmatrix"
              : plan.shared.store.move == SharedMove::MatrixTrans ? "stmatrix.trans"
                                                                  : "st"];
      ++tally[plan.shared.load.move == SharedMove::Matrix        ? "ldmatrix"
              : plan.shared.load.move == SharedMove::MatrixTrans ? "ldmatrix.trans"
                                                                 : "ld"];
      tally["repeated"] += plan.shared.repetitions > 1;
      conflicts += plan.cost.conflicts > 0;
    }
    check(src, dst, elemBits, options);
  }
  for (const char *way :
       {"nothing", "shuffles", "shared", "stmatrix", "stmatrix.trans", "ldmatrix", "ldmatrix.trans", "repeated"})
    EXPECT_GT(tally[way], rounds(10)) << way;
  // A conflict is the better choice now and then (a wide store and a two-way load of a small tile), but rare.
  EXPECT_LT(conflicts, 30u);
}

// Shared memory whose layout is given: what TMA and wgmma prescribe.
TEST(Conversion, GivenMemory) {
  Random rnd(25);
  for (uint64_t k = 0; k < rounds(600) && !testing::Test::HasFailure(); ++k) {
    unsigned elemBits = 8u << rnd.below(3), warps = 1u << rnd.below(4);
    Extents shape{int64_t{16} << rnd.below(3), int64_t{16} << rnd.below(4)};
    Extents order = rnd.chance(50) ? Extents{1, 0} : Extents{0, 1};
    LinearLayout memory = sharedLinear(shape, order);
    if (auto mode = widestSwizzle(shape[static_cast<unsigned>(order[0])] * elemBits / 8); mode && rnd.chance(75))
      memory = sharedSwizzled(shape, order, elemBits, *mode);
    LinearLayout src = someLayout(rnd, shape, warps, elemBits), dst = someLayout(rnd, shape, warps, elemBits);
    ConversionPlan plan;
    plan.kind = ConversionKind::Shared;
    plan.scope = ExchangeScope::Cta;
    plan.shared.memory = memory;
    plan.shared.store = planSharedAccess(src, memory, elemBits, true);
    plan.shared.load = planSharedAccess(dst, memory, elemBits, false);
    plan.copyOf = copiesOf(dst);
    Machine(src, dst, elemBits).run(plan);
  }
  // The epilogue of a matrix product: accumulator as bf16 to a tile that TMA stores; operands of mma.sync from one that
  // it loaded.
  WarpGrid four{4, 1, 1};
  LinearLayout tile = sharedSwizzled({64, 64}, {1, 0}, 16, SwizzleMode::B128);
  SharedSide epilogue = planSharedAccess(wgmmaAccumulator({64, 64}, four), tile, 16, true);
  EXPECT_EQ(epilogue.move, SharedMove::Matrix);
  EXPECT_EQ(epilogue.matrices, 4u);
  EXPECT_EQ(epilogue.wavefronts, 4u);
  SharedSide a = planSharedAccess(mmaOperandA({64, 64}, four, 16), tile, 16, false);
  EXPECT_EQ(a.move, SharedMove::Matrix);
  EXPECT_EQ(a.wavefronts, 4u);
  SharedSide b = planSharedAccess(mmaOperandB({64, 64}, four, 16), tile, 16, false);
  EXPECT_EQ(b.move, SharedMove::MatrixTrans);
  EXPECT_EQ(b.wavefronts, 4u);
  SharedSide fp8 = planSharedAccess(mmaOperandA({64, 128}, four, 8),
                                    sharedSwizzled({64, 128}, {1, 0}, 8, SwizzleMode::B128), 8, false);
  EXPECT_EQ(fp8.move, SharedMove::Matrix);
  EXPECT_EQ(fp8.wavefronts, 4u);
  // Bytes that are turned: read in pairs, without bank conflicts where the rows of a matrix tell the swizzle, and
  // written as words.
  LinearLayout turns = dealtForTurns({64, 128}, {1, 0}, {32, 4});
  SharedSide read = planSharedAccess(
      turns,
      sharedRows({64, 128},
                 std::array{turns.bases(Dim::Register)[1], turns.bases(Dim::Lane)[0], turns.bases(Dim::Lane)[1]}, 1, 16,
                 8),
      8, false);
  EXPECT_EQ(read.move, SharedMove::MatrixTrans);
  EXPECT_EQ(read.matrices, 4u);
  EXPECT_EQ(read.wavefronts, 4u);
  SharedSide write = planSharedAccess(turns, sharedSwizzled({64, 128}, {0, 1}, 8, SwizzleMode::B64), 8, true);
  EXPECT_EQ(write.move, SharedMove::Matrix);
  EXPECT_EQ(write.matrices, 4u);
}

TEST(Conversion, ScratchBudget) {
  LinearLayout acc = wgmmaAccumulator({128, 128}, {4, 1, 1}), out = dealt({128, 128}, {1, 0}, 8, {32, 4});
  for (unsigned budget : {32768u, 16384u, 8192u}) {
    ConversionOptions options;
    options.maxBytes = budget;
    ConversionPlan plan = planConversion(acc, out, 16, options);
    EXPECT_EQ(plan.cost.bytes, budget);
    EXPECT_EQ(plan.shared.repetitions, 32768 / budget);
    EXPECT_EQ(plan.cost.conflicts, 0u);
    check(acc, out, 16, options);
  }
}

TEST(Conversion, Scalars) {
  LinearLayout scalar = tegula::layout::scalar({32, 4});
  EXPECT_EQ(planConversion(scalar, scalar, 32).kind, ConversionKind::Nothing);
  // One element per CTA, held by everybody, from one that differs in the number of registers only.
  LinearLayout one = dealt({1}, {0}, 1, {32, 4});
  EXPECT_EQ(planConversion(one.growIn(Dim::Register, 2), one, 32).kind, ConversionKind::Registers);
  check(one, one.growIn(Dim::Register, 2), 32);
}

// The measured numbers of the hardware for strided accesses (clocks of one warp instruction).
TEST(Banks, MeasuredTable) {
  auto strided = [](unsigned strideBytes, unsigned accessBytes) {
    std::array<uint32_t, 32> at{};
    for (uint32_t l = 0; l < 32; ++l)
      at[l] = l * strideBytes;
    return simulateWavefronts(at, accessBytes);
  };
  EXPECT_EQ(strided(16, 16), 4u);
  EXPECT_EQ(strided(32, 16), 8u);
  EXPECT_EQ(strided(64, 16), 16u);
  EXPECT_EQ(strided(128, 16), 32u);
  EXPECT_EQ(strided(144, 16), 4u);
  EXPECT_EQ(strided(8, 8), 2u);
  EXPECT_EQ(strided(16, 8), 4u);
  EXPECT_EQ(strided(4, 4), 1u);
  EXPECT_EQ(strided(8, 4), 2u);
  EXPECT_EQ(strided(128, 4), 32u);
  EXPECT_EQ(strided(0, 4), 1u);
  auto rows = [](unsigned stride) {
    std::array<uint32_t, 32> at{};
    for (uint32_t l = 0; l < 32; ++l)
      at[l] = l * stride;
    return simulateMatrixWavefronts(at, 4);
  };
  EXPECT_EQ(rows(16), 4u);
  EXPECT_EQ(rows(32), 8u);
  EXPECT_EQ(rows(64), 16u);
  EXPECT_EQ(rows(128), 32u);
}

// The rank formula and the simulation agree on every linear access.
TEST(Banks, RankEqualsSimulation) {
  Random rnd(26);
  for (int k = 0; k < 3000; ++k) {
    unsigned shift = static_cast<unsigned>(rnd.below(5)), bytes = 1u << shift;
    std::vector<uint64_t> images;
    for (int i = 0; i < 5; ++i)
      images.push_back(rnd.chance(20) ? 0 : rnd.bits(12) >> shift << shift);
    std::array<uint32_t, 32> at{};
    for (uint32_t l = 0; l < 32; ++l)
      at[l] = static_cast<uint32_t>(multiply(images, l));
    EXPECT_EQ(simulateWavefronts(at, bytes), linearWavefronts(images, bytes));
    LinearLayout access({{Dim::Lane, 5}}, {{Dim::Offset, 12}}, images);
    EXPECT_EQ(bankConflicts(access, 8, 1), simulateWavefronts(at, 1) - 1);
  }
}

struct Case {
  const char *name;
  LinearLayout src, dst;
  unsigned elemBits;
  const char *plan;
};

// Conversions of real kernels and what they must cost. Without conflicts everywhere, and without moves between
// registers where a matrix move has the fragments of mma.sync in order.
TEST(Conversion, KernelsOfInterest) {
  Extents rowMajor{1, 0};
  WarpGrid four{4, 1, 1};
  LinearLayout acc = wgmmaAccumulator({128, 128}, four), mma = mmaAccumulator({128, 128}, {2, 2, 1});
  LinearLayout coalesced16 = dealt({128, 128}, rowMajor, 8, {32, 4}),
               coalesced32 = dealt({128, 128}, rowMajor, 4, {32, 4});
  LinearLayout columns16 = dealt({128, 128}, {0, 1}, 8, {32, 4});
  const Case table[] = {
      {"same", acc, acc, 32,
       "nothing"},
      {"attention: D to A of 16 bit", acc, wgmmaOperandA({128, 128}, four, 16), 16,
       "nothing"},
      {"attention: D to A of 8 bit", acc, wgmmaOperandA({128, 128}, four, 8), 8,
       "shuffles 32, selects 64"},
      {"epilogue bf16", acc, coalesced16, 16,
       "shared 32768 B, stmatrix.x4 x 16, ld 8 wide x 16, 0 conflicts"},
      {"epilogue f32", acc, coalesced32, 32,
       "shared 65536 B, st 4 wide x 32, ld 4 wide x 32, 0 conflicts"},
      {"epilogue of mma.sync bf16", mma, coalesced16, 16,
       "shared 32768 B, stmatrix.x4 x 16, ld 8 wide x 16, 0 conflicts"},
      {"loads to A", coalesced16, mmaOperandA({128, 128}, {2, 2, 1}, 16), 16,
       "shared 32768 B, st 8 wide x 16, ldmatrix.x4 x 32, 0 conflicts"},
      {"loads to B", coalesced16, mmaOperandB({128, 128}, {2, 2, 1}, 16), 16,
       "shared 32768 B, st 8 wide x 16, ldmatrix.trans.x4 x 32, 0 conflicts"},
      {"column-major loads to B", columns16, mmaOperandB({128, 128}, {2, 2, 1}, 16), 16,
       "shared 32768 B, stmatrix.x4 x 16, ld 8 wide x 32, 0 conflicts"},
      {"transpose bf16", coalesced16, columns16, 16,
       "shared 32768 B, stmatrix.trans.x4 x 16, ld 8 wide x 16, 0 conflicts"},
      {"transpose f32", coalesced32, dealt({128, 128}, {0, 1}, 4, {32, 4}), 32,
       "shared 65536 B, stmatrix.x4 x 32, ld 4 wide x 32, 0 conflicts"},
      {"transpose fp8", dealt({128, 128}, rowMajor, 16, {32, 4}), dealt({128, 128}, {0, 1}, 16, {32, 4}), 8,
       "shared 16384 B, stmatrix.x4 x 8, ld 1 wide x 128, 0 conflicts"},
      {"accumulator transposed", acc, permute(acc, {1, 0}), 16,
       "shared 32768 B, stmatrix.x4 x 16, ldmatrix.trans.x4 x 16, 0 conflicts"},
      {"row sums to rows", slice(acc, 1), dealt({128}, {0}, 1, {32, 4}), 32,
       "shared 512 B, st 2 wide x 2, ld 1 wide x 1, 0 conflicts"},
  };
  for (const Case &c : table) {
    ConversionPlan plan = planConversion(c.src, c.dst, c.elemBits);
    EXPECT_EQ(plan.print(), c.plan) << c.name;
    EXPECT_EQ(plan.cost.conflicts, 0u) << c.name;
    check(c.src, c.dst, c.elemBits);
  }
}

} // namespace
