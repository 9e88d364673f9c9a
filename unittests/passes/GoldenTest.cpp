// The cases of test/passes/*.ir: each says which passes to run, the input, and the output (see test/passes/update.py).
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/Pipeline.h"
#include "TestPaths.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace tegula;

namespace {

std::string runCase(const std::string &passes, const std::string &input) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("case", input);
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  if (!m)
    return renderAll(diag);
  std::istringstream names(passes);
  for (std::string n; std::getline(names, n, ',');) {
    const PassEntry *p = findPass(n);
    if (!p)
      return "no pass " + n;
    p->run(*m);
    std::string why;
    if (!ir::verify(*m, &why))
      return "after " + n + ": " + why + "\n" + ir::print(*m);
  }
  return ir::print(*m);
}

struct Case {
  std::string title, passes, input, expected;
  int line = 0;
};

/// Cases are separated by lines `# === title`, the output is behind `# OUT`, each line with `# ` before it.
std::vector<Case> readCases(const std::filesystem::path &path) {
  std::vector<Case> cases;
  std::ifstream in(path);
  bool inOutput = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.rfind("# === ", 0) == 0) {
      cases.push_back({line.substr(6), "", "", "", number});
      inOutput = false;
    } else if (cases.empty()) {
      continue;
    } else if (line.rfind("# RUN: ", 0) == 0) {
      cases.back().passes = line.substr(7);
    } else if (line == "# OUT") {
      inOutput = true;
    } else if (!inOutput) {
      cases.back().input += line + "\n";
    } else if (line.rfind("# ", 0) == 0) {
      cases.back().expected += line.substr(2) + "\n";
    }
  }
  return cases;
}

TEST(Golden, Passes) {
  unsigned count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(TEGULA_SOURCE_DIR "/test/passes")) {
    if (entry.path().extension() != ".ir")
      continue;
    for (const Case &c : readCases(entry.path())) {
      ++count;
      EXPECT_EQ(runCase(c.passes, c.input), c.expected)
          << entry.path().filename().string() << ":" << c.line << ": " << c.title << "\n(test/passes/update.py rewrites outputs)";
    }
  }
  EXPECT_GE(count, 30u);
}

} // namespace
