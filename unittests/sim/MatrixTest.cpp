// Matrix instructions against plain loops: small integers, so that every format gives exact results. Where elements lie
// is written down here independently of the simulator: shared layouts by the basis vectors of docs/hopper.md, fragments
// by row and column formulas.
#include "Fixture.h"
#include <functional>
#include <random>

namespace tegula::sim {
namespace {

/// -4..4 in the formats of matrix operands.
uint32_t encode(int32_t type, int v) {
  uint32_t m = uint32_t(std::abs(v)), sign = v < 0;
  float f = float(v);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  static constexpr uint8_t e4m3[] = {0, 0x38, 0x40, 0x44, 0x48}, e5m2[] = {0, 0x3c, 0x40, 0x42, 0x44};
  switch (type) {
  case TEGULA_MMA_BF16:
    return bits >> 16;
  case TEGULA_MMA_F16:
    return uint32_t(e5m2[m] << 8) | sign << 15;
  case TEGULA_MMA_TF32:
    return bits | (m ? 0x1abc : 0); // the low bits are not read
  case TEGULA_MMA_E4M3:
    return e4m3[m] | sign << 7;
  case TEGULA_MMA_E5M2:
    return e5m2[m] | sign << 7;
  default:
    return uint32_t(v) & 0xff;
  }
}
uint32_t sizeOf(int32_t type) {
  return type == TEGULA_MMA_TF32 ? 4 : type == TEGULA_MMA_BF16 || type == TEGULA_MMA_F16 ? 2 : 1;
}

/// Byte offsets of the bits of an index.
uint32_t place(const std::vector<uint32_t> &images, uint32_t index) {
  uint32_t at = 0;
  for (size_t i = 0; i < images.size(); ++i)
    if (index >> i & 1)
      at ^= images[i];
  EXPECT_EQ(index >> images.size(), 0u);
  return at;
}

struct SharedLayout {
  const char *name;
  bool mnMajor;
  uint64_t mode, lbo, sbo;
  std::vector<uint32_t> k, r; // of bytes of k (K-major), or of elements of 2 bytes
};
const SharedLayout layouts[] = {
    {"K none", false, 0, 128, 256, {1, 2, 4, 8, 128}, {16, 32, 64, 256, 512, 1024, 2048, 4096}},
    {"K 32B", false, 3, 0, 256, {1, 2, 4, 8, 16}, {32, 64, 144, 256, 512, 1024, 2048, 4096}},
    {"K 64B", false, 2, 0, 512, {1, 2, 4, 8, 16}, {64, 144, 288, 512, 1024, 2048, 4096, 8192}},
    {"K 128B", false, 1, 0, 1024, {1, 2, 4, 8, 16}, {144, 288, 576, 1024, 2048, 4096, 8192, 16384}},
    {"MN none", true, 0, 8192, 128, {16, 32, 64, 8192}, {2, 4, 8, 128, 256, 512, 1024, 2048}},
    {"MN 32B", true, 3, 256, 8192, {32, 64, 144, 8192}, {2, 4, 8, 16, 256, 512, 1024, 2048}},
    {"MN 64B", true, 2, 512, 8192, {64, 144, 288, 8192}, {2, 4, 8, 16, 32, 512, 1024, 2048}},
    {"MN 128B", true, 1, 1024, 8192, {144, 288, 576, 8192}, {2, 4, 8, 16, 32, 64, 1024, 2048}},
};

constexpr uint32_t bPlace = 32768;
struct WgmmaProblem {
  const SharedLayout *layout;
  int32_t aType, bType, dType, n, k;
  bool fromRegisters;
  std::vector<int> a, b; // 64 x k, n x k
  std::vector<float> out;
};

void putShared(T t, uint32_t base, const SharedLayout &l, int32_t type, const std::vector<int> &values, int rows,
               int k) {
  uint32_t size = sizeOf(type);
  for (int i = tid(t); i < rows * k; i += 128) {
    uint32_t r = uint32_t(i / k), c = uint32_t(i % k), v = encode(type, values[size_t(i)]);
    uint32_t at = place(l.k, l.mnMajor ? c : c * size) ^ place(l.r, r);
    tegula_sim_st_shared(t, 1, smem(t, base + at), int32_t(size), 1, &v);
  }
}

void wgmmaKernel(T t, const void *args) {
  const WgmmaProblem &p = **static_cast<WgmmaProblem *const *>(args);
  auto &out = const_cast<std::vector<float> &>(p.out);
  const SharedLayout &l = *p.layout;
  if (!p.fromRegisters)
    putShared(t, 0, l, p.aType, p.a, 64, p.k);
  putShared(t, bPlace, l, p.bType, p.b, p.n, p.k);
  tegula_sim_fence_proxy_async(t, 2);
  sync(t);
  int lane = tid(t) % 32, warp = tid(t) / 32, size = int(sizeOf(p.aType)), per = 4 / size;
  uint32_t aRegs[4] = {};
  for (int e = 0; e < 16 / size; ++e) {
    int reg = e / per, row = warp * 16 + lane / 4 + (reg & 1) * 8,
        col = lane % 4 * per + e % per + (reg >> 1) * 4 * per;
    aRegs[reg] |= encode(p.aType, p.a[size_t(row * p.k + col)]) << (8 * size * (e % per));
  }
  auto desc = [&](uint32_t at) {
    return uint64_t((smem(t, at) & 0x3ffff) >> 4) | (l.lbo >> 4) << 16 | (l.sbo >> 4) << 32 | l.mode << 62;
  };
  uint32_t d[128];
  int count = p.n / (p.dType == TEGULA_MMA_F16 ? 4 : 2);
  tegula_sim_wgmma_fence(t, 3);
  for (int repeat = 0; repeat < 2; ++repeat) // the second adds: twice the product, less one negated
    tegula_sim_wgmma(t, 4, p.n, p.dType, p.aType, p.bType, p.fromRegisters ? aRegs : nullptr, desc(0), desc(bPlace),
                     repeat, 0, 0, l.mnMajor && !p.fromRegisters, l.mnMajor, d);
  tegula_sim_wgmma_commit(t, 5);
  tegula_sim_wgmma_wait(t, 6, 0, d, count);
  for (int r = 0; r < count; ++r) {
    if (p.dType == TEGULA_MMA_F16) {
      for (int s = 0; s < 2; ++s) {
        int row = warp * 16 + lane / 4 + (r & 1) * 8, col = lane % 4 * 2 + s + r / 2 * 8;
        auto half = [](uint32_t h) {
          int e = int(h >> 10 & 31);
          float v = e ? std::ldexp(float(1024 + (h & 1023)), e - 25) : 0;
          return h & 0x8000 ? -v : v;
        };
        out[size_t(row * p.n + col)] = half(d[r] >> (16 * s) & 0xffff);
      }
      continue;
    }
    int row = warp * 16 + lane / 4 + (r & 2) * 4, col = lane % 4 * 2 + (r & 1) + r / 4 * 8;
    float f;
    std::memcpy(&f, &d[r], 4);
    out[size_t(row * p.n + col)] = p.dType == TEGULA_MMA_S32 ? float(int32_t(d[r])) : f;
  }
}

void testWgmma(const SharedLayout &layout, int32_t aType, int32_t bType, int32_t dType, int32_t n, bool fromRegisters) {
  WgmmaProblem p{&layout, aType, bType, dType, n, int32_t(32 / sizeOf(aType)), fromRegisters, {}, {}, {}};
  std::mt19937 random(unsigned(n + aType * 7));
  bool isUnsigned = aType == TEGULA_MMA_U8;
  auto fill = [&](std::vector<int> &v, int count) {
    for (int i = 0; i < count; ++i)
      v.push_back(isUnsigned ? int(random() % 200) : int(random() % 9) - 4);
  };
  fill(p.a, 64 * p.k);
  fill(p.b, n * p.k);
  p.out.resize(size_t(64 * n));
  const WgmmaProblem *arg = &p;
  EXPECT_RUNS(Kernel(128, 98304)(wgmmaKernel, &arg));
  int wrong = 0;
  for (int m = 0; m < 64; ++m)
    for (int j = 0; j < n; ++j) {
      int sum = 0;
      for (int k = 0; k < p.k; ++k)
        sum += p.a[size_t(m * p.k + k)] * p.b[size_t(j * p.k + k)];
      wrong += p.out[size_t(m * n + j)] != float(2 * sum);
    }
  EXPECT_EQ(wrong, 0) << layout.name << " types " << aType << " " << bType << " -> " << dType << " n " << n << " regs "
                      << fromRegisters;
}

TEST(Wgmma, EveryLayoutAndType) {
  const int32_t bf = TEGULA_MMA_BF16, f16 = TEGULA_MMA_F16, f32 = TEGULA_MMA_F32;
  for (const SharedLayout &l : layouts)
    for (int32_t n : {8, 64, 256}) {
      testWgmma(l, bf, bf, f32, n, false);
      testWgmma(l, f16, f16, n == 64 ? f32 : f16, n, true);
    }
  struct {
    int32_t a, b, d;
  } others[] = {{TEGULA_MMA_TF32, TEGULA_MMA_TF32, f32},
                {TEGULA_MMA_E4M3, TEGULA_MMA_E5M2, f32},
                {TEGULA_MMA_E5M2, TEGULA_MMA_E5M2, f16},
                {TEGULA_MMA_S8, TEGULA_MMA_S8, TEGULA_MMA_S32},
                {TEGULA_MMA_U8, TEGULA_MMA_U8, TEGULA_MMA_S32}};
  for (auto &o : others)
    for (bool regs : {false, true})
      for (int i = 0; i < 4; ++i)
        testWgmma(layouts[i], o.a, o.b, o.d, 32, regs);
}

struct MmaProblem {
  int32_t k, aType, bType, dType;
  int a[16 * 32], b[32 * 8], c[16 * 8]; // b: k x 8
  double out[16 * 8];
};

void mmaKernel(T t, const void *args) {
  MmaProblem &p = **static_cast<MmaProblem *const *>(args);
  int lane = tid(t), group = lane / 4, quad = lane % 4;
  uint32_t a[16] = {}, b[8] = {}, c[8] = {}, d[8] = {};
  if (p.aType == TEGULA_MMA_F64) {
    double av = p.a[group * 4 + quad], bv = p.b[quad * 8 + group],
           cv[2] = {double(p.c[group * 8 + quad * 2]), double(p.c[group * 8 + quad * 2 + 1])};
    std::memcpy(a, &av, 8), std::memcpy(b, &bv, 8), std::memcpy(c, cv, 16);
    tegula_sim_mma(t, 1, p.k, p.dType, p.aType, p.bType, a, b, c, d);
    std::memcpy(cv, d, 16);
    p.out[group * 8 + quad * 2] = cv[0], p.out[group * 8 + quad * 2 + 1] = cv[1];
    return;
  }
  int size = int(sizeOf(p.aType)), per = 4 / size, aRegs = 16 * p.k * size / 128, bRegs = 8 * p.k * size / 128;
  for (int r = 0; r < aRegs; ++r)
    for (int s = 0; s < per; ++s)
      a[r] |= encode(p.aType, p.a[(group + (r & 1) * 8) * p.k + quad * per + s + (r >> 1) * 4 * per]) << (8 * size * s);
  for (int r = 0; r < bRegs; ++r)
    for (int s = 0; s < per; ++s)
      b[r] |= encode(p.bType, p.b[(quad * per + s + r * 4 * per) * 8 + group]) << (8 * size * s);
  auto at = [&](int i) { return (group + (i & 2) * 4) * 8 + quad * 2 + (i & 1); };
  bool half = p.dType == TEGULA_MMA_F16;
  for (int i = 0; i < 4; ++i) {
    float f = float(p.c[at(i)]);
    if (half)
      c[i / 2] |= encode(TEGULA_MMA_F16, p.c[at(i)]) << (16 * (i % 2));
    else if (p.dType == TEGULA_MMA_S32)
      c[i] = uint32_t(p.c[at(i)]);
    else
      std::memcpy(&c[i], &f, 4);
  }
  tegula_sim_mma(t, 1, p.k, p.dType, p.aType, p.bType, a, b, c, d);
  for (int i = 0; i < 4; ++i) {
    float f;
    std::memcpy(&f, &d[i], 4);
    uint32_t h = d[i / 2] >> (16 * (i % 2)) & 0xffff;
    float hv =
        h & 0x7fff ? std::ldexp(float(1024 + (h & 1023)), int(h >> 10 & 31) - 25) * (h & 0x8000 ? -1.f : 1.f) : 0;
    p.out[at(i)] = half ? hv : p.dType == TEGULA_MMA_S32 ? double(int32_t(d[i])) : double(f);
  }
}

TEST(Mma, EveryShape) {
  const int32_t f32 = TEGULA_MMA_F32;
  MmaProblem problems[] = {
      {16, TEGULA_MMA_BF16, TEGULA_MMA_BF16, f32},          {8, TEGULA_MMA_BF16, TEGULA_MMA_BF16, f32},
      {16, TEGULA_MMA_F16, TEGULA_MMA_F16, TEGULA_MMA_F16}, {16, TEGULA_MMA_F16, TEGULA_MMA_F16, f32},
      {8, TEGULA_MMA_TF32, TEGULA_MMA_TF32, f32},           {4, TEGULA_MMA_TF32, TEGULA_MMA_TF32, f32},
      {32, TEGULA_MMA_E4M3, TEGULA_MMA_E5M2, f32},          {32, TEGULA_MMA_S8, TEGULA_MMA_S8, TEGULA_MMA_S32},
      {16, TEGULA_MMA_S8, TEGULA_MMA_S8, TEGULA_MMA_S32},   {4, TEGULA_MMA_F64, TEGULA_MMA_F64, TEGULA_MMA_F64}};
  std::mt19937 random(3);
  for (MmaProblem &p : problems) {
    for (int *list : {p.a, p.b, p.c})
      for (int i = 0; i < (list == p.a ? 512 : list == p.b ? 256 : 128); ++i)
        list[i] = int(random() % 9) - 4;
    MmaProblem *arg = &p;
    EXPECT_RUNS(Kernel(32)(mmaKernel, &arg));
    for (int m = 0; m < (p.aType == TEGULA_MMA_F64 ? 8 : 16); ++m)
      for (int n = 0; n < 8; ++n) {
        int sum = p.c[m * 8 + n];
        for (int k = 0; k < p.k; ++k)
          sum += p.a[m * p.k + k] * p.b[k * 8 + n];
        ASSERT_EQ(p.out[m * 8 + n], sum) << "K " << p.k << " type " << p.aType << " at " << m << ", " << n;
      }
  }
  expectFault(Kernel(32)([](T t, const void *) {
                uint32_t r[8] = {};
                tegula_sim_mma(t, 17, 16, TEGULA_MMA_BF16, TEGULA_MMA_BF16, TEGULA_MMA_BF16, r, r, r, r);
              }),
              FaultKind::BadInstruction, {"site 17"});
}

TEST(MatrixMoves, LoadAndStoreAndTheirConflicts) {
  static std::vector<uint32_t> out(32 * 8);
  struct Pitch {
    uint32_t bytes;
    uint64_t wavefronts;
  };
  // Rows 16 bytes apart are free of conflicts; 128 bytes apart all eight rows of a matrix meet in four banks.
  for (static Pitch pitch; Pitch p : {Pitch{16, 4}, Pitch{128, 32}, Pitch{144, 4}, Pitch{64, 16}}) {
    pitch = p;
    Kernel k(32, 8192);
    k.config.countBanks = true;
    Report r = k.buffer(out)([](T t, const void *args) {
      uint32_t lane = uint32_t(tid(t)), row = lane * pitch.bytes;
      // Element (matrix, row, column) = matrix * 64 + row * 8 + column.
      uint32_t v[4], w[8];
      for (uint32_t m = 0; m < 4; ++m) {
        uint32_t first = m * 64 + lane / 4 * 8 + lane % 4 * 2;
        v[m] = first | (first + 1) << 16;
      }
      tegula_sim_stmatrix(t, 1, smem(t, row), 4, 0, v);
      tegula_sim_syncwarp(t, 2, ~0u);
      tegula_sim_ldmatrix(t, 3, smem(t, row), 4, 0, w);
      tegula_sim_ldmatrix(t, 3, smem(t, row), 4, 1, w + 4);
      for (int i = 0; i < 8; ++i)
        storeGlobal(t, out.data() + lane * 8 + uint32_t(i), w[i]);
    });
    EXPECT_RUNS(r);
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t m = 0; m < 4; ++m) {
        uint32_t plain = m * 64 + l / 4 * 8 + l % 4 * 2, turned = m * 64 + l % 4 * 16 + l / 4;
        ASSERT_EQ(out[l * 8 + m], plain | (plain + 1) << 16);
        ASSERT_EQ(out[l * 8 + 4 + m], turned | (turned + 8) << 16);
      }
    EXPECT_EQ(r.counters[SharedAccess::Stmatrix].wavefronts, p.wavefronts);
    EXPECT_EQ(r.counters[SharedAccess::Ldmatrix].wavefronts, 2 * p.wavefronts);
    EXPECT_EQ(r.counters[SharedAccess::Ldmatrix].conflicts, 2 * (p.wavefronts - 4));
  }
}

TEST(Banks, LoadsAndStores) {
  // Stride in bytes, bytes per lane, wavefronts of one instruction (docs/hopper.md).
  struct Case {
    uint32_t stride;
    int32_t bytes;
    uint64_t wavefronts;
  };
  static Case c;
  for (Case each :
       {Case{4, 4, 1}, Case{8, 4, 2}, Case{128, 4, 32}, Case{0, 4, 1}, Case{8, 8, 2}, Case{16, 8, 4}, Case{16, 16, 4},
        Case{32, 16, 8}, Case{64, 16, 16}, Case{128, 16, 32}, Case{144, 16, 4}, Case{2, 2, 1}}) {
    c = each;
    Kernel k(64, 8192);
    k.config.countBanks = true;
    Report r = k([](T t, const void *) {
      unsigned char v[16] = {};
      if (tid(t) < 32) {
        if (c.stride == 0 && tid(t))
          return tegula_sim_st_shared(t, 1, smem(t, 0), c.bytes, 0, v);
        for (int i = 0; i < 3; ++i)
          tegula_sim_st_shared(t, 1, smem(t, uint32_t(tid(t)) * c.stride), c.bytes, 1, v);
      }
    });
    EXPECT_RUNS(r);
    const BankStats &s = r.counters[SharedAccess::Store];
    EXPECT_EQ(s.instructions, 3u);
    EXPECT_EQ(s.wavefronts, 3 * c.wavefronts) << c.stride << " " << c.bytes;
  }
}

} // namespace
} // namespace tegula::sim
