// The standard library of the machine's Python parses to the trees that Python makes of it; deep, cut and damaged
// kernels never crash.
#include "support/Npy.h"
#include "syntax/Parser.h"
#include "TestPaths.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

using namespace tegula;
namespace fs = std::filesystem;

namespace {

std::string runCommand(const std::string &command, int &status) {
  std::string out;
  std::array<char, 65536> buffer;
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe) {
    status = -1;
    return out;
  }
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  status = pclose(pipe);
  return out;
}

std::vector<std::string> standardLibrary(const fs::path &root) {
  std::vector<std::string> files;
  std::error_code ec;
  for (auto &entry : fs::recursive_directory_iterator(root, ec))
    if (entry.path().extension() == ".py" && entry.path().string().find("lib2to3") == std::string::npos)
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// Errors, each with all its arguments and a place in the text.
void expectPlacesInside(const DiagEngine &diag, const std::string &text) {
  for (const Diagnostic &d : diag.all()) {
    EXPECT_EQ(d.kind->severity, Severity::Error) << text;
    EXPECT_EQ(d.message().find("{0}"), std::string::npos) << d.message();
    ASSERT_TRUE(d.loc) << d.message();
    EXPECT_LE(d.loc.begin, d.loc.end) << d.message() << "\n" << text;
    EXPECT_LE(d.loc.end, text.size()) << d.message() << "\n" << text;
    EXPECT_NE(render(d).find("^"), std::string::npos) << text;
  }
}

} // namespace

// Every file that Python itself can parse gives no error and the same tree.
TEST(Robustness, agreesWithPythonOnItsStandardLibrary) {
  fs::path root = "/usr/lib/python3.11";
  std::error_code ec;
  if (!fs::exists(root, ec)) GTEST_SKIP() << "Skipped: " << root << " is not there";
  std::vector<std::string> files = standardLibrary(root);
  std::string list = testing::TempDir() + "python-files.txt", names, error;
  for (auto &f : files) names += f + "\n";
  ASSERT_TRUE(writeFile(list, names, error)) << error;
  int status = 0;
  std::string python = runCommand(
      "python3 '" + std::string(testSourceDir) + "/unittests/syntax/python_tree.py' < '" + list + "'", status);
  if (status != 0) GTEST_SKIP() << "Skipped: python3 cannot run python_tree.py (it needs 3.10 or later)";
  unsigned same = 0, skipped = 0;
  size_t at = 0;
  for (auto &f : files) {
    std::string head = "=== " + f + "\n";
    ASSERT_EQ(python.compare(at, head.size(), head), 0) << f;
    at += head.size();
    size_t next = python.find("\n=== ", at - 1);
    std::string want = python.substr(at, next == std::string::npos ? next : next + 1 - at);
    at += want.size();
    bool malformed = want.starts_with("SKIP Python finds it malformed") || want.starts_with("SKIP encoding");
    std::string text;
    ASSERT_TRUE(readFile(f, text, error)) << error;
    DiagEngine diag;
    auto tree = syntax::parse(std::make_shared<SourceFile>(f, text), diag);
    if (!malformed) EXPECT_FALSE(diag.hasErrors()) << renderAll(diag);
    if (want.starts_with("SKIP")) {
      ++skipped;
      continue;
    }
    std::string got = syntax::print(*tree);
    if (got.empty()) got = "\n";
    if (got == want) {
      ++same;
      continue;
    }
    auto [a, b] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    size_t line = got.rfind('\n', a - got.begin()) + 1;
    ADD_FAILURE() << f << "\nours:   " << got.substr(line, 200)
                  << "\nPython: " << want.substr(std::min(line, want.size()), 200);
  }
  EXPECT_GT(same, 100u);
  EXPECT_LT(skipped, files.size() / 10);
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
      {"x = ", "(", "1", ")", 190, 100000},       {"x = ", "[", "1", "]", 190, 100000},
      {"x = ", "f(", "1", ")", 190, 100000},      {"x = a", "+a", "", "", 490, 100000},
      {"x = a", ".a", "", "", 490, 100000},       {"x = a", "()", "", "", 490, 100000},
      {"x = ", "-", "1", "", 190, 100000},        {"x = ", "not ", "1", "", 190, 100000},
      {"x = ", "lambda: ", "1", "", 190, 100000}, {"x = ", "a if b else ", "c", "", 190, 100000},
      {"x = 2", "**2", "", "", 190, 100000},      {"x = ", "lambda a=", "1", ": a", 90, 100000},
      {"x = ", "yield ", "a", "", 0, 100000},     {"x = ", "f'{", "1", "}'", 50, 100000},
      {"x = f'", "{x:", "", "}", 50, 100000},
  };
  for (const Row &r : rows)
    for (int n : {r.fits, r.tooMany}) {
      DiagEngine diag;
      std::string end = *r.before && std::string_view(r.before).ends_with("'") ? "'" : "";
      auto tree =
          syntax::parse(std::make_shared<SourceFile>("t.py", r.before + times(r.again, n) + (n ? r.middle : "1") +
                                                                 times(r.after, n) + end + "\n"),
                        diag);
      EXPECT_EQ(diag.hasErrors(), n == r.tooMany) << r.before << r.again << n << "\n"
                                                  << (diag.all().empty() ? "" : diag.all()[0].message());
      syntax::print(*tree);
    }
}

TEST(Robustness, damagedTextGivesErrorsOnly) {
  std::string kernel =
      "import triton.language as tl\n@triton.jit\ndef k(x, n, B: tl.constexpr):\n    o = tl.arange(0, B)[:, None]\n"
      "    for i in tl.range(0, n, num_stages=3):\n        x += f'{o!r:>3}' if n > 3 else (1, 2)[0]\n    return {'a': [i for i in x]}\n";
  std::mt19937 random(7);
  unsigned refused = 0, accepted = 0;
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
    ASSERT_TRUE(tree) << text;
    expectPlacesInside(diag, text);
    (diag.hasErrors() ? refused : accepted) += 1;
    // A text without errors is one that reads the same again.
    DiagEngine second;
    auto again = syntax::parse(std::make_shared<SourceFile>("k.py", text), second);
    EXPECT_EQ(syntax::print(*tree), syntax::print(*again)) << text;
    EXPECT_EQ(renderAll(diag), renderAll(second)) << text;
  }
  EXPECT_GT(refused, 10000u);
  EXPECT_GT(accepted, 1000u);
}

// Texts at which anything that grows with the square would not end in the time of a test run.
TEST(Robustness, largeTextsStayLinear) {
  auto times = [](const std::string &s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  std::string functions, parameters, slashes = "def f(a0";
  for (int i = 0; i < 100000; ++i) functions += "def f" + std::to_string(i) + "(x):\n    return x + 1\n";
  for (int i = 0; i < 100000; ++i) parameters += "p" + std::to_string(i) + ", ";
  for (int i = 1; i < 50000; ++i) slashes += ", a" + std::to_string(i);
  struct Row {
    const char *what;
    std::string text;
    bool fails;
  } rows[] = {
      {"functions", functions, false},
      {"parameters", "def f(" + parameters + "):\n    pass\n", false},
      {"slashes", slashes + times(", /", 50000) + "):\n    pass\n", true},
      {"tuple", "x = (" + times("1, ", 1000000) + ")\n", false},
      {"list of lists", "x = [" + times("[1], ", 300000) + "]\n", false},
      {"one line of statements", times("x = 1; ", 200000) + "\n", false},
      {"blanks before names in brackets", "x = (\n" + std::string(500000, ' ') + times("a, ", 300000) + ")\n", false},
      {"string", "x = '" + std::string(10000000, 'a') + "'\n", false},
      {"adjacent strings", "x = (" + times("'a' ", 300000) + ")\n", false},
      {"digits", "x = " + std::string(5000000, '7') + "\n", false},
      {"name", std::string(5000000, 'n') + " = 1\n", false},
      {"fields", "x = f'" + times("{a}", 200000) + "'\n", false},
      {"f-strings that are not closed", times("x = f\"{a\n", 200000), true},
      {"strings that are not closed", times("x = 'a\n", 200000), true},
      {"brackets that are not closed", times("x = (\n", 200000), true},
      {"arguments", "f(" + times("a=1, ", 300000) + ")\n", false},
      {"comparisons", "x = a" + times(" < a", 300000) + "\n", false},
      {"elif", "if a:\n    pass\n" + times("elif a:\n    pass\n", 400), false},
      {"match is a name", times("match(a)\n", 200000), false},
      {"comments", times("# match\n", 500000), false},
      {"continued lines", "x = 1" + times(" \\\n", 500000) + "\n", false},
  };
  for (const Row &r : rows) {
    DiagEngine diag;
    syntax::parse(std::make_shared<SourceFile>("t.py", r.text), diag);
    EXPECT_EQ(diag.hasErrors(), r.fails) << r.what << "\n"
                                         << (diag.all().empty() ? "" : diag.all()[0].message().substr(0, 300));
  }
}
