// Which form a launch wants: classes of its grid and of expressions over its arguments.
#include "support/LaunchForms.h"
#include <gtest/gtest.h>

using namespace tegula;
using Kind = WorkExpr::Kind;

namespace {

// Trips of range(0, argument 1, 1024): one, up to four, more; grid: up to two programs on a multiprocessor, more.
LaunchForms rows() {
  LaunchForms f;
  f.exprs = {{Kind::Constant, -1, -1, -1, 0},
             {Kind::Argument, -1, -1, -1, 1},
             {Kind::Constant, -1, -1, -1, 1024},
             {Kind::Trips, 0, 1, 2, 0}};
  f.axes = {{LaunchForms::Axis::grid, {32}}, {3, {1, 4}}};
  f.forms = {1, 2, 3, 4, 5, 6};
  f.unknown = 7, f.form = 1;
  return f;
}

uint8_t formOf(int64_t programs, std::vector<int64_t> arguments, uint32_t cores = 132) {
  return rows().formFor({programs, cores, std::move(arguments), 0});
}

TEST(LaunchForms, ClassesDecide) {
  EXPECT_EQ(formOf(264, {0, 1024}), 1);
  EXPECT_EQ(formOf(264, {0, 1025}), 2);
  EXPECT_EQ(formOf(264, {0, 4097}), 3);
  EXPECT_EQ(formOf(265, {0, 1}), 4);
  EXPECT_EQ(formOf(265, {0, 1}, 133), 1);
  EXPECT_EQ(formOf(INT64_MAX, {0, INT64_MAX}), 6);
  EXPECT_EQ(formOf(1, {0, -5}), 1); // no trips
}

TEST(LaunchForms, WhatIsNotKnownHasAFormOfItsOwn) {
  EXPECT_EQ(formOf(0, {0, 1024}), 7);
  EXPECT_EQ(formOf(264, {}), 7);
  EXPECT_EQ(formOf(264, {0, LaunchFacts::notKnown}), 7);
  LaunchForms f = rows();
  f.exprs[2].value = 0; // by steps of 0
  EXPECT_EQ(f.formFor({264, 132, {0, 1024}, 0}), 7);
}

TEST(LaunchForms, TablesThatAreReadAreChecked) {
  EXPECT_TRUE(rows().isValid(2));
  EXPECT_TRUE(LaunchForms().isValid(0));
  EXPECT_FALSE(rows().isValid(1)); // no argument 1
  const auto broken = [](auto &&change) {
    LaunchForms f = rows();
    change(f);
    return !f.isValid(2);
  };
  EXPECT_TRUE(broken([](LaunchForms &f) { f.forms.pop_back(); }));
  EXPECT_TRUE(broken([](LaunchForms &f) { f.forms[1] = 0; }));
  EXPECT_TRUE(broken([](LaunchForms &f) { f.exprs[3].c = 3; }));
  EXPECT_TRUE(broken([](LaunchForms &f) { f.exprs[0].kind = Kind::Iteration; }));
  EXPECT_TRUE(broken([](LaunchForms &f) { f.axes[1].number = 4; }));
  EXPECT_TRUE(broken([](LaunchForms &f) { f.unknown = 0; }));
}

} // namespace
