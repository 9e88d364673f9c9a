// How much memory this process can still have.
#pragma once
#include <cstdint>
#include <string>

namespace tegula::runtime {

/// Bytes that this process can have without swapping: what the system has left, and no more than each control group
/// (version 1 or 2) that the process is in leaves it. Copies of files that can be dropped count as free. `root` stands
/// before /proc and /sys: empty but for tests.
uint64_t freeMemory(const std::string &root = "");

} // namespace tegula::runtime
