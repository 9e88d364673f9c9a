// Lower.h: the frame of a kernel, dispatch, scalars and element-wise operations, coordinates.
#include "targets/nvidia/lower/Lower.h"
#include "abi/GpuAbi.h"
#include "gpu/BlockEdit.h"
#include "gpu/Remarks.h"
#include "targets/Diagnostics.h"
#include "targets/common/AsmText.h"
#include "targets/common/Frame.h"
#include "targets/common/VecUtil.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/DotChoice.h"
#include "targets/nvidia/occupancy/BlockForms.h"
#include "targets/nvidia/occupancy/Occupancy.h"
#include "llvm/IR/Module.h"
#include <map>

namespace tegula::nvidia {

using ir::Elem;
using ir::OpKind;
using layout::Dim;

Lowering::Lowering(const ir::Module &m, const NvTarget &target, const Options &options, llvm::Module &out,
                   GpuKernelMeta &meta, DiagEngine &diag)
    : m_(m), target_(target), options_(options), source_(m.kernel()), out_(out), meta_(meta), diag_(diag),
      b_(out.getContext()), vecTarget_(vecTarget(target, options)) {}

bool lower(const ir::Module &module, const NvTarget &target, const Options &options, llvm::Module &out,
           GpuKernelMeta &meta, DiagEngine &diag) {
  return Lowering(module, target, options, out, meta, diag).run();
}

/// The partitions of the kernel's warps: all that it does but what is made for them. Null: it has none.
static const ir::Op *partitionsOf(const ir::Function &f) {
  const std::vector<ir::Op *> &ops = f.block()->ops;
  return ops.size() > 1 && ops[ops.size() - 2]->kind == OpKind::Partitions ? ops[ops.size() - 2] : nullptr;
}

bool Lowering::run() {
  partitions_ = partitionsOf(*source_);
  users_.add(*source_->block());
  findTensorMaps(*source_->block());
  if (!maps_.empty())
    findCopiers(*source_->block(), options_.numWarps);
  beginKernel();
  if (options_.debugInfo && !target_.simulate)
    lines_.emplace(out_, m_, true, targets::DebugEmitter::Kind::LinesOnly).begin(*function_, *source_);
  block(*source_->block());
  if (lines_)
    lines_->finish();
  // Whoever asks for too much learns at launch what took most at the worst moment.
  for (const auto &[owner, range] : mostShared(*source_->block())) {
    meta_.sharedBytes = std::max(meta_.sharedBytes, range.end);
    targets::Site at = targets::siteAt(m_, *owner, targets::Site::Kind::Other, source_->name);
    meta_.sharedTiles.push_back({range.size(), std::string(ir::info(owner->kind).name), at.file, at.line, at.column});
  }
  llvm::sort(meta_.sharedTiles, [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  meta_.forms = formsByCrowd(options_);
  return ok_;
}

bool Lowering::fail(const Op &op, std::string why) {
  if (ok_)
    diag_.report(diag::unsupportedOnGpu, op.loc, ir::info(op.kind).name, why);
  return ok_ = false;
}

// ---- frame

/// A GPU kernel takes its arguments one by one and the record last; a simulated one the thread and the packed block.
void Lowering::beginKernel() {
  llvm::LLVMContext &c = out_.getContext();
  llvm::Type *ptr = llvm::PointerType::getUnqual(c);
  std::vector<llvm::Type *> types;
  if (target_.simulate) {
    types = {ptr, ptr};
  } else {
    for (const Value *a : source_->block()->args) {
      llvm::Type *t = memType(a->type);
      types.push_back(t);
    }
    types.insert(types.end(), meta_.tensorMaps.size(), ptr);
    types.push_back(ptr);
  }
  auto *type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, source_->name, out_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  meta_.symbol = source_->name;
  unsigned warps = options_.numWarps;
  for (size_t n = 1; partitions_ && n < partitions_->regions.size(); ++n)
    warps += static_cast<unsigned>(partitions_->warps()[n]);
  meta_.threads = 32 * warps;
  meta_.clusterCtas = options_.numCtas;
  b_.SetInsertPoint(llvm::BasicBlock::Create(c, "entry", function_));
  in_.emplace(b_, target_, target_.simulate ? function_->getArg(0) : nullptr);
  in_->clustered = isCluster();
  vec_.emplace(targets::VecEmitter{b_, vecTarget_});
  arguments();
  tid_ = in_->special(Special::Tid);
  lane_ = b_.CreateAnd(tid_, 31);
  warp_ = meta_.threads == 32 ? b_.getInt32(0) : b_.CreateLShr(tid_, 5);
  shared_ = in_->sharedBase();
  // The assembler makes a loop over the lanes of each copy unless it knows that its operands are the same in all of
  // them.
  if (!copiers_.empty())
    uniformWarp_ =
        target_.simulate || meta_.threads == 32 ? warp_ : in_->shuffle(ShuffleMode::Idx, warp_, b_.getInt32(0));
  // Thread-only values are computed in the entry block, where they dominate everything; the body starts in its own.
  llvm::BasicBlock *body = newBlock("body");
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
}

void Lowering::arguments() {
  uint64_t offset = 0;
  const std::vector<ArgumentAccess> access = kernelAccess(m_);
  for (size_t i = 0; i < source_->block()->args.size(); ++i) {
    const Value *a = source_->block()->args[i];
    unsigned bytes = a->type.isPtr ? 8 : std::max(1u, ir::byteWidth(a->type.elem));
    offset = (offset + bytes - 1) / bytes * bytes;
    V x = target_.simulate ? b_.CreateAlignedLoad(memType(a->type),
                                                  b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(1), offset),
                                                  llvm::Align(bytes))
                           : static_cast<V>(function_->getArg(static_cast<unsigned>(i)));
    const ir::ArgInfo &info = source_->argInfo[i];
    V reg = fromMemory(x, a->type);
    reg->setName(info.name);
    set(a, {reg});
    meta_.args.push_back(
        {a->type, static_cast<uint32_t>(offset), info.name, info.isSigned, access[i].reads, access[i].writes});
    offset += bytes;
  }
  meta_.argBytes = static_cast<uint32_t>((offset + 7) / 8 * 8);
  if (!target_.simulate)
    record_ = function_->getArg(function_->arg_size() - 1);
}

llvm::BasicBlock *Lowering::newBlock(const char *name) {
  return llvm::BasicBlock::Create(out_.getContext(), name, function_);
}

// ---- dispatch

void Lowering::block(const ir::Block &b) {
  for (const Op *op : b.ops) {
    if (!ok_)
      return;
    lowerOp(*op);
  }
}

void Lowering::lowerOp(const Op &op) {
  if (isLowered_.contains(&op))
    return;
  if (lines_)
    b_.SetCurrentDebugLocation(lines_->location(op));
  if (target_.simulate && op.has(ir::traits::Shared))
    in_->setSite(siteOf(op)); // barriers and waits, too, are where the operation is that they stand before
  switch (op.kind) {
  case OpKind::Const:
    return set(op.result(), Regs(registersOf(op.result()->type), vec_->constant(op)));
  case OpKind::Poison:
    return set(op.result(), Regs(registersOf(op.result()->type), llvm::UndefValue::get(regType(op.result()->type))));
  case OpKind::ProgramId:
  case OpKind::NumPrograms: {
    auto axis = static_cast<unsigned>(op.axis());
    return set(op.result(), {op.kind == OpKind::ProgramId ? in_->programId(axis) : in_->programCount(axis)});
  }
  case OpKind::SmId:
    return set(op.result(), isCluster() ? fromOwners(op, {in_->smId()}) : Regs{in_->smId()});
  case OpKind::Clock:
    // Threads read different times, but a scalar is one number.
    return set(op.result(), fromOwners(op, {in_->globalTimer()}));
  case OpKind::ClusterRank:
    return set(op.result(), {in_->special(Special::ClusterRank)});
  case OpKind::GridWait:
  case OpKind::GridLaunch:
    in_->setSite(siteOf(op));
    if (target_.sm >= 90) // before, kernels of a stream do not overlap
      in_->gridDependency(op.kind == OpKind::GridWait);
    return;
  case OpKind::Range: {
    Regs r;
    for (unsigned i = 0; i < registersOf(op.result()->type); ++i)
      r.push_back(
          b_.CreateAdd(coordinate(op.result()->type.layout, 0, i), b_.getInt32(static_cast<uint32_t>(op.start()))));
    return set(op.result(), std::move(r));
  }
  case OpKind::Splat:
    return set(op.result(), Regs(registersOf(op.result()->type), scalar(op.operands[0])));
  case OpKind::Unsplat:
    return set(op.result(), {scalar(op.operands[0])});
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Permute:
  case OpKind::Reshape:
    return set(op.result(), renamed(op));
  case OpKind::Join:
  case OpKind::Cat:
    return set(op.result(), joined(op));
  case OpKind::Split:
    return split(op);
  case OpKind::ClusterGather:
    if (op.own())
      return sendParts(op);
    [[fallthrough]];
  case OpKind::Convert:
    return convert(op);
  case OpKind::ClusterOpen:
    return openExchanges(op);
  case OpKind::Exchange:
    return exchange(op);
  case OpKind::Load:
    return load(op);
  case OpKind::Store:
    return store(op);
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    return atomic(op);
  case OpKind::AsmEffect:
    return assembly(op);
  case OpKind::Gather:
    return gather(op);
  case OpKind::Histogram:
    return histogram(op);
  case OpKind::DescStore:
  case OpKind::DescReduce:
    return bulkStore(op);
  case OpKind::Dot:
    return dot(op);
  case OpKind::DotWait:
    return dotWait(op);
  case OpKind::ToShared:
    return toShared(op);
  case OpKind::SharedAlloc:
    return sharedAlloc(op);
  case OpKind::SharedSlot: {
    auto bytes = static_cast<uint32_t>(slotBytes(op.result()->type));
    return set(op.result(),
               {b_.CreateAdd(scalar(op.operands[0]), b_.CreateMul(scalar(op.operands[1]), b_.getInt32(bytes)))});
  }
  case OpKind::SharedLoad:
    in_->setSite(siteOf(op));
    return set(op.result(), loadShared(layoutOf(op.operands[0]), scalar(op.operands[0]), op.result()->type));
  case OpKind::SharedStore:
    in_->setSite(siteOf(op));
    return storeShared(layoutOf(op.operands[0]), scalar(op.operands[0]), get(op.operands[1]), op.operands[1]->type);
  case OpKind::AsyncCopy:
    return asyncCopy(op);
  case OpKind::BarrierAlloc:
    return barrierAlloc(op);
  case OpKind::BarrierWait:
    return barrierWait(op);
  case OpKind::BarrierArrive:
    return barrierArrive(op);
  case OpKind::BarrierExpect:
    in_->setSite(siteOf(op));
    return in_->mbarArriveExpect(scalar(op.operands[0]), b_.getInt32(static_cast<uint32_t>(op.bytes())), isCopier());
  case OpKind::TmaCopy:
    return tmaCopy(op);
  case OpKind::AsyncCommit:
    return in_->cpAsyncCommit();
  case OpKind::AsyncWait:
    in_->cpAsyncWait(static_cast<unsigned>(op.pending()));
    if (op.syncsWarp())
      in_->syncWarp();
    return;
  case OpKind::SharedBarrier:
    if (op.fence())
      in_->fenceProxyAsync();
    return barrier();
  case OpKind::ClusterArrive:
    return in_->clusterArrive(op.relaxed());
  case OpKind::ClusterWait:
    return in_->clusterWait();
  case OpKind::StoreWait:
    return in_->bulkWait(0, op.read());
  case OpKind::AsyncFence:
    return in_->fenceProxyAsync(true);
  case OpKind::BarrierFree:
    return barrierFree(op);
  case OpKind::Reduce:
    return reduce(op);
  case OpKind::Scan:
    return scan(op);
  case OpKind::For:
    return forLoop(op);
  case OpKind::While:
    return whileLoop(op);
  case OpKind::If:
    return ifElse(op);
  case OpKind::Partitions:
    return partitions(op);
  case OpKind::Print:
    return print(op);
  case OpKind::Assert:
    return assertion(op);
  case OpKind::Assume:
    b_.CreateAssumption(scalar(op.operands[0]));
    return;
  case OpKind::Return:
    b_.CreateRetVoid();
    return;
  case OpKind::Yield:
  case OpKind::Condition:
    return; // the owner reads their operands
  case OpKind::Call:
    fail(op, "calls must have been inlined");
    return;
  default:
    if (op.has(ir::traits::Elementwise))
      return set(op.result(), elementwise(op));
    fail(op, "there is no code for it");
    return;
  }
}

// ---- values

llvm::Type *Lowering::regType(const ir::Type &t) {
  return t.isShared ? b_.getInt32Ty()
         : t.isPtr  ? b_.getPtrTy()
         : vec_     ? vec_->elemType(t.elem)
                    : targets::VecEmitter{b_, vecTarget_}.elemType(t.elem);
}
llvm::Type *Lowering::memType(const ir::Type &t) {
  return !t.isPtr && t.elem == Elem::I1 ? b_.getInt8Ty() : regType(t);
}
V Lowering::toMemory(V x) { return x->getType()->isIntegerTy(1) ? b_.CreateZExt(x, b_.getInt8Ty()) : x; }
V Lowering::fromMemory(V x, const ir::Type &t) {
  return !t.isPtr && t.elem == Elem::I1 ? b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType())) : x;
}

const Regs &Lowering::get(const Value *v) const {
  auto it = values_.find(v);
  assert(it != values_.end() && "value has not been lowered");
  return it->second;
}

/// A statement with effects: once for each register of each thread, copies of elements included. A scalar is one
/// number, so what the first thread got is the others' too.
void Lowering::assembly(const Op &op) {
  std::vector<Regs> out(op.results.size());
  for (unsigned i = 0; i < registersOf(op.result()->type); ++i) {
    llvm::SmallVector<V, 4> args;
    for (const Value *v : op.operands)
      args.push_back(get(v)[i]);
    auto results = targets::emitAsm(b_, op, args, targets::AsmKind::Ptx);
    for (size_t k = 0; k < out.size(); ++k)
      out[k].push_back(results[k]);
  }
  if (!op.result()->type.isScalar()) {
    for (size_t k = 0; k < out.size(); ++k)
      set(op.results[k], std::move(out[k]));
    return;
  }
  V memory = scratch(op);
  for (unsigned k = 0; k < out.size(); ++k)
    set(op.results[k], fromOwners(op, out[k], op.results[k]->type, plus(memory, scalarStride * k)));
}

V Lowering::bitsOf(V x) {
  llvm::Type *t = x->getType();
  if (t->isPointerTy())
    return b_.CreatePtrToInt(x, b_.getInt64Ty());
  return t->isIntegerTy() ? x : b_.CreateBitCast(x, b_.getIntNTy(t->getPrimitiveSizeInBits()));
}

V Lowering::fromBits(V bits, llvm::Type *type) {
  if (type->isPointerTy())
    return b_.CreateIntToPtr(bits, type);
  return type->isIntegerTy() ? bits : b_.CreateBitCast(bits, type);
}

// ---- coordinates

/// Sum over the bits of lane and warp of the images `project` takes from their bases; `mask`: all bits that can be set.
V Lowering::gatherBits(const LinearLayout &l, const std::function<uint64_t(uint64_t)> &project, uint64_t &mask) {
  layout::ThreadMap map;
  for (auto [dim, images] : {std::pair(Dim::Lane, &map.lane), std::pair(Dim::Warp, &map.warp)})
    for (uint64_t basis : l.bases(dim))
      images->push_back(static_cast<uint32_t>(project(basis)));
  return threadValue(map, mask);
}

V Lowering::threadPart(uint16_t id, unsigned axis) {
  V &v = threadPart_[{id, axis}];
  if (!v) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
    const LinearLayout &l = m_.layouts[id - 1u];
    uint64_t mask;
    v = gatherBits(l, [&](uint64_t flat) { return l.outs().part(flat, layout::tensorDim(axis)); }, mask);
  }
  return v;
}

V Lowering::threadFlat(uint16_t id) {
  V &v = threadPart_[{id, ~0u}];
  if (!v) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
    uint64_t mask;
    v = gatherBits(m_.layouts[id - 1u], [](uint64_t flat) { return flat; }, mask);
  }
  return v;
}

V Lowering::combineIndex(V thread, uint64_t threadMask, uint64_t constant) {
  if (!constant)
    return thread;
  V c = b_.getInt32(static_cast<uint32_t>(constant));
  // Disjoint bits: an addition, which addressing modes and later passes can use.
  return threadMask & constant ? b_.CreateXor(thread, c) : b_.CreateAdd(thread, c, "", true, true);
}

V Lowering::coordinate(uint16_t id, unsigned axis, unsigned r) {
  const LinearLayout &l = m_.layouts[id - 1u];
  Dim d = layout::tensorDim(axis);
  uint64_t mask = 0;
  for (Dim in : {Dim::Lane, Dim::Warp})
    for (uint64_t basis : l.bases(in))
      mask |= l.outs().part(basis, d);
  return combineIndex(threadPart(id, axis), mask, l.outs().part(l.apply(r), d));
}

V Lowering::flatIndex(uint16_t id, unsigned r) {
  const LinearLayout &l = m_.layouts[id - 1u];
  uint64_t mask = 0;
  for (Dim in : {Dim::Lane, Dim::Warp})
    for (uint64_t basis : l.bases(in))
      mask |= basis;
  return combineIndex(threadFlat(id), mask, l.apply(r));
}

V Lowering::ownsElements(uint16_t id) {
  auto [it, isNew] = owners_.try_emplace(id, nullptr);
  if (!isNew)
    return it->second;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
  V owns = nullptr;
  if (id == 0) { // a scalar: everybody holds a copy
    owns = b_.CreateICmpEQ(tid_, b_.getInt32(0));
  } else {
    const LinearLayout &l = m_.layouts[id - 1u];
    if (const uint32_t free = l.freeMask(Dim::Lane) | l.freeMask(Dim::Warp) << 5)
      owns = b_.CreateICmpEQ(b_.CreateAnd(tid_, free), b_.getInt32(0)); // lane and warp with one instruction
  }
  return owners_[id] = owns;
}

// ---- elements in shared memory

V Lowering::sharedAt(V base, V index, unsigned bytes) {
  return b_.CreateAdd(base, b_.CreateMul(index, b_.getInt32(bytes)));
}

void Lowering::storeElement(V address, V x, const ir::Type &, V pred) { in_->storeShared(address, toMemory(x), pred); }

V Lowering::loadElement(V address, const ir::Type &t, V pred, V other) {
  return fromMemory(in_->loadShared(address, memType(t.scalarType()), pred, other ? toMemory(other) : nullptr), t);
}

} // namespace tegula::nvidia
