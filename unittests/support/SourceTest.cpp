// Offsets to lines and display columns: tabs, wide and combining characters, line ends of every system.
#include "support/Source.h"
#include <gtest/gtest.h>

using namespace tegula;

TEST(Source, linesAndColumns) {
  SourceFile f("f", "ab\r\n\tc\n日本x\ne\u0301y", 10);
  auto pos = [&](std::string_view s) { return f.lineCol(static_cast<uint32_t>(f.text().find(s))); };
  EXPECT_EQ(pos("b").line, 10u);
  EXPECT_EQ(pos("b").col, 2u);
  EXPECT_EQ(pos("c").line, 11u);
  EXPECT_EQ(pos("c").col, 9u);
  EXPECT_EQ(pos("x").col, 5u);
  EXPECT_EQ(pos("y").col, 2u);
  EXPECT_EQ(f.lineText(0), "ab");
  EXPECT_EQ(f.lineCol(static_cast<uint32_t>(f.text().size())).line, 13u);
}

TEST(Source, emptyFileHasOneLine) {
  SourceFile f("f", "");
  EXPECT_EQ(f.lineCol(0).line, 1u);
  EXPECT_EQ(f.lineText(0), "");
  EXPECT_EQ(f.lineCol(99).col, 1u);
}
