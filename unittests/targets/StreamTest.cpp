// Streaming stores: which stores are marked, and that marked ones write what ordinary ones would.
#include "KernelHarness.h"
#include <numeric>

using namespace tegula;
using namespace tegula::cpu;
using test::Kernel;
using test::stage;

namespace {

/// Doubles an R x C tile of each program, rows `stride` elements apart, the last columns masked off. `extra` stands in
/// front.
std::string doubleText(const std::string &elem, int rows, int cols, const std::string &from = "%x",
                       const std::string &extra = "") {
  std::string t = std::to_string(rows) + "x" + std::to_string(cols) + "x", r = std::to_string(rows),
              c = std::to_string(cols);
  std::string body = R"(
kernel @twice(%x: ptr<E>, %o: ptr<E>, %stride: i32, %n: i32) {
EXTRA
  %pid = program_id {axis = 0} : i32
  %height = const {value = R} : i32
  %first = mul %pid, %height : i32
  %f = splat %first : tensor<Rxi32>
  %ri = range {start = 0} : tensor<Rxi32>
  %row = add %f, %ri : tensor<Rxi32>
  %s = splat %stride : tensor<Rxi32>
  %rowAt = mul %row, %s : tensor<Rxi32>
  %row2 = expand_dims %rowAt {axis = 1} : tensor<Rx1xi32>
  %rows = broadcast %row2 : tensor<Ti32>
  %ci = range {start = 0} : tensor<Cxi32>
  %col2 = expand_dims %ci {axis = 0} : tensor<1xCxi32>
  %cols = broadcast %col2 : tensor<Ti32>
  %off = add %rows, %cols : tensor<Ti32>
  %nn = splat %n : tensor<Ti32>
  %m = cmpi %cols, %nn {pred = slt}
  %xp = splat FROM : tensor<Tptr<E>>
  %xo = addptr %xp, %off : tensor<Tptr<E>>
  %v = load %xo, %m : tensor<TE>
  %sum = add %v, %v : tensor<TE>
  %op = splat %o : tensor<Tptr<E>>
  %oo = addptr %op, %off : tensor<Tptr<E>>
  store %oo, %sum, %m
}
)";
  auto put = [&](const std::string &name, const std::string &text) {
    for (size_t at = 0; (at = body.find(name, at)) != std::string::npos; at += text.size())
      body.replace(at, name.size(), text);
  };
  put("FROM", from);
  put("EXTRA", extra);
  put("tensor<T", "tensor<" + t);
  put("tensor<Rx", "tensor<" + r + "x");
  put("tensor<Cx", "tensor<" + c + "x");
  put("1xCx", "1x" + c + "x");
  put("value = R}", "value = " + r + "}");
  put("ptr<E>", "ptr<" + elem + ">");
  put("xE>", "x" + elem + ">");
  return body;
}

/// A target whose caches hold nothing: every launch streams.
CpuTarget streamingTarget(const char *name) {
  CpuTarget t = *parseTarget(name);
  t.l3Bytes = 1;
  return t;
}

bool planStreams(const std::string &text, const char *target = "cpu:avx512") {
  return stage(text, *parseTarget(target), Stage::Plan).find("streaming") != std::string::npos;
}

template <typename T> void checkTile(const char *target, const std::string &elem, int rows, int cols) {
  Kernel k(doubleText(elem, rows, cols), streamingTarget(target), {});
  const int programs = 3;
  for (int stride : {cols, cols + 1, cols + 64})
    for (int n : {cols, cols - 3, cols / 2, 0})
      for (size_t shift : {0, 1, 16 / static_cast<int>(sizeof(T))}) {
        size_t size = static_cast<size_t>(programs * rows * stride);
        std::vector<T> x(size), store(size + 80, T(-1));
        std::iota(x.begin(), x.end(), T(1));
        // Off the 64-byte grid by `shift` elements.
        size_t start = (64 - reinterpret_cast<uintptr_t>(store.data()) % 64) % 64 / sizeof(T) + shift;
        ASSERT_EQ(k.run({x, int64_t(reinterpret_cast<intptr_t>(store.data() + start)), stride, n}, programs), 0);
        for (size_t i = 0; i < store.size(); ++i) {
          size_t at = i - start, col = at % static_cast<size_t>(stride);
          bool inside = i >= start && at < size && col < static_cast<size_t>(n);
          ASSERT_EQ(store[i], inside ? T(x[at] + x[at]) : T(-1))
              << target << " " << elem << " " << rows << "x" << cols << " stride " << stride << " n " << n << " shift "
              << shift << " at " << i;
        }
      }
}

/// Each program takes its row's sum from the row plus a row shared by all.
const char *const centerText = R"(
kernel @center(%x: ptr<i32>, %w: ptr<i32>, %o: ptr<i32>, %stride: i32, %n: i32) {
  %pid = program_id {axis = 0} : i32
  %row = mul %pid, %stride : i32
  %r = range {start = 0} : tensor<256xi32>
  %nn = splat %n : tensor<256xi32>
  %m = cmpi %r, %nn {pred = slt}
  %xr = addptr %x, %row : ptr<i32>
  %xp = splat %xr : tensor<256xptr<i32>>
  %xo = addptr %xp, %r : tensor<256xptr<i32>>
  %zero = const {value = 0} : tensor<256xi32>
  %v = load %xo, %m, %zero : tensor<256xi32>
  %wp = splat %w : tensor<256xptr<i32>>
  %wo = addptr %wp, %r : tensor<256xptr<i32>>
  %shift = load %wo, %m, %zero : tensor<256xi32>
  %both = add %v, %shift : tensor<256xi32>
  %sum = reduce %both {axis = 0} : i32 (%a: i32, %b: i32) { %c = add %a, %b : i32  yield %c }
  %ss = splat %sum : tensor<256xi32>
  %d = sub %both, %ss : tensor<256xi32>
  %or = addptr %o, %row : ptr<i32>
  %op = splat %or : tensor<256xptr<i32>>
  %oo = addptr %op, %r : tensor<256xptr<i32>>
  store %oo, %d, %m
}
)";

} // namespace

TEST(Stream, MarkedOnlyWhereNobodyReadsOrOrders) {
  EXPECT_TRUE(planStreams(doubleText("i32", 4, 256)));
  EXPECT_TRUE(planStreams(doubleText("i32", 4, 256), "cpu:x86-64"));
  EXPECT_FALSE(planStreams(doubleText("i32", 4, 256), "cpu:aarch64"));
  EXPECT_FALSE(planStreams(doubleText("i32", 4, 256, "%o"))) << "reads what it writes";
  EXPECT_FALSE(
      planStreams(doubleText("i32", 4, 256, "%x",
                             "  %one = const {value = 1} : i32\n"
                             "  %old = atomic_rmw %x, %one {rmw = \"add\", sem = \"acq_rel\", scope = \"gpu\"} : i32")))
      << "an atomic orders memory";
}

TEST(Stream, CodeHasNonTemporalStoresAndAFence) {
  std::string text = doubleText("i32", 4, 256);
  for (const char *target : {"cpu:x86-64", "cpu:avx2", "cpu:avx512"}) {
    std::string code = stage(text, *parseTarget(target), Stage::Asm);
    EXPECT_NE(code.find("movnt"), std::string::npos) << target;
    EXPECT_NE(code.find("sfence"), std::string::npos) << target;
    Options checked;
    checked.checked = true;
    EXPECT_EQ(stage(text, *parseTarget(target), Stage::Asm, checked).find("movnt"), std::string::npos)
        << "checked " << target;
  }
  // Rows too short to be worth it; and elements whose vectors are smaller than a non-temporal store.
  EXPECT_EQ(stage(doubleText("i32", 64, 16), *parseTarget("cpu:avx512"), Stage::Asm).find("movnt"), std::string::npos);
}

TEST(Stream, WritesTheSameAsOrdinaryStores) {
  for (const char *target : {"cpu:x86-64", "cpu:avx2", "cpu:avx512"}) {
    if (!test::runsHere(target))
      continue;
    checkTile<int32_t>(target, "i32", 1, 512);
    checkTile<int32_t>(target, "i32", 4, 128);
    checkTile<int16_t>(target, "i16", 2, 256);
    checkTile<int8_t>(target, "i8", 2, 512);
    checkTile<int64_t>(target, "i64", 2, 64);
  }
}

/// c [2, 64] = the sum over i < n of a [n, 2, 32] @ b [n, 32, 64], blocks of bytes one after the other; those of b at
/// `offset`.
std::string blocksText(const std::string &offset) {
  std::string t = R"(
kernel @blocks(%a: ptr<i8>, %b: ptr<i8>, %c: ptr<i32>, %n: i32) {
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  %aBytes = const {value = 64} : i32
  %bBytes = const {value = 2048} : i32
  %aAt = range {start = 0} : tensor<64xi32>
  %bAt = range {start = 0} : tensor<2048xi32>
  %acc0 = const {value = 0} : tensor<2x64xi32>
  %r = for %zero, %n, %one, %acc0 : tensor<2x64xi32> (%i: i32, %acc: tensor<2x64xi32>) {
    %ai = mul %i, %aBytes
    %ap = addptr %a, %ai : ptr<i8>
    %as = splat %ap : tensor<64xptr<i8>>
    %ao = addptr %as, %aAt : tensor<64xptr<i8>>
    %av = load %ao : tensor<64xi8>
    %am = reshape %av : tensor<2x32xi8>
    %bi = mul %i, %bBytes
    %bp = addptr %b, OFFSET : ptr<i8>
    %bs = splat %bp : tensor<2048xptr<i8>>
    %bo = addptr %bs, %bAt : tensor<2048xptr<i8>>
    %bv = load %bo : tensor<2048xi8>
    %bm = reshape %bv : tensor<32x64xi8>
    %d = dot %am, %bm, %acc {precision = "ieee"} : tensor<2x64xi32>
    yield %d
  }
  %cAt = range {start = 0} : tensor<128xi32>
  %cs = splat %c : tensor<128xptr<i32>>
  %co = addptr %cs, %cAt : tensor<128xptr<i32>>
  %flat = reshape %r : tensor<128xi32>
  store %co, %flat
}
)";
  t.replace(t.find("OFFSET"), 6, offset);
  return t;
}

// A loop that computes dots from blocks of memory fetches those of a later round; where it reads the same block each
// time there is nothing to fetch.
TEST(Stream, FetchesBlocksOfLaterRounds) {
  auto fetches = [](const char *offset) {
    std::string code = stage(blocksText(offset), *parseTarget("cpu:avx512"), Stage::Asm);
    size_t n = 0;
    for (size_t at = 0; (at = code.find("prefetcht1", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(fetches("%bi"), 32u) << "each line of a block once, none of %a";
  EXPECT_EQ(fetches("%zero"), 0u);
  for (const char *target : {"cpu:x86-64", "cpu:avx2", "cpu:avx512"}) {
    if (!test::runsHere(target))
      continue;
    Kernel k(blocksText("%bi"), *parseTarget(target), {});
    for (int n : {0, 1, 5}) {
      std::vector<int8_t> a(size_t(64 * 5)), b(size_t(2048 * 5));
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i * 7 % 61 - 30);
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int8_t>(i * 5 % 67 - 33);
      std::vector<int32_t> c(128, -1);
      ASSERT_EQ(k.run({a, b, c, n}, 1), 0);
      for (size_t row = 0; row < 2; ++row)
        for (size_t column = 0; column < 64; ++column) {
          int32_t want = 0;
          for (size_t i = 0; i < size_t(n); ++i)
            for (size_t j = 0; j < 32; ++j) want += a[i * 64 + row * 32 + j] * b[i * 2048 + j * 64 + column];
          ASSERT_EQ(c[row * 64 + column], want) << target << " " << n;
        }
    }
  }
}

// The row that the next program starts with is fetched while this one's result is written; what all programs share is
// not.
TEST(Stream, FetchesTheNextProgramsRow) {
  EXPECT_NE(stage(centerText, *parseTarget("cpu:avx512"), Stage::Plan).find("ahead %v = load"), std::string::npos);
  EXPECT_EQ(stage(doubleText("i32", 4, 256), *parseTarget("cpu:avx512"), Stage::Plan).find("ahead"), std::string::npos)
      << "one nest needs no help";
  std::string code = stage(centerText, *parseTarget("cpu:avx512"), Stage::Asm);
  size_t fetches = 0;
  for (size_t at = 0; (at = code.find("prefetcht1", at)) != std::string::npos; ++at)
    ++fetches;
  EXPECT_EQ(fetches, 4u) << "a line per vector of %x, none of %w";
  for (const char *target : {"cpu:x86-64", "cpu:avx2", "cpu:avx512"}) {
    if (!test::runsHere(target))
      continue;
    Kernel k(centerText, streamingTarget(target), {});
    for (int n : {256, 200}) {
      const int programs = 5, stride = 256;
      std::vector<int32_t> x(programs * stride), w(stride), store(x.size() + 16, -1);
      std::iota(x.begin(), x.end(), 1);
      std::iota(w.begin(), w.end(), -7);
      size_t start = (64 - reinterpret_cast<uintptr_t>(store.data()) % 64) % 64 / 4;
      ASSERT_EQ(k.run({x, w, int64_t(reinterpret_cast<intptr_t>(store.data() + start)), stride, n}, programs), 0);
      for (int p = 0; p < programs; ++p) {
        int32_t sum = 0;
        for (int i = 0; i < n; ++i)
          sum += x[static_cast<size_t>(p * stride + i)] + w[static_cast<size_t>(i)];
        for (int i = 0; i < stride; ++i) {
          size_t at = static_cast<size_t>(p * stride + i);
          ASSERT_EQ(store[start + at], i < n ? x[at] + w[static_cast<size_t>(i)] - sum : -1)
              << target << " " << p << " " << i;
        }
      }
    }
  }
}
