// What a language binding does: functions from text with captured names, values, modules that answer by callback.
#include "Fixture.h"
#include <array>
#include <cstring>
#include <set>

using namespace tegula;
using namespace tegula::test;

static Function function(const Context &c, const char *text, int kind = TEGULA_FUNCTION_JIT) {
  TegulaFunctionSource s{};
  s.size = sizeof s;
  s.file = "live.py", s.text = text, s.length = std::strlen(text), s.first_line = 40, s.kind = kind;
  TegulaFunction *f = nullptr;
  EXPECT_EQ(tegula_function_create(c.get(), &s, &f), TEGULA_OK) << tegula_last_error();
  return Function(f);
}

static void bindName(const Function &f, const char *name, const Value &v, bool allowed = true) {
  EXPECT_EQ(tegula_function_bind(f.get(), name, v.get(), allowed), TEGULA_OK) << tegula_last_error();
}

TEST(Binding, FreeNamesCapturesAndHelpers) {
  Context c = context();
  Value tl(tegula_value_module("triton.language"));
  ASSERT_TRUE(tl);
  Function helper = function(c, "@tegula.jit\ndef helper(v, k: tl.constexpr):\n    return v * k + OFFSET\n");
  bindName(helper, "tl", tl);
  bindName(helper, "OFFSET", Value::of(7));
  Function f = function(c, "    @tegula.jit\n    def main(out, n):\n        tl.store(out, helper(n, 3))\n");
  std::set<std::string> names;
  for (size_t i = 0; i < tegula_function_free_name_count(f.get()); ++i)
    names.insert(tegula_function_free_name(f.get(), i));
  EXPECT_TRUE(names.count("tl") && names.count("helper"));
  bindName(f, "tl", tl);
  bindName(f, "helper", Value(tegula_value_function(helper.get())));
  EXPECT_EQ(runInt(f, {5}), 22);
  // Set-up has ended.
  EXPECT_EQ(tegula_function_bind(f.get(), "x", tl.get(), 1), TEGULA_INVALID_ARGUMENT);
}

TEST(Binding, ForbiddenGlobalsAndLines) {
  Context c = context();
  Function f = function(c, "@tegula.jit\ndef main(out):\n    tl.store(out, LIMIT)\n");
  bindName(f, "tl", Value(tegula_value_module("triton.language")));
  bindName(f, "LIMIT", Value::of(3), false);
  int32_t out[4];
  Status s = f(1, {std::span(out)});
  ASSERT_EQ(s.code(), TEGULA_COMPILE_ERROR);
  EXPECT_EQ(s.diagnostics()[0].line, 42u);
  EXPECT_EQ(s.diagnostics()[0].file, "live.py");
  EXPECT_NE(s.message().find("LIMIT"), std::string::npos);
}

TEST(Binding, ParametersAndDefaults) {
  Context c = context();
  Function f = function(
      c,
      "@tegula.jit\ndef main(out, a: tl.int64, B: tl.constexpr, d=None, e=4, *rest):\n    tl.store(out, (a + B + e).to(tl.int32))\n");
  bindName(f, "tl", Value(tegula_value_module("triton.language")));
  Value nine = Value::of(9);
  ASSERT_EQ(tegula_function_set_default(f.get(), 4, nine.get()), TEGULA_OK);
  ASSERT_EQ(tegula_function_param_count(f.get()), 6u);
  TegulaParam p;
  ASSERT_EQ(tegula_function_param(f.get(), 2, &p), TEGULA_OK);
  EXPECT_STREQ(p.name, "B");
  EXPECT_EQ(p.flags, unsigned(TEGULA_PARAM_CONSTEXPR));
  ASSERT_EQ(tegula_function_param(f.get(), 1, &p), TEGULA_OK);
  EXPECT_EQ(p.dtype, TEGULA_INT64);
  ASSERT_EQ(tegula_function_param(f.get(), 5, &p), TEGULA_OK);
  EXPECT_EQ(p.flags, unsigned(TEGULA_PARAM_VARIADIC));
  EXPECT_EQ(tegula_function_param(f.get(), 6, &p), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(runInt(f, {100, 20}), 129);
  ASSERT_EQ(tegula_function_param(f.get(), 4, &p), TEGULA_OK);
  ASSERT_NE(p.default_value, nullptr);
  EXPECT_STREQ(tegula_value_repr(p.default_value), "9");
}

TEST(Binding, AnnotationsInPlaceOfTheText) {
  Context c = context();
  const char *text = "def main(out, a, B: tl.int32):\n    tl.store(out, tl.arange(0, B).shape[0] + a)\n",
             *annotations[] = {"", "i64", "constexpr"};
  TegulaFunctionSource s{};
  s.size = sizeof s, s.file = "live.py", s.text = text, s.length = std::strlen(text);
  std::string hashes[2];
  for (size_t given : {0, 3}) {
    s.annotations = annotations, s.annotation_count = given;
    TegulaFunction *made = nullptr;
    ASSERT_EQ(tegula_function_create(c.get(), &s, &made), TEGULA_OK) << tegula_last_error();
    Function f(made);
    bindName(f, "tl", Value(tegula_value_module("triton.language")));
    TegulaParam p;
    ASSERT_EQ(tegula_function_param(f.get(), 1, &p), TEGULA_OK);
    EXPECT_EQ(p.dtype, given ? TEGULA_INT64 : TEGULA_VOID);
    ASSERT_EQ(tegula_function_param(f.get(), 2, &p), TEGULA_OK);
    EXPECT_EQ(p.flags, given ? unsigned(TEGULA_PARAM_CONSTEXPR) : 0u);
    EXPECT_EQ(p.dtype, given ? TEGULA_VOID : TEGULA_INT32);
    if (given) EXPECT_EQ(runInt(f, {5, 8}), 13);
    hashes[given != 0] = tegula_function_hash(f.get());
  }
  EXPECT_NE(hashes[0], hashes[1]);
}

TEST(Binding, DynamicModules) {
  Context c = context();
  static int destroyed;
  destroyed = 0;
  {
    Value utils(tegula_value_dynamic_module(
        "utils",
        [](void *, const char *name) { return std::string_view(name) == "SCALE" ? tegula_value_int(6) : nullptr; },
        [](void *) { ++destroyed; }, nullptr));
    Function f = function(c, "@tegula.jit\ndef main(out, n):\n    tl.store(out, n * utils.SCALE)\n");
    bindName(f, "tl", Value(tegula_value_module("triton.language")));
    bindName(f, "utils", utils);
    EXPECT_EQ(runInt(f, {7}), 42);
    Function g = function(c, "@tegula.jit\ndef main(out):\n    tl.store(out, utils.NOTHING)\n");
    bindName(g, "tl", Value(tegula_value_module("triton.language")));
    bindName(g, "utils", utils);
    int32_t out[1];
    EXPECT_EQ(g(1, {std::span(out)}).code(), TEGULA_COMPILE_ERROR);
  }
  EXPECT_EQ(destroyed, 1);
}

namespace {
/// A module that nobody asks for anything: it is alive as long as what refers to it.
struct Probe {
  int ended = 0;
  Value module{tegula_value_dynamic_module(
      "probe", [](void *, const char *) -> TegulaValue * { return nullptr; }, [](void *n) { ++*static_cast<int *>(n); },
      &ended)};
  /// `f` keeps it from now on.
  void in(const Function &f, const char *name) { bindName(f, name, module); }
  void giveBack() { module = Value(); }
};
const char *factorial = "def factorial(n):\n    return n * factorial(n - 1) if n > 1 else 1\n";
} // namespace

TEST(Binding, FunctionsThatReferToEachOtherEnd) {
  Context c = context();
  Probe probe;
  {
    Function f = function(c, "def f(x):\n    return g(x), probe\n"),
             g = function(c, "def g(x):\n    return f(x), h, a\n"), h = function(c, "def h(x):\n    return 1\n");
    probe.in(f, "probe");
    bindName(g, "f", Value(tegula_value_function(f.get())));
    bindName(g, "h", Value(tegula_value_function(h.get())));
    TegulaValue *items[] = {tegula_value_function(g.get()), tegula_value_function(f.get())};
    bindName(f, "g", Value(items[0]));
    // In values of values, too.
    Value pair(tegula_value_tuple(items, 2)), nested(tegula_value_tuple(std::array{pair.get(), items[1]}.data(), 2));
    tegula_value_release(items[1]);
    bindName(g, "a", nested);
    EXPECT_EQ(tegula_function_set_default(g.get(), 0, nested.get()), TEGULA_OK);
    probe.giveBack();
    std::string hash = tegula_function_hash(g.get());
    f = Function();
    pair = nested = Value();
    // g alone keeps both.
    EXPECT_EQ(probe.ended, 0);
    EXPECT_EQ(tegula_function_hash(g.get()), hash);
  }
  EXPECT_EQ(probe.ended, 1);
}

TEST(Binding, RecursionRunsAndEndsWithTheKernel) {
  Context c = context();
  Probe probe;
  TegulaKernel *kernel = nullptr;
  {
    Function recursive = function(c, factorial, TEGULA_FUNCTION_CONSTEXPR);
    bindName(recursive, "factorial", Value(tegula_value_function(recursive.get())));
    probe.in(recursive, "unused");
    probe.giveBack();
    Function f = function(c, "def main(out, N: tl.constexpr):\n    tl.store(out, factorial(N))\n");
    bindName(f, "tl", Value(tegula_value_module("triton.language")));
    bindName(f, "factorial", Value(tegula_value_function(recursive.get())));
    recursive = Function();
    EXPECT_EQ(runInt(f, {5}), 120);
    EXPECT_EQ(tegula_compile(f.get(), std::array{tegula_ptr(nullptr, TEGULA_INT32, 4), tegula_int(4)}.data(), 2,
                             nullptr, &kernel),
              TEGULA_OK)
        << tegula_last_error();
  }
  EXPECT_EQ(probe.ended, 0);
  tegula_kernel_release(kernel);
  EXPECT_EQ(probe.ended, 1);
}

TEST(Binding, FunctionsThatReferToEachOtherThroughAModuleEnd) {
  Context c = context();
  Probe probe;
  static TegulaFunction *answer;
  Function recursive = function(c, "def factorial(n):\n    return n * utils.factorial(n - 1) if n > 1 else 1\n",
                                TEGULA_FUNCTION_CONSTEXPR);
  answer = recursive.get();
  {
    Value utils(tegula_value_dynamic_module(
        "utils", [](void *, const char *) { return tegula_value_function(answer); }, nullptr, nullptr));
    bindName(recursive, "utils", utils);
    probe.in(recursive, "unused");
    probe.giveBack();
    Function f = function(c, "def main(out, N: tl.constexpr):\n    tl.store(out, utils.factorial(N))\n");
    bindName(f, "tl", Value(tegula_value_module("triton.language")));
    bindName(f, "utils", utils);
    EXPECT_EQ(runInt(f, {5}), 120);
  }
  EXPECT_EQ(probe.ended, 0);
  recursive = Function();
  EXPECT_EQ(probe.ended, 1);
}

TEST(Binding, ClassesAndTheirMethodsEnd) {
  Context c = context();
  Probe probe;
  {
    Value tl(tegula_value_module("triton.language"));
    Value type(tegula_value_attribute(tl.get(), "constexpr"));
    const char *field = "n";
    TegulaValue *types[] = {type.get()}, *defaults[] = {nullptr};
    Value base(tegula_value_aggregate("Base", 901, &field, types, defaults, 1, nullptr, 0));
    TegulaValue *bases[] = {base.get()};
    Value cls(tegula_value_aggregate("Counter", 902, &field, types, defaults, 1, bases, 1));
    Function more = function(c, "def more(self):\n    return Counter(self.n + 1)\n", TEGULA_FUNCTION_JIT);
    bindName(more, "Counter", cls);
    probe.in(more, "unused");
    probe.giveBack();
    Value method(tegula_value_function(more.get()));
    // The base has a method that makes what derives from it.
    ASSERT_EQ(tegula_value_add_member(base.get(), "more", TEGULA_MEMBER_PLAIN, method.get()), TEGULA_OK)
        << tegula_last_error();
    more = Function();
    Function f = function(c, "def main(out, N: tl.constexpr):\n    tl.store(out, Counter(N).more().more().n)\n");
    bindName(f, "tl", tl);
    bindName(f, "Counter", cls);
    base = cls = method = Value();
    EXPECT_EQ(runInt(f, {5}), 7);
    EXPECT_EQ(probe.ended, 0);
  }
  EXPECT_EQ(probe.ended, 1);
}

TEST(Binding, MembersAreAddedToOnesOwnClassesOnly) {
  Context c = context();
  const char *field = "a";
  Value tuple(tegula_value_class("Pair", &field, 1, nullptr, 0));
  EXPECT_EQ(tegula_value_add_member(tuple.get(), "x", TEGULA_MEMBER_PLAIN, tuple.get()), TEGULA_INVALID_ARGUMENT);
  EXPECT_STREQ(tegula_last_error(),
               "tegula_value_add_member: null argument, or not a class that tegula_value_aggregate made");
}

TEST(Binding, HashesTellFunctionsApart) {
  Context c = context();
  Value tl(tegula_value_module("triton.language"));
  auto hash = [&](const char *text, int captured) {
    Function f = function(c, text);
    bindName(f, "tl", tl);
    bindName(f, "K", Value::of(captured));
    return std::string(tegula_function_hash(f.get()));
  };
  const char *one = "def f(out):\n    tl.store(out, K)\n", *two = "def f(out):\n    tl.store(out, K + 1)\n";
  EXPECT_EQ(hash(one, 3), hash(one, 3));
  EXPECT_NE(hash(one, 3), hash(one, 4));
  EXPECT_NE(hash(one, 3), hash(two, 3));
}

TEST(Binding, Values) {
  struct Case {
    const char *text;
    int kind;
    const char *repr;
  };
  const Case cases[] = {
      {"3", TEGULA_VALUE_INT, "3"},       {"-0x10", TEGULA_VALUE_INT, "-16"},      {"true", TEGULA_VALUE_BOOL, "True"},
      {"False", TEGULA_VALUE_BOOL, "False"}, {"none", TEGULA_VALUE_NONE, "None"},  {"1.5", TEGULA_VALUE_FLOAT, "1.5"},
      {"1e3", TEGULA_VALUE_FLOAT, "1000.0"}, {"'a b'", TEGULA_VALUE_STR, "'a b'"}, {"\"x\"", TEGULA_VALUE_STR, "'x'"},
      {"bf16", TEGULA_VALUE_DTYPE, "bfloat16"}, {"f32", TEGULA_VALUE_DTYPE, "float32"}};
  for (const Case &k : cases) {
    Value v = Value::parse(k.text);
    ASSERT_TRUE(v) << k.text;
    EXPECT_EQ(tegula_value_kind(v.get()), k.kind) << k.text;
    EXPECT_EQ(v.repr(), k.repr);
  }
  for (const char *bad : {"", "what", "'open", "1.2.3", "0x", "170141183460469231731687303715884105728"})
    EXPECT_FALSE(Value::parse(bad)) << bad;
  TegulaValue *items[2] = {tegula_value_int(1), tegula_value_str("z", 1)};
  const char *fields[2] = {"a", "b"};
  Value tuple(tegula_value_tuple(items, 2)), cls(tegula_value_class("Pair", fields, 2, nullptr, 0));
  Value record(tegula_value_record(cls.get(), items, 2));
  EXPECT_EQ(tuple.repr(), "(1, 'z')");
  EXPECT_EQ(tegula_value_kind(record.get()), TEGULA_VALUE_RECORD);
  EXPECT_EQ(tegula_value_record(cls.get(), items, 1), nullptr);
  for (TegulaValue *v : items) tegula_value_release(v);
  int64_t i;
  EXPECT_EQ(tegula_value_as_int(Value::of(5).get(), &i), TEGULA_OK);
  EXPECT_EQ(tegula_value_as_int(Value::of(5.5).get(), &i), TEGULA_INVALID_ARGUMENT);
  char *names = nullptr;
  EXPECT_EQ(tegula_module_names("triton.language.extra.cuda", &names), TEGULA_OK);
  EXPECT_NE(std::string(names).find("\nglobaltimer\nlibdevice\n"), std::string::npos) << names;
  tegula_free(names);
  EXPECT_EQ(tegula_module_names("numpy", &names), TEGULA_NOT_FOUND);
  EXPECT_EQ(tegula_value_module("numpy"), nullptr);
  EXPECT_EQ(tegula_value_attribute(Value(tegula_value_module("math")).get(), "nothing"), nullptr);
}

static std::string lastError() { return tegula_last_error(); }

TEST(Binding, WrongDescriptionsOfFunctions) {
  Context c = context();
  const char *text = "def f(out, n):\n    pass\n", *names[] = {"n", nullptr};
  TegulaFunctionSource good{};
  good.size = sizeof good, good.file = "live.py", good.text = text, good.length = std::strlen(text);
  TegulaFunction *f = nullptr;
  auto refused = [&](TegulaFunctionSource s) {
    return tegula_function_create(c.get(), &s, &f) == TEGULA_INVALID_ARGUMENT && !f;
  };
  TegulaFunctionSource s = good;
  s.do_not_specialize_count = 1;
  EXPECT_TRUE(refused(s));
  s.do_not_specialize = names, s.do_not_specialize_count = 2;
  EXPECT_TRUE(refused(s));
  EXPECT_EQ(lastError(), "tegula_function_create: null name of a parameter");
  s = good;
  s.annotations = names, s.annotation_count = 2;
  EXPECT_TRUE(refused(s));
  EXPECT_EQ(lastError(), "tegula_function_create: null annotation of a parameter");
  s = good;
  s.do_not_specialize_on_alignment_count = 1;
  EXPECT_TRUE(refused(s));
  for (int32_t kind : {-1, 4, 256}) {
    s = good;
    s.kind = kind;
    EXPECT_TRUE(refused(s)) << kind;
  }
  EXPECT_EQ(lastError(), "tegula_function_create: there is no kind of function 256");
  TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
  o.read_only_cache_dir_count = 1;
  TegulaContext *made = nullptr;
  EXPECT_EQ(tegula_context_create(&o, &made), TEGULA_INVALID_ARGUMENT);
}

TEST(Binding, TuplesOfAnotherClass) {
  Context c = context();
  Module m = module(c, "@triton.jit\ndef f(t, K: tl.constexpr):\n    pass\n");
  Function f = m.kernel("f").value();
  const char *fields[2] = {"a", "b"};
  Value pair(tegula_value_class("Pair", fields, 2, nullptr, 0)), number = Value::of(3);
  TegulaArg items[3] = {tegula_int(5), tegula_int(6), tegula_int(7)}, args[2] = {tegula_int(5), tegula_int(6)};
  const int64_t grid[3] = {1, 1, 1};
  for (TegulaValue *cls : {pair.get(), number.get()})
    for (TegulaArg &a : args) {
      TegulaArg before = a;
      a = {TEGULA_ARG_TUPLE, TEGULA_VOID, 0, 3, {nullptr}, {0}};
      a.u.items = items, a.u2.cls = cls;
      EXPECT_EQ(tegula_launch(f.get(), grid, args, 2, nullptr, nullptr), TEGULA_INVALID_ARGUMENT);
      a = before;
    }
  EXPECT_EQ(lastError(), "`f`: `3` is no class of a tuple of 3");
}

TEST(Binding, ValuesNestOnlySoDeep) {
  auto nest = [](bool record) {
    const char *field = "a";
    Value cls(tegula_value_class("One", &field, 1, nullptr, 0));
    TegulaValue *v = tegula_value_int(1);
    int depth = 0;
    for (; v && depth < 100000; ++depth) {
      TegulaValue *outer = record ? tegula_value_record(cls.get(), &v, 1) : tegula_value_tuple(&v, 1);
      tegula_value_release(v);
      v = outer;
    }
    EXPECT_EQ(v, nullptr);
    EXPECT_EQ(lastError(), "values nest more than 200 deep");
    return depth;
  };
  EXPECT_EQ(nest(false), 201);
  EXPECT_EQ(nest(true), 201);
}

// Each level holds the one before it twice: what is the same counts as often as it stands there.
TEST(Binding, ValuesThatShareTheirPartsAreBounded) {
  const char *fields[] = {"a", "b"};
  Value cls(tegula_value_class("Pair", fields, 2, nullptr, 0));
  for (const char *what : {"tuple", "record", "class"}) {
    TegulaValue *v = tegula_value_int(1);
    int levels = 0;
    for (; v && levels < 100; ++levels) {
      TegulaValue *both[] = {v, v};
      TegulaValue *outer = *what == 't'   ? tegula_value_tuple(both, 2)
                           : *what == 'r' ? tegula_value_record(cls.get(), both, 2)
                                          : tegula_value_class("C", fields, 2, both, 2);
      tegula_value_release(v);
      v = outer;
    }
    EXPECT_EQ(v, nullptr) << what;
    EXPECT_EQ(levels, 21) << what; // 2^21 parts
    EXPECT_EQ(lastError(), "a value of more than 2097152 parts") << what;
  }
}
