// Cache entries and directories: what is intact comes back, everything else is as if it were not there.
#include "runtime/DiskCache.h"
#include "runtime/Dtype.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace tegula::runtime;
namespace fs = std::filesystem;

namespace {
struct TemporaryDirectory {
  fs::path path;
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "tegula-cache-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::permissions(path, fs::perms::owner_all, ignored);
    fs::remove_all(path, ignored);
  }
  std::string sub(const char *name) const { return (path / name).string(); }
};
} // namespace

static Digest keyOf(uint8_t n) {
  Digest d{};
  d.fill(n);
  return d;
}

static CacheEntry sample() {
  CacheEntry e;
  e.info.name = "k", e.info.symbol = "k_entry";
  e.info.args = {{"x", TEGULA_FP32, true, true, 0}, {"n", TEGULA_INT32, false, false, 8}};
  e.info.argBytes = 12;
  e.info.scratchBytes = 4096;
  e.info.sites = {{SiteInfo::Kind::Print, "k.py", "k", "x", 3, 5, -1, true, {{TEGULA_FP16, false, {4, 8}}}},
                  {SiteInfo::Kind::Store, "k.py", "k", "", 4, 5, 0, false, {}}};
  TensorMapInfo map;
  map.dtype = TEGULA_FP32;
  map.base = {0, 1, -1, -1}, map.extents = {{1, 1, -1, -1}}, map.strides = {{-1, 1, -1, -1}}, map.box = {16};
  e.info.tensorMaps = {map};
  e.object = {'o', 'b', 'j', 0, 1};
  e.properties = {{"target", "cpu:avx2"}};
  return e;
}

static void expectSample(const CacheEntry &e) {
  CacheEntry s = sample();
  EXPECT_EQ(encodeEntry(keyOf(0), e), encodeEntry(keyOf(0), s));
}

TEST(Cache, EntryRoundTrip) {
  std::vector<char> bytes = encodeEntry(keyOf(3), sample());
  CacheEntry e;
  ASSERT_TRUE(decodeEntry(bytes, keyOf(3), e));
  expectSample(e);
  EXPECT_FALSE(decodeEntry(bytes, keyOf(4), e));
}

TEST(Cache, AnyDamageIsNoticed) {
  std::vector<char> bytes = encodeEntry(keyOf(3), sample());
  CacheEntry e;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<char> bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_FALSE(decodeEntry(bad, keyOf(3), e)) << i;
    EXPECT_FALSE(decodeEntry(std::span(bytes.data(), i), keyOf(3), e)) << i;
  }
  bytes.push_back(0);
  EXPECT_FALSE(decodeEntry(bytes, keyOf(3), e));
}

/// What the runtime relies on without looking again.
static void expectConsistent(const KernelInfo &k) {
  int64_t args = static_cast<int64_t>(k.args.size());
  for (const ArgInfo &a : k.args) {
    ASSERT_LE(a.dtype, TEGULA_FP64);
    EXPECT_LE(uint64_t(a.offset) + (a.isPtr ? 8 : dtypeInfo(a.dtype).bytes), k.argBytes);
  }
  for (const SiteInfo &s : k.sites) {
    EXPECT_LE(s.kind, SiteInfo::Kind::Other);
    EXPECT_GE(s.arg, -1);
    EXPECT_LT(s.arg, args);
    for (const PrintOperand &o : s.operands) {
      EXPECT_LE(o.dtype, TEGULA_FP64);
      for (int64_t n : o.shape) EXPECT_GE(n, 1);
    }
  }
  EXPECT_LE(k.gpu.threads, 1024u);
  EXPECT_GE(k.gpu.clusterCtas, 1u);
  auto known = [&](const TensorMapTerm &t) {
    return t.arg >= -1 && t.arg < args && t.arg2 >= -1 && t.arg2 < args && t.gridAxis >= -1 && t.gridAxis < 3;
  };
  for (const TensorMapInfo &m : k.tensorMaps) {
    EXPECT_GE(m.base.arg, 0);
    EXPECT_TRUE(known(m.base));
    for (size_t d = 0; d < m.box.size(); ++d) EXPECT_TRUE(known(m.extents[d]) && known(m.strides[d]));
  }
}

TEST(Cache, ContentIsCheckedBehindTheHashToo) {
  std::mt19937 random(5);
  unsigned refused = 0, read = 0;
  for (int i = 0; i < 4000; ++i) {
    ByteWriter w;
    write(w, sample().info);
    for (int k = random() % 3; k >= 0; --k) w.bytes[random() % w.bytes.size()] = static_cast<char>(random());
    ByteReader r(w.bytes.data(), w.bytes.size());
    KernelInfo info;
    if (!tegula::runtime::read(r, info)) {
      ++refused;
      continue;
    }
    ++read;
    expectConsistent(info);
    // Whatever is taken is taken as it stands.
    ByteWriter again;
    write(again, info);
    ASSERT_LE(again.bytes.size(), w.bytes.size());
    EXPECT_TRUE(std::equal(again.bytes.begin(), again.bytes.end(), w.bytes.begin())) << i;
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(read, 500u);
}

TEST(Cache, StoreAndFind) {
  TemporaryDirectory t;
  DiskCache c(t.sub("a/b/"), {});
  CacheEntry e;
  EXPECT_FALSE(c.find(keyOf(1), e));
  c.store(keyOf(1), sample());
  ASSERT_TRUE(c.find(keyOf(1), e));
  expectSample(e);
  EXPECT_EQ(c.usage().entries, 1u);
  EXPECT_EQ(c.hits, 1u);
  EXPECT_EQ(c.disabledReason(), "");
  struct stat s;
  ASSERT_EQ(stat(c.path().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);
  EXPECT_EQ(c.clear(), 1u);
  EXPECT_EQ(c.usage().entries, 0u);
}

TEST(Cache, CorruptedEntriesAreRebuilt) {
  TemporaryDirectory t;
  DiskCache c(t.sub("c"), {});
  c.store(keyOf(1), sample());
  for (const auto &f : fs::directory_iterator(c.path())) fs::resize_file(f.path(), 50);
  CacheEntry e;
  EXPECT_FALSE(c.find(keyOf(1), e));
  EXPECT_EQ(c.corrupted, 1u);
  c.store(keyOf(1), sample());
  EXPECT_TRUE(c.find(keyOf(1), e));
}

TEST(Cache, ReadOnlyLayersComeFirstAndAreNotWritten) {
  TemporaryDirectory t;
  DiskCache(t.sub("shared"), {}).store(keyOf(1), sample());
  DiskCache c(t.sub("local"), {t.sub("shared"), t.sub("missing")});
  CacheEntry e;
  EXPECT_TRUE(c.find(keyOf(1), e));
  c.store(keyOf(2), sample());
  EXPECT_EQ(c.usage().entries, 1u);
  EXPECT_EQ(DiskCache(t.sub("shared"), {}).usage().entries, 1u);
}

TEST(Cache, UnusableDirectoriesAreReportedNotFatal) {
  TemporaryDirectory t;
  std::ofstream(t.path / "file") << "x";
  CacheEntry e;
  DiskCache inFile(t.sub("file/sub"), {});
  inFile.store(keyOf(1), sample());
  EXPECT_FALSE(inFile.find(keyOf(1), e));
  EXPECT_NE(inFile.disabledReason(), "");

  DiskCache none("", {});
  none.store(keyOf(1), sample());
  EXPECT_FALSE(none.find(keyOf(1), e));
  EXPECT_NE(none.disabledReason(), "");

  std::string open = t.sub("open");
  fs::create_directories(open + "/kernels-1");
  chmod((open + "/kernels-1").c_str(), 0777);
  DiskCache writable(open, {});
  EXPECT_NE(writable.disabledReason().find("written by other users"), std::string::npos);

  if (geteuid() != 0) {
    fs::create_directories(t.path / "fixed");
    chmod(t.sub("fixed").c_str(), 0500);
    DiskCache fixed(t.sub("fixed"), {});
    fixed.store(keyOf(1), sample());
    EXPECT_NE(fixed.disabledReason(), "");
  } else {
    fs::create_directories(t.sub("foreign") + "/kernels-1");
    ASSERT_EQ(chown((t.sub("foreign") + "/kernels-1").c_str(), 12345, 12345), 0);
    EXPECT_NE(DiskCache(t.sub("foreign"), {}).disabledReason().find("another user"), std::string::npos);
  }
}

TEST(Cache, VanishedDirectoryIsAnErrorCountOnly) {
  TemporaryDirectory t;
  DiskCache c(t.sub("c"), {});
  EXPECT_EQ(c.disabledReason(), "");
  // The directory vanishes under the cache: writes fail from now on.
  fs::remove_all(c.path());
  c.store(keyOf(1), sample());
  EXPECT_EQ(c.writes, 0u);
  EXPECT_GE(c.errors, 1u);
}

TEST(Cache, TheOldestEntriesMakeRoom) {
  TemporaryDirectory t;
  size_t size = 0;
  {
    DiskCache probe(t.sub("c"), {});
    probe.store(keyOf(200), sample());
    size = probe.usage().bytes;
    probe.clear();
  }
  DiskCache cache(t.sub("c"), {}, 8 * size + size / 2);
  CacheEntry e;
  for (int i = 0; i < 8; ++i) cache.store(keyOf(i), sample());
  EXPECT_EQ(cache.usage().entries, 8u);
  EXPECT_EQ(cache.evicted, 0u);
  cache.store(keyOf(8), sample());
  EXPECT_EQ(cache.usage().entries, 6u);
  EXPECT_EQ(cache.evicted, 3u);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(cache.find(keyOf(i), e), i >= 3) << i;
}

TEST(Cache, ManyWritersOfOneEntry) {
  TemporaryDirectory t;
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        DiskCache c(t.sub("shared"), {});
        for (int k = 0; k < 20; ++k) {
          CacheEntry e;
          c.store(keyOf(k % 3), sample());
          wrong += !c.find(keyOf(k % 3), e);
        }
        wrong += c.corrupted != 0;
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(DiskCache(t.sub("shared"), {}).usage().entries, 3u);
}
