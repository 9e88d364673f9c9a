// Tests beside the stand-in for the CUDA driver (../runtime/FakeCuda.h). A process looks for its driver once, so that
// each of them runs in one of its own.
#pragma once
#include "../TestPaths.h"
#include "../runtime/FakeCuda.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

namespace tegula::test {

inline std::string standInPath() { return std::string(testBinaryDir) + "/lib/libfakecuda.so"; }

/// The stand-in's switches and record; once a device of it was found.
inline fakecuda::FakeCuda &standIn() {
  return *reinterpret_cast<fakecuda::FakeCuda *(*)()>(
      dlsym(dlopen(standInPath().c_str(), RTLD_NOW | RTLD_NOLOAD), "fakeCuda"))();
}

/// Expects that `find()` gives the text `wanted` in a process whose driver is the stand-in. The test's suite is named
/// ...DeathTest.
template <typename Find> void expectWithStandIn(const std::string &wanted, Find &&find) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto program = [&] {
    setenv("TEGULA_LIBCUDA", standInPath().c_str(), 1);
    unsetenv("TEGULA_DEVICE");
    const std::string found = find();
    std::fprintf(stderr, "found: %s\n", found.c_str());
    std::exit(found == wanted ? 0 : 1);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "") << "wanted: " << wanted;
}

} // namespace tegula::test
