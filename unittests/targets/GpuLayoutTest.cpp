// Layout assignment: what it writes is valid IR and means the same as before, and accesses are coalesced.
#include "ParsedIr.h"
#include "RandomKernel.h"
#include "gpu/Layouts.h"
#include "gpu/layouts/AssignLayouts.h"
#include "ir/Verifier.h"
#include "layout/Conversion.h"
#include "targets/nvidia/TargetInfo.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;
using tegula::test::count;
using tegula::test::elements;
using tegula::test::parsed;
using tegula::test::RandomKernel;
using tegula::test::runKernel;

TEST(GpuLayouts, RandomKernelsKeepTheirMeaning) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Module m;
    RandomKernel generate(m, seed);
    gpu::Options options;
    options.numWarps = 1u << seed % 4;
    auto gpu = gpu::assignLayouts(m, nvidia::NvTargetInfo({}), options);
    std::string why;
    ASSERT_TRUE(verify(*gpu, &why)) << "seed " << seed << "\n" << why << "\n" << print(*gpu);
    ASSERT_EQ(runKernel(*gpu, seed), runKernel(m, seed)) << "seed " << seed;
  }
}

TEST(GpuLayouts, StoresTakeTheWarpsOfTheirValue) {
  using layout::Dim;
  ir::Shape shape{128, 256};
  const layout::Extents rows{1, 0}, columns{0, 1};
  layout::LinearLayout dealt = layout::dealt(shape, rows, 8, {32, 8});
  layout::LinearLayout acc = layout::LinearLayout::tensor(
      {128, 256}, {{Dim::Register, {{0, 1}, {8, 0}, {0, 8}, {0, 16}, {0, 32}, {0, 64}, {0, 128}}},
                   {Dim::Lane, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}},
                   {Dim::Warp, {{16, 0}, {32, 0}, {64, 0}}}});
  layout::LinearLayout l = layout::withWarpsOf(dealt, acc, 3);
  EXPECT_TRUE(l.isInvertible());
  EXPECT_TRUE(std::ranges::equal(l.bases(Dim::Warp), acc.bases(Dim::Warp)));
  EXPECT_TRUE(std::ranges::equal(l.bases(Dim::Lane), dealt.bases(Dim::Lane)));
  EXPECT_EQ(layout::exchangeScope(acc, l), layout::ExchangeScope::Warp);
  EXPECT_EQ(layout::exchangeScope(acc, dealt), layout::ExchangeScope::Cta);
  // Warps along what lanes have: nothing can be exchanged.
  layout::LinearLayout down = layout::dealt(shape, columns, 1, {32, 8});
  EXPECT_EQ(layout::withWarpsOf(down, acc, 0), down);
}

// A row of 1024 floats over 128 threads: 16 bytes per access, no exchange between loads, reductions and the store.
TEST(GpuLayouts, RowKernelsNeedNoConversion) {
  auto m = parsed(R"(kernel @softmax(%x: ptr<f32> {divisibility = 16}, %out: ptr<f32> {divisibility = 16}, %stride: i32 {divisibility = 16}, %cols: i32 {divisibility = 16}) {
  %row = program_id {axis = 0} : i32
  %offsets = range {start = 0} : tensor<1024xi32>
  %0 = splat %cols : tensor<1024xi32>
  %mask = cmpi %offsets, %0 {pred = slt} : tensor<1024xi1>
  %1 = mul %row, %stride : i32
  %2 = addptr %x, %1 : ptr<f32>
  %3 = splat %2 : tensor<1024xptr<f32>>
  %4 = addptr %3, %offsets : tensor<1024xptr<f32>>
  %5 = const {value = -inf} : tensor<1024xf32>
  %v = load %4, %mask, %5 : tensor<1024xf32>
  %6 = reduce %v {axis = 0} : f32 (%7: f32, %8: f32) {
    %9 = maxnum %7, %8 : f32
    yield %9
  }
  %10 = splat %6 : tensor<1024xf32>
  %e = fsub %v, %10 : tensor<1024xf32>
  %11 = addptr %out, %1 : ptr<f32>
  %12 = splat %11 : tensor<1024xptr<f32>>
  %13 = addptr %12, %offsets : tensor<1024xptr<f32>>
  store %13, %e, %mask
  return
})");
  auto gpu = gpu::assignLayouts(*m, nvidia::NvTargetInfo({}), {});
  EXPECT_EQ(count(*gpu->kernel()->block(), OpKind::Convert), 0u) << print(*gpu);
  for (const Op *op : gpu->kernel()->block()->ops)
    if (op->kind == OpKind::Load || op->kind == OpKind::Store)
      EXPECT_EQ(op->vec(), 4) << print(*op);
}

// What is left of a large tile by a reduction between lanes is dealt anew before a loop carries it: no thread has as
// many registers of it as of the tile.
TEST(GpuLayouts, LoopsCarryNoCopies) {
  auto m = parsed(R"(kernel @best(%x: ptr<f32> {divisibility = 16}, %out: ptr<f32> {divisibility = 16}, %n: i32) {
  %offsets = range {start = 0} : tensor<16384xi32>
  %0 = splat %x : tensor<16384xptr<f32>>
  %1 = addptr %0, %offsets : tensor<16384xptr<f32>>
  %v = load %1 : tensor<16384xf32>
  %pairs = reshape %v : tensor<128x2x64xf32>
  %2 = reduce %pairs {axis = 1} : tensor<128x64xf32> (%3: f32, %4: f32) {
    %5 = maxnum %3, %4 : f32
    yield %5
  }
  %6 = const {value = 0} : i32
  %7 = const {value = 1} : i32
  %half = range {start = 0} : tensor<8192xi32>
  %best = reshape %2 : tensor<8192xf32>
  %8 = for %6, %n, %7, %best : tensor<8192xf32> (%i: i32, %now: tensor<8192xf32>) {
    %9 = splat %i : tensor<8192xi32>
    %10 = xor %half, %9 : tensor<8192xi32>
    %11 = gather %now, %10 {axis = 0} : tensor<8192xf32>
    %12 = fadd %11, %now : tensor<8192xf32>
    yield %12
  }
  %13 = splat %out : tensor<8192xptr<f32>>
  %14 = addptr %13, %half : tensor<8192xptr<f32>>
  store %14, %8
  return
})");
  auto gpu = gpu::assignLayouts(*m, nvidia::NvTargetInfo({}), {});
  std::string why;
  ASSERT_TRUE(verify(*gpu, &why)) << why;
  for (const Op *op : gpu->kernel()->block()->ops) {
    if (op->kind != OpKind::For)
      continue;
    EXPECT_EQ(gpu->layoutOf(op->result()->type).inBits(layout::Dim::Register), 6u) << print(*gpu);
    EXPECT_EQ(count(*op->region(0), OpKind::Convert), 0u) << print(*gpu);
  }
  EXPECT_EQ(count(*gpu->kernel()->block(), OpKind::Convert), 1u) << print(*gpu);
}
