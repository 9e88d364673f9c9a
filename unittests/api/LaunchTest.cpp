// Launching and the rules of argument specialisation.
#include "Fixture.h"
#include "StandIn.h"
#include <atomic>
#include <thread>

using namespace tegula;
using namespace tegula::test;

static std::string signatureOf(const Function &f, std::vector<Arg> args, const LaunchOptions &o = {}) {
  Result<Kernel> k = f.compile(args, o);
  return k ? k->info().signature : k.status().message();
}

TEST(Launch, AddOnVectors) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  for (int n : {1, 7, 1000, 4096, 98432}) {
    std::vector<float> x(n), y(n, 0.5f), out(n + 8, -1.0f);
    for (int i = 0; i < n; ++i) x[i] = float(i);
    Status s = add((n + 1023) / 1024, {std::span(x), std::span(y), std::span(out), n, 1024});
    ASSERT_TRUE(s) << s.message();
    for (int i = 0; i < n + 8; ++i) ASSERT_EQ(out[i], i < n ? float(i) + 0.5f : -1.0f) << i;
  }
}

// A program that reads through one argument what it writes through another: such launches have a form of their own,
// however they come.
TEST(Launch, OneBufferForTwoArguments) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def turn(x, out, other, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    v = tl.load(x + i * B + j)
    tl.store(out + j * B + i, v)
    tl.store(other + i * B + j, tl.load(x + j * B + i))
)").kernel("turn").value();
  constexpr int n = 16;
  for (int round = 0; round < 3; ++round) // the first call compiles, the others go the short way
    for (int form = 0; form < 4; ++form) {
      alignas(64) float x[n * n], out[n * n], other[n * n];
      for (int i = 0; i < n * n; ++i) x[i] = float(i);
      std::span<const float> read(x);
      Status s = form == 0   ? f(1, {std::span(x), std::span(out), std::span(other), n})
                 : form == 1 ? f(1, {std::span(x), std::span(x), std::span(other), n})
                 : form == 2 ? f(1, {read, std::span(x), std::span(other), n})
                             : f(1, {read, std::span(x), std::span(x), n});
      ASSERT_TRUE(s) << s.message();
      const float *turned = form == 0 ? out : x, *copied = form == 3 ? x : other;
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
          if (form < 3) ASSERT_EQ(turned[j * n + i], float(i * n + j)) << form;
          // The other one is read after the first store.
          ASSERT_EQ(copied[i * n + j], form == 0 ? float(j * n + i) : float(i * n + j)) << form;
        }
    }
  float x[n * n] = {};
  EXPECT_EQ(signatureOf(f, {std::span(x), std::span(x), std::span(x), n}).substr(0, 3), "x:*");
  EXPECT_NE(signatureOf(f, {std::span(x), std::span(x), std::span(x), n}).find("other:*fp32:16:x"), std::string::npos);
  // Read-only both times: nothing that is written can be meant, and what is is refused.
  std::span<const float> read(x);
  Status s = f(1, {read, read, read, n});
  EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_NE(s.message().find("is read-only, but the kernel stores to it"), std::string::npos) << s.message();
  // Null pointers are no buffer.
  float *none = nullptr;
  EXPECT_EQ(signatureOf(f, {std::span(none, 0), std::span(none, 0), std::span(none, 0), n}).find(":x"),
            std::string::npos);
}

// Its thread has no context of CUDA's.
TEST(LaunchDeathTest, MemoryOfAGpuSaysWhereALaunchGoes) {
  expectWithStandIn("cpu sm_ sm_ cpu", [] {
    Context c = context();
    Function add = module(c, addText).kernel("add").value();
    auto target = [&](float *x) {
      const TegulaArg args[] = {tegula_ptr(x, TEGULA_FP32, 64), tegula_ptr(x, TEGULA_FP32, 64),
                                tegula_ptr(x, TEGULA_FP32, 64), tegula_int(16), tegula_int(16)};
      const int64_t grid[3] = {1, 1, 1};
      TegulaKernel *k = nullptr;
      if (tegula_launch(add.get(), grid, args, 5, nullptr, &k))
        return std::string(tegula_last_error());
      TegulaKernelInfo info{};
      info.size = sizeof info;
      tegula_kernel_info(k, &info);
      return std::string(info.target).substr(0, 3);
    };
    alignas(64) float here[16] = {};
    void *there = nullptr;
    std::string found = target(here);
    int32_t device;
    if (tegula_device_find(c.get(), "cuda:0", &device) || tegula_memory_allocate(c.get(), device, 64, &there))
      return std::string("no memory");
    for (int i = 0; i < 2; ++i) found += " " + target(static_cast<float *>(there));
    return found + " " + target(here);
  });
}

// An error on a GPU takes the context of the process with it.
TEST(LaunchDeathTest, WhatFailsOnTheCpuIsNotVerifiedOnAGpu) {
  expectWithStandIn("ran fails test.py:7 1", [] {
    Context c = context();
    Function f = module(c, R"(@triton.jit
def past(x, out, n):
    i = tl.arange(0, 16) + n
    tl.store(out + tl.arange(0, 16), tl.load(x + i))
)").kernel("past").value();
    alignas(64) float x[16] = {}, out[16] = {};
    const int64_t grid[3] = {1, 1, 1};
    TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
    o.checked = 1;
    int32_t device;
    if (tegula_device_find(c.get(), "cuda:0", &device)) return std::string("no device");
    std::string found;
    for (int n : {0, 1}) {
      const TegulaArg args[] = {tegula_ptr(x, TEGULA_FP32, sizeof x), tegula_ptr(out, TEGULA_FP32, sizeof out),
                                tegula_int(n)};
      char *text = nullptr;
      const TegulaStatus s = tegula_verify(f.get(), grid, args, 3, &o, TEGULA_DEVICE_INDEX_CPU, device, -1, &text);
      found += s == TEGULA_OK      ? "ran "
               : s == TEGULA_FAULT ? "fails " + std::string(tegula_last_error()).substr(0, 9) + " "
                                   : "? ";
      free(text);
    }
    return found + std::to_string(standIn().launches.size());
  });
}

// A multiprocessor that is another process's (MPS, MIG) may leave clusters no room: one that the compiler chose is done
// without, one that was asked for is refused.
TEST(LaunchDeathTest, ProgramsHaveOneBlockWhereAClusterHasNoRoom) {
  expectWithStandIn("4, then 1 1, asked: `softmax` needs clusters of 4 blocks", [] {
    Context c = context();
    int32_t device;
    if (tegula_device_find(c.get(), "cuda:0", &device)) return std::string("no device");
    void *x = nullptr; // of the device; nothing is run
    if (tegula_memory_allocate(c.get(), device, 64, &x)) return std::string("no memory");
    const auto blocks = [&](int ctas) {
      Function f = module(c, R"(@triton.jit
def softmax(x, out, COLS: tl.constexpr):
    at = tl.program_id(0) * COLS + tl.arange(0, COLS)
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v))
    tl.store(out + at, e / tl.sum(e))
)").kernel("softmax").value();
      const TegulaArg args[] = {tegula_ptr(x, TEGULA_FP32, 64), tegula_ptr(x, TEGULA_FP32, 64), tegula_int(32768)};
      const int64_t grid[3] = {4, 1, 1};
      TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
      o.device = device, o.num_warps = 8, o.num_ctas = ctas;
      std::string found;
      for (int i = 0; i < 2; ++i) { // the second launch finds what the first one made
        TegulaKernel *k = nullptr;
        if (tegula_launch(f.get(), grid, args, 3, &o, &k)) return std::string(tegula_last_error()).substr(0, 36);
        TegulaKernelInfo info{};
        info.size = sizeof info;
        tegula_kernel_info(k, &info);
        found += (i ? " " : "") + std::to_string(info.cluster_ctas);
      }
      return found;
    };
    std::string found = blocks(1).substr(0, 1);
    standIn().clustersThatFit = 0;
    found += ", then " + blocks(1);
    return found + ", asked: " + blocks(4);
  });
}

TEST(Launch, GridsOfThreeDimensions) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def where_am_i(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(out + i, x + 10 * y + 100 * z)
)").kernel("where_am_i").value();
  std::vector<int32_t> out(3 * 4 * 5);
  ASSERT_TRUE(f({3, 4, 5}, {std::span(out)}));
  for (int z = 0; z < 5; ++z)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 3; ++x) EXPECT_EQ(out[x + 3 * (y + 4 * z)], x + 10 * y + 100 * z);
}

TEST(Launch, TensorDescriptors) {
  Context c = context();
  Function f = module(c, R"(@triton.jit
def scale(a, b, by):
    i = tl.program_id(0) * a.block_shape[0]
    b.store([i, 0], a.load([i, 0]) * by)
)").kernel("scale").value();
  constexpr int rows = 10, columns = 12, width = 16;
  alignas(64) float x[rows * width], y[rows * width] = {};
  for (int i = 0; i < rows * width; ++i) x[i] = float(i);
  TensorDescriptor a(std::span(x), {rows, columns}, {width, 1}, {4, 16}),
      b(std::span(y), {rows, columns}, {width, 1}, {4, 16});
  Status s = f(3, {a.arg(), b.arg(), 2});
  ASSERT_TRUE(s) << s.message();
  for (int i = 0; i < rows * width; ++i) ASSERT_EQ(y[i], i % width < columns ? 2 * float(i) : 0) << i;
  EXPECT_EQ(signatureOf(f, {a.arg(), b.arg(), 2}),
            "a:tensordesc<fp32[4, 16]>:[1, 1; 16], b:tensordesc<fp32[4, 16]>:[1, 1; 16], by:i32");
  // A kernel compiled from its signature takes them too, if the block is the one it was compiled for.
  Kernel k = f.compile("a:tensordesc<f32[4, 16]>:nan, b:tensordesc<f32[4, 16]>, by:i32").value();
  TensorDescriptor nan(std::span(x), {rows, columns}, {width, 1}, {4, 16}, TEGULA_PADDING_NAN),
      other(std::span(y), {rows, columns}, {width, 1}, {2, 16});
  s = k(3, {nan.arg(), b.arg(), 5});
  ASSERT_TRUE(s) << s.message();
  EXPECT_EQ(y[width + 1], 5 * x[width + 1]);
  EXPECT_EQ(k(3, {nan.arg(), other.arg(), 5}).code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(k(3, {a.arg(), b.arg(), 5}).code(), TEGULA_INVALID_ARGUMENT) << "other padding";
  struct Wrong {
    std::vector<int64_t> shape, strides, block;
    const char *text;
  };
  const Wrong wrong[] = {{{10, 12}, {15, 1}, {4, 16}, "strides must be 16-byte aligned"},
                         {{0, 12}, {16, 1}, {4, 16}, "shape must be positive"},
                         {{10, 12}, {16, 2}, {4, 16}, "last stride must be 1"},
                         {{10, 12}, {16, 1}, {3, 16}, "powers of 2"},
                         {{10, 12}, {16, 1}, {4, 2}, "at least 16 bytes"},
                         {{}, {}, {}, "1 to 5 dimensions"},
                         {{10, 12}, {16, 1}, {16}, "1 to 5 dimensions"}};
  for (const Wrong &w : wrong) {
    TensorDescriptor d(std::span(x), w.shape, w.strides, w.block);
    Arg arg = d.arg();
    EXPECT_NE(std::string(tegula_last_error()).find(w.text), std::string::npos) << tegula_last_error();
    EXPECT_EQ(f(3, {arg, b.arg(), 2}).code(), TEGULA_INVALID_ARGUMENT) << w.text;
  }
}

TEST(Launch, GridOfZeroRunsNothing) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  std::vector<float> x(16), out(16, 7.0f);
  EXPECT_TRUE(add({0, 5, 1}, {std::span(x), std::span(x), std::span(out), 16, 16}));
  EXPECT_EQ(out[0], 7.0f);
  for (Grid g : {Grid(-1), Grid(1, -3), Grid(int64_t(1) << 31), Grid(INT32_MAX, INT32_MAX, INT32_MAX)}) {
    Status s = add(g, {std::span(x), std::span(x), std::span(out), 16, 16});
    EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
    EXPECT_NE(s.message().find("grid"), std::string::npos);
  }
}

TEST(Launch, Specialisation) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def k(p, n, f, b, C: tl.constexpr):
    pass

@triton.jit(do_not_specialize=["n"])
def nospec(p, n):
    pass

@triton.jit(do_not_specialize_on_alignment=["p", "n"])
def noalign(p, n):
    pass

@triton.jit
def annotated(p: "*fp16", n: tl.int64, f: tl.float64, g: tl.float16, b: tl.uint8):
    pass

@triton.jit
def defaults(n, m=1, s=None, C: tl.constexpr = 5):
    pass
)");
  alignas(64) static float data[64];
  auto ptr = [](size_t offset) { return Arg(data + offset); };
  Function k = m.kernel("k").value();
  EXPECT_EQ(signatureOf(k, {ptr(0), 16, 1.0, true, 8}), "p:*fp32:16, n:i32:16, f:fp32, b:i1, C:8");
  EXPECT_EQ(signatureOf(k, {ptr(1), 17, 16, false, 8}), "p:*fp32, n:i32, f:i32:16, b:i1, C:8");
  EXPECT_EQ(signatureOf(k, {ptr(0), 1, 0, nullptr, 1}), "p:*fp32:16, n:1, f:i32:16, b:None, C:1");
  EXPECT_EQ(signatureOf(k, {ptr(0), int64_t(1) << 40, ~uint64_t(0), 5, true}),
            "p:*fp32:16, n:i64:16, f:u64, b:i32, C:True");
  EXPECT_EQ(signatureOf(k, {ptr(0), INT64_MIN, -1, 5, 2.5}), "p:*fp32:16, n:i64:16, f:i32, b:i32, C:2.5");
  Value name = Value::of(std::string_view("relu"));
  EXPECT_EQ(signatureOf(k, {ptr(0), 3, 3, 3, name}), "p:*fp32:16, n:i32, f:i32, b:i32, C:'relu'");
  EXPECT_EQ(signatureOf(m.kernel("nospec").value(), {ptr(0), 1}), "p:*fp32:16, n:i32");
  EXPECT_EQ(signatureOf(m.kernel("nospec").value(), {ptr(0), 32}), "p:*fp32:16, n:i32");
  EXPECT_EQ(signatureOf(m.kernel("noalign").value(), {ptr(0), 1}), "p:*fp32, n:1");
  EXPECT_EQ(signatureOf(m.kernel("annotated").value(), {ptr(0), 1, 2, 3.0, 255}),
            "p:*fp16:16, n:i64, f:fp64, g:fp16, b:u8");
  EXPECT_EQ(signatureOf(m.kernel("defaults").value(), {3}), "n:i32, m:1, s:None, C:5");
  EXPECT_EQ(signatureOf(m.kernel("defaults").value(), {3, Arg(TegulaArg{}), 2}), "n:i32, m:1, s:i32, C:5");
}

TEST(Launch, EqualSpecialisationsShareAKernel) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  alignas(64) static float data[64];
  auto kernel = [&](int n, int block, LaunchOptions o = {}) {
    std::vector<Arg> args{data, data, data, n, block};
    return add.compile(args, o).value().get();
  };
  TegulaKernel *a = kernel(3, 16);
  EXPECT_EQ(a, kernel(5, 16));
  EXPECT_NE(a, kernel(32, 16));
  EXPECT_NE(a, kernel(1, 16));
  EXPECT_NE(a, kernel(3, 32));
  LaunchOptions warps, threads, debug;
  warps.num_warps = 8, threads.num_threads = 7, debug.debug = 1;
  EXPECT_NE(a, kernel(3, 16, warps));
  EXPECT_EQ(a, kernel(3, 16, threads));
  EXPECT_NE(a, kernel(3, 16, debug));
}

TEST(Launch, ValuesArriveAsTheyAre) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def ints(out, a, b):
    tl.store(out, (a + b).to(tl.int32))

@triton.jit
def floats(out, a: tl.float16, b: tl.bfloat16, c: tl.float64):
    tl.store(out, ((a.to(tl.float32) + b.to(tl.float32)) * 1000 + c.to(tl.float32)).to(tl.int32))

@triton.jit
def small(out, a: tl.int8, b: tl.uint16):
    tl.store(out, a.to(tl.int32) + b.to(tl.int32))

@triton.jit
def flag(out, yes, no):
    tl.store(out, yes.to(tl.int32) * 10 + no.to(tl.int32))

@triton.jit
def tuples(out, t):
    tl.store(out, t[0] + 10 * t[1][0] + 100 * t[1][1])

@triton.jit
def many(out, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r):
    tl.store(out, a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r)
)");
  EXPECT_EQ(runInt(m.kernel("ints").value(), {5, -7}), -2);
  EXPECT_EQ(runInt(m.kernel("ints").value(), {(int64_t(1) << 40) + 3, -(int64_t(1) << 40)}), 3);
  EXPECT_EQ(runInt(m.kernel("floats").value(), {1.5, -0.25, 7}), 1257);
  EXPECT_EQ(runInt(m.kernel("small").value(), {-128, 65535}), 65407);
  EXPECT_EQ(runInt(m.kernel("flag").value(), {true, false}), 10);
  std::vector<Arg> many;
  for (int i = 0; i < 18; ++i) many.push_back(i);
  EXPECT_EQ(runInt(m.kernel("many").value(), many), 153);
  TegulaArg inner[2] = {tegula_int(1), tegula_int(5)}, outer[2] = {tegula_int(7), {}};
  outer[1].kind = TEGULA_ARG_TUPLE, outer[1].count = 2, outer[1].u.items = inner;
  TegulaArg tuple{};
  tuple.kind = TEGULA_ARG_TUPLE, tuple.count = 2, tuple.u.items = outer;
  EXPECT_EQ(runInt(m.kernel("tuples").value(), {Arg(tuple)}), 517);
}

TEST(Launch, WrongArgumentsAreNamed) {
  Context c = context();
  Module m = module(c, std::string(addText) + R"(
@triton.jit
def small(out, a: tl.int8, f: tl.float32):
    tl.store(out, a)
)");
  Function add = m.kernel("add").value(), small = m.kernel("small").value();
  std::vector<float> x(16);
  const std::vector<float> &fixed = x;
  std::vector<int8_t> bytes(16);
  std::span s(x);
  auto text = [](Status status) {
    EXPECT_EQ(status.code(), TEGULA_INVALID_ARGUMENT);
    return status.message();
  };
  EXPECT_EQ(text(add(1, {s, s, s, 16})), "`add`: no argument for parameter `BLOCK`");
  EXPECT_EQ(text(add(1, {s, s, s, 16, 16, 16})), "`add` takes 5 arguments, 6 were given");
  EXPECT_EQ(text(add(1, {s, s, std::span(fixed), 16, 16})),
            "`add`: argument `out` is read-only, but the kernel stores to it");
  EXPECT_EQ(text(add(1, {s, s, s, 16, s})),
            "`add`: parameter `BLOCK` cannot take a pointer; it is a constexpr parameter");
  EXPECT_EQ(text(small(1, {std::span(bytes), 300, 1.0})), "`small`: argument `a` is 300, which `int8` cannot hold");
  EXPECT_EQ(text(small(1, {std::span(bytes), 1.5, 1.0})),
            "`small`: parameter `a` cannot take a float; it is annotated `int8`");
  EXPECT_EQ(text(small(1, {std::span(bytes), 1, s})),
            "`small`: parameter `f` cannot take a pointer; it is annotated `float32`");
  TegulaArg untyped = tegula_ptr(x.data(), TEGULA_VOID, 64), unknown{};
  unknown.kind = 99;
  EXPECT_NE(text(add(1, {Arg(untyped), s, s, 16, 16})).find("without an element type"), std::string::npos);
  EXPECT_NE(text(add(1, {Arg(unknown), s, s, 16, 16})).find("unknown kind"), std::string::npos);
  LaunchOptions o;
  o.num_warps = 3;
  EXPECT_EQ(text(add(1, {s, s, s, 16, 16}, o)), "num_warps is 3; it must be a power of 2, at most 64");
}

TEST(Launch, NullsAndUnsetSizesAreErrors) {
  EXPECT_EQ(tegula_launch(nullptr, nullptr, nullptr, 0, nullptr, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_context_create(nullptr, nullptr), TEGULA_INVALID_ARGUMENT);
  TegulaContextOptions unset{};
  TegulaContext *c = nullptr;
  EXPECT_EQ(tegula_context_create(&unset, &c), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_module_from_file(nullptr, "x", nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_kernel_info(nullptr, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_value_kind(nullptr), TEGULA_VALUE_OTHER);
  tegula_value_release(nullptr);
  tegula_kernel_release(nullptr);
  Context ctx = context();
  Function add = module(ctx, addText).kernel("add").value();
  TegulaLaunchOptions o{};
  int64_t grid[3] = {1, 1, 1};
  EXPECT_EQ(tegula_launch(add.get(), grid, nullptr, 0, &o, nullptr), TEGULA_INVALID_ARGUMENT);
}

TEST(Launch, KernelHandlesCheckTheirFacts) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  alignas(64) static float data[64];
  std::vector<Arg> args{data, data, data, 32, 16};
  Kernel k = add.compile(args).value();
  EXPECT_TRUE(k(2, args));
  auto text = [&](std::vector<Arg> a) {
    Status s = k(1, a);
    EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
    return s.message();
  };
  EXPECT_NE(text({data + 1, data, data, 32}).find("`x` is not aligned to 16 bytes"), std::string::npos);
  EXPECT_NE(text({data, data, data, 33}).find("`n` is not divisible by 16"), std::string::npos);
  EXPECT_NE(text({data, data, data, 1.5}).find("`n` is not the `int32` that the kernel was compiled for"),
            std::string::npos);
  EXPECT_NE(text({data, data, data}).find("`n` is missing"), std::string::npos);
  static double doubles[4];
  EXPECT_NE(text({doubles, data, data, 32}).find("`*fp64`"), std::string::npos);
}

// Extents decide between two forms of a kernel; no memory is touched.
TEST(Launch, LargeTensorsHaveAKernelOfTheirOwn) {
  Context c = context();
  Module m = module(c, "@triton.jit\ndef k(x, t, n):\n    if n == 5:\n        tl.store(x + n, 1.0)\n");
  Function k = m.kernel("k").value();
  alignas(64) static float data[64];
  constexpr int64_t limit = int64_t(1) << 30;
  struct Row {
    int64_t extent;
    uint16_t flags;
    bool wide;
  };
  const Row rows[] = {{64, 0, false},      {limit * 4, 0, true},        {limit * 4 - 1, 0, false},
                      {-1, 0, false},      {-1, TEGULA_ARG_WIDE, true}, {64, TEGULA_ARG_WIDE, true},
                      {INT64_MAX, 0, true}};
  auto launched = [&](const Row &r, bool inTuple, const LaunchOptions &o) {
    TegulaArg x = tegula_ptr(data, TEGULA_FP32, 256), big = tegula_ptr(data, TEGULA_FP32, r.extent), none{};
    none.kind = TEGULA_ARG_NONE;
    big.flags = r.flags;
    TegulaArg tuple{TEGULA_ARG_TUPLE, TEGULA_VOID, 0, 1, {nullptr}, {0}};
    tuple.u.items = &big;
    TegulaArg args[3] = {inTuple ? x : big, inTuple ? tuple : none, tegula_int(7)};
    const int64_t grid[3] = {1, 1, 1};
    TegulaKernel *kernel = nullptr;
    EXPECT_EQ(tegula_launch(k.get(), grid, args, 3, &o, &kernel), TEGULA_OK) << tegula_last_error();
    return kernel;
  };
  LaunchOptions plain, always, cpu;
  always.wide_offsets = 1;
  cpu.device = TEGULA_DEVICE_INDEX_CPU;
  auto isWide = [](TegulaKernel *kernel) {
    return std::string_view(tegula_kernel_metadata_json(kernel)).find("\"wide_offsets\":true") !=
           std::string_view::npos;
  };
  for (bool inTuple : {false, true})
    for (int round = 0; round < 3; ++round) // in all orders, so that no launch is taken for the one before
      for (const Row &a : rows)
        for (const Row &b : rows) {
          EXPECT_EQ(isWide(launched(a, inTuple, cpu)), a.wide);
          EXPECT_EQ(isWide(launched(b, inTuple, cpu)), b.wide);
          EXPECT_TRUE(isWide(launched(b, inTuple, always)));
          EXPECT_EQ(isWide(launched(a, inTuple, plain)), a.wide);
        }

  // A compiled kernel says so.
  std::vector<Arg> args{data, Arg(TegulaArg{TEGULA_ARG_NONE, TEGULA_VOID, 0, 0, {nullptr}, {0}}), 7};
  Kernel small = k.compile(args).value(), wide = k.compile(args, always).value();
  args[0] = Arg(tegula_ptr(data, TEGULA_FP32, limit * 4));
  Status s = small(1, args);
  EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(
      s.message(),
      "`k`: argument `x` has 2^30 elements or more; the kernel was compiled for smaller ones (compile it with the option wide_offsets)");
  EXPECT_TRUE(wide(1, args));
}

// Programs that were built with the first version of the header.
TEST(Launch, ShorterOptionsAreTaken) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  alignas(64) static float data[64], out[64];
  auto old = std::make_unique<char[]>(offsetof(TegulaLaunchOptions, memory)); // what lies after is nobody's
  TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
  o.size = offsetof(TegulaLaunchOptions, memory);
  std::memcpy(old.get(), &o, o.size);
  auto *options = reinterpret_cast<TegulaLaunchOptions *>(old.get());
  TegulaArg args[] = {tegula_ptr(data, TEGULA_FP32, 256), tegula_ptr(data, TEGULA_FP32, 256),
                      tegula_ptr(out, TEGULA_FP32, 256), tegula_int(64), tegula_int(16)};
  const int64_t grid[3] = {4, 1, 1};
  for (float &v : data) v = 1;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(tegula_launch(add.get(), grid, args, 5, options, nullptr), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(out[63], 2);
  options->size -= 1;
  EXPECT_EQ(tegula_launch(add.get(), grid, args, 5, options, nullptr), TEGULA_INVALID_ARGUMENT);
}

TEST(Launch, TheMemoryBehindAnArgumentMayBeReached) {
  Context c = context();
  Module m = module(c, "@triton.jit\ndef k(x, first):\n    tl.store(x + first, 1.0)\n");
  Function k = m.kernel("k").value();
  alignas(64) static float data[64];
  struct Known {
    TegulaMemory memory{data, sizeof data};
    int calls = 0;
    static int32_t answer(void *user, const TegulaArg *arg, TegulaMemory *out) {
      auto *self = static_cast<Known *>(user);
      EXPECT_EQ(arg->u.ptr, data + 32);
      ++self->calls;
      *out = self->memory;
      return self->memory.bytes != 0;
    }
  } known;
  auto launch = [&](int64_t first, LaunchOptions o) {
    o.memory = Known::answer;
    o.memory_user = &known;
    TegulaArg args[] = {tegula_ptr(data + 32, TEGULA_FP32, 16), tegula_int(first)};
    const int64_t grid[3] = {1, 1, 1};
    return tegula_launch(k.get(), grid, args, 2, &o, nullptr);
  };
  LaunchOptions checked;
  checked.checked = 1;
  checked.device = TEGULA_DEVICE_INDEX_CPU;
  for (int64_t first : {-32, 0, 31}) {
    EXPECT_EQ(launch(first, checked), TEGULA_OK) << tegula_last_error();
    EXPECT_EQ(data[32 + first], 1);
  }
  EXPECT_EQ(known.calls, 3);
  for (int64_t first : {-33, 32}) {
    EXPECT_EQ(launch(first, checked), TEGULA_FAULT);
    TegulaFault f{};
    ASSERT_EQ(tegula_last_fault(&f), TEGULA_OK);
    EXPECT_EQ(f.extent, 256);
    EXPECT_EQ(f.index, (32 + first) * 4);
  }
  // Nothing known, or memory that the address is not in: the extent counts.
  for (TegulaMemory other : {TegulaMemory{nullptr, 0}, TegulaMemory{data, 16}, TegulaMemory{data + 33, 64}}) {
    known.memory = other;
    EXPECT_EQ(launch(3, checked), TEGULA_OK);
    EXPECT_EQ(launch(4, checked), TEGULA_FAULT);
    EXPECT_EQ(launch(-1, checked), TEGULA_FAULT);
  }
  known.calls = 0;
  LaunchOptions cpu;
  cpu.device = TEGULA_DEVICE_INDEX_CPU;
  EXPECT_EQ(launch(0, cpu), TEGULA_OK);
  EXPECT_EQ(known.calls, 0);
}

TEST(Launch, EightThreadsOneCompile) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        std::vector<float> x(1000, 1.0f), out(1000);
        for (int block : {16, 64, 16, 128}) {
          Status s = add((1000 + block - 1) / block, {std::span(x), std::span(x), std::span(out), 1000, block});
          wrong += !s;
          for (float v : out) wrong += v != 2.0f;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  TegulaCacheStat stat{};
  stat.size = sizeof stat;
  ASSERT_EQ(tegula_cache_stat(c.get(), &stat), TEGULA_OK);
  // Vectors may be 16-byte aligned or not: at most one kernel for each block size and alignment.
  EXPECT_LE(stat.compiles, 6u);
}

TEST(Launch, EightThreadsOneError) {
  Context c = context();
  Function bad = module(c, "@triton.jit\ndef bad(x):\n    tl.store(x, nothing)\n").kernel("bad").value();
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        float x[4];
        Status s = bad(1, {std::span(x)});
        wrong += s.code() != TEGULA_COMPILE_ERROR || s.diagnostics().size() != 1;
      });
  }
  EXPECT_EQ(wrong, 0);
}

// A launch that looks like an earlier one finds its kernel without a key; which one must not depend on what ran before.
TEST(Launch, CallsInAnyOrderFindTheirKernels) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def k(out, a, b, f, flag, none, x: tl.int64, C: tl.constexpr, D=3):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, (f * 4).to(tl.int64))
    tl.store(out + 3, flag.to(tl.int64) + C * 10)
    tl.store(out + 4, x)
    tl.store(out + 5, D)
)");
  Function k = m.kernel("k").value();
  alignas(64) int64_t memory[16] = {};
  Value names[] = {Value::of(std::string_view("a")), Value::of(std::string_view("b"))};
  const int64_t ints[] = {0, 1, 2, 16, 48, -16, 7, int64_t(1) << 31, int64_t(1) << 40,
                          -1, INT32_MAX, INT32_MIN, INT64_MIN};
  LaunchOptions options[2]; // the first names no device
  options[1].device = TEGULA_DEVICE_INDEX_CPU;
  options[1].num_warps = 8;
  uint64_t seed = 1;
  auto random = [&](size_t n) { seed = seed * 6364136223846793005u + 1442695040888963407u; return (seed >> 33) % n; };
  size_t state[9] = {};
  for (int round = 0; round < 600; ++round) {
    // One thing changes from call to call, or nothing.
    if (size_t which = random(12); which < 9) state[which] = random(13);
    int64_t *out = memory + state[0] % 2, a = ints[state[1]], b = ints[state[2]], x = ints[state[6]],
            C = int64_t(state[7] % 2);
    double f = double(state[3]) / 4;
    bool flag = state[4] % 2;
    int64_t D = state[8] < 8 ? 3 : 5;
    std::vector<Arg> args = {std::span(out, 8), a, b, f, flag, nullptr, x, C};
    if (state[8] > 4) args.push_back(D);
    if (state[5] > 8) args[5] = names[state[5] % 2];
    const LaunchOptions &o = options[state[8] == 12];
    Result<Kernel> expected = k.compile(args, o);
    ASSERT_TRUE(expected) << expected.status().message();
    TegulaKernel *found = nullptr;
    Grid grid(1);
    ASSERT_EQ(tegula_launch(k.get(), grid.n, Kernel::raw(args), args.size(), &o, &found), TEGULA_OK)
        << tegula_last_error();
    ASSERT_EQ(found, expected.value().get()) << expected.value().info().signature;
    const int64_t want[] = {a, b, int64_t(f * 4), flag + C * 10, x, D};
    for (int i = 0; i < 6; ++i) ASSERT_EQ(out[i], want[i]) << "result " << i << " of round " << round;
  }
  // What the long way refuses is refused after a call that was fine, too.
  std::vector<Arg> args = {std::span(memory, 8), 2, 2, 1.0, true, nullptr, 2, 0};
  ASSERT_TRUE(k(1, args, options[0]));
  args[0] = Arg(std::span(static_cast<const int64_t *>(memory), 8));
  Status s = k(1, args, options[0]);
  EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_NE(s.message().find("read-only"), std::string::npos) << s.message();
  args.erase(args.begin() + 3, args.end());
  EXPECT_EQ(k(1, args, options[0]).code(), TEGULA_INVALID_ARGUMENT);
}
