// A context without disk cache and a module from text, for tests of the interface from outside.
#pragma once
#include "tegula/tegula.hpp"
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tegula::test {

inline Context context(const char *cacheDir = "", int threads = 2) {
  TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
  o.cache_dir = cacheDir;
  o.num_threads = threads;
  o.debug = o.checked = 0;
  return Context::create(o).value();
}

inline constexpr const char *header = "import triton\nimport triton.language as tl\n\n";

/// Text after the usual imports; its first line is line 4.
inline Module module(const Context &c, const std::string &text) { return c.loadText("test.py", header + text).value(); }

inline constexpr const char *addText = R"(@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
)";

/// out[0] = an int that the kernel computes.
inline int32_t runInt(const Function &f, std::vector<Arg> args, const LaunchOptions &o = {}) {
  alignas(64) int32_t out[16] = {-12345};
  args.insert(args.begin(), Arg(std::span(out)));
  Status s = f(1, args, o);
  EXPECT_TRUE(s) << s.message();
  return out[0];
}

} // namespace tegula::test
