// Tuners from outside: choices, keys, memory, what is refused.
#include "Fixture.h"

using namespace tegula;
using namespace tegula::test;

namespace {

Config config(int64_t block, const char *name = "BLOCK") { return {{{name, Value::of(block)}}}; }
std::vector<Config> configs(std::initializer_list<int64_t> blocks) {
  std::vector<Config> list;
  for (int64_t b : blocks) list.push_back(config(b));
  return list;
}
auto gridOver(int64_t n) {
  return [n](ConfigView c) { return Grid((n + c["BLOCK"] - 1) / c["BLOCK"]); };
}
bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

constexpr const char *inPlaceText = R"(@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
)";

struct TunerTest : testing::TestWithParam<const char *> {
  Context c = context();
  LaunchOptions options() {
    LaunchOptions o;
    EXPECT_EQ(tegula_device_find(c.get(), GetParam(), &o.device), TEGULA_OK);
    return o;
  }
};

TEST_P(TunerTest, InPlaceKernelRunsOnce) {
  Module m = module(c, inPlaceText);
  Autotuned tuned = Autotuned::create(m.kernel("twice").value(), configs({16, 64, 256})).value();
  std::vector<float> x(300, 3.f);
  Status s = tuned(gridOver(300), {std::span(x), 300}, options());
  ASSERT_TRUE(s) << s.message();
  EXPECT_EQ(x, std::vector<float>(300, 6.f));
  EXPECT_TRUE(has(tuned.report(), "\"by\":\"measured\"") && has(tuned.report(), "\"compared\":true")) << tuned.report();
  // Chosen: it runs once more, and nothing is tuned.
  std::string report = tuned.report();
  ASSERT_TRUE(tuned(gridOver(300), {std::span(x), 300}, options()));
  EXPECT_EQ(x[299], 12.f);
  EXPECT_EQ(tuned.report(), report);
}

TEST_P(TunerTest, WrongConfigurationIsNotUsed) {
  Module m = module(c, R"(@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0 if BLOCK != 64 else 2.0, mask=i < n)
)");
  Autotuned tuned = Autotuned::create(m.kernel("fill").value(), configs({16, 64, 32})).value();
  std::vector<float> x(64);
  Status s = tuned(gridOver(64), {std::span(x), 64}, options());
  ASSERT_TRUE(s) << s.message();
  EXPECT_EQ(x, std::vector<float>(64, 1.f));
  EXPECT_TRUE(has(tuned.report(), "{\"config\":\"BLOCK: 64\",\"state\":\"rejected\"")) << tuned.report();
}

INSTANTIATE_TEST_SUITE_P(Devices, TunerTest, testing::Values("cpu", "sim"));

TEST(Tuner, KeysMakeChoices) {
  Context c = context();
  Module m = module(c, inPlaceText);
  std::vector<float> x(300, 1.f);
  unsigned grids = 0;
  auto counting = [&](ConfigView v) { return ++grids, gridOver(300)(v); };
  std::vector<Config> list = configs({16, 64});
  for (bool keyed : {true, false}) {
    Autotuned tuned = keyed ? Autotuned::create(m.kernel("twice").value(), list).value()
                            : Autotuned::create(m.kernel("twice").value(), list, {"BLOCK"}).value();
    ASSERT_TRUE(tuned(counting, {std::span(x), 300}));
    grids = 0;
    ASSERT_TRUE(tuned(counting, {std::span(x), 299}));
    EXPECT_EQ(grids > 1, keyed) << "another number of a key is another choice";
    grids = 0;
    ASSERT_TRUE(tuned(counting, {std::span(x), 300}));
    EXPECT_EQ(grids, 1u);
    std::vector<double> y(300);
    grids = 0;
    ASSERT_TRUE(tuned(counting, {std::span(y), 300}));
    EXPECT_GT(grids, 1u) << "and so is another type";
  }
}

TEST(Tuner, ConfigurationsThatFailAreLeftOut) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def f(x, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK < 64, "too large")
    tl.store(x + tl.arange(0, BLOCK), BLOCK)
)");
  Autotuned tuned = Autotuned::create(m.kernel("f").value(), configs({128, 16})).value();
  std::vector<int32_t> x(128);
  auto one = [](ConfigView) { return Grid(1); };
  Status s = tuned(one, {std::span(x)});
  ASSERT_TRUE(s) << s.message();
  EXPECT_EQ(x[0], 16);
  EXPECT_TRUE(has(tuned.report(), "\"state\":\"failed\"") && has(tuned.report(), "too large")) << tuned.report();
  Autotuned none = Autotuned::create(m.kernel("f").value(), configs({128, 64})).value();
  s = none(one, {std::span(x)});
  EXPECT_EQ(s.code(), TEGULA_COMPILE_ERROR);
  EXPECT_TRUE(has(s.message(), "tuning `f`: no configuration can be used; the first one failed with: ")) << s.message();
}

TEST(Tuner, MistakesNameTheConfiguration) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def f(x, BLOCK: tl.constexpr):
    if BLOCK == 64:
        tl.device_assert(False, "here")
    tl.store(x + tl.arange(0, BLOCK), BLOCK)
)");
  Autotuned tuned = Autotuned::create(m.kernel("f").value(), configs({16, 64})).value();
  std::vector<int32_t> x(64, -1);
  LaunchOptions o;
  o.debug = 1;
  Status s = tuned([](ConfigView) { return Grid(1); }, {std::span(x)}, o);
  EXPECT_EQ(s.code(), TEGULA_FAULT);
  EXPECT_TRUE(has(s.message(), "tuning `f`: configuration (BLOCK: 64): ") && has(s.message(), "here") &&
              s.message().ends_with(", given x:*i32"))
      << s.message();
}

TEST(Tuner, CudaGraphsWhereThereAreNone) {
  Context c = context();
  Module m = module(c, inPlaceText);
  TunerOptions o;
  o.cuda_graph = 1, o.persist = 0;
  Autotuned tuned = Autotuned::create(m.kernel("twice").value(), configs({16, 64}), {}, o).value();
  std::vector<float> x(300, 1.f);
  ASSERT_TRUE(tuned(gridOver(300), {std::span(x), 300}));
  EXPECT_TRUE(has(tuned.report(), "\"clock\":\"steady\"") && has(tuned.report(), "\"warnings\":[]")) << tuned.report();
}

TEST(Tuner, Deterministic) {
  Context c = context();
  Module m = module(c, inPlaceText);
  TunerOptions o;
  o.deterministic = 1;
  std::vector<float> x(300, 1.f);
  Autotuned tuned = Autotuned::create(m.kernel("twice").value(), configs({16, 64}), {}, o).value();
  unsigned grids = 0;
  ASSERT_TRUE(tuned([&](ConfigView v) { return ++grids, gridOver(300)(v); }, {std::span(x), 300}));
  EXPECT_TRUE(has(tuned.report(), "\"by\":\"model\"")) << tuned.report();
  EXPECT_EQ(x[0], 2.f);
}

TEST(Tuner, Refusals) {
  Context c = context();
  Module m = module(c, inPlaceText);
  Function f = m.kernel("twice").value();
  EXPECT_EQ(Autotuned::create(f, {}).status().message(), "tegula_tuner_create: there are no configurations");
  std::vector<Config> unknown = {config(16, "BLOK")};
  EXPECT_EQ(Autotuned::create(f, unknown).status().message(), "tegula_tuner_create: `twice` has no parameter `BLOK`");
  EXPECT_EQ(Autotuned::create(f, configs({16}), {"m"}).status().message(),
            "tegula_tuner_create: the key names `m`, which is no parameter of `twice`");
  Autotuned tuned = Autotuned::create(f, configs({16, 32})).value();
  std::vector<float> x(16);
  Status s = Status::from(tegula_tuner_launch(
      tuned.get(), [](void *, const TegulaConfig *, int64_t *) { return 1; }, nullptr, nullptr, 0, nullptr, nullptr));
  EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_STREQ(tegula_tuner_report_json(tuned.get()), "{}");
}

} // namespace
