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

TEST(Source, columnsOfPlainLinesAreBytes) {
  SourceFile f("f", "abc\r\na\x1b" "c\n\tx\nd\re\u00e9x");
  auto col = [&](uint32_t offset) { return f.lineCol(offset).col; };
  EXPECT_EQ(col(2), 3u);
  EXPECT_EQ(col(4), 5u); // between \r and \n
  EXPECT_EQ(col(7), 3u); // a control character is one column
  EXPECT_EQ(col(10), 9u);
  EXPECT_EQ(col(14), 1u); // \r alone ends a line
  EXPECT_EQ(col(17), 3u);
}

TEST(Source, emptyFileHasOneLine) {
  SourceFile f("f", "");
  EXPECT_EQ(f.lineCol(0).line, 1u);
  EXPECT_EQ(f.lineText(0), "");
  EXPECT_EQ(f.lineCol(99).col, 1u);
}

TEST(Source, offsetsOfLinesAndColumns) {
  SourceFile f("f", "ab\r\n\ncde", 10);
  EXPECT_EQ(f.offsetAt(10, 2), 1u);
  EXPECT_EQ(f.offsetAt(10, 99), 2u); // the line's end
  EXPECT_EQ(f.offsetAt(11, 1), 4u);
  EXPECT_EQ(f.offsetAt(12, 3), 7u);
  EXPECT_EQ(f.offsetAt(12, 4), 8u);
  EXPECT_EQ(f.offsetAt(9, 1), std::nullopt);
  EXPECT_EQ(f.offsetAt(13, 1), std::nullopt);
  EXPECT_EQ(f.offsetAt(12, 0), std::nullopt);
  for (uint32_t i : {0u, 1u, 4u, 5u, 7u}) EXPECT_EQ(f.offsetAt(f.lineCol(i).line, f.byteColumn(i) + 1), i);
}

TEST(Source, theSmallestOriginIsShown) {
  auto program = std::make_shared<const SourceFile>("main.cpp", "kernel\nstore\nexp\n");
  SourceFile f("trace", "def k: store(p, exp(x)); store(q, 1)",
               {{0, 36, program, 0, 6}, {7, 23, program, 7, 12}, {16, 22, program, 13, 16}});
  auto at = [&](uint32_t begin, uint32_t end) { return Loc{&f, begin, end}.origin(); };
  EXPECT_EQ(at(16, 22).text(), "exp");
  EXPECT_EQ(at(20, 21).text(), "exp");
  EXPECT_EQ(at(13, 14).text(), "store");
  EXPECT_EQ(at(13, 22).text(), "store"); // more than the inner one
  EXPECT_EQ(at(22, 23).text(), "store"); // after the inner one
  EXPECT_EQ(at(25, 30).text(), "kernel");
  EXPECT_EQ(at(25, 30).file, program.get());
  SourceFile apart("trace", "a = 1; b = 2", {{0, 5, program, 0, 6}});
  EXPECT_EQ((Loc{&apart, 7, 12}).origin().file, &apart); // nobody wrote it: itself
  EXPECT_EQ((Loc{program.get(), 0, 6}).origin().begin, 0u);
  EXPECT_FALSE(Loc().origin());
}
