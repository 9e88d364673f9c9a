// NeighbourSteps: how far apart the addresses of neighbours are, always and nearly everywhere.
#include "gpu/layouts/NeighbourSteps.h"
#include "ParsedIr.h"
#include "ir/Walk.h"
#include <optional>
#include <string>
#include <vector>

namespace tegula::gpu {
namespace {

using namespace ir;

/// What `ask` says of the value `%v` of a kernel that has a pointer, two numbers and a row of consecutive ones.
template <class Ask> auto about(const std::string &body, Ask ask) {
  const auto m = test::parsed(
      "kernel @k(%p: ptr<bf16>, %n: i32, %s: i32) {\n %r = range {start = 0} : tensor<64xi32>\n %N = splat %n : tensor<64xi32>\n" +
      body + "}\n");
  using Answer = decltype(ask(std::declval<const Value *>(), std::declval<const AxisFacts &>()));
  std::optional<Answer> out;
  if (!m)
    return out;
  const AxisFacts facts(*m->kernel());
  anyValue(*m->kernel()->block(), [&](const Value &v) {
    if (v.name != "v")
      return false;
    out = ask(&v, facts);
    return true;
  });
  EXPECT_TRUE(out.has_value()) << body;
  return out;
}

/// usualStepOf of `%v` along axis 0; -1000: not known.
int64_t usual(const std::string &body) {
  return about(body, [](const Value *v, const AxisFacts &f) { return usualStepOf(v, 0, f).value_or(-1000); })
      .value_or(-2000);
}

TEST(NeighbourSteps, NearlyConsecutive) {
  EXPECT_EQ(usual(" %v = srem %r, %N\n"), 1);
  EXPECT_EQ(usual(" %v = smin %r, %N\n"), 1);
  EXPECT_EQ(usual(" %c = cmpi %r, %N {pred = slt}\n %v = select %c, %r, %N\n"), 1);
  EXPECT_EQ(usual(" %v = sdiv %r, %N\n"), 0);
  EXPECT_EQ(usual(" %w = srem %r, %N\n %v = sub %N, %w\n"), -1);
  EXPECT_EQ(usual(" %q = sdiv %r, %N\n %m = mul %q, %N\n %w = srem %r, %N\n %v = add %m, %w\n"), 1);
  EXPECT_EQ(usual(" %w = srem %r, %N\n %P = splat %p : tensor<64xptr<bf16>>\n %v = addptr %P, %w\n"), 2); // bytes
}

TEST(NeighbourSteps, NothingIsSaidOfTheRest) {
  EXPECT_EQ(usual(" %v = srem %N, %r\n"), -1000);
  EXPECT_EQ(usual(" %v = mul %r, %N\n"), -1000);
  // every second one differs
  EXPECT_EQ(usual(" %t = const {value = 2} : tensor<64xi32>\n %q = sdiv %r, %t\n %v = add %q, %N\n"), -1000);
  EXPECT_EQ(usual(" %c = cmpi %r, %N {pred = slt}\n %w = srem %r, %N\n %v = select %c, %r, %w\n"), -1000);
  EXPECT_EQ(
      usual(
          " %P = splat %p : tensor<64xptr<bf16>>\n %A = addptr %P, %r\n %x = load %A : tensor<64xbf16>\n %i = fptosi %x : tensor<64xi32>\n %v = add %i, %r\n"),
      -1000);
}

TEST(NeighbourSteps, AxesOfAccesses) {
  // Rows, then columns, of 64 by 64 addresses: rows `at` + columns times a stride, or the other way round.
  auto order = [](const std::string &row) {
    return about(
               " %w = " + row +
                   "\n %a = expand_dims %w {axis = 1} : tensor<64x1xi32>\n %A = broadcast %a : tensor<64x64xi32>\n %b = expand_dims %r {axis = 0} : tensor<1x64xi32>\n %S = splat %s : tensor<1x64xi32>\n %c = mul %b, %S\n"
                   " %B = broadcast %c : tensor<64x64xi32>\n %o = add %A, %B\n %P = splat %p : tensor<64x64xptr<bf16>>\n %v = addptr %P, %o\n",
               [](const Value *v, const AxisFacts &f) { return axesByNeighbours(v, f); })
        .value_or(std::vector<unsigned>{});
  };
  EXPECT_EQ(order("srem %r, %N"), (std::vector<unsigned>{0, 1}));
  EXPECT_EQ(order("mul %r, %N"), (std::vector<unsigned>{1, 0}));
}

} // namespace
} // namespace tegula::gpu
