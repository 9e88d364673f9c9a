// Round trips of the text form. What the reader and the verifier refuse is in test/ir.
#include "ir/Text.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

std::string reprint(std::string text) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("test.ir", std::move(text));
  std::unique_ptr<Module> m = parse(file, diag);
  return m ? print(*m) : "error: " + renderAll(diag);
}

const char *everything = R"(
func noinline @helper(%a: f32) -> f32 {
  %b = fadd %a, %a
  return %b
}
# one of each family
kernel @add(%x: ptr<f32> {divisibility = 16, const = 1}, %n: i32 {signed = 0}, %p: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %k = const {value = 1024} : i32
  %f = const {value = 1} : f32
  %nan = const {value = nan(0x7ff8000000000001)} : f64
  %small = const {value = 1e-40} : f64
  %minf = const {value = -inf} : tensor<8xf16>
  %offs = range {start = 0} : tensor<8xi32>
  %b = splat %x : tensor<8xptr<f32>>
  %ptrs = addptr %b, %offs {contiguity = [8]}
  %n8 = splat %n : tensor<8xi32>
  %mask = cmpi %offs, %n8 {pred = slt}
  %v = load %ptrs, %mask {cache = ".c\"g\n", volatile = 1} : tensor<8xf32>
  %s = reduce %v {axis = 0} : f32 (%a: f32, %c: f32) { %d = fadd %a, %c  yield %d }
  %cmp = cmpf %s, %f {pred = ult}
  %two = reshape %v : tensor<4x2xf32>
  %lo, %hi = split %two : tensor<4xf32>, tensor<4xf32>
  barrier
  %h = call %s {callee = "helper"} : f32
  %z = const {value = 0} : i32
  %one = const {value = 1} : i32
  %r = for %z, %n, %one, %h {num_stages = 3} : f32 (%i: i32, %acc: f32) {
    %q = if %cmp : f32 { yield %acc } else { yield %f }
    if %cmp { store %ptrs, %v, %mask }
    yield %q
  }
  %w = while %z : i32 (%i: i32) { %go = cmpi %i, %n {pred = slt}  condition %go, %i } do (%i: i32) {
    %next = add %i, %one
    yield %next
  }
  %old = atomic_rmw %p, %w {rmw = "add", sem = "relaxed"} : i32
  %at = permute %two {perm = [1, 0]} : tensor<2x4xf32>
  print %s {prefix = "s:"}
}
)";

TEST(Text, RoundTrip) {
  std::string once = reprint(everything);
  EXPECT_NE(once.find("kernel @add(%x: ptr<f32> {divisibility = 16, const = 1}, %n: i32 {signed = 0}"),
            std::string::npos)
      << once;
  EXPECT_NE(once.find("{pred = ult}"), std::string::npos) << once;
  EXPECT_NE(once.find("nan(0x7ff8000000000001)"), std::string::npos) << once;
  EXPECT_NE(once.find("} else {"), std::string::npos) << once;
  EXPECT_EQ(once, reprint(once));
}

TEST(Text, NamesStayUnique) {
  std::string t = reprint("kernel @k(%a: i32) { if_ }");
  EXPECT_NE(t.find("unknown operation"), std::string::npos);
  DiagEngine diag;
  auto m = parse(std::make_shared<SourceFile>("t", "kernel @k(%a: i32) { %b = add %a, %a\n %c = add %b, %b }"), diag);
  ASSERT_TRUE(m);
  m->kernel()->block()->ops[0]->result()->name = "a";
  m->kernel()->block()->ops[1]->result()->name = "7 %";
  std::string once = print(*m);
  EXPECT_EQ(once, reprint(once));
  EXPECT_NE(once.find("%a.1 = add %a, %a"), std::string::npos) << once;
}

TEST(Text, DeepNestingIsRefused) {
  std::string t = "kernel @k(%c: i1) {";
  for (int i = 0; i < 10000; ++i)
    t += "if %c {";
  EXPECT_NE(reprint(t).find("nested more than 200 levels deep"), std::string::npos);
}

} // namespace
