// Trips of loops as expressions over arguments.
#include "passes/LaunchNumbers.h"
#include "ParsedIr.h"
#include "ir/Walk.h"
#include <gtest/gtest.h>

using namespace tegula;

namespace {

/// Trips of the kernel's only loop for an argument %n, in a grid of 10 programs; -1: nobody knows.
int64_t trips(const std::string &bounds, const std::string &loop, int64_t n) {
  std::unique_ptr<ir::Module> m = test::parsed(
      "kernel @k(%x: ptr<i32>, %n: i32) {\n  %c0 = const {value = 0} : i32\n  %c1 = const {value = 1} : i32\n  %c64 = const {value = 64} : i32\n" +
      bounds + "  for " + loop + " (%i: i32) {\n    store %x, %i\n  }\n}\n");
  if (!m) return -2;
  const ir::Op *found = nullptr;
  ir::anyOp(*m->kernel()->block(), [&](const ir::Op &op) { return op.kind == ir::OpKind::For && (found = &op, true); });
  if (!found) return -3;
  LaunchForms forms;
  const int32_t number = LaunchNumbers(*m->kernel(), forms).tripsOf(*found);
  if (number < 0) return -1;
  std::vector<int64_t> limits;
  for (int64_t i = 0; i < 200; ++i) limits.push_back(i);
  forms.axes = {{number, limits}};
  for (unsigned i = 0; i <= limits.size(); ++i) forms.forms.push_back(static_cast<uint8_t>(i + 1));
  forms.unknown = forms.form = 255;
  return forms.formFor({10, 132, {0, n}, 0}) - 1;
}

TEST(LaunchNumbers, BoundsOfArguments) {
  EXPECT_EQ(trips("", "%c0, %n, %c64", 1000), 16);
  EXPECT_EQ(
      trips("  %c63 = const {value = 63} : i32\n  %s = add %n, %c63\n  %q = sdiv %s, %c64\n", "%c0, %q, %c1", 1000),
      16);
  EXPECT_EQ(trips("  %q = smin %n, %c64\n", "%c0, %q, %c1", 1000), 64);
}

TEST(LaunchNumbers, OneProgramStandsForAll) {
  EXPECT_EQ(trips("  %p = program_id {axis = 0} : i32\n  %q = num_programs {axis = 0} : i32\n", "%p, %n, %q", 1000),
            100);
}

TEST(LaunchNumbers, WhatMemoryDecidesIsNotKnown) {
  EXPECT_EQ(trips("  %q = load %x : i32\n", "%c0, %q, %c1", 1000), -1);
}

} // namespace
