// Bound launches: what they run, what they refuse, what they keep; captured into a graph of the stand-in's driver.
#include "Fixture.h"
#include "StandIn.h"
#include <thread>

using namespace tegula;
using namespace tegula::test;

namespace {
constexpr int n = 64;
struct Arrays {
  alignas(64) float x[n], y[n], out[n + 16] = {};
  Arrays() {
    for (int i = 0; i < n; ++i) x[i] = float(i), y[i] = 0.5f;
  }
  bool holds(int count) const {
    for (int i = 0; i < n; ++i)
      if (out[i] != (i < count ? float(i) + 0.5f : 0)) return false;
    return true;
  }
};
LaunchOptions on(int32_t device) {
  LaunchOptions o;
  o.device = device;
  return o;
}
} // namespace

TEST(Bound, CallsGiveAllArgumentsOrNone) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  for (int32_t device : {TEGULA_DEVICE_INDEX_CPU, TEGULA_DEVICE_INDEX_SIM}) {
    Arrays a;
    BoundLaunch again = add.bind(4, {std::span(a.x), std::span(a.y), std::span(a.out), n, 16}, on(device)).value();
    EXPECT_TRUE(a.holds(0)) << "binding runs nothing";
    ASSERT_TRUE(again());
    EXPECT_TRUE(a.holds(n));
    // Others of the class; what is left out at the end, is missing, or is `same` is as it was bound. Constants may be
    // said again.
    Arrays b;
    ASSERT_TRUE(again({std::span(b.x), std::span(b.y), std::span(b.out), 32}));
    EXPECT_TRUE(b.holds(32));
    Arrays d;
    ASSERT_TRUE(again({same, same, std::span(d.out), 48, 16}));
    EXPECT_TRUE(d.holds(48));
    Arrays e;
    ASSERT_TRUE(again.with(2)({same, same, std::span(e.out)}));
    EXPECT_TRUE(e.holds(32)) << "two programs";
    ASSERT_TRUE(again.with(0)({same, same, std::span(e.x)}));
    EXPECT_EQ(e.x[7], 7) << "no program";
    EXPECT_EQ(std::string(again.kernel().info().signature), "x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32:16, BLOCK:16");
  }
}

TEST(Bound, AnotherClassIsRefused) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  Arrays a;
  BoundLaunch again = add.bind(4, {std::span(a.x), std::span(a.y), std::span(a.out), n, 16}).value();
  auto text = [&](std::vector<Arg> args) {
    Status s = again(args);
    EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
    EXPECT_TRUE(a.holds(0));
    return s.message();
  };
  const Arg x(std::span(a.x)), y(std::span(a.y)), out(std::span(a.out));
  double wide[n];
  EXPECT_EQ(
      text({std::span(wide), y, out, n}),
      "`add`: argument `x` is `x:*fp64:16`, and was `x:*fp32:16` when the launch was bound; bind anew, or launch the function");
  EXPECT_EQ(text({x, y, std::span(a.out).subspan(1), n}).substr(0, 62),
            "`add`: argument `out` is `out:*fp32`, and was `out:*fp32:16` w");
  EXPECT_EQ(text({x, y, out, 63}).substr(0, 54), "`add`: argument `n` is `n:i32`, and was `n:i32:16` whe");
  EXPECT_EQ(text({x, y, out, 1}).substr(0, 50), "`add`: argument `n` is `n:1`, and was `n:i32:16` w");
  EXPECT_EQ(text({x, y, out, int64_t(1) << 40}).substr(0, 56),
            "`add`: argument `n` is `n:i64:16`, and was `n:i32:16` wh");
  EXPECT_EQ(text({x, y, out, 2.0}).substr(0, 51), "`add`: argument `n` is `n:fp32`, and was `n:i32:16`");
  EXPECT_EQ(text({x, y, out, n, 32}).substr(0, 51), "`add`: argument `BLOCK` is `BLOCK:32`, and was `BLO");
  EXPECT_EQ(text({x, y, x, n}).substr(0, 55), "`add`: argument `out` is `out:*fp32:16:x`, and was `out");
  EXPECT_NE(text({x, std::span(a.out).subspan(16), out, n}).find(":~1"), std::string::npos);
  EXPECT_NE(text({std::span<const float>(), y, out, n}).find("a pointer is null"), std::string::npos);
  EXPECT_NE(text({tegula_ptr(reinterpret_cast<void *>(uintptr_t(1) << 32), TEGULA_FP32, int64_t(1) << 33), y, out, n})
                .find("argument `x` is of 2^30 elements or more"),
            std::string::npos);
  EXPECT_NE(
      text({x, y, tegula_const_ptr(a.out, TEGULA_FP32, n * 4), n}).find("is read-only, but the kernel stores to it"),
      std::string::npos);
  EXPECT_NE(text({x, y, out, n, 16, 5}).find("takes 5 arguments, 6 were given"), std::string::npos);
  EXPECT_EQ(again.with({-1})().code(), TEGULA_INVALID_ARGUMENT);
  // One that was bound to a shared buffer takes such calls, and no others.
  BoundLaunch in = add.bind(4, {x, y, x, n, 16}).value();
  ASSERT_TRUE(in({x, y, x, n}));
  EXPECT_EQ(a.x[3], 3.5f);
  EXPECT_EQ(in({x, y, out, n}).code(), TEGULA_INVALID_ARGUMENT);
}

// A call is compared with the one that was bound, argument by argument; what differs in one thing alone is still seen.
TEST(Bound, ACallThatDiffersInOneThing) {
  Context c = context();
  Module m = module(c, std::string(addText) + R"(
@triton.jit
def several(x, out, big, flag, half, kind, T: tl.constexpr, odd):
    tl.store(out, tl.load(x) + big + flag + half + odd)
    tl.store(out + 1, tl.full([], 7.5, T) if kind is None else kind)
)");
  Function add = m.kernel("add").value();
  alignas(64) float memory[4 * n] = {};
  const auto at = [&](int i, int count, bool readOnly = false) {
    return readOnly ? Arg(tegula_const_ptr(memory + i, TEGULA_FP32, count * 4))
                    : Arg(tegula_ptr(memory + i, TEGULA_FP32, count * 4));
  };
  const auto takes = [&](const BoundLaunch &b, std::initializer_list<Arg> args) {
    const Status s = b(args);
    EXPECT_TRUE(s || s.code() == TEGULA_INVALID_ARGUMENT) << s.message();
    return bool(s);
  };
  BoundLaunch again = add.bind(1, {at(0, n), at(n, n), at(2 * n, n), 16, 16}).value();
  EXPECT_TRUE(takes(again, {at(0, n), at(n, n), at(2 * n, n), 16}));
  EXPECT_TRUE(takes(again, {at(0, n), at(n, n, true), at(2 * n, n), 16})) << "read-only";
  EXPECT_FALSE(takes(again, {at(0, n), at(n, n), at(2 * n, n, true), 16})) << "read-only, and stored to";
  EXPECT_FALSE(takes(again, {at(0, n), at(n, n + 16), at(2 * n, n), 16})) << "a longer one reaches into the next";
  EXPECT_TRUE(takes(again, {at(0, n), at(n, n - 16), at(2 * n - 16, n), 16})) << "both have moved";
  BoundLaunch shares = add.bind(1, {at(0, n + 16, true), at(n, n, true), at(2 * n, n), 16, 16}).value();
  EXPECT_TRUE(takes(shares, {at(0, n + 32, true), at(n, n, true), at(2 * n, n), 16})) << "nobody writes there";
  EXPECT_FALSE(takes(shares, {at(0, n + 16), at(n, n, true), at(2 * n, n), 16})) << "somebody may";

  // Each number at the edges of its class.
  constexpr int64_t big = (int64_t(1) << 31) + 1;
  BoundLaunch numbers = m.kernel("several")
                            .value()
                            .bind(1, {at(0, n), at(n, n), big, true, 0.5, Value::none(), Value::dtype("tl.float32"), 7})
                            .value();
  const auto got = [&](std::initializer_list<Arg> args) {
    return memory[n] = memory[n + 1] = 0, takes(numbers, args) ? memory[n] : -1;
  };
  memory[0] = 1;
  EXPECT_EQ(got({same, same, same, same, same, same, same, same}), float(big) + 9.5f);
  EXPECT_EQ(memory[n + 1], 7.5f);
  EXPECT_EQ(got({at(0, n), at(n, n), -big - 64, false, -3.25, Value::none(), Value::dtype("tl.float32"), -9}),
            float(-big - 64) - 11.25f);
  for (int64_t other : {int64_t(1) << 40, int64_t(INT32_MAX), int64_t(INT32_MIN), int64_t(1), int64_t(0)})
    EXPECT_EQ(got({same, same, other}), -1) << other;
  for (int64_t other :
       {int64_t(16), int64_t(0), int64_t(1), int64_t(-32), int64_t(INT32_MAX) + 2, int64_t(INT32_MIN) - 1})
    EXPECT_EQ(got({same, same, same, same, same, same, same, other}), -1) << other;
  for (int64_t other : {int64_t(INT32_MAX), int64_t(INT32_MIN) + 1, int64_t(-1), int64_t(2)})
    EXPECT_NE(got({same, same, same, same, same, same, same, other}), -1) << other;
  EXPECT_EQ(got({same, same, same, 1}), -1) << "an int for a bool";
  EXPECT_EQ(got({same, same, same, same, 1}), -1) << "an int for a float";
  EXPECT_EQ(got({same, same, same, same, same, 3}), -1) << "an int for None";
  EXPECT_EQ(got({same, same, same, same, same, same, Value::dtype("tl.float16")}), -1);

  // A parameter that a call leaves out and that has no default is missing, whatever an earlier launch gave.
  Function f = m.kernel("several").value();
  const Value none = Value::none(), type = Value::dtype("tl.float32");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(f(1, {at(0, n), at(n, n), big, true, 0.5, nullptr, type, 7}));
  TegulaArg left = Arg(same).raw();
  EXPECT_EQ(f(1, {at(0, n), at(n, n), big, true, 0.5, left, type, 7}).code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(f(1, {at(0, n), at(n, n), big, true, 0.5, none, left, 7}).code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(f(1, {at(0, n), at(n, n), big, true, 0.5, nullptr, type}).code(), TEGULA_INVALID_ARGUMENT);
}

// Checked accesses, tuples, descriptors and null pointers have no Repeat: their class is compared by its key.
TEST(Bound, LongWay) {
  Context c = context();
  Module m = module(c, std::string(addText) + R"(
@triton.jit
def scale(a, b, by):
    i = tl.program_id(0) * a.block_shape[0]
    b.store([i, 0], a.load([i, 0]) * by)

@triton.jit
def pairs(out, p, COUNT: tl.constexpr):
    tl.store(out, p[0] * 100 + p[1])
    tl.static_assert(COUNT[1] == 5)

@triton.jit
def untouched(x, out):
    tl.store(out, 7.0)
)");
  Arrays a;
  LaunchOptions checked;
  checked.checked = 1;
  BoundLaunch again =
      m.kernel("add").value().bind(4, {std::span(a.x), std::span(a.y), std::span(a.out), n, 16}, checked).value();
  ASSERT_TRUE(again({same, same, same, 48}));
  EXPECT_TRUE(a.holds(48));
  EXPECT_EQ(again({same, same, std::span(a.out).subspan(0, 4), 48}).code(), TEGULA_FAULT);
  EXPECT_EQ(again({same, same, same, 49}).code(), TEGULA_INVALID_ARGUMENT);

  constexpr int rows = 10, width = 16;
  alignas(64) float from[rows * width], to[rows * width] = {}, other[rows * width] = {};
  for (int i = 0; i < rows * width; ++i) from[i] = float(i);
  auto descriptor = [&](float *p, int block) {
    return TensorDescriptor(std::span(p, rows * width), {rows, 12}, {width, 1}, {block, 16});
  };
  TensorDescriptor in = descriptor(from, 4), out = descriptor(to, 4), there = descriptor(other, 4),
                   wrong = descriptor(other, 2);
  std::optional<BoundLaunch> scale;
  {
    TensorDescriptor brief = descriptor(from, 4), gone = descriptor(to, 4); // the argument's parts are copied
    scale = m.kernel("scale").value().bind(3, {brief.arg(), gone.arg(), 2}).value();
  }
  ASSERT_TRUE((*scale)());
  EXPECT_EQ(to[width + 2], 2 * from[width + 2]);
  ASSERT_TRUE((*scale)({in.arg(), there.arg(), 3}));
  EXPECT_EQ(other[width + 2], 3 * from[width + 2]);
  EXPECT_EQ((*scale)({in.arg(), wrong.arg(), 3}).code(), TEGULA_INVALID_ARGUMENT);

  float result = 0;
  std::optional<BoundLaunch> pairs;
  {
    const TegulaArg items[] = {tegula_int(3), tegula_int(4)}, constants[] = {tegula_int(2), tegula_int(5)};
    TegulaArg p{}, k{};
    p.kind = k.kind = TEGULA_ARG_TUPLE, p.count = k.count = 2, p.u.items = items, k.u.items = constants;
    pairs = m.kernel("pairs").value().bind(1, {std::span(&result, 1), p, k}).value();
  }
  ASSERT_TRUE((*pairs)());
  EXPECT_EQ(result, 304);
  const TegulaArg others[] = {tegula_int(5), tegula_int(1)};
  TegulaArg p{};
  p.kind = TEGULA_ARG_TUPLE, p.count = 2, p.u.items = others;
  EXPECT_EQ((*pairs)({same, p}).code(), TEGULA_INVALID_ARGUMENT) << "1 is a constant";

  float *none = nullptr;
  BoundLaunch empty = m.kernel("untouched").value().bind(1, {std::span(none, 0), std::span(&result, 1)}).value();
  ASSERT_TRUE(empty());
  EXPECT_EQ(result, 7);
  ASSERT_TRUE(empty({std::span(from), std::span(to)})) << "whatever the addresses";
}

// Handles keep what they need; threads share one.
TEST(Bound, LivesOnItsOwn) {
  BoundLaunch again;
  std::vector<Arrays> all(4);
  {
    Context c = context();
    again = module(c, addText)
                .kernel("add")
                .value()
                .bind(4, {std::span(all[0].x), std::span(all[0].y), std::span(all[0].out), n, 16})
                .value();
  }
  std::vector<std::thread> threads;
  for (Arrays &a : all)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i)
        if (!again({std::span(a.x), std::span(a.y), std::span(a.out), i % 2 ? n : 32})) a.x[0] = -1;
    });
  for (std::thread &t : threads) t.join();
  for (Arrays &a : all) EXPECT_TRUE(a.holds(n));
  TegulaBoundLaunch *b = nullptr;
  EXPECT_EQ(tegula_bound_create(nullptr, nullptr, nullptr, 0, nullptr, &b), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_bound_launch(nullptr, nullptr, nullptr, 0, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_bound_kernel(nullptr), nullptr);
  TegulaLaunchOptions unset{};
  EXPECT_EQ(tegula_bound_launch(again.get(), nullptr, nullptr, 0, &unset), TEGULA_INVALID_ARGUMENT);
}

TEST(Bound, CompileErrorsAndGridsAreSaidWhenItIsBound) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  Arrays a;
  EXPECT_EQ(add.bind(-1, {std::span(a.x), std::span(a.y), std::span(a.out), n, 16}).status().code(),
            TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(add.bind(1, {std::span(a.x), std::span(a.y), std::span(a.out), n, Value::of(std::string_view("16"))})
                .status()
                .code(),
            TEGULA_COMPILE_ERROR);
  EXPECT_EQ(add.bind(1, {std::span(a.x)}).status().code(), TEGULA_INVALID_ARGUMENT);
  LaunchOptions o;
  o.num_warps = 3;
  EXPECT_EQ(add.bind(1, {std::span(a.x), std::span(a.y), std::span(a.out), n, 16}, o).status().code(),
            TEGULA_INVALID_ARGUMENT);
}

TEST(Bound, TypedFunctions) {
  Context c = context();
  Module m = module(c, addText);
  Arrays a, b;
  auto add = m.function<void(std::span<const float>, std::span<const float>, std::span<float>, int)>(
                  "add", {{"BLOCK", Value::of(16)}})
                 .value();
  const auto again = add.bind(4, a.x, a.y, a.out, n).value();
  ASSERT_TRUE(again());
  EXPECT_TRUE(a.holds(n));
  ASSERT_TRUE(again(a.x, a.y, b.out, 32));
  EXPECT_TRUE(b.holds(32));
  Arrays d;
  ASSERT_TRUE(again.with(1)(same, same, d.out, same));
  EXPECT_TRUE(d.holds(16));
  EXPECT_EQ(again(same, same, same, 7).code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(again(d.x, d.y, d.out, 7).code(), TEGULA_INVALID_ARGUMENT);
  ASSERT_TRUE(again.with(4)(d.x, d.x, d.out, n)) << "one array for two parameters that are only read";
  EXPECT_EQ(d.out[n - 1], 2 * d.x[n - 1]);
  EXPECT_EQ(again.with(-1)(d.x, d.y, d.out, n).code(), TEGULA_INVALID_ARGUMENT);
}

// Arguments of known types go as words into the block, each in its width, where they are of the class that was bound.
TEST(Bound, TypedArgumentsAreWords) {
  Context c = context();
  Module m = module(c, R"(
import triton
import triton.language as tl
@triton.jit
def several(x, out, big, flag, half, wide, odd, N: tl.constexpr, small):
    tl.store(out, tl.load(x) + big + flag + half + wide + odd + small + N)
)");
  auto f = m.function<void(const float *, double *, int64_t, bool, float, double, int, unsigned)>(
                "several", {{"N", Value::of(16)}})
               .value();
  alignas(64) float x[32] = {1, 2};
  alignas(64) double out[64] = {};
  const auto again = f.bind(1, x, out, int64_t(1) << 20, true, 0.5f, 0.25, 7, 32u).value();
  const auto got = [&](const float *from, double *to, auto... rest) {
    return to[0] = -1, again(from, to, rest...) ? to[0] : -1;
  };
  EXPECT_EQ(got(x, out, int64_t(1) << 20, true, 0.5f, 0.25, 7, 32u), (1 << 20) + 57.75);
  EXPECT_EQ(got(x + 16, out + 32, int64_t(-16), false, -1.5f, 1e9, -3, 1u << 31), 1e9 + 2147483648.0 - 4.5);
  EXPECT_EQ(got(x, out, int64_t(15), true, 0.5f, 0.25, 7, 32u), -1) << "no multiple of 16";
  EXPECT_EQ(got(x, out, int64_t(16), true, 0.5f, 0.25, 16, 32u), -1) << "a multiple of 16";

  const auto words = [&](const void *from, int64_t bytes, const void *to, int64_t n7, size_t count = 8) {
    const uint64_t all[] = {
        reinterpret_cast<uintptr_t>(from), reinterpret_cast<uintptr_t>(to), 16, 1, 0, 0, static_cast<uint64_t>(n7), 32};
    const int64_t extents[] = {bytes, -1};
    TegulaStatus status = TEGULA_OK;
    const bool ran =
        tegula_bound_launch_words(again.untyped().get(), nullptr, all, count, extents, 2, nullptr, &status);
    EXPECT_EQ(status, TEGULA_OK);
    return ran;
  };
  EXPECT_TRUE(words(x, -1, out, 7));
  EXPECT_EQ(out[0], 1 + 16 + 1 + 7 + 32 + 16);
  EXPECT_TRUE(words(x + 16, 64, out + 32, -9));
  EXPECT_FALSE(words(x, -1, out, 8 * 16)) << "a multiple of 16";
  EXPECT_FALSE(words(x + 1, -1, out, 7)) << "not aligned";
  EXPECT_FALSE(words(nullptr, -1, out, 7));
  EXPECT_FALSE(words(out, -1, out, 7)) << "memory that is read and written";
  EXPECT_FALSE(words(x, int64_t(1) << 32, out, 7)) << "2^30 elements";
  EXPECT_FALSE(words(x, -1, out, 7, 7));
  EXPECT_EQ(tegula_bound_launch_words(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr), 0);
  // Bound with shared memory, calls are looked at argument by argument.
  auto add =
      m.function<void(float *, float *, int64_t, bool, float, double, int, unsigned)>("several", {{"N", Value::of(16)}})
          .value();
  const auto in = add.bind(1, x, x, int64_t(16), false, 0.f, 0., 7, 32u).value();
  x[0] = 1;
  ASSERT_TRUE(in(x, x, int64_t(16), false, 0.f, 0., 7, 32u));
  EXPECT_EQ(x[0], 1 + 16 + 7 + 32 + 16);
  EXPECT_EQ(in(x, x + 16, int64_t(16), false, 0.f, 0., 7, 32u).code(), TEGULA_INVALID_ARGUMENT);
}

// A call on a stream that is captured becomes a node of the graph, whoever captures it.
TEST(BoundDeathTest, CapturedIntoACudaGraph) {
  expectWithStandIn("0 3 6 32x4 48x4 64x4 refused", [] {
    Context c = context();
    Device d = c.device("cuda:0").value();
    Stream s = d.stream().value();
    auto x = d.allocate<float>(n).value(), out = d.allocate<float>(n).value();
    BoundLaunch again = module(c, addText).kernel("add").value().bind(4, {x, x, out, n, 16}, s).value();
    Graph g = s.record([&] {
      for (int count : {32, 48})
        if (Status st = again({same, same, same, count}); !st) return st;
      return again();
    }).value();
    const auto &launches = standIn().launches;
    std::string found = std::to_string(launches.size()) + " " + std::to_string(g.size());
    for (int i = 0; i < 2; ++i)
      if (!g.launch(s)) return std::string("the graph does not run");
    found += " " + std::to_string(launches.size());
    for (size_t i = 0; i < 3; ++i)
      found += " " + std::to_string(launches[i].arguments[24]) + "x" + std::to_string(launches[i].config.gridX);
    // Memory of the host is refused before anything runs.
    alignas(64) float here[n];
    return found + (again({same, same, std::span(here), n}) ? " ran" : " refused");
  });
}

// A loop with split="auto" is shared by as many blocks as leave no multiprocessor idle, if all their clusters run at
// once.
TEST(BoundDeathTest, LoopsAreSharedAsFarAsClustersRunAtOnce) {
  expectWithStandIn("parts 8 1 1", [] {
    Context c = context();
    Function sums = module(c, R"(@triton.jit
def sums(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros([B], tl.float32)
    for k in tl.range(0, n, split="auto"):
        acc += tl.load(x + k * B + i)
    tl.store(out + tl.program_id(0) * B + i, acc)
)").kernel("sums").value();
    Device d = c.device("cuda:0").value();
    auto x = d.allocate<float>(1024).value(), out = d.allocate<float>(1 << 16).value();
    standIn().clustersThatFit = 15;
    const auto &launches = standIn().launches;
    std::string found = "parts";
    for (int programs : {15, 16, 1000}) {
      Status s = sums(programs, {x, out, n, 64}, d);
      BoundLaunch again = sums.bind(programs, {x, out, n, 64}, d).value();
      if (!s || !again()) return "a launch failed: " + s.message();
      if (launches[launches.size() - 2].config.gridX != launches.back().config.gridX)
        return std::string("a bound launch has another grid");
      found += " " + std::to_string(launches.back().config.gridX / unsigned(programs));
    }
    return found;
  });
}

// Where arguments say the device, memory of another one never comes to a kernel of the CPU.
TEST(BoundDeathTest, MemoryOfAnotherDevice) {
  expectWithStandIn("`add`: the arguments are in the memory of another device than when the launch was bound; bind anew, or launch the function", [] {
    Context c = context();
    Arrays a;
    BoundLaunch again = module(c, addText)
                            .kernel("add")
                            .value()
                            .bind(4, {std::span(a.x), std::span(a.y), std::span(a.out), n, 16})
                            .value();
    auto there = c.device("cuda:0").value().allocate<float>(n).value();
    return again({same, same, there, n}).message();
  });
}
