// Tuning results on disk: layers, updates, leases; what is damaged or not ours is as if it were not there.
#include "tune/Store.h"
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tegula::tune;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {
struct TemporaryDirectory {
  fs::path path;
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "tegula-tune-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string sub(const char *name) const { return (path / name).string(); }
};
} // namespace

static const KernelKey matmul = KernelKey::of("matmul", "source");
static const EntryKey large{"NVIDIA H200", "sm_90a", "M=4096, x:fp16", "1.0"};

static Entry measured(std::string config, double ns, uint32_t runs = 10, Date date = 1000) {
  Entry e;
  e.configs.emplace(config, Record::ok(ns, ns - 1, ns + 1, runs, date));
  e.choice = Choice{config, How::Measured, date};
  return e;
}

static Places user(const TemporaryDirectory &d) {
  Places p;
  p.directory = d.sub("user");
  return p;
}

/// The one file of results in a user's directory.
static fs::path fileOf(const Places &p) {
  fs::path found;
  for (auto &e : fs::directory_iterator(p.directory + "/tune"))
    if (e.path().extension() == ".json") found = e.path();
  return found;
}

TEST(Store, WhatIsRecordedIsFound) {
  TemporaryDirectory d;
  Store store(user(d));
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  EXPECT_FALSE(fs::exists(d.sub("user")));
  ASSERT_TRUE(store.record(matmul, large, measured("BLOCK: 64", 100)));
  Store another(user(d));
  for (Store *s : {&store, &another}) {
    Found f = s->find(matmul, large);
    ASSERT_EQ(f.configs.size(), 1u);
    EXPECT_EQ(f.configs.at("BLOCK: 64"), Record::ok(100, 99, 101, 10, 1000));
    ASSERT_TRUE(f.choice);
    EXPECT_EQ(f.choice->config, "BLOCK: 64");
    EXPECT_TRUE(f.guesses.empty());
    EXPECT_TRUE(s->takeWarnings().empty());
  }
}

TEST(Store, ADamagedFileIsPutAside) {
  TemporaryDirectory d;
  Store store(user(d));
  ASSERT_TRUE(store.record(matmul, large, measured("c", 100)));
  fs::path file = fileOf(user(d));
  fs::resize_file(file, fs::file_size(file) / 2);
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  std::vector<std::string> warnings = store.takeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("is not JSON"), std::string::npos) << warnings[0];
  EXPECT_FALSE(fs::exists(file));
  EXPECT_TRUE(fs::exists(file.string() + ".damaged"));
  ASSERT_TRUE(store.record(matmul, large, measured("c", 100)));
  EXPECT_EQ(store.find(matmul, large).configs.size(), 1u);
}

TEST(Store, EightProcessesMeasureOnce) {
  TemporaryDirectory d;
  std::string count = d.sub("measured");
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      Store store(user(d));
      Waited w = store.waitForResult(matmul, large, [](const Found &f) { return f.configs.contains("c"); }, std::chrono::steady_clock::now() + 50s);
      if (w.timedOut) _exit(1);
      if (w.lease) {
        std::ofstream(count, std::ios::app) << "x" << std::flush;
        std::this_thread::sleep_for(50ms);
        if (!store.record(matmul, large, measured("c", 100 + i))) _exit(2);
        w.lease->release();
        w.found = store.find(matmul, large);
      }
      double mine = w.found.configs.at("c").medianNs;
      _exit(mine == Store(user(d)).find(matmul, large).configs.at("c").medianNs ? 0 : 3);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fs::file_size(count), 1u);
}
