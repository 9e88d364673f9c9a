// The demand of a launch and the estimate made of it: what must grow grows, what is shared counts once.
#include "tune/Model.h"
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::tune;

namespace {

using Kind = WorkExpr::Kind;

/// A kernel that loads `elements` fp32 at `step` bytes times the program's number, `trips` (an argument) times, and
/// stores as many.
runtime::KernelInfo streaming(int64_t elements, int64_t step, bool isShared = false) {
  runtime::KernelInfo k;
  runtime::ArgInfo x, y, n;
  x.isPtr = y.isPtr = true;
  k.args = {x, y, n};
  k.gpu.threads = 128;
  auto &e = k.work.exprs;
  e.push_back({Kind::ProgramId, -1, -1, -1, 0});                        // 0
  e.push_back({Kind::Constant, -1, -1, -1, isShared ? 0 : step});       // 1
  e.push_back({Kind::Mul, 0, 1, -1, 0});                                // 2
  e.push_back({Kind::Coordinate, -1, -1, -1, 0});                       // 3
  e.push_back({Kind::Constant, -1, -1, -1, 4});                         // 4
  e.push_back({Kind::Mul, 3, 4, -1, 0});                                // 5
  e.push_back({Kind::Add, 2, 5, -1, 0});                                // 6
  e.push_back({Kind::Argument, -1, -1, -1, 2});                         // 7
  WorkScope body, loop;
  loop.kind = WorkScope::Kind::Loop, loop.parent = 0, loop.count = 7;
  loop[WorkKind::Float] = static_cast<double>(elements);
  k.work.scopes = {body, loop};
  WorkAccess load;
  load.elementBytes = 4, load.vectorBytes = 16, load.scope = 1, load.argument = 0, load.offset = 6,
  load.shape = {elements};
  WorkAccess store = load;
  store.kind = WorkAccess::Kind::Store, store.argument = 1;
  k.work.accesses = {load, store};
  return k;
}

Estimate estimated(const runtime::KernelInfo &k, int64_t programs, int64_t trips, int64_t extent = -1) {
  int64_t args[] = {0, 0, trips}, extents[] = {extent, extent, -1};
  runtime::GpuUse use;
  use.registers = 32;
  return estimateGpu(k, use, {{programs, 1, 1}, args, extents}, gpuCeilings(90));
}

TEST(Demand, CountsAreOfThePrograms) {
  Demand d = estimated(streaming(1024, 4096), 100, 3).demand;
  EXPECT_EQ(d.programs, 100);
  EXPECT_EQ(d.single, 3 * 1024);
  EXPECT_EQ(d.loadBytes, 3 * 4096);
  EXPECT_EQ(d.storeBytes, 3 * 4096);
  EXPECT_EQ(d.lanes, 2 * 3 * 256); // 16 bytes each
  EXPECT_EQ(d.blocks, 16);
  EXPECT_NEAR(d.imbalance, 1, 1e-9);
}

TEST(Demand, ProgramsThatAccessTheSameTileShareIt) {
  double own = estimated(streaming(1024, 4096), 100, 1).demand.freshBytes,
         shared = estimated(streaming(1024, 4096, true), 100, 1).demand.freshBytes;
  EXPECT_DOUBLE_EQ(own, 2 * 4096);
  EXPECT_DOUBLE_EQ(shared, 2 * 4096 / 100.0);
}

TEST(Demand, WhatAProgramLoadsAgain) {
  runtime::KernelInfo k = streaming(1024, 4096);
  EXPECT_EQ(estimated(k, 100, 2).demand.againBytes, 0);
  // A second pass over half of the tile: in a scope of its own, the same address.
  WorkScope second = k.work.scopes[1];
  k.work.scopes.push_back(second);
  WorkAccess load = k.work.accesses[0];
  load.scope = 2, load.shape = {512};
  k.work.accesses.push_back(load);
  Demand d = estimated(k, 100, 2).demand;
  EXPECT_DOUBLE_EQ(d.againBytes, 2 * 2048);
  EXPECT_DOUBLE_EQ(d.keptBytes, 2 * 2048);
  EXPECT_EQ(d.rounds, 4);
  EXPECT_EQ(d.again, 2);
  EXPECT_DOUBLE_EQ(d.freshBytes, 2 * 2 * 4096);
  // What all programs load is nobody's own.
  k.work.exprs[1].value = 0;
  EXPECT_LT(estimated(k, 100, 2).demand.againBytes, 2 * 2048 / 10);
}

TEST(Demand, LoadsWaitForRegisters) {
  // 64 of them a thread are wanted; 12 are free.
  EXPECT_EQ(estimated(streaming(256, 1024), 10, 1).demand.rounds, 1);
  EXPECT_NEAR(estimated(streaming(8192, 32768), 10, 1).demand.rounds, 64.0 / 12, 1e-9);
}

TEST(Demand, CopiesAreAheadAsFarAsAskedAndAsMemoryGoes) {
  runtime::KernelInfo k = streaming(1024, 4096);
  WorkDot dot;
  dot.scope = 1, dot.m = 32, dot.n = 32, dot.k = 16;
  k.work.dots = {dot};
  k.gpu.sharedBytes = 3 * 4096;
  EXPECT_EQ(estimated(k, 10, 8).demand.depth, 2); // stages are not known
  k.work.scopes[1].stages = 2;
  EXPECT_EQ(estimated(k, 10, 8).demand.depth, 1);
  k.work.scopes[1].stages = 8;
  EXPECT_EQ(estimated(k, 10, 8).demand.depth, 2);
  k.gpu.sharedBytes = 4096;
  EXPECT_EQ(estimated(k, 10, 8).demand.depth, 0);
}

TEST(Demand, NoMoreMemoryThanThereIs) {
  EXPECT_EQ(estimated(streaming(1024, 4096), 100, 1, 1000).demand.uniqueBytes, 2000);
}

TEST(Demand, StridesCostSectors) {
  runtime::KernelInfo k = streaming(1024, 4096);
  k.work.exprs[4].value = 256; // neighbours are 256 bytes apart
  EXPECT_EQ(estimated(k, 1, 1).demand.loadBytes, 32 * 1024);
  k.work.exprs[4].value = 8; // every other element
  EXPECT_EQ(estimated(k, 1, 1).demand.loadBytes, 8192);
}

TEST(Demand, KernelsOfNothing) {
  runtime::KernelInfo k;
  EXPECT_GE(estimated(k, 0, 0).ns, 0);
  EXPECT_GE(estimated(k, 10, 0).ns, 0);
}

TEST(Model, MoreWorkTakesLonger) {
  double last = 0;
  for (int64_t trips : {1, 4, 64, 1024}) {
    double ns = estimated(streaming(1024, 4096), 1000, trips).ns;
    EXPECT_GT(ns, last);
    last = ns;
  }
  last = 0;
  for (int64_t programs : {1, 1000, 10000, 100000}) {
    double ns = estimated(streaming(1024, 4096), programs, 8).ns;
    EXPECT_GT(ns, last);
    last = ns;
  }
}

TEST(Model, NothingIsFasterThanTheMemory) {
  Estimate e = estimated(streaming(1024, 4096), 100000, 1);
  EXPECT_GT(e.ns, 100000 * 8192 / gpuCeilings(90).memoryGBs);
  EXPECT_NE(e.why().find("bounded by memory"), std::string::npos);
}

TEST(Model, SpillsAndDoubtfulUnitsCost) {
  runtime::KernelInfo k = streaming(1024, 4096, true);
  int64_t args[] = {0, 0, 50};
  Launch launch{{10000, 1, 1}, args, {}};
  runtime::GpuUse use;
  use.registers = 32;
  double plain = estimateGpu(k, use, launch, gpuCeilings(90)).ns;
  use.spillBytes = 400;
  EXPECT_GT(estimateGpu(k, use, launch, gpuCeilings(90)).ns, plain);
  use.spillBytes = 0;
  k.work.scopes[1][WorkKind::Double] = 4096;
  EXPECT_GT(estimateGpu(k, use, launch, gpuCeilings(89)).ns, estimateGpu(k, use, launch, gpuCeilings(90)).ns);
}

TEST(Model, AnotherPassCostsMemoryOnlyWhereCachesAreTooSmall) {
  runtime::KernelInfo k = streaming(4096, 16384), twice = k;
  twice.work.scopes.push_back(twice.work.scopes[1]);
  WorkAccess load = twice.work.accesses[0];
  load.scope = 2;
  twice.work.accesses.push_back(load);
  auto memory = [](const Estimate &e) {
    for (const Part &p : e.parts)
      if (std::string(p.name) == "memory") return p.ns;
    return 0.0;
  };
  int64_t args[] = {0, 0, 1};
  Launch launch{{20000, 1, 1}, args, {}};
  runtime::GpuUse few, many;
  few.registers = many.registers = 40;
  few.blocksPerCore = 4, many.blocksPerCore = 32;
  EXPECT_DOUBLE_EQ(memory(estimateGpu(twice, few, launch, gpuCeilings(90))),
                   memory(estimateGpu(k, few, launch, gpuCeilings(90))));
  // The rows of 132 x 32 blocks are more than the L2 cache.
  EXPECT_GT(memory(estimateGpu(twice, many, launch, gpuCeilings(90))),
            1.4 * memory(estimateGpu(k, many, launch, gpuCeilings(90))));
}

TEST(Model, ThreadsBeyondATileRepeatIt) {
  runtime::KernelInfo k = streaming(128, 512);
  k.work.scopes[1][WorkKind::Float] = 128 * 200;
  double ns = estimated(k, 100000, 1).ns;
  k.gpu.threads = 512;
  EXPECT_GT(estimated(k, 100000, 1).ns, 2 * ns);
}

TEST(Model, FasterMemoryIsNotSlower) {
  runtime::KernelInfo k = streaming(1024, 4096);
  int64_t args[] = {0, 0, 1};
  Launch launch{{100000, 1, 1}, args, {}};
  EXPECT_LT(estimateGpu(k, {}, launch, gpuCeilings(90, "H200")).ns,
            estimateGpu(k, {}, launch, gpuCeilings(90, "H100")).ns);
}

TEST(Model, LongRowsThatChangePlacesAreGathered) {
  Demand d;
  d.programs = 100, d.exchange = 4096, d.exchangeRow = 8;
  CpuCeilings wide, narrow;
  wide.vectorBits = 512, narrow.vectorBits = 128;
  double shuffled = cpuTime(d, wide).ns;
  EXPECT_GT(cpuTime(d, narrow).ns, 2 * shuffled);
  d.exchangeRow = 16;
  double gathered = cpuTime(d, wide).ns;
  EXPECT_GT(gathered, 2 * shuffled);
  d.farRows = 64;
  EXPECT_GT(cpuTime(d, wide).ns, 1.3 * gathered);
}

TEST(Model, ProcessorsShareThePrograms) {
  runtime::KernelInfo k = streaming(1024, 4096);
  int64_t args[] = {0, 0, 10};
  Launch launch{{64, 1, 1}, args, {}};
  CpuCeilings one, two, wide;
  two.threads = 2;
  wide.vectorBits = 512;
  double ns = estimateCpu(k, launch, one).ns;
  EXPECT_LT(estimateCpu(k, launch, two).ns, ns);
  EXPECT_LT(estimateCpu(k, launch, wide).ns, ns);
}

} // namespace
