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

TEST(Source, displayLineFollowsTheColumns) {
  SourceFile f("f", "日\ta\x1b[1m\xe9\xff\xff\t\xc2\x85z\n");
  std::string shown = f.displayLine(0);
  EXPECT_EQ(shown, "日      a?[1m???        ?z");
  uint32_t z = static_cast<uint32_t>(f.text().find('z'));
  for (uint32_t i = 0, last = 0; i <= z; ++i) {
    uint32_t col = f.lineCol(i).col;
    if ((f.text()[i] & 0xc0) != 0x80) EXPECT_GE(col, last), last = col;
  }
}

TEST(Source, emptyFileHasOneLine) {
  SourceFile f("f", "");
  EXPECT_EQ(f.lineCol(0).line, 1u);
  EXPECT_EQ(f.lineText(0), "");
  EXPECT_EQ(f.lineCol(99).col, 1u);
}
