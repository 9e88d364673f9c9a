// The standard library of the machine's Python parses without errors; cut and damaged kernels never crash.
#include "support/Npy.h"
#include "syntax/Parser.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

using namespace tegula;
namespace fs = std::filesystem;

TEST(Robustness, parsesPythonsStandardLibrary) {
  fs::path root = "/usr/lib/python3.11";
  std::error_code ec;
  if (!fs::exists(root, ec)) GTEST_SKIP() << "Skipped: " << root << " is not there";
  unsigned files = 0;
  for (auto &entry : fs::recursive_directory_iterator(root, ec)) {
    std::string path = entry.path().string();
    if (entry.path().extension() != ".py" || path.find("lib2to3") != std::string::npos) continue;
    std::string text, error;
    ASSERT_TRUE(readFile(path, text, error)) << error;
    DiagEngine diag;
    if (text.find("coding: latin") != std::string::npos || text.find("coding: iso") != std::string::npos) continue;
    syntax::parse(std::make_shared<SourceFile>(path, text), diag);
    EXPECT_FALSE(diag.hasErrors()) << renderAll(diag);
    ++files;
  }
  EXPECT_GT(files, 100u);
}

TEST(Robustness, manyLevelsAndLongChains) {
  auto times = [](const char *s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  struct Row {
    const char *before, *again, *middle, *after;
    int fits, tooMany;
  } rows[] = {
      {"x = ", "(", "1", ")", 190, 100000},      {"x = ", "[", "1", "]", 190, 100000},     {"x = ", "f(", "1", ")", 190, 100000},
      {"x = a", "+a", "", "", 490, 100000},      {"x = a", ".a", "", "", 490, 100000},     {"x = a", "()", "", "", 490, 100000},
      {"x = ", "-", "1", "", 190, 100000},       {"x = ", "not ", "1", "", 190, 100000},   {"x = ", "lambda: ", "1", "", 190, 100000},
      {"x = ", "a if b else ", "c", "", 190, 100000}, {"x = 2", "**2", "", "", 190, 100000}, {"x = ", "lambda a=", "1", ": a", 90, 100000},
      {"x = ", "yield ", "a", "", 0, 100000},    {"x = ", "f'{", "1", "}'", 50, 100000},   {"x = f'", "{x:", "", "}", 50, 100000},
  };
  for (const Row &r : rows)
    for (int n : {r.fits, r.tooMany}) {
      DiagEngine diag;
      std::string end = *r.before && std::string_view(r.before).ends_with("'") ? "'" : "";
      auto tree = syntax::parse(std::make_shared<SourceFile>("t.py", r.before + times(r.again, n) + (n ? r.middle : "1") + times(r.after, n) + end + "\n"), diag);
      EXPECT_EQ(diag.hasErrors(), n == r.tooMany) << r.before << r.again << n << "\n" << (diag.all().empty() ? "" : diag.all()[0].message());
      syntax::print(*tree);
    }
}

TEST(Robustness, damagedTextGivesErrorsOnly) {
  std::string kernel = "import triton.language as tl\n@triton.jit\ndef k(x, n, B: tl.constexpr):\n    o = tl.arange(0, B)[:, None]\n"
                       "    for i in tl.range(0, n, num_stages=3):\n        x += f'{o!r:>3}' if n > 3 else (1, 2)[0]\n    return {'a': [i for i in x]}\n";
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = kernel;
    for (int edits = 1 + round % 4; edits; --edits) {
      size_t at = random() % text.size();
      switch (random() % 4) {
      case 0: text.erase(at, 1 + random() % 5); break;
      case 1: text.insert(at, 1, "(){}[]'\"\\\n\t :,=f"[random() % 17]); break;
      case 2: text[at] = static_cast<char>(random()); break;
      default: text = text.substr(0, at + 1);
      }
      if (text.empty()) text = "x";
    }
    DiagEngine diag;
    auto tree = syntax::parse(std::make_shared<SourceFile>("k.py", text), diag);
    syntax::print(*tree);
    renderAll(diag);
  }
}
