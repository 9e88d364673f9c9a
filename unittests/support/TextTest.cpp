// Edit distance and the suggestion made from it.
#include "support/Text.h"
#include <gtest/gtest.h>

using namespace tegula;

TEST(Text, editDistance) {
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("arange", "arrange"), 1u);
  EXPECT_EQ(editDistance("laod", "load"), 1u); // neighbours swapped
  EXPECT_EQ(editDistance("same", "same"), 0u);
}

TEST(Text, nearestIsNotAWildGuess) {
  std::string_view names[] = {"load", "store", "arange", "program_id"};
  EXPECT_EQ(nearest("programid", names), "program_id");
  EXPECT_EQ(nearest("arang", names), "arange");
  EXPECT_EQ(nearest("x", names), "");
  EXPECT_EQ(nearest("matmul", names), "");
  std::string_view letters[] = {"x", "y", "nn"};
  EXPECT_EQ(nearest("q", letters), "");
  EXPECT_EQ(nearest("n", letters), "nn");
}
