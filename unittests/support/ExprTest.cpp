// Expressions of the command line and of bundles, and grids made of them.
#include "support/Expr.h"
#include <array>
#include <gtest/gtest.h>

using namespace tegula;

namespace {

std::optional<int64_t> nm(std::string_view name) {
  return name == "n" ? std::optional<int64_t>(1000) : name == "m" ? std::optional<int64_t>(0) : std::nullopt;
}
bool isName(std::string_view name) { return nm(name).has_value(); }

std::string value(const char *text) {
  std::string error;
  std::optional<int64_t> v = evaluate(text, nm, error);
  return v ? std::to_string(*v) : error;
}

std::string checked(const char *text) {
  std::string error;
  return checkGrid(text, isName, error) ? "good" : error;
}

} // namespace

TEST(Expr, values) {
  EXPECT_EQ(value("cdiv(n, 64) * 2"), "32");
  EXPECT_EQ(value("-7 // 2"), "-4");
  EXPECT_EQ(value("-7 % 2"), "1");
  EXPECT_EQ(value("7 % -1"), "0");
  EXPECT_EQ(value("7 // -1"), "-7");
  EXPECT_EQ(value("triton.next_power_of_2(n) - max(1, 2, 3)"), "1021");
  EXPECT_EQ(value("n <= 1000"), "1");
}

TEST(Expr, errorsNameTheirPlace) {
  EXPECT_EQ(value("n // m"), "division by zero in `n // m` at column 7");
  EXPECT_EQ(value("cdiv(n, k)"), "`k` is not the name of an integer argument or constant in `cdiv(n, k)` at column 9");
  EXPECT_EQ(value("cdiv(n, "), "a value is missing at the end in `cdiv(n, ` at column 9");
  EXPECT_EQ(value("9223372036854775807 + 1"), "result does not fit 64 bits in `9223372036854775807 + 1` at column 24");
}

TEST(Expr, grids) {
  std::array<int64_t, 3> grid{};
  std::string error;
  EXPECT_TRUE(evaluateGrid("cdiv(n, 64), 4", nm, grid.data(), error));
  EXPECT_EQ(grid, (std::array<int64_t, 3>{16, 4, 1}));
  EXPECT_FALSE(evaluateGrid("1, 2, 3, 4", nm, grid.data(), error));
  EXPECT_EQ(error, "a grid has 1 to 3 extents, found 4");
}

TEST(Expr, aCheckKnowsNoValues) {
  EXPECT_EQ(checked("cdiv(n, m), n // (m - 1) + 1, n * 9223372036854775807 * 2 * n + n + 9223372036854775807 - n"),
            "good");
  EXPECT_EQ(checked("cdiv(n, k)"),
            "`k` is not the name of an integer argument or constant in `cdiv(n, k)` at column 9");
  EXPECT_EQ(
      checked("n, ceil(n)"),
      "`ceil` with 1 arguments is not known here; there are cdiv(a, b), min(...), max(...), next_power_of_2(a) in `ceil(n)` at column 8");
  EXPECT_EQ(checked("n n"), "unexpected `n` in `n n` at column 3");
  EXPECT_EQ(checked("1, 2, 3, 4"), "a grid has 1 to 3 extents, found 4");
  EXPECT_EQ(checked("1, "), "a value is missing at the end in `` at column 1");
}
