// Kernels that a program wrote down: the types that tegula/tile.hpp takes values for, origins, names of the program in
// messages.
#include "Fixture.h"
#include "lang/Promotion.h"
#include "tegula/tile/elements.hpp"
#include <fstream>

using namespace tegula;
using namespace tegula::test;
namespace tile = tegula::tile;

/// Both headers have the types in one order.
static int codeOf(const lang::Promotion &p) {
  return p.failure == lang::NoPromotion::None ? static_cast<int>(p.dtype.scalar) : tile::detail::noElement;
}

TEST(Trace, promotionOfCppIsTheCompilers) {
  static_assert(TEGULA_INT1 == static_cast<int>(lang::Scalar::Int1) &&
                TEGULA_FP8E5 == static_cast<int>(lang::Scalar::Fp8e5) &&
                TEGULA_FP64 == static_cast<int>(lang::Scalar::Fp64));
  const int numbers[] = {TEGULA_INT1, TEGULA_INT32, TEGULA_INT64, TEGULA_UINT32,
                         TEGULA_UINT64, TEGULA_FP32, TEGULA_FP64};
  for (int a = TEGULA_INT1; a <= TEGULA_FP64; ++a) {
    lang::Dtype left = lang::dtype(static_cast<lang::Scalar>(a));
    EXPECT_EQ(tile::detail::isFloatCode(a), left.isFloat());
    EXPECT_EQ(tile::detail::isIntCode(a), left.isInt());
    EXPECT_EQ(tile::detail::isSignedCode(a), left.isSigned());
    EXPECT_EQ(tile::detail::widthOf(a), static_cast<int>(left.bits())) << code(left);
    for (bool isDivision : {false, true}) {
      for (int b = TEGULA_INT1; b <= TEGULA_FP64; ++b) {
        lang::Dtype right = lang::dtype(static_cast<lang::Scalar>(b));
        EXPECT_EQ(tile::detail::promote(a, b, isDivision), codeOf(lang::promoteDtypes(left, right, isDivision)))
            << code(left) << (isDivision ? " / " : " + ") << code(right);
      }
      for (int number : numbers) {
        lang::Dtype right = lang::dtype(static_cast<lang::Scalar>(number));
        EXPECT_EQ(tile::detail::promoteWithNumber(a, number, isDivision),
                  codeOf(lang::promoteWithNumber(left, right, isDivision)))
            << code(left) << (isDivision ? " / number " : " + number ") << code(right);
      }
    }
  }
}

namespace {
/// A file of a program, and a trace of it.
struct Traced {
  std::string file = testing::TempDir() + "program.cpp", text;
  std::vector<TegulaOrigin> origins;
  Context context = test::context();

  explicit Traced(const char *program) { std::ofstream(file) << program; }
  /// `piece` of the text, from its last line on, was written at `place` of the program.
  void add(const std::string &line, uint32_t number, uint32_t column) {
    origins.push_back({static_cast<uint32_t>(text.size()), static_cast<uint32_t>(text.size() + line.size()),
                       file.c_str(), number, column});
    text += line;
  }
  Status load(TegulaModule **out = nullptr) {
    TegulaModule *m = nullptr;
    Status s = Status::from(
        tegula_module_from_trace(context.get(), "k", text.data(), text.size(), origins.data(), origins.size(), &m));
    if (out) *out = m;
    else if (m) tegula_module_release(m);
    return s;
  }
  std::string message() {
    TegulaModule *m = nullptr;
    if (Status bad = load(&m); !bad) return bad.message();
    Result<Kernel> k = Module(m).kernel("k")->compile("x:*f32, n:i32", "cpu");
    return k ? "" : k.status().message();
  }
};
} // namespace

TEST(Trace, badOriginsAreRefused) {
  Traced t("");
  t.text = "import triton\n@triton.jit\ndef k(x):\n  pass\n";
  EXPECT_TRUE(t.load());
  const uint32_t end = static_cast<uint32_t>(t.text.size());
  const char *file = t.file.c_str();
  for (TegulaOrigin bad : {TegulaOrigin{0, end + 1, file, 1, 1},
                           {5, 4, file, 1, 1},
                           {0, end, nullptr, 1, 1},
                           {0, end, file, 0, 1},
                           {0, end, file, 1u << 30, 1},
                           {0, end, file, 1, 1u << 30}}) {
    t.origins = {{0, end, file, 1, 1}, bad};
    Status s = t.load();
    EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
    EXPECT_NE(s.message().find("origin 1 is no range of the text, or no place"), std::string::npos) << s.message();
  }
  t.origins = {{0, end, "/no/such/file.cpp", 7, 9}};
  EXPECT_TRUE(t.load());
  TegulaModule *m = nullptr;
  EXPECT_EQ(tegula_module_from_trace(t.context.get(), "k", t.text.data(), t.text.size(), nullptr, 1, &m),
            TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_module_from_trace(t.context.get(), nullptr, t.text.data(), t.text.size(), nullptr, 0, &m),
            TEGULA_INVALID_ARGUMENT);
}

TEST(Trace, messagesHavePlacesAndNamesOfTheProgram) {
  Traced t("auto in = zeros<float>({64});\nrange(0, n, [&](Int i) {\n  in = zeros<float>({32}); });\n");
  t.text = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, n):\n  ";
  t.add("_v2 = tl.zeros([64], tl.float32)", 1, 11);
  t.text += "\n  ";
  t.add("for _v3 in tl.range(0, n):", 2, 1);
  t.text += "\n    ";
  t.add("_v2 = tl.zeros([32], tl.float32)", 3, 20); // GCC's column: the parenthesis
  t.text += "\n";
  std::string said = t.message();
  EXPECT_NE(said.find("`in_2`"), std::string::npos) << said; // `in` is a word of the language
  EXPECT_EQ(said.find("_v"), std::string::npos) << said;
  EXPECT_NE(said.find("program.cpp:3:8"), std::string::npos) << said;
  EXPECT_NE(said.find("in = zeros<float>({32}); });"), std::string::npos) << said;
}

TEST(Trace, namesOfWhatIsDeclaredInBraces) {
  Traced t(
      "State<2> s{f({1}), load(x), 3 + n};\nreturn {x + 1, 2};\nelse { x * 2; }\nauto g() -> State { x - 2; }\nPair p = {x + 3, 4};\nT y{zeros<float>({2})};\n");
  t.add("import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, n):\n", 1, 1);
  t.add("  _v1 = tl.load(x)\n", 1, 18);
  t.add("  _v2 = n + 3\n", 1, 27);
  t.add("  _v3 = n + 1\n", 2, 9);
  t.add("  _v4 = n * 2\n", 3, 8);
  t.add("  _v5 = n - 2\n", 4, 21);
  t.add("  _v6 = n + 5\n", 5, 11);
  t.add("  _v7 = n + 6\n", 6, 5);
  t.add("  tl.store(x, (_v1 + _v2 + _v3 + _v4 + _v5 + _v6 + _v7).to(tl.float32))\n", 6, 1);
  TegulaModule *m = nullptr;
  ASSERT_TRUE(t.load(&m));
  Function k = *Module(m).kernel("k");
  Result<Kernel> compiled = k.compile("x:*f32, n:i32", "cpu");
  ASSERT_TRUE(compiled) << compiled.status().message();
  std::string source(*compiled->stage("source"));
  for (const char *line : {"s = tl.load(x)", "s_2 = n + 3", "at_line_2 = n + 1", "at_line_3 = n * 2",
                           "at_line_4 = n - 2", "p = n + 5", "y = n + 6"})
    EXPECT_NE(source.find(line), std::string::npos) << line << "\n" << source;
}

TEST(Trace, namesStayApart) {
  // The same name twice, one that the text has itself, the argument of a call, what is nobody's, and what looks like a
  // name in a string.
  Traced t("auto a = f(1);\nauto a = f(2);\nauto tl = f(3);\ng(f(4), 5);\nauto n = f(6);\n");
  t.text = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, n):\n";
  const std::pair<const char *, uint32_t> lines[] = {{"_v1 = tl.load(x + n)", 10},
                                                     {"_v2 = tl.exp(_v1)", 10},
                                                     {"_v3 = tl.exp(_v2)", 11},
                                                     {"_v4 = tl.exp(_v3)", 3},
                                                     {"_v5 = tl.exp(_v4)", 10}};
  for (uint32_t i = 0; i < 5; ++i) {
    t.text += "  ";
    t.add(lines[i].first, i + 1, lines[i].second);
    t.text += "\n";
  }
  t.text += "  tl.static_assert(False, \"_v1\")\n  tl.store(x, _v5)\n";
  std::string said = t.message();
  EXPECT_NE(said.find("_v1"), std::string::npos) << said;
  t.text.replace(t.text.find("  tl.static_assert"), 33, "");
  TegulaModule *m = nullptr;
  ASSERT_TRUE(t.load(&m));
  Result<Kernel> k = Module(m).kernel("k")->compile("x:*f32, n:i32", "cpu");
  ASSERT_TRUE(k) << k.status().message();
  std::string ir(*k->stage("tile"));
  for (const char *name : {"%a ", "%a_2 ", "%tl_2 ", "%at_line_4 ", "%n_2 "})
    EXPECT_NE(ir.find(name), std::string::npos) << name << ir;
}
