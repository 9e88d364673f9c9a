// Planted bugs in asynchronous copies, mbarriers, clusters and register pools, each beside the right kernel.
#include "Fixture.h"

namespace tegula::sim {
namespace {

std::vector<int32_t> source(64, 3);

TEST(CpAsync, MissingWait) {
  Kernel k(32, 512);
  check(k.buffer(source),
        [](T t, bool right) {
          tegula_sim_cp_async(t, 11, smem(t, uint32_t(tid(t)) * 4), address(source.data() + tid(t)), 4, 4, 1);
          tegula_sim_cp_async_commit(t, 12);
          tegula_sim_cp_async(t, 11, smem(t, 256 + uint32_t(tid(t)) * 4), address(source.data() + tid(t)), 4,
                              tid(t) == 3 ? 0 : 4, 1);
          tegula_sim_cp_async_commit(t, 12);
          tegula_sim_cp_async_wait(t, 13, 1);
          load<int32_t>(t, uint32_t(tid(t)) * 4, 14);
          if (right)
            tegula_sim_cp_async_wait(t, 13, 0);
          int32_t v = load<int32_t>(t, 256 + uint32_t(tid(t)) * 4, 15);
          if (v != (tid(t) == 3 ? 0 : 3))
            tegula_sim_assert_fail(t, 99);
        },
        FaultKind::MissingWait, {"thread 0", "site 15", "cp.async of thread 0 (warp 0) at site 11", "0x500"});
}

TEST(CpAsync, OthersNeedABarrierToo) {
  Kernel k(32, 512);
  check(k.buffer(source),
        [](T t, bool right) {
          tegula_sim_cp_async(t, 11, smem(t, uint32_t(tid(t)) * 4), address(source.data() + tid(t)), 4, 4, 1);
          tegula_sim_cp_async_commit(t, 12);
          tegula_sim_cp_async_wait(t, 13, 0);
          for (int i = 0; i < 20; ++i)
            tegula_sim_backedge(t, -1);
          if (right)
            sync(t, 32);
          load<int32_t>(t, uint32_t(tid(t) ^ 1) * 4, 15);
        },
        FaultKind::SharedRace, {"site 15", "site 11"});
}

TEST(CpAsync, ArrivesAtAnMbarrier) {
  Kernel k(64, 512);
  check(k.buffer(source),
        [](T t, bool right) {
          if (tid(t) == 0)
            tegula_sim_mbar_init(t, 20, smem(t, 256), 32);
          sync(t, 64);
          if (tid(t) < 32) {
            tegula_sim_cp_async(t, 11, smem(t, uint32_t(tid(t)) * 4), address(source.data() + tid(t)), 4, 4, 1);
            tegula_sim_cp_async_mbar_arrive(t, 21, smem(t, 256));
          }
          if (right || tid(t) != 40)
            tegula_sim_mbar_wait(t, 22, smem(t, 256), 0);
          if (tid(t) == 40)
            tegula_sim_syncwarp(t, 1, 1u << 8);
          load<int32_t>(t, uint32_t(tid(t) % 32) * 4, 15);
        },
        FaultKind::MissingWait, {"thread 40", "site 15", "bulk copy"});
}

TEST(Bulk, LoadNeedsItsWait) {
  Kernel k(32, 512);
  check(k.buffer(source),
        [](T t, bool right) {
          if (tid(t) == 0) {
            tegula_sim_mbar_init(t, 20, smem(t, 256), 1);
            tegula_sim_fence_mbarrier_init(t, 20);
            tegula_sim_mbar_arrive_expect(t, 21, smem(t, 256), 128, 1);
            tegula_sim_bulk_load(t, 22, smem(t, 0), address(source.data()), 128, smem(t, 256), 1);
          }
          tegula_sim_syncwarp(t, 23, ~0u);
          if (right)
            tegula_sim_mbar_wait(t, 24, smem(t, 256), 0);
          load<int32_t>(t, uint32_t(tid(t)) * 4, 25);
        },
        FaultKind::MissingWait, {"site 25", "bulk copy at site 22 into 0x47c"});
}

/// Each CTA of two sends a word to both.
void openExchange(T t, uint32_t bytes, bool fences) {
  if (tid(t) == 0) {
    tegula_sim_mbar_init(t, 20, smem(t, 256), 1);
    if (fences)
      tegula_sim_fence_mbarrier_init(t, 20);
    tegula_sim_mbar_arrive_expect(t, 21, smem(t, 256), int32_t(bytes), 1);
  }
  tegula_sim_cluster_arrive(t, 22, 1);
}

void sendWord(T t, int32_t bytes = 4) {
  const int32_t word[4] = {7 + ctaRank(t), 0, 0, 0}, to = tid(t) & 1;
  tegula_sim_st_async(t, 24, tegula_sim_mapa(t, smem(t, 16u * uint32_t(ctaRank(t))), to), word, bytes,
                      tegula_sim_mapa(t, smem(t, 256), to), tid(t) < 2);
}

TEST(SendAsync, ReadersWaitForTheBytes) {
  check(Kernel(32, 512).cluster(2),
        [](T t, bool right) {
          openExchange(t, 8, true);
          tegula_sim_cluster_wait(t, 23);
          sendWord(t);
          if (right || tid(t) != 3)
            tegula_sim_mbar_wait(t, 25, smem(t, 256), 0);
          else // it has come by then
            for (int i = 0; i < 40; ++i)
              tegula_sim_backedge(t, -1);
          if (load<int32_t>(t, 16, 26) != 8)
            tegula_sim_assert_fail(t, 99);
        },
        FaultKind::MissingWait, {"thread 3", "site 26", "at site 24 into 0x410"});
}

TEST(SendAsync, TheReceiverHasToHaveBegun) {
  check(Kernel(32, 512).cluster(2),
        [](T t, bool right) {
          openExchange(t, 8, true);
          if (right)
            tegula_sim_cluster_wait(t, 23);
          else if (ctaRank(t) == 1) // even if it has
            for (int i = 0; i < 40; ++i)
              tegula_sim_backedge(t, -1);
          sendWord(t);
          tegula_sim_mbar_wait(t, 25, smem(t, 256), 0);
          load<int32_t>(t, 16, 26);
          if (!right)
            tegula_sim_cluster_wait(t, 23);
        },
        FaultKind::Mbarrier, {"st.async at site 24", "mbarrier"});
}

TEST(SendAsync, TheInitializationIsFenced) {
  check(Kernel(32, 512).cluster(2),
        [](T t, bool right) {
          openExchange(t, 8, right);
          tegula_sim_cluster_wait(t, 23);
          sendWord(t);
          tegula_sim_mbar_wait(t, 25, smem(t, 256), 0);
        },
        FaultKind::Mbarrier, {"mbarrier", "(site 20), and nothing orders that before"});
}

TEST(SendAsync, BytesAreCounted) {
  check(Kernel(32, 512).cluster(2),
        [](T t, bool right) {
          openExchange(t, right ? 16 : 12, true);
          tegula_sim_cluster_wait(t, 23);
          sendWord(t, 8);
          tegula_sim_mbar_wait(t, 25, smem(t, 256), 0);
        },
        FaultKind::Mbarrier, {"with 4 bytes more than were expected"});
  check(Kernel(32, 512).cluster(2),
        [](T t, bool right) {
          openExchange(t, right ? 8 : 12, true);
          tegula_sim_cluster_wait(t, 23);
          sendWord(t);
          tegula_sim_mbar_wait(t, 25, smem(t, 256), 0);
        },
        FaultKind::Deadlock, {"4 bytes pending"});
}

TEST(SendAsync, AReceiverStaysUntilItsPartsHaveCome) {
  check(Kernel(32, 512).cluster(2),
        [](T t, bool right) {
          openExchange(t, 8, true);
          tegula_sim_cluster_wait(t, 23);
          sendWord(t);
          if (right || ctaRank(t) == 1)
            tegula_sim_mbar_wait(t, 25, smem(t, 256), 0);
        },
        FaultKind::SharedBounds, {"site 24"});
}

TEST(SendAsync, OneCtaHasBoth) {
  expectFault(Kernel(32, 512).cluster(2)([](T t, const void *) {
    openExchange(t, 8, true);
    tegula_sim_cluster_wait(t, 23);
    const int32_t word = 1;
    tegula_sim_st_async(t, 24, tegula_sim_mapa(t, smem(t, 0), 0), &word, 4, tegula_sim_mapa(t, smem(t, 256), 1),
                        tid(t) == 0);
  }),
              FaultKind::BadInstruction, {"site 24", "must be in the CTA of the destination"});
}

std::vector<int32_t> target(64);

TEST(Bulk, StoreNeedsProxyFence) {
  Kernel k(32, 512);
  check(k.buffer(target),
        [](T t, bool right) {
          store(t, uint32_t(tid(t)) * 4, tid(t), 11);
          if (right || tid(t) != 4)
            tegula_sim_fence_proxy_async(t, 12);
          sync(t, 32);
          if (tid(t) == 0) {
            tegula_sim_bulk_store(t, 13, address(target.data()), smem(t, 0), 128, 1);
            tegula_sim_bulk_commit(t, 14);
            tegula_sim_bulk_wait(t, 15, 0, 0);
          }
        },
        FaultKind::MissingProxyFence,
        {"thread 0", "bulk store", "site 13", "thread 4 (warp 0) wrote 0x410 at site 11"});
  for (int32_t i = 0; i < 32; ++i)
    EXPECT_EQ(target[size_t(i)], i);
}

/// One thread stores 128 bytes; what the others do with them needs its wait for the write.
void storeThen(T t, bool waits, bool readsOnly, void (*then)(T)) {
  store(t, uint32_t(tid(t)) * 4, tid(t), 11);
  tegula_sim_fence_proxy_async(t, 12);
  sync(t, 32);
  if (tid(t) == 0) {
    tegula_sim_bulk_store(t, 13, address(target.data()), smem(t, 0), 128, 1);
    tegula_sim_bulk_commit(t, 14);
    if (waits || readsOnly)
      tegula_sim_bulk_wait(t, 15, 0, !waits);
  }
  sync(t, 32);
  then(t);
  sync(t, 32);
  tegula_sim_bulk_wait(t, 18, 0, 0);
}

// docs/hopper.md 1.7: what cp.async of 16 bytes wrote is there for the asynchronous proxy, too, once it is waited for.
TEST(CpAsync, OnlyShortCopiesNeedAProxyFence) {
  Kernel k(32, 512);
  check(k.buffer(source).buffer(target),
        [](T t, bool right) {
          uint32_t bytes = right ? 16 : 4, at = uint32_t(tid(t)) * bytes;
          if (at < 128) {
            tegula_sim_cp_async(t, 11, smem(t, at), address(source.data()) + at, int32_t(bytes), int32_t(bytes), 1);
            tegula_sim_cp_async_commit(t, 12);
            tegula_sim_cp_async_wait(t, 13, 0);
          }
          sync(t, 32);
          if (tid(t) == 0) {
            tegula_sim_bulk_store(t, 14, address(target.data()), smem(t, 0), 128, 1);
            tegula_sim_bulk_commit(t, 15);
            tegula_sim_bulk_wait(t, 16, 0, 0);
          }
        },
        FaultKind::MissingProxyFence, {"thread 0", "bulk store", "site 14"});
}

TEST(Bulk, SourceOverwrittenBeforeTheReadWait) {
  Kernel k(32, 512);
  check(k.buffer(target),
        [](T t, bool right) {
          storeThen(
              t, false, right, +[](T t) { store(t, uint32_t(tid(t)) * 4, 5, 16); });
        },
        FaultKind::AsyncReadOverwritten, {"site 16", "bulk copy at site 13 still reads 0x478"});
}

TEST(Bulk, LeavingBeforeTheStoreHasRead) {
  Kernel k(32, 512);
  check(k.buffer(target),
        [](T t, bool right) {
          if (tid(t) != 0)
            return;
          store<uint64_t>(t, 0, 1), store<uint64_t>(t, 8, 1);
          tegula_sim_fence_proxy_async(t, 12);
          tegula_sim_bulk_store(t, 13, address(target.data()), smem(t, 0), 16, 1);
          tegula_sim_bulk_commit(t, 14);
          if (right)
            tegula_sim_bulk_wait(t, 15, 0, 1);
        },
        FaultKind::MissingWait, {"thread 0", "site 13"});
}

TEST(Mbarrier, Misuse) {
  struct Case {
    void (*kernel)(T, const void *);
    FaultKind kind;
    const char *part;
  };
  const Case cases[] = {
      {[](T t, const void *) { tegula_sim_mbar_arrive(t, 1, smem(t, 0), 1, 1); }, FaultKind::Mbarrier,
       "no mbarrier is initialized at 0x400"},
      {[](T t, const void *) { tegula_sim_mbar_init(t, 1, smem(t, 4), 1); }, FaultKind::Misaligned, "0x404"},
      {[](T t, const void *) { tegula_sim_mbar_init(t, 1, smem(t, 0), 0); }, FaultKind::Mbarrier, "count of 0"},
      {[](T t, const void *) { tegula_sim_mbar_init(t, 1, smem(t, 0), 1 << 20); }, FaultKind::Mbarrier, "1048576"},
      {[](T t, const void *) {
         if (tid(t) == 0)
           tegula_sim_mbar_init(t, 1, smem(t, 0), 1), tegula_sim_mbar_init(t, 2, smem(t, 0), 1);
       },
       FaultKind::Mbarrier, "holds an mbarrier"},
      {[](T t, const void *) {
         if (tid(t) == 0)
           tegula_sim_mbar_init(t, 1, smem(t, 0), 1), load<int64_t>(t, 0, 2);
       },
       FaultKind::Mbarrier, "holds an mbarrier"},
      {[](T t, const void *) {
         if (tid(t) == 0)
           tegula_sim_mbar_init(t, 1, smem(t, 0), 1);
         if (tid(t) == 1)
           tegula_sim_mbar_arrive(t, 2, smem(t, 0), 1, 1);
       },
       FaultKind::Mbarrier, "nothing orders that before"},
      {[](T t, const void *) {
         if (tid(t) == 0)
           tegula_sim_mbar_init(t, 1, smem(t, 0), 2);
         sync(t, 32);
         if (tid(t) < 2)
           tegula_sim_mbar_arrive_expect(t, 2, smem(t, 0), 16, 1);
         if (tid(t) == 2)
           tegula_sim_mbar_arrive(t, 3, smem(t, 0), 1, 1);
       },
       FaultKind::Mbarrier, "0 of 2 arrivals pending (and 32 bytes)"},
      {[](T t, const void *) {
         if (tid(t) == 0)
           tegula_sim_mbar_init(t, 1, smem(t, 0), 2), tegula_sim_mbar_arrive_expect(t, 2, smem(t, 0), 1 << 20, 1);
       },
       FaultKind::Mbarrier, "at most 1048575"},
      {[](T t, const void *) {
         if (tid(t) == 0)
           tegula_sim_mbar_init(t, 1, smem(t, 0), 1);
         sync(t, 32);
         tegula_sim_mbar_wait(t, 2, smem(t, 0), 0);
       },
       FaultKind::Deadlock,
       "threads 0 to 31 at site 2 for parity 0 of the mbarrier at 0x400, whose phase 0 (parity 0) has 1 of 1 arrivals"},
  };
  for (const Case &c : cases)
    expectFault(Kernel(32, 64)(c.kernel), c.kind, {c.part});
  EXPECT_RUNS(Kernel(32, 64)([](T t, const void *) {
    if (tid(t))
      return;
    tegula_sim_mbar_init(t, 1, smem(t, 0), 1);
    tegula_sim_mbar_wait(t, 2, smem(t, 0), 1); // the phase before the first counts as complete
    tegula_sim_mbar_inval(t, 3, smem(t, 0));
    store(t, 0, 5);
  }));
}

TEST(Clusters, DistributedSharedMemory) {
  check(Kernel(32, 256).cluster(4),
        [](T t, bool right) {
          store(t, uint32_t(tid(t)) * 4, ctaRank(t) * 100 + tid(t), 11);
          tegula_sim_cluster_arrive(t, 12, 0);
          if (right)
            tegula_sim_cluster_wait(t, 13);
          int32_t v, peer = (ctaRank(t) + 1) % 4;
          tegula_sim_ld_shared(t, 14, tegula_sim_mapa(t, smem(t, uint32_t(tid(t)) * 4), peer), 4, 1, &v);
          if (v != peer * 100 + tid(t))
            tegula_sim_assert_fail(t, 99);
          if (!right)
            tegula_sim_cluster_wait(t, 13);
          tegula_sim_cluster_arrive(t, 15, 1);
          tegula_sim_cluster_wait(t, 16);
        },
        FaultKind::Uninitialized, {"of CTA 0", "site 14"});
}

TEST(Clusters, AccessToACtaThatEnded) {
  check(Kernel(32, 256).cluster(2),
        [](T t, bool right) {
          store(t, uint32_t(tid(t)) * 4, 1, 11);
          tegula_sim_cluster_arrive(t, 12, 0);
          tegula_sim_cluster_wait(t, 13);
          int32_t v;
          for (int i = 0; i < 40 && ctaRank(t) == 1; ++i)
            tegula_sim_backedge(t, -1);
          if (ctaRank(t) == 1)
            tegula_sim_ld_shared(t, 14, uint32_t(tid(t)) * 4 + sharedBase, 4, 1, &v);
          if (right)
            tegula_sim_cluster_arrive(t, 15, 0), tegula_sim_cluster_wait(t, 16);
        },
        FaultKind::SharedBounds, {"of CTA 1", "site 14", "CTA 0, which has ended"});
}

// Whoever runs first: a CTA has to stay until it knows that the others are done with its shared memory.
TEST(Clusters, LeavesBeforeOthersAreDone) {
  for (int what = 0; what < 3; ++what) {
    static int access;
    access = what;
    check(Kernel(32, 256).cluster(2),
          [](T t, bool right) {
            if (tid(t) == 0) {
              tegula_sim_mbar_init(t, 10, smem(t, 0), 1);
              tegula_sim_fence_mbarrier_init(t, 11);
            }
            store(t, uint32_t(tid(t)) * 4 + 16, 1, 12);
            tegula_sim_cluster_arrive(t, 13, 0);
            tegula_sim_cluster_wait(t, 13);
            uint32_t other = sharedBase | uint32_t(1 - ctaRank(t)) << 24;
            int32_t v = 0;
            if (ctaRank(t) == 1 && tid(t) == 5) {
              if (access == 0)
                tegula_sim_ld_shared(t, 14, other + 16, 4, 1, &v);
              else if (access == 1)
                tegula_sim_st_shared(t, 14, other + 16, 4, 1, &v);
              else
                tegula_sim_mbar_arrive(t, 14, other, 1, 1);
            }
            if (ctaRank(t) == 0) // later, here
              for (int i = 0; i < 100; ++i)
                tegula_sim_backedge(t, -1);
            if (right) {
              tegula_sim_cluster_arrive(t, 15, access == 0);
              tegula_sim_cluster_wait(t, 16);
            }
          },
          FaultKind::SharedBounds, {"of CTA 0", "its CTA ends", "thread 5 (warp 0) of CTA 1", "site 14"});
  }
}

// An mbarrier that was waited for is as good.
TEST(Clusters, WaitsForTheLastArrival) {
  EXPECT_RUNS(Kernel(32, 256).cluster(2)([](T t, const void *) {
    if (tid(t) == 0) {
      tegula_sim_mbar_init(t, 10, smem(t, 0), 1);
      tegula_sim_fence_mbarrier_init(t, 11);
    }
    tegula_sim_cluster_arrive(t, 13, 0);
    tegula_sim_cluster_wait(t, 13);
    if (tid(t) == 0)
      tegula_sim_mbar_arrive(t, 14, sharedBase | uint32_t(1 - ctaRank(t)) << 24, 1, 1);
    if (tid(t) == 7)
      tegula_sim_mbar_wait(t, 15, smem(t, 0), 0);
  }));
}

TEST(Registers, Pool) {
  // 384 threads start with 168 registers: one group gives back what the two others take.
  check(Kernel(384),
        [](T t, bool right) {
          if (tid(t) < 128) {
            for (int i = 0; i < 50; ++i)
              tegula_sim_backedge(t, -1);
            tegula_sim_setmaxnreg(t, 1, right ? 24 : 96, 0);
          } else {
            tegula_sim_setmaxnreg(t, 2, 240, 1);
          }
        },
        FaultKind::Deadlock, {"in setmaxnreg.inc at site 2", "threads 0 to 255 left"});
  check(Kernel(128), [](T t, bool right) { tegula_sim_setmaxnreg(t, 1, right ? 24 : 25, 0); },
        FaultKind::BadInstruction, {"setmaxnreg.dec 25"});
}

TEST(Bulk, WrittenMemoryIsReadBeforeTheWait) {
  Kernel k(32, 512);
  // A wait for the reads of shared memory says nothing about the writes.
  check(k.buffer(target), [](T t, bool right) { storeThen(t, right, true, +[](T t) {
          int32_t x;
          tegula_sim_ld_global(t, 16, address(&target[size_t(tid(t))]), 4, 1, &x);
        }); },
        FaultKind::MissingWait, {"ld.global", "site 16", "bulk store of thread 0 (warp 0) at site 13"});
}

TEST(Bulk, WrittenMemoryIsWrittenAgainBeforeTheWait) {
  Kernel k(32, 512);
  check(k.buffer(target), [](T t, bool right) { storeThen(t, right, false, +[](T t) {
          if (tid(t) == 1) {
            tegula_sim_bulk_store(t, 17, address(target.data() + 4), smem(t, 64), 16, 1);
            tegula_sim_bulk_commit(t, 14);
          }
        }); },
        FaultKind::MissingWait, {"bulk store (16 bytes) at site 17", "bulk store of thread 0 (warp 0) at site 13"});
}

} // namespace
} // namespace tegula::sim
