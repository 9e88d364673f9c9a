// Assembling PTX without a GPU. Needs libnvJitLink (build/venv has it, see scripts/requirements.txt); the tests of its
// log do not.
#include "runtime/cuda/Assembler.h"
#include "TestPaths.h"
#include <cstdlib>
#include <gtest/gtest.h>

/// NVIDIA's library keeps memory after an input it refuses; there is nothing we could free. (Read by LeakSanitizer, if
/// built in.)
extern "C" __attribute__((used, visibility("default"))) const char *__lsan_default_suppressions() {
  return "leak:libnvJitLink\n";
}

using namespace tegula::runtime;
using namespace tegula::runtime::cuda;

namespace {

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

std::string ptx(const std::string &arch, const std::string &body) {
  return ".version 8.0\n.target " + arch +
         "\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n.reg .b32 %r<3>;\n"
         "ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n" +
         body + "st.global.u32 [%rd2], %r1;\nret;\n}\n";
}

struct Assemble : testing::TestWithParam<const char *> {
  const Assembler *assembler = nullptr;
  void SetUp() override {
    addAssemblerFolder(std::string(tegula::testSourceDir) + "/build/venv/lib/python3*/site-packages");
    Status why;
    assembler = Assembler::get(why);
    if (!assembler) GTEST_SKIP() << "Skipped: " << why.text;
  }
};

TEST_P(Assemble, EveryArchitecture) {
  Assembly out;
  Status s = assembler->assemble(ptx(GetParam(), ""), "k", {.arch = GetParam()}, out);
  ASSERT_TRUE(s) << s.text;
  ASSERT_GT(out.cubin.size(), 64u);
  EXPECT_EQ(std::string_view(out.cubin.data(), 4), "\x7f" "ELF");
  EXPECT_GT(out.stats.registers, 0u);
  EXPECT_LE(out.stats.registers, 32u);
  EXPECT_EQ(out.stats.spillStoreBytes, 0u);
  std::unique_ptr<const Assembler> other = Assembler::open(assembler->path(), s); // remembers nothing
  ASSERT_TRUE(other) << s.text;
  Assembly again;
  ASSERT_TRUE(other->assemble(ptx(GetParam(), ""), "k", {.arch = GetParam()}, again));
  EXPECT_EQ(out.cubin, again.cubin) << "same text in, same bytes out";
}
INSTANTIATE_TEST_SUITE_P(Arch, Assemble, testing::Values("sm_80", "sm_86", "sm_89", "sm_90a"));

struct AssembleOne : Assemble {};
INSTANTIATE_TEST_SUITE_P(Arch, AssembleOne, testing::Values("sm_90a"));

TEST_P(AssembleOne, ErrorShowsTheLine) {
  Assembly out;
  Status s = assembler->assemble(ptx(GetParam(), ".loc 1 12 5\nmul.hi.foo %r1, %r1;\n") + ".file 1 \"kernel.py\"\n",
                                 "k", {.arch = GetParam()}, out);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.code, TEGULA_ASSEMBLER_ERROR);
  EXPECT_TRUE(has(s.text, "refused the code of `k` for sm_90a")) << s.text;
  EXPECT_TRUE(has(s.text, "12 | mul.hi.foo %r1, %r1;")) << s.text;
  EXPECT_TRUE(has(s.text, "from kernel.py:12")) << s.text;
}

TEST_P(AssembleOne, UnknownArchitecture) {
  Assembly out;
  Status s = assembler->assemble(ptx("sm_80", ""), "k", {.arch = "sm_12345"}, out);
  EXPECT_EQ(s.code, TEGULA_UNSUPPORTED);
  EXPECT_TRUE(has(s.text, "cannot assemble for sm_12345")) << s.text;
}

TEST_P(AssembleOne, RegisterLimit) {
  Assembly out;
  Status s = assembler->assemble(ptx(GetParam(), ""), "k", {.arch = GetParam(), .maxRegisters = 24}, out);
  ASSERT_TRUE(s) << s.text;
  EXPECT_LE(out.stats.registers, 24u);
}

/// Blocks on a multiprocessor are a wish: kept where it fits, dropped where it would cost spills.
TEST_P(AssembleOne, WishForBlocksIsNotWorthSpills) {
  for (unsigned live : {4u, 44u}) {
    std::string body;
    for (unsigned i = 0; i < live; ++i)
      body += "ld.volatile.global.u32 %x" + std::to_string(i) + ", [%rd2+" + std::to_string(4 * i) + "];\n";
    for (unsigned i = live; i-- > 0;)
      body += "xor.b32 %r1, %r1, %x" + std::to_string(i) + ";\nmul.lo.u32 %r1, %r1, %r1;\n";
    std::string text = ptx(GetParam(), ".reg .b32 %x<" + std::to_string(live) + ">;\n" + body);
    text.replace(text.find(")\n{"), 3, ")\n.reqntid 1024\n.minnctapersm 2\n{");
    Assembly out;
    Status s = assembler->assemble(text, "k", {.arch = GetParam()}, out);
    ASSERT_TRUE(s) << s.text;
    EXPECT_EQ(out.stats.spillStoreBytes, 0u);
    EXPECT_EQ(out.stats.registers > 32, live > 32) << out.stats.registers;
  }
}

/// Where a wish would cost spills, fewer blocks are wished for: 48 registers in use want four blocks of 256 threads,
/// not eight, and no more than these leave.
TEST_P(AssembleOne, FewerBlocksAreWishedForBeforeNone) {
  std::string body;
  for (unsigned i = 0; i < 44; ++i)
    body += "ld.volatile.global.u32 %x" + std::to_string(i) + ", [%rd2+" + std::to_string(4 * i) + "];\n";
  for (unsigned i = 44; i-- > 0;) body += "xor.b32 %r1, %r1, %x" + std::to_string(i) + ";\nmul.lo.u32 %r1, %r1, %r1;\n";
  const std::string text = ptx(GetParam(), ".reg .b32 %x<44>;\n" + body);
  auto registers = [&](const std::string &wish) {
    std::string t = text;
    Assembly out;
    Status s = assembler->assemble(t.replace(t.find(")\n{"), 3, ")\n.reqntid 256\n" + wish + "\n{"), "k",
                                   {.arch = GetParam()}, out);
    EXPECT_TRUE(s) << s.text;
    EXPECT_EQ(out.stats.spillStoreBytes, 0u) << wish;
    return out.stats.registers;
  };
  unsigned lowered = registers(".minnctapersm 8");
  EXPECT_GT(lowered, 32u);
  EXPECT_EQ(lowered, registers(".minnctapersm 4"));
}

/// Spills that no fewer blocks would save, and wishes of long texts, cost no more attempts.
TEST_P(AssembleOne, WishesAreGivenUp) {
  auto attempts = [&](unsigned live, const std::string &wish) {
    std::string body;
    for (unsigned i = 0; i < live; ++i)
      body += "ld.volatile.global.u32 %x" + std::to_string(i) + ", [%rd2+" + std::to_string(4 * i) + "];\n";
    for (unsigned i = live; i-- > 0;)
      body += "xor.b32 %r1, %r1, %x" + std::to_string(i) + ";\nmul.lo.u32 %r1, %r1, %r1;\n";
    std::string text = ptx(GetParam(), ".reg .b32 %x<" + std::to_string(live) + ">;\n" + body);
    Assembly out;
    Status s = assembler->assemble(text.replace(text.find(")\n{"), 3, ")\n.reqntid 64\n" + wish + "\n{"), "k",
                                   {.arch = GetParam()}, out);
    EXPECT_TRUE(s) << s.text;
    EXPECT_GT(out.stats.registers, 64u);
    return out.attempts;
  };
  EXPECT_EQ(attempts(300, ".minnctapersm 4"), 1u); // 256 registers a thread
  EXPECT_GT(attempts(150, ".minnctapersm 16"), 2u);
  EXPECT_EQ(attempts(150, ".minnctapersm 16\n//" + std::string(64 << 10, ' ')), 2u);
}

/// A kernel that lacks a few registers for a quarter more blocks gets these, where the caller knows that shared memory
/// has room; nothing is spilled for it.
TEST_P(AssembleOne, OneBlockMoreForAFewRegisters) {
  unsigned fewer = 0;
  for (unsigned live = 60; live < 76; ++live) {
    std::string body;
    for (unsigned i = 0; i < live; ++i)
      body += "ld.global.u32 %x" + std::to_string(i) + ", [%rd2+" + std::to_string(4096 * i) + "];\n";
    for (unsigned i = 0; i < live; ++i)
      body += "xor.b32 %r1, %r1, %x" + std::to_string(i) + ";\nmul.lo.u32 %r1, %r1, %r1;\n";
    std::string text = ptx(GetParam(), ".reg .b32 %x<" + std::to_string(live) + ">;\n" + body);
    text.replace(text.find(")\n{"), 3, ")\n.reqntid 512, 1, 1\n{");
    auto registers = [&](std::optional<uint64_t> shared) {
      Assembly out;
      Status s = assembler->assemble(text, "k", {.arch = GetParam(), .sharedBytes = shared}, out);
      EXPECT_TRUE(s) << s.text;
      EXPECT_EQ(out.stats.spillStoreBytes, 0u);
      return out.stats.registers;
    };
    unsigned alone = registers(std::nullopt), two = registers(1000), full = registers(150000);
    EXPECT_EQ(full, alone) << "no room for two blocks";
    EXPECT_EQ(two <= 64, alone <= 72) << alone;
    fewer += two < alone;
  }
  EXPECT_GT(fewer, 0u);
}

/// Loads of `live` numbers, all of them under way at once.
static std::string loads(const std::string &arch, unsigned live, const std::string &directives) {
  std::string body;
  for (unsigned i = 0; i < live; ++i)
    body += "ld.volatile.global.u32 %x" + std::to_string(i) + ", [%rd2+" + std::to_string(4 * i) + "];\n";
  for (unsigned i = live; i-- > 0;)
    body += "xor.b32 %r1, %r1, %x" + std::to_string(i) + ";\nmul.lo.u32 %r1, %r1, %r1;\n";
  std::string text = ptx(arch, ".reg .b32 %x<" + std::to_string(live) + ">;\n" + body);
  return text.replace(text.find(")\n{"), 3, ")\n" + directives + "\n{");
}

/// The third block is worth more bytes of spills than the fourth; the second, of many warps, none.
TEST_P(AssembleOne, SpillsThatBlocksAreWorth) {
  auto most = [&](unsigned threads, unsigned blocks) { // bytes that were spilled for so many
    uint32_t bytes = 0, limit = 65536 / (threads * blocks) / 8 * 8;
    for (unsigned live = limit - 8; live < limit + 20; live += 2) {
      Assembly out;
      Status s = assembler->assemble(
          loads(GetParam(), live, ".reqntid " + std::to_string(threads) + "\n.minnctapersm " + std::to_string(blocks)),
          "k", {.arch = GetParam()}, out);
      EXPECT_TRUE(s) << s.text;
      EXPECT_TRUE(!out.stats.spillStoreBytes || out.stats.registers <= limit) << out.stats.registers;
      bytes = std::max(bytes, out.stats.spillStoreBytes);
    }
    return bytes;
  };
  uint32_t two = most(512, 2), three = most(256, 3), four = most(256, 4);
  EXPECT_EQ(two, 0u);
  EXPECT_GT(three, 16u);
  EXPECT_LE(three, 32u);
  EXPECT_LE(four, 16u);
}

/// A few bytes of spills cost a second attempt, with more registers; for architectures that stop right below a bound
/// one in between.
struct AssembleOldAndNew : Assemble {};
INSTANTIATE_TEST_SUITE_P(Arch, AssembleOldAndNew, testing::Values("sm_80", "sm_90a"));
TEST_P(AssembleOldAndNew, SpillsOfFewBytesAreTriedAgain) {
  unsigned most = 0;
  for (unsigned live = 56; live < 80; live += 2) {
    Assembly out;
    Status s =
        assembler->assemble(loads(GetParam(), live, ".reqntid 256\n.minnctapersm 4"), "k", {.arch = GetParam()}, out);
    ASSERT_TRUE(s) << s.text;
    if (out.stats.registers <= 72) // one step more than four blocks leave
      most = std::max(most, out.attempts);
  }
  EXPECT_EQ(most, std::string(GetParam()) == "sm_80" ? 3u : 2u);
}

// Code out of the driver's cache would come without numbers. Old libraries know no such option.
TEST(AssemblerOptions, NoCacheButOurs) {
  const std::string fake = std::string(tegula::testBinaryDir) + "/lib/libfakejitlink.so";
  for (bool old : {false, true}) {
    if (old) setenv("FAKE_JITLINK_OLD", "1", 1);
    Status s;
    std::unique_ptr<const Assembler> a = Assembler::open(fake, s);
    ASSERT_TRUE(a) << s.text;
    Assembly out;
    s = a->assemble(ptx("sm_90a", ""), "k", {.arch = "sm_90a"}, out);
    unsetenv("FAKE_JITLINK_OLD");
    EXPECT_EQ(s.code, TEGULA_ASSEMBLER_ERROR);
    EXPECT_EQ(has(s.text, " -no-cache"), !old) << s.text;
    EXPECT_TRUE(has(s.text, "options: -arch=sm_90a")) << s.text;
  }
}

TEST(AssemblerLog, Numbers) {
  AssemblyStats s = parseAssemblerLog(
      "ptxas info    : Function properties for k\n"
      "ptxas         .     48 bytes stack frame, 40 bytes spill stores, 36 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 3 barriers, 64 bytes smem\n"
      "info    : used 168 registers, used 3 barriers, 0 stack, 1088 bytes smem, 536 bytes cmem[0], 0 bytes lmem\n");
  EXPECT_EQ(s.registers, 168u);
  EXPECT_EQ(s.barriers, 3u);
  EXPECT_EQ(s.stackBytes, 48u);
  EXPECT_EQ(s.spillStoreBytes, 40u);
  EXPECT_EQ(s.spillLoadBytes, 36u);
  EXPECT_EQ(s.serialized, "");
  // As ptxas 13.0 says it, and in other words.
  EXPECT_EQ(
      parseAssemblerLog(
          "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the function 'k'\n"
          "ptxas info    : 0 bytes gmem\n")
          .serialized,
      "insufficient register resources");
  EXPECT_EQ(
      parseAssemblerLog(
          "info : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining accumulator registers of a wgmma between start and "
          "end of the pipeline stage in the function 'k'")
          .serialized,
      "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage");
}

TEST(AssemblerLog, LinesOutsideTheText) {
  EXPECT_EQ(explainAssemblerLog("input, line 99; error : x", "a\nb\n"), "  input, line 99; error : x");
  EXPECT_EQ(explainAssemblerLog("", "a\n"), "  (no log)");
  EXPECT_EQ(explainAssemblerLog("x line 2; y\n", "a\nb\n"), "  x line 2; y\n    2 | b");
}

TEST(AssemblerOpen, NotALibrary) {
  Status s;
  EXPECT_EQ(Assembler::open("/nonexistent", s), nullptr);
  EXPECT_EQ(Assembler::open("libm.so.6", s), nullptr);
  EXPECT_EQ(s.text, "libm.so.6 is no nvJitLink library");
}

} // namespace
