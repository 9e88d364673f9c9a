// No text may crash, hang or exhaust the process: runaway programs, deep nesting, and damaged kernels end in a diagnostic.
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

/// Instantiates `k(x: *fp32, n: i32)` and gives the messages; "ok" if a module came out.
std::string run(const std::string &text, bool withPrelude = true) {
  ModuleLoader loader;
  DiagEngine diag;
  auto m = loader.loadText("k.py", (withPrelude ? prelude : "") + text, diag);
  if (!m)
    return renderAll(diag);
  std::string out;
  for (const auto &k : ModuleLoader::jitFunctions(*m)) {
    std::vector<ParamSpec> params;
    for (size_t i = 0; i < k->def->params.size(); ++i)
      params.push_back(k->isConstexprParam(i) ? ParamSpec::constant(Value::integer(16))
                       : i == 0               ? ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Fp32), 16)
                                              : ParamSpec::runtime(lang::dtype(lang::Scalar::Int32)));
    Instantiation r = instantiate(k, params, {}, diag);
    // A failure has said why.
    EXPECT_TRUE(r.module || diag.hasErrors()) << text;
  }
  checkModule(*m, diag);
  return diag.hasErrors() ? renderAll(diag) : "ok";
}

std::string kernel(const std::string &body) { return "@triton.jit\ndef k(x, n):\n" + body; }

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
      {kernel("    for i in tl.static_range(1000000000):\n        pass\n"), "instantiation stopped"},
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
    EXPECT_NE(run(c.text).find(c.message), std::string::npos) << c.text.substr(0, 200) << "\n" << run(c.text).substr(0, 2000);
}

TEST(Limits, DeepNesting) {
  for (int depth : {10, 90, 180}) {
    std::string body, indent = "    ";
    for (int i = 0; i < depth; ++i, indent += " ")
      body += indent + (i % 2 ? "for i in range(n):\n" : "if n > 0:\n");
    std::string r = run(kernel(body + indent + "tl.store(x, 1.0)\n"));
    if (depth < 180)
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
  std::string text = "@triton.jit\ndef f(x, n):\n" + body + indent + "n = n * 2\n    tl.store(x + n, 1.0)\n" + kernel("    f(x, 1)\n    f(x, n)\n");
  EXPECT_EQ(run(text), "ok");
}

/// The examples with pieces cut out, doubled or swapped: every outcome is a module or a message.
TEST(Limits, DamagedKernels) {
  std::mt19937 random(7);
  unsigned cases = 0;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(TEGULA_SOURCE_DIR) + "/test/instantiate")) {
    if (entry.path().extension() != ".py")
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
