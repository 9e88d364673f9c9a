// Instr.h: asynchronous copies, mbarriers, bulk and tensor copies, register reallocation, dependent launches.
#include "abi/SimAbi.h"
#include "targets/nvidia/instr/Ptx.h"

namespace tegula::nvidia {
namespace {

V asInteger(llvm::IRBuilder<> &b, V x) { return x->getType()->isPointerTy() ? b.CreatePtrToInt(x, b.getInt64Ty()) : x; }

/// "{$2, $3}"
std::string coordinates(Ptx &p, llvm::ArrayRef<V> coord) { return p.list(coord, /*alwaysBraces=*/true); }

const char *reduction(AtomOp op) {
  switch (op) {
  case AtomOp::Add:
  case AtomOp::FAdd: // the element type stands in the map
    return "add";
  case AtomOp::SMin:
  case AtomOp::UMin:
    return "min";
  case AtomOp::SMax:
  case AtomOp::UMax:
    return "max";
  case AtomOp::And:
    return "and";
  case AtomOp::Or:
    return "or";
  case AtomOp::Xor:
    return "xor";
  case AtomOp::Xchg:
  case AtomOp::Cas:
  case AtomOp::Load:
  case AtomOp::Store:
    break;
  }
  llvm_unreachable("no such reduction");
}

} // namespace

// ---- cp.async

void Instr::cpAsync(V dstShared, V srcGlobal, unsigned bytes, V srcBytes, V pred, AccessHints hints) {
  V src = globalAddress(srcGlobal);
  if (sim()) {
    simCall("tegula_sim_cp_async", b.getVoidTy(),
            {dstShared, src, i32(bytes), srcBytes ? srcBytes : i32(bytes), predOrOne(pred)});
    return;
  }
  // Through L1 only if asked to: what goes to shared memory is rarely read again.
  const char *level = bytes == 16 && hints.cache != Cache::Ca ? "cg" : "ca";
  Ptx p(*this, Touches::Writes);
  std::string to = p.in(dstShared), from = p.in(src), limit = srcBytes ? ", " + p.in(srcBytes) : "",
              guard = p.guard(pred);
  p.emit(guard + "cp.async." + level + ".shared.global [" + to + "], [" + from + "], " + std::to_string(bytes) + limit +
         ";");
}

void Instr::cpAsyncCommit() {
  effect({.text = "cp.async.commit_group;", .args = {}, .simName = "tegula_sim_cp_async_commit", .simArgs = {}});
}

void Instr::cpAsyncWait(unsigned n) {
  effect({.text = "cp.async.wait_group " + std::to_string(n) + ";",
          .args = {},
          .simName = "tegula_sim_cp_async_wait",
          .simArgs = {i32(n)}});
}

void Instr::cpAsyncMbarArrive(V bar) {
  effect({.text = "cp.async.mbarrier.arrive.noinc.shared.b64 [$0];",
          .args = {bar},
          .simName = "tegula_sim_cp_async_mbar_arrive",
          .simArgs = {bar}});
}

// ---- mbarriers

/// `lines` where `pred` is true, behind one branch if they are many; null: always.
static std::string where(Ptx &p, V pred, llvm::ArrayRef<std::string> lines) {
  constexpr size_t mostPredicated = 2;
  std::string text, condition = pred ? p.in(pred) : "";
  const bool isBehindBranch = pred && lines.size() > mostPredicated;
  for (const std::string &line : lines)
    text += (pred && !isBehindBranch ? "@" + condition + " " : "") + line + ";\n\t";
  return isBehindBranch ? "{\n\t@!" + condition + " bra \tskip;\n\t" + text + "skip:\n\t}" : text;
}

void Instr::mbarInit(llvm::ArrayRef<MbarInit> bars, V pred) {
  if (sim()) {
    for (const MbarInit &m : bars)
      simCall("tegula_sim_mbar_init", b.getVoidTy(), {m.bar, i32(m.count)});
    simCall("tegula_sim_fence_mbarrier_init", b.getVoidTy(), {});
    return;
  }
  Ptx p(*this, Touches::Writes, {});
  std::vector<std::string> lines;
  for (const MbarInit &m : bars)
    lines.push_back("mbarrier.init.shared.b64 [" + p.in(m.bar) + "], " + std::to_string(m.count));
  if (target.sm >= 90) // there are no block copies before
    lines.push_back("fence.mbarrier_init.release.cluster");
  p.emit(where(p, pred, lines));
}

void Instr::mbarInval(llvm::ArrayRef<V> bars, V pred) {
  if (sim()) {
    for (V bar : bars)
      simCall("tegula_sim_mbar_inval", b.getVoidTy(), {bar});
    return;
  }
  Ptx p(*this, Touches::Writes, {});
  std::vector<std::string> lines;
  for (V bar : bars)
    lines.push_back("mbarrier.inval.shared.b64 [" + p.in(bar) + "]");
  p.emit(where(p, pred, lines));
}

void Instr::mbarArrive(V bar, V pred, bool cluster) {
  // Without `.release.cluster`, which costs a fence of the whole GPU. The sink operand came with sm_90.
  if (sim()) {
    simCall("tegula_sim_mbar_arrive", b.getVoidTy(), {bar, i32(1), predOrOne(pred)});
    return;
  }
  if (target.sm >= 90) {
    effect({.text = std::string("mbarrier.arrive.shared") + (cluster ? "::cluster" : "") + ".b64 _, [$0];",
            .args = {bar},
            .simName = nullptr,
            .simArgs = {},
            .pred = pred});
    return;
  }
  Ptx p(*this, Touches::Writes, {b.getInt64Ty()});
  std::string at = p.in(bar), guard = p.guard(pred);
  p.emit(guard + "mbarrier.arrive.shared.b64 $0, [" + at + "];");
}

void Instr::mbarArriveExpect(V bar, V bytes, V pred) {
  guarded("mbarrier.arrive.expect_tx.shared.b64 _, [$0], $1;", {bar, bytes}, "tegula_sim_mbar_arrive_expect", pred);
}

void Instr::mbarWait(V bar, V parity) {
  const char *test = target.sm >= 90 ? "mbarrier.try_wait.parity" : "mbarrier.test_wait.parity";
  effect({.text = std::string("{ .reg .pred done; again: ") + test + ".shared.b64 done, [$0], $1; @!done bra again; }",
          .args = {bar, parity},
          .simName = "tegula_sim_mbar_wait",
          .simArgs = {bar, parity}});
}

// ---- tensor and bulk copies

void Instr::prefetchTensorMap(V map) {
  if (sim()) // no effect that a program can see
    return;
  effect({.text = "prefetch.tensormap [$0];", .args = {map}, .simName = nullptr, .simArgs = {}});
}

void Instr::tmaLoad(V dst, V map, llvm::ArrayRef<V> coord, V bar, V multicastMask, V pred) {
  if (sim()) {
    V mask = multicastMask ? b.CreateZExt(multicastMask, b.getInt32Ty()) : i32(0);
    simCall("tegula_sim_tma_load", b.getVoidTy(),
            {dst, asInteger(b, map), i32(static_cast<int64_t>(coord.size())), storeSlot(0, coord), bar, mask,
             predOrOne(pred)});
    return;
  }
  Ptx p(*this, Touches::Writes);
  std::string to = p.in(dst), from = p.in(map), at = coordinates(p, coord), on = p.in(bar);
  std::string mask = multicastMask ? ", " + p.in(multicastMask) : "", guard = p.guard(pred);
  p.emit(guard + "cp.async.bulk.tensor." + std::to_string(coord.size()) +
         "d.shared::cluster.global.mbarrier::complete_tx::bytes" + (multicastMask ? ".multicast::cluster" : "") + " [" +
         to + "], [" + from + ", " + at + "], [" + on + "]" + mask + ";");
}

void Instr::tmaStore(V map, llvm::ArrayRef<V> coord, V src, V pred) {
  if (sim()) {
    simCall("tegula_sim_tma_store", b.getVoidTy(),
            {asInteger(b, map), i32(static_cast<int64_t>(coord.size())), storeSlot(0, coord), src, predOrOne(pred)});
    return;
  }
  Ptx p(*this, Touches::Writes);
  std::string to = p.in(map), at = coordinates(p, coord), from = p.in(src), guard = p.guard(pred);
  p.emit(guard + "cp.async.bulk.tensor." + std::to_string(coord.size()) + "d.global.shared::cta.bulk_group [" + to +
         ", " + at + "], [" + from + "];");
}

void Instr::tmaReduce(V map, llvm::ArrayRef<V> coord, V src, AtomOp op, V pred) {
  if (sim()) {
    simCall("tegula_sim_tma_reduce", b.getVoidTy(),
            {asInteger(b, map), i32(static_cast<int64_t>(coord.size())), storeSlot(0, coord), src,
             i32(static_cast<int>(op)), predOrOne(pred)});
    return;
  }
  Ptx p(*this, Touches::Writes);
  std::string to = p.in(map), at = coordinates(p, coord), from = p.in(src), guard = p.guard(pred);
  p.emit(guard + "cp.reduce.async.bulk.tensor." + std::to_string(coord.size()) + "d.global.shared::cta." +
         reduction(op) + ".tile.bulk_group [" + to + ", " + at + "], [" + from + "];");
}

void Instr::bulkLoad(V dst, V src, V bytes, V bar, V pred) {
  guarded("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
          {dst, globalAddress(src), bytes, bar}, "tegula_sim_bulk_load", pred);
}

void Instr::bulkStore(V dst, V src, V bytes, V pred) {
  guarded("cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", {globalAddress(dst), src, bytes},
          "tegula_sim_bulk_store", pred);
}

void Instr::bulkCommit() {
  effect({.text = "cp.async.bulk.commit_group;", .args = {}, .simName = "tegula_sim_bulk_commit", .simArgs = {}});
}

void Instr::bulkWait(unsigned n, bool readOnly) {
  effect({.text = std::string("cp.async.bulk.wait_group") + (readOnly ? ".read " : " ") + std::to_string(n) + ";",
          .args = {},
          .simName = "tegula_sim_bulk_wait",
          .simArgs = {i32(n), i32(readOnly)}});
}

// ---- registers, dependent launches

void Instr::setMaxRegisters(unsigned regs, bool increase) {
  effect({.text = std::string("setmaxnreg.") + (increase ? "inc" : "dec") + ".sync.aligned.u32 " +
                  std::to_string(regs) + ";",
          .args = {},
          .simName = "tegula_sim_setmaxnreg",
          .simArgs = {i32(regs), i32(increase)},
          .convergent = true});
}

void Instr::gridDependency(bool wait) {
  effect({.text = wait ? "griddepcontrol.wait;" : "griddepcontrol.launch_dependents;",
          .args = {},
          .simName = "tegula_sim_griddep",
          .simArgs = {i32(wait ? 0 : 1)}});
}

} // namespace tegula::nvidia
