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

using namespace tegula;
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
  e.info.args = {{"x", TEGULA_FP32, true, false, true, 0}, {"n", TEGULA_INT32, false, false, false, 8}};
  e.info.argBytes = 12;
  e.info.scratchBytes = 4096;
  e.info.sites = {{SiteInfo::Kind::Print, "k.py", "k", "x", 3, 5, -1, true, {{TEGULA_FP16, false, {4, 8}}}},
                  {SiteInfo::Kind::Store, "k.py", "k", "", 4, 5, 0, false, {}}};
  TensorMapInfo map;
  map.dtype = TEGULA_FP32;
  map.base = {0, 1, -1, -1}, map.extents = {{1, 1, -1, -1}}, map.strides = {{-1, 1, -1, -1}}, map.box = {16};
  e.info.tensorMaps = {map};
  e.info.gpu.mostBlocks = 3;
  LaunchForms &f = e.info.forms;
  f.exprs = {{WorkExpr::Kind::Argument, -1, -1, -1, 1}};
  f.axes = {{LaunchForms::Axis::grid, {32}}, {0, {4, 16}}};
  f.forms = {1, 2, 3, 4, 5, 6}, f.unknown = 3, f.form = 1;
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
  EXPECT_EQ(e.info.gpu.mostBlocks, 3);
  EXPECT_EQ(e.info.gpu.clusterCtas, 1u);
  EXPECT_FALSE(decodeEntry(bytes, keyOf(4), e));
}

TEST(Cache, AnyDamageIsNoticed) {
  std::vector<char> bytes = encodeEntry(keyOf(3), sample());
  CacheEntry e;
  ASSERT_TRUE(decodeEntry(bytes, keyOf(3), e) && isSigned(bytes, {}));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<char> bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_FALSE(decodeEntry(bad, keyOf(3), e) && isSigned(bad, {})) << i;
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
  for (const auto &f : fs::directory_iterator(c.path()))
    if (f.path().extension() == ".kernel") fs::resize_file(f.path(), 50);
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

namespace {
/// A cache in `t`/c with entry 1, its file, and what it says when it refuses something.
struct Refusals {
  TemporaryDirectory t;
  std::string directory = t.sub("c"), entry, told;
  int times = 0;
  Refusals() {
    DiskCache c(directory, {});
    c.store(keyOf(1), sample());
    for (const auto &f : fs::directory_iterator(c.path()))
      if (f.path().extension() == ".kernel") entry = f.path().string();
  }
  std::string secret() const { return directory + "/kernels-1/.secret"; }
  bool find(DiskCache &c) {
    c.onRefusal = [this](const std::string &why) { told = why, ++times; };
    CacheEntry e;
    return c.find(keyOf(1), e);
  }
  bool find() {
    DiskCache c(directory, {});
    return find(c);
  }
  bool findReadOnly() {
    DiskCache c("", {directory});
    return find(c);
  }
  void overwrite(const std::vector<char> &bytes) {
    std::ofstream(entry, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
};
} // namespace

// Right in every field and hash, but made by somebody who does not have the secret.
TEST(Cache, APlantedEntryIsRefusedAndRebuilt) {
  Refusals r;
  ASSERT_TRUE(r.find());
  CacheEntry e = sample();
  e.object = {'e', 'v', 'i', 'l'};
  Secret guess{};
  guess.fill('x');
  std::vector<char> planted = encodeEntry(keyOf(1), e, guess);
  ASSERT_TRUE(decodeEntry(planted, keyOf(1), e));
  r.overwrite(planted);
  EXPECT_FALSE(r.find());
  EXPECT_NE(r.told.find("was not written by this user"), std::string::npos) << r.told;
  DiskCache(r.directory, {}).store(keyOf(1), sample());
  EXPECT_TRUE(r.find());
}

TEST(Cache, TheSignatureCoversTheContent) {
  Secret secret{};
  std::vector<char> bytes = encodeEntry(keyOf(1), sample(), secret);
  EXPECT_TRUE(isSigned(bytes, secret));
  CacheEntry other = sample();
  other.object[0] ^= 1;
  std::vector<char> changed = encodeEntry(keyOf(1), other, secret);
  // The header of one with the signature of the other.
  std::copy_n(bytes.begin() + 88, 32, changed.begin() + 88);
  EXPECT_FALSE(isSigned(changed, secret));
  EXPECT_FALSE(isSigned(std::span(bytes.data(), 100), secret));
}

TEST(Cache, AnEntryOthersMayWriteIsRefused) {
  Refusals r;
  for (mode_t mode : {0666, 0660, 0602}) {
    chmod(r.entry.c_str(), mode);
    EXPECT_FALSE(r.find()) << mode;
    EXPECT_NE(r.told.find("can be written by other users"), std::string::npos) << r.told;
    EXPECT_FALSE(r.findReadOnly()) << mode;
  }
  chmod(r.entry.c_str(), 0644);
  EXPECT_TRUE(r.find());
  EXPECT_TRUE(r.findReadOnly());
}

TEST(Cache, RefusalIsToldOnce) {
  Refusals r;
  chmod(r.entry.c_str(), 0666);
  DiskCache c(r.directory, {});
  EXPECT_FALSE(r.find(c));
  EXPECT_FALSE(r.find(c));
  EXPECT_EQ(r.times, 1);
  EXPECT_EQ(c.refused, 2u);
}

TEST(Cache, FilesOfAnotherOwnerAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Refusals r;
  ASSERT_EQ(chown(r.entry.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(r.find());
  EXPECT_NE(r.told.find("belongs to another user"), std::string::npos) << r.told;
  EXPECT_FALSE(r.findReadOnly());
  ASSERT_EQ(chown(r.entry.c_str(), 0, 0), 0);
  ASSERT_TRUE(r.findReadOnly());
  for (const std::string &d : {r.directory + "/kernels-1", r.directory}) {
    ASSERT_EQ(chown(d.c_str(), 12345, 12345), 0);
    EXPECT_FALSE(r.find()) << d;
    EXPECT_FALSE(r.findReadOnly()) << d;
    EXPECT_NE(r.told.find(d + " belongs to another user"), std::string::npos) << r.told;
    ASSERT_EQ(chown(d.c_str(), 0, 0), 0);
  }
}

TEST(Cache, DirectoriesOthersMayWriteAreRefused) {
  Refusals r;
  for (const std::string &d : {r.directory + "/kernels-1", r.directory})
    for (mode_t mode : {0777, 0770, 0702}) {
      chmod(d.c_str(), mode);
      EXPECT_FALSE(r.find()) << d;
      EXPECT_NE(r.told.find(d + " can be written by other users"), std::string::npos) << r.told;
      EXPECT_FALSE(r.findReadOnly()) << d;
      chmod(d.c_str(), 0700);
    }
  // As /tmp: others may put files there, but not exchange ours.
  chmod(r.directory.c_str(), 01777);
  EXPECT_TRUE(r.find());
  EXPECT_TRUE(r.findReadOnly());
}

TEST(Cache, LinksAreRefused) {
  Refusals r;
  std::string elsewhere = r.t.sub("elsewhere");
  fs::rename(r.entry, elsewhere);
  fs::create_symlink(elsewhere, r.entry);
  EXPECT_FALSE(r.find());
  EXPECT_FALSE(r.findReadOnly());
  EXPECT_NE(r.told.find("is a link"), std::string::npos) << r.told;
  fs::remove(r.entry);
  fs::rename(elsewhere, r.entry);
  ASSERT_TRUE(r.find());
  fs::rename(r.directory + "/kernels-1", elsewhere);
  fs::create_directory_symlink(elsewhere, r.directory + "/kernels-1");
  EXPECT_FALSE(r.find());
  EXPECT_FALSE(r.findReadOnly());
  EXPECT_NE(r.told.find("is a link"), std::string::npos) << r.told;
}

TEST(Cache, ASecretThatOthersMayKnowIsReplaced) {
  Refusals r;
  struct stat s;
  ASSERT_EQ(stat(r.secret().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  EXPECT_EQ(s.st_size, 32);
  auto read = [&] {
    std::ifstream in(r.secret(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string first = read();
  EXPECT_TRUE(r.find());
  EXPECT_EQ(read(), first);
  auto replaced = [&] {
    EXPECT_FALSE(r.find());
    std::string now = read();
    EXPECT_EQ(now.size(), 32u);
    EXPECT_NE(now, first);
    ASSERT_EQ(stat(r.secret().c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777, 0600u);
    first = now;
    DiskCache(r.directory, {}).store(keyOf(1), sample());
    EXPECT_TRUE(r.find());
  };
  chmod(r.secret().c_str(), 0640);
  replaced();
  fs::resize_file(r.secret(), 31);
  replaced();
  fs::remove(r.secret());
  replaced();
  fs::rename(r.secret(), r.t.sub("known"));
  fs::create_symlink(r.t.sub("known"), r.secret());
  replaced();
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
