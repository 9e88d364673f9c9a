// The search by itself: answers of a function in place of a compiler and a device.
#include "tune/Search.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace tegula::tune;

namespace {
std::vector<Point> cube(uint32_t a, uint32_t b, uint32_t c) {
  std::vector<Point> out;
  for (uint32_t i = 0; i < a; ++i)
    for (uint32_t j = 0; j < b; ++j)
      for (uint32_t k = 0; k < c; ++k) out.push_back({i, j, k});
  return out;
}

struct Played {
  size_t sketches = 0, tried = 0, best = SIZE_MAX;
  double bestNs = INFINITY;
};
/// Until it is settled.
template <typename Estimate, typename Time>
Played play(const std::vector<Point> &points, Estimate estimate, Time time) {
  Search s(points);
  Played r;
  for (std::vector<size_t> some; !(some = s.toSketch()).empty();)
    for (size_t i : some) s.sketched(i, estimate(points[i])), ++r.sketches;
  for (std::vector<size_t> some; !s.isSettled() && !(some = s.next(8)).empty();)
    for (size_t i : some) {
      double ns = time(points[i]);
      s.timed(i, ns), ++r.tried;
      if (ns < r.bestNs) r.bestNs = ns, r.best = i;
    }
  return r;
}
double bowl(const Point &p) {
  return 100 + std::pow(double(p[0]) - 5, 2) + std::pow(double(p[1]) - 2, 2) + 3 * std::pow(double(p[2]) - 1, 2);
}
} // namespace

TEST(Search, EachIsAskedOnceAndSmallSpacesWhole) {
  std::vector<Point> points = cube(2, 2, 2);
  Search s(points);
  EXPECT_EQ(s.toSketch().size(), 8u);
  EXPECT_TRUE(s.toSketch().empty());
  std::set<size_t> seen;
  for (std::vector<size_t> some; !(some = s.next(3)).empty();)
    for (size_t i : some) {
      EXPECT_TRUE(seen.insert(i).second);
      s.timed(i, 1);
    }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(Search, LargeSpacesAreSketchedInParts) {
  std::vector<Point> points = cube(40, 40, 40);
  Played r = play(points, bowl, bowl);
  EXPECT_LE(r.sketches, 4096u);
  EXPECT_EQ(points[r.best], (Point{5, 2, 1})) << "by steps along the axes from what a spread of 512 shows";
}

TEST(Search, AWrongTermOfTheModelIsLearned) {
  std::vector<Point> points = cube(12, 8, 4);
  Played r = play(points, [](const Point &p) { return bowl(p) / (p[2] == 3 ? 8 : p[2] == 2 ? 4 : 1); }, bowl);
  EXPECT_EQ(points[r.best], (Point{5, 2, 1}));
  EXPECT_LE(r.tried, Search::mostTried);
}

TEST(Search, WithoutEstimatesItStillTriesSome) {
  Played r = play(cube(12, 8, 4), [](const Point &) { return 0.0; }, bowl);
  EXPECT_GE(r.tried, 16u);
  EXPECT_LE(r.tried, Search::mostTried);
}

TEST(Search, EqualEstimatesComeLast) {
  // The last axis changes nothing, as num_warps on a CPU.
  std::vector<Point> points = cube(4, 4, 4);
  Search s(points);
  for (size_t i : s.toSketch()) s.sketched(i, 100 + 10 * points[i][0] + points[i][1]);
  std::set<std::pair<uint32_t, uint32_t>> tiles;
  for (size_t i : s.next(8)) tiles.insert({points[i][0], points[i][1]});
  EXPECT_EQ(tiles.size(), 8u);
}

TEST(Search, WhatCannotBeCompiledIsNotTried) {
  std::vector<Point> points = cube(4, 4, 1);
  Played r = play(points, [](const Point &p) { return p[0] == 0 ? -1.0 : 10.0 + p[0]; }, [](const Point &p) {
    EXPECT_NE(p[0], 0u);
    return 10.0 + p[0];
  });
  EXPECT_EQ(points[r.best][0], 1u);
}

TEST(Search, PreferredOnesComeFirst) {
  std::vector<Point> points = cube(4, 4, 4);
  Search s(points);
  for (size_t i : s.toSketch()) s.sketched(i, 100 + static_cast<double>(i));
  s.prefer(63);
  EXPECT_EQ(s.next(4).front(), 63u);
}
