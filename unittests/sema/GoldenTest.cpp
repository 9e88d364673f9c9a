// Golden tests of the partial evaluator: test/instantiate/*.py.
//
// The head of a file says how to instantiate its kernels, a line each:
//   # instantiate: add(x: *fp16:16, n: i32, t=(1, None), BLOCK=128)
//   # tree: add(...)         the annotated tree instead of the IR
//   # check:                 what `tegula check` reports
// `name: dtype[:divisibility]` is a run-time argument, `name: (dtype, ...)` a tuple, `name=value` a compile-time value
// (an expression that the file itself could hold). Parameters that are not named get their defaults.
// What comes out stands beside the file, in <name>.out. A `fail-` name marks exactly the files with errors.
// TEGULA_UPDATE_GOLDENS=1 rewrites the outputs.
#include "ir/Verifier.h"
#include "sema/Evaluator.h"
#include "syntax/Parser.h"
#include "TestPaths.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace tegula::sema {
namespace {

namespace fs = std::filesystem;

/// TEGULA_GOLDENS: another folder of cases, for trying things out.
std::string folder() {
  const char *other = std::getenv("TEGULA_GOLDENS");
  return other ? other : std::string(testSourceDir) + "/test/instantiate";
}

std::string readAll(const fs::path &p) {
  std::ifstream in(p, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

/// Splits at commas that are not inside brackets or quotes.
std::vector<std::string> splitItems(std::string_view text) {
  std::vector<std::string> out;
  std::string current;
  int depth = 0;
  char quote = 0;
  for (char c : text) {
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    depth += !quote && (c == '(' || c == '[');
    depth -= !quote && (c == ')' || c == ']');
    if (c == ',' && depth == 0 && !quote) {
      out.push_back(std::exchange(current, {}));
      continue;
    }
    if (!current.empty() || c != ' ')
      current += c;
  }
  if (!current.empty())
    out.push_back(current);
  return out;
}

class Golden {
public:
  explicit Golden(std::string path) : path_(std::move(path)), name_(fs::path(path_).filename().string()) {}

  std::string run(bool &errors) {
    DiagEngine diag;
    std::string text = readAll(path_);
    std::shared_ptr<const lang::Module> m = loader_.loadText(name_, text, diag);
    std::string out;
    if (m) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line) && line.starts_with("#");)
        out += directive(line, *m, diag);
    }
    errors = diag.hasErrors();
    return out + renderAll(diag);
  }

private:
  std::string directive(const std::string &line, const lang::Module &m, DiagEngine &diag) {
    if (line.starts_with("# check:")) {
      checkModule(m, line.ends_with(" strict"), diag);
      return "";
    }
    bool tree = line.starts_with("# tree:"), strict = line.starts_with("# strict:");
    if (!tree && !strict && !line.starts_with("# instantiate:"))
      return "";
    std::string call = line.substr(line.find(':') + 2);
    std::shared_ptr<const lang::Function> k = ModuleLoader::kernel(m, call.substr(0, call.find('(')), diag);
    if (!k)
      return "";
    std::string args = call.substr(call.find('(') + 1);
    args.resize(args.rfind(')'));
    std::vector<ParamSpec> specs;
    for (size_t i = 0; i < k->def->params.size(); ++i)
      specs.push_back(ParamSpec::constant(k->defaults[i]));
    for (const std::string &item : splitItems(args))
      bind(item, *k, specs);
    Options options;
    options.annotate = tree;
    options.target.strict = strict;
    Instantiation r = instantiate(k, specs, options, diag);
    std::string out = r.staticOutput;
    if (tree)
      return out + r.tree;
    if (!r.module)
      return out;
    std::string why;
    EXPECT_TRUE(ir::verify(*r.module, &why)) << why;
    return out + ir::print(*r.module);
  }

  void bind(const std::string &item, const lang::Function &k, std::vector<ParamSpec> &specs) {
    size_t at = item.find_first_of(":=");
    std::string name = item.substr(0, at), rest = item.substr(at + 1);
    for (size_t i = 0; i < specs.size(); ++i)
      if (k.def->params[i].name == name)
        specs[i] = item[at] == '=' ? constant(rest, k) : runtime(rest);
  }

  static ParamSpec runtime(std::string text) {
    text.erase(0, text.find_first_not_of(' '));
    if (text.starts_with("(")) {
      ParamSpec p;
      p.kind = ParamSpec::Kind::Tuple;
      for (const std::string &i : splitItems(text.substr(1, text.size() - 2)))
        p.items.push_back(runtime(i));
      return p;
    }
    size_t colon = text.find(':');
    std::optional<lang::Dtype> d = lang::parseDtype(text.substr(0, colon));
    EXPECT_TRUE(d) << text;
    return ParamSpec::runtime(d.value_or(lang::Dtype{}), colon == text.npos ? 1 : std::atoll(text.c_str() + colon + 1));
  }

  ParamSpec constant(const std::string &text, const lang::Function &k) {
    auto file = std::make_shared<SourceFile>("value", text);
    DiagEngine diag;
    trees_.push_back(syntax::parseExpression(file, diag));
    EXPECT_TRUE(trees_.back()) << text;
    ir::Module scratch;
    ir::Builder b(scratch);
    Options options;
    Evaluator e(b, diag, options);
    return ParamSpec::constant(e.evaluateHost(*trees_.back()->body[0]->value, *k.scope));
  }

  std::string path_, name_;
  ModuleLoader loader_;
  std::vector<std::shared_ptr<const syntax::Tree>> trees_;
};

std::string firstDifference(const std::string &golden, const std::string &got) {
  std::istringstream a(golden), b(got);
  std::string x, y;
  for (int line = 1;; ++line) {
    bool hasX = static_cast<bool>(std::getline(a, x)), hasY = static_cast<bool>(std::getline(b, y));
    if (!hasX && !hasY)
      return "";
    if (hasX != hasY || x != y)
      return "line " + std::to_string(line) + "\ngolden: " + (hasX ? x : "(end)") + "\nnow:    " + (hasY ? y : "(end)");
  }
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, Output) {
  bool errors = false;
  std::string path = folder() + "/" + GetParam();
  std::string got = Golden(path).run(errors);
  std::string goldenPath = path.substr(0, path.size() - 3) + ".out";
  EXPECT_EQ(errors, GetParam().starts_with("fail-")) << got;
  if (std::getenv("TEGULA_UPDATE_GOLDENS")) {
    std::ofstream(goldenPath, std::ios::binary) << got;
    return;
  }
  EXPECT_EQ(firstDifference(readAll(goldenPath), got), "");
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto &e : fs::directory_iterator(folder()))
    if (e.path().extension() == ".py")
      out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Sema, GoldenTest, testing::ValuesIn(files()), [](const auto &info) {
  std::string n = info.param.substr(0, info.param.size() - 3);
  std::replace(n.begin(), n.end(), '-', '_');
  return n;
});

} // namespace
} // namespace tegula::sema
