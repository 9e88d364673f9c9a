#include "support/LineDiff.h"
#include <gtest/gtest.h>

using tegula::lineDiff;

TEST(LineDiff, Equal) { EXPECT_EQ(lineDiff("a\nb\n", "a\nb\n"), ""); }

TEST(LineDiff, TwoLinesAroundEachChange) {
  EXPECT_EQ(lineDiff("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "1\n2\n3\nfour\n5\n6\n7\n8\n9\n10\n10.5\n11\n12\n"),
            "...\n 2\n 3\n-4\n+four\n 5\n 6\n...\n 9\n 10\n+10.5\n 11\n 12\n");
}

TEST(LineDiff, FromAndToNothing) {
  EXPECT_EQ(lineDiff("", "a\nb\n"), "+a\n+b\n");
  EXPECT_EQ(lineDiff("a\n", ""), "-a\n");
}

TEST(LineDiff, LinesThatMove) { EXPECT_EQ(lineDiff("a\nb\nc\n", "b\nc\na\n"), "-a\n b\n c\n+a\n"); }
