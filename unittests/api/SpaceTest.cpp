// Spaces from outside: searches, sketches, what is proposed for kernels of all kinds, guesses from files.
#include "Fixture.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

using namespace tegula;
using namespace tegula::test;

namespace {

bool has(const std::string &text, std::string_view part) { return text.find(part) != std::string::npos; }
size_t countOf(const std::string &text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

constexpr const char *incrementText = R"(@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
)";
auto gridOver(int64_t n) {
  return [n](ConfigView c) { return Grid((n + c["BLOCK"] - 1) / c["BLOCK"]); };
}

/// What is proposed for a call; an error's text begins with "error: ".
template <typename GridOf>
std::string proposed(const Context &context, const Function &f, GridOf grid, std::vector<Arg> args,
                     const char *device = "cpu") {
  LaunchOptions o;
  EXPECT_EQ(tegula_device_find(context.get(), device, &o.device), TEGULA_OK);
  auto call = [](void *user, const TegulaConfig *config, int64_t out[3]) -> int32_t {
    Grid g = (*static_cast<GridOf *>(user))(ConfigView(*config));
    std::copy(g.n, g.n + 3, out);
    return 0;
  };
  char *json = nullptr;
  if (tegula_propose(f.get(), call, &grid, reinterpret_cast<const TegulaArg *>(args.data()), args.size(), &o, &json) !=
      TEGULA_OK)
    return std::string("error: ") + tegula_last_error();
  std::string out = json;
  tegula_free(json);
  return out;
}

constexpr const char *kindsText = R"(
@triton.jit
def product(a, b, c, M, N, K, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    width = G * tl.cdiv(N, COLS)
    first = pid // width * G
    size = min(tl.cdiv(M, ROWS) - first, G)
    m = (first + pid % width % size) * ROWS + tl.arange(0, ROWS)
    n = pid % width // size * COLS + tl.arange(0, COLS)
    k = tl.arange(0, DEPTH)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, K, DEPTH):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        y = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=(n < N)[None, :] & (start + k < K)[:, None], other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])

@triton.jit
def two_products(q, k, v, o, N, P: tl.constexpr, Q: tl.constexpr, D: tl.constexpr):
    m = tl.program_id(0) * P + tl.arange(0, P)
    d = tl.arange(0, D)
    n = tl.arange(0, Q)
    x = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((P, D), tl.float32)
    for start in range(0, N, Q):
        s = tl.dot(x, tl.load(k + (start + n)[None, :] * D + d[:, None]))
        acc = tl.dot(tl.exp(s), tl.load(v + (start + n)[:, None] * D + d[None, :]), acc)
    tl.store(o + m[:, None] * D + d[None, :], acc)

@triton.jit
def row_sum(x, y, cols, WIDTH: tl.constexpr):
    c = tl.arange(0, WIDTH)
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)))

@triton.jit
def flagged(x, y, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if TWICE:
        v += v
    tl.store(y + i, v, mask=i < n)

@triton.jit
def persistent(x, y, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    per = tl.cdiv(n, BLOCK * PARTS) * BLOCK
    start = tl.program_id(0) * per
    for at in range(start, min(start + per, n), BLOCK):
        i = at + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def staged(x, y, n, BLOCK: tl.constexpr, AHEAD: tl.constexpr):
    for at in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=AHEAD):
        i = at + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def whole(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
)";

} // namespace

TEST(Space, AllOfASmallOneAreTimed) {
  Context c = context();
  Module m = module(c, incrementText);
  Autotuned tuned = Autotuned::search(m.kernel("add").value(),
                                      {{{"BLOCK", "powers(16, 128)"}, {"num_warps", "4, 8"}},
                                       [](ConfigView v) { return v["BLOCK"] > 16 || v.raw().num_warps == 8; }})
                        .value();
  EXPECT_EQ(tuned.configName(0), "BLOCK: 16, num_warps: 8");
  EXPECT_EQ(tuned.configName(6), "BLOCK: 128, num_warps: 8");
  EXPECT_EQ(tuned.configName(7), "");
  EXPECT_EQ(tegula_tuner_config(tuned.get(), 1)->num_warps, 4);
  std::vector<float> x(300, 1.f), y(300);
  Status s = tuned(gridOver(300), {std::span(x), std::span(y), 300});
  ASSERT_TRUE(s) << s.message();
  EXPECT_EQ(y, std::vector<float>(300, 2.f));
  EXPECT_EQ(countOf(tuned.report(), "\"state\":\"ok\""), 7u) << tuned.report();
}

TEST(Space, LargeOnesAreSearched) {
  Context c = context();
  Module m = module(c, incrementText);
  Space space{{{"BLOCK", "powers(16, 4096)"}, {"num_warps", "1, 2, 4, 8"}, {"num_stages", "range(1, 5)"}}, {}};
  std::vector<float> x(5000, 1.f), y(5000);
  TunerOptions all;
  all.search = 0;
  for (bool searched : {true, false}) {
    Autotuned tuned = Autotuned::search(m.kernel("add").value(), space, {}, searched ? TunerOptions() : all).value();
    Status s = tuned(gridOver(5000), {std::span(x), std::span(y), 5000});
    ASSERT_TRUE(s) << s.message();
    EXPECT_EQ(y, std::vector<float>(5000, 2.f));
    EXPECT_EQ(has(tuned.report(), "\"state\":\"untried\""), searched);
    EXPECT_EQ(countOf(tuned.report(), "\"config\":"), 144u);
  }
}

TEST(Space, Refusals) {
  Context c = context();
  Module m = module(c, incrementText);
  Function f = m.kernel("add").value();
  auto errorOf = [&](Space s) { return Autotuned::search(f, s).status().message(); };
  EXPECT_EQ(errorOf({}), "tegula_tuner_create_space: the space has no axes");
  EXPECT_EQ(errorOf({{{"BLOK", "16"}}, {}}), "`add` has no parameter `BLOK`");
  EXPECT_EQ(errorOf({{{"BLOCK", "powers(0, 4)"}}, {}}), "`BLOCK`: `powers(0, 4)` has no end");
  EXPECT_EQ(errorOf({{{"BLOCK", "16"}, {"num_stages", "0"}}, {}}), "`num_stages`: takes positive numbers");
  EXPECT_EQ(errorOf({{{"BLOCK", "16"}, {"BLOCK", "32"}}, {}}), "`add`: there are two axes `BLOCK`");
  EXPECT_EQ(errorOf({{{"BLOCK", "16"}}, [](ConfigView) { return false; }}),
            "`add`: the constraint leaves no configuration");
  TegulaAxis axis{"BLOCK", "16", nullptr, 0};
  TegulaSpace space{
      sizeof space, &axis, 1,
      [](void *, const TegulaConfig *) { return -int32_t(tegula_fail(TEGULA_INVALID_ARGUMENT, "cannot tell")); },
      nullptr};
  TegulaTuner *t = nullptr;
  EXPECT_EQ(tegula_tuner_create_space(f.get(), &space, nullptr, &t), TEGULA_INVALID_ARGUMENT);
  EXPECT_STREQ(tegula_last_error(), "cannot tell");
  EXPECT_EQ(tegula_tuner_create_space(nullptr, &space, nullptr, &t), TEGULA_INVALID_ARGUMENT);
  EXPECT_STREQ(tegula_last_error(), "tegula_tuner_create_space: null argument");
}

TEST(Sketch, IsEstimatedAsTheKernelIs) {
  Context c = context();
  Module m = module(c, incrementText);
  Function f = m.kernel("add").value();
  std::vector<float> x(4096), y(4096);
  Value block = Value::of(256);
  for (const char *device : {"cpu", "sim"}) {
    LaunchOptions o;
    ASSERT_EQ(tegula_device_find(c.get(), device, &o.device), TEGULA_OK);
    TegulaArg args[] = {tegula_ptr(x.data(), TEGULA_FP32, 4 * 4096), tegula_ptr(y.data(), TEGULA_FP32, 4 * 4096),
                        tegula_int(4096), tegula_constant(block.get())};
    TegulaKernel *sketch = nullptr, *kernel = nullptr;
    ASSERT_EQ(tegula_sketch(f.get(), args, 4, &o, &sketch), TEGULA_OK) << tegula_last_error();
    ASSERT_EQ(tegula_compile(f.get(), args, 4, &o, &kernel), TEGULA_OK) << tegula_last_error();
    int64_t grid[3] = {16, 1, 1};
    double a = 0, b = 1;
    EXPECT_EQ(tegula_kernel_estimate(sketch, grid, args, 4, &o, &a, nullptr), TEGULA_OK) << tegula_last_error();
    EXPECT_EQ(tegula_kernel_estimate(kernel, grid, args, 4, &o, &b, nullptr), TEGULA_OK) << tegula_last_error();
    EXPECT_DOUBLE_EQ(a, b) << device;
    EXPECT_EQ(tegula_kernel_launch(sketch, grid, args, 4, &o), TEGULA_UNSUPPORTED);
    EXPECT_STREQ(tegula_last_error(), "`add` is a sketch: it has no code to launch");
    char *bytes;
    size_t length;
    EXPECT_EQ(tegula_kernel_save(sketch, &bytes, &length), TEGULA_UNSUPPORTED);
    tegula_kernel_release(sketch);
    tegula_kernel_release(kernel);
  }
  TegulaKernel *none = nullptr;
  EXPECT_EQ(tegula_sketch(f.get(), nullptr, 0, nullptr, &none), TEGULA_INVALID_ARGUMENT);
  EXPECT_STREQ(tegula_last_error(), "`add`: no argument for parameter `x`");
}

TEST(Propose, ByWhatTheKernelDoes) {
  Context c = context();
  Module m = module(c, kindsText);
  std::vector<float> x(1 << 20), y(1 << 20), z(1 << 20);
  auto args = [&](std::initializer_list<Arg> a) { return std::vector<Arg>(a); };
  auto cdiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };

  std::string r = proposed(
      c, m.kernel("product").value(), [&](ConfigView v) { return Grid(cdiv(500, v["ROWS"]) * cdiv(700, v["COLS"])); },
      args({std::span(x), std::span(y), std::span(z), 500, 700, 60}));
  EXPECT_TRUE(has(r, "\"kind\":\"matmul\"")) << r;
  EXPECT_TRUE(has(r, R"({"name":"ROWS","role":"m","values":[16,32,64,128,256])")) << r;
  EXPECT_TRUE(has(r, R"({"name":"COLS","role":"n","values":[16,32,64,128,256])")) << r;
  EXPECT_TRUE(has(r, R"({"name":"DEPTH","role":"k","values":[16,32,64],"reason":"depth of a product, and one of 64 holds all"})")) << r;
  EXPECT_TRUE(has(r, R"({"name":"G","role":"order","values":[1,4,8])")) << r;
  EXPECT_FALSE(has(r, "\"name\":\"num_warps\"")) << "a CPU has none";

  r = proposed(
      c, m.kernel("product").value(), [&](ConfigView v) { return Grid(cdiv(500, v["ROWS"]) * cdiv(700, v["COLS"])); },
      args({std::span(x), std::span(y), std::span(z), 500, 700, 60}), "sim");
  EXPECT_TRUE(has(r, R"({"name":"num_warps","role":"warps","values":[4,8])") && has(r, "\"name\":\"num_stages\"")) << r;

  Value d = Value::of(64);
  auto rows = [&](ConfigView v) { return Grid(cdiv(512, v["P"])); };
  r = proposed(
      c, m.kernel("two_products").value(), rows,
      args({std::span(x), std::span(y), std::span(z), std::span(x), 512, Arg(TegulaArg{}), Arg(TegulaArg{}), d}));
  EXPECT_TRUE(has(r, "\"kind\":\"attention\"")) << r;
  EXPECT_TRUE(has(r, R"({"name":"P","role":"m")") && has(r, "{\"name\":\"Q\",\"role\":\"")) << r;
  EXPECT_EQ(
      proposed(c, m.kernel("two_products").value(), rows,
               args({std::span(x), std::span(y), std::span(z), std::span(x), 512})),
      "error: `two_products`: no value can be proposed for `D`: it is the extent of a tile that is all there is, and no mask says how large that must be; give it a value");

  // The tile is the row: smaller ones would leave columns out.
  r = proposed(
      c, m.kernel("row_sum").value(), [](ConfigView) { return Grid(300); }, args({std::span(x), std::span(y), 1025}));
  EXPECT_TRUE(has(r, "\"kind\":\"rows\"") && has(r, R"({"name":"WIDTH","role":"whole","values":[2048])")) << r;
  r = proposed(
      c, m.kernel("row_sum").value(), [](ConfigView) { return Grid(300); }, args({std::span(x), std::span(y), 1024}));
  EXPECT_TRUE(has(r, R"({"name":"WIDTH","role":"whole","values":[1024])")) << r;

  r = proposed(
      c, m.kernel("persistent").value(), [](ConfigView v) { return Grid(v["PARTS"]); },
      args({std::span(x), std::span(y), 100000}));
  EXPECT_TRUE(has(r, "\"kind\":\"elementwise\"") && has(r, R"({"name":"PARTS","role":"split","values":[1,2,4,8])") && has(r, R"({"name":"BLOCK","role":"tile")")) << r;

  r = proposed(
      c, m.kernel("staged").value(), [](ConfigView) { return Grid(4); }, args({std::span(x), std::span(y), 100000}));
  EXPECT_TRUE(has(r, R"({"name":"AHEAD","role":"stages","values":[2])") && has(r, R"({"name":"BLOCK","role":"tile")")) << r;
  r = proposed(
      c, m.kernel("staged").value(), [](ConfigView) { return Grid(4); }, args({std::span(x), std::span(y), 100000}),
      "sim");
  EXPECT_TRUE(has(r, R"({"name":"AHEAD","role":"stages","values":[1,2,3,4])")) << r;

  // What only the caller knows.
  EXPECT_EQ(
      proposed(c, m.kernel("flagged").value(), gridOver(5000), args({std::span(x), std::span(y), 5000})),
      "error: `flagged`: no value can be proposed for `TWICE`: it changes neither tiles nor their number nor their order; give it a value");
  EXPECT_TRUE(
      has(proposed(
              c, m.kernel("whole").value(), [](ConfigView) { return Grid(1); }, args({std::span(x), std::span(y), 64})),
          "error: `whole`: no value can be proposed for `BLOCK`"));
  Value block = Value::of(64);
  EXPECT_EQ(proposed(
                c, m.kernel("whole").value(), [](ConfigView) { return Grid(1); },
                args({std::span(x), std::span(y), 64, block})),
            "error: `whole`: no constexpr parameter is left to be proposed: all have values");
}

TEST(Propose, TunersTakeIt) {
  Context c = context();
  Module m = module(c, kindsText);
  Autotuned tuned = Autotuned::automatic(m.kernel("row_sum").value()).value();
  for (int64_t cols : {100, 1000}) {
    std::vector<float> x(static_cast<size_t>(8 * cols), 1.f), y(8);
    Status s = tuned([](ConfigView) { return Grid(8); }, {std::span(x), std::span(y), cols});
    ASSERT_TRUE(s) << s.message();
    EXPECT_EQ(y, std::vector<float>(8, static_cast<float>(cols)));
    EXPECT_TRUE(has(tuned.report(), "\"recipe\":{\"kind\":\"rows\"")) << tuned.report();
  }
  EXPECT_EQ(tuned.configName(0), "WIDTH: 128");
  EXPECT_EQ(tuned.configName(1), "WIDTH: 1024") << "each choice has configurations of its own";
}

TEST(Guess, AnotherVersionsChoiceIsTriedFirst) {
  std::filesystem::path dir = std::filesystem::temp_directory_path() / ("tegula-guess-" + std::to_string(getpid()));
  std::filesystem::remove_all(dir);
  const char *given = getenv("TEGULA_TUNE_DIR");
  const std::optional<std::string> before = given ? std::optional<std::string>(given) : std::nullopt;
  setenv("TEGULA_TUNE_DIR", dir.c_str(), 1);
  std::vector<float> x(300, 1.f), y(300);
  auto tune = [&](bool deterministic) {
    Context c = context();
    Module m = module(c, incrementText);
    TunerOptions o;
    o.deterministic = deterministic;
    Autotuned tuned = Autotuned::search(m.kernel("add").value(), {{{"BLOCK", "16, 256"}}, {}}, {}, o).value();
    Status s = tuned(gridOver(300), {std::span(x), std::span(y), 300});
    EXPECT_TRUE(s) << s.message();
    return tuned.report();
  };
  EXPECT_FALSE(has(tune(false), "\"guess\""));
  // As if another version had found this out, and chosen the other one.
  for (const auto &file : std::filesystem::directory_iterator(dir / "tune")) {
    if (file.path().extension() != ".json") continue;
    std::ifstream in(file.path());
    std::string text = (std::stringstream() << in.rdbuf()).str(),
                version = std::string("\"version\": \"") + tegula_version();
    in.close();
    size_t at = text.find(version);
    ASSERT_NE(at, text.npos) << text;
    text.replace(at, text.find('"', at + version.size()) - at, "\"version\": \"0.0.1");
    at =
        text.find("\"choice\": {\"config\": \"BLOCK: ") + std::string_view("\"choice\": {\"config\": \"BLOCK: ").size();
    text.replace(at, text.find('"', at) - at, "16");
    std::ofstream(file.path()) << text;
  }
  std::string r = tune(true);
  EXPECT_TRUE(has(r, "\"guess\":{\"config\":\"BLOCK: 16\",") && has(r, "\"version\":\"0.0.1\",\"used\":\"chosen\"}") &&
              has(r, "\"by\":\"model\",") && has(r, "\"chosen\":0"))
      << r;
  r = tune(false);
  EXPECT_TRUE(has(r, "\"version\":\"0.0.1\",\"used\":\"first\"}") && has(r, "\"by\":\"measured\"")) << r;
  EXPECT_FALSE(has(tune(false), "\"guess\"")) << "what was measured needs no guess";
  before ? setenv("TEGULA_TUNE_DIR", before->c_str(), 1) : unsetenv("TEGULA_TUNE_DIR");
  std::filesystem::remove_all(dir);
}
