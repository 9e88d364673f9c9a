// The checks of shared memory against slow, obvious ones: random programs of accesses, bulk copies and synchronization;
// all pairs of accesses are compared by full vector clocks. The simulator must fault exactly if two of them conflict
// without order, or a generic write meets a bulk copy without a proxy fence, whatever order its fibers run in.
#include "Fixture.h"
#include <random>

namespace tegula::sim {
namespace {

constexpr unsigned threadCount = 64;
constexpr uint32_t bytes = 64;
using Set = uint64_t; // of threads

struct Step {
  enum Kind { Access, Barrier, Named, Arrive, Warp, Mbarrier, Fence, BulkStore, BulkWait, BulkLoad } kind;
  Set who;     // who takes part; Mbarrier: who arrives; Bulk...: one thread
  Set waiters; // Mbarrier, BulkLoad
  int32_t index;
  uint32_t offset[threadCount];
  uint8_t size[threadCount];
  bool writes[threadCount];
};

struct Program {
  std::vector<Step> steps;
};

alignas(16) unsigned char globalBytes[64];
alignas(16) unsigned char storedBytes[1 << 16]; // each store its own: memory outside is not what is tested

void runProgram(T t, const void *args) {
  const Program &p = **static_cast<Program *const *>(args);
  auto me = unsigned(tid(t));
  if (me == 0)
    for (const Step &s : p.steps)
      if (s.kind == Step::Mbarrier || s.kind == Step::BulkLoad)
        tegula_sim_mbar_init(t, 1, smem(t, bytes + uint32_t(s.index) * 8), __builtin_popcountll(s.who));
  store<uint8_t>(t, me, 0);
  tegula_sim_fence_proxy_async(t, 2);
  sync(t, threadCount);
  uint32_t stored = me * 1024;
  for (const Step &s : p.steps) {
    bool in = s.who >> me & 1;
    unsigned char v[16] = {};
    uint32_t bar = smem(t, bytes + uint32_t(s.index) * 8);
    switch (s.kind) {
    case Step::Access:
      if (!in)
        break;
      if (s.writes[me])
        tegula_sim_st_shared(t, s.index, smem(t, s.offset[me]), s.size[me], 1, v);
      else
        tegula_sim_ld_shared(t, s.index, smem(t, s.offset[me]), s.size[me], 1, v);
      break;
    case Step::Barrier:
      sync(t, threadCount);
      break;
    case Step::Named:
      if (in)
        tegula_sim_bar_sync(t, 5, 1 + s.index, __builtin_popcountll(s.who));
      break;
    case Step::Arrive:
      if (in)
        tegula_sim_bar_arrive(t, 5, 1 + s.index, threadCount);
      else
        tegula_sim_bar_sync(t, 5, 1 + s.index, threadCount);
      break;
    case Step::Warp:
      if (in)
        tegula_sim_syncwarp(t, 6, uint32_t(s.who >> (me / 32 * 32)));
      break;
    case Step::Mbarrier:
      if (in)
        tegula_sim_mbar_arrive(t, 7, bar, 1, 1);
      if (s.waiters >> me & 1)
        tegula_sim_mbar_wait(t, 8, bar, 0);
      break;
    case Step::Fence:
      if (in)
        tegula_sim_fence_proxy_async(t, 9);
      break;
    case Step::BulkStore:
      if (in)
        tegula_sim_bulk_store(t, 10, address(storedBytes + (stored += 64)), smem(t, s.offset[me]), s.size[me], 1),
            tegula_sim_bulk_commit(t, 10);
      break;
    case Step::BulkWait:
      if (in)
        tegula_sim_bulk_wait(t, 11, 0, 1);
      break;
    case Step::BulkLoad:
      if (in)
        tegula_sim_mbar_arrive_expect(t, 12, bar, s.size[me], 1),
            tegula_sim_bulk_load(t, 13, smem(t, s.offset[me]), address(globalBytes), s.size[me], bar, 1);
      if (s.waiters >> me & 1)
        tegula_sim_mbar_wait(t, 14, bar, 0);
      break;
    }
  }
  tegula_sim_bulk_wait(t, 15, 0, 1);
}

Program makeProgram(std::mt19937_64 &random, bool bulk) {
  Program p;
  int32_t barriers = 0, named = 0;
  auto count = 4 + random() % 24;
  bool mostlyOrdered = random() % 3 != 0;
  // Few places and few writes make long chains of readers.
  uint32_t range = 8u << random() % 4;
  unsigned writes = 2u << random() % 4;
  for (unsigned i = 0; i < count; ++i) {
    Step s{};
    s.index = int32_t(i);
    switch (random() % (bulk ? 12 : 7)) {
    case 0:
      s.kind = Step::Barrier;
      break;
    case 1: {
      // Each id once: warps that arrive without waiting run ahead.
      s.kind = named == 15 ? Step::Barrier : random() % 2 ? Step::Named : Step::Arrive;
      if (s.kind != Step::Barrier)
        s.index = named++;
      s.who = random() % 2 ? 0xffffffffu : ~Set(0xffffffffu); // one warp
      break;
    }
    case 2: {
      s.kind = Step::Warp;
      uint32_t mask = random() % 2 ? ~0u : uint32_t(random()) | 1;
      s.who = Set(mask) << (random() % 2 * 32);
      break;
    }
    case 3:
      s.kind = Step::Mbarrier;
      s.index = barriers++;
      s.who = random() % 2 ? Set(1) << random() % 64 : random();
      if (!s.who)
        s.who = 1;
      s.waiters = random() % 2 ? random() : random() & random();
      break;
    case 7:
    case 8:
      s.kind = Step::Fence;
      s.who = random() % 2 ? ~Set(0) : random();
      break;
    case 9:
    case 10:
      s.kind = random() % 2 ? Step::BulkStore : Step::BulkLoad;
      if (s.kind == Step::BulkLoad)
        s.index = barriers++;
      s.who = Set(1) << random() % 4 * 16;
      s.waiters = random() % 4 ? ~Set(0) : random();
      std::fill_n(s.size, threadCount, uint8_t(16 << random() % 2));
      std::fill_n(s.offset, threadCount, uint32_t(random() % 4 * 16 % (bytes - s.size[0] + 16) / 16 * 16));
      break;
    case 11:
      s.kind = Step::BulkWait;
      s.who = ~Set(0);
      break;
    default: {
      s.kind = Step::Access;
      s.who = mostlyOrdered ? Set(1) << random() % 64 : random() & random() & random() & random();
      if (random() % 4 == 0)
        s.who |= random() & random() & random() & random();
      for (unsigned t = 0; t < threadCount; ++t) {
        s.size[t] = uint8_t(1u << random() % (range < 16 ? 4 : 5));
        s.offset[t] = uint32_t(random() % range) / s.size[t] * s.size[t];
        s.writes[t] = random() % writes == 0;
      }
    }
    }
    p.steps.push_back(s);
  }
  return p;
}

/// What is wrong with a program: all accesses so far, and what everyone knows of everyone. Actors are threads, then the
/// bulk stores of each thread, then the bulk loads.
struct Oracle {
  static constexpr unsigned actors = 3 * threadCount;
  struct Seen {
    unsigned actor;
    uint32_t time, offset, size;
    bool writes;
  };
  std::vector<Seen> all;
  uint32_t clock[threadCount][actors] = {}, fenced[threadCount][threadCount] = {}, issued[actors] = {};
  size_t lastWrite[bytes] = {}; // index in `all` + 1
  bool wrong = false;

  Oracle() {
    for (unsigned t = 0; t < threadCount; ++t)
      clock[t][t] = 1;
  }
  void meet(Set releases, Set acquires, unsigned agent = 0, uint32_t agentTime = 0) {
    uint32_t sum[actors] = {}, fences[threadCount] = {};
    sum[agent] = agentTime;
    auto join = [](uint32_t *a, const uint32_t *b, unsigned n) {
      for (unsigned i = 0; i < n; ++i)
        a[i] = std::max(a[i], b[i]);
    };
    for (unsigned t = 0; t < threadCount; ++t)
      if (releases >> t & 1)
        join(sum, clock[t], actors), join(fences, fenced[t], threadCount), ++clock[t][t];
    for (unsigned t = 0; t < threadCount; ++t)
      if (acquires >> t & 1)
        join(clock[t], sum, actors), join(fenced[t], fences, threadCount);
  }
  void access(unsigned t, Seen mine) {
    for (const Seen &o : all)
      if ((o.writes || mine.writes) && o.offset < mine.offset + mine.size && mine.offset < o.offset + o.size)
        wrong |= clock[t][o.actor] < o.time;
    // The asynchronous proxy must see the last generic write of each byte.
    for (uint32_t i = mine.offset; i < mine.offset + mine.size; ++i)
      if (lastWrite[i] && mine.actor >= threadCount) {
        const Seen &o = all[lastWrite[i] - 1];
        wrong |= o.actor < threadCount && fenced[t][o.actor] < o.time;
      }
    all.push_back(mine);
    for (uint32_t i = mine.offset; mine.writes && i < mine.offset + mine.size; ++i)
      lastWrite[i] = all.size();
  }
  void step(const Step &s) {
    if (s.kind == Step::Barrier)
      meet(~Set(0), ~Set(0));
    if (s.kind == Step::Named || s.kind == Step::Warp)
      meet(s.who, s.who);
    if (s.kind == Step::Arrive)
      meet(~Set(0), ~s.who);
    if (s.kind == Step::Mbarrier)
      meet(s.who, s.waiters);
    for (unsigned t = 0; t < threadCount; ++t) {
      if (!(s.who >> t & 1))
        continue;
      if (s.kind == Step::Access)
        access(t, {t, clock[t][t], s.offset[t], s.size[t], s.writes[t]});
      if (s.kind == Step::Fence)
        fenced[t][t] = clock[t][t]++;
      if (s.kind == Step::BulkWait)
        clock[t][threadCount + t] = issued[threadCount + t];
      bool load = s.kind == Step::BulkLoad;
      if (load || s.kind == Step::BulkStore) {
        unsigned agent = load ? 2 * threadCount + unsigned(s.index) : threadCount + t;
        if (load) // the arrival comes first
          ++clock[t][t];
        access(t, {agent, ++issued[agent], s.offset[t], s.size[t], load});
        if (load) {
          --clock[t][t];
          meet(s.who, s.waiters, agent, issued[agent]);
        }
      }
    }
  }
};

void compare(bool bulk, unsigned total) {
  std::mt19937_64 random(11);
  unsigned wrong = 0;
  auto stacks = makeStackPool();
  for (unsigned i = 0; i < total; ++i) {
    Program p = makeProgram(random, bulk);
    const Program *arg = &p;
    Oracle oracle;
    for (const Step &s : p.steps)
      oracle.step(s);
    Kernel kernel(threadCount, bytes + 8 * 64);
    kernel.config.allowAny = true;
    kernel.config.stacks = stacks.get();
    Report r = kernel(runProgram, &arg);
    wrong += oracle.wrong;
    bool expected = r.fault.kind == FaultKind::SharedRace ||
                    (bulk && (r.fault.kind == FaultKind::MissingWait || r.fault.kind == FaultKind::MissingProxyFence ||
                              r.fault.kind == FaultKind::AsyncReadOverwritten));
    ASSERT_TRUE(oracle.wrong ? expected : !r.fault) << "program " << i << ": " << r.fault.text;
  }
  EXPECT_GT(wrong, total / 5);
  EXPECT_LT(wrong, total * 9 / 10);
  std::printf("%u of %u programs are wrong\n", wrong, total);
}

TEST(Oracle, AccessesAndSynchronization) { compare(false, 2500); }
TEST(Oracle, BulkCopiesAndProxyFences) { compare(true, 1500); }

} // namespace
} // namespace tegula::sim
