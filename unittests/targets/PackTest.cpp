// Operands of dot on their way into packed buffers: matmul with wrapped rows and columns, masked k, any layout of the
// operands, on every target this machine can run; and that the fast way is taken where there is one (instructions in
// the assembly).
#include "KernelHarness.h"
#include <algorithm>
#include <random>
#include <regex>
#include <sstream>

using namespace tegula;
using namespace tegula::cpu;
using test::Kernel;

namespace {

struct Blocks {
  int m, n, k;
};

struct Layout {
  bool aTransposed, bTransposed; // k is not the contiguous dimension of A; n is not that of B
  bool masked = true;            // k; else its extent is a multiple of the tile's
};

std::string shape(int rows, int columns, const std::string &elem) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + elem + ">";
}

/// Lines that define %<name>: a tile of pointers, rows x columns of `elem`, from the index vectors %<row> and %<column>
/// (i32, of these lengths) and the scalar strides %<rowStride> and %<columnStride>; and %<name>rb, %<name>cb, the
/// indices broadcast.
std::string pointers(const std::string &name, const std::string &base, const std::string &elem, int rows, int columns,
                     const std::string &row, const std::string &column, const std::string &rowStride,
                     const std::string &columnStride) {
  std::string n = "%" + name, t = shape(rows, columns, "i32"), p = shape(rows, columns, "ptr<" + elem + ">");
  std::string rt = shape(rows, 1, "i32"), ct = shape(1, columns, "i32");
  return n + "re = expand_dims " + row + " {axis = 1} : " + rt + "\n" + n + "ce = expand_dims " + column +
         " {axis = 0} : " + ct + "\n" + n + "rb = broadcast " + n + "re : " + t + "\n" + n + "cb = broadcast " + n +
         "ce : " + t + "\n" + n + "rs = splat " + rowStride + " : " + rt + "\n" + n + "cs = splat " + columnStride +
         " : " + ct + "\n" + n + "rm = mul " + n + "re, " + n + "rs\n" + n + "cm = mul " + n + "ce, " + n + "cs\n" + n +
         "rx = broadcast " + n + "rm : " + t + "\n" + n + "cx = broadcast " + n + "cm : " + t + "\n" + n + "o = add " +
         n + "rx, " + n + "cx\n" + n + "ps = splat " + base + " : " + p + "\n" + n + " = addptr " + n + "ps, " + n +
         "o\n";
}

/// c = a * b as the usual tile kernel has it: rows and columns modulo the extents, k masked.
std::string matmul(const std::string &elem, const std::string &acc, Blocks t, Layout l) {
  auto range = [](const std::string &name, int n, const std::string &start) {
    std::string s = "tensor<" + std::to_string(n) + "xi32>";
    return name + "r = range {start = 0} : " + s + "\n" + name + "s = splat " + start + " : " + s + "\n" + name +
           " = add " + name + "r, " + name + "s\n";
  };
  auto wrapped = [](const std::string &name, const std::string &of, int n, const std::string &bound) {
    return name + "b = splat " + bound + " : tensor<" + std::to_string(n) + "xi32>\n" + name + " = srem " + of + ", " +
           name + "b\n";
  };
  auto constant = [](const std::string &name, int value) {
    return name + " = const {value = " + std::to_string(value) + "} : i32\n";
  };
  std::string zero = acc == "i32" ? "0" : "0.0", none = elem[0] == 'i' ? "0" : "0.0";
  std::string s =
      "kernel @mm(%a: ptr<" + elem + ">, %b: ptr<" + elem + ">, %c: ptr<" + acc +
      ">, %M: i32, %N: i32, %K: i32, %lda: i32, %ldb: i32) {\n" + constant("%zero", 0) + constant("%one", 1) +
      constant("%bm", t.m) + constant("%bn", t.n) + constant("%bk", t.k) +
      "%pm = program_id {axis = 0} : i32\n%pn = program_id {axis = 1} : i32\n%m0 = mul %pm, %bm\n%n0 = mul %pn, %bn\n" +
      range("%rows", t.m, "%m0") + range("%cols", t.n, "%n0") + wrapped("%wm", "%rows", t.m, "%M") +
      wrapped("%wn", "%cols", t.n, "%N");
  s += "%acc0 = const {value = " + zero + "} : " + shape(t.m, t.n, acc) + "\n%other = const {value = " + none +
       "} : " + shape(t.m, t.k, elem) + "\n%otherb = const {value = " + none + "} : " + shape(t.k, t.n, elem) + "\n";
  s += "%r = for %zero, %K, %bk, %acc0 : " + shape(t.m, t.n, acc) + " (%i: i32, %acc: " + shape(t.m, t.n, acc) +
       ") {\n" + range("%ks", t.k, "%i");
  s += pointers("A", "%a", elem, t.m, t.k, "%wm", "%ks", l.aTransposed ? "%one" : "%lda",
                l.aTransposed ? "%lda" : "%one");
  s += pointers("B", "%b", elem, t.k, t.n, "%ks", "%wn", l.bTransposed ? "%one" : "%ldb",
                l.bTransposed ? "%ldb" : "%one");
  s += "%ka = splat %K : " + shape(t.m, t.k, "i32") + "\n%ma = cmpi %Acb, %ka {pred = slt}\n%kb = splat %K : " +
       shape(t.k, t.n, "i32") + "\n%mb = cmpi %Brb, %kb {pred = slt}\n";
  const std::string underA = l.masked ? ", %ma, %other" : "", underB = l.masked ? ", %mb, %otherb" : "";
  s += "%av = load %A" + underA + " : " + shape(t.m, t.k, elem) + "\n%bv = load %B" + underB + " : " +
       shape(t.k, t.n, elem) + "\n%d = dot %av, %bv, %acc {precision = \"ieee\"} : " + shape(t.m, t.n, acc) +
       "\nyield %d\n}\n";
  s += pointers("C", "%c", acc, t.m, t.n, "%rows", "%cols", "%N", "%one");
  s +=
      "%Mb = splat %M : " + shape(t.m, t.n, "i32") + "\n%Nb = splat %N : " + shape(t.m, t.n, "i32") +
      "\n%mm = cmpi %Crb, %Mb {pred = slt}\n%mn = cmpi %Ccb, %Nb {pred = slt}\n%in = and %mm, %mn\nstore %C, %r, %in\n}\n";
  return s;
}

struct Kind {
  const char *elem, *acc;
};

/// Small integers: exact in every format, and so are the sums.
template <typename T> void put(std::vector<uint8_t> &bytes, size_t i, T x) {
  std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
}
void put(std::vector<uint8_t> &bytes, size_t i, const std::string &elem, int x) {
  auto f = static_cast<float>(x);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (elem == "f32")
    return put(bytes, i, f);
  if (elem == "i8")
    return put(bytes, i, static_cast<int8_t>(x));
  if (elem == "bf16")
    return put(bytes, i, static_cast<uint16_t>(bits >> 16));
  uint32_t exponent = bits >> 23 & 255; // f16
  put(bytes, i, static_cast<uint16_t>((bits >> 16 & 0x8000) | (x ? (exponent - 112) << 10 | (bits >> 13 & 1023) : 0)));
}

void runMatmul(const CpuTarget &target, Kind kind, Blocks t, Layout l, int M, int N, int K) {
  SCOPED_TRACE(target.cpu + " " + kind.elem + " block " + std::to_string(t.m) + "x" + std::to_string(t.n) + "x" +
               std::to_string(t.k) + " size " + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) +
               (l.aTransposed ? " At" : "") + (l.bTransposed ? " Bt" : ""));
  Kernel k(matmul(kind.elem, kind.acc, t, l), target, {});
  ASSERT_TRUE(k.entry) << k.error;
  std::mt19937 rng(static_cast<unsigned>(M * 31 + N * 7 + K));
  std::vector<int> a(static_cast<size_t>(M * K)), b(static_cast<size_t>(K * N));
  size_t bytes = std::string(kind.elem) == "f32" ? 4 : std::string(kind.elem) == "i8" ? 1 : 2;
  std::vector<uint8_t> av(a.size() * bytes), bv(b.size() * bytes);
  int lda = l.aTransposed ? M : K, ldb = l.bTransposed ? K : N;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < K; ++j)
      put(av, static_cast<size_t>(l.aTransposed ? j * lda + i : i * lda + j), kind.elem,
          a[static_cast<size_t>(i * K + j)] = static_cast<int>(rng() % 9) - 4);
  for (int i = 0; i < K; ++i)
    for (int j = 0; j < N; ++j)
      put(bv, static_cast<size_t>(l.bTransposed ? j * ldb + i : i * ldb + j), kind.elem,
          b[static_cast<size_t>(i * N + j)] = static_cast<int>(rng() % 9) - 4);
  std::vector<int32_t> c(static_cast<size_t>(M * N), -1);
  ASSERT_EQ(k.run({av, bv, c, M, N, K, lda, ldb}, (M + t.m - 1) / t.m, (N + t.n - 1) / t.n), 0);
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      int want = 0;
      for (int x = 0; x < K; ++x)
        want += a[static_cast<size_t>(i * K + x)] * b[static_cast<size_t>(x * N + j)];
      int32_t bits = c[static_cast<size_t>(i * N + j)];
      float f;
      std::memcpy(&f, &bits, 4);
      ASSERT_EQ(kind.acc == std::string("i32") ? static_cast<float>(bits) : f, static_cast<float>(want))
          << i << "," << j;
    }
}

class Pack : public testing::TestWithParam<std::string> {};

TEST_P(Pack, MatmulOfAnyLayout) {
  if (!test::runsHere(GetParam()))
    GTEST_SKIP() << "this machine cannot run " << GetParam();
  const Kind kinds[] = {{"f32", "f32"}, {"f16", "f32"}, {"bf16", "f32"}, {"i8", "i32"}};
  for (Kind kind : kinds)
    for (int layout = 0; layout < 4; ++layout) {
      Layout l{(layout & 1) != 0, (layout & 2) != 0};
      runMatmul(*parseTarget(GetParam()), kind, {32, 64, 32}, l, 64, 128, 96); // full tiles
      // everything odd: wraps inside vectors, masked k
      runMatmul(*parseTarget(GetParam()), kind, {32, 64, 32}, l, 61, 117, 75);
    }
}

TEST_P(Pack, MatmulOfSmallAndWideBlocks) {
  if (!test::runsHere(GetParam()))
    GTEST_SKIP() << "this machine cannot run " << GetParam();
  const Kind kinds[] = {{"bf16", "f32"}, {"i8", "i32"}, {"f32", "f32"}};
  for (Kind kind : kinds)
    for (Blocks t : {Blocks{16, 16, 16}, {16, 8, 4}, {2, 256, 16}, {128, 2, 64}, {4, 16, 2}, {64, 32, 128}})
      for (int layout = 0; layout < 4; layout += 3)
        runMatmul(*parseTarget(GetParam()), kind, t, {layout > 0, layout > 0}, t.m + 3, t.n * 2 - 1, t.k * 2 + 1);
}

/// A machine whose caches are so small that every dot with more than a panel of columns packs by panels, of 64 rows.
CpuTarget withSmallCaches(const std::string &name) {
  CpuTarget t = *parseTarget(name);
  t.l1Bytes = t.l2Bytes = 1024;
  return t;
}

TEST_P(Pack, RightOperandByPanels) {
  if (!test::runsHere(GetParam()))
    GTEST_SKIP() << "this machine cannot run " << GetParam();
  auto wrapped = [&](Kind kind, Blocks t, bool transposed) {
    runMatmul(withSmallCaches(GetParam()), kind, t, {transposed, transposed}, t.m + 3, t.n * 2 - 11, t.k * 2 - 53);
  };
  runMatmul(withSmallCaches(GetParam()), {"f32", "f32"}, {16, 128, 128}, {false, false}, 32, 128, 256);
  for (Kind kind : {Kind{"f32", "f32"}, {"bf16", "f32"}, {"i8", "i32"}})
    for (bool transposed : {false, true})
      wrapped(kind, {16, 64, 128}, transposed);
  wrapped({"f16", "f32"}, {2, 512, 64}, false); // panels wider than the lanes and copies
}

// Lines of the next panel are fetched before parts of the loop along k. Where the parts are three, or seven, the last
// one is shorter.
TEST_P(Pack, PartsOfDepth) {
  if (!test::runsHere(GetParam()))
    GTEST_SKIP() << "this machine cannot run " << GetParam();
  for (Kind kind : {Kind{"f32", "f32"}, {"i8", "i32"}})
    for (Blocks t : {Blocks{32, 64, 512}, {64, 64, 1024}})
      runMatmul(*parseTarget(GetParam()), kind, t, {false, false, false}, t.m, t.n * 2, t.k * 2);
}

INSTANTIATE_TEST_SUITE_P(Targets, Pack, testing::ValuesIn(knownTargetNames()), test::testName);

std::string assembly(const std::string &text, const std::string &target) {
  return test::stage(text, *parseTarget(target), Stage::Asm);
}

size_t count(const std::string &text, const std::string &what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

// Pairs of k rows side by side: two whole rows are read, shuffled and stored; no element moves alone.
TEST(Packing, PairPanelsByWholeVectors) {
  std::string s = assembly(matmul("bf16", "f32", {64, 64, 64}, {false, false}), "cpu:avx512bf16");
  EXPECT_GT(count(s, "vdpbf16ps"), 0u);
  EXPECT_EQ(count(s, "vpinsrw"), 0u);
  EXPECT_EQ(count(s, "vpextrw"), 0u);
  EXPECT_EQ(count(s, "scatter"), 0u);
  size_t shuffles = count(s, "vpermt2w") + count(s, "vpermi2w") + count(s, "vpunpck");
  EXPECT_GE(shuffles, 2u);
  EXPECT_LE(shuffles, 64u);
  // The way that wraps around is there once per chunk, as a loop: the whole kernel stays small.
  EXPECT_LT(count(s, "\n"), 3000u);
}

TEST(Packing, GroupsOfFourAndSmallerRegisters) {
  for (const char *target : {"cpu:avx2vnni", "cpu:avx512bf16"}) {
    std::string fours = assembly(matmul("i8", "i32", {64, 64, 64}, {false, false}), target);
    EXPECT_GT(count(fours, "vpdpbusd"), 0u) << target;
    EXPECT_EQ(count(fours, "pmaddwd"), 0u) << target;
    EXPECT_LT(count(fours, "vpextrb"), 64u) << target; // masks of AVX2 only, where a matrix ends
  }
  for (const char *target : {"cpu:x86-64", "cpu:avx2", "cpu:avx512"}) {
    std::string pairs = assembly(matmul("i8", "i32", {64, 64, 64}, {false, false}), target);
    EXPECT_GT(count(pairs, "pmaddwd"), 0u) << target;
    EXPECT_EQ(count(pairs, "pextrw"), 0u) << target;
  }
}

// A transposed operand: whole vectors are read and written, 16 x 16 elements turned by shuffles in between; 8 x 8 and 4
// x 4 on smaller registers. No gathers, no single elements.
TEST(Packing, TransposedOperandsByShuffles) {
  struct Case {
    const char *target, *elem;
    Layout layout;
    size_t shuffles; // of two vectors, at least: stages times vectors
  };
  // A of single floats is copied column by column (ColumnsOfA.h).
  const Case cases[] = {{"cpu:avx512bf16", "bf16", {false, true}, 60},
                        {"cpu:avx512bf16", "bf16", {true, true}, 120},
                        {"cpu:avx512", "f32", {false, true}, 60},
                        {"cpu:avx2", "f32", {false, true}, 24}};
  for (const Case &c : cases) {
    SCOPED_TRACE(std::string(c.target) + " " + c.elem + (c.layout.aTransposed ? " At" : " Bt"));
    std::string s = assembly(matmul(c.elem, "f32", {64, 64, 64}, c.layout), c.target);
    EXPECT_GE(count(s, "vperm") + count(s, "vunpck") + count(s, "vshuf") + count(s, "vblend") + count(s, "vinsert"),
              c.shuffles);
    for (const char *slow : {"gather", "scatter", "vpinsrw", "vpextrw", "vinsertps"})
      EXPECT_EQ(count(s, slow), 0u) << slow;
    EXPECT_LT(count(s, "\n"), 6000u);
  }
}

// B goes panel by panel, rows ahead fetched; with few rows, which are as fast as memory, only if A, B and C would fill
// half of L2.
TEST(Packing, ByPanels) {
  auto byPanels = [](Blocks t, const char *name, uint64_t l2Bytes) {
    CpuTarget target = *parseTarget(name);
    target.l2Bytes = l2Bytes;
    std::string text = matmul("f32", "f32", t, {false, false}), plan = test::stage(text, target, Stage::Plan);
    bool panels = count(plan, "B by panels of ") == 1;
    EXPECT_EQ(count(test::stage(text, target, Stage::Asm), "prefetch") > 0, panels);
    EXPECT_EQ(count(plan, ": 65536 x f32"), panels || t.k * t.n != 65536 ? 0u : 1u); // the buffer of B
    return panels;
  };
  EXPECT_TRUE(byPanels({128, 256, 256}, "cpu:avx2", 512 << 10));
  EXPECT_TRUE(byPanels({128, 256, 256}, "cpu:avx512", 1 << 20));
  EXPECT_TRUE(byPanels({64, 64, 64}, "cpu:avx2", 512 << 10));
  EXPECT_TRUE(byPanels({32, 16, 32}, "cpu:avx2", 512 << 10)); // one panel
  EXPECT_FALSE(byPanels({2, 256, 256}, "cpu:avx2", 1 << 20));
  EXPECT_TRUE(byPanels({2, 256, 256}, "cpu:avx2", 256 << 10));
}

/// Basic blocks with multiply-adds of vectors: how many, lines that use the stack (but for a loop's end that its
/// counter is compared with), whether the block is a loop by itself, and lines with a vector on the stack.
struct DotBlock {
  size_t multiplyAdds, stack;
  bool loops;
  size_t vectorsOnStack;
};
std::vector<DotBlock> dotBlocks(const std::string &text) {
  std::vector<DotBlock> blocks;
  std::string body, label;
  size_t vectors = 0, ends = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    body += line + "\n";
    ends += line.starts_with("\tcmpq\t") && count(line, "(%rsp)");
    vectors += count(line, "mm") && count(line, "(%rsp)");
    const bool isLabel = line.starts_with(".LBB");
    if (!isLabel && !line.starts_with("\tj"))
      continue;
    if (size_t n = count(body, "\tvfmadd") + count(body, "\tvdpbf16ps"))
      blocks.push_back({n, count(body, "(%rsp)") - ends, !label.empty() && line.ends_with("\t" + label), vectors});
    body.clear();
    vectors = ends = 0;
    label = isLabel ? line.substr(0, line.find(':')) : "";
  }
  return blocks;
}

// Four vectors of columns: the multiply-adds keep all vectors in registers.
TEST(Packing, WideBlocksStayInRegisters) {
  CpuTarget target = *parseTarget("cpu:avx512");
  target.l2Bytes = 2 << 20;
  const std::vector<DotBlock> blocks =
      dotBlocks(test::stage(matmul("f32", "f32", {128, 256, 64}, {false, false}), target, Stage::Asm));
  for (size_t n : {96, 64}) { // of blocks of six rows; of four
    EXPECT_EQ(std::ranges::count_if(blocks, [&](const DotBlock &b) { return b.multiplyAdds == n; }), 1);
    EXPECT_TRUE(
        std::ranges::none_of(blocks, [&](const DotBlock &b) { return b.multiplyAdds == n && b.vectorsOnStack; }));
  }
}

// The loop that packs a panel multiplies the first block of rows, in its copies with masks and without; the loops over
// the others keep all that they need in registers though the rows of A are a stride apart that is known at run time
// only. Where no row of the panel wraps around, the copy without masks does not ask for it in each trip. A chunk that
// has to be turned around leaves no registers for that.
TEST(Packing, FirstRowsInThePackingLoop) {
  struct Case {
    const char *target, *elem;
    bool transposed;
    size_t first, others[2];
  };
  for (const Case &c : {Case{"cpu:avx512bf16", "f32", false, 24, {96, 64}},
                        {"cpu:avx512bf16", "bf16", false, 24, {96, 64}},
                        {"cpu:avx512bf16", "f32", true, 24, {96, 64}},
                        {"cpu:avx2", "f32", false, 12, {48, 32}},
                        {"cpu:avx2", "f32", true, 12, {48, 32}}}) {
    SCOPED_TRACE(std::string(c.target) + " " + c.elem + (c.transposed ? " transposed" : ""));
    std::vector<DotBlock> blocks =
        dotBlocks(assembly(matmul(c.elem, "f32", {128, 256, 64}, {false, c.transposed}), c.target));
    auto blocksOf = [&](size_t n) {
      return std::ranges::count_if(blocks, [&](const DotBlock &b) { return b.multiplyAdds == n; });
    };
    EXPECT_EQ(blocksOf(c.first), c.transposed ? 0 : 2);
    EXPECT_EQ(std::ranges::any_of(blocks, [&](const DotBlock &b) { return b.multiplyAdds == c.first && b.loops; }),
              !c.transposed);
    for (size_t n : c.others) {
      EXPECT_EQ(blocksOf(n), 1);
      EXPECT_TRUE(std::ranges::none_of(blocks, [&](const DotBlock &b) { return b.multiplyAdds == n && b.stack; }));
    }
  }
}

// The rows of the next panel are fetched by the multiply-adds of this one, a line at a time, and lines of A's next
// tile; with few blocks of rows, by the loop that packs. With AVX-512 and a small L2 they are fetched before the blocks
// of rows, in loops of nothing else.
TEST(Packing, FetchesTheNextPanel) {
  // in loops by themselves, among multiply-adds
  auto fetches = [](Blocks t, const char *name, uint64_t l2Bytes = 256 << 10) {
    CpuTarget target = *parseTarget(name);
    target.l2Bytes = l2Bytes;
    std::pair<size_t, size_t> r;
    std::istringstream in(test::stage(matmul("f32", "f32", t, {false, false}), target, Stage::Asm));
    std::string body;
    for (std::string line; std::getline(in, line);) {
      body += line + "\n";
      if (!line.starts_with(".LBB") && !line.starts_with("\tj"))
        continue;
      const bool multiplies = count(body, "\tvfmadd") != 0, alone = count(body, "\n") <= 5;
      (multiplies ? r.second : r.first) += multiplies || alone ? count(body, "\tprefetch") : 0;
      body.clear();
    }
    return r;
  };
  // Two kinds of blocks of rows; a row is one line or two.
  EXPECT_EQ(fetches({128, 256, 256}, "cpu:avx2").first, 0);
  EXPECT_GE(fetches({128, 256, 256}, "cpu:avx2").second, 2);
  EXPECT_GE(fetches({128, 256, 256}, "cpu:avx512").first, 4);
  EXPECT_EQ(fetches({128, 256, 256}, "cpu:avx512").second, 0);
  // two kinds of blocks of rows, each a line of A and one of B
  EXPECT_GE(fetches({128, 256, 256}, "cpu:avx512", 2 << 20).second, 4);
  EXPECT_EQ(fetches({128, 256, 256}, "cpu:avx512", 2 << 20).first, 0);
  EXPECT_EQ(fetches({16, 256, 256}, "cpu:avx2").first, 0);
  EXPECT_GT(fetches({16, 256, 256}, "cpu:avx2").second, 0);
}

// Two loops over the same dot: its packing and multiply-adds are there once.
TEST(Packing, EqualDotsAreOneFunction) {
  std::string once = matmul("f32", "f32", {64, 64, 64}, {false, false}),
              loop = once.substr(once.find("%r = for"), once.find("%Cre =") - once.find("%r = for"));
  std::string second = loop, names;
  for (size_t at = 0; (at = second.find("%acc0", at)) != second.npos; at += 2)
    second.replace(at, 5, "%r");
  second.replace(0, 2, "%q");
  std::string twice = once;
  twice.insert(once.find("%Cre ="), second);
  for (size_t at = twice.find("store %C, %r"); at != twice.npos; at = twice.npos)
    twice.replace(at, 12, "store %C, %q");
  const CpuTarget target = *parseTarget("cpu:avx2");
  auto products = [&](const std::string &text) { return count(test::stage(text, target, Stage::Asm), "\tvfmadd"); };
  EXPECT_GT(products(once), 0);
  EXPECT_EQ(products(twice), products(once));
}

// Rows that a mask switches off are read, and fetched ahead, from memory of nobody's: after the end of a matrix there
// may be no pages, and x86 takes hundreds of cycles for a load of nothing there.
TEST(Packing, NoLoadsBehindTheMatrix) {
  for (const char *target : {"cpu:avx2", "cpu:avx512bf16"}) {
    SCOPED_TRACE(target);
    std::istringstream text(
        test::stage(matmul("f32", "f32", {128, 256, 64}, {false, false}), *parseTarget(target), Stage::Llvm));
    std::string blank, from;
    size_t loads = 0, fetches = 0;
    for (std::string line; std::getline(text, line);) {
      if (line.find("= alloca [256 x i8]") != line.npos)
        blank = line.substr(2, line.find(' ', 2) - 2);
      if (line.find("= select i1") != line.npos && !blank.empty() && line.ends_with(", ptr " + blank))
        from = line.substr(2, line.find(' ', 2) - 2);
      loads += !from.empty() && (line.find("maskload") != line.npos || line.find("masked.load") != line.npos) &&
               line.find("(ptr " + from + ",") != line.npos;
      fetches += !from.empty() && line.find("llvm.prefetch") != line.npos;
    }
    EXPECT_GT(loads, 0);
    EXPECT_GT(fetches, 0);
  }
}

// A is not copied if its rows are as in memory: the kernel asks once for a tile whether it is inside the matrix and
// does not wrap around.
TEST(Packing, LeftOperandWhereItLies) {
  auto asks = [](const char *elem, const char *target, bool transposed) {
    std::string text = matmul(elem, "f32", {64, 64, 64}, {transposed, false});
    return count(test::stage(text, *parseTarget(target), Stage::Llvm), "\nleft:") == 1;
  };
  EXPECT_TRUE(asks("f32", "cpu:avx2", false));
  EXPECT_TRUE(asks("f32", "cpu:aarch64", false));
  EXPECT_TRUE(asks("bf16", "cpu:avx512bf16", false));
  EXPECT_FALSE(asks("f32", "cpu:avx2", true));
  EXPECT_FALSE(asks("bf16", "cpu:avx2", false)); // widened
}

} // namespace
