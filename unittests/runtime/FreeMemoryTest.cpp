// Free memory of systems and control groups that are folders here.
#include "runtime/FreeMemory.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace tegula::runtime;
namespace fs = std::filesystem;

namespace {

class FreeMemory : public testing::Test {
protected:
  fs::path root;
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tegula-memory-XXXXXX").string();
    root = mkdtemp(name.data());
    write("proc/meminfo", "MemTotal:       64000000 kB\nMemFree:          100 kB\nMemAvailable:    1000000 kB\n");
  }
  void TearDown() override { fs::remove_all(root); }
  void write(const std::string &path, const std::string &text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  void group2(const std::string &at, const std::string &limit, uint64_t used, uint64_t file = 0) const {
    write(at + "/memory.max", limit + "\n");
    write(at + "/memory.current", std::to_string(used) + "\n");
    write(at + "/memory.stat", "anon 7\nfile 9\ninactive_anon 3\ninactive_file " + std::to_string(file) + "\n");
  }
  uint64_t free() const { return freeMemory(root.string()); }
};
constexpr uint64_t system = 1000000 * 1024ull;

TEST_F(FreeMemory, OfTheSystem) {
  EXPECT_EQ(free(), system);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(free(), system);
  write("proc/self/cgroup", "nonsense\n3:\n\n");
  EXPECT_EQ(free(), system);
}

TEST_F(FreeMemory, OfGroupsOfVersion2) {
  write("proc/self/cgroup", "0::/user/job.scope\n");
  group2("sys/fs/cgroup/user/job.scope", "max", 5000);
  EXPECT_EQ(free(), system);
  group2("sys/fs/cgroup/user/job.scope", "100000", 60000, 10000);
  EXPECT_EQ(free(), 50000u) << "copies of files can be dropped";
  group2("sys/fs/cgroup/user", "90000", 80000);
  EXPECT_EQ(free(), 10000u) << "the group around it leaves less";
  group2("sys/fs/cgroup/user", "70000", 80000);
  EXPECT_EQ(free(), 0u);
  group2("sys/fs/cgroup/user", "9000000000000", 80000);
  group2("sys/fs/cgroup/user/job.scope", "9000000000000", 60000);
  EXPECT_EQ(free(), system) << "no more than the system has";
}

TEST_F(FreeMemory, OfAContainer) {
  group2("sys/fs/cgroup", "100000", 60000);
  for (const char *path : {"/", "/docker/4711", "/../other"}) {
    write("proc/self/cgroup", std::string("0::") + path + "\n");
    EXPECT_EQ(free(), 40000u) << path;
  }
}

TEST_F(FreeMemory, OfGroupsOfVersion1) {
  write("proc/self/cgroup", "9:name=systemd:/job\n4:cpuacct,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
  EXPECT_EQ(free(), system);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "100000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "70000\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n");
  EXPECT_EQ(free(), 50000u);
}

TEST(FreeMemoryHere, IsThere) { EXPECT_GT(freeMemory(), uint64_t(1) << 20); }

} // namespace
