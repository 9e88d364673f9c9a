// Tensor maps of a launch, with the simulator's encoder: what they are made of, that they are remembered, and through
// the cache file.
#include "runtime/TensorMaps.h"
#include "TestObjects.h"
#include "runtime/Cancel.h"
#include "runtime/SimDevice.h"
#include "runtime/ThreadPool.h"
#include <array>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::runtime;

namespace {

int encoded = 0;
std::string encode(const void *, const sim::TensorMapSpec &spec, void *map) {
  return ++encoded, sim::encodeTensorMap(spec, map);
}

/// k(x: pointer, rows: i32, stride: i64): one map over [rows, 40] elements.
KernelInfo kernel(TegulaDtype dtype, bool nan = false) {
  KernelInfo k;
  k.name = "k";
  k.args = {{"x.base", dtype, true, true, false, 0},
            {"x.shape.0", TEGULA_INT32, false, false, false, 8},
            {"x.strides.0", TEGULA_INT64, false, false, false, 16}};
  k.argBytes = 24;
  k.gpu.threads = 128;
  k.tensorMaps.push_back({dtype, nan, 64, {0}, {{1}, {-1, 40}}, {{2}, {-1, 1}}, {16, 32}});
  return k;
}

struct Block {
  alignas(64) char bytes[24 + argRoom] = {};
  Block(uint64_t x, int32_t rows, int64_t stride) {
    std::memcpy(bytes, &x, 8);
    std::memcpy(bytes + 8, &rows, 4);
    std::memcpy(bytes + 16, &stride, 8);
  }
};

static const int32_t oneProgram[3] = {1, 1, 1};

TEST(TensorMaps, HoldWhatTheArgumentsSay) {
  struct Row {
    TegulaDtype dtype;
    int32_t number;
    int64_t bytes;
  };
  const Row rows[] = {{TEGULA_FP16, 6, 2},  {TEGULA_BF16, 9, 2},  {TEGULA_FP32, 7, 4},  {TEGULA_FP64, 8, 8},
                      {TEGULA_FP8E5, 0, 1}, {TEGULA_INT8, 0, 1},  {TEGULA_INT32, 3, 4}, {TEGULA_UINT32, 2, 4},
                      {TEGULA_INT64, 5, 8}, {TEGULA_UINT16, 1, 2}};
  for (const Row &r : rows) {
    KernelInfo k = kernel(r.dtype);
    if (r.bytes > 2) k.tensorMaps[0].box[1] = static_cast<uint32_t>(64 / r.bytes); // what the swizzle spans
    TensorMaps maps(k, encode);
    Block b(0x1000, 77, 64);
    Status s = maps.append(k, nullptr, b.bytes, oneProgram);
    ASSERT_TRUE(s) << s.text;
    sim::TensorMapSpec spec;
    ASSERT_TRUE(sim::decodeTensorMap(b.bytes + mapsOffset(k), spec));
    EXPECT_EQ(spec.dataType, r.number);
    EXPECT_EQ(spec.rank, 2u);
    EXPECT_EQ(spec.address, 0x1000u);
    EXPECT_EQ(spec.dims[0], 40u);
    EXPECT_EQ(spec.dims[1], 77u);
    EXPECT_EQ(spec.strides[0], static_cast<uint64_t>(64 * r.bytes));
    EXPECT_EQ(spec.box[1], 16u);
    EXPECT_EQ(spec.swizzle, 2);
  }
}

TEST(TensorMaps, NumbersAreProducts) {
  KernelInfo k = kernel(TEGULA_FP16);
  k.tensorMaps[0].extents[0] = {1, 3, 2};         // rows * 3 * programs along z
  k.tensorMaps[0].strides[0] = {2, 1, -1, 1};     // stride * rows
  TensorMaps maps(k, encode);
  Block b(0x1000, 5, 64);
  const int32_t grid[3] = {9, 9, 4};
  Status s = maps.append(k, nullptr, b.bytes, grid);
  ASSERT_TRUE(s) << s.text;
  sim::TensorMapSpec spec;
  ASSERT_TRUE(sim::decodeTensorMap(b.bytes + mapsOffset(k), spec));
  EXPECT_EQ(spec.dims[1], 60u);
  EXPECT_EQ(spec.strides[0], 640u);
}

TEST(TensorMaps, AreRemembered) {
  KernelInfo k = kernel(TEGULA_FP16, true);
  TensorMaps maps(k, encode);
  encoded = 0;
  for (int round = 0; round < 3; ++round)
    for (int32_t rows = 1; rows <= 8; ++rows) {
      Block b(0x2000, rows, 64);
      ASSERT_TRUE(maps.append(k, nullptr, b.bytes, oneProgram));
      sim::TensorMapSpec spec;
      ASSERT_TRUE(sim::decodeTensorMap(b.bytes + mapsOffset(k), spec));
      EXPECT_EQ(spec.dims[1], static_cast<uint64_t>(rows));
      EXPECT_EQ(spec.oobFill, 1);
    }
  EXPECT_EQ(encoded, 8);
  for (int32_t rows = 1; rows <= 20; ++rows) {
    Block b(0x2000, rows, 64);
    ASSERT_TRUE(maps.append(k, nullptr, b.bytes, oneProgram));
  }
  EXPECT_EQ(encoded, 8 + 12) << "the oldest makes room";
}

struct NoHooks final : LaunchHooks {
  void print(const std::string &) override {}
};

/// The whole way: a kernel for the simulator reads a box through the map that its launch made of the arguments.
TEST(TensorMaps, KernelsReadThroughThem) {
  ThreadPool pool;
  CancelTable cancel;
  std::unique_ptr<Device> device = makeSimDevice("sim", 90, pool, cancel);
  KernelInfo k;
  k.name = k.symbol = "read_box";
  k.args = {{"x", TEGULA_FP32, true, true, false, 0},
            {"rows", TEGULA_INT32, false, false, false, 8},
            {"out", TEGULA_FP32, true, true, true, 16}};
  k.argBytes = 24;
  k.gpu.threads = 128;
  k.gpu.sharedBytes = 2048;
  k.tensorMaps.push_back({TEGULA_FP32, true, 0, {0}, {{1}, {-1, 15}}, {{-1, 32}, {-1, 1}}, {8, 16}});
  Status status;
  std::unique_ptr<Executable> kernel = device->load(k, testObject("sim"), status);
  ASSERT_TRUE(kernel) << status.text;
  alignas(64) float x[6 * 32], out[128];
  for (int i = 0; i < 6 * 32; ++i) x[i] = float(i);
  const TegulaCpuExtent extents[] = {{reinterpret_cast<uint64_t>(x), sizeof x},
                                     {reinterpret_cast<uint64_t>(out), sizeof out}};
  for (int32_t rows : {4, 5}) { // the tensor ends before the buffer does
    Block block(reinterpret_cast<uint64_t>(x), rows, static_cast<int64_t>(reinterpret_cast<uint64_t>(out)));
    NoHooks hooks;
    LaunchOutcome outcome;
    Status s = kernel->launch({{1, 1, 1}, 1, block.bytes, extents, 1, nullptr, &hooks}, outcome);
    ASSERT_TRUE(s) << s.text;
    for (int i = 0; i < 128; ++i) {
      int row = i / 16 - 2, column = i % 16 + 4;
      bool inside = row >= 0 && row < rows && column < 15;
      if (inside) EXPECT_EQ(out[i], x[row * 32 + column]) << i;
      else EXPECT_NE(out[i], out[i]) << i;
    }
  }
}

TEST(TensorMaps, WhatCannotBeEncodedIsNamed) {
  KernelInfo k = kernel(TEGULA_FP16);
  TensorMaps maps(k, encode);
  struct Row {
    Block block;
    const char *text;
  };
  for (Row &r : std::array<Row, 3>{
           Row{Block(0x1008, 8, 64), "address"}, {Block(0x1000, 8, 63), "stride"}, {Block(0x1000, 0, 64), "extent"}}) {
    Status s = maps.append(k, nullptr, r.block.bytes, oneProgram);
    EXPECT_EQ(s.code, TEGULA_INVALID_ARGUMENT);
    EXPECT_NE(s.text.find("descriptor of `x`"), std::string::npos) << s.text;
    EXPECT_NE(s.text.find(r.text), std::string::npos) << s.text;
  }
}

TEST(TensorMaps, AreWrittenAndRead) {
  KernelInfo k = kernel(TEGULA_BF16, true), back;
  k.tensorMaps[0].roundTf32 = true;
  k.tensorMaps[0].merged = 4;
  ByteWriter w;
  write(w, k);
  ByteReader r(w.bytes.data(), w.bytes.size());
  ASSERT_TRUE(read(r, back));
  ASSERT_EQ(back.tensorMaps.size(), 1u);
  const TensorMapInfo &a = k.tensorMaps[0], &b = back.tensorMaps[0];
  EXPECT_EQ(b.dtype, a.dtype);
  EXPECT_EQ(b.nanFill, a.nanFill);
  EXPECT_EQ(b.swizzle, a.swizzle);
  EXPECT_EQ(b.box, a.box);
  EXPECT_EQ(b.roundTf32, a.roundTf32);
  EXPECT_EQ(b.merged, a.merged);
  EXPECT_EQ(b.extents[1].value, 40);
  EXPECT_EQ(b.strides[0].arg, 2);
  // An argument that is not there.
  k.tensorMaps[0].extents[0].arg = 3;
  ByteWriter broken;
  write(broken, k);
  ByteReader again(broken.bytes.data(), broken.bytes.size());
  EXPECT_FALSE(read(again, back));
}

} // namespace
