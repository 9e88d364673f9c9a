// Constructors against the tables read out of the hardware (golden bases), and properties of the shape operations.
#include "Random.h"
#include "layout/Banks.h"
#include "layout/Constructors.h"
#include <gtest/gtest.h>

using namespace tegula::layout;
using tegula::layout::test::Random;

namespace {

using Images = std::vector<std::vector<int64_t>>;

struct Golden {
  const char *name;
  LinearLayout layout;
  const char *bases;
};

// wgmma and mma.sync tables of the hardware, as (row, column).
TEST(Constructors, FragmentTables) {
  WarpGrid one{1, 1, 1}, group{4, 1, 1};
  const Golden table[] = {
      {"wgmma D f32 n256", wgmmaAccumulator({64, 256}, group),
       "register: (0,1) (8,0) (0,8) (0,16) (0,32) (0,64) (0,128); lane: (0,2) (0,4) (1,0) (2,0) (4,0); "
       "warp: (16,0) (32,0) -> dim0 64, dim1 256"},
      {"wgmma A 16 bit", wgmmaOperandA({64, 16}, group, 16),
       "register: (0,1) (8,0) (0,8); lane: (0,2) (0,4) (1,0) (2,0) (4,0); warp: (16,0) (32,0) -> dim0 64, dim1 16"},
      {"wgmma A 8 bit", wgmmaOperandA({64, 32}, group, 8),
       "register: (0,1) (0,2) (8,0) (0,16); lane: (0,4) (0,8) (1,0) (2,0) (4,0); warp: (16,0) (32,0) -> dim0 64, dim1 32"},
      {"wgmma A tf32", wgmmaOperandA({64, 8}, group, 32),
       "register: (8,0) (0,4); lane: (0,1) (0,2) (1,0) (2,0) (4,0); warp: (16,0) (32,0) -> dim0 64, dim1 8"},
      {"m16n8k16 A", mmaOperandA({16, 16}, one, 16),
       "register: (0,1) (8,0) (0,8); lane: (0,2) (0,4) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 16"},
      {"m16n8k16 B", mmaOperandB({16, 8}, one, 16),
       "register: (1,0) (8,0); lane: (2,0) (4,0) (0,1) (0,2) (0,4); warp: - -> dim0 16, dim1 8"},
      {"m16n8k8 bf16 A", mmaOperandA({16, 8}, one, 16),
       "register: (0,1) (8,0); lane: (0,2) (0,4) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 8"},
      {"m16n8k8 tf32 A", mmaOperandA({16, 8}, one, 32),
       "register: (8,0) (0,4); lane: (0,1) (0,2) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 8"},
      {"m16n8k8 tf32 B", mmaOperandB({8, 8}, one, 32),
       "register: (4,0); lane: (1,0) (2,0) (0,1) (0,2) (0,4); warp: - -> dim0 8, dim1 8"},
      {"m16n8k32 8 bit A", mmaOperandA({16, 32}, one, 8),
       "register: (0,1) (0,2) (8,0) (0,16); lane: (0,4) (0,8) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 32"},
      {"m16n8k32 8 bit B", mmaOperandB({32, 8}, one, 8),
       "register: (1,0) (2,0) (16,0); lane: (4,0) (8,0) (0,1) (0,2) (0,4); warp: - -> dim0 32, dim1 8"},
      {"m16n8k16 f64 A", mmaOperandA({16, 16}, one, 64),
       "register: (8,0) (0,4) (0,8); lane: (0,1) (0,2) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 16"},
      {"m16n8k16 f64 B", mmaOperandB({16, 8}, one, 64),
       "register: (4,0) (8,0); lane: (1,0) (2,0) (0,1) (0,2) (0,4); warp: - -> dim0 16, dim1 8"},
      {"m16n8 C", mmaAccumulator({16, 8}, one),
       "register: (0,1) (8,0); lane: (0,2) (0,4) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 8"},
      {"ldmatrix x4", matrixMove(4, false),
       "register: (0,0,1) (1,0,0) (2,0,0); lane: (0,0,2) (0,0,4) (0,1,0) (0,2,0) (0,4,0) -> dim0 4, dim1 8, dim2 8"},
      {"ldmatrix x4 trans", matrixMove(4, true),
       "register: (0,1,0) (1,0,0) (2,0,0); lane: (0,2,0) (0,4,0) (0,0,1) (0,0,2) (0,0,4) -> dim0 4, dim1 8, dim2 8"},
      {"four warps of mma, 2 by 2", mmaAccumulator({64, 64}, {2, 2, 1}),
       "register: (0,1) (8,0) (0,8) (0,16) (16,0); lane: (0,2) (0,4) (1,0) (2,0) (4,0); warp: (32,0) (0,32) -> "
       "dim0 64, dim1 64"},
      {"small tile: copies", mmaAccumulator({8, 8}, {2, 1, 1}),
       "register: (0,1) (0,0); lane: (0,2) (0,4) (1,0) (2,0) (4,0); warp: (0,0) -> dim0 8, dim1 8"},
      {"wide k: 8 consecutive bf16", mmaOperandA({16, 64}, one, 16, 8),
       "register: (0,1) (8,0) (0,2) (0,4) (0,32); lane: (0,8) (0,16) (1,0) (2,0) (4,0); warp: - -> dim0 16, dim1 64"},
      {"batched", mmaAccumulator({4, 16, 8}, {1, 1, 2}),
       "register: (0,0,1) (0,8,0) (2,0,0); lane: (0,0,2) (0,0,4) (0,1,0) (0,2,0) (0,4,0); warp: (1,0,0) -> "
       "dim0 4, dim1 16, dim2 8"},
  };
  for (const Golden &g : table)
    EXPECT_EQ(g.layout.print(), g.bases) << g.name;
}

// D packed to 16 bits is the A fragment of the next product: the identity that attention needs.
TEST(Constructors, AccumulatorIsOperandA) {
  EXPECT_EQ(wgmmaAccumulator({64, 64}, {4, 1, 1}), wgmmaOperandA({64, 64}, {4, 1, 1}, 16));
  EXPECT_EQ(mmaAccumulator({32, 64}, {2, 1, 1}), mmaOperandA({32, 64}, {2, 1, 1}, 16));
  EXPECT_FALSE(wgmmaAccumulator({64, 64}, {4, 1, 1}) == wgmmaOperandA({64, 64}, {4, 1, 1}, 8));
}

/// Byte offsets of the bits of an axis: the columns of the hardware's tables.
std::vector<uint64_t> byteBases(const LinearLayout &shared, Dim axis, unsigned elemBytes) {
  LinearLayout where = shared.invert();
  std::vector<uint64_t> bytes;
  for (uint64_t b : where.bases(axis))
    bytes.push_back(b * elemBytes);
  return bytes;
}

TEST(Constructors, SharedTables) {
  using Bytes = std::vector<uint64_t>;
  Extents rowMajor{1, 0}, colMajor{0, 1};
  struct Row {
    SwizzleMode mode;
    int64_t width;
    Bytes inner, rows;
  };
  // 16-bit elements; K-major operand {r, k} of 64 rows, W bytes of k, and TMA boxes of one atom width.
  const Row table[] = {
      {SwizzleMode::None, 8, {2, 4, 8}, {16, 32, 64, 128, 256, 512}},
      {SwizzleMode::B32, 16, {2, 4, 8, 16}, {32, 64, 144, 256, 512, 1024}},
      {SwizzleMode::B64, 32, {2, 4, 8, 16, 32}, {64, 144, 288, 512, 1024, 2048}},
      {SwizzleMode::B128, 64, {2, 4, 8, 16, 32, 64}, {144, 288, 576, 1024, 2048, 4096}},
  };
  for (const Row &row : table) {
    LinearLayout kMajor = sharedSwizzled({64, row.width}, rowMajor, 16, row.mode);
    EXPECT_EQ(byteBases(kMajor, Dim::Dim1, 2), row.inner);
    EXPECT_EQ(byteBases(kMajor, Dim::Dim0, 2), row.rows);
    // MN-major {r, k}: the roles are exchanged.
    LinearLayout mnMajor = sharedSwizzled({row.width, 64}, colMajor, 16, row.mode);
    EXPECT_EQ(byteBases(mnMajor, Dim::Dim0, 2), row.inner);
    EXPECT_EQ(byteBases(mnMajor, Dim::Dim1, 2), row.rows);
  }
  // The three-dimensional box: 128 rows of 256 bf16 as four swizzled blocks.
  LinearLayout wide = sharedSwizzled({128, 256}, rowMajor, 16, SwizzleMode::B128);
  EXPECT_EQ(byteBases(wide, Dim::Dim1, 2), (Bytes{2, 4, 8, 16, 32, 64, 16384, 32768}));
  EXPECT_EQ(byteBases(wide, Dim::Dim0, 2), (Bytes{144, 288, 576, 1024, 2048, 4096, 8192}));
  EXPECT_EQ(sharedLinear({4, 8}, rowMajor).print(), "offset: (0,1) (0,2) (0,4) (1,0) (2,0) -> dim0 4, dim1 8");
  EXPECT_EQ(sharedLinear({4, 8}, colMajor).print(), "offset: (1,0) (2,0) (0,1) (0,2) (0,4) -> dim0 4, dim1 8");
  EXPECT_EQ(widestSwizzle(64), SwizzleMode::B64);
  EXPECT_FALSE(widestSwizzle(8).has_value());
}

TEST(Constructors, SwizzleIsTheHardwareFormula) {
  for (unsigned bytes : {1u, 2u, 4u, 8u})
    for (SwizzleMode mode : {SwizzleMode::None, SwizzleMode::B32, SwizzleMode::B64, SwizzleMode::B128}) {
      int64_t width = static_cast<int64_t>(mode), cols = 2 * width / bytes, rows = 32, mask = width / 16 - 1;
      LinearLayout where = sharedSwizzled({rows, cols}, {1, 0}, bytes * 8, mode).invert();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          int64_t b = c * bytes, lin = r * width + b % width + b / width * width * rows;
          int64_t address = lin ^ (((lin >> 7) & mask) << 4);
          uint64_t got = where.apply(where.flatIn({{Dim::Dim0, uint64_t(r)}, {Dim::Dim1, uint64_t(c)}}));
          ASSERT_EQ(static_cast<int64_t>(got) * bytes, address);
        }
    }
}

TEST(Constructors, Blocked) {
  EXPECT_EQ(dealt({1024}, {0}, 4, {32, 4}).print(),
            "register: 1 2 512; lane: 4 8 16 32 64; warp: 128 256 -> dim0 1024");
  EXPECT_EQ(dealt({64, 8}, {1, 0}, 8, {32, 4}).print(),
            "register: (0,1) (0,2) (0,4); lane: (1,0) (2,0) (4,0) (8,0) (16,0); warp: (32,0) (0,0) -> dim0 64, dim1 8");
  EXPECT_EQ(dealt({4, 2}, {1, 0}, 4, {32, 1}).print(),
            "register: (0,1); lane: (1,0) (2,0) (0,0) (0,0) (0,0); warp: - -> dim0 4, dim1 2");
  EXPECT_EQ(dealt({256}, {0}, 4, {64, 2}).print(), "register: 1 2; lane: 4 8 16 32 64 128; warp: 0 -> dim0 256");
  EXPECT_EQ(
      dealtByRows({64, 64}, {32, 4}).print(),
      "register: (0,1) (0,2) (8,0) (16,0) (32,0); lane: (0,4) (0,8) (0,16) (0,32) (1,0); warp: (2,0) (4,0) -> dim0 64, dim1 64");
  EXPECT_EQ(
      dealtAlong({4, 256}, 1, {32, 1}).print(),
      "register: (0,1) (0,2) (0,4) (0,8) (0,16); lane: (0,32) (0,64) (0,128) (1,0) (2,0); warp: - -> dim0 4, dim1 256");
  LinearLayout cluster = overBlocks(dealt({64}, {0}, 1, {32, 2}), {4}, {0}, 2);
  EXPECT_EQ(cluster.print(), "register: -; lane: 1 2 4 8 16; warp: 32; block: 64 128 0 -> dim0 256");
  LinearLayout one = tegula::layout::scalar({32, 4});
  EXPECT_EQ(one.totalOutBits(), 0u);
  EXPECT_EQ(one.inSize(Dim::Lane), 32);
  EXPECT_EQ(one.inSize(Dim::Warp), 4);
}

// As few lines along both axes as can be: 8 + 4, and 8 + 8.
TEST(Constructors, LinesOfBothAxes) {
  EXPECT_EQ(
      dealtAcross({128, 32}, {0, 1}, 8, {32, 4}).print(),
      "register: (0,1) (0,2) (0,4) (32,0) (64,0); lane: (1,0) (2,0) (4,0) (8,0) (16,0); warp: (0,8) (0,16) -> dim0 128, dim1 32");
  EXPECT_EQ(
      dealtAcross({64, 256}, {1, 0}, 8, {32, 8}).print(),
      "register: (1,0) (2,0) (4,0) (0,32) (0,64) (0,128); lane: (0,1) (0,2) (0,4) (0,8) (0,16); warp: (8,0) (16,0) (32,0) -> dim0 64, dim1 256");
  for (unsigned warps : {1u, 4u, 16u}) // lanes and warps that one axis has no elements for take the other's
    EXPECT_TRUE(dealtAcross({16, 64}, {0, 1}, 1, {32, warps}).isSurjective());
}

// A thread's runs lie side by side in the tile, eight lanes write theirs to different banks, and they read whole
// sectors of the other axis.
TEST(Constructors, BlocksAreTurnedWithoutConflicts) {
  EXPECT_EQ(
      dealtInBlocks({32, 128}, {1, 0}, 4, 4, {32, 8}).print(),
      "register: (0,1) (0,2) (1,0) (2,0); lane: (0,4) (4,0) (8,0) (0,8) (0,16); warp: (0,32) (0,64) (16,0) -> dim0 32, dim1 128");
  for (int64_t k : {8, 16, 32, 64})
    for (int64_t n : {32, 64, 128, 256})
      for (unsigned warps : {4u, 8u}) {
        const int64_t run = std::min<int64_t>(4, n * k / 4 / (32 * warps));
        if (run < 1)
          continue;
        const LinearLayout l = dealtInBlocks({k, n}, {1, 0}, 4, run, {32, warps});
        EXPECT_TRUE(l.isSurjective() && l.isProjectedPermutation()) << l.print();
        const LinearLayout tile = sharedSwizzled({k, n}, {0, 1}, 32, *widestSwizzle(4 * k)),
                           at = l.invertAndCompose(tile);
        auto address = [&](Dim d, unsigned bit) { return 4 * at.apply(at.ins().flat(d, uint64_t{1} << bit)); };
        for (unsigned i = 0; (1 << i) < run; ++i)
          EXPECT_EQ(address(Dim::Register, 2 + i), 4u << i);
        std::vector<uint64_t> lanes;
        for (unsigned i = 0; i < 5; ++i)
          lanes.push_back(address(Dim::Lane, i));
        const unsigned least = static_cast<unsigned>(run), most = k >= 32 && run == 4 ? least : 4 * least;
        EXPECT_LE(linearWavefronts(lanes, 4 * static_cast<unsigned>(run)), most)
            << k << " x " << n << ": " << l.print();
        // The ring that it passes through: a line of memory in a row of banks, and no conflicts of those that read.
        const LinearLayout ring = sharedRows(l, 1, 4, 32), from = l.invertAndCompose(ring);
        EXPECT_TRUE(ring.isInvertible());
        std::vector<uint64_t> read;
        for (unsigned i = 0; i < 5; ++i)
          read.push_back(4 * from.apply(from.ins().flat(Dim::Lane, uint64_t{1} << i)));
        if (n >= 32)
          EXPECT_EQ(linearWavefronts(read, 16), 4u) << ring.print();
        for (int64_t word = 1; word < 32; word *= 2)
          EXPECT_EQ(ring.invert().apply(ring.outs().flat(Dim::Dim1, static_cast<uint64_t>(word))),
                    static_cast<uint64_t>(word));
      }
}

TEST(Constructors, DealtIsSurjectiveForEveryShape) {
  Random rnd(11);
  for (int k = 0; k < 2000; ++k) {
    unsigned rank = 1 + static_cast<unsigned>(rnd.below(4));
    Extents shape, order;
    for (unsigned i = 0; i < rank; ++i)
      shape.push(int64_t{1} << rnd.below(7)), order.push(rank - 1 - i);
    unsigned lanes = 16u << rnd.below(3), warps = 1u << rnd.below(4);
    LinearLayout l = dealt(shape, order, 1u << rnd.below(5), {lanes, warps});
    EXPECT_TRUE(l.isSurjective() && l.isProjectedPermutation()) << l.print();
    EXPECT_EQ(l.inSize(Dim::Warp), warps);
    EXPECT_EQ(l.inSize(Dim::Lane), lanes);
    EXPECT_EQ(l.freeMask(Dim::Register), 0u);
    EXPECT_EQ(shapeOf(l), shape);
  }
}

/// The place in slice(l, axis) of place `x` of `l`: registers that tell elements apart by that axis alone are gone.
uint64_t placeInSlice(const LinearLayout &l, unsigned axis, uint64_t x) {
  uint64_t place = 0;
  for (unsigned i = 0, to = 0; i < l.totalInBits(); ++i)
    if (i >= l.inBits(Dim::Register) || l.bases()[i] & ~l.outs().mask(tensorDim(axis)))
      place |= (x >> i & 1) << to++;
  return place;
}

TEST(Constructors, ShapeOpsAreImages) {
  Random rnd(12);
  for (int k = 0; k < 1000; ++k) {
    Extents shape{int64_t{1} << rnd.below(4), int64_t{1} << rnd.below(4), int64_t{1} << rnd.below(4)};
    LinearLayout l = rnd.distributed(tensorDims(shape), 4, 2, rnd.chance(50)).removeZeroBases(Dim::Register);
    unsigned axis = static_cast<unsigned>(rnd.below(3));
    uint64_t x = rnd.bits(l.totalInBits());
    // slice: each place has the element that it had, without the axis; expandDims gives it a coordinate 0.
    LinearLayout s = slice(l, axis);
    EXPECT_TRUE(s.isSurjective());
    EXPECT_EQ(s, s.removeZeroBases(Dim::Register));
    uint64_t place = placeInSlice(l, axis, x);
    for (unsigned i = 0; i < 3; ++i)
      if (i != axis)
        EXPECT_EQ(s.outs().part(s.apply(place), tensorDim(i - (i > axis))), l.outs().part(l.apply(x), tensorDim(i)))
            << l.print() << "\n"
            << s.print();
    EXPECT_EQ(slice(expandDims(s, axis), axis), s);
    // permute and back.
    Extents perm{2, 0, 1}, back{1, 2, 0};
    EXPECT_EQ(permute(permute(l, perm), back), l);
    LinearLayout p = permute(l, perm);
    for (unsigned i = 0; i < 3; ++i)
      EXPECT_EQ(p.outs().part(p.apply(x), tensorDim(i)),
                l.outs().part(l.apply(x), tensorDim(static_cast<unsigned>(perm[i]))));
    // reshape: row-major index unchanged, and the flat output is the row-major index.
    EXPECT_EQ(reshape(reshape(l, {shape.product()}), shape), l);
    EXPECT_EQ(reshape(l, {shape.product()}).apply(x), l.apply(x));
    // What is joined, concatenated or gathered, and taken apart.
    LinearLayout j = join(l);
    EXPECT_EQ(splittable(j), j);
    EXPECT_EQ(slice(j, 3), l);
    EXPECT_EQ(j.basis(Dim::Register, 0), uint64_t{1});
    EXPECT_EQ(cut(concatenate(l, axis), shape), l);
    EXPECT_EQ(cut(gather(l, 4), {1, shape[0], shape[1], shape[2]}), expandDims(l, 0));
    EXPECT_EQ(slice(gather(l, 4), 0), l);
    // A place of the cut-off part has the element with the rest of the coordinates.
    Extents half = shape;
    half[axis] = std::max<int64_t>(1, half[axis] / 2);
    LinearLayout part = cut(l, half);
    EXPECT_TRUE(part.isSurjective());
    EXPECT_EQ(shapeOf(part), half);
  }
  // A pair that lies in two threads comes into one, and something else goes there; without that both hold the pair.
  LinearLayout apart =
      LinearLayout::tensor({4, 2}, {{Dim::Register, {{1, 0}}}, {Dim::Lane, {{0, 1}}}, {Dim::Warp, {{2, 0}}}});
  EXPECT_EQ(splittable(apart).print(), "register: (0,1); lane: (1,0); warp: (2,0) -> dim0 4, dim1 2");
  LinearLayout single =
      LinearLayout::tensor({4, 2}, {{Dim::Register, {}}, {Dim::Lane, {{1, 0}, {0, 1}}}, {Dim::Warp, {{2, 0}}}});
  EXPECT_EQ(splittable(single).print(), "register: (0,1); lane: (1,0) (0,0); warp: (2,0) -> dim0 4, dim1 2");
  // Copies become the pair.
  EXPECT_EQ(joinOverThreads(slice(splittable(single), 1)), single);
  EXPECT_EQ(joinOverThreads(slice(splittable(apart), 1)), splittable(apart));
}

TEST(Constructors, FmaOperands) {
  LinearLayout c = fmaAccumulator({16, 16}, {32, 2});
  EXPECT_EQ(c.print(), "register: (0,1) (8,0); lane: (0,2) (0,4) (0,8) (1,0) (2,0); warp: (4,0) -> dim0 16, dim1 16");
  EXPECT_EQ(fmaOperand(c, 0, 4).print(),
            "register: (8,0) (0,1) (0,2); lane: (0,0) (0,0) (0,0) (1,0) (2,0); warp: (4,0) -> dim0 16, dim1 4");
  EXPECT_EQ(fmaOperand(c, 1, 4).print(),
            "register: (0,1) (1,0) (2,0); lane: (0,2) (0,4) (0,8) (0,0) (0,0); warp: (0,0) -> dim0 4, dim1 16");
}

} // namespace
