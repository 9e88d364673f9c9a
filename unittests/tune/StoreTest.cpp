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

static Results readAll(const fs::path &path) {
  Results r;
  Status s = readFile(path.string(), r);
  EXPECT_TRUE(s) << s.text;
  return r;
}

static void expectExit(pid_t child, int expected) {
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == expected) << status;
}

/// Runs in a child process; what it returns is its exit status.
template <typename F> static pid_t inChild(F &&f) {
  pid_t child = fork();
  if (child != 0) return child;
  alarm(100);
  _exit(f());
}

static bool has(const Found &f, const char *config) { return f.configs.contains(config); }

static auto in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// ---- records

TEST(Store, ALaterRecordJoinsAndItsChoiceStays) {
  TemporaryDirectory d;
  Store store(user(d));
  ASSERT_TRUE(store.record(matmul, large, measured("a", 100)));
  ASSERT_TRUE(store.record(matmul, large, measured("b", 200, 10, 900)));
  ASSERT_TRUE(store.record(matmul, {"cpu", "avx2", "", "1.0"}, measured("c", 5)));
  ASSERT_TRUE(store.record(KernelKey::of("other", ""), large, measured("d", 5)));
  Found f = store.find(matmul, large);
  EXPECT_EQ(f.configs.size(), 2u);
  EXPECT_EQ(f.choice->config, "b");
  ASSERT_TRUE(store.forget(matmul, large, "b"));
  f = store.find(matmul, large);
  EXPECT_TRUE(has(f, "a") && !has(f, "b"));
  EXPECT_FALSE(f.choice);
  ASSERT_TRUE(store.forget(matmul, large));
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  EXPECT_TRUE(has(store.find(matmul, {"cpu", "avx2", "", "1.0"}), "c"));
  ASSERT_TRUE(store.forget(matmul, {"cpu", "avx2", "", "1.0"}));
  EXPECT_EQ(readAll(fileOf(user(d))).kernels.begin()->first.name, "other");
}

TEST(Store, EqualContentIsEqualBytes) {
  TemporaryDirectory d, e;
  Store one(user(d)), other(user(e));
  ASSERT_TRUE(one.record(matmul, large, measured("a", 100)));
  ASSERT_TRUE(one.record(matmul, large, measured("b", 200)));
  Entry both = measured("a", 100);
  both.update(measured("b", 200));
  ASSERT_TRUE(other.record(matmul, large, both));
  auto bytes = [](const fs::path &p) {
    std::ifstream in(p);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(fileOf(user(d)).filename(), fileOf(user(e)).filename());
  EXPECT_EQ(bytes(fileOf(user(d))), bytes(fileOf(user(e))));
}

TEST(Store, NamesThatNoFileMayHave) {
  TemporaryDirectory d;
  Store store(user(d));
  KernelKey odd = KernelKey::of("../a b/\xc3\xa4" + std::string(300, 'x'), "");
  ASSERT_TRUE(store.record(odd, large, measured("c", 1)));
  EXPECT_TRUE(has(store.find(odd, large), "c"));
  EXPECT_LT(fileOf(user(d)).filename().string().size(), 130u);
  KernelKey bad = KernelKey::of("\xff", "");
  EXPECT_EQ(store.record(bad, large, measured("c", 1)).code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(store.record(odd, large, measured("\xff", 1)).code, TEGULA_INVALID_ARGUMENT);
}

TEST(Store, WithoutADirectoryNothingIsKept) {
  Store store(Places{});
  EXPECT_TRUE(store.record(matmul, large, measured("c", 1)));
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  EXPECT_TRUE(store.forget(matmul, large));
  std::optional<Lease> lease = store.tryLease(matmul, large);
  ASSERT_TRUE(lease);
  EXPECT_FALSE(lease->isExclusive());
  lease->mark("c", "x");
  EXPECT_EQ(store.writeProject(matmul).code, TEGULA_INVALID_ARGUMENT);
}

TEST(Store, ADirectoryThatCannotBeMade) {
  TemporaryDirectory d;
  std::ofstream(d.sub("file")) << "x";
  Places p;
  p.directory = d.sub("file") + "/user";
  Store store(p);
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  Status s = store.record(matmul, large, measured("c", 1));
  EXPECT_EQ(s.code, TEGULA_IO_ERROR) << s.text;
  EXPECT_FALSE(store.tryLease(matmul, large)->isExclusive());
}

TEST(Store, EightProcessesLoseNothing) {
  TemporaryDirectory d;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i)
    children.push_back(inChild([&] {
      Store store(user(d));
      for (int k = 0; k < 10; ++k) {
        if (!store.record(matmul, large, measured(std::to_string(i) + "-" + std::to_string(k), 100 + k))) return 1;
        // What this process wrote is there, and every file was whole.
        if (store.find(matmul, large).configs.size() < static_cast<size_t>(k) + 1 || !store.takeWarnings().empty())
          return 2;
      }
      return 0;
    }));
  for (pid_t child : children) expectExit(child, 0);
  EXPECT_EQ(Store(user(d)).find(matmul, large).configs.size(), 80u);
  // Neither temporaries nor anything else is left behind.
  for (auto &e : fs::directory_iterator(d.sub("user/tune")))
    EXPECT_TRUE(e.path() == fileOf(user(d)) || e.path().filename() == ".lock") << e.path();
}

TEST(Store, EightThreadsLoseNothing) {
  TemporaryDirectory d;
  Store store(user(d));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        for (int k = 0; k < 5; ++k) {
          EXPECT_TRUE(store.record(matmul, large, measured(std::to_string(i) + "-" + std::to_string(k), 100)));
          (void)store.find(matmul, large);
        }
      });
  }
  EXPECT_EQ(store.find(matmul, large).configs.size(), 40u);
}

TEST(Store, TemporariesOfKilledProcessesGo) {
  TemporaryDirectory d;
  ASSERT_TRUE(Store(user(d)).record(matmul, large, measured("c", 1)));
  std::ofstream(d.sub("user/tune/.tmp-old")) << "x";
  std::ofstream(d.sub("user/tune/.tmp-young")) << "x";
  fs::last_write_time(d.sub("user/tune/.tmp-old"), fs::file_time_type::clock::now() - 25h);
  ASSERT_TRUE(Store(user(d)).record(matmul, large, measured("c", 1)));
  EXPECT_FALSE(fs::exists(d.sub("user/tune/.tmp-old")));
  EXPECT_TRUE(fs::exists(d.sub("user/tune/.tmp-young")));
}

// ---- layers

/// A file of one entry.
static void writeOne(const std::string &path, const EntryKey &key, const Entry &entry) {
  Results r;
  r.kernels[matmul][key] = entry;
  fs::create_directories(fs::path(path).parent_path());
  Status s = writeFile(path, r);
  ASSERT_TRUE(s) << s.text;
}

TEST(Store, TheNearestLayerThatKnowsAConfigurationCounts) {
  TemporaryDirectory d;
  Places p = user(d);
  p.project = d.sub("tegula.tune.json");
  p.readOnly = {d.sub("absent"), d.sub("file.json"), d.sub("folder"), d.sub("another")};
  Entry project = measured("b", 20);
  project.configs["a"] = Record::bad(State::Faulted, "k", "r", 1);
  writeOne(p.project, large, project);
  Entry file = measured("c", 30);
  file.configs["b"] = Record::ok(1, 1, 1, 999, 9999);
  writeOne(d.sub("file.json"), large, file);
  writeOne(d.sub("folder/tegula.tune.json"), large, measured("d", 40));
  Places other;
  other.directory = d.sub("another");
  ASSERT_TRUE(Store(other).record(matmul, large, measured("e", 50)));

  Store store(p);
  Found f = store.find(matmul, large);
  EXPECT_EQ(f.configs.size(), 5u);
  EXPECT_EQ(f.configs.at("a").state, State::Faulted);
  EXPECT_EQ(f.configs.at("b").medianNs, 20);
  EXPECT_EQ(f.choice->config, "b");
  ASSERT_TRUE(store.record(matmul, large, measured("a", 10)));
  f = store.find(matmul, large);
  EXPECT_EQ(f.configs.at("a").medianNs, 10);
  EXPECT_EQ(f.choice->config, "a");
  // A file that changes is read again; what is nearer may speak against the choice of a layer farther away.
  ASSERT_TRUE(store.forget(matmul, large));
  writeOne(p.project, large, measured("x", 7));
  Entry bad;
  bad.configs["x"] = Record::bad(State::Rejected, "k", "r", 1);
  ASSERT_TRUE(store.record(matmul, large, bad));
  f = store.find(matmul, large);
  EXPECT_EQ(f.configs.at("x").state, State::Rejected);
  EXPECT_EQ(f.choice->config, "b"); // of what is left, the fastest
  EXPECT_EQ(f.configs.at("b").medianNs, 1);
  EXPECT_TRUE(store.takeWarnings().empty());
}

TEST(Store, OtherVersionsAndDevicesAreGuesses) {
  TemporaryDirectory d;
  Places p = user(d);
  p.project = d.sub("tegula.tune.json");
  Store store(p);
  auto key = [](const char *device, const char *version) {
    return EntryKey{device, "sm_90a", large.arguments, version};
  };
  ASSERT_TRUE(store.record(matmul, key("H100", "0.9"), measured("both", 1)));
  ASSERT_TRUE(store.record(matmul, key("H100", "1.0"), measured("device", 1)));
  ASSERT_TRUE(store.record(matmul, key("NVIDIA H200", "0.8"), measured("old", 1, 10, 500)));
  ASSERT_TRUE(store.record(matmul, key("NVIDIA H200", "0.9"), measured("newer", 1, 10, 600)));
  ASSERT_TRUE(store.record(matmul, {large.device, large.target, "M=1", large.version}, measured("other arguments", 1)));
  writeOne(p.project, key("NVIDIA H200", "0.7"), measured("farther", 1, 10, 9000));
  Found f = store.find(matmul, large);
  EXPECT_TRUE(f.configs.empty());
  EXPECT_FALSE(f.choice);
  std::vector<std::string> order;
  for (const Guess &g : f.guesses) order.push_back(g.entry.choice->config);
  EXPECT_EQ(order, (std::vector<std::string>{"newer", "old", "farther", "device", "both"}));
  EXPECT_TRUE(f.guesses[0].sameDevice && !f.guesses[0].sameVersion && f.guesses[0].layer == Layer::User);
  EXPECT_TRUE(!f.guesses[3].sameDevice && f.guesses[3].sameVersion);
}

TEST(Store, BuildsOfAVersion) {
  TemporaryDirectory d;
  Places p = user(d);
  p.project = d.sub("tegula.tune.json");
  Store store(p);
  auto key = [](const char *version) { return EntryKey{large.device, large.target, large.arguments, version}; };
  // One's own results are of one build; what is checked in is for all builds of the version.
  ASSERT_TRUE(store.record(matmul, key("1.0+aaaa"), measured("own", 1)));
  EXPECT_TRUE(has(store.find(matmul, key("1.0+aaaa")), "own"));
  Found f = store.find(matmul, key("1.0+bbbb"));
  EXPECT_TRUE(f.configs.empty());
  ASSERT_EQ(f.guesses.size(), 1u);
  EXPECT_FALSE(f.guesses[0].sameVersion);
  writeOne(p.project, key("1.0+cccc"), measured("checked in", 1));
  EXPECT_TRUE(has(store.find(matmul, key("1.0+bbbb")), "checked in"));
  EXPECT_TRUE(has(store.find(matmul, key("1.0")), "checked in"));
  EXPECT_FALSE(has(store.find(matmul, key("1.1+cccc")), "checked in"));
}

TEST(Store, OldVersionsGoAtLast) {
  TemporaryDirectory d;
  Store store(user(d));
  auto key = [](std::string version, const char *arguments) {
    return EntryKey{large.device, large.target, arguments, std::move(version)};
  };
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(store.record(matmul, key("1.0+" + std::to_string(i), "M=1"), measured("c", 1, 10, 1000 + i)));
    ASSERT_TRUE(
        store.record(matmul, key("1.0+" + std::to_string(i), i ? "M=3" : "M=2"), measured("c", 1, 10, 1000 + i)));
  }
  Found f = store.find(matmul, key("1.0+7", "M=1"));
  EXPECT_TRUE(has(f, "c"));
  std::vector<std::string> versions;
  for (const Guess &g : f.guesses) versions.push_back(g.key.version);
  EXPECT_EQ(versions, (std::vector<std::string>{"1.0+6", "1.0+5", "1.0+4"}));
  EXPECT_TRUE(has(store.find(matmul, key("1.0+0", "M=2")), "c")) << "nobody came later with these arguments";
}

TEST(Store, PlacesFromTheEnvironment) {
  TemporaryDirectory d;
  fs::create_directories(d.sub("a/b"));
  std::ofstream(d.sub("a/tegula.tune.json")) << "x";
  expectExit(inChild([&] {
    setenv("TEGULA_CACHE_DIR", "/cache", 1), unsetenv("TEGULA_TUNE_DIR"), unsetenv("TEGULA_TUNE_FILE");
    setenv("TEGULA_TUNE_PATH", ":/x::/y/z.json:", 1);
    if (chdir(d.sub("a/b").c_str()) != 0) return 1;
    Places p = Places::fromEnvironment();
    if (!p.project.empty()) return 6;
    p.findProject();
    if (p.directory != "/cache" || fs::path(p.project) != fs::canonical(d.path) / "a/tegula.tune.json" ||
        !p.projectWasFound)
      return 2;
    if (p.readOnly != std::vector<std::string>{"/x", "/y/z.json"}) return 3;
    setenv("TEGULA_TUNE_DIR", "", 1), setenv("TEGULA_TUNE_FILE", "named.json", 1), unsetenv("TEGULA_TUNE_PATH");
    p = Places::fromEnvironment();
    p.findProject();
    if (p.directory != "" || p.project != "named.json" || p.projectWasFound || !p.readOnly.empty()) return 4;
    setenv("TEGULA_TUNE_FILE", "", 1);
    p = Places::fromEnvironment();
    p.findProject();
    return p.project.empty() ? 0 : 5;
  }), 0);
}

TEST(Store, TheProjectsFileIsWrittenOnDemand) {
  TemporaryDirectory d;
  fs::create_directories(d.sub("project/real"));
  std::string real = d.sub("project/real/results.json"), link = d.sub("project/tegula.tune.json");
  fs::create_symlink("real/results.json", link);
  writeOne(real, large, measured("a", 100));
  fs::permissions(real, fs::perms(0640));
  Places p = user(d);
  p.project = link;
  Store store(p);
  ASSERT_TRUE(store.record(matmul, large, measured("b", 50)));
  EXPECT_EQ(readAll(link).kernels.at(matmul).at(large).configs.size(), 1u);
  Status s = store.writeProject(matmul);
  ASSERT_TRUE(s) << s.text;
  Entry e = readAll(link).kernels.at(matmul).at(large);
  EXPECT_EQ(e.configs.size(), 2u);
  EXPECT_EQ(e.choice->config, "b");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(fs::status(real).permissions(), fs::perms(0640));
  // A file that does not exist yet, and one that is not ours to overwrite.
  ASSERT_TRUE(store.writeProject(matmul, d.sub("new.json")));
  EXPECT_EQ(readAll(d.sub("new.json")).kernels.at(matmul).at(large).configs.size(), 1u);
  std::ofstream(d.sub("else.json")) << "{\"a\": 1}";
  s = store.writeProject(matmul, d.sub("else.json"));
  EXPECT_EQ(s.code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(s.text, "`" + d.sub("else.json") + "` is not a file of tuning results");
  EXPECT_EQ(fs::file_size(d.sub("else.json")), 8u);
}

// ---- what is not read

/// The warnings of a look-up that finds nothing.
static std::string warningsOf(const Places &p) {
  Store store(p);
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  (void)store.find(matmul, large);
  std::string all;
  for (const std::string &w : store.takeWarnings()) all += w + "\n";
  return all;
}

TEST(Store, WhatOthersMayHaveWrittenIsNotRead) {
  TemporaryDirectory d;
  Places p = user(d);
  ASSERT_TRUE(Store(p).record(matmul, large, measured("c", 1)));
  std::string file = fileOf(p).string();
  fs::permissions(file, fs::perms(0620));
  EXPECT_EQ(warningsOf(p), "the tuning results in `" + file +
                               "` are not used: the file can be written by other users; it is `" +
                               fs::path(file).filename().string() + ".damaged` now\n");
  ASSERT_TRUE(Store(p).record(matmul, large, measured("c", 1)));
  fs::permissions(d.sub("user/tune"), fs::perms(0770));
  EXPECT_EQ(warningsOf(p), "the directory of tuning results " + d.sub("user/tune") +
                               " can be written by other users; it is not used\n");
  Status s = Store(p).record(matmul, large, measured("d", 1));
  EXPECT_EQ(s.code, TEGULA_IO_ERROR);
  EXPECT_EQ(s.text, "the directory of tuning results " + d.sub("user/tune") + " can be written by other users");
  fs::permissions(d.sub("user/tune"), fs::perms(0700));
  EXPECT_TRUE(has(Store(p).find(matmul, large), "c"));
}

TEST(Store, AFileThatWasFoundIsTrustedLessThanOneThatWasNamed) {
  TemporaryDirectory d;
  Places p;
  p.project = d.sub("tegula.tune.json"), p.projectWasFound = true;
  writeOne(p.project, large, measured("c", 1));
  fs::permissions(p.project, fs::perms(0664));
  EXPECT_TRUE(has(Store(p).find(matmul, large), "c"));
  fs::permissions(p.project, fs::perms(0666));
  EXPECT_EQ(warningsOf(p),
            "the tuning results in `" + p.project +
                "` are not used: the file can be written by every user; `TEGULA_TUNE_FILE` can name it\n");
  p.projectWasFound = false;
  EXPECT_TRUE(has(Store(p).find(matmul, large), "c"));
}

TEST(Store, AFileOfANewerVersionStays) {
  TemporaryDirectory d;
  Places p = user(d);
  ASSERT_TRUE(Store(p).record(matmul, large, measured("c", 1)));
  std::string file = fileOf(p).string(), text = "{\"format\": \"tegula tuning results\", \"format_version\": 77}";
  std::ofstream(file) << text;
  EXPECT_EQ(warningsOf(p),
            "the tuning results in `" + file + "` are not used: the file was written by a newer version of tegula\n");
  Status s = Store(p).record(matmul, large, measured("d", 1));
  EXPECT_EQ(s.code, TEGULA_UNSUPPORTED);
  EXPECT_EQ(s.text, "`" + file + "` was written by a newer version of tegula");
  EXPECT_EQ(fs::file_size(file), text.size());
}

TEST(Store, OddFilesOfReadOnlyLayersAreWarnedOfOnce) {
  TemporaryDirectory d;
  Places p;
  p.readOnly = {d.sub("a.json"), d.sub("b.json"), d.sub("pipe")};
  std::ofstream(d.sub("a.json")) << "{";
  std::ofstream(d.sub("b.json"));
  fs::resize_file(d.sub("b.json"), fileLimit + 1);
  ASSERT_EQ(mkfifo(d.sub("pipe").c_str(), 0600), 0);
  auto line = [&](const char *name, const char *why) {
    return "the tuning results in `" + d.sub(name) + "` are not used: the file " + why + "\n";
  };
  EXPECT_EQ(warningsOf(p), line("a.json", "is not JSON") + line("b.json", "is larger than 64 MiB") +
                               line("pipe", "is not a regular file"));
  EXPECT_TRUE(fs::exists(d.sub("a.json")));
}

// ---- leases

TEST(Lease, OneAtATimeForEachEntry) {
  TemporaryDirectory d;
  Store store(user(d)), another(user(d));
  std::optional<Lease> lease = store.tryLease(matmul, large);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(lease->isExclusive());
  EXPECT_FALSE(store.tryLease(matmul, large));
  EXPECT_FALSE(another.tryLease(matmul, large));
  EntryKey small = large;
  small.arguments = "M=1";
  EXPECT_TRUE(another.tryLease(matmul, small));
  EXPECT_TRUE(another.tryLease(KernelKey::of("other", ""), large));
  Lease moved = std::move(*lease);
  lease.reset();
  EXPECT_FALSE(another.tryLease(matmul, large));
  moved.release();
  EXPECT_TRUE(another.tryLease(matmul, large));
  // Files of leases go with them.
  for (auto &e : fs::directory_iterator(d.sub("user/tune"))) EXPECT_NE(e.path().extension(), ".lease");
}

TEST(Lease, AChildDoesNotGiveUpItsParents) {
  TemporaryDirectory d;
  Store store(user(d));
  std::optional<Lease> lease = store.tryLease(matmul, large);
  lease->mark("c", "x");
  expectExit(inChild([&] {
    lease->clear();
    lease.reset();
    return 0;
  }), 0);
  EXPECT_FALSE(store.tryLease(matmul, large));
  EXPECT_TRUE(fs::file_size(fs::directory_iterator(d.sub("user/tune"))->path()) > 0);
  lease.reset();
  EXPECT_TRUE(store.tryLease(matmul, large));
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
}

TEST(Lease, WaitingEndsWithTheDeadline) {
  TemporaryDirectory d;
  Store store(user(d));
  std::optional<Lease> lease = store.tryLease(matmul, large);
  auto never = [](const Found &) { return false; };
  Waited w = store.waitForResult(matmul, large, never, in(20ms));
  EXPECT_TRUE(w.timedOut && !w.lease);
  lease.reset();
  w = store.waitForResult(matmul, large, never, in(0ms));
  EXPECT_TRUE(!w.timedOut && w.lease);
}

TEST(Lease, WaitingCanBeStopped) {
  TemporaryDirectory d;
  Store store(user(d));
  std::optional<Lease> lease = store.tryLease(matmul, large);
  unsigned asked = 0;
  Waited w = store.waitForResult(
      matmul, large, [](const Found &) { return false; }, in(60s), [&] { return ++asked == 3; });
  EXPECT_TRUE(w.stopped && !w.timedOut && !w.lease);
}

TEST(Lease, WhoeverWaitsForOneThatGivesUpMeasures) {
  TemporaryDirectory d;
  Store store(user(d));
  std::optional<Lease> lease = store.tryLease(matmul, large);
  std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    lease.reset();
  });
  Waited w = store.waitForResult(matmul, large, [](const Found &f) { return has(f, "c"); }, in(60s));
  EXPECT_TRUE(w.lease && !w.timedOut);
}

TEST(Lease, WhatAProcessDiedOfIsAFault) {
  TemporaryDirectory d;
  pid_t child = inChild([&] {
    Store store(user(d));
    std::optional<Lease> lease = store.tryLease(matmul, large);
    lease->mark("BLOCK: 32", "x: fp16[3]");
    lease->clear();
    lease->mark("BLOCK: 64", "x: fp16[4096]\ny");
    raise(SIGKILL);
    return 0;
  });
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  Store store(user(d));
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
  Waited w = store.waitForResult(matmul, large, [](const Found &f) { return has(f, "c"); }, in(60s));
  ASSERT_TRUE(w.lease);
  ASSERT_EQ(w.found.configs.size(), 1u);
  const Record &r = w.found.configs.at("BLOCK: 64");
  EXPECT_EQ(r.state, State::Faulted);
  EXPECT_EQ(r.kind, "died");
  EXPECT_EQ(r.reason, "the process ended while it ran for the first time, given x: fp16[4096]\ny");
  EXPECT_GT(r.date, 0);
  EXPECT_TRUE(store.takeWarnings().empty());
  // Only once.
  w.lease.reset();
  ASSERT_TRUE(store.forget(matmul, large));
  EXPECT_TRUE(store.tryLease(matmul, large));
  EXPECT_TRUE(store.find(matmul, large).configs.empty());
}

TEST(Lease, MarksThatAreNotWholeAreNoFaults) {
  TemporaryDirectory d;
  Store store(user(d));
  std::string name;
  {
    std::optional<Lease> lease = store.tryLease(matmul, large);
    for (auto &e : fs::directory_iterator(d.sub("user/tune")))
      if (e.path().extension() == ".lease") name = e.path().string();
  }
  for (std::string text :
       {"x", "tegula runs 1\n", "tegula runs 1\n3", "tegula runs 1\n3 ", "tegula runs 1\n3 4\nabc",
        "tegula runs 1\n-1 4\nabc", "tegula runs 1\n99999999999999999999 1\nabc", "tegula runs 1\n1 1\nabc"}) {
    std::ofstream(name) << text;
    EXPECT_TRUE(store.tryLease(matmul, large));
    EXPECT_TRUE(store.find(matmul, large).configs.empty()) << text;
  }
  std::ofstream(name) << "tegula runs 1\n1 2\nabc";
  EXPECT_TRUE(store.tryLease(matmul, large));
  EXPECT_EQ(store.find(matmul, large).configs.at("a").reason,
            "the process ended while it ran for the first time, given bc");
}

TEST(Lease, OneOfEightProcessesDiesAndTheOthersGoOn) {
  TemporaryDirectory d;
  // Configurations 0 to 9; number 3 kills whoever runs it.
  auto all = [](const Found &f) { return f.configs.size() == 10; };
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i)
    children.push_back(inChild([&] {
      Store store(user(d));
      Waited w = store.waitForResult(matmul, large, all, in(90s));
      if (w.timedOut) return 1;
      for (int c = 0; w.lease && c < 10; ++c) {
        std::string config = std::to_string(c);
        if (w.found.configs.contains(config)) continue;
        w.lease->mark(config, "x");
        std::ofstream(d.sub("runs"), std::ios::app) << config << std::flush;
        if (c == 3) raise(SIGKILL);
        w.lease->clear();
        if (!store.record(matmul, large, measured(config, 100 - c))) return 2;
      }
      w.lease.reset();
      Found f = store.find(matmul, large);
      return f.configs.size() == 10 && f.configs.at("3").state == State::Faulted && f.choice && f.choice->config == "9"
                 ? 0
                 : 3;
    }));
  int killed = 0;
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ++killed;
    else EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(killed, 1);
  std::ifstream runs(d.sub("runs"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(runs), {}), "0123456789");
}

TEST(Lease, EightProcessesMeasureOnce) {
  TemporaryDirectory d;
  std::string count = d.sub("measured");
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      Store store(user(d));
      Waited w = store.waitForResult(
          matmul, large, [](const Found &f) { return f.configs.contains("c"); },
          std::chrono::steady_clock::now() + 50s);
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
