// Expressions by their normalized print, statements by their dump, mistakes by kind and place.
#include "syntax/Parser.h"
#include <gtest/gtest.h>

using namespace tegula;

namespace {
struct Parsed {
  std::shared_ptr<const syntax::Tree> tree;
  DiagEngine diag;
  explicit Parsed(std::string text) {
    tree = syntax::parse(std::make_shared<SourceFile>("t.py", std::move(text)), diag);
  }
  std::string expr() const {
    return tree->body.size() == 1 && tree->body[0]->value ? syntax::print(*tree->body[0]->value) : "?";
  }
};
} // namespace

TEST(Parser, expressions) {
  const char *rows[][2] = {
      {"1 + 2 * 3 ** -x", "1 + (2 * (3 ** (-x)))"},
      {"-x ** 2", "-(x ** 2)"},
      {"a or b and not c", "a or (b and (not c))"},
      {"a < b <= c is not None", "a < b <= c is not None"},
      {"x not in y", "x not in y"},
      {"a if b else c if d else e", "a if b else (c if d else e)"},
      {"lambda x, *a, k=1, **kw: x", "lambda x, *a, k=1, **kw: x"},
      {"f(a, *b, c=1, **d)", "f(a, *b, c=1, **d)"},
      {"f(x for x in y)", "f((x for x in y))"},
      {"x[:, None]", "x[:, None]"},
      {"x[1:2:3, ...]", "x[1:2:3, ...]"},
      {"x[::2]", "x[::2]"},
      {"(a, b)", "(a, b)"},
      {"a,", "(a,)"},
      {"()", "()"},
      {"[x for x in y if x if z]", "[x for x in y if x if z]"},
      {"{1, 2}", "{1, 2}"},
      {"{**a, 'b': 1}", "{**a, 'b': 1}"},
      {"{k: v for k, v in d}", "{k: v for (k, v) in d}"},
      {"(y := f(x))", "y := f(x)"},
      {"0xFF + 0b1_0 + 1_000 + 1e-3 + .5 + 2j", "((((0xFF + 0b10) + 1000) + 1e-3) + .5) + 2j"},
      {"'a' \"b\" r'\\n' '\\n\\x41\\u00e9'", "'ab\\\\n\\nAé'"},
      {"b'\\x00'.x", "b'\0'.x"},
      {"f'{a!r:>{w}} {{}} {b=}'", "f'{a!r:>{w}} {} {b=}'"},
      {"f'{x[\"k\"]}{ {1:2}[1] }'", "f'{x['k']}{{1: 2}[1]}'"},
      {"f\"{f\"{f'{1}'}\"}\"", "f'{f'{f'{1}'}'}'"},
      {"a @ b // c % d", "((a @ b) // c) % d"},
      {"a | b ^ c & d << e >> f", "a | (b ^ (c & ((d << e) >> f)))"},
      {"await_ + print", "await_ + print"},
      {"x.y.z(1)[2].w", "x.y.z(1)[2].w"},
  };
  for (auto &[text, want] : rows) {
    Parsed p(text);
    EXPECT_FALSE(p.diag.hasErrors()) << text << "\n" << renderAll(p.diag);
    std::string got = p.expr();
    if (std::string_view(text).starts_with("b'")) EXPECT_EQ(got.size(), 6u); // NUL inside
    else EXPECT_EQ(got, want) << text;
  }
}

TEST(Parser, statements) {
  Parsed p("@jit\n"
           "def f(x, /, y: int = 1, *args, k, **kw) -> None:\n"
           "    'doc'\n"
           "    a = b = x; c += 1\n"
           "    d: tl.constexpr = 2\n"
           "    for i, j in range(3):\n"
           "        pass\n"
           "    else:\n"
           "        break\n"
           "    while x: continue\n"
           "    if a: pass\n"
           "    elif b: pass\n"
           "    else: pass\n"
           "    with f() as g, h(): return\n"
           "    try: raise X from y\n"
           "    except (A, B) as e: del a[0]\n"
           "    finally: assert a, 'm'\n"
           "from ..a.b import c as d, e\n"
           "import x.y as z\n"
           "class C(B, m=1):\n"
           "    x: int\n"
           "match v:\n"
           "    case [1, *r] | {'a': x} if q: pass\n"
           "    case P(a=1) as n: pass\n"
           "match = 3\n"
           "type T = int\n");
  EXPECT_FALSE(p.diag.hasErrors()) << renderAll(p.diag);
  EXPECT_EQ(syntax::print(*p.tree), "@jit\n"
                                    "FunctionDef f(x, /, y: int=1, *args, k, **kw) -> None\n"
                                    "  Expr 'doc'\n"
                                    "  Assign a b = x\n"
                                    "  AugAssign c += 1\n"
                                    "  AnnAssign d: tl.constexpr = 2\n"
                                    "  For (i, j) in range(3)\n"
                                    "    Pass\n"
                                    "  Else:\n"
                                    "    Break\n"
                                    "  While x\n"
                                    "    Continue\n"
                                    "  If a\n"
                                    "    Pass\n"
                                    "  Elif b\n"
                                    "    Pass\n"
                                    "  Else:\n"
                                    "    Pass\n"
                                    "  With f() as g, h()\n"
                                    "    Return\n"
                                    "  Try\n"
                                    "    Raise X, y\n"
                                    "  Except (A, B) as e\n"
                                    "    Delete a[0]\n"
                                    "  Finally:\n"
                                    "    Assert a, 'm'\n"
                                    "ImportFrom ..a.b c as d, e\n"
                                    "Import x.y as z\n"
                                    "ClassDef C(B, m=1)\n"
                                    "  AnnAssign x: int\n"
                                    "Match v\n"
                                    "  Case [1, *r] | {'a': x} if q\n"
                                    "    Pass\n"
                                    "  Case n := P(a=1)\n"
                                    "    Pass\n"
                                    "Assign match = 3\n"
                                    "TypeAlias T int\n");
}

// Each mistake once: kind and line. All of them come out of one parse.
TEST(Parser, mistakes) {
  struct Row {
    const char *text, *kind;
    unsigned line;
  } rows[] = {
      {"def f(x)\n    pass\n", "expectedColon", 1},
      {"if x = 3:\n    pass\n", "assignInCondition", 1},
      {"f(a\nb = 1\n", "unclosedBracket", 1},
      {"x = (1,\ndef f(): pass\n", "unclosedBracket", 1},
      {"x = 1)\n", "unmatchedBracket", 1},
      {"x = (1]\n", "mismatchedBracket", 1},
      {"s = 'abc\n", "unterminatedString", 1},
      {"s = '\\xg1'\n", "badEscape", 1},
      {"x = 012\n", "badNumber", 1},
      {"x = 1abc\n", "badNumber", 1},
      {"for i in range(3):\nx = 1\n", "expectedIndent", 2},
      {"x = 1\n  y = 2\n", "unexpectedIndent", 2},
      {"if x:\n    a\n  b\n", "badDedent", 3},
      {"if x:\n\ta\n        b\n", "inconsistentTabs", 3},
      {"print 'x'\n", "printStatement", 1},
      {"x = $\n", "unexpectedCharacter", 1},
      {"x = 1 +\n", "expectedExpression", 1},
      {"1 = x\n", "cannotAssign", 1},
      {"f() += 1\n", "cannotAssign", 1},
      {"f(a=1, 2)\n", "keywordBeforePositional", 1},
      {"def f(a, a): pass\n", "badParameter", 1},
      {"def f(a=1, b): pass\n", "badParameter", 1},
      {"x = f'{}'\n", "fstringField", 1},
      {"x = f'}'\n", "fstringBrace", 1},
      {"x y\n", "expectedStatementEnd", 1},
      {"import\n", "expectedName", 1},
      {"x = \\ 1\n", "backslash", 1},
      {"x = a if b\n", "expectedToken", 1},
      {"x = '\xff'\n", "notUtf8", 1},
  };
  for (auto &r : rows) {
    Parsed p(r.text);
    bool found = false;
    for (auto &d : p.diag.all())
      found |= d.kind->name == std::string_view(r.kind) && d.loc.file->lineCol(d.loc.begin).line == r.line;
    EXPECT_TRUE(found) << r.text << renderAll(p.diag);
  }
  EXPECT_EQ(Parsed(std::string("x\0y", 3)).diag.all()[0].kind->name, std::string("nulByte"));
}

TEST(Parser, reportsAllMistakesOfAFile) {
  Parsed p("def f(x)\n    return x\n\ndef g():\n    y = 1 +\n    z = 2\n\nfor\nok = 1\n");
  EXPECT_EQ(p.diag.errorCount(), 3u) << renderAll(p.diag);
  EXPECT_EQ(p.tree->body.back()->kind, syntax::StmtKind::Assign);
}

TEST(Parser, deepNestingIsAnErrorNotACrash) {
  for (const char *open : {"(", "[", "{", "-", "not ", "f(", "x[", "lambda: ", "1 if 1 else ", "{1:"}) {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += open;
    Parsed p(text);
    EXPECT_TRUE(p.diag.hasErrors()) << open;
  }
  std::string blocks;
  for (int i = 0; i < 400; ++i) blocks += std::string(i, ' ') + "if x:\n";
  EXPECT_TRUE(Parsed(blocks).diag.hasErrors());
}

TEST(Parser, chainsOfElifsAreRefusedOnce) {
  auto chain = [](int elifs, const std::string &indent = "", const std::string &last = "pass") {
    std::string text = indent + "if x: pass\n";
    for (int i = 1; i < elifs; ++i) text += indent + "elif x: pass\n";
    return text + indent + "elif x:\n" + (last == "pass" ? indent + " pass\n" : last);
  };
  auto errors = [](const std::string &text) {
    Parsed p(text + "else: pass\n");
    for (auto &d : p.diag.all()) EXPECT_EQ(d.kind->name, std::string("manyElifs"));
    return p.diag.errorCount();
  };
  EXPECT_EQ(errors(chain(500)), 0u);
  EXPECT_EQ(errors(chain(501)), 1u);
  EXPECT_EQ(errors(chain(5000)), 1u);
  EXPECT_EQ(errors(chain(300) + chain(300)), 0u);
  EXPECT_EQ(errors(chain(300, "", chain(300, " "))), 1u); // in an arm: the tree is as high as both together
}
