// Spaces: values from texts, products, constraints.
#include "tune/Space.h"
#include <gtest/gtest.h>

using namespace tegula::tune;

namespace {
std::vector<std::string> values(std::string_view text, std::string *why = nullptr) {
  std::vector<std::string> out;
  std::string error;
  bool ok = parseValues(text, out, error);
  EXPECT_EQ(ok, error.empty());
  if (why) *why = error;
  return ok ? out : std::vector<std::string>{};
}
using List = std::vector<std::string>;
} // namespace

TEST(Space, ValuesOfTexts) {
  EXPECT_EQ(values("16, 32,64"), (List{"16", "32", "64"}));
  EXPECT_EQ(values("powers(16, 100)"), (List{"16", "32", "64"}));
  EXPECT_EQ(values("range(2, 5), 8"), (List{"2", "3", "4", "8"}));
  EXPECT_EQ(values("range(0, 64, 8 * 3)"), (List{"0", "24", "48"}));
  EXPECT_EQ(values("'ieee', True"), (List{"'ieee'", "True"}));
  EXPECT_EQ(values("powers(1, 9223372036854775807)").size(), 63u) << "it ends where numbers do";
  // Not a series, whatever the rest of the program makes of it.
  EXPECT_EQ(values("power(1, 2)"), (List{"power(1, 2)"}));
}

TEST(Space, MistakesInTexts) {
  const std::pair<const char *, const char *> rows[] = {
      {"", "there are no values"},
      {"powers(0, 4)", "`powers(0, 4)` has no end"},
      {"range(1, 4, 0)", "`range(1, 4, 0)` has no end"},
      {"powers(1)", "powers takes (first, last)"},
      {"range(1, 2, 3, 4)", "range takes (first, end) or (first, end, step)"},
      {"range(0, 10000)", "`range(0, 10000)` has more than 4096 values"},
      {"range(3, 3)", "there are no values"},
      {"powers(1, M)", "`M` is not the name of an integer argument or constant in `M` at column 1"},
  };
  for (auto &[text, error] : rows) {
    std::string why;
    values(text, &why);
    EXPECT_EQ(why, error) << text;
  }
}

TEST(Space, PointsInOrder) {
  Space s{{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}}};
  std::vector<Point> points;
  std::string error;
  ASSERT_TRUE(s.points(nullptr, points, error));
  EXPECT_EQ(points, (std::vector<Point>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  points.clear();
  ASSERT_TRUE(s.points([](const Point &p) { return std::optional(p[0] != p[1]); }, points, error));
  EXPECT_EQ(points, (std::vector<Point>{{0, 1}, {0, 2}, {1, 0}, {1, 2}}));
}

TEST(Space, MistakesInSpaces) {
  auto errorOf = [](const Space &s, const std::function<std::optional<bool>(const Point &)> &where = nullptr) {
    std::vector<Point> points;
    std::string error = "?";
    EXPECT_FALSE(s.points(where, points, error));
    return error;
  };
  EXPECT_EQ(errorOf({{{"a", {}}}}), "`a` has no values");
  EXPECT_EQ(errorOf({{{"a", {"1"}}, {"a", {"2"}}}}), "there are two axes `a`");
  EXPECT_EQ(errorOf({{{"a", {"1"}}}}, [](const Point &) { return std::optional(false); }),
            "the constraint leaves no configuration");
  EXPECT_EQ(errorOf({{{"a", {"1"}}}}, [](const Point &) { return std::nullopt; }), "") << "who ended it says why";
  List many(400, "1");
  EXPECT_EQ(errorOf({{{"a", many}, {"b", many}}}), "there are more than 100000 configurations");
}
