// tegula_eager_*: operations one at a time, by the rules of the language.
#include "tegula/tegula.h"
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace {

struct Release {
  void operator()(TegulaValue *v) const { tegula_value_release(v); }
};
using Owned = std::unique_ptr<TegulaValue, Release>;

struct EagerTest : testing::Test {
  TegulaContext *context = nullptr;
  TegulaEager *eager = nullptr;
  void SetUp() override {
    ASSERT_EQ(tegula_context_create(nullptr, &context), TEGULA_OK);
    ASSERT_EQ(tegula_eager_create(context, nullptr, &eager), TEGULA_OK);
  }
  void TearDown() override {
    tegula_eager_release(eager);
    tegula_context_release(context);
  }
  Owned operate(const char *name, const Owned &a, const Owned &b) {
    TegulaValue *operands[] = {a.get(), b.get()}, *out = nullptr;
    EXPECT_EQ(tegula_eager_operate(eager, name, operands, 2, &out), TEGULA_OK) << tegula_last_error();
    return Owned(out);
  }
  Owned call(const char *function, const std::vector<const Owned *> &args) {
    Owned module(tegula_value_module("triton.language")), callee(tegula_value_attribute(module.get(), function));
    std::vector<TegulaEagerArg> list;
    for (const Owned *a : args)
      list.push_back({a->get(), nullptr});
    TegulaValue *out = nullptr;
    status = tegula_eager_call(eager, callee.get(), list.data(), list.size(), &out);
    return Owned(out);
  }
  TegulaStatus status = TEGULA_OK;
};

TegulaTensorInfo info(const Owned &v) {
  TegulaTensorInfo i = {};
  i.size = sizeof i;
  EXPECT_EQ(tegula_value_tensor(v.get(), &i), TEGULA_OK);
  return i;
}

TEST_F(EagerTest, OperatorsPromoteAndWrap) {
  Owned a(tegula_eager_scalar(TEGULA_INT8, 0, 100)), b(tegula_eager_scalar(TEGULA_INT8, 0, 100)),
      c(tegula_eager_scalar(TEGULA_INT32, 0, 100));
  Owned narrow = operate("+", a, b), wide = operate("+", a, c);
  EXPECT_EQ(info(narrow).dtype, TEGULA_INT8);
  EXPECT_EQ(info(narrow).bits[0], 200u);
  EXPECT_EQ(info(wide).dtype, TEGULA_INT32);
  TegulaValue *one[] = {a.get()}, *out = nullptr;
  EXPECT_EQ(tegula_eager_operate(eager, "+", one, 1, &out), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_eager_operate(eager, "no such", one, 1, &out), TEGULA_INVALID_ARGUMENT);
}

TEST_F(EagerTest, FunctionsOfTheLanguageAndItsLibrary) {
  Owned zero(tegula_value_int(0)), eight(tegula_value_int(8)), nine(tegula_value_int(9));
  Owned tile = call("arange", {&zero, &eight});
  EXPECT_EQ(info(tile).shape[0], 8);
  EXPECT_EQ(info(call("sum", {&tile})).bits[0], 28u);
  EXPECT_FALSE(call("arange", {&nine, &zero}));
  EXPECT_EQ(status, TEGULA_COMPILE_ERROR);
  EXPECT_TRUE(strstr(tegula_last_error(), "greater")) << tegula_last_error();
}

TEST_F(EagerTest, MemoryIsThatOfTheBuffers) {
  int32_t data[4] = {1, 2, 3, 4};
  ASSERT_EQ(tegula_eager_add_buffer(eager, "x", data, sizeof data, 0), TEGULA_OK);
  int32_t pid[3] = {2, 0, 0}, grid[3] = {3, 1, 1};
  ASSERT_EQ(tegula_eager_set_program(eager, pid, grid), TEGULA_OK);
  Owned base(tegula_eager_scalar(TEGULA_INT32, TEGULA_TENSOR_POINTER, reinterpret_cast<uintptr_t>(data))),
      zero(tegula_value_int(0));
  Owned last = operate("+", base, call("program_id", {&zero}));
  EXPECT_EQ(info(call("load", {&last})).bits[0], 3u);
  Owned beyond = operate("+", last, Owned(tegula_value_int(2)));
  call("load", {&beyond});
  EXPECT_EQ(status, TEGULA_FAULT);
  EXPECT_TRUE(strstr(
      tegula_last_error(),
      "program (2, 0, 0): load of 4 bytes outside all buffers; the nearest is `x`, 16 bytes, and this is at byte 16"))
      << tegula_last_error();
  Owned five(tegula_value_int(5));
  call("store", {&last, &five});
  EXPECT_EQ(status, TEGULA_FAULT); // read only
  ASSERT_EQ(tegula_eager_add_buffer(eager, "unknown", data, -1, 1), TEGULA_OK);
  call("store", {&last, &five});
  EXPECT_EQ(status, TEGULA_OK);
  EXPECT_EQ(data[2], 5);
}

} // namespace
