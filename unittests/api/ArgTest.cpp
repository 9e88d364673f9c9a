// What C++ types become as arguments of launches, and Result as a value. What must not compile is in test/cpp/fail.
#include "Fixture.h"
#include <array>
#include <cstddef>

using namespace tegula;
using namespace tegula::test;

static_assert(!std::is_constructible_v<Arg, void *> && !std::is_constructible_v<Arg, const char *> &&
              !std::is_constructible_v<Arg, char *>);
static_assert(!std::is_constructible_v<Arg, float **> && !std::is_constructible_v<Arg, void (*)()> &&
              !std::is_constructible_v<Arg, std::string &>);
static_assert(!std::is_constructible_v<Arg, std::vector<float>> && std::is_constructible_v<Arg, std::vector<float> &> &&
              std::is_constructible_v<Arg, std::span<float>>);

static void expectPointer(const Arg &a, TegulaDtype d, const void *p, int64_t bytes, bool readOnly = false) {
  EXPECT_EQ(a.raw().kind, TEGULA_ARG_POINTER);
  EXPECT_EQ(a.raw().dtype, d);
  EXPECT_EQ(a.raw().u.ptr, p);
  EXPECT_EQ(a.raw().u2.extent, bytes);
  EXPECT_EQ((a.raw().flags & TEGULA_ARG_READ_ONLY) != 0, readOnly);
}

TEST(Arg, PointersAreNoBooleans) {
  long long ll[2] = {};
  unsigned long long ull[2] = {};
  std::byte bytes[3] = {};
  const std::byte *constant = bytes;
  expectPointer(&ll[0], TEGULA_INT64, ll, -1);
  expectPointer(&ull[0], TEGULA_UINT64, ull, -1);
  expectPointer(&bytes[0], TEGULA_UINT8, bytes, -1);
  expectPointer(constant, TEGULA_UINT8, bytes, -1, true);
  EXPECT_EQ(Arg(true).raw().kind, TEGULA_ARG_BOOL);
  EXPECT_EQ(Arg(nullptr).raw().kind, TEGULA_ARG_NONE);
  EXPECT_EQ(Arg(~0ull).raw().kind, TEGULA_ARG_UINT);
  EXPECT_EQ(Arg(7ll).raw().kind, TEGULA_ARG_INT);
#ifdef __FLT16_MAX__
  _Float16 h[2] = {};
  expectPointer(&h[0], TEGULA_FP16, h, -1);
#endif
}

TEST(Arg, Ranges) {
  std::vector<float> v(5);
  const std::vector<float> &cv = v;
  std::array<int16_t, 4> a{};
  double c[3] = {};
  expectPointer(v, TEGULA_FP32, v.data(), 20);
  expectPointer(cv, TEGULA_FP32, v.data(), 20, true);
  expectPointer(a, TEGULA_INT16, a.data(), 8);
  expectPointer(c, TEGULA_FP64, c, 24);
  expectPointer(std::span(v).subspan(1), TEGULA_FP32, v.data() + 1, 16);
  expectPointer(std::span<const float, 2>(v.data(), 2), TEGULA_FP32, v.data(), 8, true);
}

namespace {
/// As std::mdspan answers.
struct View {
  struct Mapping {
    size_t required_span_size() const { return 6; }
  };
  float *data;
  float *data_handle() const { return data; }
  Mapping mapping() const { return {}; }
};
/// As in dlpack.h.
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void *data;
  int32_t ndim;
  DataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
} // namespace

TEST(Arg, Views) {
  float data[16];
  expectPointer(View{data}, TEGULA_FP32, data, 24);
  int64_t shape[2] = {2, 3}, strides[2] = {4, 1}, backwards[2] = {4, -1};
  Tensor t{data, 2, {2, 32, 1}, shape, nullptr, 8};
  expectPointer(&t, TEGULA_FP32, data + 2, 24);
  t.strides = strides;
  expectPointer(&t, TEGULA_FP32, data + 2, 28);
  t.strides = backwards;
  expectPointer(&t, TEGULA_FP32, data + 2, -1);
  t.strides = nullptr, t.byte_offset = 0;
  struct {
    DataType type;
    TegulaDtype is;
  } kinds[] = {{{0, 8, 1}, TEGULA_INT8},  {{0, 64, 1}, TEGULA_INT64},   {{1, 16, 1}, TEGULA_UINT16},
               {{2, 16, 1}, TEGULA_FP16}, {{2, 64, 1}, TEGULA_FP64},    {{4, 16, 1}, TEGULA_BF16},
               {{6, 8, 1}, TEGULA_INT1},  {{10, 8, 1}, TEGULA_FP8E4NV}, {{12, 8, 1}, TEGULA_FP8E5}};
  for (auto &k : kinds) {
    t.dtype = k.type;
    expectPointer(&t, k.is, data, 6 * k.type.bits / 8);
  }
  Context c = context();
  Function f = module(c, "@triton.jit\ndef f(x):\n    tl.store(x, tl.load(x))\n").kernel("f").value();
  t.dtype = {2, 32, 1};
  EXPECT_TRUE(f(1, {&t}));
  for (DataType none : {DataType{2, 32, 4}, DataType{3, 64, 1}, DataType{0, 4, 1}, DataType{5, 64, 1}}) {
    t.dtype = none;
    EXPECT_EQ(f(1, {&t}).code(), TEGULA_INVALID_ARGUMENT);
  }
}

TEST(Result, IsAValue) {
  Context c = context();
  const Result<Module> good = module(c, addText);
  EXPECT_TRUE(good.has_value());
  EXPECT_EQ(good->kernels().size(), 1u);
  EXPECT_EQ((*good).kernels(), good.value().kernels());
  EXPECT_EQ(good.and_then([](const Module &m) { return m.kernel("add"); }).value().name(), "add");
  Status missing = good.and_then([](const Module &m) { return m.kernel("addd"); }).status();
  EXPECT_EQ(missing.code(), TEGULA_NOT_FOUND);
  bool called = false;
  Status broken = c.loadText("b.py", "def f(:").and_then([&](const Module &) { return called = true, Status(); });
  EXPECT_EQ(broken.code(), TEGULA_COMPILE_ERROR);
  EXPECT_FALSE(called);
  EXPECT_EQ(Result<int>(missing).value_or(7), 7);
  EXPECT_EQ(Result<int>(4).value_or(7), 4);
}
