// Loads and stores of global and shared memory, and the addresses they may use.
#include "sim/AsyncState.h"
#include "sim/Banks.h"
#include "sim/State.h"
#include "support/Clock.h"
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

uint8_t *sharedAt(Thread *t, int32_t site, const char *verb, uint32_t addr, uint32_t bytes, uint32_t align, Cta *&cta) {
  Cluster &c = *t->cluster;
  uint32_t rank = addr >> 24, offset = addr & 0xffffff;
  if (addr % align != 0)
    fail(t, FaultKind::Misaligned, site, -1, "%s (%u bytes) at site %d: shared address 0x%x is no multiple of %u", verb,
         bytes, site, addr, align);
  if (rank >= c.ctas.size())
    fail(t, FaultKind::SharedBounds, site, -1, "%s at site %d: shared address 0x%x names CTA %u of a cluster of %zu",
         verb, site, addr, rank, c.ctas.size());
  cta = rank == t->cta->rank ? t->cta : c.ctas[rank].get();
  uint32_t size = c.launch->config.sharedBytes;
  if (offset < sharedBase || offset - sharedBase > size || size - (offset - sharedBase) < bytes)
    fail(t, FaultKind::SharedBounds, site, -1,
         "%s (%u bytes) at site %d: shared address 0x%x is outside the CTA's 0x%x to 0x%x", verb, bytes, site, addr,
         sharedBase, sharedBase + size);
  if (cta->live == 0)
    fail(t, FaultKind::SharedBounds, site, -1, "%s at site %d: shared address 0x%x lies in CTA %u, which has ended",
         verb, site, addr, rank);
  return cta->memory.data() + (offset - sharedBase);
}

/// Nobody may look at, or write, what a bulk store writes before its thread has waited for the write.
static void checkBulkWrites(Thread *t, int32_t site, const char *verb, uint64_t addr, uint64_t bytes, int32_t op) {
  constexpr uint64_t longest = 256 * 8; // a row of a box
  const std::map<uint64_t, BulkWrite> &all = t->cluster->bulkWrites;
  for (auto it = all.lower_bound(addr >= longest ? addr - longest : 0); it != all.end() && it->first < addr + bytes;
       ++it) {
    const BulkWrite &w = it->second;
    if (w.end <= addr || (op >= 0 && w.op == op))
      continue;
    ThreadName name(*t->cluster, w.thread);
    t->faultAddress = std::max(addr, it->first);
    fail(
        t, FaultKind::MissingWait, site, w.site,
        "%s (%llu bytes) at site %d: address 0x%llx is written by the bulk store of %s at site %d, and nobody has waited until that was done",
        verb, static_cast<unsigned long long>(bytes), site, static_cast<unsigned long long>(t->faultAddress), name.text,
        w.site);
  }
}

void checkGlobal(Thread *t, int32_t site, const char *verb, uint64_t addr, uint64_t bytes, uint32_t align, int32_t op) {
  if (!t->cluster->bulkWrites.empty())
    checkBulkWrites(t, site, verb, addr, bytes, op);
  if (addr % align != 0) {
    t->faultAddress = addr;
    fail(t, FaultKind::Misaligned, site, -1, "%s (%llu bytes) at site %d: address 0x%llx is no multiple of %u", verb,
         static_cast<unsigned long long>(bytes), site, static_cast<unsigned long long>(addr), align);
  }
  // The first page is nobody's, whatever buffers of unknown size allow.
  if (addr < 4096) {
    t->faultAddress = addr;
    fail(t, FaultKind::GlobalBounds, site, -1, "%s (%llu bytes) at site %d: address 0x%llx is that of a null pointer",
         verb, static_cast<unsigned long long>(bytes), site, static_cast<unsigned long long>(addr));
  }
  const Extent &last = t->lastBuffer;
  if (addr - last.begin < last.bytes && last.bytes - (addr - last.begin) >= bytes)
    return;
  LaunchState &launch = *t->cluster->launch;
  if (launch.config.allowAny)
    return;
  // The last buffer that begins at or below the address.
  auto after = std::upper_bound(launch.buffers.begin(), launch.buffers.end(), addr,
                                [](uint64_t a, const Extent &e) { return a < e.begin; });
  const Extent *near = after == launch.buffers.begin() ? nullptr : &*(after - 1);
  if (near && addr - near->begin < near->bytes && near->bytes - (addr - near->begin) >= bytes) {
    t->lastBuffer = *near;
    return;
  }
  using ull = unsigned long long;
  t->faultAddress = addr;
  if (near)
    fail(t, FaultKind::GlobalBounds, site, -1,
         "%s (%llu bytes) at site %d: address 0x%llx is outside all buffers; it is %llu bytes after the start of one "
         "with %llu bytes",
         verb, ull(bytes), site, ull(addr), ull(addr - near->begin), ull(near->bytes));
  fail(t, FaultKind::GlobalBounds, site, -1, "%s (%llu bytes) at site %d: address 0x%llx is outside all buffers", verb,
       ull(bytes), site, ull(addr));
}

void touchShared(Thread *t, int32_t site, const char *verb, Cta &cta, uint32_t offset, uint32_t bytes, Touch touch) {
  noteVisit(t, site, cta, t->id, t->clusterPhase);
  Conflict f = cta.shadow.access(t->cluster->clocks, actorOf(t, site), touch, offset, bytes);
  if (f)
    failAccess(t, cta, site, verb, bytes, f);
}

static void checkWidth(Thread *t, int32_t site, const char *verb, int32_t bytes) {
  bool ok = bytes > 0 && bytes <= 16 && (bytes & (bytes - 1)) == 0;
  if (!ok)
    fail(t, FaultKind::BadInstruction, site, -1, "%s at site %d: width of %d bytes", verb, site, bytes);
}

/// Copies between global memory, which other host threads may use at the same time, and a register.
template <bool toGlobal> static void copyGlobal(void *global, void *other, int32_t bytes) {
  auto one = [](auto *g, void *o) {
    using T = std::remove_reference_t<decltype(*g)>;
    if constexpr (toGlobal) {
      T v;
      std::memcpy(&v, o, sizeof v);
      __atomic_store_n(g, v, __ATOMIC_RELAXED);
    } else {
      T v = __atomic_load_n(g, __ATOMIC_RELAXED);
      std::memcpy(o, &v, sizeof v);
    }
  };
  switch (bytes) {
  case 1:
    return one(static_cast<uint8_t *>(global), other);
  case 2:
    return one(static_cast<uint16_t *>(global), other);
  case 4:
    return one(static_cast<uint32_t *>(global), other);
  case 8:
    return one(static_cast<uint64_t *>(global), other);
  default:
    one(static_cast<uint64_t *>(global), other);
    one(static_cast<uint64_t *>(global) + 1, static_cast<char *>(other) + 8);
  }
}

} // namespace tegula::sim

int64_t tegula_sim_globaltimer(TegulaSimThread *) {
  return static_cast<int64_t>(tegula::steadyNs());
}

int32_t tegula_sim_sreg(TegulaSimThread *t, int32_t which) {
  Cluster &c = *t->cluster;
  const LaunchConfig &config = c.launch->config;
  auto ctas = int32_t(config.clusterCtas);
  switch (which) {
  case TEGULA_SREG_TID:
    return int32_t(t->tid);
  case TEGULA_SREG_CTAID_X:
    return c.index[0] * ctas + int32_t(t->cta->rank);
  case TEGULA_SREG_CTAID_Y:
    return c.index[1];
  case TEGULA_SREG_CTAID_Z:
    return c.index[2];
  case TEGULA_SREG_NCTAID_X:
    return config.grid[0] * ctas;
  case TEGULA_SREG_NCTAID_Y:
    return config.grid[1];
  case TEGULA_SREG_NCTAID_Z:
    return config.grid[2];
  case TEGULA_SREG_CLUSTER_CTARANK:
    return int32_t(t->cta->rank);
  case TEGULA_SREG_CLUSTER_NCTARANK:
    return ctas;
  case TEGULA_SREG_CLUSTERID_X:
    return c.index[0];
  case TEGULA_SREG_NCLUSTERID_X:
    return config.grid[0];
  case TEGULA_SREG_CLOCK:
    return int32_t(++c.ticks);
  default:
    fail(t, FaultKind::BadInstruction, -1, -1, "reads special register %d, which does not exist", which);
  }
}

void tegula_sim_ld_global(TegulaSimThread *t, int32_t site, uint64_t addr, int32_t bytes, int32_t p, void *out) {
  t->cluster->count(Instr::LdGlobal);
  if (!p)
    return;
  checkWidth(t, site, "ld.global", bytes);
  checkGlobal(t, site, "ld.global", addr, uint64_t(bytes), uint32_t(bytes));
  copyGlobal<false>(reinterpret_cast<void *>(addr), out, bytes);
}

void tegula_sim_st_global(TegulaSimThread *t, int32_t site, uint64_t addr, int32_t bytes, int32_t p, const void *in) {
  t->cluster->count(Instr::StGlobal);
  if (!p)
    return;
  checkWidth(t, site, "st.global", bytes);
  checkMarkers(t, site, "st.global", in, bytes);
  checkGlobal(t, site, "st.global", addr, uint64_t(bytes), uint32_t(bytes));
  copyGlobal<true>(reinterpret_cast<void *>(addr), const_cast<void *>(in), bytes);
}

void tegula_sim_ld_shared(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t bytes, int32_t p, void *out) {
  t->cluster->count(Instr::LdShared);
  countBanks(t, site, SharedAccess::Load, addr, bytes, p);
  if (!p)
    return;
  checkWidth(t, site, "ld.shared", bytes);
  Cta *cta;
  uint8_t *from = sharedAt(t, site, "ld.shared", addr, uint32_t(bytes), uint32_t(bytes), cta);
  touchShared(t, site, "ld.shared", *cta, userOffset(addr), uint32_t(bytes), Touch::Load);
  std::memcpy(out, from, size_t(bytes));
}

void tegula_sim_st_shared(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t bytes, int32_t p, const void *in) {
  t->cluster->count(Instr::StShared);
  countBanks(t, site, SharedAccess::Store, addr, bytes, p);
  if (!p)
    return;
  checkWidth(t, site, "st.shared", bytes);
  checkMarkers(t, site, "st.shared", in, bytes);
  Cta *cta;
  uint8_t *to = sharedAt(t, site, "st.shared", addr, uint32_t(bytes), uint32_t(bytes), cta);
  touchShared(t, site, "st.shared", *cta, userOffset(addr), uint32_t(bytes), Touch::Store);
  std::memcpy(to, in, size_t(bytes));
}

uint32_t tegula_sim_mapa(TegulaSimThread *t, uint32_t addr, int32_t rank) {
  if (uint32_t(rank) >= t->cluster->ctas.size())
    fail(t, FaultKind::BadInstruction, -1, -1, "executes mapa for CTA %d of a cluster of %zu", rank,
         t->cluster->ctas.size());
  return uint32_t(rank) << 24 | (addr & 0xffffff);
}
