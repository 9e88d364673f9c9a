// ptxas as a program: where it is, and what is made of what it writes and says. Shell scripts stand for it.
#include "runtime/cuda/AssemblerProgram.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <csignal>
#include <unistd.h>

using namespace tegula::runtime::cuda;

namespace {

struct Program : testing::Test {
  std::string folder = testing::TempDir() + "program-" + std::to_string(getpid()), path = folder + "/ptxas";
  std::vector<char> cubin;
  std::string log;

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// Runs a program of that text on "text".
  bool run(const std::string &script) {
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return AssemblerProgram(path).assemble("text", {"-O3"}, cubin, log);
  }
};

std::vector<std::string> listOf(const Places &places) {
  std::vector<std::string> out;
  places.search([&](const std::string &path) { return out.push_back(path), false; });
  return out;
}

Places paths(std::initializer_list<std::string> list) {
  Places out;
  for (const std::string &path : list) out.add(path);
  return out;
}

constexpr const char *writes = R"(printf '\177ELF' > "$5"; cat "$3" >> "$5"; echo "$1 $2 $4"; echo more >&2)";

TEST_F(Program, TakesTextAndGivesCodeAndLog) {
  ASSERT_TRUE(run(writes));
  EXPECT_EQ(std::string(cubin.data(), cubin.size()), "\x7f" "ELFtext");
  EXPECT_EQ(log, "-v -O3 -o\nmore\n");
}

TEST_F(Program, FailsWithoutCode) {
  EXPECT_FALSE(run("exit 1"));
  EXPECT_FALSE(run(std::string(writes) + "; exit 2")) << "code of a program that failed is not taken";
  EXPECT_FALSE(run("true")) << "nothing written";
  EXPECT_FALSE(run(R"(cat "$3" > "$5")")) << "no ELF";
  EXPECT_FALSE(run("kill -9 $$"));
  EXPECT_FALSE(AssemblerProgram(folder + "/none").assemble("text", {}, cubin, log));
}

TEST_F(Program, ServesDriversOfItsMajorVersionThatAreNoNewer) {
  auto serves = [&](const std::string &says, int driver) {
    std::ofstream(path) << "#!/bin/sh\necho asked >> " << folder << "/log\n" << says << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return AssemblerProgram(path).serves(driver);
  };
  const std::string new13 = R"([ "$1" = --version ] && echo "ptxas: NVIDIA (R) Ptx optimizing assembler" && echo "Cuda compilation tools, release 13.1, V13.1.48")";
  EXPECT_TRUE(serves(new13, 13000)) << "a driver of 13.0 loads what 13.1 makes";
  EXPECT_FALSE(serves(new13, 12080));
  EXPECT_TRUE(serves("echo release 13.0,", 13000));
  EXPECT_TRUE(serves("echo release 12.8, V12.8.93", 12080));
  EXPECT_FALSE(serves("echo release 12.8, V12.8.93", 12090)) << "the driver's own is newer, and may be better";
  EXPECT_FALSE(serves("echo release 12.8, V12.8.93", 13000));
  EXPECT_FALSE(serves("echo release x", 13000));
  EXPECT_FALSE(serves("true", 13000));
  EXPECT_FALSE(serves("echo release 13.0,; exit 1", 13000));
  std::filesystem::remove(folder + "/log");
  std::ofstream(path) << "#!/bin/sh\necho asked >> " << folder << "/log\n" << new13 << "\n";
  const AssemblerProgram one(path);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(one.serves(13000));
  std::ifstream log(folder + "/log");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(log), {}), "asked\n") << "once";
}

TEST_F(Program, WorksWhereNobodyWaitsForChildren) {
  auto *before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_TRUE(run(writes));
  EXPECT_FALSE(run("exit 1"));
  std::signal(SIGCHLD, before);
}

TEST_F(Program, LeavesNoFilesOpen) {
  auto open = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open();
  run(writes);
  run("exit 1");
  EXPECT_EQ(open(), before);
}

TEST_F(Program, HasLargePagesUnlessTheUserTunesGlibc) {
  const std::string says = std::string(writes) + R"(; echo "$GLIBC_TUNABLES, $TEGULA_PROGRAM_TEST")";
  setenv("TEGULA_PROGRAM_TEST", "kept", 1);
  unsetenv("GLIBC_TUNABLES");
  ASSERT_TRUE(run(says));
  EXPECT_NE(log.find("glibc.malloc.hugetlb=1, kept\n"), log.npos) << log;
  setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2", 1);
  ASSERT_TRUE(run(says));
  EXPECT_NE(log.find("glibc.malloc.arena_max=2, kept\n"), log.npos) << log;
  unsetenv("GLIBC_TUNABLES");
  unsetenv("TEGULA_PROGRAM_TEST");
}

TEST_F(Program, IsFoundBesideTheLibraryFirst) {
  unsetenv("TEGULA_PTXAS");
  const std::vector<std::string> found = listOf(programPlaces("/opt/cuda/lib64/libnvJitLink.so.13", {folder}));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front(), "/opt/cuda/lib64/../bin/ptxas");
  setenv("TEGULA_PTXAS", "/own", 1);
  EXPECT_EQ(listOf(programPlaces("/lib/x.so", {})), std::vector<std::string>{"/own"});
  setenv("TEGULA_PTXAS", "", 1);
  EXPECT_TRUE(listOf(programPlaces("/lib/x.so", {})).empty());
  unsetenv("TEGULA_PTXAS");
}

TEST_F(Program, NewestNamesOfAPatternFirstAndOnlyAsFarAsNeeded) {
  for (const char *name : {"/a.12", "/a.13", "/b.1"}) std::ofstream(folder + name) << "text";
  Places places = paths({folder + "/a.[0-9]*"});
  places.addPattern(folder + "/a.[0-9]*");
  places.addPattern(folder + "/none*");
  places.addPattern(folder + "/b.*");
  EXPECT_EQ(listOf(places),
            (std::vector<std::string>{folder + "/a.[0-9]*", folder + "/a.13", folder + "/a.12", folder + "/b.1"}));
  unsigned asked = 0;
  EXPECT_TRUE(places.search([&](const std::string &path) { return ++asked, path == folder + "/a.13"; }));
  EXPECT_EQ(asked, 2u);
  EXPECT_FALSE(places.search([](const std::string &) { return false; }));
}

TEST_F(Program, IsAFileThatMayRun) {
  EXPECT_EQ(AssemblerProgram::find(paths({folder, folder + "/none"})), nullptr);
  std::ofstream(path) << "text";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  EXPECT_EQ(AssemblerProgram::find(paths({path})), nullptr);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto a = AssemblerProgram::find(paths({folder + "/none", path}));
  ASSERT_TRUE(a);
  EXPECT_EQ(a->path(), path);
  std::ofstream(path) << "other text";
  EXPECT_NE(AssemblerProgram(path).identity(), a->identity());
  EXPECT_EQ(a->identityFor(0), a->identity());
  EXPECT_NE(a->identityFor(12080), a->identity());
  EXPECT_NE(a->identityFor(12080), a->identityFor(13000)) << "one takes what the program makes, the other text";
}

} // namespace
