// What reductions are, by the meaning of their regions.
#include "ParsedIr.h"
#include "passes/Extremum.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

/// The reduction of a kernel whose region is `body`, of (%a, %i, %b, %j), with values of type `elem`.
std::optional<ArgExtremum> of(const std::string &elem, const std::string &body, const std::string &index = "i32") {
  std::string x = "tensor<64x" + elem + ">", at = "tensor<64x" + index + ">";
  std::unique_ptr<Module> m = test::parsed(
      "kernel @k(%p: ptr<" + elem + ">, %n: " + index +
      ") {\n  %r = range {start = 0} : tensor<64xi32>\n  %s = splat %p : tensor<64xptr<" + elem + ">>\n" +
      "  %q = addptr %s, %r\n  %x = load %q : " + x + "\n  %at = splat %n : " + at +
      "\n  %v, %w = reduce %x, %at {axis = 0} : " + elem + ", " + index + " (%a: " + elem + ", %i: " + index +
      ", %b: " + elem + ", %j: " + index + ") {\n" + body + "\n    yield %c, %d\n  }\n  store %p, %v\n  return\n}\n");
  for (const Op *op : m->kernel()->block()->ops)
    if (op->kind == OpKind::Reduce)
      return argExtremum(*op);
  return std::nullopt;
}

constexpr const char *chosen = "\n    %c = select %f, %a, %b : f32\n    %d = select %f, %i, %j : i32";
std::string floats(const std::string &body) { return body + chosen; }
std::string integers(const std::string &body) {
  std::string s = body + chosen;
  return s.replace(s.find("%b : f32"), 8, "%b : i32");
}

const std::string nanLoses =
    "%g = cmpf %a, %b {pred = ogt} : i1\n %l = cmpi %i, %j {pred = slt} : i1\n %e = cmpf %a, %b {pred = oeq} : i1\n %t = and %l, %e : i1\n"
    "%h = or %g, %t : i1\n %n2 = cmpf %b, %b {pred = une} : i1\n %m = cmpf %a, %a {pred = oeq} : i1\n %o = or %l, %m : i1\n %u = and %n2, %o : i1\n %f = or %h, %u : i1";

TEST(Extremum, TheLibrarysFormAndOthers) {
  auto x = of("f32", floats(nanLoses));
  ASSERT_TRUE(x);
  EXPECT_TRUE(x->isMax && !x->anyIndex);
  // The other way round, by nested choices.
  x = of(
      "i32",
      integers(
          "%l = cmpi %a, %b {pred = slt} : i1\n %e = cmpi %a, %b {pred = eq} : i1\n %k = cmpi %j, %i {pred = sgt} : i1\n %f = select %e, %k, %l : i1"));
  ASSERT_TRUE(x);
  EXPECT_TRUE(!x->isMax && x->isSigned && !x->anyIndex);
  x = of("i32", integers("%f = cmpi %a, %b {pred = ugt} : i1"));
  ASSERT_TRUE(x);
  EXPECT_TRUE(x->isMax && !x->isSigned && x->anyIndex);
}

TEST(Extremum, WhatIsNone) {
  // NaNs that depend on the order, the larger index, a larger index as unsigned number, a value that is computed,
  // indices that are compared with values.
  EXPECT_FALSE(of(
      "f32",
      floats(
          "%g = cmpf %a, %b {pred = ogt} : i1\n %l = cmpi %i, %j {pred = slt} : i1\n %e = cmpf %a, %b {pred = oeq} : i1\n %t = and %l, %e : i1\n %f = or %g, %t : i1")));
  std::string larger = nanLoses, asUnsigned = nanLoses;
  EXPECT_FALSE(of("f32", floats(larger.replace(larger.find("slt"), 3, "sgt"))));
  EXPECT_FALSE(of("f32", floats(asUnsigned.replace(asUnsigned.find("slt"), 3, "ult"))));
  EXPECT_FALSE(of(
      "i32",
      "%f = cmpi %a, %b {pred = sgt} : i1\n %y = add %a, %b : i32\n %c = select %f, %a, %y : i32\n %d = select %f, %i, %j : i32"));
  EXPECT_FALSE(of("i32", integers("%f = cmpi %a, %j {pred = sgt} : i1")));
  // The other value's index.
  EXPECT_FALSE(
      of("i32", "%f = cmpi %a, %b {pred = sgt} : i1\n %c = select %f, %a, %b : i32\n %d = select %f, %j, %i : i32"));
}

} // namespace
