// Rendering: places, carets under display columns, labels, notes, JSON; duplicates and the cap.
#include "support/Diag.h"
#include <gtest/gtest.h>

using namespace tegula;

namespace {
constexpr DiagKind bad{"bad", Severity::Error, "`{0}` does not fit `{1}`"};
constexpr DiagKind odd{"odd", Severity::Warning, "odd"};

Loc at(const SourceFile &f, std::string_view what) {
  uint32_t b = static_cast<uint32_t>(f.text().find(what));
  return {&f, b, b + static_cast<uint32_t>(what.size())};
}
} // namespace

TEST(Diag, rendersLikeClang) {
  SourceFile f("k.py", "x = 1\n\ty = foo(é, bar)\n");
  DiagEngine e;
  e.report(bad, at(f, "bar"), "i32", "fp32").label(at(f, "foo"), "a function").note(at(f, "x"), "declared here");
  EXPECT_EQ(renderAll(e), "k.py:2:20: error: `i32` does not fit `fp32` [bad]\n"
                          "   2 |         y = foo(é, bar)\n"
                          "     |             ---    ^~~\n"
                          "     |             a function\n"
                          "k.py:1:1: note: declared here\n"
                          "   1 | x = 1\n"
                          "     | ^\n");
}

TEST(Diag, keepsOneOfEqualOnesAndCaps) {
  SourceFile f("k.py", std::string(300, 'x'));
  DiagEngine e;
  for (int i = 0; i < 3; ++i) e.report(odd, Loc{&f, 1, 2});
  EXPECT_EQ(e.all().size(), 1u);
  for (uint32_t i = 0; i < 250; ++i) e.report(bad, Loc{&f, i, i + 1}, "a", "b");
  EXPECT_EQ(e.errorCount(), 250u);
  EXPECT_EQ(e.all().size(), 101u);
  EXPECT_NE(renderAll(e).find("150 further errors"), std::string::npos);
}

TEST(Diag, contextComesLastInnermostFirst) {
  DiagEngine e;
  {
    DiagContext outer(e, {}, "outer");
    DiagContext inner(e, {}, "inner");
    e.report(odd, {}).note({}, "own");
  }
  auto &notes = e.all()[0].notes;
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0].text, "own");
  EXPECT_EQ(notes[1].text, "inner");
  EXPECT_EQ(notes[2].text, "outer");
}

TEST(Diag, jsonEscapes) {
  SourceFile f("a\"b.py", "x\n");
  DiagEngine e;
  e.report(bad, Loc{&f, 0, 1}, "tab\there", "new\nline").fixIt(Loc{&f, 0, 1}, "y");
  std::string json = renderJson(e);
  EXPECT_NE(json.find("\"file\":\"a\\\"b.py\",\"line\":1,\"column\":1,\"endLine\":1,\"endColumn\":2"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("tab\\u0009here"), std::string::npos);
  EXPECT_NE(json.find("new\\nline"), std::string::npos);
  EXPECT_NE(json.find("\"replacement\":\"y\""), std::string::npos);
}
