// Running grids: special registers, memory, atomics, warp instructions, barriers, spin locks, faults of memory.
#include "Fixture.h"
#include "Rounds.h"
#include <numeric>

namespace tegula::sim {
namespace {

TEST(Machine, EveryThreadOfEveryProgramRuns) {
  std::vector<int32_t> out(3 * 2 * 2 * 64, -1);
  int32_t *p = out.data();
  Kernel run(64);
  run.config.grid = {3, 2, 2};
  run.config.hostThreads = 2;
  EXPECT_RUNS(run.buffer(out)(
      [](T t, const void *args) {
        auto *o = *static_cast<int32_t *const *>(args);
        int32_t x = tegula_sim_sreg(t, TEGULA_SREG_CTAID_X), y = tegula_sim_sreg(t, TEGULA_SREG_CTAID_Y),
                z = tegula_sim_sreg(t, TEGULA_SREG_CTAID_Z);
        int32_t linear =
            x + tegula_sim_sreg(t, TEGULA_SREG_NCTAID_X) * (y + tegula_sim_sreg(t, TEGULA_SREG_NCTAID_Y) * z);
        storeGlobal(t, o + linear * 64 + tid(t), linear * 1000 + tid(t));
      },
      &p));
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], int32_t(i / 64 * 1000 + i % 64));
}

TEST(Machine, ShufflesAndVotes) {
  std::vector<uint32_t> out(32 * 6);
  uint32_t *p = out.data();
  EXPECT_RUNS(Kernel(32).buffer(out)(
      [](T t, const void *args) {
        uint32_t *o = *static_cast<uint32_t *const *>(args), lane = uint32_t(tid(t));
        uint32_t values[6] = {tegula_sim_shfl(t, 0, TEGULA_SHFL_BFLY, ~0u, lane, 5),
                              tegula_sim_shfl(t, 0, TEGULA_SHFL_UP, ~0u, lane, 3),
                              tegula_sim_shfl(t, 0, TEGULA_SHFL_DOWN, ~0u, lane, 3),
                              tegula_sim_shfl(t, 0, TEGULA_SHFL_IDX, ~0u, lane * 7, 9),
                              tegula_sim_ballot(t, 0, ~0u, lane % 3 == 0),
                              0};
        // Two halves of the warp at different instructions at the same time.
        values[5] = lane < 16 ? tegula_sim_ballot(t, 1, 0xffff, lane & 1)
                              : tegula_sim_shfl(t, 2, TEGULA_SHFL_IDX, 0xffff0000, lane, 16);
        if (tegula_sim_elect(t, 3, ~0u) != (lane == 0))
          tegula_sim_assert_fail(t, 9);
        for (int i = 0; i < 6; ++i)
          storeGlobal(t, o + lane * 6 + i, values[i]);
      },
      &p));
  for (uint32_t l = 0; l < 32; ++l) {
    const uint32_t *v = p + l * 6;
    EXPECT_EQ(v[0], l ^ 5);
    EXPECT_EQ(v[1], l < 3 ? l : l - 3);
    EXPECT_EQ(v[2], l > 28 ? l : l + 3);
    EXPECT_EQ(v[3], 63u);
    EXPECT_EQ(v[4], 0x49249249u);
    EXPECT_EQ(v[5], l < 16 ? 0xaaaau : 16u);
  }
}

TEST(Machine, SharedMemoryAcrossBarriers) {
  std::vector<int32_t> out(128);
  int32_t *p = out.data();
  EXPECT_RUNS(Kernel(128, 512).buffer(out)(
      [](T t, const void *args) {
        int32_t v = tid(t);
        for (int i = 0; i < 7; ++i) {
          store<int32_t>(t, uint32_t(tid(t)) * 4, v);
          sync(t);
          v += load<int32_t>(t, uint32_t((tid(t) + (1 << i)) % 128) * 4);
          sync(t);
          tegula_sim_backedge(t, -1);
        }
        storeGlobal(t, *static_cast<int32_t *const *>(args) + tid(t), v);
      },
      &p));
  for (int32_t v : out)
    EXPECT_EQ(v, 127 * 128 / 2);
}

TEST(Machine, BytesOfAWordBelongToDifferentThreads) {
  std::vector<uint32_t> out(32);
  uint32_t *p = out.data();
  EXPECT_RUNS(Kernel(128, 128).buffer(out)(
      [](T t, const void *args) {
        for (int round = 0; round < 3; ++round) {
          store<uint8_t>(t, uint32_t(tid(t)), uint8_t(tid(t) + round));
          sync(t);
          if (tid(t) < 32)
            storeGlobal(t, *static_cast<uint32_t *const *>(args) + tid(t), load<uint32_t>(t, uint32_t(tid(t)) * 4));
          sync(t);
          if (tid(t) < 64)
            store<uint16_t>(t, uint32_t(tid(t)) * 2, 7);
          sync(t);
        }
      },
      &p));
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], (4 * i + 2) * 0x01010101u + 0x03020100u);
}

struct Atomics {
  int32_t *ints;
  float *floats;
  uint16_t *halves;
};
TEST(Machine, Atomics) {
  std::vector<int32_t> ints(4);
  std::vector<float> floats(4);
  std::vector<uint16_t> halves(2);
  Atomics a{ints.data(), floats.data(), halves.data()};
  Kernel run(128);
  run.config.hostThreads = 2;
  EXPECT_RUNS(run.buffer(ints).buffer(floats).buffer(halves).programs(4)(
      [](T t, const void *args) {
        const Atomics &a = *static_cast<const Atomics *>(args);
        int32_t one = 1, me = tid(t), cas[2] = {0, 77}, old;
        float f4[4] = {1, 2, 3, 0.5f};
        uint16_t halfOnes[2] = {0x3c00, 0x3c00};
        auto atom = [&](void *p, int type, int count, int op, const void *in, void *o) {
          tegula_sim_atom(t, 1, 0, address(p), type, count, op, 3, 2, 1, in, o);
        };
        atom(a.ints, TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, &one, nullptr);
        atom(a.ints + 1, TEGULA_SIM_I32, 1, TEGULA_ATOM_SMAX, &me, nullptr);
        atom(a.ints + 2, TEGULA_SIM_I32, 1, TEGULA_ATOM_CAS, cas, &old);
        if (old == 0)
          atom(a.ints + 3, TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, &one, nullptr);
        atom(a.floats, TEGULA_SIM_F32, 4, TEGULA_ATOM_FADD, f4, nullptr);
        if (me < 16)
          atom(a.halves, TEGULA_SIM_F16, 2, TEGULA_ATOM_FADD, halfOnes, nullptr);
      },
      &a));
  EXPECT_EQ(ints, (std::vector<int32_t>{512, 127, 77, 1}));
  EXPECT_EQ(floats, (std::vector<float>{512, 1024, 1536, 256}));
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x5400, 0x5400})); // 64
}

struct PlainAtomics {
  const uint8_t *from;
  uint16_t *to;
};
TEST(Machine, AtomicLoadsAndStores) {
  std::vector<uint8_t> from{7, 250};
  std::vector<uint16_t> to(2, 0xabab);
  PlainAtomics a{from.data(), to.data()};
  Kernel run(64);
  EXPECT_RUNS(run.buffer(from).buffer(to)(
      [](T t, const void *args) {
        const PlainAtomics &a = *static_cast<const PlainAtomics *>(args);
        uint8_t x = 0;
        tegula_sim_atom(t, 1, 0, address(a.from + 1), TEGULA_SIM_I8, 1, TEGULA_ATOM_LOAD, 1, 2, 1, nullptr, &x);
        uint16_t y = uint16_t(x * 2);
        tegula_sim_atom(t, 1, 0, address(a.to + 1), TEGULA_SIM_I16, 1, TEGULA_ATOM_STORE, 2, 2, 1, &y, nullptr);
        tegula_sim_atom(t, 1, 0, address(a.to), TEGULA_SIM_I16, 1, TEGULA_ATOM_STORE, 2, 2, 0, &y, nullptr);
      },
      &a));
  EXPECT_EQ(to, (std::vector<uint16_t>{0xabab, 500}));
  Report r = run(
      [](T t, const void *args) {
        uint8_t one = 1;
        tegula_sim_atom(t, 1, 0, address(static_cast<const PlainAtomics *>(args)->to), TEGULA_SIM_I8, 1,
                        TEGULA_ATOM_ADD, 0, 2, 1, &one, nullptr);
      },
      &a);
  expectFault(r, FaultKind::BadInstruction, {"operation 0 on 1 elements of type 7"});
}

/// Every program takes the lock; the first ones to run wait for the last: all of them must be under way. Their turns
/// come in the order that takes the most rotations, whose number grows with the square of the programs: 3 million
/// switches of fibers for 40.
TEST(Machine, SpinningAcrossProgramsMakesProgress) {
  static constexpr int32_t programs = int32_t(test::rounds(40));
  for (unsigned host : {1u, 2u}) {
    std::vector<int32_t> words(3);
    int32_t *p = words.data();
    Kernel run(64, 64);
    run.config.hostThreads = host;
    EXPECT_RUNS(run.buffer(words).programs(programs)(
        [](T t, const void *args) {
          int32_t *w = *static_cast<int32_t *const *>(args),
                  turn = programs - 1 - tegula_sim_sreg(t, TEGULA_SREG_CTAID_X), now = -1;
          while (now != turn) {
            int32_t zero = 0;
            if (tid(t) == 0) {
              tegula_sim_atom(t, 1, 0, address(w), TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, 1, 2, 1, &zero, &now);
              store(t, 0, now);
            }
            sync(t, 64);
            now = load<int32_t>(t, 0);
            sync(t, 64);
            tegula_sim_backedge(t, -1);
          }
          int32_t one = 1;
          if (tid(t) == 0) {
            storeGlobal(t, w + 1, loadGlobal(t, w + 1) + 1);
            tegula_sim_atom(t, 1, 0, address(w), TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, 2, 2, 1, &one, nullptr);
          }
        },
        &p));
    EXPECT_EQ(words[1], programs);
  }
}

TEST(Machine, EndsALaunchThatMakesNoProgress) {
  // Programs wait for a number that nobody writes, on one host thread and on several. How many have begun by the end
  // depends on the host.
  for (unsigned hosts : {1u, 3u}) {
    std::vector<int32_t> number{0};
    Kernel run(64);
    run.buffer(number).programs(3);
    run.config.hostThreads = hosts;
    run.config.hangNs = 200'000'000;
    const int32_t *p = number.data();
    Report r = run(
        [](T t, const void *args) {
          if (tid(t) == 0)
            while (loadGlobal(t, *static_cast<const int32_t *const *>(args)) == 0)
              tegula_sim_backedge(t, 9);
          sync(t, 64);
        },
        &p);
    expectFault(r, FaultKind::Hang, {"no program finishes"});
    EXPECT_EQ(r.fault.site, 9);
    EXPECT_EQ(r.unfinished.size() + r.notStarted, 3u);
    ASSERT_FALSE(r.unfinished.empty());
    for (size_t i = 0; i < r.unfinished.size(); ++i) {
      if (r.unfinished[i].pid[0] == r.fault.pid[0])
        EXPECT_EQ(r.unfinished[i].site, 9);
      if (i)
        EXPECT_LT(r.unfinished[i - 1].pid[0], r.unfinished[i].pid[0]);
    }
  }
}

TEST(Machine, PrintsAndAsserts) {
  std::vector<std::string> lines;
  Kernel run(32);
  run.config.print = [&](int32_t site, int32_t operand, const int32_t *pid, int64_t index, uint64_t bits) {
    lines.push_back(std::to_string(site) + " " + std::to_string(operand) + " " + std::to_string(pid[0]) + " " +
                    std::to_string(index) + " " + std::to_string(bits));
  };
  Report r = run.programs(2)([](T t, const void *) {
    if (tid(t) == 3)
      tegula_sim_print(t, 7, 1, 5, 99);
    if (tid(t) == 9 && tegula_sim_sreg(t, TEGULA_SREG_CTAID_X) == 1)
      tegula_sim_assert_fail(t, 11);
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"7 1 0 5 99", "7 1 1 5 99"}));
  expectFault(r, FaultKind::Assert, {"thread 9", "site 11"});
  EXPECT_EQ(r.fault.pid[0], 1);
  EXPECT_EQ(r.fault.site, 11);
  EXPECT_EQ(r.fault.thread, 9u);
}

TEST(Machine, Cancels) {
  std::atomic<int32_t> cancel{1};
  Kernel run;
  run.config.cancel = &cancel;
  expectFault(run([](T t, const void *) {
                while (true)
                  tegula_sim_backedge(t, -1);
              }),
              FaultKind::Cancelled, {});
}

TEST(Machine, ImpossibleLaunches) {
  auto entry = [](T, const void *) {};
  expectFault(Kernel(100)(entry), FaultKind::Config, {"100 threads"});
  expectFault(Kernel(128, 300000)(entry), FaultKind::Config, {"300000"});
  expectFault(Kernel().cluster(17)(entry), FaultKind::Config, {"17"});
  expectFault(Kernel().programs(0)(entry), FaultKind::Config, {"grid"});
}

TEST(Machine, BuffersMayOverlap) {
  std::vector<int32_t> data(64);
  int32_t *p = data.data();
  std::vector<Extent> views = {
      {address(p + 8), 32}, {address(p), 128}, {address(p + 20), 0}, {address(p + 24), 160}, {address(p), 4}};
  LaunchConfig c;
  c.threads = 64;
  c.buffers = views;
  c.args = &p;
  c.entry = [](T t, const void *a) { storeGlobal(t, *static_cast<int32_t *const *>(a) + tid(t), 1); };
  EXPECT_RUNS(launch(c));
  views[3].bytes -= 4;
  expectFault(launch(c), FaultKind::GlobalBounds, {"thread 63", "252 bytes after the start of one with 252 bytes"});
}

TEST(Machine, AccessesOutsideMemory) {
  std::vector<int32_t> data(16);
  int32_t *p = data.data();
  expectFault(Kernel(32).buffer(data)(
                  [](T t, const void *a) { loadGlobal(t, *static_cast<int32_t *const *>(a) + tid(t), 21); }, &p),
              FaultKind::GlobalBounds, {"thread 16", "site 21", "64 bytes after the start of one with 64 bytes"});
  expectFault(Kernel(32).buffer(data)(
                  [](T t, const void *a) {
                    storeGlobal<int16_t>(t, reinterpret_cast<int16_t *>(*static_cast<char *const *>(a) + tid(t)), 1,
                                         22);
                  },
                  &p),
              FaultKind::Misaligned, {"thread 1 ", "site 22", "multiple of 2"});
  expectFault(Kernel(32, 64)([](T t, const void *) { store<int32_t>(t, uint32_t(tid(t)) * 4, 0, 23); }),
              FaultKind::SharedBounds, {"thread 16", "site 23", "0x440"});
  expectFault(Kernel(32, 64)([](T t, const void *) {
                int32_t v = 0;
                tegula_sim_st_shared(t, 24, 0x10, 4, 1, &v);
              }),
              FaultKind::SharedBounds, {"thread 0", "site 24"});
  expectFault(Kernel(32, 64)([](T t, const void *) { load<uint64_t>(t, 4, 25); }), FaultKind::Misaligned,
              {"site 25", "0x404"});
  EXPECT_RUNS(Kernel(32).buffer(data)(
      [](T t, const void *a) {
        int32_t v;
        tegula_sim_ld_global(t, 1, 12345, 4, 0, &v); // predicated off
      },
      &p));
}

/// Uses local memory, then comes to a warp instruction.
template <size_t bytes> [[gnu::noinline]] void deep(T t) {
  char frame[bytes];
  asm volatile("" : : "r"(frame) : "memory");
  tegula_sim_syncwarp(t, 1, ~0u);
  asm volatile("" : : "r"(frame) : "memory");
}
TEST(Machine, LocalMemoryIsLimited) {
#if !defined(__has_feature) || !__has_feature(address_sanitizer)
  EXPECT_RUNS(Kernel(32)([](T t, const void *) { deep<200 * 1024>(t); }));
  expectFault(Kernel(32)([](T t, const void *) { deep<242 * 1024>(t); }), FaultKind::StackOverflow,
              {"262144 bytes of local memory"});
#endif
}

TEST(Machine, StacksAreKeptBetweenLaunches) {
  auto pool = makeStackPool();
  std::vector<int32_t> words(1);
  int32_t *p = words.data();
  for (unsigned threads : {128u, 64u, 256u, 128u}) {
    Kernel k(threads);
    k.config.stacks = pool.get();
    k.config.hostThreads = 2;
    EXPECT_RUNS(k.buffer(words).programs(3)(
        [](T t, const void *args) {
          int32_t one = 1;
          tegula_sim_atom(t, 1, 0, address(*static_cast<int32_t *const *>(args)), TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, 0,
                          2, 1, &one, nullptr);
        },
        &p));
    expectFault(k([](T t, const void *) { sync(t, 32 * (1 + tid(t) / 32)); }), FaultKind::BarrierDivergence, {});
  }
  EXPECT_EQ(words[0], 3 * (128 + 64 + 256 + 128));
}

TEST(Machine, PlacesInMessages) {
  auto place = [](int32_t site) { return "k.py:" + std::to_string(site); };
  EXPECT_EQ(namePlaces("ld.shared at site 12: thread 3 wrote it at site 4 and so on (site 5)", place),
            "ld.shared at k.py:12: thread 3 wrote it at k.py:4 and so on (k.py:5)");
  EXPECT_EQ(namePlaces("at site -1 and site 7", place), "at k.py:-1 and k.py:7");
  EXPECT_EQ(namePlaces("no place, site without number, site ", place), "no place, site without number, site ");
}

/// What a barrier costs is its switches: one for each thread that waits, none that only looks whether it may go on.
TEST(Machine, BarriersSwitchOncePerThread) {
  Report r = Kernel()([](T t, const void *) {
    for (int i = 0; i < 300; ++i)
      sync(t);
  });
  EXPECT_RUNS(r);
  EXPECT_GE(r.counters.switches, 300u * 127);
  EXPECT_LE(r.counters.switches, 301u * 128);
}

} // namespace
} // namespace tegula::sim
