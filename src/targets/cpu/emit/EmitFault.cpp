// Run-time faults and printing: asserts, checked accesses, device_print.
//
// A fault is written to launch->fault by the first program that claims it; the function then returns its code.
#include "targets/cpu/emit/Emitter.h"
#include "abi/CpuAbi.h"
#include "targets/common/Frame.h"
#include "targets/cpu/plan/Uses.h"
#include "llvm/IR/InlineAsm.h"

namespace tegula::cpu {
using ir::Op;
using V = llvm::Value *;

int FunctionEmitter::siteOf(const Op &op, Site::Kind kind) {
  Site s = targets::siteAt(state_.source, op, kind, plan_.function->name);
  if (kind != Site::Kind::Assert && kind != Site::Kind::Print && kind != Site::Kind::Other && plan_.function->isKernel)
    s.arg = baseArgument(op.operands[0]);
  state_.meta.sites.push_back(std::move(s));
  return static_cast<int>(state_.meta.sites.size() - 1);
}

// Each operation has one, whatever it is copied to.
int FunctionEmitter::siteNumber(const Op &op, Site::Kind kind) {
  int &number = sites_[&op]; // counted from 1
  if (!number)
    number = siteOf(op, kind) + 1;
  return number - 1;
}

void FunctionEmitter::leaveIf(V bad, const char *name, llvm::function_ref<void()> leave) {
  auto *fail = llvm::BasicBlock::Create(context_, name, function_);
  llvm::BasicBlock *ok = splitHere("ok");
  b_.CreateCondBr(bad, fail, ok);
  b_.SetInsertPoint(fail);
  leave();
  resumeAt(ok);
}

/// The module's function that writes a fault: (launch, code, site, pid x, y, z, index, extent). As blocks of each
/// assertion's own, 2000 sums that are checked for overflow took LLVM 4 s.
/// With the attributes of the functions that call it.
static llvm::Function *faultFunction(llvm::Module &m, const llvm::Function &caller) {
  llvm::LLVMContext &context = m.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type *ptr = b.getPtrTy(), *i32 = b.getInt32Ty(), *i64 = b.getInt64Ty();
  auto *f =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {ptr, i32, i32, i32, i32, i32, i64, i64}, false),
                             llvm::GlobalValue::InternalLinkage, "tegula.fault", m);
  f->addFnAttrs(llvm::AttrBuilder(context, caller.getAttributes().getFnAttrs()));
  f->addFnAttr(llvm::Attribute::NoInline);
  f->addFnAttr(llvm::Attribute::Cold);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  auto field = [&](V base, size_t offset) { return b.CreateConstGEP1_64(b.getInt8Ty(), base, offset); };
  V record = b.CreateLoad(ptr, field(f->getArg(0), offsetof(TegulaCpuLaunch, fault)));
  V was = b.CreateAtomicRMW(llvm::AtomicRMWInst::Xchg, field(record, offsetof(TegulaCpuFault, claimed)), b.getInt32(1),
                            llvm::Align(4), llvm::AtomicOrdering::AcquireRelease);
  auto *claim = llvm::BasicBlock::Create(context, "claim", f), *end = llvm::BasicBlock::Create(context, "end", f);
  b.CreateCondBr(b.CreateICmpEQ(was, b.getInt32(0)), claim, end);
  b.SetInsertPoint(claim);
  const size_t offsets[] = {offsetof(TegulaCpuFault, code), offsetof(TegulaCpuFault, site),
                            offsetof(TegulaCpuFault, pid), offsetof(TegulaCpuFault, pid) + 4,
                            offsetof(TegulaCpuFault, pid) + 8, offsetof(TegulaCpuFault, index),
                            offsetof(TegulaCpuFault, extent)};
  for (unsigned i = 0; i < std::size(offsets); ++i)
    b.CreateStore(f->getArg(i + 1), field(record, offsets[i]));
  b.CreateBr(end);
  b.SetInsertPoint(end);
  b.CreateRetVoid();
  return f;
}

// Ends the current block.
void FunctionEmitter::fault(int code, int site, V index, V extent) {
  auto number = [&](int x) { return b_.getInt32(static_cast<uint32_t>(x)); };
  llvm::Function *&write = state_.functions["tegula.fault"];
  if (!write)
    write = faultFunction(state_.llvm, *function_);
  b_.CreateCall(write, {launch_, number(code), number(site), pid_[0], pid_[1], pid_[2], index ? index : b_.getInt64(0),
                        extent ? extent : b_.getInt64(0)});
  llvm::BasicBlock *&end = faulted_[code];
  b_.CreateBr(end ? end : end = faultedBlock(code));
}

/// Where the function ends with `code`. It has something in it, so that LLVM does not make all ends one that gets a
/// number from each place that may fail: the register coalescer goes through all of these for each of them, 1.5 s for
/// 4000 sums that are checked for overflow.
llvm::BasicBlock *FunctionEmitter::faultedBlock(int code) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  auto *end = llvm::BasicBlock::Create(context_, "faulted", function_);
  b_.SetInsertPoint(end);
  b_.SetCurrentDebugLocation({}); // is of no line
  b_.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(b_.getVoidTy(), false), "", "", /*hasSideEffects=*/true));
  b_.CreateRet(b_.getInt32(static_cast<uint32_t>(code)));
  return end;
}

void FunctionEmitter::assertRoot(const Op &op, V cond, V mask) {
  V bad = b_.CreateNot(cond);
  if (mask) {
    unsigned lanes = nest_ ? nest_->lanes() : 1;
    bool vector = bad->getType()->isVectorTy() || mask->getType()->isVectorTy();
    bad = vector ? b_.CreateAnd(broadcast(bad, lanes), broadcast(mask, lanes)) : b_.CreateAnd(bad, mask);
  }
  leaveIf(anyOf(bad), "assert",
          [&] { fault(TEGULA_FAULT_ASSERT, siteNumber(op, Site::Kind::Assert), nullptr, nullptr); });
}

void FunctionEmitter::printStep(const Step &s) {
  const Op &op = *s.op;
  setLoc(&op);
  int site = siteNumber(op, Site::Kind::Print);
  V data = scratch_, count = b_.getInt64(0);
  if (s.bufferA >= 0) {
    const ir::Value *v = op.operands[s.operand];
    const Buffer &b = plan_.buffers[static_cast<size_t>(s.bufferA)];
    data = scratchAt(b.offset);
    count = b_.getInt64(static_cast<uint64_t>(v->type.numel()));
    if (v->type.isScalar())
      b_.CreateStore(toMemory(scalar_.lookup(v), v->type), data);
  }
  llvm::AllocaInst *pid;
  {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    llvm::BasicBlock &entry = function_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.begin());
    pid = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt32Ty(), 3));
  }
  for (unsigned i = 0; i < 3; ++i)
    b_.CreateStore(pid_[i], b_.CreateConstGEP1_64(b_.getInt32Ty(), pid, i));
  V fn = b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, print)));
  auto *type = llvm::FunctionType::get(
      b_.getVoidTy(), {b_.getPtrTy(), b_.getInt32Ty(), b_.getInt32Ty(), b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()},
      false);
  b_.CreateCall(type, fn,
                {launch_, b_.getInt32(static_cast<uint32_t>(site)), b_.getInt32(s.operand), pid, data, count});
}

/// Index of pointer argument `arg` among the kernel's pointer arguments; `count` receives how many there are.
static unsigned pointerIndex(const ir::Function &kernel, int arg, unsigned &count) {
  unsigned index = 0;
  count = 0;
  for (const ir::Value *a : kernel.block()->args) {
    if (static_cast<int>(a->index) == arg)
      index = count;
    count += a->type.isPtr;
  }
  return index;
}

int FunctionEmitter::accessSite(const Op &op) {
  Site::Kind kind = op.kind == ir::OpKind::Load    ? Site::Kind::Load
                    : op.kind == ir::OpKind::Store ? Site::Kind::Store
                                                   : Site::Kind::Atomic;
  return siteNumber(op, kind);
}

// A pointer that is not derived from an argument (from an integer, loaded) may be null, which is not checked elsewhere:
// this reports a fault where the process would crash. Lanes that are not linear may hold whole addresses, so each of
// them is checked; linear ones share the base.
void FunctionEmitter::guardAccess(const LaneAddress &a, unsigned bytes, V mask, const Op &op) {
  if (state_.options.checked)
    return checkAccess(a, bytes, mask, op);
  if (baseArgument(op.operands[0]) < 0)
    checkNull(a.extra ? pointers(a) : a.base, mask, op);
}

void FunctionEmitter::checkNull(V pointer, V mask, const Op &op) {
  // Systems map nothing there: offsets from a null pointer that stay in the first page are caught too.
  constexpr uint64_t firstMapped = 4096;
  int site = accessSite(op);
  bool lanes = pointer->getType()->isVectorTy();
  V address = b_.CreatePtrToInt(pointer, lanes ? pointer->getType()->getWithNewType(b_.getInt64Ty()) : b_.getInt64Ty());
  V bad = b_.CreateICmpULT(address, llvm::ConstantInt::get(address->getType(), firstMapped));
  if (mask)
    bad = b_.CreateAnd(bad, lanes ? broadcast(mask, nest_->lanes()) : anyOf(mask));
  leaveIf(anyOf(bad), "null", [&] {
    if (lanes) // the lowest of those that are null
      address = b_.CreateIntMinReduce(
          b_.CreateSelect(bad, address, llvm::Constant::getAllOnesValue(address->getType())), false);
    fault(TEGULA_FAULT_BOUNDS, site, address, b_.getInt64(~uint64_t(0)));
  });
}

// The elements at first, first + bytes ... last must lie in the buffer of the argument that the pointer is derived
// from. A pointer of another origin (memory, an integer, a select) may point into any one buffer of the launch; it
// has no index in any of them, so its fault has the address, and extent -1.
void FunctionEmitter::checkRange(V first, V last, unsigned bytes, V active, const Op &op) {
  int site = accessSite(op), arg = state_.meta.sites[static_cast<size_t>(site)].arg;
  unsigned pointers = 0, pointer = pointerIndex(*state_.source.kernel(), arg, pointers);
  V extents =
      b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, extents)));
  V lo = b_.CreatePtrToInt(first, b_.getInt64Ty());
  V end = b_.CreateAdd(b_.CreatePtrToInt(last, b_.getInt64Ty()), b_.getInt64(bytes));
  V ok = b_.getFalse(), begin = nullptr, size = nullptr;
  for (unsigned i = arg < 0 ? 0 : pointer; i < (arg < 0 ? pointers : pointer + 1); ++i) {
    V e = b_.CreateConstGEP1_64(b_.getInt8Ty(), extents, i * sizeof(TegulaCpuExtent));
    begin = b_.CreateLoad(b_.getInt64Ty(), e);
    size = b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstGEP1_64(b_.getInt8Ty(), e, 8));
    ok = b_.CreateOr(ok, b_.CreateAnd(b_.CreateICmpUGE(lo, begin), b_.CreateICmpULE(end, b_.CreateAdd(begin, size))));
  }
  V aligned = b_.CreateICmpEQ(b_.CreateAnd(lo, b_.getInt64(bytes - 1)), b_.getInt64(0));
  V bad = b_.CreateNot(b_.CreateAnd(ok, aligned));
  if (active)
    bad = b_.CreateAnd(bad, active);
  leaveIf(bad, "bounds", [&] {
    V index = lo, extent = b_.getInt64(~uint64_t(0));
    if (arg >= 0) {
      // The first element that is outside, or misaligned: they all are if one is.
      V within = b_.CreateSub(b_.CreateAdd(begin, size), lo);
      V skipped = b_.CreateAnd(within, b_.getInt64(~uint64_t(bytes - 1)));
      V all = b_.CreateOr(b_.CreateNot(aligned),
                          b_.CreateOr(b_.CreateICmpULT(lo, begin), b_.CreateICmpSLT(within, b_.getInt64(0))));
      index = b_.CreateAdd(b_.CreateSub(lo, begin), b_.CreateSelect(all, b_.getInt64(0), skipped));
      extent = size;
    }
    leaveIf(ok, "misaligned", [&] { fault(TEGULA_FAULT_ALIGNMENT, site, index, extent); });
    fault(TEGULA_FAULT_BOUNDS, site, index, extent);
  });
}

// Element by element: checked code is for finding the mistake, with the precise index of the first lane that is
// outside.
void FunctionEmitter::checkAccess(const LaneAddress &a, unsigned bytes, V mask, const Op &op) {
  bytes = std::max(1u, bytes);
  if (!nest_ || a.uniform()) {
    checkRange(a.base, a.base, bytes, mask ? anyOf(mask) : nullptr, op);
    return;
  }
  V p = pointers(a);
  if (!mask && plan_.function->isKernel && baseArgument(op.operands[0]) >= 0) { // neighbours in one buffer: one check
    bool rising = !a.extra;
    int64_t last = 0;
    for (const Coef &c : a.lane) {
      rising &= !c.s && c.k >= 0;
      last += c.k;
    }
    if (rising && last == static_cast<int64_t>(bytes) * (nest_->lanes() - 1)) {
      checkRange(a.base, b_.CreateConstGEP1_64(b_.getInt8Ty(), a.base, static_cast<uint64_t>(last)), bytes, nullptr,
                 op);
      return;
    }
  }
  V m = mask ? broadcast(mask, nest_->lanes()) : nullptr;
  for (unsigned i = 0; i < nest_->lanes(); ++i) {
    V lane = b_.CreateExtractElement(p, i);
    checkRange(lane, lane, bytes, m ? b_.CreateExtractElement(m, i) : nullptr, op);
  }
}

} // namespace tegula::cpu
