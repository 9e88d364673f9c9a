// Tensor maps and bulk tensor copies: what is refused, where elements land, what lies outside, multicast, stores and
// reductions; and the hazards of wgmma, which reads what these copies bring.
#include "Fixture.h"
#include "sim/TensorMap.h"
#include "TestPaths.h"
#include <fstream>
#include <set>
#include <sstream>

namespace tegula::sim {
namespace {

TensorMapSpec spec2d(const void *data, int32_t type, uint64_t cols, uint64_t rows, uint64_t pitch, uint32_t boxCols,
                     uint32_t boxRows, int32_t swizzle) {
  TensorMapSpec s;
  s.dataType = type, s.rank = 2, s.address = address(data), s.swizzle = swizzle;
  s.dims[0] = cols, s.dims[1] = rows, s.strides[0] = pitch, s.box[0] = boxCols, s.box[1] = boxRows;
  return s;
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  alignas(64) unsigned char map[192];
  const auto base = reinterpret_cast<const void *>(uintptr_t(0x10000));
  TensorMapSpec good = spec2d(base, 9, 99, 77, 2032, 64, 64, 3);
  struct Case {
    std::function<void(TensorMapSpec &)> change;
    bool accepted;
  };
  const Case cases[] = {
      {[](auto &s) {}, true},
      {[](auto &s) { s.box[1] = 256; }, true},
      {[](auto &s) { s.box[1] = 257; }, false},
      {[](auto &s) { s.box[0] = 4; }, false},   // 8 bytes
      {[](auto &s) { s.box[0] = 24; }, true},   // 48 bytes
      {[](auto &s) { s.box[0] = 128; }, false}, // more than the span
      {[](auto &s) { s.box[0] = 128, s.swizzle = 0; }, true},
      {[](auto &s) { s.box[0] = 64, s.swizzle = 2; }, false},
      {[](auto &s) { s.box[0] = 32, s.swizzle = 2; }, true},
      {[](auto &s) { s.box[0] = 32, s.swizzle = 1; }, false},
      {[](auto &s) { s.box[0] = 256, s.box[1] = 256, s.swizzle = 0; }, true},
      {[](auto &s) { s.box[0] = 256, s.box[1] = 256, s.swizzle = 0, s.dataType = 7; }, false}, // 256 KB
      {[](auto &s) { s.address += 16; }, true},
      {[](auto &s) { s.address += 8; }, false},
      {[](auto &s) { s.strides[0] = 2046; }, false},
      {[](auto &s) { s.strides[0] = (uint64_t(1) << 40) - 16; }, true},
      {[](auto &s) { s.strides[0] = uint64_t(1) << 40; }, false},
      {[](auto &s) { s.strides[0] = 0; }, true},
      {[](auto &s) { s.dims[1] = uint64_t(1) << 32; }, true},
      {[](auto &s) { s.dims[1] = (uint64_t(1) << 32) + 1; }, false},
      {[](auto &s) { s.dims[0] = 0; }, false},
      {[](auto &s) { s.dims[0] = 1; }, true},
      {[](auto &s) { s.elementStrides[1] = 8; }, true},
      {[](auto &s) { s.elementStrides[1] = 9; }, false},
      {[](auto &s) { s.oobFill = 1; }, true},
      {[](auto &s) { s.oobFill = 1, s.dataType = 0; }, false},
      {[](auto &s) { s.rank = 1; }, true},
      {[](auto &s) { s.rank = 1, s.stridesGiven = false; }, false},
      {[](auto &s) { s.rank = 6; }, false},
      {[](auto &s) { s.dataType = 13; }, false},
      {[](auto &s) { s.interleave = 1; }, false},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    TensorMapSpec s = good;
    cases[i].change(s);
    EXPECT_EQ(encodeTensorMap(s, map), cases[i].accepted ? "" : encodeTensorMap(s, map)) << i;
    EXPECT_EQ(encodeTensorMap(s, map).empty(), cases[i].accepted) << i << " " << encodeTensorMap(s, map);
  }
  EXPECT_NE(encodeTensorMap(good, map + 16), "");
}

struct Copy {
  alignas(64) unsigned char map[128];
  int32_t coord[3];
  uint32_t bytes, outBytes; // of the box; of shared memory copied out
  unsigned char *out;
  int32_t rank;
};

void copyKernel(T t, const void *args) {
  const Copy &c = *static_cast<const Copy *>(args);
  if (tid(t) == 0) {
    tegula_sim_mbar_init(t, 1, smem(t, 65536), 1);
    tegula_sim_fence_mbarrier_init(t, 2);
    tegula_sim_mbar_arrive_expect(t, 3, smem(t, 65536), int32_t(c.bytes), 1);
    tegula_sim_tma_load(t, 4, smem(t, 0), address(c.map), c.rank, c.coord, smem(t, 65536), 0, 1);
  }
  sync(t, 32);
  tegula_sim_mbar_wait(t, 5, smem(t, 65536), 0);
  for (uint32_t i = uint32_t(tid(t)) * 16; i < c.outBytes; i += 512) {
    unsigned char v[16];
    tegula_sim_ld_shared(t, 6, smem(t, i), 16, 1, v);
    tegula_sim_st_global(t, 7, address(c.out + i), 16, 1, v);
  }
}

TEST(TensorCopy, PlacesElementsOfABoxLargerThanTheTensor) {
  // bf16 tensor of 99 x 50 with pitch 104; images of column bits (bytes) and row bits by swizzle mode, docs/hopper.md.
  std::vector<uint16_t> data(104 * 50);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = uint16_t(i + 1);
  struct Mode {
    int32_t swizzle, cols;
    std::vector<uint32_t> colBits, rowBits;
  };
  const Mode modes[] = {{0, 64, {2, 4, 8, 16, 32, 64}, {128, 256, 512, 1024, 2048, 4096}},
                        {1, 16, {2, 4, 8, 16}, {32, 64, 144, 256, 512, 1024}},
                        {2, 32, {2, 4, 8, 16, 32}, {64, 144, 288, 512, 1024, 2048}},
                        {3, 64, {2, 4, 8, 16, 32, 64}, {144, 288, 576, 1024, 2048, 4096}}};
  for (const Mode &m : modes)
    for (int32_t x : {-8, 0, 48, 200})
      for (int32_t y : {-3, 0, 40}) {
        uint32_t bytes = uint32_t(m.cols) * 64 * 2;
        std::vector<uint32_t> raw(bytes / 4 + 4);
        Copy c{{}, {x, y}, bytes, bytes, reinterpret_cast<unsigned char *>(raw.data()), 2};
        TensorMapSpec s = spec2d(data.data(), 9, 99, 50, 208, uint32_t(m.cols), 64, m.swizzle);
        s.oobFill = y == 40;
        ASSERT_EQ(encodeTensorMap(s, c.map), "");
        EXPECT_RUNS(Kernel(32, 65536 + 16).buffer(data).buffer(raw)(copyKernel, &c));
        int wrong = 0;
        for (int i = 0; i < 64; ++i)
          for (int j = 0; j < m.cols; ++j) {
            uint32_t at = 0;
            for (size_t b = 0; b < m.colBits.size(); ++b)
              at ^= j >> b & 1 ? m.colBits[b] : 0;
            for (size_t b = 0; b < m.rowBits.size(); ++b)
              at ^= i >> b & 1 ? m.rowBits[b] : 0;
            uint16_t v;
            std::memcpy(&v, c.out + at, 2);
            bool inside = x + j >= 0 && x + j < 99 && y + i >= 0 && y + i < 50;
            wrong += v != (inside ? data[size_t((y + i) * 104 + x + j)] : s.oobFill ? 0x7ff7 : 0);
          }
        EXPECT_EQ(wrong, 0) << m.swizzle << " " << x << " " << y;
      }
}

TEST(TensorCopy, RulesAtRunTime) {
  std::vector<uint16_t> data(64 * 64);
  auto run = [&](int32_t x, uint64_t rows, int32_t rank) {
    Copy c{{}, {x, 0, 0}, 8192, 0, nullptr, rank};
    EXPECT_EQ(encodeTensorMap(spec2d(data.data(), 9, 64, rows, 128, 64, 64, 3), c.map), "");
    return Kernel(32, 65536 + 16).buffer(data)(copyKernel, &c);
  };
  EXPECT_RUNS(run(8, 64, 2));
  expectFault(run(4, 64, 2), FaultKind::Tensor, {"site 4", "innermost coordinate 4", "multiple of 16"});
  expectFault(run(0, 64, 3), FaultKind::Tensor, {"rank 3", "rank 2"});
  expectFault(run(0, 65, 2), FaultKind::None, {});
  std::vector<uint16_t> shorter(64 * 32);
  Copy c{{}, {0, 0}, 8192, 0, nullptr, 2};
  ASSERT_EQ(encodeTensorMap(spec2d(shorter.data(), 9, 64, 64, 128, 64, 64, 3), c.map), "");
  expectFault(Kernel(32, 65536 + 16).buffer(shorter)(copyKernel, &c), FaultKind::GlobalBounds,
              {"bulk tensor load", "site 4"});
  c.map[3] ^= 1;
  expectFault(Kernel(32, 65536 + 16).buffer(shorter)(copyKernel, &c), FaultKind::Tensor, {"there is no tensor map"});
}

TEST(TensorCopy, StoresAndReducesClipped) {
  std::vector<float> data(64 * 32, 1.0f);
  Copy c{{}, {4, 28}, 0, 0, nullptr, 2};
  ASSERT_EQ(encodeTensorMap(spec2d(data.data(), 7, 60, 32, 256, 32, 8, 3), c.map), "");
  EXPECT_RUNS(Kernel(32, 4096).buffer(data)(
      [](T t, const void *args) {
        const Copy &c = *static_cast<const Copy *>(args);
        // Box of 8 rows of 32 floats, each row the row number; swizzling moves 16-byte pieces within rows only.
        for (uint32_t r = 0; r < 8; ++r)
          store<float>(t, r * 128 + uint32_t(tid(t)) * 4, float(r + 2));
        tegula_sim_fence_proxy_async(t, 2);
        sync(t, 32);
        if (tid(t))
          return;
        int32_t far[2] = {56, 0};
        tegula_sim_tma_store(t, 3, address(c.map), 2, c.coord, smem(t, 0), 1);
        tegula_sim_tma_reduce(t, 4, address(c.map), 2, far, smem(t, 0), TEGULA_ATOM_ADD, 1);
        tegula_sim_bulk_commit(t, 5);
        tegula_sim_bulk_wait(t, 6, 0, 0);
      },
      &c));
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 64; ++x) {
      float expected = y >= 28 && x >= 4 && x < 36  ? float(y - 28 + 2)
                       : y < 8 && x >= 56 && x < 60 ? float(y + 3)
                                                    : 1.0f;
      ASSERT_EQ(data[size_t(y * 64 + x)], expected) << x << " " << y;
    }
}

TEST(TensorCopy, WhatWritesDoNotTake) {
  std::vector<float> data(64 * 32, 1.0f);
  auto run = [&](int32_t x, int32_t y, uint64_t columns) {
    Copy c{{}, {x, y}, 0, 0, nullptr, 2};
    EXPECT_EQ(encodeTensorMap(spec2d(data.data(), 7, columns, 32, 256, 32, 8, 3), c.map), "");
    return Kernel(32, 4096).buffer(data)(
        [](T t, const void *args) {
          const Copy &c = *static_cast<const Copy *>(args);
          for (uint32_t r = 0; r < 8; ++r)
            store<float>(t, r * 128 + uint32_t(tid(t)) * 4, 2);
          tegula_sim_fence_proxy_async(t, 2);
          sync(t, 32);
          tegula_sim_tma_store(t, 3, address(c.map), 2, c.coord, smem(t, 0), tid(t) == 0);
          tegula_sim_bulk_commit(t, 5);
          tegula_sim_bulk_wait(t, 6, 0, 0);
        },
        &c);
  };
  EXPECT_RUNS(run(32, 30, 60));
  EXPECT_RUNS(run(0, 0, 62)); // the box ends before the row does
  expectFault(run(-4, 0, 60), FaultKind::Tensor, {"bulk tensor store", "site 3", "coordinate -4"});
  expectFault(run(0, -1, 60), FaultKind::Tensor, {"coordinate -1 along dimension 1"});
  expectFault(run(32, 0, 62), FaultKind::Tensor, {"rows of 62 elements of 4 bytes", "multiples of 16 bytes"});
}

TEST(TensorCopy, Multicast) {
  std::vector<int32_t> data(256), out(2 * 32);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = int32_t(i);
  Copy c{{}, {0, 0}, 0, 0, reinterpret_cast<unsigned char *>(out.data()), 2};
  ASSERT_EQ(encodeTensorMap(spec2d(data.data(), 3, 16, 16, 64, 16, 1, 0), c.map), "");
  EXPECT_RUNS(Kernel(32, 1024).cluster(2).buffer(data).buffer(out)(
      [](T t, const void *args) {
        const Copy &c = *static_cast<const Copy *>(args);
        if (tid(t) == 0) {
          tegula_sim_mbar_init(t, 1, smem(t, 512), 1);
          tegula_sim_fence_mbarrier_init(t, 2);
        }
        tegula_sim_cluster_arrive(t, 3, 1);
        tegula_sim_cluster_wait(t, 3);
        if (tid(t) == 0) {
          // Each CTA brings one row to both.
          int32_t coord[2] = {0, 3 + ctaRank(t)};
          tegula_sim_mbar_arrive_expect(t, 4, smem(t, 512), 128, 1);
          tegula_sim_tma_load(t, 5, smem(t, uint32_t(ctaRank(t)) * 128), address(c.map), 2, coord, smem(t, 512), 3, 1);
        }
        tegula_sim_mbar_wait(t, 6, smem(t, 512), 0);
        int32_t v = load<int32_t>(t, uint32_t(tid(t) / 16) * 128 + uint32_t(tid(t) % 16) * 4);
        storeGlobal(t, reinterpret_cast<int32_t *>(c.out) + ctaRank(t) * 32 + tid(t), v);
        tegula_sim_cluster_arrive(t, 7, 0);
        tegula_sim_cluster_wait(t, 7);
      },
      &c));
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], int32_t(3 * 16 + i % 32));
}

enum WgmmaBug { Fine, NoProxyFence, NoBarrier, NoWait, NoFence, StoredConverted, Overwritten, NoCommit };
void wgmmaHazards(T t, const void *args) {
  WgmmaBug bug = *static_cast<const WgmmaBug *>(args);
  for (uint32_t i = 0; i < 2; ++i)
    store<uint64_t>(t, uint32_t(tid(t)) * 16 + 8 * i, 0x3f803f803f803f80, 10); // 64 rows of A, then 64 of B: ones
  if (bug != NoProxyFence || tid(t) != 70)
    tegula_sim_fence_proxy_async(t, 11);
  if (bug != NoBarrier)
    sync(t);
  // K-major without swizzle, 128 bytes from 8 rows to the next and the second half of K shared with the first.
  auto desc = [&](uint32_t at) { return uint64_t((smem(t, at) & 0x3ffff) >> 4) | uint64_t(8) << 32; };
  uint32_t d[32] = {};
  if (bug != NoFence)
    tegula_sim_wgmma_fence(t, 12);
  tegula_sim_wgmma(t, 13, 64, TEGULA_MMA_F32, TEGULA_MMA_BF16, TEGULA_MMA_BF16, nullptr, desc(0), desc(1024), 1, 0, 0,
                   0, 0, d);
  if (bug != NoCommit)
    tegula_sim_wgmma_commit(t, 14);
  if (bug == Overwritten)
    store<uint64_t>(t, uint32_t(tid(t)) * 16, 0, 15);
  if (bug != NoWait && bug != StoredConverted)
    tegula_sim_wgmma_wait(t, 16, 0, d, 32);
  float f;
  std::memcpy(&f, &d[7], 4);
  float twice = f + f;
  uint32_t bits, pair;
  std::memcpy(&bits, &twice, 4);
  pair = bits >> 16 | (bits & 0xffff0000);
  sync(t);
  if (bug == StoredConverted)
    store(t, uint32_t(tid(t)) * 4, pair, 17);
  else
    store(t, uint32_t(tid(t)) * 4, bits, 18);
  if (bug == Fine && twice != 32)
    tegula_sim_assert_fail(t, 99);
}

TEST(Wgmma, Hazards) {
  struct Case {
    WgmmaBug bug;
    FaultKind kind;
    std::vector<const char *> parts;
  };
  const Case cases[] = {
      {Fine, FaultKind::None, {}},
      {NoProxyFence, FaultKind::MissingProxyFence, {"wgmma", "site 13", "thread 70 (warp 2) wrote 0x860 at site 10"}},
      {NoBarrier, FaultKind::SharedRace, {"wgmma", "site 13", "site 10"}},
      {NoWait, FaultKind::MissingWait, {"st.shared", "site 18", "wgmma at site 13"}},
      {StoredConverted, FaultKind::MissingWait, {"st.shared", "site 17", "wgmma at site 13"}},
      {NoFence, FaultKind::MissingWgmmaFence, {"site 13"}},
      {Overwritten, FaultKind::AsyncReadOverwritten, {"site 15", "wgmma of warps 0 to 3 at site 13 still reads"}},
      {NoCommit, FaultKind::MissingWait, {"site 13", "never committed"}},
  };
  for (const Case &c : cases) {
    Report r = Kernel(128, 2048)(wgmmaHazards, &c.bug);
    expectFault(r, c.kind, {});
    for (const char *p : c.parts)
      EXPECT_NE(r.fault.text.find(p), std::string::npos) << r.fault.text << "\n  lacks: " << p;
  }
}

/// Every function of the header is a row of SimSymbols.def, and the other way round.
TEST(Symbols, MatchTheHeader) {
  std::ifstream file(std::string(testSourceDir) + "/src/abi/SimAbi.h");
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string> declared, listed = {
#define SIM_SYMBOL(name) #name,
#include "abi/SimSymbols.def"
                                  };
  std::string s = text.str();
  for (size_t at = s.find(" tegula_sim_"); at != std::string::npos; at = s.find(" tegula_sim_", at + 1)) {
    size_t end = s.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at + 1);
    if (s[end] == '(')
      declared.insert(s.substr(at + 1, end - at - 1));
  }
  EXPECT_GT(declared.size(), 40u);
  EXPECT_EQ(declared, listed);
}

} // namespace
} // namespace tegula::sim
