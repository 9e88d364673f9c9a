// Round trips of the text form, what the reader refuses, what the verifier refuses.
#include "ir/Text.h"
#include "ir/Verifier.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

std::string reprint(std::string text, std::string *errors = nullptr) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("test.ir", std::move(text));
  std::unique_ptr<Module> m = parse(file, diag);
  if (errors)
    *errors = renderAll(diag);
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
  EXPECT_NE(once.find("kernel @add(%x: ptr<f32> {divisibility = 16, const = 1}, %n: i32 {signed = 0}"), std::string::npos) << once;
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

struct Bad {
  const char *text, *message;
};
class Refused : public testing::TestWithParam<Bad> {};
TEST_P(Refused, SaysWhy) {
  std::string errors;
  std::string out = reprint(GetParam().text, &errors);
  EXPECT_EQ(out.substr(0, 6), "error:") << out;
  EXPECT_NE(errors.find(GetParam().message), std::string::npos) << errors;
}
const Bad badTexts[] = {
    {"kernel", "expected `@`"},
    {"kernel @k(%a: i33) {}", "`i33` is not a type"},
    {"kernel @k(%a: tensor<0xi32>) {}", "is not a type"},
    {"kernel @k(%a: i32, %a: i32) {}", "`%a` is already defined"},
    {"kernel @k() {} func @k() {}", "function `@k` is already defined"},
    {"kernel @k() { %a = nothing : i32 }", "unknown operation `nothing`"},
    {"kernel @k() { %a = absi %b }", "`%b` is not defined here"},
    {"kernel @k() { %a, %b = const {value = 1} : i32 }", "`const` has 2 results here, but 1 types follow"},
    {"kernel @k() { %a = const {value = 1.2.3} : i32 }", "`1.2.3` is not a number"},
    {"kernel @k(%a: i32) { %b = cmpi %a, %a {pred = oeq} }", "`oeq` is no predicate of cmpi"},
    {"kernel @k() { %a = const {value = 1} : i32", "expected `}`"},
    {"kernel @k(%c: i1) { if %c { %x = const {value = 1} : i32 }  %y = absi %x }", "`%x` is not defined here"},
    {"kernel @k(%a: i32, %b: i64) { %c = add %a, %b }", "do not fit this operation"},
    {"kernel @k(%a: i32) { %c = splat %a : tensor<4xf32> }", "keeps the element type"},
    {"kernel @k() { %c = const {value = 200} : i8 }", "does not fit the type"},
    {"kernel @k(%p: ptr<f32>) { %c = load %p : f16 }", "pointer and value do not fit"},
    {"kernel @k(%a: f32) { call %a {callee = \"f\"} }", "not defined before its caller"},
    {"kernel @k(%a: i32) { %r = for %a, %a, %a, %a : i32 (%i: i32, %c: i32) { } }", "other number or types"},
    {"kernel @k(%c: i1) { %r = if %c : i32 { } }", "other number or types"},
    {"kernel @k(%a: i32) { yield %a  return }", "does not end its block"},
    {"kernel @k(%a: i32) { %r = range {start = 0} : tensor<4xi32>  %s = reduce %r {axis = 0} : i32 (%x: i32, %y: i32) { yield %a } }",
     "not visible here"},
    {"kernel @k(%a: i32) { %r = range {start = 0} : tensor<4xi32>  %b = broadcast %r : tensor<8xi32> }", "widens extents of 1"},
    {"kernel @k() { %a = program_id {axis = \"x\"} : i32 }", "`axis` has a value of the wrong type"},
    {"kernel @k() { %a = const {value = 1, value = 2} : i32 }", "`value` stands twice"},
    {"kernel @k(%a: tensor<2xi32>) { }", "an argument of type"},
};
INSTANTIATE_TEST_SUITE_P(Text, Refused, testing::ValuesIn(badTexts));

TEST(Text, DeepNestingIsRefused) {
  std::string t = "kernel @k(%c: i1) {";
  for (int i = 0; i < 10000; ++i)
    t += "if %c {";
  EXPECT_NE(reprint(t).find("nested more than 200 deep"), std::string::npos);
}

} // namespace
