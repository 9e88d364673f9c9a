// Bits of named values in a small kernel.
#include "ParsedIr.h"
#include "passes/SignificantBits.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

TEST(SignificantBits, EachRule) {
  std::unique_ptr<Module> m = test::parsed(R"(kernel @k(%p: ptr<i8>, %n: i8) {
    %r = range {start = 0} : tensor<64xi32>
    %s = splat %p : tensor<64xptr<i8>>
    %a = addptr %s, %r : tensor<64xptr<i8>>
    %any = load %a : tensor<64xi8>
    %four = const {value = 4} : tensor<64xi8>
    %mask = const {value = 15} : tensor<64xi8>
    %minus = const {value = -1} : tensor<64xi8>
    %ns = splat %n : tensor<64xi8>
    %low = and %any, %mask : tensor<64xi8>
    %low2 = and %mask, %any : tensor<64xi8>
    %all = and %any, %minus : tensor<64xi8>
    %high = lshr %any, %four : tensor<64xi8>
    %signed = ashr %any, %four : tensor<64xi8>
    %unknown = lshr %any, %ns : tensor<64xi8>
    %none = lshr %low, %four : tensor<64xi8>
    %either = or %low, %high : tensor<64xi8>
    %both = or %low, %any : tensor<64xi8>
    %sum = add %low, %low : tensor<64xi8>
    %wide = zext %any : tensor<64xi32>
    %kept = sext %low : tensor<64xi32>
    %spread = sext %any : tensor<64xi32>
    %back = trunc %kept : tensor<64xi8>
    %cut = trunc %wide : tensor<64xi8>
    %shaped = reshape %low : tensor<8x8xi8>
    %turned = permute %shaped {perm = [1, 0]} : tensor<8x8xi8>
    %joined = join %low, %any : tensor<64x2xi8>
    %condition = cmpi %any, %mask {pred = slt} : tensor<64xi1>
    %chosen = select %condition, %low, %four : tensor<64xi8>
    %limited = umin %any, %mask : tensor<64xi8>
    store %a, %sum
    store %a, %signed
    return
  })");
  ASSERT_TRUE(m);
  const std::pair<const char *, unsigned> rows[] = {
      {"r", 6},      {"any", 8},       {"four", 3},    {"minus", 8},  {"low", 4},    {"low2", 4},   {"all", 8},
      {"high", 4},   {"signed", 8},    {"unknown", 8}, {"none", 0},   {"either", 4}, {"both", 8},   {"sum", 8},
      {"wide", 8},   {"kept", 4},      {"spread", 32}, {"back", 4},   {"cut", 8},    {"shaped", 4}, {"turned", 4},
      {"joined", 8}, {"condition", 1}, {"chosen", 4},  {"limited", 4}};
  size_t found = 0;
  for (const Op *op : m->kernel()->block()->ops)
    for (const Value *v : op->results)
      for (auto [name, bits] : rows)
        if (v->name == name) {
          ++found;
          EXPECT_EQ(significantBits(v), bits) << name;
          EXPECT_EQ(signIsZero(v), bits < bitWidth(v->type.elem)) << name;
        }
  EXPECT_EQ(found, std::size(rows));
}

TEST(SignificantBits, ZerosAndDisjointSums) {
  std::unique_ptr<Module> m = test::parsed(R"(kernel @k(%p: ptr<i32>, %n: i32) {
    %r = range {start = 0} : tensor<64xi32>
    %later = range {start = 1} : tensor<64xi32>
    %size = const {value = 64} : i32
    %odd = const {value = 96} : i32
    %none = const {value = 0} : i32
    %half = mul %n, %size : i32
    %fifth = mul %n, %odd : i32
    %pid = program_id {axis = 0} : i32
    %two = const {value = 2} : i32
    %far = shl %half, %two : i32
    %unknown = shl %half, %n : i32
    %least = add %half, %fifth : i32
    %masked = and %half, %n : i32
    %wide = sext %half : i64
    %cut = trunc %wide : i8
    %base = splat %half : tensor<64xi32>
    %base5 = splat %fifth : tensor<64xi32>
    %disjoint = add %base, %r : tensor<64xi32>
    %turned = add %r, %base : tensor<64xi32>
    %reaching = add %base, %later : tensor<64xi32>
    %overlapping = add %base5, %r : tensor<64xi32>
    %sum = add %pid, %n : i32
    return
  })");
  ASSERT_TRUE(m);
  const std::pair<const char *, unsigned> rows[] = {
      {"r", 0},       {"size", 6},  {"odd", 5},    {"none", 32}, {"half", 6}, {"fifth", 5}, {"pid", 0},     {"far", 8},
      {"unknown", 6}, {"least", 5}, {"masked", 6}, {"wide", 6},  {"cut", 6},  {"base", 6},  {"disjoint", 0}};
  const std::pair<const char *, bool> sums[] = {{"disjoint", true},     {"turned", true}, {"reaching", false},
                                                {"overlapping", false}, {"sum", false},   {"least", false}};
  size_t found = 0;
  for (const Op *op : m->kernel()->block()->ops)
    for (const Value *v : op->results) {
      for (auto [name, zeros] : rows)
        if (v->name == name) {
          ++found;
          EXPECT_EQ(trailingZeros(v), zeros) << name;
        }
      for (auto [name, isDisjoint] : sums)
        if (v->name == name) {
          ++found;
          EXPECT_EQ(addsDisjointBits(*op), isDisjoint) << name;
        }
    }
  EXPECT_EQ(found, std::size(rows) + std::size(sums));
}

} // namespace
