// Kernels instantiated and run by the reference interpreter: the control flow that the evaluator builds means what the
// text says.
#include "ir/Interp.h"
#include "sema/Sema.h"
#include <cstring>
#include <gtest/gtest.h>

namespace tegula::sema {
namespace {

using lang::Value;

const char *prelude = "import triton\nimport triton.language as tl\n";

/// Runs `k(x, n)` (x: *i32, n: i32) for one n; gives the first `count` words of x, which begin as -1.
std::vector<int32_t> run(const std::string &text, int32_t n, size_t count = 4, bool constant = false) {
  ModuleLoader loader;
  DiagEngine diag;
  auto m = loader.loadText("k.py", prelude + text, diag);
  auto k = m ? ModuleLoader::kernel(*m, "k", diag) : nullptr;
  if (!k) {
    ADD_FAILURE() << renderAll(diag);
    return {};
  }
  std::vector<ParamSpec> params{ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Int32)),
                                constant ? ParamSpec::constant(Value::integer(n))
                                         : ParamSpec::runtime(lang::dtype(lang::Scalar::Int32))};
  Instantiation r = instantiate(k, params, {}, diag);
  if (!r.module) {
    ADD_FAILURE() << renderAll(diag);
    return {};
  }
  std::vector<int32_t> x(64, -1);
  ir::Interp in(*r.module);
  in.addBuffer(x.data(), x.size() * sizeof x[0]);
  std::vector<uint64_t> args{reinterpret_cast<uint64_t>(x.data())};
  if (!constant)
    args.push_back(static_cast<uint32_t>(n));
  ir::InterpResult result = in.run(args, {1, 1, 1});
  EXPECT_TRUE(result.ok) << result.fault << "\n" << ir::print(*r.module);
  x.resize(count);
  return x;
}

using Words = std::vector<int32_t>;

TEST(Run, LongChainsOfElif) {
  std::string text = "@triton.jit\ndef k(x, n):\n    if n == 0:\n        tl.store(x, 7)\n";
  for (int i = 1; i <= 500; ++i)
    text += "    elif n == " + std::to_string(i) + ":\n        tl.store(x, " + std::to_string(1000 + i) + ")\n";
  for (int n : {0, 1, 499, 500, 501})
    EXPECT_EQ(run(text, n, 1, true)[0], n == 0 ? 7 : n > 500 ? -1 : 1000 + n);
}

TEST(Run, EarlyReturns) {
  // Every way through: returns in one arm, in both, nested, under a flag, in unrolled loops.
  std::string text = "@triton.jit\n"
                     "def f(n):\n"
                     "    if n > 10:\n"
                     "        if n > 20:\n"
                     "            return 1\n"
                     "        n = n - 10\n"
                     "    elif n < 0:\n"
                     "        if n < -10:\n"
                     "            return 2\n"
                     "        elif n == -5:\n"
                     "            return n\n"
                     "        n = 0 - n\n"
                     "    for i in tl.static_range(3):\n"
                     "        if n == i:\n"
                     "            return 100 + i\n"
                     "        n += 1000\n"
                     "        if n == 1007:\n"
                     "            return 77\n"
                     "    if n == 3005:\n"
                     "        return 5\n"
                     "    else:\n"
                     "        n += 1\n"
                     "    return n\n"
                     "@triton.jit\n"
                     "def k(x, n):\n"
                     "    tl.store(x, f(n))\n"
                     "    if n == 3:\n"
                     "        return\n"
                     "    tl.store(x + 1, 9)\n";
  auto f = [](int32_t n) {
    if (n > 10) {
      if (n > 20)
        return 1;
      n -= 10;
    } else if (n < 0) {
      if (n < -10)
        return 2;
      if (n == -5)
        return n;
      n = -n;
    }
    for (int i = 0; i < 3; ++i) {
      if (n == i)
        return 100 + i;
      n += 1000;
      if (n == 1007)
        return 77;
    }
    return n == 3005 ? 5 : n + 1;
  };
  for (int32_t n = -15; n < 25; ++n)
    EXPECT_EQ(run(text, n, 2), (Words{f(n), n == 3 ? -1 : 9})) << n;
}

TEST(Run, Loops) {
  std::string text = "@triton.jit\n"
                     "def k(x, n):\n"
                     "    total = 0\n"
                     "    last = (n, 5)\n"
                     "    for i in range(n, 0, -2):\n"
                     "        total += i\n"
                     "        i = i * 100\n"
                     "        if i > 300:\n"
                     "            last = (i, last[0])\n"
                     "    j = 0\n"
                     "    while j * j < n:\n"
                     "        j += 1\n"
                     "    tl.store(x, total)\n"
                     "    tl.store(x + 1, j)\n"
                     "    tl.store(x + 2, last[0])\n"
                     "    tl.store(x + 3, last[1])\n";
  for (int32_t n : {-3, 0, 1, 2, 7, 10}) {
    int32_t total = 0, j = 0, a = n, b = 5;
    for (int32_t i = n; i > 0; i -= 2) {
      total += i;
      if (i * 100 > 300) {
        b = a;
        a = i * 100;
      }
    }
    while (j * j < n)
      ++j;
    EXPECT_EQ(run(text, n), (Words{total, j, a, b})) << n;
  }
}

TEST(Run, ConstantsAndValuesAgree) {
  // An argument that is known at compile time takes other ways through the evaluator and must give the same.
  std::string text = "@triton.jit\n"
                     "def g(a, b=3):\n"
                     "    if a > b:\n"
                     "        return a - b\n"
                     "    else:\n"
                     "        return a * b\n"
                     "@triton.jit\n"
                     "def k(x, n):\n"
                     "    for i in range(3):\n"
                     "        n = g(n + i)\n"
                     "    tl.store(x, n)\n"
                     "    tl.store(x + 1, n if n > 4 else -n)\n"
                     "    tl.store(x + 2, g(b=n, a=2))\n"
                     "    tl.store(x + 3, (n > 3 and n < 9) or n == 0)\n";
  for (int32_t n = 0; n < 9; ++n)
    EXPECT_EQ(run(text, n), run(text, n, 4, true)) << n;
}

TEST(Run, FunctionsThatAreReal) {
  std::string text = "@triton.jit(noinline=True)\n"
                     "def g(a, K: tl.constexpr):\n"
                     "    if a > K:\n"
                     "        return a - K, K\n"
                     "    return a, a\n"
                     "@triton.jit(noinline=True)\n"
                     "def h(a):\n"
                     "    p, q = g(a, 2)\n"
                     "    return p * 10 + q\n"
                     "@triton.jit\n"
                     "def k(x, n):\n"
                     "    tl.store(x, h(n))\n"
                     "    tl.store(x + 1, g(n, 5)[0])\n";
  for (int32_t n : {0, 3, 9})
    EXPECT_EQ(run(text, n, 2), (Words{n > 2 ? (n - 2) * 10 + 2 : n * 11, n > 5 ? n - 5 : n}));
}

TEST(Run, Library) {
  // The first words of Philox-4x32-10 for key 0, counter 0 (the published test vector).
  std::string philox = "@triton.jit\ndef k(x, n):\n    a, b, c, d = tl.randint4x(n, tl.arange(0, 1))\n"
                       "    tl.store(x + tl.arange(0, 1), a)\n    tl.store(x + 1 + tl.arange(0, 1), b)\n"
                       "    tl.store(x + 2 + tl.arange(0, 1), c)\n    tl.store(x + 3 + tl.arange(0, 1), d)\n";
  EXPECT_EQ(run(philox, 0),
            (Words{static_cast<int32_t>(0x6627e8d5), static_cast<int32_t>(0xe169c58d), static_cast<int32_t>(0xbc57ac4c),
                   static_cast<int32_t>(0x9b00dbd8)}));
  std::string sort =
      "@triton.jit\ndef k(x, n):\n    i = tl.arange(0, 16)\n    tl.store(x + i, tl.sort((i * 7 + n) % 16))\n"
      "    tl.store(x + 16 + i, tl.cumsum(i, 0))\n    tl.store(x + 32, tl.argmax((i * 7 + n) % 16, 0))\n";
  Words out = run(sort, 3, 33);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], i);
    EXPECT_EQ(out[16 + i], i * (i + 1) / 2);
  }
  EXPECT_EQ((out[32] * 7 + 3) % 16, 15);
}

} // namespace
} // namespace tegula::sema
