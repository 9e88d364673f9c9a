// Kernels for tests are lambdas that call the functions of SimAbi.h, as generated code would.
#pragma once
#include "abi/SimAbi.h"
#include "sim/Machine.h"
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace tegula::sim {

/// A kernel is launched by calling it: one launch of `entry(t, args)` with memory that it may use.
struct Kernel {
  LaunchConfig config;
  std::vector<Extent> extents;

  Kernel(unsigned threads = 128, uint32_t sharedBytes = 0) {
    config.threads = threads;
    config.sharedBytes = sharedBytes;
  }
  template <class T> Kernel &buffer(std::vector<T> &v) {
    extents.push_back({reinterpret_cast<uint64_t>(v.data()), v.size() * sizeof(T)});
    return *this;
  }
  Kernel &programs(int32_t x) { return config.grid[0] = x, *this; }
  Kernel &cluster(unsigned n) { return config.clusterCtas = n, *this; }
  Report operator()(TegulaSimEntry entry, const void *args = nullptr) {
    config.entry = entry;
    config.args = args;
    config.buffers = extents;
    return launch(config);
  }
};

// Short spellings for kernels.
using T = TegulaSimThread *;
inline int32_t tid(T t) { return tegula_sim_sreg(t, TEGULA_SREG_TID); }
inline int32_t ctaRank(T t) { return tegula_sim_sreg(t, TEGULA_SREG_CLUSTER_CTARANK); }
inline uint64_t address(const void *p) { return reinterpret_cast<uint64_t>(p); }
/// Shared address of byte `offset` of the calling CTA.
inline uint32_t smem(T t, uint32_t offset) { return uint32_t(ctaRank(t)) << 24 | (sharedBase + offset); }
template <class V> V load(T t, uint32_t offset, int32_t site = 1) {
  V v{};
  tegula_sim_ld_shared(t, site, smem(t, offset), sizeof(V), 1, &v);
  return v;
}
template <class V> void store(T t, uint32_t offset, V v, int32_t site = 2) {
  tegula_sim_st_shared(t, site, smem(t, offset), sizeof(V), 1, &v);
}
template <class V> V loadGlobal(T t, const V *p, int32_t site = 3) {
  V v{};
  tegula_sim_ld_global(t, site, address(p), sizeof(V), 1, &v);
  return v;
}
template <class V> void storeGlobal(T t, V *p, V v, int32_t site = 4) {
  tegula_sim_st_global(t, site, address(p), sizeof(V), 1, &v);
}
inline void sync(T t, int32_t count = 128, int32_t id = 0, int32_t site = 5) {
  tegula_sim_bar_sync(t, site, id, count);
}

/// The launch ended with this fault, and the message contains the parts.
inline void expectFault(const Report &r, FaultKind kind, std::initializer_list<const char *> parts) {
  EXPECT_STREQ(faultName(r.fault.kind), faultName(kind)) << r.fault.text;
  for (const char *part : parts)
    EXPECT_NE(r.fault.text.find(part), std::string::npos) << r.fault.text << "\n  lacks: " << part;
}
#define EXPECT_RUNS(report)                                                                                            \
  do {                                                                                                                 \
    auto r_ = (report);                                                                                                \
    EXPECT_FALSE(r_.fault) << r_.fault.text;                                                                           \
  } while (0)

/// `kernel(t, right)` must fault when `right` is false and run when it is true.
template <class K> void check(Kernel kernel, K, FaultKind kind, std::initializer_list<const char *> parts) {
  bool right = true;
  auto entry = [](T t, const void *args) { K{}(t, *static_cast<const bool *>(args)); };
  EXPECT_RUNS(kernel(entry, &right));
  right = false;
  expectFault(kernel(entry, &right), kind, parts);
}

} // namespace tegula::sim
