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
      {"any", 8},  {"four", 3},  {"minus", 8}, {"low", 4},   {"low2", 4}, {"all", 8},    {"high", 4},   {"signed", 8}, {"unknown", 8}, {"none", 0},   {"either", 4}, {"both", 8},
      {"sum", 8}, {"wide", 8}, {"kept", 4}, {"spread", 32}, {"back", 4}, {"cut", 8}, {"shaped", 4}, {"turned", 4}, {"joined", 8}, {"condition", 1}, {"chosen", 4}, {"limited", 4}};
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

} // namespace
