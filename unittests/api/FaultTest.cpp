// Programs that fail, print, or never end.
#include "Fixture.h"
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <pthread.h>
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

TEST(Fault, NullPointersMayBePassedButNotFollowed) {
  Context c = context();
  Module m = module(c, std::string(addText) + R"(
@triton.jit
def through(table, x, out):
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(p))
)");
  alignas(64) float x[16] = {3}, out[16] = {};
  Arg none(tegula_ptr(nullptr, TEGULA_FP32, 0)), unknown(tegula_ptr(nullptr, TEGULA_FP32, -1));
  Function add = m.kernel("add").value();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(add(1, {Arg(std::span(x)), Arg(std::span(x)), Arg(std::span(out)), Arg(16), Arg(16)}));
    Status s = add(1, {Arg(std::span(x)), none, Arg(std::span(out)), Arg(16), Arg(16)});
    EXPECT_EQ(s.code(), TEGULA_FAULT);
    EXPECT_NE(s.message().find("out-of-bounds load through argument `y`"), std::string::npos) << s.message();
    s = add(1, {unknown, unknown, unknown, Arg(16), Arg(16)});
    EXPECT_EQ(s.code(), TEGULA_FAULT);
    EXPECT_TRUE(add(1, {none, unknown, none, Arg(0), Arg(16)})); // nothing is accessed
  }
  // Addresses from memory stay unchecked.
  alignas(64) uint64_t table[2] = {reinterpret_cast<uint64_t>(x)};
  out[0] = 0;
  EXPECT_TRUE(m.kernel("through").value()(1, {Arg(std::span(table)), none, Arg(std::span(out))}));
  EXPECT_EQ(out[0], 3);
}

TEST(Fault, NegativeIndexAndUnknownExtent) {
  Context c = context();
  Function f =
      module(c, "@triton.jit\ndef before(x, out):\n    tl.store(out, tl.load(x - 3))\n").kernel("before").value();
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

// LLVM takes such an access for unreachable; what ran in its place looked like a launch that was cancelled.
TEST(Fault, NullPointersAreFaultsInEveryMode) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def store_null(x):
    tl.store((tl.program_id(0) * 0).to(tl.int64).to(tl.pointer_type(tl.int32)), 1)

@triton.jit
def load_null(x):
    tl.store(x, tl.load((tl.program_id(0) * 0).to(tl.int64).to(tl.pointer_type(tl.int32)) + 3))

@triton.jit
def atomic_null(x):
    tl.atomic_add((tl.program_id(0) * 0).to(tl.int64).to(tl.pointer_type(tl.int32)), 1)

@triton.jit
def store_tile_null(x):
    p = (tl.program_id(0) * 0).to(tl.int64).to(tl.pointer_type(tl.int32))
    tl.store(p + tl.arange(0, 64), 1)

@triton.jit
def load_loaded_null(x):
    p = tl.load(x.to(tl.pointer_type(tl.int64))).to(tl.pointer_type(tl.int32))
    tl.store(x, tl.sum(tl.load(p + tl.arange(0, 64))))

@triton.jit
def store_lanes_null(x):
    p = tl.load(x + tl.arange(0, 16)).to(tl.int64).to(tl.pointer_type(tl.int32))
    tl.store(p, 1)

@triton.jit
def load_lanes_null(x):
    i = tl.arange(0, 16)
    p = tl.load(x + i).to(tl.int64).to(tl.pointer_type(tl.int32))
    tl.store(x + i, tl.load(p, mask=i >= tl.program_id(0)))

@triton.jit
def atomic_lanes_null(x):
    tl.atomic_add(tl.load(x + tl.arange(0, 16)).to(tl.int64).to(tl.pointer_type(tl.int32)), 1)

@triton.jit
def constant_lanes_null(x):
    tl.store(tl.zeros([16], tl.int64).to(tl.pointer_type(tl.int32)), 1)

@triton.jit
def load_some_null(x):
    i = tl.arange(0, 16)
    null = (tl.program_id(0) * 0).to(tl.int64).to(tl.pointer_type(tl.int32))
    tl.store(x + i, tl.load(tl.where(i < 5, x + i, null)))

@triton.jit
def load_wrapped_null(x):
    p = tl.load(x.to(tl.pointer_type(tl.int64))).to(tl.pointer_type(tl.int32))
    i = tl.arange(0, 64)
    tl.store(x, tl.sum(tl.load(p + (i + tl.program_id(0)) % 48)))
)");
  for (const char *name :
       {"store_null", "load_null", "atomic_null", "store_tile_null", "load_loaded_null", "store_lanes_null",
        "load_lanes_null", "atomic_lanes_null", "constant_lanes_null", "load_some_null", "load_wrapped_null"})
    for (int checked : {0, 1}) {
      LaunchOptions o;
      o.checked = checked;
      std::vector<int32_t> x(16);
      Status s = m.kernel(name).value()(2, {std::span(x)}, o);
      EXPECT_EQ(s.code(), TEGULA_FAULT) << name << ": " << s.message();
      EXPECT_NE(s.message().find("is that of a null pointer"), std::string::npos) << s.message();
      TegulaFault fault;
      ASSERT_EQ(tegula_last_fault(&fault), TEGULA_OK);
      EXPECT_EQ(fault.kind, TEGULA_FAULT_KIND_BOUNDS);
      EXPECT_EQ(fault.extent, -1);
    }
}

TEST(Fault, AMaskedNullPointerIsNone) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def optional(x, n):
    p = (tl.program_id(0) * 0).to(tl.int64).to(tl.pointer_type(tl.int32))
    i = tl.arange(0, 16)
    tl.store(x + i, tl.load(p + i, mask=i < n, other=7))
    tl.store(p, 1, mask=n > 0)
    some = i < 4
    tl.store(tl.where(some, x + i, p), tl.load(tl.where(some, x + i, p), mask=some, other=1), mask=some)
)").kernel("optional").value();
  for (int checked : {0, 1}) {
    LaunchOptions o;
    o.checked = checked;
    std::vector<int32_t> x(16);
    Status s = f(1, {std::span(x), 0}, o);
    EXPECT_TRUE(s) << s.message();
    EXPECT_EQ(x, std::vector<int32_t>(16, 7));
  }
}

TEST(Fault, AMisalignedAddressIsNotOneOutsideOfBuffers) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def odd(x, out):
    p = (x.to(tl.int64) + 2).to(tl.pointer_type(tl.int32))
    tl.store(out, tl.load(p))
)").kernel("odd").value();
  std::vector<int32_t> x(16), out(16);
  Status s = f(1, {std::span(x), std::span(out)}, withCheck());
  EXPECT_EQ(s.code(), TEGULA_FAULT);
  TegulaFault fault;
  ASSERT_EQ(tegula_last_fault(&fault), TEGULA_OK);
  EXPECT_EQ(fault.kind, TEGULA_FAULT_KIND_ALIGNMENT);
  EXPECT_EQ(s.message().find("in no buffer"), std::string::npos) << s.message();
  EXPECT_NE(s.message().find("is no multiple of the element's size"), std::string::npos) << s.message();
}

// A barrier over the whole grid: with fewer threads than programs they have to take turns.
TEST(Fault, ProgramsThatWaitForEachOtherMakeProgress) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def rounds(count, out, ROUNDS: tl.constexpr):
    n = tl.num_programs(0)
    for r in range(ROUNDS):
        tl.atomic_add(count, 1)
        while tl.atomic_add(count, 0) < n * (r + 1):
            pass
    tl.store(out + tl.program_id(0), tl.load(count))
)").kernel("rounds").value();
  for (int threads : {1, 2}) {
    LaunchOptions o;
    o.num_threads = threads;
    int32_t count = 0;
    std::vector<int32_t> out(100);
    Status s = f(100, {std::span(&count, 1), std::span(out), 3}, o);
    EXPECT_TRUE(s) << s.message();
    EXPECT_EQ(count, 300);
    EXPECT_EQ(out, std::vector<int32_t>(100, 300));
  }
}

// Each waits for the one that starts after it, by a plain load.
TEST(Fault, ProgramsMayWaitForLaterOnes) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def behind(turn):
    me = tl.num_programs(0) - 1 - tl.program_id(0)
    while tl.load(turn) != me:
        pass
    tl.atomic_add(turn, 1)
)").kernel("behind").value();
  for (int threads : {1, 2}) {
    LaunchOptions o;
    o.num_threads = threads;
    int32_t turn = 0;
    Status s = f(200, {std::span(&turn, 1)}, o);
    EXPECT_TRUE(s) << s.message();
    EXPECT_EQ(turn, 200);
  }
}

// The wait is in a function that is not inlined, and in a loop around it that computes.
TEST(Fault, WaitsInsideCallsAndLoops) {
  Context c = context();
  Function f = module(c, R"(@triton.jit(noinline=True)
def wait(count, n):
    while tl.atomic_add(count, 0) < n:
        pass

@triton.jit
def k(count, out):
    n = tl.num_programs(0)
    total = tl.zeros((32,), tl.int32)
    for r in range(4):
        total += tl.arange(0, 32)
        tl.atomic_add(count, 1)
        wait(count, n * (r + 1))
    tl.store(out + tl.program_id(0) * 32 + tl.arange(0, 32), total)
)").kernel("k").value();
  int32_t count = 0;
  std::vector<int32_t> out(50 * 32);
  Status s = f(50, {std::span(&count, 1), std::span(out)});
  ASSERT_TRUE(s) << s.message();
  for (int i = 0; i < 50 * 32; ++i) ASSERT_EQ(out[i], i % 32 * 4) << i;
}

TEST(Fault, AHangNamesTheLine) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def locked(lock, n):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass

@triton.jit
def endless(x, n):
    i = 0
    while i < n:
        i = i * 1
    tl.store(x, i)
)");
  for (auto [name, line] : {std::pair("locked", 6u), std::pair("endless", 12u)}) {
    LaunchOptions o;
    o.hang_s = 0.1;
    o.num_threads = 1; // others could be there before the one that has program 0
    int32_t x[16] = {1};
    Status s = m.kernel(name).value()(3, {std::span(x), 2}, o);
    EXPECT_EQ(s.code(), TEGULA_FAULT) << s.message();
    EXPECT_NE(s.message().find("made no progress for 0.1 s; program (0, 0, 0) does not leave this loop"),
              std::string::npos)
        << s.message();
    TegulaFault fault;
    ASSERT_EQ(tegula_last_fault(&fault), TEGULA_OK);
    EXPECT_EQ(fault.kind, TEGULA_FAULT_KIND_HANG);
    EXPECT_EQ(fault.line, line);
    EXPECT_STREQ(fault.kernel, name);
  }
}

TEST(Fault, MetadataTellsStackAndWaits) {
  Context c = context();
  auto metadata = [&](const char *text, const char *name) {
    Kernel k = module(c, text).kernel(name).value().compile("flag:*i32, x:*i32").value();
    return std::string(tegula_kernel_metadata_json(k.get()));
  };
  // Frames are counted even where they hold nothing but saved registers.
  std::string waits = metadata(R"(@triton.jit
def k(flag, x):
    while tl.load(flag) == 0:
        pass
    tl.store(x, 1)
)", "k");
  EXPECT_EQ(waits.find("\"stack_bytes\":0,"), std::string::npos) << waits;
  EXPECT_NE(waits.find("\"waits\":true"), std::string::npos) << waits;
  // The condition depends on what was loaded before the loop, and on a count.
  std::string counts = metadata(R"(@triton.jit
def k(flag, x):
    n = tl.load(flag)
    i = 0
    while i < n:
        tl.store(x + i, tl.load(x + i) + 1)
        i += 1
)", "k");
  EXPECT_NE(counts.find("\"waits\":false"), std::string::npos) << counts;
}

TEST(Fault, HangTimesThatAreNone) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  std::vector<float> x(16), out(16);
  LaunchOptions o;
  o.hang_s = std::nan("");
  EXPECT_EQ(add(1, {std::span(x), std::span(x), std::span(out), 16, 16}, o).code(), TEGULA_INVALID_ARGUMENT);
  ASSERT_EQ(setenv("TEGULA_HANG_S", "soon", 1), 0);
  TegulaContext *none = nullptr;
  EXPECT_EQ(tegula_context_create(nullptr, &none), TEGULA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tegula_last_error()).find("TEGULA_HANG_S is `soon`"), std::string::npos);
  ASSERT_EQ(unsetenv("TEGULA_HANG_S"), 0);
}

// Compiled and launched for the first time on a thread with less stack than either needs.
TEST(Fault, AThreadWithASmallStack) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  std::vector<float> x(1000, 1.0f), out(1000);
  Status s;
  auto work = [&] { s = add(8, {std::span(x), std::span(x), std::span(out), 1000, 128}); };
  pthread_attr_t attr;
  ASSERT_EQ(pthread_attr_init(&attr), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attr, 64 << 10), 0);
  pthread_t thread;
  ASSERT_EQ(
      pthread_create(
          &thread, &attr, [](void *p) -> void * { return (*static_cast<decltype(work) *>(p))(), nullptr; }, &work),
      0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attr);
  EXPECT_TRUE(s) << s.message();
  EXPECT_EQ(out[999], 2.0f);
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
