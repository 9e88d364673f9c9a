// Work on large tiles in loops over parts: what is written is valid IR and means the same as before, and its text does
// not grow with the tile.
#include "ParsedIr.h"
#include "RandomKernel.h"
#include "gpu/parts/SplitTiles.h"
#include "ir/Verifier.h"
#include "targets/nvidia/Nvidia.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;
using tegula::test::count;
using tegula::test::elements;
using tegula::test::parsed;
using tegula::test::RandomKernel;
using tegula::test::runKernel;

namespace {

constexpr int64_t shared = 227 << 10; // bytes
constexpr gpu::StraightLimits everything{.most = 0, .part = 1, .fewest = 1, .elements = 1, .held = 0};

unsigned loops(const Module &m) { return count(*m.kernel()->block(), OpKind::For); }

/// A kernel over 256 ints as the random ones have it, from the operations of its body; %i is their numbers, %x what was
/// loaded from %a.
std::unique_ptr<Module> kernel(const std::string &body) {
  return parsed(R"(kernel @k(%a: ptr<i32>, %o: ptr<i32>, %n: i32, %m: i32) {
  %i = range {start = 0} : tensor<256xi32>
  %as = splat %a : tensor<256xptr<i32>>
  %os = splat %o : tensor<256xptr<i32>>
  %pa = addptr %as, %i : tensor<256xptr<i32>>
  %po = addptr %os, %i : tensor<256xptr<i32>>
  %x = load %pa : tensor<256xi32>
)" + body + "  return\n}\n");
}

/// Splits everything that can be, in parts of one element a thread, and compares; null if nothing was split.
std::unique_ptr<Module> split(const Module &m) {
  auto parts = gpu::splitTiles(m, 32, shared, everything);
  if (!parts)
    return nullptr;
  std::string why;
  EXPECT_TRUE(verify(*parts, &why)) << why << "\n" << print(*parts);
  EXPECT_EQ(runKernel(*parts, 5), runKernel(m, 5)) << print(*parts);
  return parts;
}

/// A loop in which every element goes on while its value is above its number: %v is what becomes of the value, %k
/// counts. `body` makes %next of the value %b1 and %more of the count %b2, for all elements; %b0 is whether one is
/// still in the loop, %y some tile from outside.
std::unique_ptr<Module> laneLoop(const std::string &body, const std::string &after, const std::string &mask = "%h") {
  return kernel(R"(  %on = const {value = 1} : tensor<256xi1>
  %c0 = const {value = 0} : tensor<256xi32>
  %c1 = const {value = 1} : tensor<256xi32>
  %y = add %x, %i : tensor<256xi32>
  %u, %v, %k = while %on, %x, %c0 : tensor<256xi1>, tensor<256xi32>, tensor<256xi32> (%a0: tensor<256xi1>, %a1: tensor<256xi32>, %a2: tensor<256xi32>) {
    %g = cmpi %a1, %i {pred = sgt} : tensor<256xi1>
    %h = and %a0, %g : tensor<256xi1>
    %any = reduce )" + mask + R"( {axis = 0} : i1 (%p: i1, %q: i1) {
      %r = or %p, %q : i1
      yield %r
    }
    condition %any, %h, %a1, %a2
  } do (%b0: tensor<256xi1>, %b1: tensor<256xi32>, %b2: tensor<256xi32>) {
    %one = const {value = 1} : tensor<256xi32>
)" + body + R"(    yield %b0, %next, %more
  }
)" + after);
}

const char *const sum = R"( {axis = 0} : i32 (%p: i32, %q: i32) {
    %r = add %p, %q : i32
    yield %r
  }
)";

} // namespace

TEST(SplitTiles, RandomKernelsKeepTheirMeaning) {
  unsigned some = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Module m;
    RandomKernel generate(m, seed);
    gpu::StraightLimits limits = everything;
    if (seed & 8) // fewer parts where that makes one loop of several
      limits.held = 4, limits.times = 1, limits.most = 8;
    auto parts = gpu::splitTiles(m, 32u << seed % 3, shared, limits);
    if (!parts)
      continue;
    ++some;
    std::string why;
    ASSERT_TRUE(verify(*parts, &why)) << "seed " << seed << "\n" << why << "\n" << print(*parts);
    ASSERT_EQ(runKernel(*parts, seed), runKernel(m, seed)) << "seed " << seed << "\n" << print(m) << print(*parts);
  }
  EXPECT_GT(some, 100u);
}

TEST(SplitTiles, ElementwiseWorkIsOneLoop) {
  auto m = kernel("  %y = mul %x, %x : tensor<256xi32>\n  store %po, %y\n");
  auto parts = split(*m);
  ASSERT_TRUE(parts);
  EXPECT_EQ(loops(*parts), 1u);
  EXPECT_EQ(count(*parts->kernel()->block(), OpKind::Load), 1u);
  // Below the limits it stays as it is.
  EXPECT_FALSE(gpu::splitTiles(*m, 32, shared));
}

TEST(SplitTiles, WhatDependsOnAReductionIsALaterLoop) {
  auto m = kernel(std::string("  %s = reduce %x") + sum +
                  "  %b = splat %s : tensor<256xi32>\n  %y = sub %x, %b : tensor<256xi32>\n  store %po, %y\n");
  auto parts = split(*m);
  ASSERT_TRUE(parts);
  EXPECT_EQ(loops(*parts), 2u);
  EXPECT_EQ(count(*parts->kernel()->block(), OpKind::Load), 2u);
}

TEST(SplitTiles, SeveralResultsOfAReduction) {
  auto m = kernel(R"(  %v, %w = reduce %x, %i {axis = 0} : i32, i32 (%p: i32, %pi: i32, %q: i32, %qi: i32) {
    %g = cmpi %p, %q {pred = sge} : i1
    %r = select %g, %p, %q : i32
    %ri = select %g, %pi, %qi : i32
    yield %r, %ri
  }
  store %o, %v
  %o1 = addptr %o, %n : ptr<i32>
  store %o1, %w
)");
  auto parts = split(*m);
  ASSERT_TRUE(parts);
  EXPECT_EQ(loops(*parts), 1u);
}

// Rows can be split without accumulating; columns of a sum along them cannot.
TEST(SplitTiles, AnAxisThatIsNotReducedIsPreferred) {
  auto m = kernel(R"(  %t = reshape %x : tensor<64x4xi32>
  %s = reduce %t {axis = 1} : tensor<64xi32> (%p: i32, %q: i32) {
    %r = add %p, %q : i32
    yield %r
  }
  %e = expand_dims %s {axis = 1} : tensor<64x1xi32>
  %f = broadcast %e : tensor<64x4xi32>
  %y = sub %t, %f : tensor<64x4xi32>
  %z = reshape %y : tensor<256xi32>
  store %po, %z
)");
  auto parts = split(*m);
  ASSERT_TRUE(parts);
  EXPECT_EQ(loops(*parts), 1u);
}

// Eight parts of 4 rows are halves of rows, read by two loops; four are rows.
TEST(SplitTiles, OneLoopOverFewerPartsIsPreferred) {
  auto m = kernel(R"(  %c = range {start = 0} : tensor<64xi32>
  %cs = expand_dims %c {axis = 0} : tensor<1x64xi32>
  %cb = broadcast %cs : tensor<4x64xi32>
  %row = range {start = 0} : tensor<4xi32>
  %rs = expand_dims %row {axis = 1} : tensor<4x1xi32>
  %rb = broadcast %rs : tensor<4x64xi32>
  %columns = const {value = 64} : tensor<4x64xi32>
  %rc = mul %rb, %columns : tensor<4x64xi32>
  %j = add %rc, %cb : tensor<4x64xi32>
  %ps = splat %a : tensor<4x64xptr<i32>>
  %qs = splat %o : tensor<4x64xptr<i32>>
  %from = addptr %ps, %j : tensor<4x64xptr<i32>>
  %to = addptr %qs, %j : tensor<4x64xptr<i32>>
  %t = load %from : tensor<4x64xi32>
  %s = reduce %t {axis = 1} : tensor<4xi32> (%p: i32, %q: i32) {
    %r = add %p, %q : i32
    yield %r
  }
  %e = expand_dims %s {axis = 1} : tensor<4x1xi32>
  %f = broadcast %e : tensor<4x64xi32>
  %y = sub %t, %f : tensor<4x64xi32>
  store %to, %y
)");
  auto parts = [&](int64_t held) {
    return gpu::splitTiles(*m, 32, shared, {.most = 20, .part = 1000, .fewest = 1, .elements = 1, .held = held});
  };
  auto byRows = parts(2), byHalves = parts(1);
  ASSERT_TRUE(byRows && byHalves);
  EXPECT_EQ(loops(*byRows), 1u);
  EXPECT_EQ(count(*byRows->kernel()->block(), OpKind::Load), 1u);
  EXPECT_EQ(loops(*byHalves), 2u); // a thread would hold too many elements of a row
  EXPECT_EQ(runKernel(*byRows, 5), runKernel(*m, 5));
}

// Sums of columns are combined row block by row block, as tensors.
TEST(SplitTiles, TensorsAreAccumulated) {
  auto m = kernel(R"(  %t = reshape %x : tensor<64x4xi32>
  %s = reduce %t {axis = 0} : tensor<4xi32> (%p: i32, %q: i32) {
    %c = const {value = 3} : i32
    %qc = xor %q, %c : i32
    %d = xor %qc, %c : i32
    %r = add %p, %d : i32
    yield %r
  }
  %j = range {start = 0} : tensor<4xi32>
  %ob = splat %o : tensor<4xptr<i32>>
  %pj = addptr %ob, %j : tensor<4xptr<i32>>
  store %pj, %s
)");
  auto parts = split(*m);
  ASSERT_TRUE(parts);
  EXPECT_EQ(loops(*parts), 1u);
}

/// A product of 4x64 and 64x4 bytes: columns of the first are split with rows of the second, and what parts give is
/// added up from %c on.
std::unique_ptr<Module> product(const std::string &c, const std::string &b, const std::string &after) {
  return parsed(R"(kernel @k(%a: ptr<i32>, %o: ptr<i32>, %n: i32, %m: i32) {
  %i = range {start = 0} : tensor<4xi32>
  %l = range {start = 0} : tensor<64xi32>
  %j = range {start = 0} : tensor<256xi32>
  %width = const {value = 64} : tensor<4xi32>
  %iw = mul %i, %width : tensor<4xi32>
  %ie = expand_dims %iw {axis = 1} : tensor<4x1xi32>
  %ib = broadcast %ie : tensor<4x64xi32>
  %le = expand_dims %l {axis = 0} : tensor<1x64xi32>
  %lb = broadcast %le : tensor<4x64xi32>
  %il = add %ib, %lb : tensor<4x64xi32>
  %as = splat %a : tensor<4x64xptr<i32>>
  %p = addptr %as, %il : tensor<4x64xptr<i32>>
  %os = splat %o : tensor<256xptr<i32>>
  %qs = addptr %os, %j : tensor<256xptr<i32>>
  %q = reshape %qs : tensor<64x4xptr<i32>>
  %x32 = load %p : tensor<4x64xi32>
  %x = trunc %x32 : tensor<4x64xi8>
  %y32 = load %q : tensor<64x4xi32>
  %y = trunc %y32 : tensor<64x4xi8>
  %zero = const {value = 0} : tensor<4x4xi32>
  %seven = const {value = 7} : tensor<4x4xi32>
  %d = dot %x, )" + b + ", " + c + R"( : tensor<4x4xi32>
  %k = range {start = 0} : tensor<16xi32>
  %rs = splat %o : tensor<16xptr<i32>>
  %rk = addptr %rs, %k : tensor<16xptr<i32>>
  %r = reshape %rk : tensor<4x4xptr<i32>>
)" + after + "  store %r, %d\n  return\n}\n");
}

TEST(SplitTiles, DotsOfLargeOperandsAreAddedUp) {
  auto parts = [&](const Module &m) {
    auto out = gpu::splitTiles(m, 32, 0, everything);
    std::string why;
    EXPECT_TRUE(!out || verify(*out, &why)) << why << "\n" << print(*out);
    if (out)
      EXPECT_EQ(runKernel(*out, 5), runKernel(m, 5)) << print(*out);
    return out;
  };
  for (const char *c : {"%zero", "%seven"}) {
    auto m = product(c, "%y", "");
    auto split = parts(*m);
    ASSERT_TRUE(split);
    EXPECT_EQ(loops(*split), 1u);
    EXPECT_EQ(split->kernel()->block()->ops.empty(), false);
    EXPECT_EQ(count(*split->kernel()->block(), OpKind::Dot), 1u);
    // Operands that fit stay whole.
    EXPECT_FALSE(gpu::splitTiles(*m, 32, shared));
  }
  // An operand that another operation needs whole, and one operand for both sides.
  EXPECT_FALSE(
      parts(*product("%zero", "%y", "  %g = gather %y32, %y32 {axis = 0} : tensor<64x4xi32>\n  store %q, %g\n")));
}

// In place through the same pointers each part is read before it is written; through others a later part would be read
// too late.
TEST(SplitTiles, InPlaceWorkKeepsItsOrder) {
  EXPECT_TRUE(split(*kernel("  %y = add %x, %i : tensor<256xi32>\n  store %pa, %y\n")));
  EXPECT_FALSE(split(*kernel(R"(  %c = const {value = 1} : tensor<256xi32>
  %e = const {value = 255} : tensor<256xi32>
  %j = add %i, %c : tensor<256xi32>
  %k = and %j, %e : tensor<256xi32>
  %pk = addptr %as, %k : tensor<256xptr<i32>>
  store %pk, %x
)")));
  // The second loop would read what the first has written.
  EXPECT_FALSE(
      split(*kernel(std::string("  %y = add %x, %i : tensor<256xi32>\n  store %pa, %y\n  %s = reduce %x") + sum +
                    "  %b = splat %s : tensor<256xi32>\n  %z = add %x, %b : tensor<256xi32>\n  store %po, %z\n")));
}

// What is used by something that takes whole tiles is computed as it was.
TEST(SplitTiles, ValuesThatLeaveStayWhole) {
  EXPECT_FALSE(split(*kernel(R"(  %g = gather %x, %x {axis = 0} : tensor<256xi32>
  %y = add %g, %x : tensor<256xi32>
  store %po, %y
)")));
}

// The elements of a part are over when they are, not when those of all parts are.
TEST(SplitTiles, LoopsOfEachElement) {
  const std::string down = "    %less = sub %b1, %one : tensor<256xi32>\n",
                    counts = "    %plus = add %b2, %y : tensor<256xi32>\n",
                    next = "    %next = select %b0, %less, %b1 : tensor<256xi32>\n",
                    more = "    %more = select %b0, %plus, %b2 : tensor<256xi32>\n";
  auto parts = split(*laneLoop(down + counts + next + more, "  %z = mul %k, %v : tensor<256xi32>\n  store %po, %z\n"));
  ASSERT_TRUE(parts);
  EXPECT_EQ(loops(*parts), 1u);
  EXPECT_EQ(count(*parts->kernel()->block(), OpKind::While), 1u);
  EXPECT_EQ(count(*parts->kernel()->block(), OpKind::Load), 1u);
  // A count that goes on where an element is over is nobody's business if it is not used.
  const std::string goesOn = "    %more = add %b2, %c1 : tensor<256xi32>\n";
  EXPECT_TRUE(split(*laneLoop(down + next + goesOn, "  store %po, %v\n")));
  EXPECT_FALSE(split(*laneLoop(down + next + goesOn, "  store %po, %k\n")));
  // Nor may what is over change by way of something that does not.
  EXPECT_FALSE(split(*laneLoop(
      "    %more = add %b2, %c1 : tensor<256xi32>\n    %less = sub %b1, %b2 : tensor<256xi32>\n    %next = select %b0, %less, %b2 : tensor<256xi32>\n",
      "  store %po, %v\n")));
  // The loop may look at less than what decides for an element, if that stays false once it is.
  EXPECT_TRUE(split(*laneLoop(down + next + counts + more, "  store %po, %k\n", "%g")));
  // What is over would be seen by others.
  EXPECT_FALSE(split(*laneLoop(
      down + next +
          "    %s = reduce %b2 {axis = 0} : i32 (%p: i32, %q: i32) {\n      %r = add %p, %q : i32\n      yield %r\n    }\n"
          "    %t = splat %s : tensor<256xi32>\n    %plus = add %t, %c1 : tensor<256xi32>\n" +
          more,
      "  store %po, %k\n")));
  EXPECT_FALSE(split(*laneLoop(down + next + "    %plus = load %pa : tensor<256xi32>\n" + more, "  store %po, %k\n")));
}

// 2^14 elements with 4 warps are 128 a thread. As straight code they were 7000 lines of PTX, and 4 s of the assembler's
// time.
TEST(SplitTiles, TextDoesNotGrowWithTheTile) {
  auto text = [](unsigned n) {
    std::string t = "tensor<" + std::to_string(n) + "x";
    auto m = parsed(
        "kernel @k(%x: ptr<f32> {divisibility = 16}, %o: ptr<f32> {divisibility = 16}) {\n  %i = range {start = 0} : " +
        t + "i32>\n" + "  %xs = splat %x : " + t + "ptr<f32>>\n  %px = addptr %xs, %i : " + t +
        "ptr<f32>>\n  %v = load %px : " + t + "f32>\n" + "  %a = sin %v : " + t + "f32>\n  %b = log %a : " + t +
        "f32>\n  %c = exp %b : " + t + "f32>\n  %d = fdiv %c, %v : " + t + "f32>\n" + "  %os = splat %o : " + t +
        "ptr<f32>>\n  %po = addptr %os, %i : " + t + "ptr<f32>>\n  store %po, %d\n  return\n}\n");
    DiagEngine diag;
    auto ptx = nvidia::emitStage(*m, *nvidia::parseTarget("sm_90a"), {}, nvidia::Stage::Ptx, diag);
    EXPECT_TRUE(ptx);
    return std::count(ptx->begin(), ptx->end(), '\n');
  };
  auto small = text(1 << 12), large = text(1 << 14), huge = text(1 << 18);
  EXPECT_LT(large, 2 * small);
  EXPECT_LT(huge, 2 * small);
}
