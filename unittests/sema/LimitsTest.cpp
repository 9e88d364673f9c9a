// No text may crash, hang or exhaust the process: runaway programs, deep nesting, and damaged kernels end in a
// diagnostic.
#include "sema/Sema.h"
#include "TestPaths.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

namespace tegula::sema {
namespace {

using lang::Value;

const char *prelude = "import triton\nimport triton.language as tl\n";

/// Instantiates every function as `k(x: *fp32, n: i32)`, or `k` alone, and gives the messages; "ok" if modules came
/// out.
std::string run(const std::string &text, bool withPrelude = true, bool all = true) {
  ModuleLoader loader;
  DiagEngine diag;
  auto m = loader.loadText("k.py", (withPrelude ? prelude : "") + text, diag);
  if (!m)
    return renderAll(diag);
  std::string out;
  for (const auto &k : ModuleLoader::jitFunctions(*m)) {
    if (!all && k->name != "k")
      continue;
    std::vector<ParamSpec> params;
    for (size_t i = 0; i < k->def->params.size(); ++i)
      params.push_back(k->isConstexprParam(i) ? ParamSpec::constant(Value::integer(16))
                       : i == 0               ? ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Fp32), 16)
                                              : ParamSpec::runtime(lang::dtype(lang::Scalar::Int32)));
    Instantiation r = instantiate(k, params, {}, diag);
    // A failure has said why.
    EXPECT_TRUE(r.module || diag.hasErrors()) << text;
  }
  checkModule(*m, false, diag);
  return diag.hasErrors() ? renderAll(diag) : "ok";
}

std::string runKernel(const std::string &text) { return run(text, true, false); }

std::string kernel(const std::string &body) { return "@triton.jit\ndef k(x, n):\n" + body; }

/// A function that runs at compile time, and a kernel that calls it.
std::string python(const std::string &body) {
  return "@triton.constexpr_function\ndef f():\n" + body + kernel("    tl.static_assert(f())\n");
}

std::string repeat(const std::string &s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i)
    out += s;
  return out;
}

TEST(Limits, RunawayPrograms) {
  struct Case {
    std::string text;
    const char *message;
  } cases[] = {
      {kernel("    for i in tl.static_range(1000000000):\n        pass\n"), "a compile-time loop of 1000000000 iterations"},
      {kernel("    for i in tl.static_range(0, -(2 ** 125), -1):\n        pass\n"), "iterations: a kernel has 5000000 steps"},
      {kernel("    for i in tl.static_range(-(2 ** 126), 2 ** 126, 2 ** 125):\n        tl.static_assert(i < 2 ** 126)\n"), "ok"},
      {kernel("    for i in tl.static_range(131072):\n        tl.store(x + i, 1.0)\n"), "instantiation stopped after 131072 operations"},
      {kernel("    for i in tl.static_range(50000):\n        if n > i:\n            tl.store(x + n * i, 1.0)\n"), "instantiation stopped after 131072 operations"},
      {kernel("    tl.store(x, 10 ** 10 ** 6)\n"), "too large"},
      {kernel("    tl.store(x, 1 << 10 ** 9)\n"), "too large"},
      {kernel("    tl.store(x, " + std::string(1000000, '9') + ")\n"), "127 bits"},
      {kernel("    a: tl.constexpr = \"a\" * 10 ** 9\n"), "elements"},
      {kernel("    a: tl.constexpr = (0,) * 10 ** 9\n"), "elements"},
      {kernel("    t = (1.0,)\n    for i in tl.static_range(60):\n        t = (t, t)\n"), "this compile-time value is too large"},
      {kernel("    t = (1.0,)\n    for i in tl.static_range(1000):\n        t = (t,)\n"), "nested too deeply; the limit is 200 levels"},
      {kernel("    s: tl.constexpr = \"a\" * 1000000\n    for i in tl.static_range(1000):\n        tl.static_print(s)\n"), "static_print wrote more than"},
      {python("    while True:\n        pass\n"), "instantiation stopped"},
      {python("    return sum(range(10 ** 9))\n"), "a compile-time loop of 1000000000 iterations"},
      {python("    return sum([i for i in range(10 ** 9)])\n"), "a compile-time loop of 1000000000 iterations"},
      {python("    s = \"ab\"\n    for i in range(100):\n        s = s + s\n    return s\n"), "elements"},
      {python("    s = \"ab\"\n    for i in range(100):\n        s = f\"{s}{s}\"\n    return s\n"), "this compile-time value is too large"},
      {python("    s = \"\"\n    for i in range(10 ** 6):\n        s = s + \"abc\"\n    return s\n"), "instantiation stopped"},
      {python("    xs = []\n    for i in range(10 ** 6):\n        xs = xs + [i]\n    return xs\n"), "instantiation stopped"},
      {python("    xs = [1]\n    for i in range(100):\n        xs.append(xs)\n    return xs\n"), "this compile-time value is too large"},
      {python("    xs = [1]\n    for i in range(100):\n        xs.extend(xs)\n    return xs\n"), "this compile-time value is too large"},
      {python("    xs = [0] * 10 ** 6\n    while xs == [0] * 10 ** 6:\n        pass\n"), "instantiation stopped"},
      {python("    xs = [0] * 10 ** 6\n    while str(xs):\n        pass\n"), "instantiation stopped"},
      {python("    xs = []\n    for i in range(200000):\n        xs.append(i)\n    return len(xs) == 200000 and xs[-1]\n"), "ok"},
      {kernel("    tl.store(x, 2 ** 1000)\n"), "too large"},
      {kernel("    a: tl.constexpr = [1] * 1000000000\n"), "elements"},
      {kernel("    k(x, n)\n"), "nested too deeply"},
      {kernel("    for i in tl.static_range(3000):\n        if n == i:\n            return\n"), "nested too deeply"},
      {"@triton.jit\ndef f(v, K: tl.constexpr):\n    return f(v, K + 1) + f(v, K + 2)\n" + kernel("    f(n, 0)\n"), "nested too deeply"},
      {kernel("    tl.store(x, " + repeat("(", 40) + "n" + repeat(" + 1)", 40) + ")\n"), "ok"},
      {kernel("    tl.store(x, n" + repeat(" + 1", 20000) + ")\n"), "[longChain]"},
      {kernel("    tl.store(x, " + repeat("-", 5000) + "n)\n"), "[tooDeep]"},
  };
  for (const Case &c : cases)
    EXPECT_NE(run(c.text).find(c.message), std::string::npos) << c.text.substr(0, 200) << "\n"
                                                              << run(c.text).substr(0, 2000);
}

/// A chain of functions, each of which calls the next one twice.
std::string doublingCalls(int n) {
  std::string text = "@triton.jit\ndef f0(v):\n    return v\n";
  for (int i = 1; i <= n; ++i) {
    std::string callee = "f" + std::to_string(i - 1);
    text += "@triton.jit\ndef f" + std::to_string(i) + "(v):\n    return " + callee + "(v) + " + callee + "(v + 1)\n";
  }
  return text + kernel("    tl.store(x + f" + std::to_string(n) + "(n), 1.0)\n");
}

TEST(Limits, CallsThatMultiply) {
  EXPECT_EQ(runKernel(doublingCalls(6)), "ok");
  EXPECT_NE(runKernel(doublingCalls(60)).find("instantiation stopped after"), std::string::npos);
}

/// The hash of what a kernel reaches visits each function once, however many ways lead to it, and in no recursion.
TEST(Limits, ContentHashOfManyPaths) {
  auto hash = [](const std::string &text, const char *name = "k") {
    ModuleLoader loader;
    DiagEngine diag;
    auto m = loader.loadText("k.py", prelude + text, diag);
    EXPECT_TRUE(m) << renderAll(diag);
    return m ? ModuleLoader::kernel(*m, name, diag)->contentHash() : std::string();
  };
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "@triton.jit\ndef g" + std::to_string(i) + "(v):\n    return g" + std::to_string(i + 1) + "(v) + g" +
            std::to_string(i + 2) + "(v)\n";
  const std::string last = "@triton.jit\ndef g60(v):\n    return v\n@triton.jit\ndef g61(v):\n    return v\n";
  const std::string k = kernel("    tl.store(x, g0(n))\n");
  EXPECT_EQ(hash(text + last + k), hash(text + last + k));
  // A change at the far end of every path changes the hash; so does which of two equal functions is called.
  EXPECT_NE(hash(text + last + k),
            hash(text + "@triton.jit\ndef g60(v):\n    return v\n@triton.jit\ndef g61(v):\n    return 2\n" + k));
  // Functions that call each other.
  const std::string cycle = "@triton.jit\ndef a(v):\n    return b(v)\n@triton.jit\ndef b(v):\n    return a(v)\n";
  EXPECT_NE(hash(cycle, "a"), hash(cycle, "b"));
  std::string chain;
  for (int i = 0; i < 20000; ++i)
    chain += "@triton.jit\ndef c" + std::to_string(i) + "(v):\n    return c" + std::to_string(i + 1) + "(v)\n";
  EXPECT_FALSE(hash(chain + "@triton.jit\ndef c20000(v):\n    return v\n", "c0").empty());
}

/// Sizes at which anything that grows with the square would not end in the time of a test run.
TEST(Limits, LargeInputsStayLinear) {
  std::string functions, names, branches, parameters, arguments;
  for (int i = 0; i < 100000; ++i)
    functions += "def h" + std::to_string(i) + "():\n    pass\n";
  EXPECT_EQ(runKernel(functions + kernel("    tl.store(x, 1.0)\n")), "ok");
  for (int i = 0; i < 30000; ++i)
    names += "    v" + std::to_string(i) + " = n + " + std::to_string(i) + "\n";
  for (int i = 0; i < 5000; ++i)
    branches += "    if n == " + std::to_string(i) + ":\n        v" + std::to_string(i) + " = n\n";
  for (int i = 0; i < 200; ++i)
    branches += "    for i in range(n):\n        v" + std::to_string(i) + " += i\n";
  EXPECT_EQ(runKernel(kernel(names + branches + "    tl.store(x, v29999)\n")), "ok");
  for (int i = 0; i < 30000; ++i) {
    parameters += "p" + std::to_string(i) + ", ";
    arguments += "p" + std::to_string(29999 - i) + "=n, ";
  }
  EXPECT_EQ(runKernel("@triton.jit\ndef wide(" + parameters + "):\n    return p7\n" +
                      kernel("    tl.store(x, wide(" + arguments + "))\n")),
            "ok");
  std::string tuple(2 * 500000, ',');
  for (size_t i = 0; i < tuple.size(); i += 2)
    tuple[i] = '1';
  EXPECT_EQ(
      runKernel(kernel(
          "    t: tl.constexpr = (" + tuple +
          ")\n    for i in tl.static_range(2000):\n        tl.store(x + i, t[i])\n        if n > i:\n            n += 1\n")),
      "ok");
}

TEST(Limits, DeepNesting) {
  for (int depth : {10, 90, 180, 230}) {
    std::string body, indent = "    ";
    for (int i = 0; i < depth; ++i, indent += " ")
      body += indent + (i % 2 ? "for i in range(n):\n" : "if n > 0:\n");
    std::string r = run(kernel(body + indent + "tl.store(x, 1.0)\n"));
    if (depth < 200)
      EXPECT_EQ(r, "ok") << depth;
    else
      EXPECT_NE(r.find("nested too deeply; at most 200 levels [tooDeep]"), std::string::npos) << r;
  }
}

/// Loops within loops that all change one number: attempts must not multiply.
TEST(Limits, NestedLoopsStayLinear) {
  std::string body, indent = "    ";
  for (int i = 0; i < 14; ++i, indent += " ")
    body += indent + "for i" + std::to_string(i) + " in range(4):\n";
  std::string text = "@triton.jit\ndef f(x, n):\n" + body + indent + "n = n * 2\n    tl.store(x + n, 1.0)\n" +
                     kernel("    f(x, 1)\n    f(x, n)\n");
  EXPECT_EQ(run(text), "ok");
}

/// The examples with pieces cut out, doubled or swapped: every outcome is a module or a message.
TEST(Limits, DamagedKernels) {
  std::mt19937 random(7);
  unsigned cases = 0;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(testSourceDir) + "/test/instantiate")) {
    // The kernels of fail-limits use up their budgets, whatever is cut out of them; the golden does that once.
    if (entry.path().extension() != ".py" || entry.path().stem() == "fail-limits")
      continue;
    std::ifstream in(entry.path());
    std::stringstream s;
    s << in.rdbuf();
    const std::string text = s.str();
    for (int i = 0; i < 60; ++i, ++cases) {
      std::string t = text;
      // Kernels that run away on purpose have their own test.
      for (const char *slow : {"while True", "return twice", "return runaway"})
        for (size_t at; (at = t.find(slow)) != t.npos;)
          t.replace(at, std::string(slow).size(), "if True");
      for (int edits = 1 + static_cast<int>(random() % 4); edits--;) {
        size_t a = random() % t.size(), n = 1 + random() % 12, b = random() % t.size();
        if (random() % 3 == 0)
          t.erase(a, n);
        else if (random() % 2)
          t.insert(a, t.substr(b, n));
        else
          t.replace(a, n, t.substr(b, n));
      }
      run(t, false);
    }
  }
  EXPECT_GT(cases, 400u);
}

} // namespace
} // namespace tegula::sema
