// The disk cache seen from outside: hits across contexts and processes, damage, unusable directories.
#include "Fixture.h"
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tegula;
using namespace tegula::test;
namespace fs = std::filesystem;

namespace {
struct CacheDirectory {
  std::string path;
  CacheDirectory() {
    path = (fs::temp_directory_path() / "tegula-api-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
  }
  ~CacheDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};
} // namespace

static TegulaCacheStat stat(const Context &c) {
  TegulaCacheStat s{};
  s.size = sizeof s;
  EXPECT_EQ(tegula_cache_stat(c.get(), &s), TEGULA_OK);
  return s;
}

/// Runs add on a fresh context; where the kernel came from, -1 if the result is wrong.
static int runAdd(const Context &c, const std::string &text = addText, const LaunchOptions &o = {}) {
  Function add = module(c, text).kernel("add").value();
  alignas(64) float x[64], out[64];
  for (int i = 0; i < 64; ++i) x[i] = float(i);
  std::vector<Arg> args{std::span(x), std::span(x), std::span(out), 64, 64};
  if (!add(1, args, o)) return -1;
  for (int i = 0; i < 64; ++i)
    if (out[i] != 2.0f * float(i)) return -1;
  return add.compile(args, o).value().info().origin;
}

TEST(DiskCache, HitsInTheNextContext) {
  CacheDirectory d;
  EXPECT_EQ(runAdd(context(d.path.c_str())), TEGULA_FROM_COMPILER);
  Context c = context(d.path.c_str());
  EXPECT_EQ(runAdd(c), TEGULA_FROM_DISK_CACHE);
  TegulaCacheStat s = stat(c);
  EXPECT_EQ(s.entries, 1u);
  EXPECT_EQ(s.disk_hits, 1u);
  EXPECT_EQ(s.compiles, 0u);
  EXPECT_STREQ(s.disabled, "");
  // Other text, other options: other entries.
  std::string changed = addText;
  changed += "    # a comment does not matter to the result, but the key is the text\n";
  LaunchOptions o;
  o.checked = 1;
  EXPECT_EQ(runAdd(c, addText, o), TEGULA_FROM_COMPILER);
  uint64_t removed = 0;
  EXPECT_EQ(tegula_cache_clear(c.get(), &removed), TEGULA_OK);
  EXPECT_EQ(removed, 2u);
  EXPECT_EQ(runAdd(context(d.path.c_str())), TEGULA_FROM_COMPILER);
}

TEST(DiskCache, HelpersAreInTheKey) {
  CacheDirectory d;
  auto run = [&](const char *factor) {
    Context c = context(d.path.c_str());
    std::string text = std::string("@triton.jit\ndef helper(v):\n    return v * ") + factor +
                       "\n\n@triton.jit\ndef k(out, v):\n    tl.store(out, helper(v))\n";
    return runInt(module(c, text).kernel("k").value(), {5});
  };
  EXPECT_EQ(run("2"), 10);
  EXPECT_EQ(run("3"), 15);
  EXPECT_EQ(run("2"), 10);
}

TEST(DiskCache, DamagedEntriesAreRebuilt) {
  CacheDirectory d;
  EXPECT_EQ(runAdd(context(d.path.c_str())), TEGULA_FROM_COMPILER);
  auto damage = [&](auto &&f) {
    for (const auto &e : fs::recursive_directory_iterator(d.path))
      if (e.is_regular_file()) f(e.path());
  };
  damage([](const fs::path &p) { fs::resize_file(p, fs::file_size(p) / 2); });
  EXPECT_EQ(runAdd(context(d.path.c_str())), TEGULA_FROM_COMPILER);
  damage([](const fs::path &p) {
    std::fstream f(p, std::ios::in | std::ios::out | std::ios::binary);
    auto at = static_cast<std::streamoff>(fs::file_size(p)) - 100;
    f.seekg(at);
    int byte = f.get();
    f.seekp(at);
    f.put(static_cast<char>(byte ^ 0x55));
  });
  EXPECT_EQ(runAdd(context(d.path.c_str())), TEGULA_FROM_COMPILER);
  damage([](const fs::path &p) { fs::resize_file(p, 0); });
  Context c = context(d.path.c_str());
  EXPECT_EQ(runAdd(c), TEGULA_FROM_COMPILER);
  EXPECT_EQ(stat(c).corrupted, 1u);
  EXPECT_EQ(runAdd(context(d.path.c_str())), TEGULA_FROM_DISK_CACHE);
}

TEST(DiskCache, UnusableDirectoryDoesNotMatter) {
  CacheDirectory d;
  std::ofstream(d.path + "/file") << "x";
  Context c = context((d.path + "/file/cache").c_str());
  EXPECT_EQ(runAdd(c), TEGULA_FROM_COMPILER);
  EXPECT_STRNE(stat(c).disabled, "");
  Context none = context("");
  EXPECT_EQ(runAdd(none), TEGULA_FROM_COMPILER);
  EXPECT_STREQ(stat(none).directory, "");
}

TEST(DiskCache, EightThreadsAndEightProcessesRace) {
  CacheDirectory d;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(100);
      std::atomic<int> wrong{0};
      {
        Context c = context(d.path.c_str());
        std::vector<std::jthread> threads;
        for (int t = 0; t < (i == 0 ? 8 : 1); ++t) threads.emplace_back([&] { wrong += runAdd(c) < 0; });
      }
      _exit(wrong ? 1 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Context c = context(d.path.c_str());
  EXPECT_EQ(runAdd(c), TEGULA_FROM_DISK_CACHE);
  EXPECT_EQ(stat(c).entries, 1u);
  EXPECT_EQ(stat(c).corrupted, 0u);
}
