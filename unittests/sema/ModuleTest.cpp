// Modules and functions: what a file binds, free names, content hashes, functions handed over by a binding.
#include "sema/Evaluator.h"
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace tegula::sema {
namespace {

using lang::Function;
using lang::Value;

const char *prelude = "import triton\nimport triton.language as tl\n";

struct Loaded {
  ModuleLoader loader;
  DiagEngine diag;
  std::shared_ptr<const lang::Module> module;
  explicit Loaded(const std::string &text) { module = loader.loadText("m.py", prelude + text, diag); }
  std::shared_ptr<const Function> fn(const char *name) { return ModuleLoader::kernel(*module, name, diag); }
};

TEST(Module, FunctionsInValuesKeepNothingAlive) {
  std::weak_ptr<const lang::Scope> scope;
  {
    Loaded l("def g(x):\n    return x\ng = triton.jit(g)\n"
             "@triton.jit\ndef h(x, F: tl.constexpr = g):\n    return x\n"
             "PAIR = (g, (h, 3))\n"
             "@triton.jit\ndef g(x):\n    return x + 1\n"
             "@triton.jit\ndef k(x, F: tl.constexpr = h, G: tl.constexpr = PAIR, H: tl.constexpr = g):\n    pass\n");
    scope = l.module->scope;
    std::shared_ptr<const Function> k = l.fn("k"), h = l.fn("h"), g = l.fn("g");
    using FunctionPtr = std::shared_ptr<const Function>;
    // One function for one definition, and the one that had the name when the default was made.
    EXPECT_EQ(k->defaults[1].get<FunctionPtr>(), h);
    EXPECT_EQ(k->defaults[2].items()[1].items()[0].get<FunctionPtr>(), h);
    EXPECT_EQ(k->defaults[3].get<FunctionPtr>(), g);
    EXPECT_NE(k->defaults[2].items()[0].get<FunctionPtr>(), g);
    EXPECT_EQ(h->defaults[1].get<FunctionPtr>()->def, k->defaults[2].items()[0].get<FunctionPtr>()->def);
    EXPECT_EQ(k->defaults[2].items()[0].get<FunctionPtr>()->scope, l.module->scope);
  }
  EXPECT_TRUE(scope.expired());
}

TEST(Module, FunctionsMadeByCallsKeepNothingAlive) {
  std::weak_ptr<const lang::Scope> scope;
  {
    Loaded l(
        "@triton.constexpr_function\ndef make(n):\n    def middle(m):\n        @triton.jit\n        def inner(x):\n            return inner2(x) + n + m\n"
        "        @triton.jit\n        def inner2(x):\n            return x\n        return inner\n    return middle(n)\n"
        "F = make(3)\n@triton.jit\ndef k(x):\n    tl.store(x, F(2))\n");
    scope = l.module->scope;
    std::vector<ParamSpec> params{ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Int32))};
    Instantiation r = instantiate(l.fn("k"), params, {}, l.diag);
    EXPECT_TRUE(r.module) << renderAll(l.diag);
  }
  EXPECT_TRUE(scope.expired());
}

// As for the file itself; what is no regular file might never end.
TEST(Module, ImportsReadNoMoreThanFilesThemselves) {
  std::string folder = testing::TempDir() + "tegula-imports-" + std::to_string(getpid()) + "/";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  std::ofstream(folder + "big.py") << "N = 1\n";
  ASSERT_EQ(truncate((folder + "big.py").c_str(), (64 << 20) + 1), 0);
  ASSERT_EQ(mkfifo((folder + "pipe.py").c_str(), 0600), 0);
  std::ofstream(folder + "small.py") << "N = 1\n";
  ModuleLoader loader;
  DiagEngine diag;
  auto m = loader.loadText(folder + "m.py", "import small, pipe\n", diag);
  ASSERT_TRUE(m) << renderAll(diag);
  EXPECT_TRUE(m->scope->lookup("small")->allowed);
  EXPECT_FALSE(m->scope->lookup("pipe")->allowed) << "no module";
  loader.loadText(folder + "n.py", "from big import N\n", diag);
  std::string text = renderAll(diag);
  EXPECT_EQ(text.substr(0, text.find('\n')), folder + "n.py:1:1: error: cannot import a module: cannot read `" +
                                                 folder + "big.py`: it has more than 64 MiB [unreadableModule]");
  for (const char *name : {"big.py", "pipe.py", "small.py"}) unlink((folder + name).c_str());
  rmdir(folder.c_str());
}

// What a builtin asks for and nobody has is not left out in silence.
TEST(Module, FunctionsThatTheLibraryHasNotAreErrors) {
  ir::Module m;
  ir::Builder b(m);
  DiagEngine diag;
  Evaluator e(b, diag, Options());
  EXPECT_FALSE(e.libraryFunction("_atomic_poll").isError());
  EXPECT_EQ(renderAll(diag), "");
  EXPECT_TRUE(e.libraryFunction("_atomic_pool").isError());
  EXPECT_EQ(
      renderAll(diag),
      "error: internal error: the language's own files define no `_atomic_pool` that others may use [noLibraryFunction]\n");
}

TEST(Module, OperationsAtTheTopLevelAreNoValues) {
  Loaded l("A = tl.program_id(0)\n"
           "B = tl.zeros([4], tl.float32) + 1 if tl.arange(0, 4) else 2\n"
           "C = tl.constexpr(tl.program_id(0) + 1)\n"
           "for D in range(3):\n    tl.store(A, D)\n"
           "@triton.jit\ndef g(x, y=tl.arange(0, 8)):\n    return x if x > 0 else y\n"
           "E = g(tl.program_id(1))\n");
  for (const char *name : {"A", "B", "C", "D", "E"}) {
    std::optional<lang::Scope::Binding> b = l.module->scope->lookup(name);
    ASSERT_TRUE(b) << name;
    EXPECT_FALSE(b->allowed) << name;
  }
  EXPECT_FALSE(l.diag.hasErrors());
}

TEST(Module, BindsWhatKernelsMayUse) {
  Loaded l("from triton.language import float16 as half\n"
           "from triton import jit as kernel\n"
           "import math, os.path\n"
           "A = tl.constexpr(1 << 4)\n"
           "B = 5\n"
           "C: tl.constexpr = 6\n"
           "D = tl.constexpr(A * 2 + math.floor(1.5))\n"
           "E = half\n"
           "if A == 16:\n    F = tl.constexpr('yes')\nelse:\n    F = tl.constexpr('no')\n"
           "try:\n    import numpy\nexcept ImportError:\n    numpy = None\n"
           "@kernel\ndef k(x):\n    pass\n"
           "def g(x):\n    pass\n"
           "h = triton.jit(g)\n"
           "alias = k\n");
  struct Case {
    const char *name;
    bool found, allowed;
    const char *repr;
  } cases[] = {
      {"A", true, true, "16"},         {"B", true, false, "5"},      {"C", true, false, "6"},
      {"D", true, true, "33"},         {"E", true, true, "float16"}, {"F", true, true, "'yes'"},
      {"os", true, false, "os"},       {"numpy", true, false, "numpy"}, {"k", true, true, "<function k>"},
      {"h", true, true, "<function g>"}, {"alias", true, true, "<function k>"}, {"nothing", false, false, ""},
      {"math", true, true, "<module 'math'>"}, {"tl", true, true, "<module 'triton.language'>"},
  };
  for (const Case &c : cases) {
    std::optional<lang::Scope::Binding> b = l.module->scope->lookup(c.name);
    ASSERT_EQ(b.has_value(), c.found) << c.name;
    if (!b)
      continue;
    EXPECT_EQ(b->allowed, c.allowed) << c.name;
    EXPECT_EQ(lang::repr(b->value), c.repr) << c.name;
  }
  EXPECT_EQ(ModuleLoader::jitFunctions(*l.module).size(), 2u);
  EXPECT_FALSE(l.diag.hasErrors());
}

TEST(Module, StarsOfTheLanguage) {
  Loaded l("from triton.language import *\n"
           "from triton.language.math import *\n"
           "@triton.jit\ndef k(x, N: constexpr):\n    store(x + arange(0, N), exp2(sum(zeros([N, N], float32), 1)))\n");
  EXPECT_EQ(ModuleLoader::jitFunctions(*l.module).size(), 1u);
  ParamSpec params[] = {ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Fp32)),
                        ParamSpec::constant(lang::Value::integer(8))};
  EXPECT_TRUE(instantiate(l.fn("k"), params, {}, l.diag).module) << renderAll(l.diag);
  auto names = builtinModule("triton.language")->scope->publicNames();
  for (const char *name : {"load", "sum", "float32", "PropagateNan", "math", "extra"})
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), name)) << name;
  for (const char *name : {"random", "core", "_add", "len", "fp32", "dtype.KIND"})
    EXPECT_FALSE(std::binary_search(names.begin(), names.end(), name)) << name;
}

TEST(Module, Siblings) {
  char folder[] = "/tmp/tegula-sema-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  std::string dir = folder;
  std::ofstream(dir + "/helpers.py") << prelude
                                     << "K = tl.constexpr(7)\n@triton.jit\ndef twice(v):\n    return v * 2\n";
  std::string text =
      prelude +
      std::string("import helpers\nfrom helpers import twice as t, K\nfrom .helpers import K as L\n"
                  "@triton.jit\ndef k(x, n):\n    tl.store(x + t(n) + helpers.twice(n) + helpers.K + L, K)\n");
  ModuleLoader loader;
  DiagEngine diag;
  auto m = loader.loadText(dir + "/main.py", text, diag);
  ASSERT_TRUE(m);
  EXPECT_EQ(ModuleLoader::jitFunctions(*m).size(), 1u);
  ParamSpec params[] = {ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Fp32)),
                        ParamSpec::runtime(lang::dtype(lang::Scalar::Int32))};
  EXPECT_TRUE(instantiate(ModuleLoader::kernel(*m, "k", diag), params, {}, diag).module) << renderAll(diag);
  unlink((dir + "/helpers.py").c_str());
  rmdir(folder);
}

TEST(Module, Errors) {
  ModuleLoader loader;
  for (const char *text : {"def f(:\n  pass\n", "x = \xff\xfe\n", "def f():\nreturn 1\n"}) {
    DiagEngine diag;
    EXPECT_FALSE(loader.loadText("bad.py", text, diag)) << text;
    EXPECT_TRUE(diag.hasErrors());
    EXPECT_NE(renderAll(diag), "");
  }
  Loaded l("@triton.jit\ndef kernel(x):\n    pass\n");
  EXPECT_FALSE(l.fn("kernal"));
  EXPECT_NE(renderAll(l.diag).find("did you mean `kernel`"), std::string::npos);
}

TEST(Module, BuiltinModules) {
  for (const char *name : {"triton", "triton.language", "tegula", "tegula.language", "tegula.language.math",
                           "triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice", "math"})
    EXPECT_TRUE(builtinModule(name)) << name;
  EXPECT_FALSE(builtinModule("numpy"));
  EXPECT_FALSE(builtinModule("triton.nothing"));
  auto tl = builtinModule("triton.language");
  for (const char *name : {"load", "sum", "float32", "math", "extra", "constexpr", "cdiv", "softmax"})
    EXPECT_TRUE(tl->attribute(name)) << name;
  for (const char *name : {"python.len", "_add", "nothing", "fp32"})
    EXPECT_FALSE(tl->attribute(name)) << name;
  EXPECT_EQ(libraryFunction("sum"), libraryFunction("sum"));
  EXPECT_FALSE(libraryFunction("_add"));
}

std::string hashOf(const std::string &text) {
  Loaded l(text);
  return l.fn("k")->contentHash();
}

TEST(Hash, CoversWhatIsReachable) {
  const std::string base = "S = tl.constexpr(3)\n"
                           "@triton.jit\ndef h(v):\n    return v * S\n"
                           "@triton.jit\ndef k(x, n=1):\n    tl.store(x, h(n))\n";
  auto with = [&](const char *from, const char *to) {
    std::string t = base;
    t.replace(t.find(from), std::string(from).size(), to);
    return hashOf(t);
  };
  std::string h = hashOf(base);
  EXPECT_EQ(h, hashOf(base));
  EXPECT_NE(h, with("constexpr(3)", "constexpr(4)"));
  EXPECT_NE(h, with("v * S", "v + S"));
  EXPECT_NE(h, with("n=1", "n=2"));
  EXPECT_NE(h, with("constexpr(3)", "constexpr(3.0)"));
  EXPECT_NE(h, hashOf("\n" + base)); // the line number is part of debug information
  // Functions that call each other.
  std::string cycle = "@triton.jit\ndef k(x):\n    h(x)\n@triton.jit\ndef h(x):\n    k(x)\n";
  EXPECT_EQ(hashOf(cycle), hashOf(cycle));
}

TEST(Binding, FunctionsFromText) {
  DiagEngine diag;
  auto f = createFunction(
      "user.py", "@jit\ndef k(x, n, K: tl.constexpr = 2, t: 'i64' = 0):\n    tl.store(x + h(n), K + G + max(K, 1))\n",
      40, diag);
  ASSERT_TRUE(f);
  EXPECT_EQ(freeNames(*f), (std::vector<std::string>{"tl", "h", "G", "max"}));
  EXPECT_TRUE(f->isConstexprParam(2));
  EXPECT_FALSE(f->isConstexprParam(1));
  EXPECT_EQ(f->annotatedDtype(3), lang::dtype(lang::Scalar::Int64));
  auto h = createFunction("user.py", "def h(v):\n    return v + 1\n", 3, diag);
  bindName(*f, "tl", {Value(builtinModule("tegula.language"))});
  bindName(*f, "h", {Value(std::shared_ptr<const Function>(h))});
  bindName(*f, "G", {Value::integer(5)});
  ParamSpec params[] = {ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Fp32)),
                        ParamSpec::runtime(lang::dtype(lang::Scalar::Int32)), ParamSpec::constant(Value::integer(2)),
                        ParamSpec::constant(Value::integer(0))};
  Instantiation r = instantiate(f, params, {}, diag);
  ASSERT_TRUE(r.module) << renderAll(diag);
  // Lines are those of the user's file.
  EXPECT_EQ(r.module->kernel()->loc.file->lineCol(r.module->kernel()->loc.begin).line, 41u);
  EXPECT_EQ(renderAll(diag), "");
  EXPECT_FALSE(createFunction("user.py", "x = 1\n", 7, diag));
  EXPECT_EQ(
      renderAll(diag),
      "user.py:7:1: error: there is no function definition here; a jit function is written with `def` [noDefinition]\n"
      "   7 | x = 1\n"
      "     | ^~~~~\n");
}

/// Each thread comes by its own function of a circle, gives it back, and the last one ends all.
TEST(Threads, FunctionsThatReferToEachOther) {
  using FunctionPtr = std::shared_ptr<const Function>;
  for (int round = 0; round < 50; ++round) {
    DiagEngine diag;
    std::vector<std::shared_ptr<Function>> made;
    std::vector<std::weak_ptr<const lang::Scope>> scopes;
    for (int i = 0; i < 6; ++i) {
      made.push_back(createFunction("f.py", "def f(n):\n    return next(n - 1), other\n", 1, diag));
      scopes.push_back(made.back()->scope);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      bindName(*made[i], "next", {Value(FunctionPtr(made[(i + 1) % made.size()]))});
      bindName(*made[i], "other", {Value::tuple({Value(FunctionPtr(made[(i + 3) % made.size()]))})});
    }
    std::vector<std::thread> threads;
    std::vector<std::string> hashes(made.size());
    for (size_t i = 0; i < made.size(); ++i)
      threads.emplace_back([f = FunctionPtr(made[i]), &hash = hashes[i]]() mutable {
        for (int step = 0; step < 30; ++step) {
          f = f->scope->lookup("next")->value.get<FunctionPtr>();
          f = f->scope->lookup("other")->value.items()[0].get<FunctionPtr>();
        }
        hash = f->contentHash();
      });
    made.clear();
    for (std::thread &t : threads)
      t.join();
    for (const std::string &h : hashes)
      EXPECT_EQ(h, hashes[0]);
    for (const auto &s : scopes)
      EXPECT_TRUE(s.expired());
  }
}

TEST(Threads, InstantiateAtOnce) {
  Loaded l("@triton.jit\ndef h(v):\n    return tl.sum(tl.softmax(v))\n"
           "@triton.jit\ndef k(x, K: tl.constexpr):\n    tl.store(x, h(tl.load(x + tl.arange(0, K))))\n");
  auto k = l.fn("k");
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::string &out : texts)
    threads.emplace_back([&out, &k] {
      for (int i = 0; i < 20; ++i) {
        DiagEngine diag;
        ParamSpec params[] = {ParamSpec::runtime(lang::Dtype::ptr(lang::Scalar::Fp32)),
                              ParamSpec::constant(Value::integer(64))};
        Instantiation r = instantiate(k, params, {}, diag);
        out = r.module ? ir::print(*r.module) + k->contentHash() : renderAll(diag);
      }
    });
  for (std::thread &t : threads)
    t.join();
  for (const std::string &t : texts)
    EXPECT_EQ(t, texts[0]);
}

} // namespace
} // namespace tegula::sema
