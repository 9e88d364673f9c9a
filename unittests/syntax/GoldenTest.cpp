// Golden tests of the parser: for each test/syntax/NAME.py, NAME.out holds the messages, or the tree if there are none.
//
// A `fail-` name marks exactly the files with errors, and every kind of src/syntax/Diagnostics.def stands in some .out.
// TEGULA_UPDATE_GOLDENS=1 rewrites the outputs (scripts/update_goldens.py does that for all goldens).
#include "support/Npy.h"
#include "syntax/Diagnostics.h"
#include "syntax/Parser.h"
#include "TestPaths.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

using namespace tegula;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> cases() {
  std::vector<fs::path> out;
  for (auto &entry : fs::directory_iterator(std::string(testSourceDir) + "/test/syntax"))
    if (entry.path().extension() == ".py") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

const char *kinds[] = {
#define DIAG(kind, severity, format) #kind,
#include "syntax/Diagnostics.def"
#undef DIAG
};

} // namespace

TEST(Golden, syntax) {
  bool update = std::getenv("TEGULA_UPDATE_GOLDENS") != nullptr;
  std::string all;
  for (const fs::path &path : cases()) {
    std::string text, want, error;
    ASSERT_TRUE(readFile(path.string(), text, error)) << error;
    DiagEngine diag;
    auto tree = syntax::parse(std::make_shared<SourceFile>(path.filename().string(), text), diag);
    std::string got = diag.hasErrors() ? renderAll(diag) : syntax::print(*tree);
    all += diag.hasErrors() ? got : "";
    EXPECT_EQ(path.filename().string().starts_with("fail-"), diag.hasErrors()) << path << "\n" << renderAll(diag);
    std::string golden = fs::path(path).replace_extension(".out").string();
    if (update) {
      ASSERT_TRUE(writeFile(golden, got, error)) << error;
      continue;
    }
    ASSERT_TRUE(readFile(golden, want, error)) << error << "; scripts/update_goldens.py writes it";
    EXPECT_EQ(got, want) << path;
  }
  for (const char *kind : kinds)
    EXPECT_NE(all.find("[" + std::string(kind) + "]"), std::string::npos) << kind << " is in no golden of test/syntax";
}
