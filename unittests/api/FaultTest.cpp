// Programs that fail, print, or never end.
#include "Fixture.h"
#include <atomic>
#include <thread>

using namespace tegula;
using namespace tegula::test;

static LaunchOptions withCheck() {
  LaunchOptions o;
  o.checked = 1;
  return o;
}

TEST(Fault, OutOfBoundsStoreIsCaughtAndNamed) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def overrun(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v)
)").kernel("overrun").value();
  for (int threads : {1, 2}) {
    std::vector<float> x(100, 1.0f), out(164, -1.0f);
    LaunchOptions o = withCheck();
    o.num_threads = threads;
    Status s = f(2, {std::span(x), std::span(out.data(), 100), 100, 64}, o);
    EXPECT_EQ(s.code(), TEGULA_FAULT);
    TegulaFault fault;
    ASSERT_EQ(tegula_last_fault(&fault), TEGULA_OK);
    EXPECT_EQ(fault.kind, TEGULA_FAULT_KIND_BOUNDS);
    EXPECT_STREQ(fault.file, "test.py");
    EXPECT_EQ(fault.line, 8u);
    EXPECT_STREQ(fault.argument, "out");
    EXPECT_STREQ(fault.message, "store");
    EXPECT_STREQ(fault.kernel, "overrun");
    EXPECT_EQ(fault.program_id[0], 1);
    EXPECT_EQ(fault.extent, 400);
    EXPECT_GE(fault.index, 400);
    EXPECT_NE(s.message().find("test.py:8:"), std::string::npos) << s.message();
    for (int i = 100; i < 164; ++i) ASSERT_EQ(out[i], -1.0f) << "written outside at " << i;
  }
}

TEST(Fault, CheckedModeLetsCorrectKernelsRun) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  std::vector<float> x(1000, 1.0f), out(1000);
  Status s = add(8, {std::span(x), std::span(x), std::span(out), 1000, 128}, withCheck());
  EXPECT_TRUE(s) << s.message();
  EXPECT_EQ(out[999], 2.0f);
}

TEST(Fault, NegativeIndexAndUnknownExtent) {
  Context c = context();
  Function f = module(c, "@triton.jit\ndef before(x, out):\n    tl.store(out, tl.load(x - 3))\n").kernel("before").value();
  std::vector<float> x(8), out(8);
  Status s = f(1, {std::span(x.data() + 4, 4), std::span(out)}, withCheck());
  EXPECT_EQ(s.code(), TEGULA_FAULT);
  TegulaFault fault;
  ASSERT_EQ(tegula_last_fault(&fault), TEGULA_OK);
  EXPECT_EQ(fault.index, -12);
  EXPECT_EQ(fault.extent, 16);
  // A bare pointer has no extent: nothing to check against.
  s = f(1, {Arg(x.data() + 4), std::span(out)}, withCheck());
  EXPECT_TRUE(s) << s.message();
}

TEST(Fault, DeviceAssertOnlyInDebug) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def positive(x):
    v = tl.load(x + tl.arange(0, 4))
    tl.device_assert(v > 0, "must be positive")
    tl.store(x + tl.arange(0, 4), v + 1)
)").kernel("positive").value();
  std::vector<int32_t> x{1, 2, 0, 4};
  EXPECT_TRUE(f(1, {std::span(x)}));
  EXPECT_EQ(x[2], 1);
  x[2] = -5;
  LaunchOptions debug;
  debug.debug = 1;
  Status s = f(1, {std::span(x)}, debug);
  EXPECT_EQ(s.code(), TEGULA_FAULT);
  EXPECT_NE(s.message().find("test.py:7:"), std::string::npos) << s.message();
  EXPECT_NE(s.message().find("must be positive"), std::string::npos) << s.message();
  TegulaFault fault;
  ASSERT_EQ(tegula_last_fault(&fault), TEGULA_OK);
  EXPECT_EQ(fault.kind, TEGULA_FAULT_KIND_ASSERT);
  tegula_clear_error();
  EXPECT_EQ(tegula_last_fault(&fault), TEGULA_NOT_FOUND);
}

static constexpr const char *spinText = R"(@triton.jit
def spin(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass
)";

TEST(Fault, EndlessKernelsCanBeInterrupted) {
  Context c = context();
  Function spin = module(c, spinText).kernel("spin").value();
  static std::atomic<int> asked;
  asked = 0;
  ASSERT_EQ(tegula_context_set_interrupt(c.get(), [](void *) -> int32_t { return ++asked > 2; }, nullptr), TEGULA_OK);
  for (int grid : {1, 8})
    for (int threads : {1, 2}) {
      asked = 0;
      int32_t flag = 0;
      LaunchOptions o;
      o.num_threads = threads;
      EXPECT_EQ(spin(grid, {std::span(&flag, 1)}, o).code(), TEGULA_CANCELLED);
      EXPECT_EQ(asked, 3);
    }
}

TEST(Fault, CancelFromAnotherThread) {
  Context c = context();
  Function spin = module(c, spinText).kernel("spin").value();
  int32_t flag = 0;
  std::jthread canceller([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      c.cancel();
    }
  });
  EXPECT_EQ(spin(1, {std::span(&flag, 1)}).code(), TEGULA_CANCELLED);
}

TEST(Fault, PrintingGoesToTheCallback) {
  Context c = context();
  static std::string text[2];
  text[0].clear(), text[1].clear();
  tegula_context_set_output(
      c.get(), [](void *, int32_t stream, const char *t, size_t n) { text[stream].append(t, n); }, nullptr);
  Function f = module(c, R"(@triton.jit
def talk(x, N: tl.constexpr):
    tl.static_print("N is", N)
    tl.device_print("x", tl.load(x + tl.arange(0, N)))
    tl.device_print("done")
)").kernel("talk").value();
  std::vector<int32_t> x{5, -6};
  ASSERT_TRUE(f(1, {std::span(x), 2}));
  EXPECT_EQ(text[TEGULA_STATIC_PRINT], "N is 2\n");
  EXPECT_EQ(text[TEGULA_DEVICE_PRINT], "pid (0, 0, 0) idx (0) x: 5\npid (0, 0, 0) idx (1) x: -6\npid (0, 0, 0) done\n");
}
