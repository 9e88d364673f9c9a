// The simulator's facet of Instr at work: small kernels are compiled for the host, loaded, and run by the machine
// model.
#include "../GpuLibrary.h"
#include "GpuModule.h"
#include "runtime/ObjectLoader.h"
#include "sim/Machine.h"
#include <numeric>

namespace tegula::nvidia {
namespace {

using K = GpuModule::Kernel;

/// Runs one CTA of 128 threads, or a cluster of them, on `data`.
sim::Report run(const std::string &where, std::vector<uint32_t> &data, const std::function<void(K &)> &body,
                unsigned clusterCtas = 1) {
  constexpr unsigned threads = 128, sharedBytes = 32768;
  TestArgs args{reinterpret_cast<uint64_t>(data.data()), 40, 2.5f, 3.0};
  GpuModule m(where == "sim" ? NvTarget{90, true, true} : *gpuOfThisMachine());
  m.add("kernel", body);
  if (where != "sim") {
    GpuLibrary library;
    if (library.load(m.text()))
      library.runOnce("kernel", data, &args, sizeof args, threads, clusterCtas, sharedBytes);
    return {};
  }
  runtime::Status status;
  auto code = runtime::LoadedObject::load(m.object(), status);
  EXPECT_TRUE(bool(status)) << status.text;
  if (!code)
    return {};
  sim::Extent extent{args.data, data.size() * 4};
  sim::LaunchConfig c;
  c.entry = reinterpret_cast<TegulaSimEntry>(code->symbol("kernel"));
  c.args = &args;
  c.threads = threads;
  c.clusterCtas = clusterCtas;
  c.sharedBytes = sharedBytes;
  c.buffers = {&extent, 1};
  return sim::launch(c);
}

std::vector<std::string> places() {
  std::vector<std::string> all = {"sim"};
  if (auto gpu = gpuOfThisMachine(); gpu && gpu->sm == 90)
    all.push_back("gpu");
  return all;
}
class InstrRun : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Where, InstrRun, testing::ValuesIn(places()), [](const auto &p) { return p.param; });

V tid(K &k) { return k.i.special(Special::Tid); }
V at(K &k, V index, unsigned bytes = 4) {
  return k.b.CreateInBoundsGEP(k.b.getInt8Ty(), k.data,
                               k.b.CreateZExt(k.b.CreateMul(index, k.i32(bytes)), k.b.getInt64Ty()));
}
V sharedAt(K &k, V index, unsigned bytes = 4) { return k.b.CreateAdd(k.shared, k.b.CreateMul(index, k.i32(bytes))); }

TEST_P(InstrRun, SharedMemoryAndPredicates) {
  std::vector<uint32_t> data(128);
  std::iota(data.begin(), data.end(), 1000);
  sim::Report r = run(GetParam(), data, [](K &k) {
    V t = tid(k), x = k.i.loadGlobal(at(k, t), k.b.getInt32Ty(), k.pred, k.i32(7)); // the first n threads
    k.i.storeShared(sharedAt(k, k.b.CreateSub(k.i32(127), t)), x);
    k.i.barrier();
    k.i.storeGlobal(at(k, t), k.i.loadShared(sharedAt(k, t), k.b.getInt32Ty()), k.pred);
  });
  ASSERT_FALSE(r.fault) << r.fault.text;
  for (uint32_t t = 0; t < 128; ++t)
    EXPECT_EQ(data[t], t >= 40 ? 1000 + t : 127 - t < 40 ? 1000 + 127 - t : 7) << t;
}

TEST(InstrRunSim, MissingBarrierIsARaceAtItsSite) {
  std::vector<uint32_t> data(128);
  sim::Report r = run("sim", data, [](K &k) {
    V t = tid(k);
    k.i.storeShared(sharedAt(k, t), t);
    k.i.setSite(9);
    k.i.storeGlobal(at(k, t), k.i.loadShared(sharedAt(k, k.b.CreateXor(t, k.i32(64))), k.b.getInt32Ty()), nullptr);
  });
  EXPECT_TRUE(r.fault.kind == sim::FaultKind::SharedRace || r.fault.kind == sim::FaultKind::Uninitialized)
      << r.fault.text;
  EXPECT_TRUE(r.fault.site == 9 || r.fault.site == 7);
}

TEST_P(InstrRun, Warps) {
  std::vector<uint32_t> data(128 * 4);
  sim::Report r = run(GetParam(), data, [](K &k) {
    V t = tid(k), base = k.b.CreateMul(t, k.i32(4));
    auto out = [&](int i, V x) { k.i.storeGlobal(at(k, k.b.CreateAdd(base, k.i32(i))), x, nullptr); };
    out(0, k.i.shuffle(ShuffleMode::Bfly, t, k.i32(5)));
    out(1, k.i.ballot(k.pred));
    out(2, k.i.redux(AtomOp::SMax, k.b.CreateXor(t, k.i32(3))));
    out(3, k.b.CreateZExt(k.i.elect(), k.b.getInt32Ty()));
  });
  ASSERT_FALSE(r.fault) << r.fault.text;
  for (uint32_t t = 0; t < 128; ++t) {
    EXPECT_EQ(data[4 * t], t ^ 5);
    EXPECT_EQ(data[4 * t + 1], t < 32 ? 0xffffffffu : t < 64 ? 0xffu : 0);
    EXPECT_EQ(data[4 * t + 2], t | 31);
    EXPECT_EQ(data[4 * t + 3], t % 32 == 0);
  }
}

TEST_P(InstrRun, Atomics) {
  std::vector<uint32_t> data(8);
  sim::Report r = run(GetParam(), data, [](K &k) {
    auto atom = [&](int i, AtomOp op, AtomType type, llvm::ArrayRef<V> x) {
      k.i.atomic(false, at(k, k.i32(i)), op, type, x, nullptr, MemSem::Relaxed, Scope::Gpu, k.pred, false);
    };
    V t = tid(k);
    atom(0, AtomOp::Add, AtomType::I32, t);
    atom(1, AtomOp::UMax, AtomType::I32, t);
    V one = llvm::ConstantFP::get(k.b.getFloatTy(), 0.5);
    atom(4, AtomOp::FAdd, AtomType::F32, {one, one, one, one});
  });
  ASSERT_FALSE(r.fault) << r.fault.text;
  EXPECT_EQ(data[0], 39u * 40 / 2);
  EXPECT_EQ(data[1], 39u);
  for (int i = 4; i < 8; ++i)
    EXPECT_EQ(data[i], 0x41A00000u) << "20.0";
}

// d[m][n] = sum over k of a[m][k] b[n][k], bf16, both operands in shared memory without swizzle.
TEST_P(InstrRun, Wgmma) {
  auto bf16 = [](int v) {
    float f = float(v);
    uint32_t u;
    memcpy(&u, &f, 4);
    return u >> 16;
  };
  auto a = [](int m, int k) { return (m * 3 + k * 5) % 7 - 3; };
  auto b = [](int n, int k) { return (n * 2 + k) % 5 - 2; };
  // Core matrices of 8 rows by 16 bytes; SBO 256 to the next 8 rows, LBO 128 to the next 8 columns of k.
  std::vector<uint32_t> data(64 * 8 + 8 * 8 + 64 * 8);
  auto place = [&](size_t offset, int row, int k, uint32_t v) {
    size_t byte = offset + size_t(row % 8) * 16 + size_t(row / 8) * 256 + size_t(k / 8) * 128 + size_t(k % 8) * 2;
    data[byte / 4] |= v << (byte % 4 * 8);
  };
  for (int k = 0; k < 16; ++k) {
    for (int m = 0; m < 64; ++m)
      place(0, m, k, bf16(a(m, k)));
    for (int n = 0; n < 8; ++n)
      place(2048, n, k, bf16(b(n, k)));
  }
  sim::Report r = run(GetParam(), data, [](K &k) {
    V t = tid(k);
    auto *four = llvm::FixedVectorType::get(k.b.getInt32Ty(), 4);
    k.i.storeShared(sharedAt(k, t, 16), k.i.loadGlobal(at(k, t, 16), four, nullptr, nullptr));
    V few = k.b.CreateICmpULT(t, k.i32(16)), rest = k.b.CreateAdd(t, k.i32(128));
    k.i.storeShared(sharedAt(k, rest, 16), k.i.loadGlobal(at(k, rest, 16), four, few, nullptr), few);
    k.i.fenceProxyAsync();
    k.i.barrier();
    auto descriptor = [&](int offset) {
      V start = k.b.CreateLShr(k.b.CreateAnd(k.b.CreateAdd(k.shared, k.i32(offset)), k.i32(0x3ffff)), 4);
      return k.b.CreateOr(k.b.CreateZExt(start, k.b.getInt64Ty()), uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32);
    };
    Regs acc = k.i.wgmmaFence(Regs(4, llvm::ConstantFP::get(k.b.getFloatTy(), 0)));
    Instr::Wgmma w{8, MmaType::F32, MmaType::BF16, MmaType::BF16};
    acc = k.i.wgmma(w, {}, descriptor(0), descriptor(2048), k.b.getFalse(), acc);
    acc = k.i.wgmma(w, {}, descriptor(0), descriptor(2048), k.b.getTrue(), acc);
    k.i.wgmmaCommit();
    acc = k.i.wgmmaWait(0, acc);
    V lane = k.b.CreateAnd(t, 31), warp = k.b.CreateLShr(t, 5);
    V row = k.b.CreateAdd(k.b.CreateMul(warp, k.i32(16)), k.b.CreateLShr(lane, 2)),
      column = k.b.CreateMul(k.b.CreateAnd(lane, 3), k.i32(2));
    for (int i = 0; i < 4; ++i) {
      V index = k.b.CreateAdd(k.b.CreateMul(k.b.CreateAdd(row, k.i32(i / 2 * 8)), k.i32(8)),
                              k.b.CreateAdd(column, k.i32(i % 2)));
      k.i.storeGlobal(at(k, k.b.CreateAdd(index, k.i32(64 * 8 + 8 * 8))), acc[i], nullptr);
    }
  });
  ASSERT_FALSE(r.fault) << r.fault.text;
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < 8; ++n) {
      int want = 0;
      for (int k = 0; k < 16; ++k)
        want += 2 * a(m, k) * b(n, k);
      float got;
      memcpy(&got, &data[size_t(64 * 8 + 8 * 8 + m * 8 + n)], 4);
      ASSERT_EQ(got, float(want)) << m << ", " << n;
    }
}

TEST_P(InstrRun, BulkCopyAndMbarrier) {
  std::vector<uint32_t> data(256);
  std::iota(data.begin(), data.end(), 0);
  sim::Report r = run(GetParam(), data, [](K &k) {
    V t = tid(k), first = k.b.CreateICmpEQ(t, k.i32(0)), bar = k.b.CreateAdd(k.shared, k.i32(4096));
    llvm::Function *f = k.b.GetInsertBlock()->getParent();
    auto *init = llvm::BasicBlock::Create(f->getContext(), "init", f),
         *go = llvm::BasicBlock::Create(f->getContext(), "go", f);
    k.b.CreateCondBr(first, init, go);
    k.b.SetInsertPoint(init);
    k.i.mbarInit({{bar, 1}});
    k.b.CreateBr(go);
    k.b.SetInsertPoint(go);
    k.i.barrier();
    k.i.mbarArriveExpect(bar, k.i32(512), first);
    k.i.bulkLoad(k.shared, k.data, k.i32(512), bar, first);
    k.i.mbarWait(bar, k.i32(0));
    k.i.storeGlobal(at(k, k.b.CreateAdd(t, k.i32(128))),
                    k.i.loadShared(sharedAt(k, k.b.CreateXor(t, k.i32(1))), k.b.getInt32Ty()), nullptr);
  });
  ASSERT_FALSE(r.fault) << r.fault.text;
  for (uint32_t t = 0; t < 128; ++t)
    EXPECT_EQ(data[128 + t], t ^ 1);
}

TEST_P(InstrRun, ClusterReadsItsNeighbour) {
  std::vector<uint32_t> data(256);
  sim::Report r = run(
      GetParam(), data,
      [](K &k) {
        V t = tid(k), rank = k.i.special(Special::ClusterRank),
          mine = k.b.CreateAdd(k.b.CreateMul(rank, k.i32(128)), t);
        k.i.storeShared(sharedAt(k, t), mine);
        k.i.clusterArrive(false);
        k.i.clusterWait();
        V other = k.i.mapShared(sharedAt(k, t), k.b.CreateXor(rank, k.i32(1)));
        k.i.storeGlobal(at(k, mine), k.i.loadShared(other, k.b.getInt32Ty(), nullptr, nullptr, true), nullptr);
        k.i.clusterArrive(true);
        k.i.clusterWait();
      },
      2);
  ASSERT_FALSE(r.fault) << r.fault.text;
  for (uint32_t i = 0; i < 256; ++i)
    EXPECT_EQ(data[i], i ^ 128);
}

TEST_P(InstrRun, ClusterSends) {
  std::vector<uint32_t> data(256);
  sim::Report r = run(
      GetParam(), data,
      [](K &k) {
        V t = tid(k), rank = k.i.special(Special::ClusterRank),
          mine = k.b.CreateAdd(k.b.CreateMul(rank, k.i32(128)), t);
        V bar = sharedAt(k, k.i32(128)), first = k.b.CreateICmpEQ(t, k.i32(0)), other = k.b.CreateXor(rank, k.i32(1));
        llvm::Function *f = k.b.GetInsertBlock()->getParent();
        auto *init = llvm::BasicBlock::Create(f->getContext(), "init", f),
             *go = llvm::BasicBlock::Create(f->getContext(), "go", f);
        k.b.CreateCondBr(first, init, go);
        k.b.SetInsertPoint(init);
        k.i.mbarInit({{bar, 1}});
        k.b.CreateBr(go);
        k.b.SetInsertPoint(go);
        k.i.mbarArriveExpect(bar, k.i32(512), first);
        k.i.clusterArrive(true);
        k.i.clusterWait();
        k.i.sendShared(k.i.mapShared(sharedAt(k, t), other), mine, k.i.mapShared(bar, other));
        k.i.mbarWait(bar, k.i32(0));
        k.i.storeGlobal(at(k, mine), k.i.loadShared(sharedAt(k, t), k.b.getInt32Ty()), nullptr);
      },
      2);
  ASSERT_FALSE(r.fault) << r.fault.text;
  for (uint32_t i = 0; i < 256; ++i)
    EXPECT_EQ(data[i], i ^ 128);
}

TEST(InstrRunSim, FailedAssert) {
  std::vector<uint32_t> data(1);
  sim::Report r = run("sim", data, [](K &k) { k.i.assertFail(k.data, k.i32(7)); });
  EXPECT_EQ(r.fault.kind, sim::FaultKind::Assert);
  EXPECT_EQ(r.fault.site, 7);
}

} // namespace
} // namespace tegula::nvidia
