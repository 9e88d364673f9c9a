// Every function of src/lib instantiates for its dtypes and shapes, and gives the dtype and shape that LANGUAGE.md
// promises. What the results are is test/run's business.
#include "ir/Verifier.h"
#include "sema/Sema.h"
#include <gtest/gtest.h>

using namespace tegula;

namespace {
struct Row {
  const char *expression; // of `v`, a block of `dtype` and `shape`
  const char *dtype, *shape;
  const char *resultDtype, *resultShape; // "()" for a scalar
};

void instantiates(const Row &r) {
  std::string text = std::string("import tegula\nimport tegula.language as tl\n\n\n@tegula.jit\ndef k(x):\n") +
                     "    v = tl.full(" + r.shape + ", 1, tl." + r.dtype + ") + tl.load(x)\n" +
                     "    r = " + r.expression + "\n" + "    tl.static_assert(r.dtype == tl." + r.resultDtype +
                     ", f'{r.dtype}')\n" + "    tl.static_assert(r.shape == " + r.resultShape +
                     ", f'{r.shape}')\n    tl.store(x, r.to(tl." + r.dtype +
                     ") if len(r.shape) == 0 else tl.max(tl.ravel(r), 0).to(tl." + r.dtype + "))\n";
  DiagEngine diag;
  sema::ModuleLoader loader;
  auto module = loader.loadText("k.py", text, diag);
  ASSERT_TRUE(module) << renderAll(diag);
  auto kernel = sema::ModuleLoader::kernel(*module, "k", diag);
  ASSERT_TRUE(kernel) << renderAll(diag);
  lang::Dtype d = *lang::parseDtype(r.dtype);
  d.isPtr = true;
  std::vector<sema::ParamSpec> params{sema::ParamSpec::runtime(d, 16)};
  sema::Instantiation i = sema::instantiate(kernel, params, sema::Options(), diag);
  ASSERT_TRUE(i.module) << text << renderAll(diag);
  EXPECT_TRUE(diag.all().empty()) << renderAll(diag);
  std::string why;
  EXPECT_TRUE(ir::verify(*i.module, &why)) << text << why;
}

constexpr const char *numbers[] = {"int8", "int16", "int32", "int64", "uint8", "uint16",
                                   "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
bool isFloat(std::string_view d) { return d.find("float") != d.npos; }
bool isSmall(std::string_view d) { return d.find("64") == d.npos && d.find("32") == d.npos; }
const char *sumType(std::string_view d) {
  return isFloat(d) || !isSmall(d) ? d.data() : d[0] == 'u' ? "uint32" : "int32";
}
const char *extremumType(std::string_view d) { return !isSmall(d) ? d.data() : isFloat(d) ? "float32" : "int32"; }
} // namespace

TEST(Library, ReductionsOfEveryType) {
  for (const char *d : numbers) {
    instantiates({"tl.sum(v, 1)", d, "[4, 8]", sumType(d), "(4,)"});
    instantiates({"v.sum()", d, "[8]", sumType(d), "()"});
    instantiates({"tl.sum(v, 0, keep_dims=True, dtype=tl.float64)", d, "[4, 8]", "float64", "(1, 8)"});
    instantiates({"tl.max(v, 0)", d, "[4, 8]", extremumType(d), "(8,)"});
    instantiates({"v.min(axis=-1, keep_dims=True)", d, "[4, 8]", extremumType(d), "(4, 1)"});
    instantiates({"tl.max(v, 1, return_indices=True)[0]", d, "[4, 8]", d, "(4,)"});
    instantiates(
        {"tl.min(v, 0, return_indices=True, return_indices_tie_break_left=False)[1]", d, "[8]", "int32", "()"});
    instantiates({"tl.argmax(v, 0)", d, "[4, 8]", "int32", "(8,)"});
    instantiates({"v.argmin(1, tie_break_left=False, keep_dims=True)", d, "[4, 8]", "int32", "(4, 1)"});
    instantiates({"tl.cumsum(v, 1)", d, "[4, 8]", sumType(d), "(4, 8)"});
    instantiates({"tl.cumprod(v, 0, reverse=True)", d, "[4, 8]", sumType(d), "(4, 8)"});
    if (!isFloat(d)) {
      instantiates({"tl.xor_sum(v, 0)", d, "[4, 8]", d, "(8,)"});
      instantiates({"v.reduce_or(axis=1)", d, "[4, 8]", d, "(4,)"});
    }
  }
}

TEST(Library, SortingOfEveryType) {
  for (const char *d : numbers) {
    instantiates({"tl.sort(v)", d, "[4, 8]", d, "(4, 8)"});
    instantiates({"tl.sort(v, descending=True)", d, "[16]", d, "(16,)"});
    instantiates({"tl.topk(v, 4)", d, "[2, 16]", extremumType(d), "(2, 4)"});
    instantiates({"tl.topk(v, 16, descending=False)", d, "[16]", d, "(16,)"});
    instantiates({"tl.bitonic_merge(v)", d, "[8]", d, "(8,)"});
  }
}

TEST(Library, ShapesAndArithmetic) {
  for (const char *d : numbers) {
    instantiates({"tl.zeros([4, 2], v.dtype)", d, "[8]", d, "(4, 2)"});
    instantiates({"tl.zeros_like(v)", d, "[4, 8]", d, "(4, 8)"});
    instantiates({"tl.ravel(v)", d, "[4, 8]", d, "(32,)"});
    instantiates({"v.flip(0)", d, "[4, 8]", d, "(4, 8)"});
    instantiates({"tl.flip(v)", d, "[8]", d, "(8,)"});
    instantiates({"tl.interleave(v, v)", d, "[4, 8]", d, "(4, 16)"});
    if (!isFloat(d)) instantiates({"v.cdiv(v)", d, "[8]", d, "(8,)"});
  }
  for (const char *d : {"float32", "float64"}) {
    instantiates({"tl.sigmoid(v)", d, "[8]", d, "(8,)"});
    instantiates({"v.softmax(1, keep_dims=True)", d, "[4, 8]", d, "(4, 8)"});
    instantiates({"tl.softmax(v)", d, "[8]", d, "(8,)"});
  }
  instantiates(
      {"tl.swizzle2d(tl.program_id(0), tl.program_id(1), 7, tl.num_programs(1), 4)[0]", "int32", "[8]", "int32", "()"});
}

TEST(Library, RandomNumbers) {
  for (const char *d : {"int32", "int64", "uint32", "uint64"}) {
    instantiates({"tl.randint(42, v)", d, "[8]", "uint32", "(8,)"});
    instantiates({"tl.randint4x(tl.program_id(0), v)[3]", d, "[4, 2]", "uint32", "(4, 2)"});
    instantiates({"tl.rand(7, v, n_rounds=6)", d, "[8]", "float32", "(8,)"});
    instantiates({"tl.rand4x(7, v)[2]", d, "[8]", "float32", "(8,)"});
    instantiates({"tl.randn(7, v)", d, "[8]", "float32", "(8,)"});
    instantiates({"tl.randn4x(7, v)[1]", d, "[8]", "float32", "(8,)"});
    instantiates({"tl.random.philox(5, v, v, v, v)[0]", d, "[8]",
                  d[std::string_view(d).size() - 1] == '4' ? "uint64" : "uint32", "(8,)"});
  }
}
