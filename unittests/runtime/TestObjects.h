// The objects made from Kernels.c.
#pragma once
#include "runtime/Kernel.h"
#include "TestPaths.h"
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace tegula::runtime {

/// "plain", "debug", "arm"
inline std::vector<char> testObject(const std::string &variant) {
  std::ifstream in(std::string(testBinaryDir) + "/unittests/runtime/kernels-" + variant + ".o", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::unique_ptr<CpuKernel> testKernel(const std::string &symbol, KernelInfo info = {},
                                             const std::string &variant = "plain") {
  info.name = info.symbol = symbol;
  Status status;
  auto k = CpuKernel::load(std::move(info), testObject(variant), status);
  EXPECT_TRUE(k) << status.text;
  return k;
}

} // namespace tegula::runtime
