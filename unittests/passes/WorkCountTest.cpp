// What is counted of a kernel, and what its expressions come to for one program.
#include "passes/WorkCount.h"
#include "ParsedIr.h"
#include <gtest/gtest.h>

using namespace tegula;

namespace {

struct Counted {
  Work work;
  explicit Counted(const std::string &text) {
    std::unique_ptr<ir::Module> m = test::parsed(text);
    if (m) work = countWork(*m);
  }
  WorkPoint point(std::span<const int64_t> args, int64_t program = 0, int64_t grid = 1) const {
    WorkPoint p;
    p.arguments = args, p.program = {program, 0, 0}, p.grid = {grid, 1, 1};
    return p;
  }
};

// out[i] = x[i] + 1 for 128 elements a program, below n.
const char *rowKernel =
    "kernel @k(%x: ptr<f32> {divisibility = 16}, %o: ptr<f32> {divisibility = 16}, %n: i32 {divisibility = 16}) {\n"
    "  %b = const {value = 128} : i32\n  %pid = program_id {axis = 0} : i32\n  %s = mul %pid, %b\n  %ss = splat %s : tensor<128xi32>\n"
    "  %r = range {start = 0} : tensor<128xi32>\n  %at = add %ss, %r\n  %nn = splat %n : tensor<128xi32>\n"
    "  %m = cmpi %at, %nn {pred = slt}\n  %xs = splat %x : tensor<128xptr<f32>>\n  %p = addptr %xs, %at\n  %v = load %p, %m : tensor<128xf32>\n"
    "  %one = const {value = 1.0} : tensor<128xf32>\n  %y = fadd %v, %one\n"
    "  %os = splat %o : tensor<128xptr<f32>>\n  %q = addptr %os, %at\n  store %q, %y, %m\n}\n";

TEST(WorkCount, AddressesAndMasksAreExpressions) {
  Counted k(rowKernel);
  ASSERT_EQ(k.work.accesses.size(), 2u);
  const WorkAccess &load = k.work.accesses[0], &store = k.work.accesses[1];
  EXPECT_EQ(load.kind, WorkAccess::Kind::Load);
  EXPECT_EQ(load.argument, 0);
  EXPECT_EQ(store.kind, WorkAccess::Kind::Store);
  EXPECT_EQ(store.argument, 1);
  EXPECT_EQ(load.elements(), 128);
  EXPECT_EQ(load.vectorBytes, 16u); // the mask changes at a multiple of 16 elements, addresses are aligned to 16 bytes
  EXPECT_EQ(k.work.scopes[0][WorkKind::Float], 128);
  int64_t args[] = {0, 0, 300};
  WorkValues v(k.work);
  WorkPoint p = k.point(args, 2, 3);
  v.evaluate(p);
  EXPECT_EQ(v[load.offset], 2 * 128 * 4);
  EXPECT_EQ(v[load.mask], 1);
  int64_t c[] = {43}, d[] = {44};
  v.at(p, c);
  EXPECT_EQ(v[load.offset], (2 * 128 + 43) * 4);
  EXPECT_EQ(v[load.mask], 1);
  v.at(p, d);
  EXPECT_EQ(v[load.mask], 0); // 300 is the end
}

// What is computed of a program's offsets is not all for addresses.
TEST(WorkCount, HashesOfOffsetsAreArithmetic) {
  std::string text = rowKernel;
  const std::string sum = "  %y = fadd %v, %one\n";
  text.replace(text.find(sum), sum.size(),
               "  %h = xor %at, %nn\n  %u = mul %h, %h\n  %f = sitofp %u : tensor<128xf32>\n  %y = fadd %v, %f\n");
  Counted plain(rowKernel), hashed(text);
  const WorkScope &a = plain.work.scopes[0], &b = hashed.work.scopes[0];
  EXPECT_GT(a[WorkKind::Index], 0);
  EXPECT_EQ(b[WorkKind::Index], a[WorkKind::Index]);
  EXPECT_EQ(b[WorkKind::Integer], a[WorkKind::Integer] + 2 * 128);
}

// A loop over k of dots whose pointers move on.
const char *dotKernel =
    "kernel @k(%a: ptr<f16> {divisibility = 16}, %b: ptr<f16> {divisibility = 16}, %n: i32) {\n"
    "  %zero = const {value = 0} : i32\n  %step = const {value = 16} : i32\n  %r = range {start = 0} : tensor<16xi32>\n"
    "  %c = expand_dims %r {axis = 0} : tensor<1x16xi32>\n  %row = expand_dims %r {axis = 1} : tensor<16x1xi32>\n"
    "  %nn = splat %n : tensor<16x1xi32>\n  %scaled = mul %row, %nn\n  %rb = broadcast %scaled : tensor<16x16xi32>\n"
    "  %cb = broadcast %c : tensor<16x16xi32>\n  %at = add %rb, %cb\n  %as = splat %a : tensor<16x16xptr<f16>>\n"
    "  %ap = addptr %as, %at\n  %bs = splat %b : tensor<16x16xptr<f16>>\n  %bp = addptr %bs, %at\n"
    "  %acc = const {value = 0.0} : tensor<16x16xf32>\n"
    "  %s, %e = for %zero, %n, %step, %acc, %ap : tensor<16x16xf32>, tensor<16x16xptr<f16>> (%k: i32, %x: tensor<16x16xf32>, %q: tensor<16x16xptr<f16>>) {\n"
    "    %l = load %q : tensor<16x16xf16>\n    %h = load %bp : tensor<16x16xf16>\n    %t = permute %h {perm = [1, 0]} : tensor<16x16xf16>\n"
    "    %d = dot %l, %t, %x : tensor<16x16xf32>\n    %sixteen = const {value = 16} : tensor<16x16xi32>\n    %qn = addptr %q, %sixteen\n    yield %d, %qn\n  }\n"
    "  store %ap, %t2\n}\n";

TEST(WorkCount, LoopsHaveTripsAndMovingPointers) {
  std::string text = dotKernel;
  text.replace(text.find("  store %ap, %t2\n"), 17, "  %f = fptrunc %s : tensor<16x16xf16>\n  store %e, %f\n");
  Counted k(text);
  ASSERT_EQ(k.work.dots.size(), 1u);
  const WorkDot &d = k.work.dots[0];
  EXPECT_EQ(d.m * 10000 + d.n * 100 + d.k, 161616);
  EXPECT_EQ(d.bits, 16);
  EXPECT_TRUE(d.loadsA && d.loadsB);
  int64_t args[] = {0, 0, 100};
  WorkValues v(k.work);
  WorkPoint p = k.point(args);
  v.evaluate(p);
  EXPECT_EQ(v.executions(d.scope, 1), 7); // 100 by 16
  ASSERT_EQ(k.work.accesses.size(), 3u);
  const WorkAccess &moving = k.work.accesses[0], &still = k.work.accesses[1], &end = k.work.accesses[2];
  EXPECT_TRUE(moving.feedsDot && still.feedsDot);
  EXPECT_EQ(v[moving.offset], 3 * 16 * 2); // in the middle of 7 iterations
  EXPECT_EQ(v[still.offset], 0);
  EXPECT_EQ(v[end.offset], 7 * 16 * 2);
  int64_t c[] = {2, 3};
  v.at(p, c);
  EXPECT_EQ(v[still.offset], (2 * 100 + 3) * 2);
  EXPECT_EQ(k.work.scopes[0][WorkKind::Convert], 256);
  // The dot's operand that is transposed is read so, not moved.
  for (const WorkScope &s : k.work.scopes) EXPECT_EQ(s[WorkKind::Exchange], 0);
}

TEST(WorkCount, BranchesAndWhileLoops) {
  Counted k(
      "kernel @k(%x: ptr<f32>, %n: i32, %m: i32) {\n  %zero = const {value = 0} : i32\n  %three = const {value = 3} : i32\n  %c = cmpi %n, %m {pred = slt}\n"
      "  if %c {\n    %v = load %x : f32\n    store %x, %v\n    yield\n  } else {\n    yield\n  }\n"
      "  %e = while %zero : i32 (%i: i32) { %t = cmpi %i, %n {pred = slt}  condition %t, %i } do (%j: i32) {\n"
      "    %p = addptr %x, %j\n    %w = load %p : f32\n    store %p, %w\n    %next = add %j, %three\n    yield %next\n  }\n}\n");
  int64_t args[] = {0, 10, 20}, other[] = {0, 10, 5};
  WorkValues v(k.work);
  v.evaluate(k.point(args));
  ASSERT_EQ(k.work.accesses.size(), 4u);
  EXPECT_EQ(v.executions(k.work.accesses[0].scope, 1), 1);
  EXPECT_EQ(v.executions(k.work.accesses[2].scope, 1), 4);
  EXPECT_EQ(v[k.work.accesses[2].offset], 1 * 3 * 4); // the middle of 4 iterations
  v.evaluate(k.point(other));
  EXPECT_EQ(v.executions(k.work.accesses[0].scope, 1), 0);
}

TEST(WorkCount, WhatMemoryDecidesIsUnknown) {
  Counted k(
      "kernel @k(%x: ptr<f32>, %i: ptr<i32>) {\n  %n = load %i : i32\n  %zero = const {value = 0} : i32\n  %one = const {value = 1} : i32\n"
      "  %e = for %zero, %n, %one, %zero : i32 (%k: i32, %s: i32) {\n    %p = addptr %x, %n\n    %v = load %p : f32\n    store %p, %v\n    yield %s\n  }\n}\n");
  WorkValues v(k.work);
  v.evaluate(k.point({}));
  const WorkAccess &a = k.work.accesses[1];
  EXPECT_FALSE(v.isKnown(a.offset));
  EXPECT_EQ(a.argument, 0);
  EXPECT_EQ(v.executions(a.scope, 5), 5); // the guess
}

TEST(WorkCount, CallsCountAsTheirBody) {
  Counted k(
      "func noinline @f(%x: ptr<f32>, %n: i32) -> f32 {\n  %p = addptr %x, %n\n  %v = load %p : f32\n  return %v\n}\n"
      "kernel @k(%x: ptr<f32>) {\n  %one = const {value = 1} : i32\n  %two = const {value = 2} : i32\n"
      "  %a = call %x, %one {callee = \"f\"} : f32\n  %b = call %x, %two {callee = \"f\"} : f32\n  %s = fadd %a, %b\n  store %x, %s\n}\n");
  WorkValues v(k.work);
  v.evaluate(k.point({}));
  ASSERT_EQ(k.work.accesses.size(), 3u);
  EXPECT_EQ(v[k.work.accesses[0].offset], 4);
  EXPECT_EQ(v[k.work.accesses[1].offset], 8);
}

} // namespace
