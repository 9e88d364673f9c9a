// Which results of the assembler are kept, and for what.
#include "runtime/cuda/AssemblyMemo.h"
#include <gtest/gtest.h>

using namespace tegula::runtime::cuda;

namespace {

std::shared_ptr<const Assembly> made(char what, size_t bytes) {
  auto a = std::make_shared<Assembly>();
  a->cubin.assign(bytes, what);
  return a;
}

TEST(AssemblyMemo, KeysTellAllInputsApart) {
  const AssembleOptions base{.arch = "sm_80"};
  const std::string key = AssemblyMemo::key("text", base);
  EXPECT_EQ(AssemblyMemo::key("text", base), key);
  EXPECT_NE(AssemblyMemo::key("texts", base), key);
  EXPECT_NE(AssemblyMemo::key("text", {.arch = "sm_86"}), key);
  EXPECT_NE(AssemblyMemo::key("text", {.arch = "sm_80", .maxRegisters = 32}), key);
  EXPECT_NE(AssemblyMemo::key("text", {.arch = "sm_80", .optLevel = 0}), key);
  EXPECT_NE(AssemblyMemo::key("text", {.arch = "sm_80", .lineInfo = true}), key);
}

TEST(AssemblyMemo, TheLastUsedStay) {
  AssemblyMemo memo(350); // three results of 100 bytes with their keys of one
  memo.keep("a", made('a', 100));
  memo.keep("b", made('b', 100));
  memo.keep("c", made('c', 100));
  ASSERT_TRUE(memo.find("a")); // used again: `b` is the oldest now
  memo.keep("d", made('d', 100));
  EXPECT_FALSE(memo.find("b"));
  for (char c : {'a', 'c', 'd'}) {
    auto found = memo.find(std::string(1, c));
    ASSERT_TRUE(found) << c;
    EXPECT_EQ(found->cubin, std::vector<char>(100, c));
  }
}

TEST(AssemblyMemo, ALargerOneThanAllIsNotKept) {
  AssemblyMemo memo(350);
  memo.keep("a", made('a', 100));
  auto large = made('b', 1000);
  memo.keep("b", large);
  EXPECT_FALSE(memo.find("b"));
  EXPECT_EQ(large->cubin.size(), 1000u); // who holds a result keeps it
  memo.keep("a", made('c', 100));
  ASSERT_TRUE(memo.find("a"));
  EXPECT_EQ(memo.find("a")->cubin[0], 'c');
}

TEST(AssemblyMemo, TheFirstOfTwoIsKept) {
  AssemblyMemo memo(350);
  memo.keep("a", made('a', 100));
  memo.keep("a", made('b', 100)); // as another thread made it meanwhile
  EXPECT_EQ(memo.find("a")->cubin[0], 'a');
}

} // namespace
