// Planted bugs in plain shared memory, barriers and warp instructions: each kernel is wrong in one way, and the fault
// names it with its places. Next to each wrong kernel is the right one, which must run: a check that cries wolf is
// worse than none.
#include "Fixture.h"

namespace tegula::sim {
namespace {

TEST(Race, WriteThenRead) {
  check(Kernel(128, 512),
        [](T t, bool right) {
          store(t, uint32_t(tid(t)) * 4, tid(t), 11);
          if (right)
            sync(t);
          if (tid(t))
            load<int32_t>(t, uint32_t(tid(t) - 1) * 4, 12);
        },
        FaultKind::SharedRace,
        {"thread 1 (warp 0)", "ld.shared", "site 12", "thread 0 (warp 0) wrote 0x400 at site 11"});
}

TEST(Race, ReadThenWrite) {
  check(Kernel(128, 512),
        [](T t, bool right) {
          store(t, uint32_t(tid(t)) * 4, tid(t), 11);
          sync(t);
          load<int32_t>(t, uint32_t(tid(t) + 1) % 128 * 4, 12);
          if (right)
            sync(t);
          store(t, uint32_t(tid(t)) * 4, 7, 13);
        },
        FaultKind::SharedRace, {"st.shared", "site 13", "read", "site 12"});
}

TEST(Race, ManyReadersThenWrite) {
  // All threads read one word at different times; thread 0 synchronizes with all but the last warp.
  check(Kernel(128, 64),
        [](T t, bool right) {
          if (tid(t) == 0)
            store(t, 0, 1, 11);
          sync(t);
          for (int i = 0; i < 3; ++i) {
            load<int32_t>(t, 0, 12);
            tegula_sim_syncwarp(t, 9, ~0u);
          }
          if (right)
            sync(t);
          else if (tid(t) < 96)
            tegula_sim_bar_sync(t, 5, 1, 96);
          if (tid(t) == 0)
            store(t, 0, 2, 13);
        },
        FaultKind::SharedRace, {"thread 0 (warp 0)", "site 13", "thread 96 (warp 3) read", "site 12"});
}

TEST(Race, AnEarlierReaderIsNotForgotten) {
  // Warp 0 reads first, warp 3 last; the writer synchronizes with warp 3 only.
  check(Kernel(128, 64),
        [](T t, bool right) {
          if (tid(t) == 0)
            store(t, 0, 1, 11);
          sync(t);
          if (tid(t) / 32 % 3 == 0)
            load<int32_t>(t, 0, 12);
          if (tid(t) >= 64)
            sync(t, 64, 1);
          if (right)
            sync(t, 128, 2);
          if (tid(t) == 64)
            store(t, 0, 2, 13);
        },
        FaultKind::SharedRace, {"thread 64 (warp 2)", "site 13", "thread 0 (warp 0) read", "site 12"});
}

TEST(Race, LanesOfAWarp) {
  check(Kernel(32, 128),
        [](T t, bool right) {
          store(t, uint32_t(tid(t)) * 4, tid(t), 11);
          if (right)
            tegula_sim_syncwarp(t, 3, ~0u);
          else
            tegula_sim_shfl(t, 3, TEGULA_SHFL_IDX, ~0u, 0, 0); // moves values, orders no memory
          load<int32_t>(t, uint32_t(tid(t) ^ 1) * 4, 12);
        },
        FaultKind::SharedRace, {"thread 31 (warp 0)", "thread 30 (warp 0) wrote 0x478", "site 11", "site 12"});
}

TEST(Race, NamedBarrierOrdersItsThreadsOnly) {
  check(Kernel(128, 512),
        [](T t, bool right) {
          int32_t group = tid(t) / 64;
          store(t, uint32_t(tid(t)) * 4, tid(t), 11);
          if (group)
            sync(t, 64, 3);
          tegula_sim_bar_sync(t, 5, 1 + group, 64);
          for (int i = 0; i < 20; ++i)
            tegula_sim_backedge(t, -1);
          uint32_t other = right ? uint32_t(group * 64 + (tid(t) + 1) % 64) : uint32_t(tid(t) + 64) % 128;
          load<int32_t>(t, other * 4, 12);
        },
        FaultKind::SharedRace, {"site 12", "site 11"});
}

TEST(Race, ArriveReleasesAndSyncAcquires) {
  // Warps 0, 1 produce and arrive; warps 2, 3 sync and consume. Wrong: the consumers write back what producers then
  // read.
  check(Kernel(128, 512),
        [](T t, bool right) {
          if (tid(t) < 64) {
            store(t, uint32_t(tid(t)) * 4, tid(t), 11);
            tegula_sim_bar_arrive(t, 5, 2, 128);
            if (!right)
              load<int32_t>(t, uint32_t(tid(t)) * 4 + 256, 14);
          } else {
            store(t, uint32_t(tid(t)) * 4, 1, 13);
            tegula_sim_bar_sync(t, 5, 2, 128);
            load<int32_t>(t, uint32_t(tid(t) - 64) * 4, 12);
          }
        },
        FaultKind::Uninitialized, {"site 14"});
}

TEST(Race, MbarrierOrdersProducerAndConsumer) {
  check(Kernel(64, 512),
        [](T t, bool right) {
          if (tid(t) == 0)
            tegula_sim_mbar_init(t, 20, smem(t, 256), 32), tegula_sim_mbar_init(t, 21, smem(t, 264), 32);
          sync(t, 64);
          for (int i = 0; i < 5; ++i) {
            if (tid(t) < 32) {
              tegula_sim_mbar_wait(t, 22, smem(t, 264), (i + 1) & 1);
              store(t, uint32_t(tid(t)) * 4, i, 11);
              tegula_sim_mbar_arrive(t, 23, smem(t, 256), 1, 1);
            } else {
              tegula_sim_mbar_wait(t, 24, smem(t, 256), i & 1);
              int32_t v = load<int32_t>(t, uint32_t(63 - tid(t)) * 4, 12);
              if (v != i)
                tegula_sim_assert_fail(t, 99);
              if (right)
                tegula_sim_mbar_arrive(t, 25, smem(t, 264), 1, 1);
              if (!right && i == 1)
                return;
              if (!right) {
                tegula_sim_mbar_arrive(t, 25, smem(t, 264), 1, 1);
                load<int32_t>(t, uint32_t(63 - tid(t)) * 4, 13); // after giving the slot back
              }
            }
          }
        },
        FaultKind::SharedRace, {"site 11", "site 13"});
}

TEST(Race, AtomicsDoNotRaceWithEachOther) {
  check(Kernel(128, 64),
        [](T t, bool right) {
          if (tid(t) == 0)
            store(t, 0, 0, 11);
          sync(t);
          int32_t one = 1;
          tegula_sim_atom(t, 12, 1, smem(t, 0), TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, 0, 0, 1, &one, nullptr);
          if (right)
            sync(t);
          if (load<int32_t>(t, 0, 13) != 128 && right)
            tegula_sim_assert_fail(t, 99);
        },
        FaultKind::SharedRace, {"site 12", "site 13"});
}

TEST(Race, SharedAtomicsWithReleaseAndAcquireOrder) {
  check(Kernel(64, 64),
        [](T t, bool right) {
          if (tid(t) == 0)
            store(t, 0, 0, 11);
          sync(t, 64);
          int32_t one = 1, zero = 0, seen = 0;
          if (tid(t) == 63) {
            store(t, 4, 42, 12);
            tegula_sim_atom(t, 13, 1, smem(t, 0), TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, right ? 2 : 0, 0, 1, &one,
                            nullptr);
          } else if (tid(t) == 0) {
            while (!seen) {
              tegula_sim_atom(t, 14, 1, smem(t, 0), TEGULA_SIM_I32, 1, TEGULA_ATOM_ADD, 1, 0, 1, &zero, &seen);
              tegula_sim_backedge(t, -1);
            }
            load<int32_t>(t, 4, 15);
          }
        },
        FaultKind::SharedRace, {"thread 63 (warp 1) wrote 0x404 at site 12", "site 15"});
}

TEST(Shared, UninitializedRead) {
  check(Kernel(128, 512),
        [](T t, bool right) {
          if (right || tid(t) != 77)
            store<uint16_t>(t, uint32_t(tid(t)) * 4, 1, 11);
          store<uint16_t>(t, uint32_t(tid(t)) * 4 + 2, 1, 11);
          sync(t);
          load<int32_t>(t, uint32_t(127 - tid(t)) * 4, 12);
        },
        FaultKind::Uninitialized, {"thread 50 (warp 1)", "site 12", "0x534"});
}

TEST(Barrier, AThreadLeaves) {
  check(Kernel(),
        [](T t, bool right) {
          if (!right && tid(t) == 5)
            return;
          sync(t, 128, 0, 31);
        },
        FaultKind::BarrierDivergence,
        {"threads 0 to 4, 6 to 127 at barrier 0 at site 31, to which 127 of 128 threads came",
         "thread 5 left the kernel"});
}

TEST(Barrier, WaitingElsewhere) {
  check(Kernel(), [](T t, bool right) { sync(t, 128, !right && tid(t) >= 96, right || tid(t) < 96 ? 31 : 32); },
        FaultKind::BarrierDivergence,
        {"barrier 0 at site 31, to which 96 of 128", "barrier 1 at site 32, to which 32 of 128"});
}

TEST(Barrier, OtherPlaceInOneWarp) {
  check(Kernel(), [](T t, bool right) { sync(t, 128, 0, right || tid(t) % 32 < 16 ? 31 : 32); },
        FaultKind::BarrierDivergence, {"thread 16", "site 32", "site 31"});
}

TEST(Barrier, CountsDiffer) {
  check(Kernel(), [](T t, bool right) { sync(t, right || tid(t) < 64 ? 128 : 64, 3, 31); },
        FaultKind::BarrierDivergence, {"thread 64", "count of 64", "count of 128"});
}

TEST(Warp, ThreadsMissing) {
  check(Kernel(32),
        [](T t, bool right) {
          if (right || tid(t) != 9)
            tegula_sim_ballot(t, 31, ~0u, 1);
          else
            sync(t, 32);
        },
        FaultKind::WarpDivergence, {"thread 9 at barrier 0", "vote of mask 0xffffffff at site 31"});
  check(Kernel(32),
        [](T t, bool right) {
          if (right || tid(t) < 16)
            tegula_sim_ballot(t, 31, ~0u, 1);
          else
            tegula_sim_shfl(t, 32, TEGULA_SHFL_IDX, ~0u, 1, 0);
        },
        FaultKind::WarpDivergence, {"thread 16", "shfl", "site 32", "vote", "site 31"});
  check(Kernel(32), [](T t, bool right) { tegula_sim_ballot(t, 31, right || tid(t) < 31 ? ~0u : 1u, 1); },
        FaultKind::WarpDivergence, {"thread 31", "does not name it"});
}

} // namespace
} // namespace tegula::sim
