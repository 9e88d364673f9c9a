// The memory that this process can still allocate.
#pragma once
#include <cstdint>
#include <string>

namespace tegula::runtime {

/// Bytes that this process can allocate without swapping: what the system has left, limited by what each control group
/// (version 1 or 2) of the process has left. Page cache that can be dropped counts as free. `root` is a prefix of /proc
/// and /sys: empty except in tests.
uint64_t freeMemory(const std::string &root = "");

} // namespace tegula::runtime
