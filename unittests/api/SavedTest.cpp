// Kernels as bytes: saved, loaded, launched; what is refused.
#include "Fixture.h"

using namespace tegula;
using namespace tegula::test;

namespace {

Kernel addFor(const Context &c, const char *target) {
  Module m = module(c, addText);
  Function f = m.kernel("add").value();
  TegulaKernel *k = nullptr;
  EXPECT_EQ(tegula_compile_signature(f.get(), "x:*fp32:16, y:*fp32, out:*fp32, n:i32, BLOCK:4", nullptr, 0, target,
                                     nullptr, &k),
            TEGULA_OK)
      << tegula_last_error();
  return Kernel(k);
}

TEST(Saved, RunsInAnotherContext) {
  for (const char *target : {"cpu", "sim"}) {
    std::string bytes;
    std::string hash;
    {
      Context c = context();
      Kernel k = addFor(c, target);
      bytes = k.save().value();
      hash = k.info().hash;
    }
    Context c = context();
    Kernel k = c.loadKernel(bytes).value();
    EXPECT_EQ(k.info().hash, hash);
    EXPECT_EQ(k.info().origin, TEGULA_FROM_BYTES);
    EXPECT_STREQ(k.info().signature, "x:*fp32:16, y:*fp32, out:*fp32, n:i32, BLOCK:4");
    alignas(16) float x[8] = {1, 2, 3, 4, 5}, y[8] = {10, 20, 30, 40, 50}, out[8] = {};
    Status s = k(2, {std::span(x), std::span(y), std::span(out), 5, 4});
    ASSERT_TRUE(s) << s.message();
    EXPECT_EQ(out[4], 55);
    EXPECT_EQ(out[5], 0);
    s = k(2, {std::span(x), 1, std::span(out), 5, 4});
    EXPECT_EQ(s.code(), TEGULA_INVALID_ARGUMENT);
    EXPECT_NE(s.message().find("argument `y` must be a pointer"), std::string::npos) << s.message();
    // Saved again it is the same.
    EXPECT_EQ(k.save().value(), bytes);
  }
}

TEST(Saved, StagesThatWereMade) {
  Context c = context();
  Kernel k = addFor(c, "cpu");
  std::string tile(k.stage("tile").value());
  Kernel loaded = c.loadKernel(k.save().value()).value();
  EXPECT_EQ(loaded.stage("tile").value(), tile);
  EXPECT_EQ(loaded.stage("obj").value(), k.stage("obj").value());
  Status s = loaded.stage("llvm").status();
  EXPECT_EQ(s.code(), TEGULA_UNSUPPORTED);
  EXPECT_NE(s.message().find("was loaded from bytes"), std::string::npos) << s.message();
  EXPECT_EQ(loaded.compileFor("sim").status().code(), TEGULA_UNSUPPORTED);
  EXPECT_EQ(loaded.stage("nothing").status().code(), TEGULA_NOT_FOUND);
}

TEST(Saved, ForAnotherMachineItIsLookedAt) {
  Context c = context();
  Kernel k = c.loadKernel(addFor(c, "sm_90a").save().value()).value();
  EXPECT_STREQ(k.info().target, "sm_90a");
  EXPECT_TRUE(k.stage("cubin") || k.stage("ptx"));
  float x[8] = {};
  if (tegula_device_count(c.get()) == 2)
    EXPECT_EQ(k(1, {std::span(x), std::span(x), std::span(x), 5, 4}).code(), TEGULA_UNSUPPORTED);
  // Asked for by name, a device must run it.
  EXPECT_EQ(c.loadKernel(k.save().value(), TEGULA_DEVICE_INDEX_CPU).status().code(), TEGULA_UNSUPPORTED);
}

TEST(Saved, DescriptorsAndTuples) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def rows(d, pair, out):
    x = d.load([0, 0])
    tl.store(out + tl.arange(0, 4), tl.sum(x, 1) * pair[0] + pair[1][0])
)");
  Function f = m.kernel("rows").value();
  TegulaKernel *made = nullptr;
  ASSERT_EQ(tegula_compile_signature(f.get(), "d:tensordesc<fp32[4, 4]>, pair:(fp32, (i32, 'text')), out:*fp32",
                                     nullptr, 0, "cpu", nullptr, &made),
            TEGULA_OK)
      << tegula_last_error();
  Kernel k = c.loadKernel(Kernel(made).save().value()).value();
  alignas(16) float x[16], out[4] = {};
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
  TegulaTensorDescriptor storage;
  TegulaArg d, inner[2] = {tegula_int(7), {}}, pair[2] = {tegula_float(2), {}};
  auto describe = [&](int64_t columns) {
    int64_t shape[2] = {4, 4}, strides[2] = {4, 1}, block[2] = {4, columns};
    ASSERT_EQ(tegula_tensor_descriptor(&storage, tegula_ptr(x, TEGULA_FP32, sizeof x), 2, shape, strides, block,
                                       TEGULA_PADDING_ZERO, &d),
              TEGULA_OK);
  };
  inner[1].kind = TEGULA_ARG_NONE;
  pair[1].kind = TEGULA_ARG_TUPLE;
  pair[1].count = 2;
  pair[1].u.items = inner;
  TegulaArg args[3] = {{}, {}, tegula_ptr(out, TEGULA_FP32, sizeof out)};
  args[1].kind = TEGULA_ARG_TUPLE;
  args[1].count = 2;
  args[1].u.items = pair;
  const int64_t grid[3] = {1, 1, 1};
  describe(4);
  args[0] = d;
  ASSERT_EQ(tegula_kernel_launch(k.get(), grid, args, 3, nullptr), TEGULA_OK) << tegula_last_error();
  EXPECT_EQ(out[0], 2 * 6 + 7);
  EXPECT_EQ(out[3], 2 * 54 + 7);
  describe(8);
  args[0] = d;
  EXPECT_EQ(tegula_kernel_launch(k.get(), grid, args, 3, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tegula_last_error()).find("tensordesc<fp32[4, 4]>"), std::string::npos) << tegula_last_error();
}

TEST(Saved, WrongBytes) {
  Context c = context();
  std::string good = addFor(c, "cpu").save().value();
  EXPECT_EQ(c.loadKernel("").status().code(), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(c.loadKernel("nothing of the kind").status().code(), TEGULA_INVALID_ARGUMENT);
  // Every truncation, and a flipped bit wherever the hash looks.
  for (size_t n = 0; n < good.size(); n += n < 300 ? 1 : 997)
    EXPECT_EQ(c.loadKernel(good.substr(0, n)).status().code(), TEGULA_INVALID_ARGUMENT) << n;
  for (size_t i = 16; i < good.size(); i += i < 100 ? 1 : 991) {
    if (i >= 24 + 32 + 32 && i < 24 + 96) continue; // the signature of the cache, which nobody asks for here
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    EXPECT_TRUE(i >= 24 && i < 56 ? c.loadKernel(bad).status().code() == TEGULA_OK
                                  : c.loadKernel(bad).status().code() == TEGULA_INVALID_ARGUMENT)
        << i;
  }
  std::string newer = good;
  newer[8] = static_cast<char>(newer[8] + 1);
  EXPECT_EQ(c.loadKernel(newer).status().code(), TEGULA_UNSUPPORTED);
  EXPECT_EQ(tegula_kernel_save(nullptr, nullptr, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_kernel_load(c.get(), nullptr, 0, -1, nullptr), TEGULA_INVALID_ARGUMENT);
}

} // namespace
