// Instr.h, what all families share: calls of the simulator, special registers, elementary functions, debugging.
// InstrMemory: loads, stores, atomics. InstrWarp: shuffles, barriers, fences. InstrMatrix: ldmatrix, mma, wgmma.
// InstrAsync: asynchronous copies, mbarriers, bulk copies.
#include "targets/nvidia/instr/Instr.h"
#include "abi/CpuAbi.h"
#include "abi/GpuAbi.h"
#include "abi/SimAbi.h"
#include "targets/common/VecUtil.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/instr/Ptx.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include <cstddef>

namespace tegula::nvidia {
namespace {

llvm::FunctionCallee simFunction(llvm::IRBuilder<> &b, const char *name, llvm::Type *result, llvm::ArrayRef<V> args) {
  llvm::SmallVector<llvm::Type *, 8> types;
  for (V a : args)
    types.push_back(a->getType());
  llvm::Module *m = b.GetInsertBlock()->getModule();
  llvm::FunctionCallee f = m->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  auto *declared = llvm::cast<llvm::Function>(f.getCallee());
  assert(declared->getFunctionType() == f.getFunctionType() && "two signatures of one simulator function");
  declared->setDoesNotThrow();
  declared->setConvergent();
  return f;
}

} // namespace

// ---- simulator

V Instr::simCall(const char *name, llvm::Type *result, llvm::ArrayRef<V> args) {
  Regs all{simThread_, i32(site_)};
  all.append(args.begin(), args.end());
  return b.CreateCall(simFunction(b, name, result, all), all);
}

V Instr::slot(unsigned index, uint64_t bytes) {
  llvm::Function *f = b.GetInsertBlock()->getParent();
  if (slotsOf_ != f) {
    slotsOf_ = f;
    slots_.clear();
  }
  while (slots_.size() <= index)
    slots_.push_back(nullptr);
  llvm::AllocaInst *&a = slots_[index];
  auto *type = llvm::ArrayType::get(b.getInt8Ty(), bytes);
  if (!a) {
    llvm::IRBuilder<> entry(&f->getEntryBlock(), f->getEntryBlock().begin());
    a = entry.CreateAlloca(type);
    a->setAlignment(llvm::Align(16));
  } else if (a->getAllocatedType()->getArrayNumElements() < bytes) {
    a->setAllocatedType(type);
  }
  return a;
}

V Instr::storeSlot(unsigned index, llvm::ArrayRef<V> regs) {
  uint64_t size = regs.empty() ? 4 : regs[0]->getType()->getPrimitiveSizeInBits() / 8;
  V p = slot(index, size * std::max<size_t>(1, regs.size()));
  for (size_t k = 0; k < regs.size(); ++k)
    b.CreateStore(regs[k], b.CreateConstInBoundsGEP1_64(regs[k]->getType(), p, k));
  return p;
}

Regs Instr::loadSlot(V slot, llvm::Type *type, size_t count) {
  Regs out;
  // Volatile: LLVM 19 makes broadcasts of elements of such a vector loads of their own, and puts those after the next
  // call, which fills the slot again.
  for (size_t k = 0; k < count; ++k)
    out.push_back(b.CreateLoad(type, b.CreateConstInBoundsGEP1_64(type, slot, k), /*isVolatile=*/true));
  return out;
}

void Instr::effect(const Effect &e) {
  if (sim()) {
    simCall(e.simName, b.getVoidTy(), e.simArgs);
    return;
  }
  Ptx p(*this, Touches::Writes, {}, e.convergent);
  for (V x : e.args)
    p.in(x);
  std::string guard = p.guard(e.pred);
  p.emit(guard + e.text);
}

void Instr::guarded(std::string text, llvm::ArrayRef<V> args, const char *simName, V pred) {
  Regs simArgs;
  if (sim()) {
    for (V x : args)
      simArgs.push_back(x->getType()->isPointerTy() ? b.CreatePtrToInt(x, b.getInt64Ty()) : x);
    simArgs.push_back(predOrOne(pred));
  }
  effect({std::move(text), args, simName, simArgs, pred});
}

// ---- special registers

V Instr::special(Special s) {
  using namespace llvm::Intrinsic;
  struct Row {
    ID id;
    int sim;
  };
  static constexpr Row rows[] = {
      {nvvm_read_ptx_sreg_tid_x, TEGULA_SREG_TID},
      {nvvm_read_ptx_sreg_ctaid_x, TEGULA_SREG_CTAID_X},
      {nvvm_read_ptx_sreg_ctaid_y, TEGULA_SREG_CTAID_Y},
      {nvvm_read_ptx_sreg_ctaid_z, TEGULA_SREG_CTAID_Z},
      {nvvm_read_ptx_sreg_nctaid_x, TEGULA_SREG_NCTAID_X},
      {nvvm_read_ptx_sreg_nctaid_y, TEGULA_SREG_NCTAID_Y},
      {nvvm_read_ptx_sreg_nctaid_z, TEGULA_SREG_NCTAID_Z},
      {nvvm_read_ptx_sreg_cluster_ctarank, TEGULA_SREG_CLUSTER_CTARANK},
      {nvvm_read_ptx_sreg_cluster_nctarank, TEGULA_SREG_CLUSTER_NCTARANK},
      {nvvm_read_ptx_sreg_clusterid_x, TEGULA_SREG_CLUSTERID_X},
      {nvvm_read_ptx_sreg_nclusterid_x, TEGULA_SREG_NCLUSTERID_X},
  };
  const Row &row = rows[static_cast<size_t>(s)];
  if (!sim())
    return b.CreateIntrinsic(row.id, {}, {});
  Regs args{simThread_, i32(row.sim)};
  llvm::CallInst *call = b.CreateCall(simFunction(b, "tegula_sim_sreg", b.getInt32Ty(), args), args);
  call->setDoesNotAccessMemory();
  return call;
}

V Instr::programId(unsigned axis) {
  constexpr Special ids[] = {Special::CtaIdX, Special::CtaIdY, Special::CtaIdZ};
  return special(clustered && axis == 0 ? Special::ClusterIdX : ids[axis]);
}

V Instr::programCount(unsigned axis) {
  constexpr Special sizes[] = {Special::GridX, Special::GridY, Special::GridZ};
  return special(clustered && axis == 0 ? Special::ClustersX : sizes[axis]);
}

V Instr::sharedBase() {
  constexpr uint32_t firstUserByte = 0x400;
  if (sim())
    return b.CreateOr(b.CreateShl(special(Special::ClusterRank), 24), firstUserByte);
  constexpr const char *name = "tegula_shared";
  llvm::Module *m = b.GetInsertBlock()->getModule();
  auto *g = m->getNamedGlobal(name);
  if (!g) {
    auto *type = llvm::ArrayType::get(b.getInt8Ty(), 0);
    g = new llvm::GlobalVariable(*m, type, false, llvm::GlobalValue::ExternalLinkage, nullptr, name, nullptr,
                                 llvm::GlobalValue::NotThreadLocal, /*AddressSpace=*/3);
    g->setAlignment(llvm::Align(1024));
  }
  return b.CreatePtrToInt(g, b.getInt32Ty());
}

// ---- elementary functions

namespace {

V soft(Instr &i, ir::OpKind kind, V x) {
  VecEmitter v{i.b, vecTarget(i.target, {})};
  return targets::emitMath(v, kind, x);
}

} // namespace

V Instr::ex2(V x) {
  return sim() ? soft(*this, ir::OpKind::Exp2, x) : b.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_f, {}, {x});
}

V Instr::lg2(V x) {
  return sim() ? soft(*this, ir::OpKind::Log2, x) : b.CreateIntrinsic(llvm::Intrinsic::nvvm_lg2_approx_f, {}, {x});
}

V Instr::rsqrt(V x) {
  return sim() ? soft(*this, ir::OpKind::Rsqrt, x) : b.CreateIntrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f, {}, {x});
}

V Instr::sqrtApprox(V x) {
  return sim() ? b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x)
               : b.CreateIntrinsic(llvm::Intrinsic::nvvm_sqrt_approx_f, {}, {x});
}

V Instr::rcpApprox(V x) {
  if (sim())
    return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1), x);
  Ptx p(*this, Touches::Nothing, {x->getType()});
  return p.emit("rcp.approx.f32 $0, " + p.in(x) + ";")[0];
}

V Instr::divFull(V x, V y) {
  if (sim())
    return b.CreateFDiv(x, y);
  Ptx p(*this, Touches::Nothing, {x->getType()});
  std::string from = p.in(x), by = p.in(y);
  return p.emit("div.full.f32 $0, " + from + ", " + by + ";")[0];
}

V Instr::tanhApprox(V x) {
  if (sim())
    return soft(*this, ir::OpKind::Tanh, x);
  Ptx p(*this, Touches::Nothing, {x->getType()});
  return p.emit("tanh.approx.f32 $0, " + p.in(x) + ";")[0];
}

V Instr::opaque(V x) {
  if (sim())
    return x;
  Ptx p(*this, Touches::Nothing, {x->getType()});
  return p.emit(std::string("mov.b") + (x->getType()->isIntegerTy(64) ? "64" : "32") + " $0, " + p.in(x) + ";")[0];
}

V Instr::unknown(V x) {
  llvm::Type *t = x->getType();
  if (!t->isIntegerTy(32) && !t->isIntegerTy(64))
    return x;
  if (!sim())
    return opaque(x);
  auto *type = llvm::FunctionType::get(t, {t}, false);
  return b.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", false), {x});
}

// ---- debugging

void Instr::assertFail(V record, V site) {
  if (sim()) {
    simCall("tegula_sim_assert_fail", b.getVoidTy(), {});
    return;
  }
  auto field = [&](size_t offset) { return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), record, offset); };
  auto store = [&](size_t offset, V x) { b.CreateAlignedStore(x, field(offset), llvm::Align(4), /*isVolatile=*/true); };
  V before = atomic(false, field(offsetof(TegulaGpuRecord, claimed)), AtomOp::Xchg, AtomType::I32, {i32(1)}, nullptr,
                    MemSem::Relaxed, Scope::Sys, nullptr, true)[0];
  llvm::Function *f = b.GetInsertBlock()->getParent();
  auto *fill = llvm::BasicBlock::Create(b.getContext(), "claim", f),
       *stop = llvm::BasicBlock::Create(b.getContext(), "trap", f);
  b.CreateCondBr(b.CreateICmpEQ(before, i32(0)), fill, stop);
  b.SetInsertPoint(fill);
  store(offsetof(TegulaGpuRecord, code), i32(TEGULA_FAULT_ASSERT));
  store(offsetof(TegulaGpuRecord, site), site);
  for (unsigned k = 0; k < 3; ++k)
    store(offsetof(TegulaGpuRecord, pid) + 4 * k, programId(k));
  memoryFence(Scope::Sys);
  b.CreateBr(stop);
  b.SetInsertPoint(stop);
  b.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
}

void Instr::print(int operand, V index64, V bits64, llvm::StringRef gpuFormat, llvm::ArrayRef<V> gpuArgs) {
  if (sim()) {
    simCall("tegula_sim_print", b.getVoidTy(), {i32(operand), index64, bits64});
    return;
  }
  // vprintf takes its arguments in memory, each at its natural alignment, float as double.
  llvm::SmallVector<llvm::Type *, 8> types;
  Regs values;
  for (V x : gpuArgs) {
    values.push_back(x->getType()->isFloatTy() ? b.CreateFPExt(x, b.getDoubleTy()) : x);
    types.push_back(values.back()->getType());
  }
  V buffer = llvm::ConstantPointerNull::get(b.getPtrTy());
  if (!types.empty()) {
    auto *pack = llvm::StructType::get(b.getContext(), types);
    llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
    buffer = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(pack);
    for (unsigned k = 0; k < values.size(); ++k)
      b.CreateStore(values[k], b.CreateStructGEP(pack, buffer, k));
  }
  llvm::Module *m = b.GetInsertBlock()->getModule();
  llvm::FunctionCallee vprintf = m->getOrInsertFunction("vprintf", b.getInt32Ty(), b.getPtrTy(), b.getPtrTy());
  b.CreateCall(vprintf, {b.CreateGlobalString(gpuFormat, "format"), buffer});
}

V Instr::smId() {
  return sim() ? i32(0) : b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_smid, {}, {});
}

V Instr::globalTimer() {
  if (sim())
    return b.CreateCall(simFunction(b, "tegula_sim_globaltimer", b.getInt64Ty(), {simThread_}), {simThread_});
  Ptx p(*this, Touches::Writes, {b.getInt64Ty()});
  return p.emit("mov.u64 $0, %globaltimer;")[0];
}

void Instr::backEdge() {
  if (sim())
    simCall("tegula_sim_backedge", b.getVoidTy(), {});
}

} // namespace tegula::nvidia
