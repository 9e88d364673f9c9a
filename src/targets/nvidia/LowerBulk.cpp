// desc_store and desc_reduce: each warp brings its part of the tile to memory by bulk copies (BulkStores.h). Copies run on behind the operation;
// here stands who waits for them: the warp before it fills a buffer again, whoever uses their bytes of shared memory or of global memory
// next, and the kernel's end.
#include "gpu/BlockStores.h"
#include "gpu/SharedNeeds.h"
#include "ir/Builder.h"
#include "targets/nvidia/Lower.h"

namespace tegula::nvidia {

using ir::OpKind;

// ---- plans

const BulkStore &Lowering::bulkPlan(const Op &op) {
  std::unique_ptr<BulkStore> &plan = bulkPlans_[&op];
  if (!plan) {
    const Value *v = op.operands.back();
    // Layouts without a plan were converted (AssignLayouts).
    plan = std::make_unique<BulkStore>(*planBulkStore(layoutOf(v), v->type.shape, v->type.elem));
  }
  return *plan;
}

// ---- buffers

/// Room for the buffers of all bulk stores in a loop, for as long as it runs: so that copies of one iteration go on in the next. Not if the
/// loop wants the memory for tiles of its own.
void Lowering::holdBuffers(const Op &loop) {
  if (held_)
    return;
  uint64_t one = 0;
  bool other = false, scratch = false;
  auto look = [&](auto &&self, const ir::Block &b) -> void {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce)
        one = std::max(one, bulkPlan(*op).sharedBytes(1));
      other |= makesTiles(*op);
      scratch |= takesScratch(*op);
      for (const ir::Region *r : op->regions)
        self(self, *r->block);
    }
  };
  for (const ir::Region *r : loop.regions)
    look(look, *r->block);
  if (!one)
    return;
  constexpr uint64_t usualScratch = 8192;
  uint64_t limit = target_.sharedLimit(), top = memory_.top() + SharedMemory::tileAlign + (scratch ? usualScratch : 0);
  if (other || top + one > limit) {
    bulkReads_.push_back({0, UINT32_MAX}); // of the iteration before
    return;
  }
  held_ = takeShared(loop, top + 2 * one <= limit ? 2 * one : one, SharedMemory::tileAlign);
  heldBy_ = &loop;
  makeFree(*held_);
}

void Lowering::releaseBuffers(const Op &loop) {
  if (heldBy_ != &loop)
    return;
  bulkReads_.push_back(*held_);
  releaseShared(*held_);
  held_.reset();
  heldBy_ = nullptr;
}

/// Nobody uses these bytes any more: bulk stores have read them, threads have met.
void Lowering::makeFree(SharedRange r) {
  bool isRead = llvm::any_of(bulkReads_, [&](SharedRange b) { return b.begin < r.end && r.begin < b.end; });
  if (isRead) {
    in_->bulkWait(0, true);
    bulkReads_.clear();
  }
  if (isRead || memory_.needsBarrier(r, true))
    barrier();
}

// ---- order in global memory

/// What this thread has written by bulk stores is there, and bulk copies see what went by pointers instead.
void Lowering::waitForBulkWrites() {
  in_->bulkWait(0, false);
  if (llvm::any_of(bulkWrites_, [](const BulkWrite &w) { return w.op->find("any_sign") != nullptr; }))
    in_->fenceProxyAsync(true);
}

/// Everything that bulk stores of this program have written is there for all its threads.
void Lowering::finishBulkStores() {
  if (bulkWrites_.empty())
    return;
  waitForBulkWrites();
  bulkWrites_.clear();
  bulkReads_.clear();
  meet();
}

/// The same before asynchronous copies are set up, if one of the kernel may read what was written.
void Lowering::finishBeforeCopies() {
  if (llvm::any_of(bulkWrites_, [&](const BulkWrite &w) { return llvm::any_of(copied_, [&](const Seen &s) { return mayBeSame(s.arg, w.arg); }); }))
    finishBulkStores();
}

bool Lowering::mayBeSame(int a, int b) { return a < 0 || b < 0 || a == b; }

/// Do the blocks of the store start at multiples of their extents?
bool Lowering::isTiling(const Op &op) const {
  if (op.find("tiled")) // of parts: PartitionCluster.cpp
    return op.intAttr("tiled") != 0;
  ir::DescAccess a = ir::descAccess(op);
  for (unsigned d = 0; d < a.rank(); ++d)
    if (facts_.of(a.offsets[d]).axes[0].divisibility % a.block[d] != 0)
      return false;
  return true;
}

/// The blocks of both stores are tiles of one grid: two of them are the same, and then each byte is written by the same thread both times, or
/// have nothing in common.
bool Lowering::haveSameTiles(const Op &x, const Op &y) const {
  if (&x == &y)
    return isTiling(x);
  return haveSameBlocks(x, y) && isTiling(x) && isTiling(y);
}

/// In one iteration: offsets that differ by a constant.
static bool areApart(const ir::Op &x, const ir::Op &y) {
  auto split = [](const ir::Value *v) {
    int64_t constant = 0;
    while (v->def && v->def->kind == OpKind::Add)
      if (std::optional<int64_t> c = ir::constantInt(v->def->operands[1])) {
        constant += *c;
        v = v->def->operands[0];
      } else {
        break;
      }
    if (std::optional<int64_t> c = ir::constantInt(v))
      return std::pair<const ir::Value *, int64_t>(nullptr, constant + *c);
    return std::pair(v, constant);
  };
  ir::DescAccess a = ir::descAccess(x), b = ir::descAccess(y);
  for (unsigned d = 0; d < a.rank(); ++d)
    if (auto p = split(a.offsets[d]), q = split(b.offsets[d]); p.first == q.first && p.second != q.second)
      return true;
  return false;
}

void Lowering::addBulkWrite(const BulkWrite &w) {
  if (llvm::none_of(bulkWrites_, [&](const BulkWrite &b) { return b.op == w.op && b.isHere == w.isHere && b.isDone <= w.isDone; }))
    bulkWrites_.push_back(w);
}

/// True if all earlier copies of this thread are done.
bool Lowering::orderBulk(const Op &op) {
  int arg = baseArgument(op.operands[0]);
  bool isWhole = op.intAttr("whole") != 0, wait = false, together = false;
  bool isBehind = llvm::any_of(seen_, [&](const Seen &s) { return mayBeSame(s.arg, arg) || (isWhole && s.isWhole); });
  isBehind |= isCopied(arg, isWhole);
  // Behind plain accesses of other threads, which another path to memory does not see by itself.
  if (isBehind)
    in_->fenceProxyAsync(true);
  for (const BulkWrite &w : bulkWrites_) {
    bool commutes = op.kind == OpKind::DescReduce && w.op->kind == OpKind::DescReduce && op.strAttr("rmw") == w.op->strAttr("rmw");
    if (!mayBeSame(w.arg, arg) || commutes)
      continue;
    bool sameTiles = haveSameTiles(op, *w.op);
    if (sameTiles && (w.isDone || (w.isHere && areApart(op, *w.op))))
      continue;
    wait = true;
    together |= !sameTiles;
  }
  if (wait) {
    waitForBulkWrites();
    for (BulkWrite &w : bulkWrites_)
      w.isDone = true;
  }
  if (together)
    bulkWrites_.clear();
  if (isBehind || together)
    meet();
  addBulkWrite({arg, &op, true});
  return wait;
}

// ---- blocks that begin in front of the tensor

/// Is an offset negative, where that cannot be excluded? A bulk write would be an illegal instruction then.
V Lowering::isInFront(const Op &op) {
  V any = nullptr;
  for (int64_t d : op.listAttr("any_sign")) {
    V is = b_.CreateICmpSLT(scalar(ir::descAccess(op).offsets[static_cast<size_t>(d)]), b_.getInt32(0));
    any = any ? b_.CreateOr(any, is) : is;
  }
  return any;
}

/// The way of such blocks: the lanes of a warp bring its step from the buffer to memory, 16 bytes (reductions: an element) at a time. A loop of few
/// instructions and registers: it stands beside every copy, and is hardly ever run.
void Lowering::writeInFront(const Op &op, const BulkStore &plan, V buffer, const Regs &start, const std::vector<uint32_t> &at) {
  ir::DescAccess a = ir::descAccess(op);
  const ir::Type &t = a.value->type;
  unsigned bytes = ir::byteWidth(t.elem), each = op.kind == OpKind::DescStore ? 16 / bytes : 1;
  uint32_t count = static_cast<uint32_t>(plan.step.shape.numel()) / each;
  llvm::BasicBlock *before = b_.GetInsertBlock(), *body = newBlock("in_front"), *after = newBlock("in_front.end");
  b_.CreateCondBr(b_.CreateICmpULT(lane_, b_.getInt32(count)), body, after);
  b_.SetInsertPoint(body);
  llvm::PHINode *index = b_.CreatePHI(b_.getInt32Ty(), 2);
  index->addIncoming(lane_, before);
  V isInside = nullptr, offset = nullptr;
  for (unsigned d = 0; d < a.rank(); ++d) {
    std::vector<uint32_t> images; // of the bits of the index
    std::span<const uint64_t> bases = plan.memory.bases(layout::Dim::Offset);
    for (uint64_t basis : bases.subspan(layout::log2Exact(each)))
      images.push_back(static_cast<uint32_t>(plan.memory.outs().part(basis, layout::tensorDim(d))));
    uint64_t mask = 0;
    V c = b_.CreateAdd(plus(start[d], at[d]), movedBits(images, index, count - 1, nullptr, mask));
    V is = b_.CreateICmpULT(c, scalar(a.extents[d])), way = b_.CreateMul(b_.CreateSExt(c, b_.getInt64Ty()), scalar(a.strides[d]));
    isInside = conjunction(isInside, is);
    offset = offset ? b_.CreateAdd(offset, way) : way;
  }
  V from = b_.CreateAdd(buffer, b_.CreateMul(index, b_.getInt32(each * bytes))), to = b_.CreateGEP(memType(t.scalarType()), scalar(a.base), offset);
  if (op.kind == OpKind::DescStore)
    in_->storeGlobal(to, in_->loadShared(from, llvm::FixedVectorType::get(b_.getInt32Ty(), 4)), isInside);
  else
    reduceElement(op, to, loadElement(from, t), isInside);
  V next = b_.CreateAdd(index, b_.getInt32(32));
  index->addIncoming(next, b_.GetInsertBlock());
  llvm::LLVMContext &c = out_.getContext();
  llvm::MDNode *keep = llvm::MDNode::get(c, llvm::MDString::get(c, "llvm.loop.unroll.disable"));
  llvm::MDNode *loop = llvm::MDNode::getDistinct(c, {nullptr, keep});
  loop->replaceOperandWith(0, loop);
  b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(count)), body, after)->setMetadata(llvm::LLVMContext::MD_loop, loop);
  b_.SetInsertPoint(after);
}

// ---- the operation

void Lowering::bulkStore(const Op &op) {
  const BulkStore &plan = bulkPlan(op);
  ir::DescAccess a = ir::descAccess(op);
  const ir::Type &t = a.value->type;
  in_->setSite(siteOf(op));
  bool isQuiet = orderBulk(op);
  unsigned buffers = plan.steps.size() > 1 ? 2 : 1;
  bool isHeld = held_.has_value();
  SharedRange room;
  if (isHeld) {
    room = *held_;
    if (plan.sharedBytes(buffers) > room.size())
      buffers = 1;
  } else {
    if (memory_.top() + SharedMemory::tileAlign + plan.sharedBytes(buffers) > target_.sharedLimit())
      buffers = 1;
    room = takeShared(op, plan.sharedBytes(buffers), SharedMemory::tileAlign);
    makeFree(room);
  }
  // A warp's buffers are the same bytes for all stores that share the room: nobody else ever waits for them.
  // Operands of bulk copies are the same for the whole warp; the assembler makes a loop over the lanes of each copy unless it knows that.
  auto uniform = [&](V x) { return target_.simulate || llvm::isa<llvm::Constant>(x) ? x : in_->shuffle(ShuffleMode::Idx, x, b_.getInt32(0)); };
  V first = b_.CreateAdd(sharedAddress(room), b_.CreateMul(warp_, b_.getInt32(room.size() / plan.warps))), from = uniform(first);
  V holdsPart = plan.idleWarps ? b_.CreateICmpEQ(b_.CreateAnd(warp_, plan.idleWarps), b_.getInt32(0)) : b_.getTrue();
  if (V here = isDoneHere(op))
    holdsPart = b_.CreateAnd(holdsPart, here);
  V pred = b_.CreateAnd(b_.CreateICmpEQ(lane_, b_.getInt32(0)), holdsPart), inFront = isInFront(op);
  if (inFront)
    pred = b_.CreateAnd(pred, b_.CreateNot(inFront));
  Regs start; // of the warp's part
  for (unsigned d = 0; d < a.rank(); ++d) {
    layout::ThreadMap map;
    for (uint64_t basis : layoutOf(a.value).bases(layout::Dim::Warp))
      map.warp.push_back(layoutOf(a.value).outs().part(basis, layout::tensorDim(d)));
    uint64_t mask;
    V mine = threadValue(map, mask);
    start.push_back(uniform(mask ? b_.CreateAdd(scalar(a.offsets[d]), mine) : scalar(a.offsets[d])));
  }
  const Regs &value = get(a.value);
  // The same buffers in the same order as the store just before, or nobody knows which are in use.
  bool goesOn = isHeld && turns_.bytes == plan.bytes && turns_.buffers == buffers;
  size_t turn = goesOn ? turns_.next : 0;
  for (size_t i = 0; i < plan.steps.size(); ++i, ++turn) {
    const BulkStore::Step &step = plan.steps[i];
    // The buffer is free once the copies before the last `buffers` - 1 have read theirs.
    if (i >= buffers || (isHeld && (i == 0 || goesOn))) {
      if (i >= buffers || !isQuiet)
        in_->bulkWait(i >= buffers || goesOn ? buffers - 1 : 0, true);
      in_->syncWarp();
    }
    uint32_t buffer = static_cast<uint32_t>(turn % buffers) * plan.bytes;
    Regs part;
    for (uint16_t r : step.registers)
      part.push_back(value[r]);
    storeShared(plan.memory, plus(first, buffer), part, plan.registers, t);
    in_->fenceProxyAsync();
    in_->syncWarp();
    if (inFront)
      ifThen(b_.CreateAnd(inFront, holdsPart), [&] { writeInFront(op, plan, plus(first, buffer), start, step.at); });
    for (const TmaTile::Box &box : plan.step.boxes()) {
      Regs at;
      for (unsigned d = a.rank(); d-- > 0;)
        at.push_back(plus(start[d], step.at[d] + box.at[d]));
      if (op.kind == OpKind::DescStore)
        in_->tmaStore(mapAddress(maps_[&op]), at, plus(from, buffer + box.offset), pred);
      else
        in_->tmaReduce(mapAddress(maps_[&op]), at, plus(from, buffer + box.offset), atomOp(op.strAttr("rmw")), pred);
    }
    in_->bulkCommit();
  }
  storesInBulk_ = true;
  turns_ = {isHeld ? plan.bytes : 0, buffers, turn};
  if (isHeld)
    return;
  bulkReads_.push_back(room);
  releaseShared(room);
  memory_.touched(room, true);
}

} // namespace tegula::nvidia
