// Structs of older and newer programs.
#include "Fixture.h"
#include "api/Sized.h"
#include <cstring>

using namespace tegula;
using namespace tegula::test;

extern "C" int firstProgram(void);

TEST(Sized, ProgramsOfTheFirstHeaderRun) { EXPECT_EQ(firstProgram(), 0); }

TEST(Sized, WhatIsMissingHasItsDefault) {
  TegulaLaunchOptions given = TEGULA_LAUNCH_OPTIONS_INIT, full = TEGULA_LAUNCH_OPTIONS_INIT;
  given.num_warps = 8;
  given.memory_user = &given;
  given.size = offsetof(TegulaLaunchOptions, memory);
  full.memory_user = &full;
  ASSERT_TRUE(api::takeSized(&given, full));
  EXPECT_EQ(full.size, sizeof full);
  EXPECT_EQ(full.num_warps, 8);
  EXPECT_EQ(full.memory_user, &full);
  EXPECT_TRUE(api::hasField(given, &TegulaLaunchOptions::stream));
  EXPECT_FALSE(api::hasField(given, &TegulaLaunchOptions::memory));
  given.size = offsetof(TegulaLaunchOptions, stream);
  EXPECT_FALSE(api::takeSized(&given, full));
  EXPECT_FALSE(api::takeSized<TegulaLaunchOptions>(nullptr, full));
}

// A program that knows more than this library: what it adds is left alone.
TEST(Sized, WhatIsNewerIsLeftOut) {
  struct Newer {
    TegulaKernelInfo known;
    uint64_t added = 77;
  } asked{};
  asked.known.size = sizeof asked;
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  alignas(64) static float data[16];
  TegulaArg args[] = {tegula_ptr(data, TEGULA_FP32, 64), tegula_ptr(data, TEGULA_FP32, 64),
                      tegula_ptr(data, TEGULA_FP32, 64), tegula_int(16), tegula_int(16)};
  struct NewerOptions {
    TegulaLaunchOptions known = TEGULA_LAUNCH_OPTIONS_INIT;
    uint64_t added = 1;
  } options;
  options.known.size = sizeof options;
  TegulaKernel *k = nullptr;
  ASSERT_EQ(tegula_compile(add.get(), args, 5, &options.known, &k), TEGULA_OK) << tegula_last_error();
  ASSERT_EQ(tegula_kernel_info(k, &asked.known), TEGULA_OK);
  EXPECT_EQ(asked.known.size, sizeof asked.known);
  EXPECT_EQ(asked.added, 77u);
  tegula_kernel_release(k);
}
