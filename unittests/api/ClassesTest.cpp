// What launches ask for is in the list that was printed before; what was compiled of the list serves them.
#include "Fixture.h"
#include "Rounds.h"
#include "api/Handles.h"
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <unistd.h>

using namespace tegula;
using namespace tegula::test;

namespace {

using nlohmann::json;

/// A kernel of random parameters, and launches of it that ask for as many classes as they can.
struct Subject {
  enum class Kind { Pointer, Int, Float, Bool, AnnotatedInt, AnnotatedPointer, Constexpr, Tuple, Descriptor };
  struct Parameter {
    Kind kind;
    std::string name, type;
    TegulaDtype dtype = TEGULA_VOID;
  };
  std::mt19937_64 random;
  std::vector<Parameter> parameters;
  std::string text, signature;
  alignas(64) char memory[256] = {};

  explicit Subject(uint64_t seed) : random(seed) {
    const size_t count = 1 + random() % 4;
    std::string list, fixed, unaligned;
    for (size_t i = 0; i < count; ++i) {
      Parameter p{static_cast<Kind>(random() % 9), std::string(1, static_cast<char>('a' + i)), "", TEGULA_VOID};
      if (random() % 2) p.kind = Kind::Pointer;
      std::string annotation;
      switch (p.kind) {
      case Kind::Pointer:
        p.dtype = random() % 3 ? TEGULA_FP32 : TEGULA_INT8, p.type = p.dtype == TEGULA_FP32 ? "*fp32" : "*i8";
        break;
      case Kind::Int: p.type = "i32"; break;
      case Kind::Float: p.type = "fp32"; break;
      case Kind::Bool: p.type = "i1"; break;
      case Kind::AnnotatedInt: p.type = "i32", annotation = ": tl.int32"; break;
      case Kind::AnnotatedPointer: p.type = "*fp32", p.dtype = TEGULA_FP32, annotation = ": \"*fp32\""; break;
      case Kind::Constexpr: p.type = "4", annotation = ": tl.constexpr"; break;
      case Kind::Tuple: p.type = "(*fp32, i32)"; break;
      case Kind::Descriptor: p.type = random() % 2 ? "tensordesc<fp32[4, 4]>" : "tensordesc<fp32[8]>"; break;
      }
      list += (i ? ", " : "") + p.name + annotation, signature += (i ? ", " : "") + p.name + ":" + p.type;
      if (random() % 8 == 0) (random() % 2 ? fixed : unaligned) += "\"" + p.name + "\", ";
      parameters.push_back(p);
    }
    text = "@triton.jit(do_not_specialize=[" + fixed + "], do_not_specialize_on_alignment=[" + unaligned +
           "])\ndef k(" + list + "):\n    pass\n";
  }

  template <typename T> T any(std::initializer_list<T> of) { return of.begin()[random() % of.size()]; }
  TegulaArg pointer(TegulaDtype d) {
    TegulaArg a = tegula_ptr(any<char *>({memory, memory, memory + 64, memory + 4, memory + 4, nullptr}), d,
                             any<int64_t>({-1, 64, 64, 64, int64_t(4) << 30}));
    if (random() % 4 == 0) a.flags |= TEGULA_ARG_READ_ONLY;
    return a;
  }
  TegulaArg integer() {
    TegulaArg a = tegula_int(any<int64_t>({1, 0, 16, 17, -16, 1 << 30}));
    if (random() % 4 == 0) a.dtype = TEGULA_INT32;
    return a;
  }

  struct Launch {
    std::vector<TegulaArg> args;
    std::vector<std::array<TegulaArg, 2>> tuples;
    std::vector<TegulaTensorDescriptor> descriptors;
  };
  void fill(Launch &l) {
    l.tuples.resize(parameters.size()), l.descriptors.resize(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      TegulaArg &a = l.args.emplace_back();
      switch (parameters[i].kind) {
      case Kind::Pointer:
      case Kind::AnnotatedPointer: a = pointer(parameters[i].dtype); break;
      case Kind::Int:
      case Kind::AnnotatedInt: a = integer(); break;
      case Kind::Float: a = tegula_float(1.5); break;
      case Kind::Bool: a = tegula_bool(any({0, 1})); break;
      case Kind::Constexpr: a = tegula_int(4); break;
      case Kind::Tuple:
        l.tuples[i] = {pointer(TEGULA_FP32), integer()};
        a.kind = TEGULA_ARG_TUPLE, a.count = 2, a.u.items = l.tuples[i].data();
        break;
      case Kind::Descriptor: {
        const bool flat = parameters[i].type == "tensordesc<fp32[8]>";
        const int64_t shape[2] = {any<int64_t>({1, 16, 10}), any<int64_t>({16, 20})},
                      strides[2] = {flat ? 1 : any<int64_t>({16, 20}), 1}, block[2] = {flat ? 8 : 4, 4};
        TegulaArg base = pointer(TEGULA_FP32);
        base.u.ptr = memory;
        ASSERT_EQ(tegula_tensor_descriptor(&l.descriptors[i], base, flat ? 1 : 2, shape, strides, block, 0, &a),
                  TEGULA_OK)
            << tegula_last_error();
        break;
      }
      }
    }
  }
};

json listOf(const Function &f, const std::string &signature) {
  char *text = nullptr;
  EXPECT_EQ(tegula_specializations(f.get(), signature.c_str(), nullptr, 0, nullptr, 1 << 20, &text), TEGULA_OK)
      << tegula_last_error();
  json j = json::parse(text ? text : "", nullptr, false);
  tegula_free(text);
  return j;
}

/// A launch without programs: its kernel is found or compiled.
TegulaKernel *launch(const Function &f, const Subject::Launch &l) {
  TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
  o.device = TEGULA_DEVICE_INDEX_CPU;
  const int64_t grid[3] = {0, 1, 1};
  TegulaKernel *k = nullptr;
  return tegula_launch(f.get(), grid, l.args.data(), l.args.size(), &o, &k) == TEGULA_OK ? k : nullptr;
}

/// Pointers that overlap without being the same can do so in too many ways to be listed; of the generic classes one
/// serves all of them.
bool sharesMemory(const TegulaKernel &k) { return k.signature.find(":~") != std::string::npos; }

uint64_t compilesOf(const Context &c) {
  TegulaCacheStat s{};
  s.size = sizeof s;
  EXPECT_EQ(tegula_cache_stat(c.get(), &s), TEGULA_OK);
  return s.compiles;
}

std::string bundleOf(const Function &f, const Context &c, const std::string &signature, int32_t classes) {
  const std::string path = "classes-" + std::to_string(getpid()) + ".tgb";
  TegulaAot *a = nullptr;
  EXPECT_EQ(tegula_aot_create(c.get(), &a), TEGULA_OK);
  EXPECT_EQ(tegula_aot_add(a, f.get(), signature.c_str(), nullptr, 0, nullptr, 0, nullptr, nullptr, classes), TEGULA_OK)
      << tegula_last_error();
  EXPECT_EQ(tegula_aot_write(a, path.c_str(), nullptr), TEGULA_OK) << tegula_last_error();
  tegula_aot_release(a);
  return path;
}

TEST(Classes, ListedAreAllThatLaunchesAskFor) {
  std::map<std::string, unsigned> met; // forms
  for (uint64_t seed = 0; seed < rounds(120); ++seed) {
    Subject s(seed);
    Context c = context();
    Module m = module(c, s.text);
    Function f = m.kernel("k").value();
    const json list = listOf(f, s.signature);
    std::map<std::string, std::set<std::string>> forms;
    uint64_t total = 0;
    for (const json &form : list["forms"]) {
      auto &all = forms[form["options"].dump()];
      for (const json &text : form["signatures"])
        EXPECT_TRUE(all.insert(text.get<std::string>()).second) << s.text << text << " is listed twice";
      EXPECT_EQ(all.size(), form["count"].get<uint64_t>()) << s.text << form["options"];
      total += all.size();
    }
    EXPECT_EQ(total, list["all"].get<uint64_t>());
    for (int i = 0; i < 30; ++i) {
      Subject::Launch l;
      s.fill(l);
      TegulaKernel *k = launch(f, l);
      ASSERT_TRUE(k) << s.text << tegula_last_error();
      json options = json::object();
      if (k->options.wide) options["wide_offsets"] = 1;
      if (k->options.checked) options["checked"] = 1;
      ++met[options.dump()];
      ASSERT_TRUE(forms.contains(options.dump())) << s.text << options << ": no such form is listed";
      if (sharesMemory(*k)) continue;
      EXPECT_TRUE(forms[options.dump()].contains(k->signature))
          << s.text << options << " " << k->signature << " is not listed";
    }
  }
  EXPECT_EQ(met.size(), 3u);
}

TEST(Classes, AllOfThemCompileNothing) {
  unsigned tried = 0;
  for (uint64_t seed = 1000; tried < rounds(12); ++seed) {
    Subject s(seed);
    Context maker = context();
    Module m = module(maker, s.text);
    Function f = m.kernel("k").value();
    if (listOf(f, s.signature)["all"].get<uint64_t>() > 150) continue;
    ++tried;
    for (int32_t classes : {TEGULA_CLASSES_ALL, TEGULA_CLASSES_GENERIC}) {
      const std::string path = bundleOf(f, maker, s.signature, classes);
      Context c = context();
      ASSERT_EQ(tegula_context_load_bundle(c.get(), path.c_str(), nullptr), TEGULA_OK) << tegula_last_error();
      std::remove(path.c_str());
      // Of all classes there is just the one; of the generic ones one that does.
      if (classes == TEGULA_CLASSES_GENERIC) tegula_context_set_no_jit(c.get(), TEGULA_NO_JIT_ERROR);
      Module mine = module(c, s.text);
      Function g = mine.kernel("k").value();
      std::set<TegulaKernel *> compiled;
      for (int i = 0; i < 20; ++i) {
        Subject::Launch l;
        s.fill(l);
        TegulaKernel *k = launch(g, l);
        EXPECT_TRUE(k) << s.text << tegula_last_error();
        if (k && classes == TEGULA_CLASSES_ALL && sharesMemory(*k)) compiled.insert(k);
      }
      EXPECT_EQ(compilesOf(c), compiled.size()) << s.text;
    }
  }
}

TEST(Classes, TooManyAreCountedAndRefused) {
  Context c = context();
  Module m = module(c, "@triton.jit\ndef k(a, b, c, d, e, f, g, h, i, j, l, m):\n    pass\n");
  Function f = m.kernel("k").value();
  const std::string signature =
      "a:*fp32, b:*fp32, c:*fp32, d:*fp32, e:*fp32, f:*fp32, g:*fp32, h:*fp32, i:*fp32, j:i32, l:i32, m:i32";
  // Divisions of nine pointers into buffers of two classes each, for twelve parameters; offsets of 32 and 64 bits; for
  // null pointers divisions alone, and numbers that are 1 or not.
  const uint64_t divisions = 610182, bell = 21147;
  EXPECT_EQ(listOf(f, signature.c_str())["all"].get<uint64_t>(), 2 * divisions * 27 + bell * 8);
  TegulaAot *a = nullptr;
  ASSERT_EQ(tegula_aot_create(c.get(), &a), TEGULA_OK);
  EXPECT_EQ(tegula_aot_add(a, f.get(), signature.c_str(), nullptr, 0, nullptr, 0, nullptr, nullptr, TEGULA_CLASSES_ALL),
            TEGULA_OUT_OF_RESOURCES);
  EXPECT_NE(std::string(tegula_last_error()).find("`k` has 33119004 classes"), std::string::npos)
      << tegula_last_error();
  tegula_aot_release(a);
}

} // namespace
