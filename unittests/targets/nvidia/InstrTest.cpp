// Every function of Instr: the PTX it prints for each GPU that has it, which must assemble, and the call it makes for
// the simulator.
#include "GpuModule.h"

namespace tegula::nvidia {
namespace {

using K = GpuModule::Kernel;

struct Case {
  std::string name;
  unsigned sm;                       // first GPU that has it
  std::vector<std::string> ptx, sim; // texts that must occur
  std::function<void(K &)> body;
  KernelBounds bounds = {};
};

llvm::Type *vec(llvm::Type *t, unsigned n) { return llvm::FixedVectorType::get(t, n); }

void memoryCases(std::vector<Case> &c) {
  const char *ld = "call void @tegula_sim_ld_global(ptr %0, i32 7, i64 ",
             *st = "call void @tegula_sim_st_global(ptr %0, i32 7, i64 ";
  c.push_back({"loads",
               80,
               {"ld.global.v4.u32", "ld.global.v2.u64", "ld.global.u32", "ld.global.u16", "ld.global.u8"},
               {ld, ", i32 16, i32 1, ptr", ", i32 1, i32 1, ptr"},
               [](K &k) {
                 llvm::Type *i8 = k.b.getInt8Ty(), *i16 = k.b.getInt16Ty(), *f = k.b.getFloatTy();
                 for (llvm::Type *t : {vec(f, 4), vec(i16, 8), vec(i8, 16), vec(k.b.getDoubleTy(), 2),
                                       vec(k.b.getInt64Ty(), 2), vec(i16, 4), vec(i16, 2), vec(i8, 4), vec(i8, 2), f,
                                       i16, i8, static_cast<llvm::Type *>(k.b.getPtrTy())})
                   k.use(k.i.loadGlobal(k.data, t, nullptr, nullptr));
               }});
  c.push_back({"predicated_loads",
               80,
               {"@%p", "ld.global.v4.b32 {", "ld.global.v2.b64 {", "ld.global.b16 %rs", "ld.global.b8 %rs",
                "ld.global.b64 %rd"},
               {ld, "store <8 x i16> "},
               [](K &k) {
                 llvm::Type *i8 = k.b.getInt8Ty(), *i16 = k.b.getInt16Ty(), *f = k.b.getFloatTy();
                 for (llvm::Type *t : {vec(f, 4), vec(i16, 8), vec(i8, 16), vec(k.b.getDoubleTy(), 2), vec(i16, 2),
                                       vec(i8, 2), f, i16, i8, static_cast<llvm::Type *>(k.b.getInt64Ty())})
                   k.use(k.i.loadGlobal(k.data, t, k.pred, llvm::Constant::getNullValue(t)));
                 k.use(k.i.loadGlobal(k.data, f, k.pred, k.x));
                 k.use(k.i.loadGlobal(k.data, f, k.pred, nullptr));
               }});
  c.push_back({"load_hints",
               80,
               {"ld.global.cg.b32", "ld.global.cs.nc.b32", "ld.global.nc.L1::evict_last.b32",
                "ld.global.L1::evict_first.v4.b32", "ld.volatile.global.u32", "ld.volatile.global.b32",
                "ld.global.nc.v2.u32", "ld.global.cv.b32"},
               {ld},
               [](K &k) {
                 llvm::Type *t = k.b.getInt32Ty();
                 auto load = [&](llvm::Type *type, V pred, AccessHints h) {
                   k.use(k.i.loadGlobal(k.data, type, pred, nullptr, h));
                 };
                 load(t, nullptr, {.cache = Cache::Cg});
                 load(t, k.pred, {.cache = Cache::Cs, .readOnly = true});
                 load(t, k.pred, {.evict = Evict::Last, .readOnly = true});
                 load(vec(t, 4), k.pred, {.evict = Evict::First});
                 load(t, nullptr, {.isVolatile = true});
                 load(t, k.pred, {.isVolatile = true});
                 load(vec(t, 2), nullptr, {.readOnly = true});
                 load(t, k.pred, {.cache = Cache::Cv});
               }});
  c.push_back({"stores",
               80,
               {"st.global.v4.u32", "st.global.v4.b32 [", "@%p", "st.global.cs.b32", "st.global.L1::evict_first.v2.b64",
                "st.global.wt.b16", "st.volatile.global.u32", "st.global.b8"},
               {st, "i32 8, i32 %"},
               [](K &k) {
                 llvm::Type *i32 = k.b.getInt32Ty(), *i16 = k.b.getInt16Ty();
                 V four = llvm::ConstantInt::get(vec(i32, 4), 3),
                   eight = k.i.loadGlobal(k.data, vec(i16, 8), nullptr, nullptr);
                 k.i.storeGlobal(k.data, four, nullptr);
                 k.i.storeGlobal(k.data, eight, k.pred);
                 k.i.storeGlobal(k.data, four, k.pred);
                 k.i.storeGlobal(k.data, k.x, k.pred, {.cache = Cache::Cs});
                 k.i.storeGlobal(k.data, llvm::ConstantFP::get(vec(k.b.getDoubleTy(), 2), 1.5), nullptr,
                                 {.evict = Evict::First});
                 k.i.storeGlobal(k.data, k.halves(1)[0], k.pred, {.cache = Cache::Wt});
                 k.i.storeGlobal(k.data, k.n, nullptr, {.isVolatile = true});
                 k.i.storeGlobal(k.data, k.y, k.pred);
                 k.i.storeGlobal(k.data, k.b.CreateTrunc(k.n, k.b.getInt8Ty()), k.pred);
               }});
  c.push_back(
      {"shared",
       80,
       {"ld.shared.v4.b32 {", "st.shared.v4.b32 [", "st.shared.b8 [", "@%p", "ld.shared.b64 %rd", "ld.shared.b32 %"},
       {"call void @tegula_sim_ld_shared(ptr %0, i32 7, i32 %", "call void @tegula_sim_st_shared(ptr %0, i32 7, i32 %"},
       [](K &k) {
         llvm::Type *f = k.b.getFloatTy();
         k.use(k.i.loadShared(k.shared, vec(k.b.getInt16Ty(), 8)));
         V x = k.i.loadShared(k.shared, vec(f, 4), k.pred, llvm::ConstantFP::get(vec(f, 4), 2));
         k.i.storeShared(k.shared, x);
         k.i.storeShared(k.shared, k.b.CreateTrunc(k.n, k.b.getInt8Ty()), k.pred);
         k.use(k.i.loadShared(k.shared, k.b.getDoubleTy()));
         k.use(k.i.loadShared(k.shared, f));
       }});
  c.push_back({"cluster_shared",
               90,
               {"mapa.shared::cluster.u32", "ld.shared::cluster.v2.b32", "st.shared::cluster.b32"},
               {"call i32 @tegula_sim_mapa(ptr %0, i32 %", "tegula_sim_ld_shared"},
               [](K &k) {
                 V at = k.i.mapShared(k.shared, k.n);
                 k.use(k.i.loadShared(at, vec(k.b.getFloatTy(), 2), nullptr, nullptr, true));
                 k.i.storeShared(at, k.n, k.pred, true);
               }});
}

const char *atomText(AtomOp op) {
  static constexpr const char *names[] = {".add.", ".add.", ".min.s", ".max.s", ".min.u", ".max.u",
                                          ".and.b", ".or.b", ".xor.b", ".exch.b", ".cas.b"};
  return names[static_cast<size_t>(op)];
}

/// Every combination that hasAtomic() allows on this GPU.
void atomicCases(std::vector<Case> &c) {
  for (unsigned op = 0; op <= static_cast<unsigned>(AtomOp::Cas); ++op)
    c.push_back(
        {"atomic" + std::to_string(op),
         80,
         {atomText(AtomOp(op)), ".shared",
          AtomOp(op) == AtomOp::Cas ? "atom.global.acq_rel." : "atom.global.gpu.acq_rel."},
         {"call void @tegula_sim_atom(ptr %0, i32 7, i32 1, i64 %", "ptr null)"},
         [op](K &k) {
           for (AtomType type : {AtomType::I32, AtomType::I64, AtomType::F16, AtomType::BF16, AtomType::F32,
                                 AtomType::F64, AtomType::I16})
             for (unsigned count : {1u, 2u, 4u, 8u})
               for (bool shared : {false, true}) {
                 if (!Instr::hasAtomic(k.i.target, shared, AtomOp(op), type, count))
                   continue;
                 Regs x = type == AtomType::F32   ? k.floats(count)
                          : type == AtomType::F64 ? k.doubles(count)
                          : type == AtomType::I32 ? k.ints(count)
                          : type == AtomType::I64 ? Regs{k.b.CreateSExt(k.n, k.b.getInt64Ty())}
                                                  : k.halves(count);
                 V at = shared ? k.shared : k.data, compare = AtomOp(op) == AtomOp::Cas ? x[0] : nullptr;
                 k.use(k.i.atomic(shared, at, AtomOp(op), type, x, compare, MemSem::AcqRel, Scope::Gpu, nullptr, true));
                 k.i.atomic(shared, at, AtomOp(op), type, x, compare, MemSem::Relaxed, Scope::Cta, k.pred, false);
               }
         }});
  c.push_back({"plain_atomics",
               80,
               {"ld.acquire.gpu.global.b8 %rs", "ld.relaxed.sys.global.b16 %rs", "ld.acquire.cta.global.b32 %r",
                "ld.relaxed.gpu.global.b64 %rd", "st.release.gpu.global.b8 [%rd", "st.relaxed.sys.global.b16 [%rd",
                "st.release.cta.global.b32 [%rd", "st.relaxed.gpu.global.b64 [%rd"},
               {"i32 7, i32 1, i32 11, i32 1, i32 2", "i32 1, i32 1, i32 12, i32 0, i32 2"},
               [](K &k) {
                 struct Row {
                   AtomType type;
                   llvm::Type *t;
                   bool ordered;
                   Scope scope;
                 };
                 const Row rows[] = {{AtomType::I8, k.b.getInt8Ty(), true, Scope::Gpu},
                                     {AtomType::I16, k.b.getInt16Ty(), false, Scope::Sys},
                                     {AtomType::I32, k.b.getInt32Ty(), true, Scope::Cta},
                                     {AtomType::I64, k.b.getInt64Ty(), false, Scope::Gpu}};
                 for (const Row &r : rows) {
                   V any = llvm::UndefValue::get(r.t);
                   ASSERT_TRUE(Instr::hasAtomic(k.i.target, false, AtomOp::Load, r.type, 1));
                   ASSERT_FALSE(Instr::hasAtomic(k.i.target, true, AtomOp::Store, r.type, 1));
                   V x = k.i.atomic(false, k.data, AtomOp::Load, r.type, {any}, nullptr,
                                    r.ordered ? MemSem::Acquire : MemSem::Relaxed, r.scope, k.pred, true)[0];
                   k.i.atomic(false, k.data, AtomOp::Store, r.type, {x}, nullptr,
                              r.ordered ? MemSem::Release : MemSem::Relaxed, r.scope, nullptr, false);
                 }
               }});
  c.push_back({"vector_atomics",
               90,
               {"red.relaxed.gpu.global.add.v4.f32 [", "red.relaxed.sys.global.add.noftz.v2.f16x2 [",
                "red.release.gpu.global.add.noftz.v4.bf16x2 [", "red.relaxed.gpu.global.add.noftz.bf16x2 [",
                "atom.relaxed.gpu.global.add.v2.f32 {", "atom.global.cluster.relaxed.add.noftz.bf16 %rs"},
               {"i32 4, i32 4, i32 1, i32 0, i32 2, i32 1, ptr"},
               [](K &k) {
                 k.i.atomic(false, k.data, AtomOp::FAdd, AtomType::F32, k.floats(4), nullptr, MemSem::Relaxed,
                            Scope::Gpu, nullptr, false);
                 k.i.atomic(false, k.data, AtomOp::FAdd, AtomType::F16, k.halves(4), nullptr, MemSem::Relaxed,
                            Scope::Sys, nullptr, false);
                 k.i.atomic(false, k.data, AtomOp::FAdd, AtomType::BF16, k.halves(8), nullptr, MemSem::Release,
                            Scope::Gpu, k.pred, false);
                 k.i.atomic(false, k.data, AtomOp::FAdd, AtomType::BF16, k.halves(2), nullptr, MemSem::Relaxed,
                            Scope::Gpu, k.pred, false);
                 k.use(k.i.atomic(false, k.data, AtomOp::FAdd, AtomType::F32, k.floats(2), nullptr, MemSem::Relaxed,
                                  Scope::Gpu, nullptr, true));
                 k.use(k.i.atomic(false, k.data, AtomOp::FAdd, AtomType::BF16, k.halves(1), nullptr, MemSem::Relaxed,
                                  Scope::Cluster, nullptr, true));
               }});
}

void warpCases(std::vector<Case> &c) {
  c.push_back({"specials",
               80,
               {"%tid.x", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"},
               {"call i32 @tegula_sim_sreg(ptr %0, i32 6)"},
               [](K &k) {
                 for (unsigned s = 0; s <= static_cast<unsigned>(Special::GridZ); ++s)
                   k.use(k.i.special(Special(s)));
               }});
  c.push_back({"cluster_specials",
               90,
               {"%cluster_ctarank", "%cluster_nctarank", "%clusterid.x", "%nclusterid.x"},
               {"call i32 @tegula_sim_sreg(ptr %0, i32 10)"},
               [](K &k) {
                 for (unsigned s = static_cast<unsigned>(Special::ClusterRank);
                      s <= static_cast<unsigned>(Special::ClustersX); ++s)
                   k.use(k.i.special(Special(s)));
               }});
  c.push_back(
      {"shuffles",
       80,
       {"shfl.sync.idx.b32", "shfl.sync.bfly.b32", "shfl.sync.up.b32", "shfl.sync.down.b32", "vote.sync.ballot.b32"},
       {"call i32 @tegula_sim_shfl(ptr %0, i32 7, i32 3, i32 -1, i32 %",
        "call i32 @tegula_sim_ballot(ptr %0, i32 7, i32 -1, i32 %"},
       [](K &k) {
         for (unsigned m = 0; m < 4; ++m)
           k.use(k.i.shuffle(ShuffleMode(m), m % 2 ? k.x : k.n, m == 2 ? k.n : k.i32(1)));
         k.use(k.i.ballot(k.pred));
       }});
  c.push_back(
      {"elect", 80, {}, {"call i32 @tegula_sim_elect(ptr %0, i32 7, i32 -1)"}, [](K &k) { k.use(k.i.elect()); }});
  c.push_back({"elect_sync", 90, {"elect.sync _|%p"}, {}, [](K &k) { k.use(k.i.elect()); }});
  c.push_back({"redux",
               80,
               {"redux.sync.add.s32", "redux.sync.min.s32", "redux.sync.max.u32", "redux.sync.xor.b32"},
               {"tegula_sim_shfl"},
               [](K &k) {
                 for (AtomOp op : {AtomOp::Add, AtomOp::SMin, AtomOp::SMax, AtomOp::UMin, AtomOp::UMax, AtomOp::And,
                                   AtomOp::Or, AtomOp::Xor})
                   k.use(k.i.redux(op, k.n));
               }});
  c.push_back(
      {"barriers",
       80,
       {"bar.sync \t0;", "bar.sync 3, 64;", "bar.arrive 4, 96;", "bar.warp.sync"},
       {"@tegula_sim_bar_sync(ptr %0, i32 7, i32 0, i32 0)", "@tegula_sim_bar_sync(ptr %0, i32 7, i32 3, i32 64)",
        "@tegula_sim_bar_arrive(ptr %0, i32 7, i32 4, i32 96)", "@tegula_sim_syncwarp(ptr %0, i32 7, i32 -1)"},
       [](K &k) {
         k.i.barrier();
         k.i.namedBarrier(3, 64);
         k.i.namedArrive(4, 96);
         k.i.syncWarp();
       }});
  c.push_back({"cluster_barriers",
               90,
               {"barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;",
                "barrier.cluster.wait.aligned;", ".maxclusterrank 2"},
               {"@tegula_sim_cluster_arrive(ptr %0, i32 7, i32 1)", "@tegula_sim_cluster_wait(ptr %0, i32 7)"},
               [](K &k) {
                 for (bool relaxed : {false, true}) {
                   k.i.clusterArrive(relaxed);
                   k.i.clusterWait();
                 }
               },
               {.clusterCtas = 2}});
  c.push_back({"sends",
               90,
               {"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [",
                "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [", "bytes.v2.b64 ["},
               {"@tegula_sim_st_async(ptr %0, i32 7,", "i32 16, i32"},
               [](K &k) {
                 V to = k.i.mapShared(k.shared, k.i32(1)),
                   bar = k.i.mapShared(k.b.CreateAdd(k.shared, k.i32(64)), k.i32(1)), wide = k.b.getInt64(5);
                 k.i.sendShared(to, k.n, bar, k.pred);
                 k.i.sendShared(to, {k.n, k.n, k.n, k.n}, bar);
                 k.i.sendShared(to, {wide, wide}, bar);
               },
               {.clusterCtas = 2}});
  c.push_back({"fences",
               80,
               {"fence.acq_rel.cta;", "fence.acq_rel.gpu;", "fence.acq_rel.sys;"},
               {"@tegula_sim_membar(ptr %0, i32 7, i32 3)"},
               [](K &k) {
                 for (Scope s : {Scope::Cta, Scope::Gpu, Scope::Sys})
                   k.i.memoryFence(s);
               }});
  c.push_back({"async_fences",
               90,
               {"fence.proxy.async.shared::cta;", "fence.proxy.async;", "fence.mbarrier_init.release.cluster;",
                "fence.acq_rel.cluster;"},
               {"@tegula_sim_fence_proxy_async(ptr %0, i32 7)", "@tegula_sim_fence_mbarrier_init(ptr %0, i32 7)"},
               [](K &k) {
                 k.i.fenceProxyAsync();
                 k.i.fenceProxyAsync(true);
                 k.i.mbarInit({{k.shared, 5}});
                 k.i.memoryFence(Scope::Cluster);
               }});
}

void matrixCases(std::vector<Case> &c) {
  c.push_back({"ldmatrix",
               80,
               {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16"},
               {"call void @tegula_sim_ldmatrix(ptr %0, i32 7, i32 %", ", i32 4, i32 1, ptr %"},
               [](K &k) {
                 for (unsigned n : {1u, 2u, 4u})
                   for (bool trans : {false, true})
                     k.use(k.i.ldmatrix(k.shared, n, trans));
               }});
  c.push_back({"stmatrix",
               90,
               {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 ["},
               {"call void @tegula_sim_stmatrix(ptr %0, i32 7, i32 %", ", i32 4, i32 1, ptr %"},
               [](K &k) {
                 for (unsigned n : {1u, 2u, 4u})
                   for (bool trans : {false, true})
                     k.i.stmatrix(k.shared, k.ints(n), trans);
               }});
  c.push_back(
      {"mma",
       80,
       {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {", "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {",
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {"},
       {"call void @tegula_sim_mma(ptr %0, i32 7, i32 16, i32 8, i32 0, i32 0, ptr %"},
       [](K &k) {
         struct Row {
           unsigned k;
           MmaType d, a, b;
           unsigned as, bs;
         };
         for (Row r : {Row{16, MmaType::F32, MmaType::F16, MmaType::F16, 4, 2},
                       {16, MmaType::F32, MmaType::BF16, MmaType::BF16, 4, 2},
                       {8, MmaType::F32, MmaType::BF16, MmaType::BF16, 2, 1},
                       {8, MmaType::F32, MmaType::TF32, MmaType::TF32, 4, 2},
                       {4, MmaType::F32, MmaType::TF32, MmaType::TF32, 2, 1},
                       {32, MmaType::S32, MmaType::S8, MmaType::S8, 4, 2},
                       {16, MmaType::S32, MmaType::U8, MmaType::S8, 2, 1},
                       {16, MmaType::F16, MmaType::F16, MmaType::F16, 4, 2}})
           k.use(k.i.mma(r.k, r.d, r.a, r.b, k.ints(r.as), k.ints(r.bs),
                         r.d == MmaType::F32 ? k.floats(4) : k.ints(r.d == MmaType::F16 ? 2 : 4)));
         k.use(k.i.mma(4, MmaType::F64, MmaType::F64, MmaType::F64, k.doubles(1), k.doubles(1), k.doubles(2)));
       }});
  c.push_back({"mma_fp8",
               89,
               {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {"},
               {"i32 32, i32 8, i32 3, i32 4, ptr"},
               [](K &k) {
                 for (MmaType a : {MmaType::E4M3, MmaType::E5M2})
                   for (MmaType b : {MmaType::E4M3, MmaType::E5M2})
                     k.use(k.i.mma(32, MmaType::F32, a, b, k.ints(4), k.ints(2), k.floats(4)));
               }});
}

/// Two steps on one accumulator, which the assembler must not have to serialize.
Case wgmmaCase(std::string name, Instr::Wgmma w, const char *ptx, bool fromRegisters) {
  std::string shape = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(w.n) + "k";
  name += "_n" + std::to_string(w.n);
  auto body = [=](K &k) {
    unsigned count = w.d == MmaType::F16 ? w.n / 4 : w.n / 2;
    Regs a = fromRegisters ? k.ints(4) : Regs{};
    Regs live(count, llvm::Constant::getNullValue(w.d == MmaType::F32 ? k.b.getFloatTy() : k.b.getInt32Ty()));
    live.append(a.begin(), a.end());
    live = k.i.wgmmaFence(live);
    if (fromRegisters)
      a.assign(live.end() - 4, live.end());
    Regs acc(live.begin(), live.begin() + count);
    V desc = k.b.CreateSExt(k.n, k.b.getInt64Ty()), aDesc = fromRegisters ? nullptr : desc;
    acc = k.i.wgmma(w, a, aDesc, desc, k.b.getFalse(), acc);
    k.i.wgmmaCommit();
    acc = k.i.wgmma(w, a, aDesc, desc, k.b.CreateICmpSGT(k.n, k.i32(5)), acc);
    k.i.wgmmaCommit();
    k.i.wgmmaWait(1, {});
    acc = k.i.wgmmaWait(0, acc);
    k.use(acc);
  };
  return {name,
          91,
          {ptx, shape, "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;",
           "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"},
          {"call void @tegula_sim_wgmma(ptr %0, i32 7, i32 " + std::to_string(w.n) + ", i32 ",
           "call void @tegula_sim_wgmma_wait(ptr %0, i32 7, i32 0, ptr %", "@tegula_sim_wgmma_fence(ptr %0, i32 7)"},
          body};
}

/// All pairs of types, every n.
void wgmmaCases(std::vector<Case> &c) {
  using T = MmaType;
  struct Row {
    const char *name, *ptx;
    T d, a, b;
  };
  static constexpr Row rows[] = {{"wgmma_f16", "k16.f32.f16.f16", T::F32, T::F16, T::F16},
                                 {"wgmma_bf16", "k16.f32.bf16.bf16", T::F32, T::BF16, T::BF16},
                                 {"wgmma_f16_f16", "k16.f16.f16.f16", T::F16, T::F16, T::F16},
                                 {"wgmma_tf32", "k8.f32.tf32.tf32", T::F32, T::TF32, T::TF32},
                                 {"wgmma_e4e4", "k32.f32.e4m3.e4m3", T::F32, T::E4M3, T::E4M3},
                                 {"wgmma_e4e5", "k32.f32.e4m3.e5m2", T::F32, T::E4M3, T::E5M2},
                                 {"wgmma_e5e4", "k32.f32.e5m2.e4m3", T::F32, T::E5M2, T::E4M3},
                                 {"wgmma_e5e5", "k32.f32.e5m2.e5m2", T::F32, T::E5M2, T::E5M2},
                                 {"wgmma_e4e4_f16", "k32.f16.e4m3.e4m3", T::F16, T::E4M3, T::E4M3},
                                 {"wgmma_s8s8", "k32.s32.s8.s8", T::S32, T::S8, T::S8},
                                 {"wgmma_u8u8", "k32.s32.u8.u8", T::S32, T::U8, T::U8},
                                 {"wgmma_s8u8", "k32.s32.s8.u8", T::S32, T::S8, T::U8},
                                 {"wgmma_u8s8", "k32.s32.u8.s8", T::S32, T::U8, T::S8}};
  for (const Row &r : rows) {
    bool isInt = r.d == T::S32;
    for (unsigned n = 8; n <= 256; n += 8) {
      bool few = n == 8 || n == 24 || n == 64 || n == 128 || n == 256;
      if (r.a != T::BF16 && !few)
        continue;
      for (bool fromRegisters : {false, true})
        if (!fromRegisters || few)
          c.push_back(wgmmaCase(std::string(r.name) + (fromRegisters ? "_rs" : "_ss"),
                                {n, r.d, r.a, r.b, false, false, !isInt && n == 24, !isInt && n == 8}, r.ptx,
                                fromRegisters));
    }
  }
  for (bool a : {false, true})
    for (bool b : {false, true})
      c.push_back(wgmmaCase(std::string("wgmma_trans") + (a ? "A" : "") + (b ? "B" : ""),
                            {64, T::F32, T::BF16, T::BF16, a, b},
                            a   ? (b ? ", 1, 1, 1, 1;" : ", 1, 1, 1, 0;")
                            : b ? ", 1, 1, 0, 1;"
                                : ", 1, 1, 0, 0;",
                            false));
}

void asyncCases(std::vector<Case> &c) {
  c.push_back(
      {"cp_async",
       80,
       {"cp.async.cg.shared.global [", "], 16;", "cp.async.ca.shared.global [", "], 4, %r", "], 8;",
        "cp.async.commit_group;", "cp.async.wait_group 2;", "cp.async.mbarrier.arrive.noinc.shared.b64 ["},
       {"call void @tegula_sim_cp_async(ptr %0, i32 7, i32 %", "@tegula_sim_cp_async_commit(ptr %0, i32 7)",
        "@tegula_sim_cp_async_wait(ptr %0, i32 7, i32 2)", "@tegula_sim_cp_async_mbar_arrive(ptr %0, i32 7, i32 %"},
       [](K &k) {
         k.i.cpAsync(k.shared, k.data, 16, nullptr, nullptr);
         k.i.cpAsync(k.shared, k.data, 16, k.n, k.pred, {.cache = Cache::Ca});
         k.i.cpAsync(k.shared, k.data, 8, nullptr, k.pred);
         k.i.cpAsync(k.shared, k.data, 4, k.n, k.pred);
         k.i.cpAsyncCommit();
         k.i.cpAsyncWait(2);
         k.i.cpAsyncMbarArrive(k.shared);
       }});
  c.push_back({"mbarrier",
               80,
               {"mbarrier.init.shared.b64 [", "], 5;", "mbarrier.arrive.shared.b64 ", "_wait.parity.shared.b64 done, [",
                "mbarrier.inval.shared.b64 ["},
               {"@tegula_sim_mbar_init(ptr %0, i32 7, i32 %", "@tegula_sim_mbar_arrive(ptr %0, i32 7, i32 %",
                "@tegula_sim_mbar_wait(ptr %0, i32 7, i32 %", "@tegula_sim_mbar_inval(ptr %0, i32 7, i32 %"},
               [](K &k) {
                 k.i.mbarInit({{k.shared, 5}});
                 k.i.mbarArrive(k.shared);
                 k.i.mbarArrive(k.shared, k.pred);
                 k.i.mbarWait(k.shared, k.n);
                 k.i.mbarWait(k.shared, k.i32(1));
                 k.i.mbarInval({k.shared});
               }});
  c.push_back({"transactions",
               90,
               {"mbarrier.arrive.expect_tx.shared.b64 _, [", "mbarrier.arrive.shared::cluster.b64 _, [",
                "mbarrier.try_wait.parity", "@%p"},
               {"@tegula_sim_mbar_arrive_expect(ptr %0, i32 7, i32 %", "i32 1, i32 %"},
               [](K &k) {
                 k.i.mbarArriveExpect(k.shared, k.n, k.pred);
                 k.i.mbarArriveExpect(k.shared, k.i32(4096));
                 k.i.mbarArrive(k.i.mapShared(k.shared, k.n), k.pred, true);
                 k.i.mbarWait(k.shared, k.n);
               }});
  c.push_back({"tma",
               90,
               {"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [",
                "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [",
                "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [",
                "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [", ".min.tile.", ".or.tile.",
                "prefetch.tensormap ["},
               {"call void @tegula_sim_tma_load(ptr %0, i32 7, i32 %", ", i32 5, ptr %",
                "call void @tegula_sim_tma_store(ptr %0, i32 7, i64 %",
                "call void @tegula_sim_tma_reduce(ptr %0, i32 7, i64 %"},
               [](K &k) {
                 k.i.prefetchTensorMap(k.data);
                 for (unsigned rank = 1; rank <= 5; ++rank) {
                   k.i.tmaLoad(k.shared, k.data, k.ints(rank), k.shared, nullptr, k.pred);
                   k.i.tmaLoad(k.shared, k.data, k.ints(rank), k.shared, k.halves(1)[0], nullptr);
                   k.i.tmaStore(k.data, k.ints(rank), k.shared, k.pred);
                   for (AtomOp op :
                        {AtomOp::FAdd, AtomOp::Add, AtomOp::SMin, AtomOp::UMax, AtomOp::And, AtomOp::Or, AtomOp::Xor})
                     k.i.tmaReduce(k.data, k.ints(rank), k.shared, op, k.pred);
                 }
               }});
  c.push_back({"bulk",
               90,
               {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [",
                "cp.async.bulk.global.shared::cta.bulk_group [", "cp.async.bulk.commit_group;",
                "cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 1;"},
               {"@tegula_sim_bulk_load(ptr %0, i32 7, i32 %", "@tegula_sim_bulk_store(ptr %0, i32 7, i64 %",
                "@tegula_sim_bulk_commit(ptr %0, i32 7)", "@tegula_sim_bulk_wait(ptr %0, i32 7, i32 1, i32 1)"},
               [](K &k) {
                 k.i.bulkLoad(k.shared, k.data, k.n, k.shared, k.pred);
                 k.i.bulkStore(k.data, k.shared, k.i32(128), nullptr);
                 k.i.bulkCommit();
                 k.i.bulkWait(0, false);
                 k.i.bulkWait(1, true);
               }});
  c.push_back({"registers",
               91,
               {"setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 232;", ".minnctapersm 1",
                ".reqntid 256", ".maxnreg 128"},
               {"@tegula_sim_setmaxnreg(ptr %0, i32 7, i32 232, i32 1)"},
               [](K &k) {
                 k.i.setMaxRegisters(40, false);
                 k.i.setMaxRegisters(232, true);
               },
               {.threads = 256, .minCtasPerSm = 1, .maxRegisters = 128}});
  c.push_back({"dependents",
               90,
               {"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"},
               {"@tegula_sim_griddep(ptr %0, i32 7, i32 0)", "@tegula_sim_griddep(ptr %0, i32 7, i32 1)"},
               [](K &k) {
                 k.i.gridDependency(true);
                 k.i.gridDependency(false);
               }});
}

void otherCases(std::vector<Case> &c) {
  c.push_back({"functions",
               80,
               {"ex2.approx.f32", "lg2.approx.f32", "rsqrt.approx.f32", "sqrt.approx.f32", "rcp.approx.f32",
                "div.full.f32", "tanh.approx.f32"},
               {"fdiv float"},
               [](K &k) {
                 k.use(Regs{k.i.ex2(k.x), k.i.lg2(k.x), k.i.rsqrt(k.x), k.i.sqrtApprox(k.x), k.i.rcpApprox(k.x),
                            k.i.divFull(k.x, k.x), k.i.tanhApprox(k.x)});
               }});
  c.push_back({"assert",
               80,
               {"trap;", "atom.global.sys.relaxed.exch.b32", "fence.acq_rel.sys;", "st.volatile"},
               {"call void @tegula_sim_assert_fail(ptr %0, i32 7)"},
               [](K &k) { k.i.assertFail(k.data, k.i32(7)); }});
  c.push_back({"loop", 80, {}, {"@tegula_sim_backedge(ptr %0, i32 7)"}, [](K &k) { k.i.backEdge(); }});
}

void printCases(std::vector<Case> &c) {
  c.push_back({"print",
               80,
               {"call.uni", "vprintf"},
               {"call void @tegula_sim_print(ptr %0, i32 7, i32 1, i64 5, i64 6)"},
               [](K &k) {
                 k.i.print(1, k.b.getInt64(5), k.b.getInt64(6), "x: %d %f %lld\n", {k.n, k.x, k.b.getInt64(9)});
                 k.i.print(-1, k.b.getInt64(0), k.b.getInt64(0), "done\n", {});
               }});
}

std::vector<Case> allCases() {
  std::vector<Case> c;
  memoryCases(c);
  atomicCases(c);
  warpCases(c);
  matrixCases(c);
  wgmmaCases(c);
  asyncCases(c);
  otherCases(c);
  printCases(c);
  return c;
}

/// 91: only with the features of sm_90a.
bool has(const NvTarget &t, const Case &c) { return t.sm + (t.archFeatures ? 1 : 0) >= c.sm; }

class InstrPtx : public testing::TestWithParam<NvTarget> {};

void checkPtx(const std::vector<Case> &cases, const NvTarget &target) {
  GpuModule m(target);
  for (const Case &c : cases)
    if (has(target, c))
      m.add(c.name, c.body, c.bounds);
  for (const Case &c : cases)
    if (has(target, c)) {
      std::string text = m.textOf(c.name);
      for (const std::string &part : c.ptx)
        EXPECT_NE(text.find(part), std::string::npos) << c.name << ": no `" << part << "` in\n" << text.substr(0, 6000);
    }
  runtime::cuda::Assembly out;
  if (!assembles(m.text(), target, out))
    GTEST_SKIP() << "text checked, not assembled";
  EXPECT_GT(out.cubin.size(), 1000u);
  // Serialized wgmma and the like. C7504, "setmaxnreg ignored", comes with every libnvJitLink: it compiles relocatable
  // code.
  for (size_t at = out.log.find("(C75"); at != std::string::npos; at = out.log.find("(C75", at + 1))
    EXPECT_EQ(out.log.compare(at, 7, "(C7504)"), 0) << out.log.substr(at, out.log.find('\n', at) - at);
}

TEST_P(InstrPtx, TextAndAssembly) { checkPtx(allCases(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Arch, InstrPtx,
                         testing::Values(NvTarget{80, false}, NvTarget{86, false}, NvTarget{89, false},
                                         NvTarget{90, true}),
                         [](const auto &p) { return archName(p.param); });

TEST(InstrSim, Calls) {
  std::vector<Case> cases = allCases();
  GpuModule m(NvTarget{90, true, true});
  for (const Case &c : cases)
    m.add(c.name, c.body);
  for (const Case &c : cases) {
    std::string text = m.irOf(c.name);
    EXPECT_EQ(text.find(" asm "), std::string::npos) << c.name;
    EXPECT_EQ(text.find("@llvm.nvvm"), std::string::npos) << c.name;
    for (const std::string &part : c.sim)
      EXPECT_NE(text.find(part), std::string::npos) << c.name << ": no `" << part << "` in\n" << text.substr(0, 6000);
  }
  EXPECT_NE(m.text().find("tegula_sim_wgmma"), std::string::npos);
}

} // namespace
} // namespace tegula::nvidia
