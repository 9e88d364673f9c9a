// One small kernel per kind of operation, each against a plain loop.
#include "KernelHarness.h"
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

using namespace tegula;
using namespace tegula::cpu;
using test::Kernel;

/// A kernel over one row of 64 i32: `body` computes %y (tensor<64xi32>) from %v; the rest is written here.
static std::string rowKernel(const std::string &body, const std::string &more = "") {
  return "kernel @k(%x: ptr<i32>, %o: ptr<i32>) {\n"
         "%r = range {start = 0} : tensor<64xi32>\n"
         "%xp = splat %x : tensor<64xptr<i32>>\n%xa = addptr %xp, %r\n%v = load %xa : tensor<64xi32>\n" +
         body +
         "\n%op = splat %o : tensor<64xptr<i32>>\n%oa = addptr %op, %r\nstore %oa, %y\n" + more + "}\n";
}

struct RowCase {
  const char *name, *body;
  std::vector<int32_t> (*expect)(const std::vector<int32_t> &);
};
using Row = std::vector<int32_t>;

static const RowCase rowCases[] = {
    {"reverse by gather",
     "%c = const {value = 63} : tensor<64xi32>\n%i = sub %c, %r\n%y = gather %v, %i {axis = 0} : tensor<64xi32>",
     [](const Row &x) { return Row(x.rbegin(), x.rend()); }},
    {"cumulative sum",
     "%y = scan %v {axis = 0} : tensor<64xi32> (%a: i32, %b: i32) { %c = add %a, %b : i32  yield %c }",
     [](const Row &x) { Row y(64); std::partial_sum(x.begin(), x.end(), y.begin()); return y; }},
    {"reverse cumulative sum",
     "%y = scan %v {axis = 0, reverse = 1} : tensor<64xi32> (%a: i32, %b: i32) { %c = add %a, %b : i32  yield %c }",
     [](const Row &x) { Row y(64); std::partial_sum(x.rbegin(), x.rend(), y.rbegin()); return y; }},
    {"scan of columns",
     "%s = reshape %v : tensor<4x16xi32>\n%t = scan %s {axis = 0} : tensor<4x16xi32> (%a: i32, %b: i32) { %c = add %a, %b : i32  yield %c }\n"
     "%y = reshape %t : tensor<64xi32>",
     [](const Row &x) { Row y(x); for (size_t i = 16; i < 64; ++i) y[i] += y[i - 16]; return y; }},
    {"transpose of a reshape",
     "%s = reshape %v : tensor<4x16xi32>\n%t = permute %s {perm = [1, 0]} : tensor<16x4xi32>\n%y = reshape %t : tensor<64xi32>",
     [](const Row &x) {
       Row y;
       for (size_t j = 0; j < 16; ++j) for (size_t i = 0; i < 4; ++i) y.push_back(x[i * 16 + j]);
       return y;
     }},
    {"split and join",
     "%s = reshape %v : tensor<32x2xi32>\n%a, %b = split %s : tensor<32xi32>, tensor<32xi32>\n%j = join %b, %a : tensor<32x2xi32>\n"
     "%y = reshape %j : tensor<64xi32>",
     [](const Row &x) { Row y(x); for (size_t i = 0; i < 64; i += 2) std::swap(y[i], y[i + 1]); return y; }},
    {"cat of halves",
     "%s = reshape %v : tensor<2x32xi32>\n%t = permute %s {perm = [1, 0]} : tensor<32x2xi32>\n"
     "%a, %b = split %t : tensor<32xi32>, tensor<32xi32>\n%y = cat %b, %a {axis = 0} : tensor<64xi32>",
     [](const Row &x) { Row y(x.begin() + 32, x.end()); y.insert(y.end(), x.begin(), x.begin() + 32); return y; }},
    {"argmax with ties to the left",
     "%m, %i = reduce %v, %r {axis = 0} : i32, i32 (%a: i32, %p: i32, %b: i32, %q: i32) {\n"
     "  %gt = cmpi %a, %b {pred = sgt}\n  %eq = cmpi %a, %b {pred = eq}\n  %lt = cmpi %p, %q {pred = slt}\n  %tie = and %eq, %lt\n"
     "  %t = or %gt, %tie\n  %c = select %t, %a, %b : i32\n  %d = select %t, %p, %q : i32\n  yield %c, %d\n}\n"
     "%y = splat %i : tensor<64xi32>",
     [](const Row &x) {
       return Row(64, static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin()));
     }},
    {"xor over a hypercube dimension",
     "%s = reshape %v : tensor<2x2x2x2x2x2xi32>\n"
     "%x5 = reduce %s {axis = 3} : tensor<2x2x2x2x2xi32> (%a: i32, %b: i32) { %c = xor %a, %b : i32  yield %c }\n"
     "%e = expand_dims %x5 {axis = 3} : tensor<2x2x2x1x2x2xi32>\n%bb = broadcast %e : tensor<2x2x2x2x2x2xi32>\n"
     "%z = xor %bb, %s\n%y = reshape %z : tensor<64xi32>",
     [](const Row &x) { Row y; for (size_t i = 0; i < 64; ++i) y.push_back(x[i ^ 4]); return y; }},
    {"remainder and division",
     "%c = const {value = 7} : tensor<64xi32>\n%q = sdiv %v, %c\n%m = srem %v, %c\n%h = const {value = 100} : tensor<64xi32>\n"
     "%qh = mul %q, %h\n%y = add %qh, %m",
     [](const Row &x) { Row y; for (int32_t i : x) y.push_back(i / 7 * 100 + i % 7); return y; }},
    {"load at a remainder, wrapping or not",
     "%c = const {value = 48} : tensor<64xi32>\n%i = srem %r, %c\n%p = addptr %xp, %i\n%y = load %p : tensor<64xi32>",
     [](const Row &x) { Row y; for (size_t i = 0; i < 64; ++i) y.push_back(x[i % 48]); return y; }},
    {"load at a remainder that wraps inside a vector",
     "%c = const {value = 21} : tensor<64xi32>\n%i = srem %r, %c\n%p = addptr %xp, %i\n%y = load %p : tensor<64xi32>",
     [](const Row &x) { Row y; for (size_t i = 0; i < 64; ++i) y.push_back(x[i % 21]); return y; }},
    {"products that wrap before they are widened",
     "%c = const {value = 100000007} : tensor<64xi32>\n%p = mul %v, %c\n%l = sext %p : tensor<64xi64>\n%s = const {value = 8} : tensor<64xi64>\n"
     "%h = ashr %l, %s\n%y = trunc %h : tensor<64xi32>",
     [](const Row &x) {
       Row y;
       for (int32_t i : x) y.push_back(static_cast<int32_t>(static_cast<uint32_t>(i) * 100000007u) >> 8);
       return y;
     }},
    {"histogram",
     "%c = const {value = 15} : tensor<64xi32>\n%w = and %v, %c\n%h = histogram %w : tensor<16xi32>\n"
     "%i = and %r, %c\n%y = gather %h, %i {axis = 0} : tensor<64xi32>",
     [](const Row &x) {
       Row h(16), y;
       for (int32_t i : x) ++h[static_cast<size_t>(i & 15)];
       for (size_t i = 0; i < 64; ++i) y.push_back(h[i % 16]);
       return y;
     }},
    {"loop with two carried tensors that swap",
     "%zero = const {value = 0} : i32\n%three = const {value = 3} : i32\n%one = const {value = 1} : i32\n"
     "%y, %b = for %zero, %three, %one, %v, %r : tensor<64xi32>, tensor<64xi32> (%i: i32, %p: tensor<64xi32>, %q: tensor<64xi32>) {\n"
     "  %s = add %p, %q\n  yield %q, %s\n}",
     [](const Row &x) {
       Row a(x), b(64);
       std::iota(b.begin(), b.end(), 0);
       for (int k = 0; k < 3; ++k) { Row s(64); for (size_t i = 0; i < 64; ++i) s[i] = a[i] + b[i]; a = b; b = s; }
       return a;
     }},
    {"loop that rotates its value",
     "%zero = const {value = 0} : i32\n%three = const {value = 5} : i32\n%two = const {value = 2} : i32\n"
     "%y = for %zero, %three, %two, %v : tensor<64xi32> (%i: i32, %p: tensor<64xi32>) {\n"
     "  %s = reshape %p : tensor<2x32xi32>\n  %t = permute %s {perm = [1, 0]} : tensor<32x2xi32>\n  %u = reshape %t : tensor<64xi32>\n  yield %u\n}",
     [](const Row &x) {
       Row a(x);
       for (int k = 0; k < 3; ++k) {
         Row s;
         for (size_t j = 0; j < 32; ++j) { s.push_back(a[j]); s.push_back(a[32 + j]); }
         a = s;
       }
       return a;
     }},
    {"while with a tensor and a scalar",
     "%zero = const {value = 0} : i32\n"
     "%n, %y = while %zero, %v : i32, tensor<64xi32> (%i: i32, %p: tensor<64xi32>) {\n"
     "  %four = const {value = 4} : i32\n  %c = cmpi %i, %four {pred = slt}\n  condition %c, %i, %p\n} do (%i2: i32, %p2: tensor<64xi32>) {\n"
     "  %one = const {value = 1} : i32\n  %j = add %i2, %one\n  %q = add %p2, %r\n  yield %j, %q\n}",
     [](const Row &x) { Row y(x); for (size_t i = 0; i < 64; ++i) y[i] += static_cast<int32_t>(4 * i); return y; }},
    {"if on a reduction",
     "%m = reduce %v {axis = 0} : i32 (%a: i32, %b: i32) { %c = smax %a, %b : i32  yield %c }\n%z = const {value = 0} : i32\n"
     "%p = cmpi %m, %z {pred = sgt}\n%y = if %p : tensor<64xi32> { yield %r } else { yield %v }",
     [](const Row &x) {
       Row y(64);
       std::iota(y.begin(), y.end(), 0);
       return *std::max_element(x.begin(), x.end()) > 0 ? y : x;
     }},
    {"bytes, bits and booleans",
     "%t = trunc %v : tensor<64xi8>\n%s = sext %t : tensor<64xi32>\n%z = const {value = 0} : tensor<64xi32>\n%n = cmpi %s, %z {pred = slt}\n"
     "%b = zext %n : tensor<64xi32>\n%p = popcount %s\n%y = add %p, %b",
     [](const Row &x) {
       Row y;
       for (int32_t i : x) {
         int32_t s = static_cast<int8_t>(i);
         y.push_back(__builtin_popcount(static_cast<unsigned>(s)) + (s < 0));
       }
       return y;
     }},
};

TEST(KernelOps, Rows) {
  for (const std::string &target : {tegula::cpu::test::machineName(), std::string("cpu:x86-64")})
    for (const RowCase &c : rowCases) {
      SCOPED_TRACE(std::string(c.name) + " on " + target);
      Kernel k(rowKernel(c.body), target);
      ASSERT_TRUE(k.entry) << k.error;
      Row x(64), o(64, -1);
      for (size_t i = 0; i < 64; ++i)
        x[i] = static_cast<int32_t>(i * i * 37 % 101) - 30;
      ASSERT_EQ(k.run({x, o}), 0);
      EXPECT_EQ(o, c.expect(x));
    }
}

// The store must not be seen by the load of the same tile: shift by one in place.
TEST(KernelOps, WholeLoadBeforeWholeStore) {
  Kernel k(rowKernel(
      "%one = const {value = 1} : tensor<64xi32>\n%i = add %r, %one\n%xi = addptr %xp, %i\n%y = const {value = 5} : tensor<64xi32>\n"
      "store %xi, %v"));
  Row x(65), o(64);
  std::iota(x.begin(), x.end(), 0);
  ASSERT_EQ(k.run({x, o}), 0);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(x[static_cast<size_t>(i) + 1], i);
}

struct InPlaceCase {
  const char *name, *body; // of %v, the tile that lies where %y is stored, under %m if it says so
  bool needsScratch;       // some place needs what another place's store writes
  Row (*expect)(const Row &);
};

static Row turned(const Row &x) { // as a 4 x 16 tile, transposed
  Row y;
  for (size_t j = 0; j < 16; ++j)
    for (size_t i = 0; i < 4; ++i)
      y.push_back(x[i * 16 + j]);
  return y;
}

#define TEGULA_TURN(from, to) \
  "%" to "s = reshape %" from " : tensor<4x16xi32>\n%" to "t = permute %" to "s {perm = [1, 0]} : tensor<16x4xi32>\n" \
  "%" to " = reshape %" to "t : tensor<64xi32>\n"

static const InPlaceCase inPlaceCases[] = {
    {"elementwise", "%y = add %v, %v\n", false, [](const Row &x) { Row y(x); for (int32_t &i : y) i *= 2; return y; }},
    {"elementwise, under its own mask", "%z = const {value = 0} : tensor<64xi32>\n%m = cmpi %v, %z {pred = sgt}\n%y = sub %z, %v\n", false,
     [](const Row &x) { Row y(x); for (int32_t &i : y) i = i > 0 ? -i : i; return y; }},
    {"where the tile itself says, in other memory",
     "%c = const {value = 63} : tensor<64xi32>\n%i = and %v, %c\n%op = splat %o : tensor<64xptr<i32>>\n%q = addptr %op, %i\n%y = load %q : tensor<64xi32>\n", false,
     [](const Row &x) { Row y; for (int32_t i : x) y.push_back((i & 63) * 3); return y; }},
    {"turned", TEGULA_TURN("v", "y"), true, turned},
    {"itself and turned", TEGULA_TURN("v", "u") "%y = add %v, %u\n", true,
     [](const Row &x) { Row y = turned(x); for (size_t i = 0; i < 64; ++i) y[i] += x[i]; return y; }},
    {"turned and itself", TEGULA_TURN("v", "u") "%y = sub %u, %v\n", true,
     [](const Row &x) { Row y = turned(x); for (size_t i = 0; i < 64; ++i) y[i] -= x[i]; return y; }},
    {"one arm of a selection turned",
     TEGULA_TURN("v", "u") "%h = const {value = 20} : tensor<64xi32>\n%c = cmpi %r, %h {pred = slt}\n%y = select %c, %v, %u : tensor<64xi32>\n", true,
     [](const Row &x) { Row y = turned(x); std::copy(x.begin(), x.begin() + 20, y.begin()); return y; }},
    {"selected by what is turned",
     TEGULA_TURN("v", "u") "%z = const {value = 0} : tensor<64xi32>\n%c = cmpi %u, %z {pred = slt}\n%y = select %c, %v, %r : tensor<64xi32>\n", true,
     [](const Row &x) {
       Row y = turned(x);
       for (size_t i = 0; i < 64; ++i) y[i] = y[i] < 0 ? x[i] : static_cast<int32_t>(i);
       return y;
     }},
    {"under a mask of what is turned",
     TEGULA_TURN("v", "u") "%z = const {value = 0} : tensor<64xi32>\n%m = cmpi %u, %z {pred = slt}\n%y = add %v, %r\n", true,
     [](const Row &x) {
       Row t = turned(x), y(x);
       for (size_t i = 0; i < 64; ++i) y[i] += t[i] < 0 ? static_cast<int32_t>(i) : 0;
       return y;
     }},
    {"where the turned tile says, in other memory",
     TEGULA_TURN("v", "u") "%c = const {value = 63} : tensor<64xi32>\n%i = and %u, %c\n%op = splat %o : tensor<64xptr<i32>>\n%q = addptr %op, %i\n"
     "%l = load %q : tensor<64xi32>\n%y = add %l, %v\n", true,
     [](const Row &x) { Row y = turned(x); for (size_t i = 0; i < 64; ++i) y[i] = (y[i] & 63) * 3 + x[i]; return y; }},
    {"the first of each pair, twice",
     "%s = reshape %v : tensor<32x2xi32>\n%a, %b = split %s : tensor<32xi32>, tensor<32xi32>\n%j = join %a, %a : tensor<32x2xi32>\n"
     "%w = reshape %j : tensor<64xi32>\n%y = add %w, %v\n", true,
     [](const Row &x) { Row y(x); for (size_t i = 0; i < 64; ++i) y[i] += x[i & ~size_t(1)]; return y; }},
};

// What a place of a tile is stored over may be needed at other places, on some of the ways to the store only.
TEST(KernelOps, InPlace) {
  for (const std::string &target : {tegula::cpu::test::machineName(), std::string("cpu:x86-64")})
    for (const InPlaceCase &c : inPlaceCases) {
      SCOPED_TRACE(std::string(c.name) + " on " + target);
      bool masked = std::string(c.body).find("%m = ") != std::string::npos;
      Kernel k(
          "kernel @k(%x: ptr<i32>, %o: ptr<i32>) {\n%r = range {start = 0} : tensor<64xi32>\n%xp = splat %x : tensor<64xptr<i32>>\n"
          "%xa = addptr %xp, %r\n%v = load %xa : tensor<64xi32>\n" +
              std::string(c.body) + (masked ? "store %xa, %y, %m\n}\n" : "store %xa, %y\n}\n"),
          target);
      ASSERT_TRUE(k.entry) << k.error;
      EXPECT_EQ(k.compiled.meta.scratchBytes > 64, c.needsScratch);
      Row x(64), o(64);
      for (size_t i = 0; i < 64; ++i) {
        x[i] = static_cast<int32_t>(i * i * 37 % 101) - 30;
        o[i] = static_cast<int32_t>(3 * i);
      }
      Row expected = c.expect(x);
      ASSERT_EQ(k.run({x, o}), 0);
      EXPECT_EQ(x, expected);
    }
}

// Lanes of odd numbers whose operand is known, here 1, while it is not in lane 2: LLVM 19 left them undefined without
// SSE4.1.
TEST(KernelOps, ProductsOfLanesThatAreKnown) {
  for (const std::string &target : {tegula::cpu::test::machineName(), std::string("cpu:x86-64")}) {
    Kernel k(
        "kernel @k(%x: ptr<i32>, %o: ptr<i32>) {\n%i = range {start = 0} : tensor<4xi32>\n%xs = splat %x : tensor<4xptr<i32>>\n"
        "%xa = addptr %xs, %i\n%three = const {value = 3} : tensor<4xi32>\n%m = cmpi %i, %three {pred = slt}\n"
        "%zero = const {value = 0} : tensor<4xi32>\n%v = load %xa, %m, %zero : tensor<4xi32>\n%back = const {value = -2} : tensor<4xi32>\n"
        "%xb = addptr %xa, %back\n%two = const {value = 2} : tensor<4xi32>\n%n = cmpi %i, %two {pred = eq}\n"
        "%w = load %xb, %n, %zero : tensor<4xi32>\n%a = and %v, %w\n%b = and %a, %two\n%one = const {value = 1} : tensor<4xi32>\n"
        "%d = add %b, %one\n%f = load %x : i32\n%fs = splat %f : tensor<4xi32>\n%y = srem %fs, %d\n%os = splat %o : tensor<4xptr<i32>>\n"
        "%oa = addptr %os, %i\nstore %oa, %y\n}",
        target);
    ASSERT_TRUE(k.entry) << k.error;
    Row x{7, 5, 6, 0}, o(4, -1);
    ASSERT_EQ(k.run({x, o}), 0);
    EXPECT_EQ(o, (Row{0, 0, 7 % 3, 0})) << target;
  }
}

// By the reciprocal of a divisor that is one number in the whole nest. Flat positions ask where the rows of %d end, as
// those of %d * %h end there, too; in each run three numbers are divided, and none by an instruction for it.
TEST(KernelOps, DivisorsOfAWholeNestAreReciprocals) {
  const std::string text = R"(kernel @k(%x: ptr<f32>, %o: ptr<f32>, %d: i32, %h: i32) {
  %r = range {start = 0} : tensor<1024xi32>
  %ds = splat %d : tensor<1024xi32>
  %dh = mul %d, %h : i32
  %dhs = splat %dh : tensor<1024xi32>
  %c = srem %r, %ds
  %p = sdiv %r, %dhs
  %xs = splat %x : tensor<1024xptr<f32>>
  %os = splat %o : tensor<1024xptr<f32>>
  %two = const {value = 2} : tensor<1024xi32>
  %a = mul %p, %two
  %at = add %a, %c
  %xa = addptr %xs, %at
  %v = load %xa : tensor<1024xf32>
  %oa = addptr %os, %r
  store %oa, %v
})";
  DiagEngine diag; // gets a remark about vectors in which rows end
  const auto m = ir::parse(std::make_shared<const SourceFile>("test.ir", text), diag);
  ASSERT_TRUE(m);
  const std::string ir = emitStage(*m, *parseTarget("cpu:avx2"), {}, Stage::Llvm, diag).value_or("");
  const size_t loop = ir.find("\nloop:");
  ASSERT_NE(loop, std::string::npos);
  const std::string begin = ir.substr(loop, ir.find("\n\n", loop) - loop); // of a run
  EXPECT_EQ(begin.find(" sdiv "), std::string::npos) << begin;
  size_t products = 0, ends = 0;
  for (size_t at = 0; (at = begin.find("fmul double", at)) != std::string::npos; ++at)
    ++products;
  for (size_t at = 0; (at = begin.find("ashr i64", at)) != std::string::npos; ++at)
    ++ends;
  EXPECT_EQ(products, 2u) << begin;
  EXPECT_EQ(ends, 1u) << begin; // one row is looked at
}

// What arithmetic gives is rounded to bf16 without a choice where there are no masks; a float that is only loaded may
// be a NaN that the upper half would not show.
TEST(KernelOps, RoundingToBf16KeepsNans) {
  auto text = [](const std::string &x) {
    return "kernel @k(%x: ptr<f32>, %o: ptr<bf16>) {\n%r = range {start = 0} : tensor<64xi32>\n%xs = splat %x : tensor<64xptr<f32>>\n%xa = addptr %xs, %r\n%v = load %xa : tensor<64xf32>\n%one = const {value = 1.0} : tensor<64xf32>\n"
           "%p = fmul %v, %v\n%q = fmul %v, %one\n%y = fptrunc %" +
           x + " : tensor<64xbf16>\n%os = splat %o : tensor<64xptr<bf16>>\n%oa = addptr %os, %r\nstore %oa, %y\n}";
  };
  for (const char *x : {"p", "q", "v"})
    EXPECT_EQ(tegula::cpu::test::stage(text(x), *parseTarget("cpu:avx2"), Stage::Llvm).find(" select <") ==
                  std::string::npos,
              *x == 'p')
        << x;
  for (const std::string &target : {tegula::cpu::test::machineName(), std::string("cpu:avx2")})
    for (const char *x : {"p", "q", "v"}) {
      Kernel k(text(x), target);
      ASSERT_TRUE(k.entry) << k.error;
      std::vector<uint32_t> in = {0x7F800001, 0xFF800001, 0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F807FFF,
                                  0x7F800000, 0xFF800000, 0x3F808000, 0x3F818000, 0x00000001, 0x80008000, 0x7F7FFFFF};
      in.resize(64, 0x3F800000);
      std::vector<uint16_t> out(64);
      ASSERT_EQ(k.run({in, out}), 0);
      for (size_t i = 0; i < in.size(); ++i) {
        const float v = std::bit_cast<float>(in[i]), y = *x == 'p' ? v * v : v,
                    got = std::bit_cast<float>(static_cast<uint32_t>(out[i]) << 16);
        const auto bits = std::bit_cast<uint32_t>(y);
        if (std::isnan(y))
          EXPECT_TRUE(std::isnan(got)) << x << " " << std::hex << in[i] << " " << out[i];
        else
          EXPECT_EQ(out[i], static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16))
              << x << " " << std::hex << in[i];
      }
    }
}

// A row of two tensors, one after the other: all of the first one's and of the second one's vectors are copied without
// masks, each by a loop of its own.
TEST(KernelOps, ConcatenationIsTwoSegments) {
  const std::string ir = tegula::cpu::test::stage(R"(kernel @k(%a: ptr<f32>, %b: ptr<f32>, %o: ptr<f32>, %n: i32, %m: i32) {
  %r = range {start = 0} : tensor<1024xi32>
  %ns = splat %n : tensor<1024xi32>
  %ms = splat %m : tensor<1024xi32>
  %on = cmpi %r, %ms {pred = slt}
  %left = cmpi %r, %ns {pred = slt}
  %right = cmpi %r, %ns {pred = sge}
  %ol = and %on, %left
  %or = and %on, %right
  %zero = const {value = 0.0} : tensor<1024xf32>
  %as = splat %a : tensor<1024xptr<f32>>
  %aa = addptr %as, %r
  %x = load %aa, %ol, %zero : tensor<1024xf32>
  %s = sub %r, %ns
  %bs = splat %b : tensor<1024xptr<f32>>
  %ba = addptr %bs, %s
  %y = load %ba, %or, %zero : tensor<1024xf32>
  %z = select %left, %x, %y
  %os = splat %o : tensor<1024xptr<f32>>
  %oa = addptr %os, %r
  store %oa, %z, %on
})", *parseTarget("cpu:avx2"), Stage::Llvm);
  EXPECT_NE(ir.find("\nsegment:"), std::string::npos);
  size_t copies = 0;
  for (size_t at = 0; (at = ir.find("\nloop", at)) != std::string::npos; ++at) {
    const std::string block = ir.substr(at, ir.find("\n\n", at) - at);
    copies += block.find("store <8 x float>") != std::string::npos && block.find("maskload") == std::string::npos;
  }
  EXPECT_GE(copies, 2u) << ir; // streaming or not
}

// Rows of %d elements are added to rows that %i says. A relaxed atomic does not order the loads before it, so these
// stand in its nest, whose vectors have one row's number each: no buffer of 1024 numbers, and whole vectors are added
// where nobody else uses atomics.
TEST(KernelOps, RelaxedAtomicsOfFlatPositionsGoByRuns) {
  std::string text = R"(kernel @k(%x: ptr<f32>, %i: ptr<i64>, %o: ptr<i32>, %d: i32) {
  %r = range {start = 0} : tensor<1024xi32>
  %ds = splat %d : tensor<1024xi32>
  %c = srem %r, %ds
  %p = sdiv %r, %ds
  %is = splat %i : tensor<1024xptr<i64>>
  %ia = addptr %is, %p
  %row = load %ia : tensor<1024xi64>
  %os = splat %o : tensor<1024xptr<i32>>
  %a = addptr %os, %row
  %at = addptr %a, %c
  %xs = splat %x : tensor<1024xptr<f32>>
  %xa = addptr %xs, %r
  %v = load %xa : tensor<1024xf32>
  %n = fptosi %v : tensor<1024xi32>
  %old = atomic_rmw %at, %n {rmw = "add", sem = "relaxed", scope = "gpu"} : tensor<1024xi32>
})";
  auto emitted = [&](Stage s) {
    DiagEngine diag; // gets remarks
    const auto m = ir::parse(std::make_shared<const SourceFile>("test.ir", text), diag);
    return m ? emitStage(*m, *parseTarget("cpu:avx2"), {}, s, diag).value_or("") : "";
  };
  const std::string plan = emitted(Stage::Plan), ir = emitted(Stage::Llvm);
  EXPECT_EQ(plan.find("  buffer"), std::string::npos) << plan;
  EXPECT_NE(ir.find("\nrun.vector"), std::string::npos);
  const size_t run = ir.find("\nrun.vector:");
  EXPECT_NE(ir.substr(run, ir.find("\n\n", run) - run).find("store <8 x i32>"), std::string::npos)
      << ir.substr(run, 2000);
  const size_t relaxed = text.find("relaxed");
  text.replace(relaxed, 7, "acq_rel");
  EXPECT_NE(emitted(Stage::Plan).find("  buffer"), std::string::npos);
}

namespace {
/// How often an instruction occurs in the assembly of a kernel of `function` over eight floats.
size_t instructions(const std::string &function, const char *target, const std::string &what) {
  std::string text =
      "kernel @k(%x: ptr<f32>, %o: ptr<f32>) {\n%r = range {start = 0} : tensor<8xi32>\n%xs = splat %x : tensor<8xptr<f32>>\n%xa = addptr %xs, %r\n"
      "%v = load %xa : tensor<8xf32>\n%y = " +
      function + " %v\n%os = splat %o : tensor<8xptr<f32>>\n%oa = addptr %os, %r\nstore %oa, %y\n}";
  std::string s = tegula::cpu::test::stage(text, *parseTarget(target), Stage::Asm);
  size_t n = 0;
  for (size_t at = s.find("\t" + what); at != std::string::npos; at = s.find("\t" + what, at + 1))
    ++n;
  return n;
}
} // namespace

// Both factors of 2^n come from the bits of the sum that rounded n, by two shifts each: nothing is added to them.
TEST(KernelOps, ExponentialScalesByShifts) {
  EXPECT_EQ(instructions("exp", "cpu:x86-64", "pslld\t"), 4u); // two registers
  EXPECT_EQ(instructions("exp", "cpu:x86-64", "paddd\t"), 0u);
}

// Fractions of powers come from a table in a register, which leaves short polynomials; the rest of a power is one
// number, its own square's root (AVX2), or what vscalef adds.
TEST(KernelOps, ExponentialsLookUpPowers) {
  for (const char *f : {"exp", "exp2"}) {
    EXPECT_EQ(instructions(f, "cpu:avx2", "vperm"), 1u) << f;
    EXPECT_EQ(instructions(f, "cpu:avx2", "vpslld\t"), 1u) << f;
    EXPECT_EQ(instructions(f, "cpu:avx512", "vperm"), 1u) << f;
    EXPECT_EQ(instructions(f, "cpu:avx512", "vscalefps\t"), 1u) << f;
  }
  EXPECT_EQ(instructions("exp", "cpu:avx2", "vfm") + instructions("exp", "cpu:avx2", "vfnm"), 7u);
  EXPECT_EQ(instructions("exp", "cpu:avx512", "vfm") + instructions("exp", "cpu:avx512", "vfnm"), 6u);
  EXPECT_EQ(instructions("tanh", "cpu:avx2", "vperm"), 2u);
  EXPECT_EQ(instructions("tanh", "cpu:avx2", "vdivps\t"), 1u);
}

// A row is scanned by vectors, in four steps of sixteen lanes and one for what came before them, not element by
// element.
TEST(KernelOps, ScansAlongRowsUseLanes) {
  std::string text =
      "kernel @k(%x: ptr<f32>, %o: ptr<f32>) {\n%r = range {start = 0} : tensor<64xi32>\n%xs = splat %x : tensor<64xptr<f32>>\n%xa = addptr %xs, %r\n%v = load %xa : tensor<64xf32>\n"
      "%y = scan %v {axis = 0} : tensor<64xf32> (%a: f32, %b: f32) { %c = fadd %a, %b : f32  yield %c }\n%os = splat %o : tensor<64xptr<f32>>\n%oa = addptr %os, %r\nstore %oa, %y\n}";
  std::string s = tegula::cpu::test::stage(text, *parseTarget("cpu:avx512"), Stage::Asm);
  EXPECT_EQ(s.find("vaddss"), std::string::npos);
  size_t sums = 0;
  for (size_t at = s.find("\tvaddps\t"); at != std::string::npos; at = s.find("\tvaddps\t", at + 1))
    ++sums;
  EXPECT_EQ(sums, 5u);
}

/// o[i] = x[i ^ d] of 64 floats.
const char *exchangeText = R"(
kernel @k(%x: ptr<f32>, %o: ptr<f32>, %d: i32) {
  %r = range {start = 0} : tensor<64xi32>
  %xs = splat %x : tensor<64xptr<f32>>
  %xa = addptr %xs, %r
  %v = load %xa : tensor<64xf32>
  %ds = splat %d : tensor<64xi32>
  %p = xor %r, %ds : tensor<64xi32>
  %y = gather %v, %p {axis = 0} : tensor<64xf32>
  %os = splat %o : tensor<64xptr<f32>>
  %oa = addptr %os, %r
  store %oa, %y
})";

// The exchanges of a sorting network read vectors and change their lanes' places; nothing is gathered.
TEST(KernelOps, ExchangesAreNoGathers) {
  for (const char *target : {"cpu:avx512", "cpu:avx2", "cpu:x86-64"}) {
    const std::string s = tegula::cpu::test::stage(exchangeText, *parseTarget(target), Stage::Asm);
    EXPECT_EQ(s.find("gather"), std::string::npos) << target;
    EXPECT_EQ(s.find("movss"), std::string::npos) << target; // one by one
    if (!runsOn(*parseTarget(target), *parseTarget("cpu")))
      continue;
    Kernel k(exchangeText, target);
    for (int d : {0, 1, 3, 8, 16, 21, 32, 63, 64, -1}) {
      std::vector<float> x(64), o(64);
      std::iota(x.begin(), x.end(), 1.0f);
      ASSERT_EQ(k.run({x, o, d}), 0);
      for (int i = 0; i < 64; ++i)
        ASSERT_EQ(o[static_cast<size_t>(i)], x[static_cast<size_t>((i ^ d) & 63)]) << target << " " << d;
    }
  }
}

/// o[i] = x[2 i + 1] of 64 elements.
std::string oddText(const std::string &elem) {
  return "kernel @k(%x: ptr<" + elem + ">, %o: ptr<" + elem + R"(>) {
  %r = range {start = 0} : tensor<64xi32>
  %two = const {value = 2} : tensor<64xi32>
  %one = const {value = 1} : tensor<64xi32>
  %r2 = mul %r, %two : tensor<64xi32>
  %at = add %r2, %one : tensor<64xi32>
  %xs = splat %x : tensor<64xptr<)" + elem + R"(>>
  %xa = addptr %xs, %at
  %v = load %xa : tensor<64x)" + elem + R"(>
  %os = splat %o : tensor<64xptr<)" + elem + R"(>>
  %oa = addptr %os, %r
  store %oa, %v
})";
}

// One of each pair: vectors and a shuffle, which read nothing before the first or after the last one.
TEST(KernelOps, EveryOtherElementIsNoGather) {
  for (const char *target : {"cpu:avx512", "cpu:avx2", "cpu:x86-64"}) {
    EXPECT_EQ(tegula::cpu::test::stage(oddText("f32"), *parseTarget(target), Stage::Asm).find("gather"),
              std::string::npos)
        << target;
    if (!runsOn(*parseTarget(target), *parseTarget("cpu")))
      continue;
    for (int bytes : {1, 2, 4, 8}) {
      Kernel k(oddText("i" + std::to_string(8 * bytes)), target);
      std::vector<uint8_t> x(static_cast<size_t>(128 * bytes)), o(static_cast<size_t>(64 * bytes)), want;
      std::iota(x.begin(), x.end(), static_cast<uint8_t>(1));
      for (size_t i = 0; i < o.size(); ++i)
        want.push_back(x[i / static_cast<size_t>(bytes) * 2 * static_cast<size_t>(bytes) + static_cast<size_t>(bytes) +
                         i % static_cast<size_t>(bytes)]);
      ASSERT_EQ(k.run({x, o}), 0);
      EXPECT_EQ(o, want) << target << " " << bytes;
    }
  }
}

// Special values of logarithms cost no blends (three operations each on Intel's cores): AVX-512's exponents and
// mantissas have them right, else they are added or set.
TEST(KernelOps, LogarithmsDoNotBlend) {
  for (const char *f : {"log", "log2"}) {
    EXPECT_EQ(instructions(f, "cpu:avx2", "vblend"), 0u) << f;
    EXPECT_EQ(instructions(f, "cpu:avx512", "vcmp"), 0u) << f;
    EXPECT_EQ(instructions(f, "cpu:avx512", "vgetmantps\t"), 1u) << f;
  }
}

// The sine and the cosine of one vector reduce its angles once, by one call, and have the values of each alone.
TEST(KernelOps, SineAndCosineShareTheAngle) {
  auto text = [](const std::string &second, const std::string &of) {
    return "kernel @k(%x: ptr<f32>, %o: ptr<f32>, %p: ptr<f32>) {\n%r = range {start = 0} : tensor<64xi32>\n%xs = splat %x : tensor<64xptr<f32>>\n%xa = addptr %xs, %r\n%v = load %xa : tensor<64xf32>\n"
           "%w = fneg %v\n%y = sin %v\n%z = " +
           second + " " + of +
           "\n%os = splat %o : tensor<64xptr<f32>>\n%oa = addptr %os, %r\nstore %oa, %y\n%ps = splat %p : tensor<64xptr<f32>>\n%pa = addptr %ps, %r\nstore %pa, %z\n}";
  };
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = (static_cast<float>(i) - 30) * 0.37f;
  x[1] = -0.0f, x[2] = 0, x[5] = INFINITY, x[6] = NAN, x[20] = 1e6f, x[21] = -3e30f, x[40] = 131072, x[41] = 131071.99f;
  for (const char *target : {"cpu:avx512", "cpu:avx2"}) {
    const std::string both = tegula::cpu::test::stage(text("cos", "%v"), *parseTarget(target), Stage::Llvm);
    EXPECT_NE(both.find("@tegula.angle.f32"), std::string::npos) << target;
    for (const char *left : {"@tegula.sin.", "@tegula.cos."}) // nor their ways for large numbers
      EXPECT_EQ(both.find(left), std::string::npos) << target << " " << left;
    // of another number
    EXPECT_EQ(tegula::cpu::test::stage(text("cos", "%w"), *parseTarget(target), Stage::Llvm).find("@tegula.angle"),
              std::string::npos)
        << target;
    if (!runsOn(*parseTarget(target), *parseTarget("cpu")))
      continue;
    std::vector<float> sine(64), cosine(64), sineAlone(64), cosineAlone(64), other(64);
    // the cosine of -v is that of v
    Kernel joined(text("cos", "%v"), target), alone(text("fabs", "%v"), target), apart(text("cos", "%w"), target);
    ASSERT_EQ(joined.run({x, sine, cosine}), 0);
    ASSERT_EQ(alone.run({x, sineAlone, other}), 0);
    ASSERT_EQ(apart.run({x, other, cosineAlone}), 0);
    for (size_t i = 0; i < 64; ++i) {
      auto same = [](float a, float b) {
        return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
      };
      EXPECT_TRUE(same(sine[i], sineAlone[i])) << target << " " << x[i] << " " << sine[i] << " " << sineAlone[i];
      EXPECT_TRUE(same(cosine[i], cosineAlone[i]))
          << target << " " << x[i] << " " << cosine[i] << " " << cosineAlone[i];
    }
  }
}

TEST(KernelOps, AtomicsAccumulateUnderCollisions) {
  Kernel k(rowKernel(
      "%three = const {value = 3} : tensor<64xi32>\n%i = and %r, %three\n%p = addptr %xp, %i\n%one = const {value = 1} : tensor<64xi32>\n"
      "%m = cmpi %r, %three {pred = ne}\n%y = atomic_rmw %p, %one, %m {rmw = \"add\"} : tensor<64xi32>"));
  Row x(64), o(64);
  ASSERT_EQ(k.run({x, o}), 0);
  EXPECT_EQ(Row(x.begin(), x.begin() + 4), (Row{16, 16, 16, 15}));
  EXPECT_EQ(o[8], 2);
}

TEST(KernelOps, AssertNamesTheProgram) {
  Kernel k(
      "kernel @k(%n: i32) {\n%p = program_id {axis = 1} : i32\n%r = range {start = 0} : tensor<64xi32>\n%ps = splat %p : tensor<64xi32>\n"
      "%s = add %r, %ps\n%ns = splat %n : tensor<64xi32>\n%c = cmpi %s, %ns {pred = slt}\nassert %c {message = \"too big\"}\n}");
  EXPECT_EQ(k.run({66}, 1, 3), 0);
  EXPECT_EQ(k.run({64}, 1, 3), TEGULA_FAULT_ASSERT);
  EXPECT_EQ(k.fault.claimed, 1);
  EXPECT_EQ(k.fault.pid[1], 1);
  ASSERT_EQ(k.compiled.meta.sites.size(), 1u);
  EXPECT_EQ(k.compiled.meta.sites[0].text, "too big");
}

TEST(KernelOps, CheckedModeFindsTheAccess) {
  Options checked;
  checked.checked = true;
  Kernel k(rowKernel("%y = add %v, %r"), tegula::cpu::test::machineName(), checked);
  Row x(64), o(64);
  EXPECT_EQ(k.run({x, o}), 0);
  Row shortX(63), shortO(10, 7);
  EXPECT_EQ(k.run({shortX, o}), TEGULA_FAULT_BOUNDS);
  EXPECT_EQ(k.compiled.meta.sites[static_cast<size_t>(k.fault.site)].arg, 0);
  EXPECT_EQ(k.fault.extent, 63 * 4);
  EXPECT_EQ(k.run({x, shortO}), TEGULA_FAULT_BOUNDS);
  EXPECT_EQ(k.compiled.meta.sites[static_cast<size_t>(k.fault.site)].arg, 1);
}

TEST(KernelOps, PrintPassesWholeTensors) {
  Kernel k(rowKernel("%y = add %v, %r", "print %y, %x {prefix = \"y\"}\n"));
  std::map<int, Row> seen;
  k.user = &seen;
  k.print = [](const TegulaCpuLaunch *l, int32_t, int32_t operand, const int32_t *, const void *data, int64_t count) {
    const int32_t *p = static_cast<const int32_t *>(data);
    (*static_cast<std::map<int, Row> *>(l->user))[operand] = Row(p, p + count);
  };
  Row x(64, 10), o(64);
  ASSERT_EQ(k.run({x, o}), 0);
  EXPECT_EQ(seen[0], o);
  EXPECT_EQ(seen[1].size(), 1u);
}

TEST(KernelOps, NoinlineCallsReturnTensorsAndScalars) {
  Kernel k(
      "func noinline @f(%n: i32, %p: ptr<i32>) -> i32, tensor<64xi32> {\n%two = const {value = 2} : i32\n%m = mul %n, %two : i32\n"
      "%r = range {start = 0} : tensor<64xi32>\n%ms = splat %m : tensor<64xi32>\n%s = add %r, %ms\nreturn %m, %s\n}\n"
      "kernel @k(%o: ptr<i32>, %n: i32) {\n%m, %s = call %n, %o {callee = \"f\"} : i32, tensor<64xi32>\n"
      "%r = range {start = 0} : tensor<64xi32>\n%ms = splat %m : tensor<64xi32>\n%y = add %s, %ms\n"
      "%op = splat %o : tensor<64xptr<i32>>\n%oa = addptr %op, %r\nstore %oa, %y\n}\n");
  Row o(64);
  ASSERT_EQ(k.run({o, 5}), 0) << k.error;
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(o[static_cast<size_t>(i)], i + 20);
}
