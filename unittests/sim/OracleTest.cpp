// The race check against a slow, obvious one: random programs of accesses and synchronization; all pairs of accesses
// are compared by full vector clocks. The simulator must fault exactly if two of them conflict without order, whatever
// order its fibers run in.
#include "Fixture.h"
#include <random>

namespace tegula::sim {
namespace {

constexpr unsigned threadCount = 64;
constexpr uint32_t bytes = 64;
using Set = uint64_t; // of threads

struct Step {
  enum Kind { Access, Barrier, Named, Warp, Mbarrier } kind;
  Set who;     // Access, Named, Warp: who takes part; Mbarrier: who arrives
  Set waiters; // Mbarrier
  int32_t index;
  uint32_t offset[threadCount];
  uint8_t size[threadCount];
  bool writes[threadCount];
};

struct Program {
  std::vector<Step> steps;
};

void runProgram(T t, const void *args) {
  const Program &p = **static_cast<Program *const *>(args);
  auto me = unsigned(tid(t));
  if (me == 0)
    for (const Step &s : p.steps)
      if (s.kind == Step::Mbarrier)
        tegula_sim_mbar_init(t, 1, smem(t, bytes + uint32_t(s.index) * 8), __builtin_popcountll(s.who));
  store<uint8_t>(t, me, 0);
  sync(t, threadCount);
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
        tegula_sim_bar_sync(t, 5, 1 + s.index % 15, __builtin_popcountll(s.who));
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
    }
  }
}

Program makeProgram(std::mt19937_64 &random) {
  Program p;
  int32_t barriers = 0;
  auto count = 4 + random() % 24;
  bool mostlyOrdered = random() % 3 != 0;
  for (unsigned i = 0; i < count; ++i) {
    Step s{};
    s.index = int32_t(i);
    switch (random() % 7) {
    case 0:
      s.kind = Step::Barrier;
      break;
    case 1: {
      s.kind = Step::Named;
      s.who = random() % 2 ? ~Set(0) : random() % 2 ? 0xffffffffu : ~Set(0xffffffffu);
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
    default: {
      s.kind = Step::Access;
      s.who = mostlyOrdered ? Set(1) << random() % 64 : random() & random() & random() & random();
      if (random() % 4 == 0)
        s.who |= random() & random() & random() & random();
      for (unsigned t = 0; t < threadCount; ++t) {
        s.size[t] = uint8_t(1u << random() % 5);
        s.offset[t] = uint32_t(random() % bytes) / s.size[t] * s.size[t];
        s.writes[t] = random() % 4 == 0;
      }
    }
    }
    p.steps.push_back(s);
  }
  return p;
}

/// Is there a pair of accesses that conflict and are not ordered?
bool hasRace(const Program &p) {
  struct Seen {
    unsigned thread;
    uint32_t time, offset, size;
    bool writes;
  };
  std::vector<Seen> all;
  std::vector<std::vector<uint32_t>> clock(threadCount, std::vector<uint32_t>(threadCount));
  for (unsigned t = 0; t < threadCount; ++t)
    clock[t][t] = 1;
  auto join = [](std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
    for (unsigned i = 0; i < threadCount; ++i)
      a[i] = std::max(a[i], b[i]);
  };
  auto meet = [&](Set releases, Set acquires) {
    std::vector<uint32_t> sum(threadCount);
    for (unsigned t = 0; t < threadCount; ++t)
      if (releases >> t & 1)
        join(sum, clock[t]), ++clock[t][t];
    for (unsigned t = 0; t < threadCount; ++t)
      if (acquires >> t & 1)
        join(clock[t], sum);
  };
  for (const Step &s : p.steps) {
    if (s.kind == Step::Barrier)
      meet(~Set(0), ~Set(0));
    if (s.kind == Step::Named || s.kind == Step::Warp)
      meet(s.who, s.who);
    if (s.kind == Step::Mbarrier)
      meet(s.who, s.waiters);
    if (s.kind != Step::Access)
      continue;
    for (unsigned t = 0; t < threadCount; ++t) {
      if (!(s.who >> t & 1))
        continue;
      Seen mine{t, clock[t][t], s.offset[t], s.size[t], s.writes[t]};
      for (const Seen &o : all)
        if ((o.writes || mine.writes) && o.offset < mine.offset + mine.size && mine.offset < o.offset + o.size &&
            clock[t][o.thread] < o.time)
          return true;
      all.push_back(mine);
    }
  }
  return false;
}

TEST(RaceOracle, RandomPrograms) {
  std::mt19937_64 random(11);
  unsigned races = 0, total = 600;
  for (unsigned i = 0; i < total; ++i) {
    Program p = makeProgram(random);
    const Program *arg = &p;
    bool race = hasRace(p);
    Report r = Kernel(threadCount, bytes + 8 * 64)(runProgram, &arg);
    races += race;
    ASSERT_STREQ(faultName(r.fault.kind), faultName(race ? FaultKind::SharedRace : FaultKind::None))
        << "program " << i << ": " << r.fault.text;
  }
  EXPECT_GT(races, total / 5);
  EXPECT_LT(races, total * 4 / 5);
  std::printf("%u of %u programs race\n", races, total);
}

} // namespace
} // namespace tegula::sim
