// Text of layouts: what print() writes is read back, and what is none is refused at its place.
#include "Random.h"
#include "layout/Parse.h"
#include <gtest/gtest.h>

using namespace tegula::layout;
using tegula::layout::test::Random;

namespace {

std::string complaint(std::string_view text) {
  std::string why;
  size_t at = 0;
  return parse(text, why, at) ? "none" : std::to_string(at) + ": " + why;
}

TEST(ParseLayout, WhatIsPrinted) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random r(seed);
    DimList outs;
    for (unsigned rank = static_cast<unsigned>(r.below(4)) + 1; rank-- > 0;)
      outs.push({tensorDim(rank), static_cast<uint8_t>(r.below(6))});
    LinearLayout l = r.any(r.dims({Dim::Register, Dim::Lane, Dim::Warp, Dim::Block}, 4), outs);
    std::string why;
    size_t at = 0;
    std::optional<LinearLayout> back = parse(l.print(), why, at);
    ASSERT_TRUE(back) << l.print() << "\n" << at << ": " << why;
    EXPECT_EQ(*back, l) << l.print() << "\n" << back->print();
  }
}

TEST(ParseLayout, OneDimension) {
  std::string why;
  size_t at = 0;
  std::optional<LinearLayout> l = parse("register: 1; lane: 2 4 8; warp: - -> dim0 16", why, at);
  ASSERT_TRUE(l) << why;
  EXPECT_EQ(l->apply(0b1011), 0b1011u);
  EXPECT_EQ(l->inBits(Dim::Lane), 3u);
  EXPECT_TRUE(l->hasIn(Dim::Warp));
}

TEST(ParseLayout, Complaints) {
  EXPECT_EQ(complaint("thread: 1 -> dim0 2"), "0: the name of a dimension");
  EXPECT_EQ(complaint("dim0: 1 -> dim0 2"), "5: an index of the hardware");
  EXPECT_EQ(complaint("lane: 1; lane: 2 -> dim0 4"), "14: another dimension");
  EXPECT_EQ(complaint("lane: -> dim0 4"), "6: `-` or bases");
  EXPECT_EQ(complaint("lane 1 -> dim0 4"), "5: `:`");
  EXPECT_EQ(complaint("lane: (1,x) -> dim0 4, dim1 4"), "9: a number");
  EXPECT_EQ(complaint("lane: (1,2 -> dim0 4, dim1 4"), "11: `)`");
  EXPECT_EQ(complaint("lane: 1 2"), "9: `->`");
  EXPECT_EQ(complaint("lane: 1 -> dim1 4"), "11: `dim0`");
  EXPECT_EQ(complaint("lane: 1 -> dim0 3"), "16: a power of two");
  EXPECT_EQ(complaint("lane: 1 -> dim0 2 more"), "18: the end of the layout");
  EXPECT_EQ(complaint("lane: 1 -> dim0 2, dim1 2"), "25: as many coordinates as there are dimensions");
  EXPECT_EQ(complaint("lane: (1,2) -> dim0 2, dim1 2"), "29: coordinates within the shape");
  EXPECT_EQ(complaint("lane: 99999999999999999999 -> dim0 2"), "6: a number");
  std::string many = "lane:";
  for (int i = 0; i < 63; ++i)
    many += " 0";
  EXPECT_EQ(complaint(many + " -> dim0 2"), "141: fewer bits");
  EXPECT_EQ(complaint("register: (1,0,0,0) -> dim0 2, dim1 1073741824, dim2 1073741824, dim3 16"), "72: fewer bits");
}

} // namespace
