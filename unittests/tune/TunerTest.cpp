// The tuner with subjects that are plain functions: on a device of host memory whose clock is theirs, so that nothing
// depends on this machine.
#include "tune/Tuner.h"
#include "runtime/Dtype.h"
#include "runtime/HostMemory.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <thread>

using namespace tegula;
using namespace tegula::tune;
using runtime::Status;

namespace {
double clockNs; // ns: what the stopwatch shows

struct FakeStopwatch final : runtime::Stopwatch {
  std::vector<double> marks;
  explicit FakeStopwatch(unsigned n) : marks(n) {}
  Status mark(unsigned i, void *) override { return marks[i] = clockNs, Status::ok(); }
  Status between(unsigned a, unsigned b, double &ns) override { return ns = marks[b] - marks[a], Status::ok(); }
};
/// What is recorded is done when the slot is launched. Starting a graph takes 2000 ns.
struct FakeRecorder final : runtime::Recorder {
  std::vector<std::function<void()>> kept[slots], *open = nullptr;
  void *stream() const override { return const_cast<FakeRecorder *>(this); }
  Status record(unsigned slot, const std::function<Status()> &work, size_t &operations) override {
    std::vector<std::function<void()>> now;
    open = &now;
    Status s = work();
    open = nullptr;
    operations = s ? now.size() : 0;
    kept[slot] = s ? now : decltype(now){};
    return s;
  }
  Status launch(unsigned slot) override {
    if (!kept[slot].empty()) clockNs += 2000;
    for (auto &one : kept[slot]) one();
    return Status::ok();
  }
};
FakeRecorder *lastRecorder; // that was made

struct FakeDevice final : runtime::HostDevice {
  runtime::DeviceProperties p;
  unsigned copies = 0, copiesOut = 0;
  int held = 0, most = 1000; // blocks of memory
  bool hasGraphs = true;
  Status allocate(uint64_t bytes, void **out) override {
    if (held >= most) return *out = nullptr, Status::error(TEGULA_OUT_OF_RESOURCES, "no memory");
    return ++held, HostDevice::allocate(bytes, out);
  }
  void free(void *memory) override { held -= memory != nullptr, HostDevice::free(memory); }
  Status copyOut(void *to, const void *from, uint64_t bytes, void *stream) override {
    return ++copiesOut, HostDevice::copyOut(to, from, bytes, stream);
  }
  static constexpr double copyNs = 700;
  Status copyWithin(void *to, const void *from, uint64_t bytes, void *stream) override {
    if (!stream) return HostDevice::copyWithin(to, from, bytes, stream);
    lastRecorder->open->push_back(
        [=, this] { clockNs += copyNs, (void)HostDevice::copyWithin(to, from, bytes, nullptr); });
    return Status::ok();
  }
  std::unique_ptr<runtime::Recorder> recorder(Status &status) override {
    if (!hasGraphs) return Device::recorder(status);
    auto made = std::make_unique<FakeRecorder>();
    return lastRecorder = made.get(), std::move(made);
  }
  const runtime::DeviceProperties &properties() const override { return p; }
  std::unique_ptr<runtime::Executable> load(const runtime::KernelInfo &, std::span<const char>, Status &) override {
    return nullptr;
  }
  std::unique_ptr<runtime::Stopwatch> stopwatch(unsigned n, Status &) override {
    return std::make_unique<FakeStopwatch>(n);
  }
};

/// One configuration: what it does and how long that takes.
struct Step {
  std::string name;
  double ns = 100;
  std::function<Status()> work = [] { return Status::ok(); };
  Compiled compiled;
  std::function<void()> compiling = [] {};
  Sketch sketch{};
  Status recording{};         // what launching it on a stream that is recorded gives
  bool goesElsewhere = false; // its launches ignore the stream
};
struct Steps final : Subject {
  std::vector<Step> all;
  std::vector<unsigned> runs;
  explicit Steps(std::vector<Step> c) : all(std::move(c)), runs(all.size()) {}
  size_t count() const override { return all.size(); }
  std::string name(size_t i) const override { return all[i].name; }
  Compiled compile(size_t i) override { return all[i].compiling(), all[i].compiled; }
  std::vector<Sketch> sketch(const std::vector<size_t> &wanted, unsigned) override {
    std::vector<Sketch> out;
    for (size_t i : wanted) out.push_back(all[i].sketch);
    return out;
  }
  Status run(size_t i, void *stream) override {
    auto launch = [this, i] {
      ++runs[i];
      clockNs += all[i].ns;
      return all[i].work();
    };
    if (!stream) return launch();
    EXPECT_EQ(stream, lastRecorder->stream());
    if (!all[i].recording || all[i].goesElsewhere) return all[i].recording ? launch() : all[i].recording;
    lastRecorder->open->push_back([launch] { (void)launch(); });
    return Status::ok();
  }
};

struct TunerTest : testing::Test {
  FakeDevice device;
  Request request;
  Result result;
  std::shared_ptr<Steps> subject;
  std::vector<float> x = std::vector<float>(64, 1.f), y = std::vector<float>(64, 7.f);

  Buffer buffer(const char *name, std::vector<float> &v, bool read, bool written) {
    return {name, v.data(), static_cast<int64_t>(v.size() * 4), TEGULA_FP32, read, written};
  }
  /// A configuration that adds `by` to each of `v`.
  Step adds(const char *name, double ns, std::vector<float> &v, float by) {
    Step c{name, ns, [&v, by] { for (float &e : v) e += by; return Status::ok(); }};
    c.compiled.buffers = {buffer("v", v, true, true)};
    return c;
  }
  Status run(std::vector<Step> choices) {
    subject = std::make_shared<Steps>(std::move(choices));
    return tune::tune(subject, device, nullptr, request, result);
  }
};

Step fails(const char *name, TegulaStatus code, const char *text, bool skip) {
  Step c{name};
  c.compiled.status = Status::error(code, text);
  c.compiled.skip = skip;
  return c;
}
/// Every pair of values of the narrow types, and pairs of others, in arrays longer than a block: as one by one in
/// double.
TEST(Compare, AllFloatTypesAsOneByOne) {
  std::mt19937_64 random(7);
  for (TegulaDtype dtype : {TEGULA_FP8E5, TEGULA_FP8E4NV, TEGULA_FP8E4B15, TEGULA_FP8E4B8, TEGULA_FP8E5B16, TEGULA_FP16,
                            TEGULA_BF16, TEGULA_FP32, TEGULA_FP64}) {
    const size_t bytes = runtime::dtypeInfo(dtype).bytes, n = 3000;
    const double tolerance = toleranceOf(dtype);
    unsigned close = 0, apart = 0;
    for (unsigned trial = 0; trial < 400; ++trial) {
      std::vector<char> a(n * bytes), b;
      // Magnitudes near 1, or any bits at all.
      const bool any = trial % 4 == 0;
      const uint64_t near = dtype == TEGULA_FP64   ? 0x3ff0000000000000
                            : dtype == TEGULA_FP32 ? 0x3f800000
                            : dtype == TEGULA_BF16 ? 0x3f80
                            : dtype == TEGULA_FP16 ? 0x3c00
                                                   : 0x38;
      for (size_t i = 0; i < n; ++i) {
        uint64_t bits = any ? random() : near;
        std::memcpy(&a[i * bytes], &bits, bytes);
      }
      b = a;
      // One element is another: a little, or by any bits.
      size_t at = random() % n;
      uint64_t bits = 0;
      std::memcpy(&bits, &b[at * bytes], bytes);
      bits = trial % 3 ? bits + (uint64_t(1) << (random() % (8 * bytes))) : random();
      std::memcpy(&b[at * bytes], &bits, bytes);
      auto value = [&](const std::vector<char> &v, size_t i) {
        uint64_t one = 0;
        std::memcpy(&one, &v[i * bytes], bytes);
        return runtime::floatFromBits(dtype, one);
      };
      double largest = 0;
      for (const auto *v : {&a, &b})
        for (size_t i = 0; i < n; ++i)
          if (double x = std::fabs(value(*v, i)); std::isfinite(x)) largest = std::max(largest, x);
      double u = value(a, at), v = value(b, at);
      double distance = std::fabs(u - v), limit = tolerance * (std::max(std::fabs(u), std::fabs(v)) + largest);
      if (std::fabs(distance - limit) < 1e-5 * limit) continue; // rounding may decide
      bool expected =
          u == v || (std::isnan(u) && std::isnan(v)) || (std::isfinite(u) && std::isfinite(v) && distance <= limit);
      EXPECT_EQ(isClose(dtype, a.data(), b.data(), a.size(), tolerance), expected)
          << runtime::dtypeInfo(dtype).name << " " << u << " " << v;
      ++(expected ? close : apart);
    }
    EXPECT_GT(close, 20u) << runtime::dtypeInfo(dtype).name;
    EXPECT_GT(apart, 20u) << runtime::dtypeInfo(dtype).name;
  }
}

} // namespace

TEST_F(TunerTest, ChoosesTheFastest) {
  ASSERT_TRUE(run({{"a", 200}, {"b", 100}, {"c", 300}}));
  EXPECT_EQ(result.best, 1u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(result.outcomes[i].is(State::Ok));
  EXPECT_DOUBLE_EQ(result.outcomes[2].record->medianNs, 300);
  EXPECT_LT(subject->runs[2], 5u) << "what is far behind the best is not timed for long";
  EXPECT_GT(subject->runs[1], 20u);
}

TEST_F(TunerTest, MemoryOfInPlaceKernelsIsAsBefore) {
  ASSERT_TRUE(run({adds("a", 300, x, 2), adds("b", 100, x, 2), adds("c", 100, x, 2)}));
  EXPECT_EQ(x, std::vector<float>(64, 1.f));
  EXPECT_TRUE(result.compared);
}

TEST_F(TunerTest, WrongConfigurationIsRejectedByAMajority) {
  ASSERT_TRUE(run({adds("right", 300, x, 2), adds("wrong", 100, x, 3), adds("also right", 200, x, 2)}));
  EXPECT_EQ(result.best, 2u);
  EXPECT_TRUE(result.outcomes[1].is(State::Rejected));
  EXPECT_EQ(result.outcomes[1].record->reason, "leaves other values in `v` than most configurations do");
  EXPECT_FALSE(result.divided);
  request.validate = false;
  ASSERT_TRUE(run({adds("right", 300, x, 2), adds("wrong", 100, x, 3), adds("also right", 200, x, 2)}));
  EXPECT_EQ(result.best, 1u);
}

/// Large results stay on the device; where that is not possible, because of their type or the limit of copies, they are
/// compared here.
TEST_F(TunerTest, ResultsAreComparedOnTheDevice) {
  struct Case {
    bool knowsType;
    uint64_t limit; // of copies
    int most;       // blocks of memory that the device has; one is the copy of what is set back
  };
  for (Case c :
       {Case{true, 1 << 20, 100}, Case{false, 1 << 20, 100}, Case{true, 1 << 20, 3}, Case{true, 7 * 256, 100}}) {
    unsigned asked = 0;
    request.leastThere = 256;
    request.copyLimit = c.limit;
    request.compareThere = [&](TegulaDtype dtype, const void *a, const void *b, uint64_t bytes,
                               double tolerance) -> std::optional<bool> {
      ++asked;
      return c.knowsType ? std::optional(isClose(dtype, a, b, bytes, tolerance)) : std::nullopt;
    };
    device.held = 0, device.copiesOut = 0, device.most = c.most;
    std::vector<Step> steps;
    // More different results than are kept.
    for (int i = 0; i < 8; ++i) steps.push_back(adds("wrong", 50, x, 4.f + static_cast<float>(i)));
    for (int i = 0; i < 9; ++i)
      steps.insert(steps.begin() + 2 * i % 7, adds("right", 300.f + static_cast<float>(i), x, 2));
    ASSERT_TRUE(run(std::move(steps)));
    const bool compared = c.limit >= 8 * 256;
    EXPECT_EQ(result.compared, compared);
    EXPECT_EQ(subject->name(result.best), compared ? "right" : "wrong");
    EXPECT_EQ(asked > 0, compared);
    EXPECT_EQ(device.copiesOut > 0, compared && (!c.knowsType || c.most == 3))
        << "results that were kept on the device were copied";
    EXPECT_EQ(device.held, 0) << "memory was lost";
    EXPECT_EQ(x[0], 1.f);
  }
}

TEST_F(TunerTest, WithoutAMajorityNothingIsRejected) {
  ASSERT_TRUE(run({adds("a", 300, x, 2), adds("b", 100, x, 3)}));
  EXPECT_EQ(result.best, 1u);
  EXPECT_TRUE(result.divided);
  ASSERT_TRUE(run({adds("a", 300, x, 2), adds("b", 100, x, 2)}));
  EXPECT_FALSE(result.divided);
  request.validate = false;
  ASSERT_TRUE(run({adds("a", 300, x, 2), adds("b", 100, x, 3)}));
  EXPECT_FALSE(result.divided);
}

TEST_F(TunerTest, WhatIsOnlyWrittenIsComparedButNotSetBackEachTime) {
  Step keeps{"keeps"}, fills{"fills", 90, [this] { std::fill(y.begin(), y.end(), 3.f); return Status::ok(); }};
  keeps.compiled.buffers = fills.compiled.buffers = {buffer("y", y, false, true)};
  Step twin = fills;
  twin.name = "twin";
  ASSERT_TRUE(run({fills, keeps, twin}));
  EXPECT_TRUE(result.outcomes[1].is(State::Rejected))
      << "`keeps` writes nothing: what `fills` left must not be taken for its result";
}

TEST_F(TunerTest, ReadThroughAnotherArgument) {
  // `v` is written, `w` is read; they are the same memory.
  Step a{"a", 100, [this] { for (float &e : x) e *= 2; return Status::ok(); }};
  a.compiled.buffers = {buffer("v", x, false, true), buffer("w", x, true, false)};
  Step b = a;
  ASSERT_TRUE(run({a, b}));
  EXPECT_EQ(x, std::vector<float>(64, 1.f));
}

TEST_F(TunerTest, WhatCannotBeCopiedIsNamed) {
  request.copyLimit = 64;
  ASSERT_TRUE(run({adds("a", 300, x, 2), adds("b", 100, x, 2)}));
  EXPECT_EQ(result.blind, std::vector<std::string>{"v"});
  EXPECT_FALSE(result.compared);
}

TEST_F(TunerTest, FailuresAreSkippedWithTheirReason) {
  ASSERT_TRUE(run({fails("big", TEGULA_OUT_OF_RESOURCES, "too much", true), {"b"}, {"c", 50}}));
  EXPECT_EQ(result.best, 2u);
  EXPECT_TRUE(result.outcomes[0].is(State::Failed));
  EXPECT_EQ(result.outcomes[0].record->reason, "too much");
  Status s =
      run({fails("a", TEGULA_OUT_OF_RESOURCES, "too much", true), fails("b", TEGULA_ASSEMBLER_ERROR, "no", true)});
  EXPECT_EQ(s.code, TEGULA_OUT_OF_RESOURCES);
  EXPECT_EQ(s.text, "no configuration can be used; the first one failed with: too much");
}

TEST_F(TunerTest, WhatIsEstimatedHopelessIsNotCompiled) {
  std::atomic<unsigned> compiled{0};
  auto step = [&](const char *name, double ns, double sketchNs) {
    Step s{name, ns};
    s.compiling = [&] { ++compiled; };
    s.sketch.estimateNs = sketchNs;
    return s;
  };
  std::vector<size_t> learnt;
  request.learnt = [&](size_t i, const Outcome &o) {
    EXPECT_TRUE(o.record);
    learnt.push_back(i);
  };
  ASSERT_TRUE(run({step("hopeless", 900, 1000), step("a", 100, 150), step("b", 120, 140), step("unknown", 90, 0),
                   step("c", 110, 390)}));
  EXPECT_EQ(compiled, 4u);
  EXPECT_EQ(subject->runs[0], 0u);
  EXPECT_EQ(result.best, 3u);
  const Outcome &o = result.outcomes[0];
  ASSERT_TRUE(o.is(State::Failed));
  EXPECT_EQ(o.record->kind, "hopeless");
  // `a`: the best has no estimate
  EXPECT_EQ(o.record->reason, "not compiled: estimated to take 6.7 times as long as the best");
  EXPECT_EQ(std::set<size_t>(learnt.begin(), learnt.end()), (std::set<size_t>{0, 1, 2, 3, 4}));
}

TEST_F(TunerTest, NothingIsHopelessBeforeSomethingIsMeasured) {
  auto step = [&](Step s, double sketchNs) {
    s.sketch.estimateNs = sketchNs;
    return s;
  };
  // The one that is estimated best cannot be compiled: the others are all that there is.
  ASSERT_TRUE(run({step(fails("small", TEGULA_OUT_OF_RESOURCES, "too much", true), 10), step({"b", 100}, 200),
                   step({"c", 50}, 100), step({"d", 80}, 100)}));
  EXPECT_EQ(result.best, 2u);
  EXPECT_TRUE(result.outcomes[1].is(State::Ok) && result.outcomes[3].is(State::Ok));
  // The best that was measured has a large estimate itself: what is near it is tried, and found to be better.
  ASSERT_TRUE(run({step(fails("small", TEGULA_OUT_OF_RESOURCES, "too much", true), 10), step({"b", 100}, 40),
                   step({"c", 50}, 60), step({"d", 80}, 170)}));
  EXPECT_EQ(result.best, 2u);
  EXPECT_EQ(result.outcomes[3].record->kind, "hopeless");
  // Estimates decide nothing where a clock is not to be read.
  request.deterministic = true;
  auto modelled = [&](const char *name, double sketchNs, double ns) {
    Step s = step({name}, sketchNs);
    s.compiled.estimateNs = ns;
    return s;
  };
  ASSERT_TRUE(run({modelled("a", 10, 30), modelled("b", 100, 20), modelled("c", 10, 40), modelled("d", 10, 40)}));
  EXPECT_EQ(result.best, 1u);
}

TEST_F(TunerTest, ATuningThatWasKilledGoesOn) {
  // `wrong` was timed by a process that did not live to compare it.
  request.known.resize(3);
  request.known[0] = {Record::ok(10, 10, 10, 5, 0), 0, true};
  request.known[1] = {Record::ok(100, 100, 100, 5, 0), 0, true};
  ASSERT_TRUE(run({adds("wrong", 10, x, 3), adds("right", 100, x, 2), adds("new", 300, x, 2)}));
  EXPECT_EQ(subject->runs[0], 1u) << "once, for what it leaves";
  EXPECT_EQ(subject->runs[1], 1u);
  EXPECT_TRUE(result.outcomes[0].is(State::Rejected));
  EXPECT_EQ(result.best, 1u);
  EXPECT_EQ(result.outcomes[1].record->medianNs, 100);
  EXPECT_EQ(x, std::vector<float>(64, 1.f));
}

TEST_F(TunerTest, OtherErrorsEndTheTuningAndNameTheConfiguration) {
  Status s = run({{"a"}, fails("BLOCK: 64", TEGULA_COMPILE_ERROR, "undefined name", false)});
  EXPECT_EQ(s.code, TEGULA_COMPILE_ERROR);
  EXPECT_EQ(s.text, "configuration (BLOCK: 64): undefined name");
  Step faults = adds("BLOCK: 32", 100, x, 1);
  faults.work = [this] { x[0] = 99; return Status::error(TEGULA_FAULT, "out of bounds"); };
  s = run({adds("a", 100, x, 1), faults});
  EXPECT_EQ(s.text, "configuration (BLOCK: 32): out of bounds");
  EXPECT_TRUE(result.outcomes[1].is(State::Faulted));
  EXPECT_EQ(x, std::vector<float>(64, 1.f)) << "memory is set back all the same";
}

TEST_F(TunerTest, EqualCodeIsTimedOnce) {
  Step a{"a", 100}, b{"b", 100};
  a.compiled.code = b.compiled.code = "the same";
  ASSERT_TRUE(run({a, b}));
  EXPECT_EQ(subject->runs[1], 0u);
  EXPECT_TRUE(result.outcomes[1].is(State::Ok));
  EXPECT_EQ(result.best, 0u);
}

TEST_F(TunerTest, KnownConfigurationsAreNotRun) {
  request.known.resize(3);
  request.known[0].record = Record::ok(50, 50, 50, 9, 0);
  request.known[1].record = Record::bad(State::Faulted, "died", "it was bad", 0);
  ASSERT_TRUE(run({{"a", 300}, {"b", 100}, {"c", 200}}));
  EXPECT_EQ(result.best, 0u);
  EXPECT_EQ(subject->runs, (std::vector<unsigned>{0, 0, subject->runs[2]}));
  EXPECT_GT(subject->runs[2], 0u);
}

TEST_F(TunerTest, DeterministicTakesTheLeastEstimateAndRunsNothing) {
  request.deterministic = true;
  std::vector<Step> c = {{"a", 100}, {"b", 200}, {"c", 300}};
  for (size_t i = 0; i < 3; ++i) c[i].compiled.estimateNs = double(10 - i);
  ASSERT_TRUE(run(c));
  EXPECT_EQ(result.best, 2u);
  EXPECT_TRUE(result.byModel);
  EXPECT_EQ(subject->runs, std::vector<unsigned>(3, 0));
}

TEST_F(TunerTest, TopKTimesWhatTheModelLikes) {
  request.topK = 2;
  std::vector<Step> c = {{"a", 100}, {"b", 200}, {"c", 300}};
  for (size_t i = 0; i < 3; ++i) c[i].compiled.estimateNs = double(10 - i);
  ASSERT_TRUE(run(c));
  EXPECT_EQ(result.best, 1u);
  EXPECT_FALSE(result.outcomes[0].record);
}

TEST_F(TunerTest, CompilationsThatTakeTooLongAreSkipped) {
  std::atomic<bool> go = false, ended = false;
  Step slow{"slow"};
  slow.compiling = [&] {
    go.wait(false);
    ended = true;
  };
  request.threads = 1;
  // Long enough for the others, which take no time, on a machine that is busy with something else.
  request.compileTimeoutNs = 2e9;
  ASSERT_TRUE(run({slow, {"b", 100}, {"c", 50}}));
  EXPECT_EQ(result.best, 2u);
  EXPECT_TRUE(result.outcomes[0].is(State::Failed));
  go = true;
  go.notify_all();
  while (!ended) std::this_thread::yield();
}

TEST(Compare, Floats) {
  float a[] = {1, 2, NAN, INFINITY}, b[] = {1.0001f, 2, NAN, INFINITY}, c[] = {1, 2, NAN, -INFINITY},
        d[] = {1, NAN, NAN, INFINITY}, e[] = {1.1f, 2, NAN, INFINITY};
  double t = toleranceOf(TEGULA_FP32);
  EXPECT_TRUE(isClose(TEGULA_FP32, a, b, sizeof a, t));
  EXPECT_FALSE(isClose(TEGULA_FP32, a, c, sizeof a, t));
  EXPECT_FALSE(isClose(TEGULA_FP32, a, d, sizeof a, t));
  EXPECT_FALSE(isClose(TEGULA_FP32, a, e, sizeof a, t));
  int x[] = {1, 2}, y[] = {1, 3};
  EXPECT_FALSE(isClose(TEGULA_INT32, x, y, sizeof x, 1));
}

// ---- searches

namespace {
/// 16 x 16 configurations: the fastest is (12, 3); the model takes `bias` of the second axis' upper half for faster
/// than it is.
struct SearchTest : TunerTest {
  unsigned compiled = 0;
  std::vector<Step> grid(double bias) {
    std::vector<Step> out;
    request.points.clear();
    for (uint32_t a = 0; a < 16; ++a)
      for (uint32_t b = 0; b < 16; ++b) {
        double ns = 1000 + 40 * (std::abs(12.0 - a) * std::abs(12.0 - a) + std::abs(3.0 - b) * std::abs(3.0 - b));
        Step s{"a: " + std::to_string(a) + ", b: " + std::to_string(b), ns};
        s.compiling = [this] { ++compiled; };
        s.sketch.estimateNs = b >= 8 ? ns / bias : ns;
        s.compiled.estimateNs = s.sketch.estimateNs;
        out.push_back(s);
        request.points.push_back({a, b});
      }
    return out;
  }
  static constexpr size_t best = 12 * 16 + 3;
};
/// Also in the last turns: what is known of it then is that it faults.
TEST_F(TunerTest, FaultsLate) {
  request.given = "n=5";
  Step a{"a", 100}, b{"b", 110};
  b.work = [this] { return subject->runs[1] > 300 ? Status::error(TEGULA_FAULT, "out of bounds") : Status::ok(); };
  std::vector<State> states;
  request.learnt = [&](size_t i, const Outcome &o) {
    if (i == 1) states.push_back(o.record->state);
  };
  Status s = run({a, b});
  EXPECT_EQ(s.code, TEGULA_FAULT);
  EXPECT_EQ(s.text, "configuration (b): out of bounds, given n=5");
  ASSERT_TRUE(result.outcomes[1].is(State::Faulted));
  EXPECT_EQ(result.outcomes[1].record->reason, "out of bounds, given n=5");
  EXPECT_EQ(states, (std::vector{State::Ok, State::Faulted}));
}

// ---- CUDA graphs

TEST_F(TunerTest, TimesInGraphs) {
  request.inGraphs = true;
  ASSERT_TRUE(run({{"a", 400}, {"b", 100}, {"c", 150}}));
  EXPECT_EQ(result.best, 1u);
  EXPECT_STREQ(result.clock, "graphs");
  EXPECT_EQ(result.whyNoGraphs, "");
  // Rows of 200: a two-hundredth of what starting a graph takes is in each. A launch alone, which is 2000 more, is not
  // hopeless.
  EXPECT_NEAR(result.outcomes[1].record->medianNs, 110, 0.1);
  EXPECT_NEAR(result.outcomes[0].record->medianNs, 410, 0.1);
  EXPECT_EQ(result.outcomes[0].record->runs, 1000u);
  EXPECT_GT(subject->runs[0], 1000u);
}

/// What is set back before each run is recorded with it, and its time taken off.
TEST_F(TunerTest, GraphsOfKernelsInPlace) {
  request.inGraphs = true;
  std::vector<Step> steps = {adds("a", 400, x, 1), adds("b", 100, x, 1)};
  unsigned wrong = 0;
  for (Step &s : steps) s.work = [&] { wrong += x[5] != 1, x[5] += 1; return Status::ok(); };
  ASSERT_TRUE(run(std::move(steps)));
  EXPECT_STREQ(result.clock, "graphs");
  EXPECT_EQ(wrong, 0u);
  EXPECT_NEAR(result.outcomes[0].record->medianNs, 400, 0.1);
  EXPECT_NEAR(result.outcomes[1].record->medianNs, 100, 0.1);
  EXPECT_EQ(x, std::vector<float>(64, 1.f));
}

TEST_F(TunerTest, LongAndHopelessOnesInGraphs) {
  request.inGraphs = true;
  ASSERT_TRUE(run({{"a", 1e6}, {"b", 1e5}, {"c", 1e8}}));
  EXPECT_EQ(result.best, 1u);
  EXPECT_EQ(result.outcomes[0].record->runs, 5u);
  EXPECT_EQ(subject->runs[2], 1u + 5); // once for its results
}

/// Times by graphs and times launch by launch do not compare: from the first that cannot be recorded on all are timed
/// so, those before it anew.
TEST_F(TunerTest, WhatCannotBeRecorded) {
  request.inGraphs = true;
  std::vector<std::pair<size_t, double>> learnt;
  request.learnt = [&](size_t i, const Outcome &o) { learnt.emplace_back(i, o.record->medianNs); };
  Step c{"c", 150};
  c.recording = Status::error(TEGULA_UNSUPPORTED, "it waits for the stream");
  ASSERT_TRUE(run({{"a", 400}, {"b", 100}, c, {"d", 300}}));
  EXPECT_EQ(result.best, 1u);
  EXPECT_STREQ(result.clock, "steady");
  EXPECT_EQ(result.whyNoGraphs, "it waits for the stream");
  const double expected[] = {400, 100, 150, 300};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(result.outcomes[i].record->medianNs, expected[i], 0.001) << i;
  // The files, too.
  std::map<size_t, double> last(learnt.begin(), learnt.end());
  for (auto &[i, ns] : learnt) last[i] = ns;
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(last[i], expected[i], 0.001) << i;
}

TEST_F(TunerTest, NothingOnTheStreamThatIsRecorded) {
  request.inGraphs = true;
  Step a = adds("a", 400, x, 1), b = adds("b", 100, x, 1);
  a.goesElsewhere = b.goesElsewhere = true;
  ASSERT_TRUE(run({a, b}));
  EXPECT_EQ(result.best, 1u);
  EXPECT_EQ(result.whyNoGraphs, "nothing was launched on the stream that is recorded");
  EXPECT_NEAR(result.outcomes[1].record->medianNs, 100, 0.001);
  EXPECT_EQ(x, std::vector<float>(64, 1.f));
}

TEST_F(TunerTest, NoGraphs) {
  request.inGraphs = true, device.hasGraphs = false, device.p.name = "it";
  ASSERT_TRUE(run({{"a", 400}, {"b", 100}}));
  EXPECT_EQ(result.best, 1u);
  EXPECT_EQ(result.whyNoGraphs, "it has no CUDA graphs");
}

TEST_F(TunerTest, FaultsWhileRecording) {
  request.inGraphs = true;
  Step b{"b", 100};
  b.recording = Status::error(TEGULA_FAULT, "an earlier kernel stopped");
  Status s = run({{"a", 400}, b});
  EXPECT_EQ(s.code, TEGULA_FAULT);
  EXPECT_EQ(s.text, "configuration (b): an earlier kernel stopped");
  b.recording = Status::error(TEGULA_CANCELLED, "Ctrl-C");
  EXPECT_EQ(run({{"a", 400}, b}).code, TEGULA_CANCELLED);
}

/// Rounds of halving: what was timed in graphs before is timed anew there, too.
TEST_F(TunerTest, SearchesInGraphs) {
  for (bool falls : {false, true}) {
    request = {};
    request.inGraphs = true;
    std::vector<Step> steps;
    for (uint32_t i = 0; i < 12; ++i) {
      Step s{std::to_string(i), 100.0 + 30 * std::abs(int(i) - 5)};
      s.sketch.estimateNs = 100 + i;
      if (falls && i == 8) s.recording = Status::error(TEGULA_UNSUPPORTED, "no");
      steps.push_back(s);
      request.points.push_back({i});
    }
    ASSERT_TRUE(run(steps));
    EXPECT_EQ(result.best, 5u);
    EXPECT_STREQ(result.clock, falls ? "steady" : "graphs");
    for (uint32_t i = 0; i < 12; ++i)
      if (result.outcomes[i].is(State::Ok)) {
        double ns = result.outcomes[i].record->medianNs;
        EXPECT_NEAR(ns, steps[i].ns, falls ? 0.001 : 30);
      }
  }
}

/// Times of anything: a row is so long that all rows take what was asked for.
TEST_F(TunerTest, GraphTimes) {
  Clock clock(device, nullptr, true);
  std::vector<double> times;
  unsigned calls = 0;
  auto work = [&](void *) { return ++calls, lastRecorder->open->push_back([] { clockNs += 5000; }), Status::ok(); };
  ASSERT_TRUE(clock.graphTimes(work, 10e6, 10, times));
  ASSERT_EQ(times.size(), 10u);
  EXPECT_EQ(calls, 1u + 142); // 1 ms of 7 us
  for (double t : times) EXPECT_NEAR(t, 5000 + 2000.0 / 142, 0.1);
  EXPECT_EQ(clock.graphTimes([](void *) { return Status::ok(); }, 1e6, 10, times).text,
            "nothing was launched on the stream that is recorded");
}

} // namespace

TEST_F(SearchTest, FindsTheBestOfManyAndCompilesFew) {
  ASSERT_TRUE(run(grid(1)));
  EXPECT_EQ(result.best, best);
  EXPECT_LE(compiled, 48u);
  EXPECT_EQ(std::count_if(subject->runs.begin(), subject->runs.end(), [](unsigned n) { return n > 0; }), compiled);
}

TEST_F(SearchTest, MeasurementsCorrectTheModel) {
  // By the model the upper half of an axis is 50 times as fast.
  ASSERT_TRUE(run(grid(50)));
  EXPECT_EQ(result.best, best);
  EXPECT_LE(compiled, 96u);
}

TEST_F(SearchTest, DeterministicRunsNothingAndTakesTheModelsChoice) {
  request.deterministic = true;
  ASSERT_TRUE(run(grid(1)));
  EXPECT_EQ(result.best, best);
  EXPECT_TRUE(result.byModel);
  EXPECT_LE(compiled, 8u);
  EXPECT_EQ(std::count(subject->runs.begin(), subject->runs.end(), 0u), 256);
}

TEST_F(SearchTest, GuessesAreTriedFirstAndChosenWithoutAClock) {
  request.guesses = {7};
  ASSERT_TRUE(run(grid(1)));
  EXPECT_EQ(result.best, best);
  EXPECT_GT(subject->runs[7], 0u);
  request.deterministic = true;
  ASSERT_TRUE(run(grid(1)));
  EXPECT_EQ(result.best, 7u);
  EXPECT_TRUE(result.byGuess);
  // One that cannot be compiled says nothing.
  std::vector<Step> all = grid(1);
  all[7].compiled.status = Status::error(TEGULA_OUT_OF_RESOURCES, "too large");
  all[7].compiled.skip = true;
  ASSERT_TRUE(run(all));
  EXPECT_EQ(result.best, best);
  EXPECT_FALSE(result.byGuess);
}

TEST_F(SearchTest, GuessesOfListsAreTimedFirst) {
  std::vector<std::string> order;
  auto step = [&](const char *name, double ns) {
    return Step{name, ns, [&order, name] {
                  order.emplace_back(name);
                  return Status::ok();
                }};
  };
  request.guesses = {2};
  ASSERT_TRUE(run({step("a", 100), step("b", 200), step("c", 300)}));
  EXPECT_EQ(order.front(), "c");
  EXPECT_EQ(result.best, 0u);
}

TEST_F(SearchTest, WhatTheSketchRefusesIsNotCompiled) {
  std::vector<Step> all = grid(1);
  all[best].sketch = {Status::error(TEGULA_OUT_OF_RESOURCES, "too much shared memory"), true, 0};
  ASSERT_TRUE(run(all));
  EXPECT_NE(result.best, best);
  EXPECT_TRUE(result.outcomes[best].is(State::Failed));
  EXPECT_EQ(result.outcomes[best].record->reason, "too much shared memory");
  // What no other configuration can mend ends it, and names the configuration.
  all[best].sketch = {Status::error(TEGULA_COMPILE_ERROR, "`x` is not defined"), false, 0};
  Status s = run(all);
  EXPECT_EQ(s.text, "configuration (a: 12, b: 3): `x` is not defined");
}

TEST_F(SearchTest, WrongConfigurationsAreRejected) {
  std::vector<Step> all = grid(1);
  for (Step &s : all) {
    s.compiled.buffers = {buffer("y", y, false, true)};
    s.work = [this] { std::fill(y.begin(), y.end(), 3.f); return Status::ok(); };
  }
  all[best].work = [this] { std::fill(y.begin(), y.end(), 4.f); return Status::ok(); };
  all[best].ns = 10;
  ASSERT_TRUE(run(all));
  EXPECT_TRUE(result.outcomes[best].is(State::Rejected));
  EXPECT_NE(result.best, best);
  EXPECT_EQ(y, std::vector<float>(64, 3.f)) << "what is only written stays as the last run left it";
}

TEST_F(SearchTest, KnownTimesAreUsedAndNotMeasuredAgain) {
  request.known.assign(256, {});
  request.known[best].record = Record::ok(1000, 1000, 1000, 9, 1);
  ASSERT_TRUE(run(grid(1)));
  EXPECT_EQ(result.best, best);
  EXPECT_EQ(subject->runs[best], 0u);
}

TEST_F(SearchTest, TopKBoundsWhatIsTimed) {
  request.topK = 5;
  ASSERT_TRUE(run(grid(1)));
  EXPECT_EQ(std::count_if(subject->runs.begin(), subject->runs.end(), [](unsigned n) { return n > 0; }), 5);
}
