// Instr.h: what the threads of a warp, a CTA and a cluster do together, and fences.
#include "abi/SimAbi.h"
#include "targets/nvidia/instr/Ptx.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace tegula::nvidia {

using namespace llvm::Intrinsic;

// ---- warps

V Instr::shuffle(ShuffleMode mode, V value32, V lane) {
  struct Row {
    ID id;
    int clamp; // highest lane to read from, lowest for "up"
  };
  static constexpr Row rows[] = {{nvvm_shfl_sync_idx_i32, 31},
                                 {nvvm_shfl_sync_bfly_i32, 31},
                                 {nvvm_shfl_sync_up_i32, 0},
                                 {nvvm_shfl_sync_down_i32, 31}};
  V bits = b.CreateBitCast(value32, b.getInt32Ty());
  const Row &row = rows[static_cast<size_t>(mode)];
  V r = sim() ? simCall("tegula_sim_shfl", b.getInt32Ty(), {i32(static_cast<int>(mode)), i32(-1), bits, lane})
              : b.CreateIntrinsic(row.id, {}, {i32(-1), bits, lane, i32(row.clamp)});
  return b.CreateBitCast(r, value32->getType());
}

V Instr::ballot(V pred) {
  return sim() ? simCall("tegula_sim_ballot", b.getInt32Ty(), {i32(-1), predOrOne(pred)})
               : b.CreateIntrinsic(nvvm_vote_ballot_sync, {}, {i32(-1), pred ? pred : b.getTrue()});
}

V Instr::elect() {
  if (sim())
    return b.CreateICmpNE(simCall("tegula_sim_elect", b.getInt32Ty(), {i32(-1)}), i32(0));
  if (target.sm < 90) // the lane that elect.sync takes
    return b.CreateICmpEQ(b.CreateAnd(special(Special::Tid), 31), i32(0));
  Ptx p(*this, Touches::Writes, {b.getInt1Ty()}, /*convergent=*/true);
  return p.emit("elect.sync _|$0, 0xffffffff;")[0];
}

V Instr::redux(AtomOp op, V value32) {
  auto combine = [&](V x, V y) -> V {
    switch (op) {
    case AtomOp::Add:
      return b.CreateAdd(x, y);
    case AtomOp::And:
      return b.CreateAnd(x, y);
    case AtomOp::Or:
      return b.CreateOr(x, y);
    case AtomOp::Xor:
      return b.CreateXor(x, y);
    default:
      return b.CreateBinaryIntrinsic(op == AtomOp::SMin   ? smin
                                     : op == AtomOp::SMax ? smax
                                     : op == AtomOp::UMin ? umin
                                                          : umax,
                                     x, y);
    }
  };
  if (sim()) { // the machine model has shuffles only
    for (int step = 16; step; step >>= 1)
      value32 = combine(value32, shuffle(ShuffleMode::Bfly, value32, i32(step)));
    return value32;
  }
  ID id = op == AtomOp::Add    ? nvvm_redux_sync_add
          : op == AtomOp::And  ? nvvm_redux_sync_and
          : op == AtomOp::Or   ? nvvm_redux_sync_or
          : op == AtomOp::Xor  ? nvvm_redux_sync_xor
          : op == AtomOp::SMin ? nvvm_redux_sync_min
          : op == AtomOp::SMax ? nvvm_redux_sync_max
          : op == AtomOp::UMin ? nvvm_redux_sync_umin
                               : nvvm_redux_sync_umax;
  return b.CreateIntrinsic(id, {}, {value32, i32(-1)});
}

V Instr::equalOr(V x, V y, V p) {
  if (sim())
    return b.CreateOr(b.CreateFCmpOEQ(x, y), p);
  Ptx s(*this, Touches::Nothing, {b.getInt1Ty()});
  std::string first = s.in(x), second = s.in(y), third = s.in(p);
  return s.emit("setp.eq.or.f32 $0, " + first + ", " + second + ", " + third + ";")[0];
}

void Instr::syncWarp() {
  if (sim())
    simCall("tegula_sim_syncwarp", b.getVoidTy(), {i32(-1)});
  else
    b.CreateIntrinsic(nvvm_bar_warp_sync, {}, {i32(-1)});
}

// ---- barriers

void Instr::barrier() {
  if (sim())
    simCall("tegula_sim_bar_sync", b.getVoidTy(), {i32(0), i32(0)});
  else
    b.CreateIntrinsic(nvvm_barrier0, {}, {});
}

// Ids as immediates: with an id in a register the assembler reserves all 16 barriers.
void Instr::namedBarrier(unsigned id, unsigned count) {
  effect({.text = "bar.sync " + std::to_string(id) + ", " + std::to_string(count) + ";",
          .args = {},
          .simName = "tegula_sim_bar_sync",
          .simArgs = {i32(id), i32(count)},
          .convergent = true});
}

void Instr::namedArrive(unsigned id, unsigned count) {
  effect({.text = "bar.arrive " + std::to_string(id) + ", " + std::to_string(count) + ";",
          .args = {},
          .simName = "tegula_sim_bar_arrive",
          .simArgs = {i32(id), i32(count)},
          .convergent = true});
}

void Instr::clusterArrive(bool relaxed) {
  effect({.text = relaxed ? "barrier.cluster.arrive.relaxed.aligned;" : "barrier.cluster.arrive.aligned;",
          .args = {},
          .simName = "tegula_sim_cluster_arrive",
          .simArgs = {i32(relaxed)},
          .convergent = true});
}

void Instr::clusterWait() {
  effect({.text = "barrier.cluster.wait.aligned;",
          .args = {},
          .simName = "tegula_sim_cluster_wait",
          .simArgs = {},
          .convergent = true});
}

// ---- fences

void Instr::fenceProxyAsync(bool allMemory) {
  if (target.sm < 90)
    return;
  effect({.text = allMemory ? "fence.proxy.async;" : "fence.proxy.async.shared::cta;",
          .args = {},
          .simName = "tegula_sim_fence_proxy_async",
          .simArgs = {}});
}

void Instr::memoryFence(Scope scope) {
  static constexpr const char *names[] = {"cta", "cluster", "gpu", "sys"};
  effect({.text = std::string("fence.acq_rel.") + names[static_cast<size_t>(scope)] + ";",
          .args = {},
          .simName = "tegula_sim_membar",
          .simArgs = {i32(static_cast<int>(scope))}});
}

} // namespace tegula::nvidia
