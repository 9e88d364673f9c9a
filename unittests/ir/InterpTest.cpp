// The interpreter against plain C++ on small kernels, and its faults.
#include "ParsedIr.h"
#include "ir/Interp.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace tegula;
using namespace tegula::ir;

namespace {

uint64_t address(const void *p) { return reinterpret_cast<uintptr_t>(p); }

TEST(Interp, VectorAddWithMask) {
  auto m = test::parsed(R"(kernel @add(%x: ptr<f32>, %y: ptr<f32>, %n: i32) {
    %pid = program_id {axis = 0} : i32
    %b = const {value = 16} : i32
    %s = mul %pid, %b
    %ss = splat %s : tensor<16xi32>
    %r = range {start = 0} : tensor<16xi32>
    %o = add %ss, %r
    %nn = splat %n : tensor<16xi32>
    %mask = cmpi %o, %nn {pred = slt}
    %xb = splat %x : tensor<16xptr<f32>>
    %xp = addptr %xb, %o
    %yb = splat %y : tensor<16xptr<f32>>
    %yp = addptr %yb, %o
    %v = load %xp, %mask : tensor<16xf32>
    %w = load %yp, %mask : tensor<16xf32>
    %sum = fadd %v, %w
    store %yp, %sum, %mask
  })");
  std::vector<float> x(37), y(37, 0.1f);
  std::iota(x.begin(), x.end(), 0.0f);
  Interp in(*m);
  in.addBuffer(x.data(), x.size() * 4, false);
  in.addBuffer(y.data(), y.size() * 4);
  uint64_t args[] = {address(x.data()), address(y.data()), 37};
  InterpResult r = in.run(args, {3, 1, 1});
  EXPECT_TRUE(r.ok) << r.fault;
  for (size_t i = 0; i < 37; ++i)
    EXPECT_EQ(y[i], x[i] + 0.1f);
  args[2] = 40;
  r = in.run(args, {3, 1, 1});
  EXPECT_EQ(r.fault, "load of 4 bytes outside all buffers");
  EXPECT_EQ(r.pid[0], 2);
  std::swap(args[0], args[1]);
  args[2] = 37;
  EXPECT_EQ(in.run(args, {1, 1, 1}).fault, "store of 4 bytes to read-only memory");
}

std::vector<Tile> results(const char *text, std::initializer_list<Tile> args = {}) {
  auto m = test::parsed(text);
  std::vector<Tile> out;
  if (!m)
    return out;
  InterpResult r = Interp(*m).call(*m->functions.back(), {args.begin(), args.size()}, out);
  EXPECT_TRUE(r.ok) << r.fault;
  return out;
}

TEST(Interp, Shapes) {
  auto r = results(R"(func @f() -> tensor<3x2xi32>, tensor<2x2xi32>, tensor<2x3x2xi32>, tensor<4x2xi32>, tensor<3xi32> {
    %a0 = range {start = 0} : tensor<6xi32>
    %a = reshape %a0 : tensor<2x3xi32>
    %t = permute %a {perm = [1, 0]} : tensor<3x2xi32>
    %i0 = range {start = 1} : tensor<2xi32>
    %i1 = expand_dims %i0 {axis = 0} : tensor<1x2xi32>
    %i = broadcast %i1 : tensor<2x2xi32>
    %g = gather %a, %i {axis = 1} : tensor<2x2xi32>
    %j = join %a, %a : tensor<2x3x2xi32>
    %c = cat %g, %i {axis = 0} : tensor<4x2xi32>
    %h0, %h1 = split %t : tensor<3xi32>, tensor<3xi32>
    return %t, %g, %j, %c, %h1
  })");
  ASSERT_EQ(r.size(), 5u);
  EXPECT_EQ(r[0], (Tile{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(r[1], (Tile{1, 2, 4, 5}));
  EXPECT_EQ(r[2], (Tile{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(r[3], (Tile{1, 2, 4, 5, 1, 2, 1, 2}));
  EXPECT_EQ(r[4], (Tile{3, 4, 5}));
}

TEST(Interp, ReduceAndScanGoLeftToRight) {
  auto r = results(R"(func @f() -> tensor<2xi32>, tensor<2x3xi32>, tensor<2x3xi32>, i32, i32 {
    %a0 = range {start = 1} : tensor<6xi32>
    %a = reshape %a0 : tensor<2x3xi32>
    %d = reduce %a {axis = 1} : tensor<2xi32> (%x: i32, %y: i32) { %z = sub %x, %y  yield %z }
    %s = scan %a {axis = 0} : tensor<2x3xi32> (%x: i32, %y: i32) { %z = add %x, %y  yield %z }
    %b = scan %a {axis = 1, reverse = 1} : tensor<2x3xi32> (%x: i32, %y: i32) { %z = sub %x, %y  yield %z }
    %i0 = range {start = 0} : tensor<6xi32>
    %v, %w = reduce %a0, %i0 {axis = 0} : i32, i32 (%p: i32, %q: i32, %x: i32, %y: i32) {
      %c = cmpi %p, %x {pred = sgt}
      %m = select %c, %p, %x
      %n = select %c, %q, %y
      yield %m, %n
    }
    return %d, %s, %b, %v, %w
  })");
  ASSERT_EQ(r.size(), 5u);
  auto u = [](int v) { return static_cast<uint64_t>(static_cast<uint32_t>(v)); };
  EXPECT_EQ(r[0], (Tile{u(1 - 2 - 3), u(4 - 5 - 6)}));
  EXPECT_EQ(r[1], (Tile{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(r[2], (Tile{0, 1, 3, u(6 - 5 - 4), u(6 - 5), 6}));
  EXPECT_EQ(r[3], (Tile{6}));
  EXPECT_EQ(r[4], (Tile{5}));
}

TEST(Interp, ControlFlowAndCalls) {
  const char *text = R"(
  func noinline @gcd(%a: i32, %b: i32) -> i32 {
    %z = const {value = 0} : i32
    %r, %s = while %a, %b : i32, i32 (%x: i32, %y: i32) {
      %c = cmpi %y, %z {pred = ne}
      condition %c, %x, %y
    } do (%x: i32, %y: i32) {
      %m = urem %x, %y
      yield %y, %m
    }
    return %r
  }
  func @f(%n: i32) -> i32, i32, i32 {
    %one = const {value = 1} : i32
    %zero = const {value = 0} : i32
    %two = const {value = 2} : i32
    %sum = for %zero, %n, %two, %zero : i32 (%i: i32, %v: i32) { %w = add %v, %i  yield %w }
    %down = for %n, %zero, %two, %zero {reverse = 1} : i32 (%i: i32, %v: i32) { %w = add %v, %i  yield %w }
    %g = call %sum, %n {callee = "gcd"} : i32
    %c = cmpi %n, %one {pred = sgt}
    %r = if %c : i32 { yield %g } else { yield %zero }
    return %sum, %down, %r
  })";
  auto r = results(text, {{10}});
  ASSERT_EQ(r.size(), 3u);
  EXPECT_EQ(r[0], (Tile{20}));
  EXPECT_EQ(r[1], (Tile{30}));
  EXPECT_EQ(r[2], (Tile{10}));
}

TEST(Interp, DotInDouble) {
  auto m = test::parsed(R"(func @f(%a: tensor<2x3xf16>, %b: tensor<3x2xf16>, %c: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %d = dot %a, %b, %c : tensor<2x2xf32>
    return %d
  })");
  Tile one(6, 0x3C00), c(4, std::bit_cast<uint32_t>(0.5f));
  Tile args[] = {one, one, c};
  std::vector<Tile> out;
  ASSERT_TRUE(Interp(*m).call(*m->functions.back(), args, out).ok);
  EXPECT_EQ(out[0], Tile(4, std::bit_cast<uint32_t>(3.5f)));
}

TEST(Interp, DotInTf32CutsFloat32) {
  // One product: the operands' low thirteen bits count with ieee only.
  auto product = [](const char *precision, uint32_t a, uint32_t b) {
    auto m = test::parsed(R"(func @f(%a: tensor<1x1xf32>, %b: tensor<1x1xf32>, %c: tensor<1x1xf32>) -> tensor<1x1xf32> {
      %d = dot %a, %b, %c {precision = ")" + std::string(precision) + R"("} : tensor<1x1xf32>
      return %d
    })");
    Tile args[] = {{a}, {b}, {0}};
    std::vector<Tile> out;
    EXPECT_TRUE(Interp(*m).call(*m->functions.back(), args, out).ok);
    return static_cast<uint32_t>(out[0][0]);
  };
  const uint32_t one = std::bit_cast<uint32_t>(1.0f);
  EXPECT_EQ(product("ieee", one + 0x3FFF, one), one + 0x3FFF);
  EXPECT_EQ(product("tf32x3", one + 0x3FFF, one), one + 0x3FFF);
  EXPECT_EQ(product("tf32", one + 0x3FFF, one), one + 0x2000);
  EXPECT_EQ(product("tf32", one, one + 0x3FFF), one + 0x2000);
  EXPECT_EQ(product("tf32", 0x7F800000, one), 0x7F800000u); // infinity
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(product("tf32", 0x7F800001, one))));
}

TEST(Interp, AtomicsAssertionsPrints) {
  auto m = test::parsed(R"(kernel @k(%p: ptr<i32>, %n: i32) {
    %one = const {value = 1} : i32
    %old = atomic_rmw %p, %n {rmw = "add"} : i32
    %q = addptr %p, %one
    %seen = atomic_cas %q, %old, %n : i32
    print %old {prefix = "old"}
    %five = const {value = 5} : i32
    %c = cmpi %old, %five {pred = slt}
    assert %c {message = "too many"}
  })");
  int32_t mem[2] = {0, 3};
  Interp in(*m);
  in.addBuffer(mem, sizeof mem);
  std::vector<uint64_t> seen;
  in.onPrint = [&](const Op &, unsigned, const int32_t *, const Tile &t) { seen.push_back(t[0]); };
  uint64_t args[] = {address(mem), 3};
  InterpResult r = in.run(args, {4, 1, 1});
  EXPECT_FALSE(r.ok);
  EXPECT_EQ(r.fault, "too many");
  EXPECT_EQ(r.pid[0], 2);
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 3, 6}));
  EXPECT_EQ(mem[0], 9);
  EXPECT_EQ(mem[1], 3);
}

TEST(Interp, AtomicLoadsAndStores) {
  auto m = test::parsed(R"(kernel @k(%p: ptr<i8>, %q: ptr<i8>) {
    %i = range {start = 0} : tensor<4xi32>
    %s = splat %p : tensor<4xptr<i8>>
    %from = addptr %s, %i
    %t = splat %q : tensor<4xptr<i8>>
    %to = addptr %t, %i
    %two = const {value = 2} : tensor<4xi32>
    %m = cmpi %i, %two {pred = ne}
    %any = poison : tensor<4xi8>
    %v = atomic_rmw %from, %any, %m {rmw = "load", sem = "acquire"} : tensor<4xi8>
    %u = atomic_rmw %to, %v, %m {rmw = "store", sem = "release"} : tensor<4xi8>
  })");
  uint8_t from[4] = {3, 250, 7, 9}, to[4] = {1, 1, 1, 1};
  Interp in(*m);
  in.addBuffer(from, sizeof from, false);
  in.addBuffer(to, sizeof to);
  uint64_t args[] = {address(from), address(to)};
  InterpResult r = in.run(args, {1, 1, 1});
  EXPECT_TRUE(r.ok) << r.fault;
  EXPECT_EQ(std::vector<uint8_t>(to, to + 4), (std::vector<uint8_t>{3, 250, 1, 9}));
  uint64_t swapped[] = {address(to), address(from)};
  EXPECT_EQ(in.run(swapped, {1, 1, 1}).fault, "store of 1 bytes to read-only memory");
}

TEST(Interp, EndlessLoopsEnd) {
  auto m = test::parsed("kernel @k(%c: i1) { while () { condition %c } do { } }");
  Interp in(*m);
  in.maxSteps = 1000;
  uint64_t args[] = {1};
  EXPECT_EQ(in.run(args, {1, 1, 1}).fault, "the program takes too many steps");
}

} // namespace
