// MemAvailable of /proc/meminfo, and limit minus use of each control group from the process's own up to the mounted
// one. In a container the enclosing groups are not visible: the process's path in them may not exist, and the files of
// the mounted group are the container's.
#include "runtime/FreeMemory.h"
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace tegula::runtime {

namespace {

/// Calls f(line) for each line of a file until it returns true; lines are cut at 4095 characters.
template <typename F> void eachLine(const std::string &path, F &&f) {
  std::FILE *file = std::fopen(path.c_str(), "re");
  char line[4096];
  while (file && std::fgets(line, sizeof line, file)) {
    std::string_view text = line;
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (f(text)) break;
  }
  if (file) std::fclose(file);
}

/// The number after `key` at the beginning of a line. None: no such file, no such line, or no number there, as in
/// `max`.
std::optional<uint64_t> numberOf(const std::string &path, std::string_view key) {
  std::optional<uint64_t> found;
  eachLine(path, [&](std::string_view line) {
    unsigned long long n = 0;
    if (!line.starts_with(key)) return false;
    if (std::sscanf(line.data() + key.size(), " %llu", &n) == 1) found = n;
    return true;
  });
  return found;
}

struct Names {
  const char *limit, *used, *droppable;
};
constexpr Names version1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "},
    version2{"/memory.max", "/memory.current", "inactive_file "};

/// The memory that a group leaves its processes; without a limit, all memory.
uint64_t roomOf(const std::string &group, const Names &names) {
  std::optional<uint64_t> limit = numberOf(group + names.limit, ""), used = numberOf(group + names.used, "");
  if (!limit || !used) return UINT64_MAX;
  uint64_t kept = *used - std::min(*used, numberOf(group + "/memory.stat", names.droppable).value_or(0));
  return *limit - std::min(*limit, kept);
}

uint64_t roomUpwards(const std::string &mount, std::string path, const Names &names) {
  uint64_t room = roomOf(mount, names);
  for (; path.size() > 1; path.resize(path.rfind('/'))) room = std::min(room, roomOf(mount + path, names));
  return room;
}

} // namespace

uint64_t freeMemory(const std::string &root) {
  // Without /proc: unused memory, without page cache.
  std::optional<uint64_t> kib = numberOf(root + "/proc/meminfo", "MemAvailable:");
  uint64_t bytes = kib ? *kib * 1024 : uint64_t(sysconf(_SC_AVPHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  std::string mount = root + "/sys/fs/cgroup";
  // Lines are number:controllers:path; version 2 has number 0 and no controllers.
  eachLine(root + "/proc/self/cgroup", [&](std::string_view line) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) return false;
    std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",",
                path(line.substr(second + 1));
    if (!path.starts_with('/') || path.find("..") != path.npos) path.clear();
    if (controllers == ",,")
      for (const char *at : {"", "/unified"}) bytes = std::min(bytes, roomUpwards(mount + at, path, version2));
    else if (controllers.find(",memory,") != controllers.npos)
      bytes = std::min(bytes, roomUpwards(mount + "/memory", path, version1));
    return false;
  });
  return bytes;
}

} // namespace tegula::runtime
