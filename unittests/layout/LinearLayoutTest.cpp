// LinearLayout as algebra: identities that must hold for every layout, over thousands of random ones, and small worked
// examples with known answers.
#include "Random.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace tegula::layout;
using tegula::layout::test::Random;

namespace {

constexpr int kRounds = 3000;

LinearLayout mmaAccumulator() {
  return LinearLayout::tensor({16, 8}, {{Dim::Register, {{0, 1}, {8, 0}}},
                                        {Dim::Lane, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}}});
}

TEST(LinearLayout, WorkedExample) {
  LinearLayout l = mmaAccumulator();
  auto at = l.apply({{Dim::Register, 3}, {Dim::Lane, 5}});
  ASSERT_EQ(at.size(), 2u);
  EXPECT_EQ(at[0], (std::pair<Dim, uint32_t>(Dim::Dim1, 3)));
  EXPECT_EQ(at[1], (std::pair<Dim, uint32_t>(Dim::Dim0, 9)));
  EXPECT_EQ(l.print(), "register: (0,1) (8,0); lane: (0,2) (0,4) (1,0) (2,0) (4,0) -> dim0 16, dim1 8");
  EXPECT_TRUE(l.isPermutation());
  EXPECT_EQ(l.contiguous(Dim::Register), 2);
  EXPECT_EQ(l.axisBits(Dim::Lane, Dim::Dim1).pure, 0b00011u);
  EXPECT_EQ(l.axisBits(Dim::Lane, Dim::Dim0).pure, 0b11100u);
  // The flat output is the row-major index.
  EXPECT_EQ(l.apply(l.flatIn({{Dim::Register, 3}, {Dim::Lane, 5}})), 9u * 8 + 3);
}

TEST(LinearLayout, Draw) {
  LinearLayout l =
      LinearLayout::tensor({2, 4}, {{Dim::Register, {{0, 1}}}, {Dim::Lane, {{0, 2}, {1, 0}}}, {Dim::Warp, {}}});
  EXPECT_EQ(l.draw(), "cell = lane.register\n0.0  0.1  1.0  1.1\n2.0  2.1  3.0  3.1\n");
  LinearLayout copies = LinearLayout::tensor({4}, {{Dim::Register, {{1}}}, {Dim::Lane, {{0}}}});
  EXPECT_EQ(copies.draw(), "cell = lane.register\n0.0+ 0.1+   -    -\n");
  EXPECT_EQ(copies.print(), "register: 1; lane: 0 -> dim0 4");
  // A single place holds the first element: the only cell with a text has an empty one.
  EXPECT_EQ(LinearLayout::tensor({2}, {}).draw(), "cell = everything\n   -\n");
}

TEST(LinearLayout, ComposeIsMapComposition) {
  Random rnd(1);
  for (int k = 0; k < kRounds; ++k) {
    LinearLayout a = rnd.any();
    DimList mid = a.outs();
    std::vector<Dim> names;
    for (DimBits d : mid)
      names.push_back(d.dim);
    LinearLayout b = rnd.any(mid, rnd.dims({Dim::Offset, Dim::Bank}, 5));
    LinearLayout c = rnd.any(b.outs(), rnd.dims({Dim::Dim2}, 6));
    LinearLayout ab = a.compose(b);
    uint64_t x = rnd.bits(a.totalInBits()), y = rnd.bits(a.totalInBits());
    EXPECT_EQ(ab.apply(x), b.apply(a.apply(x)));
    EXPECT_EQ(a.apply(x ^ y), a.apply(x) ^ a.apply(y));
    EXPECT_EQ(ab.compose(c), a.compose(b.compose(c)));
    std::reverse(names.begin(), names.end());
    EXPECT_EQ(a.compose(b.transposeIns(names)), ab) << "dimensions are matched by name";
    EXPECT_EQ(LinearLayout::identity(a.ins()).compose(a), a);
    EXPECT_EQ(a.compose(LinearLayout::identity(a.outs())), a);
  }
}

TEST(LinearLayout, InvertAndPseudoInvert) {
  Random rnd(2);
  for (int k = 0; k < kRounds; ++k) {
    LinearLayout l = rnd.any();
    LinearLayout p = l.pseudoInvert();
    uint64_t x = rnd.bits(l.totalInBits());
    EXPECT_EQ(l.apply(p.apply(l.apply(x))), l.apply(x));
    EXPECT_EQ(p.apply(l.apply(x)) & l.freeMask(), 0u) << "copies are never named";
    EXPECT_EQ(static_cast<unsigned>(std::popcount(l.freeMask())) + l.rank(), l.totalInBits());

    unsigned n = static_cast<unsigned>(rnd.below(10));
    unsigned inSplit = static_cast<unsigned>(rnd.below(n + 1)), outSplit = static_cast<unsigned>(rnd.below(n + 1));
    DimList ins{{Dim::Register, static_cast<uint8_t>(inSplit)}, {Dim::Lane, static_cast<uint8_t>(n - inSplit)}};
    DimList outs{{Dim::Dim1, static_cast<uint8_t>(outSplit)}, {Dim::Dim0, static_cast<uint8_t>(n - outSplit)}};
    LinearLayout inv(ins, outs, rnd.invertible(n));
    EXPECT_TRUE(inv.isInvertible() && inv.isSurjective() && inv.isInjective());
    EXPECT_EQ(inv.compose(inv.invert()), LinearLayout::identity(ins));
    EXPECT_EQ(inv.invert().compose(inv), LinearLayout::identity(outs));
    EXPECT_EQ(inv.invert().invert(), inv);
    LinearLayout perm(ins, outs, rnd.shuffled(n));
    EXPECT_TRUE(perm.isPermutation() && perm.invert().isPermutation());
  }
}

TEST(LinearLayout, KernelIsWhatMapsToZero) {
  Random rnd(3);
  for (int k = 0; k < kRounds / 10; ++k) {
    LinearLayout l = rnd.any(rnd.dims({Dim::Register, Dim::Lane, Dim::Warp}, 3), rnd.dims({Dim::Dim1, Dim::Dim0}, 4));
    Subspace kernel;
    for (uint64_t v : l.kernel())
      EXPECT_TRUE(kernel.insert(v, 0));
    for (uint64_t x = 0; x < uint64_t{1} << l.totalInBits(); ++x)
      EXPECT_EQ(l.apply(x) == 0, kernel.contains(x));
  }
}

TEST(LinearLayout, InvertAndComposeFindsTheData) {
  Random rnd(4);
  for (int k = 0; k < kRounds; ++k) {
    DimList outs = rnd.dims({Dim::Dim1, Dim::Dim0}, 4);
    unsigned laneBits = static_cast<unsigned>(rnd.below(4)), warpBits = static_cast<unsigned>(rnd.below(3));
    LinearLayout a = rnd.distributed(outs, laneBits, warpBits, rnd.chance(50));
    LinearLayout b = rnd.distributed(outs, laneBits, warpBits, rnd.chance(50));
    LinearLayout c = a.invertAndCompose(b);
    EXPECT_TRUE(c.compose(b).sameMap(a));
    EXPECT_EQ(a.invertAndCompose(a), LinearLayout::identity(a.ins())) << "what is in place stays, copies too";
  }
}

TEST(LinearLayout, ProductAndDivision) {
  Random rnd(5);
  for (int k = 0; k < kRounds; ++k) {
    LinearLayout a = rnd.any(rnd.dims({Dim::Register, Dim::Lane}, 3), rnd.dims({Dim::Dim1, Dim::Dim0}, 3));
    LinearLayout b = rnd.any(rnd.dims({Dim::Lane, Dim::Warp}, 3), rnd.dims({Dim::Dim0, Dim::Dim2}, 3));
    LinearLayout c = rnd.any(rnd.dims({Dim::Register, Dim::Warp}, 3), rnd.dims({Dim::Dim1}, 3));
    LinearLayout ab = a * b;
    EXPECT_EQ((ab)*c, a * (b * c)) << ab.print() << " * " << c.print();
    EXPECT_EQ(a * LinearLayout(), a);
    EXPECT_EQ(LinearLayout() * a, a);
    ASSERT_TRUE(ab.divideLeft(a) && ab.divideRight(b)) << ab.print();
    EXPECT_TRUE(ab.divideLeft(a)->sameMap(b));
    EXPECT_TRUE(ab.divideRight(b)->sameMap(a));
    if (auto q = c.divideLeft(a)) {
      EXPECT_TRUE((a * *q).sameMap(c));
    }
    if (auto q = c.divideRight(a)) {
      EXPECT_TRUE((*q * a).sameMap(c));
    }
  }
  // mma.m16n8 repeated along columns is divisible by the instruction, but not with rows and columns exchanged.
  LinearLayout tile = mmaAccumulator() * LinearLayout::identity(4, Dim::Register, Dim::Dim1);
  EXPECT_TRUE(tile.divideLeft(mmaAccumulator()).has_value());
  EXPECT_FALSE(tile.divideLeft(mmaAccumulator().renameOut(Dim::Dim0, Dim::Dim2)).has_value());
}

TEST(LinearLayout, SublayoutQuotientAndTriviality) {
  Random rnd(6);
  for (int k = 0; k < kRounds; ++k) {
    LinearLayout a = rnd.any();
    LinearLayout part = a.sublayout({Dim::Lane}, {Dim::Dim0});
    for (unsigned i = 0; i < a.inBits(Dim::Lane); ++i)
      EXPECT_EQ(part.basis(Dim::Lane, i), a.basis(Dim::Lane, i, Dim::Dim0));
    LinearLayout b = a * LinearLayout::identity(rnd.dims({Dim::Block, Dim::Iteration}, 2));
    EXPECT_TRUE(b.isTrivialOver({Dim::Block, Dim::Iteration}));
    EXPECT_EQ(b.quotient({Dim::Block, Dim::Iteration}), a);
    EXPECT_TRUE(b.sublayoutIsZero({Dim::Lane, Dim::Warp}, {Dim::Block}));
    LinearLayout dense = a.removeZeroBases(Dim::Register);
    EXPECT_EQ(dense.rank(), a.rank());
    for (uint64_t v : dense.bases(Dim::Register))
      EXPECT_NE(v, 0u);
    EXPECT_EQ(a.removeIn(Dim::Lane).removeOut(Dim::Dim0), a.sublayout({Dim::Register, Dim::Warp}, {Dim::Dim1}));
  }
}

TEST(LinearLayout, Relabelling) {
  Random rnd(7);
  for (int k = 0; k < kRounds; ++k) {
    LinearLayout a = rnd.any();
    LinearLayout t = a.transposeOuts({Dim::Dim0, Dim::Dim1}).transposeIns({Dim::Warp, Dim::Lane, Dim::Register});
    EXPECT_TRUE(t.sameMap(a) && a.sameMap(t));
    EXPECT_EQ(t.transposeIns({Dim::Register, Dim::Lane, Dim::Warp}).transposeOuts({Dim::Dim1, Dim::Dim0}), a);
    EXPECT_EQ(a.flattenOuts(Dim::Dim3).reshapeOuts(a.outs()), a);
    EXPECT_EQ(a.flattenIns(Dim::Offset).reshapeIns(a.ins()), a);
    EXPECT_EQ(a.renameOut(Dim::Dim0, Dim::Dim5).renameOut(Dim::Dim5, Dim::Dim0), a);
    LinearLayout grown = a.growIn(Dim::Lane, 5).growOut(Dim::Dim0, 6);
    EXPECT_EQ(grown.inBits(Dim::Lane), 5u);
    EXPECT_EQ(grown.outBits(Dim::Dim0), 6u);
    EXPECT_EQ(grown.rank(), a.rank());
    EXPECT_EQ(grown.selectIn(Dim::Lane, (1u << a.inBits(Dim::Lane)) - 1).rank(), a.rank());
    EXPECT_EQ(a.hash(), LinearLayout(a).hash());
    if (!(a == t)) {
      EXPECT_NE(a.hash(), t.hash());
    }
  }
}

} // namespace
