// desc_store and desc_reduce: each warp brings its part of the tile to memory by bulk copies (BulkStores.h). Copies run
// on after the operation:
// the warp waits for them before it fills a buffer again.
#include "targets/nvidia/lower/Lower.h"

namespace tegula::nvidia {

using ir::OpKind;

// ---- blocks that begin before the tensor

/// Is an offset negative, where that cannot be excluded? A bulk write would be an illegal instruction then.
V Lowering::isInFront(const Op &op) {
  V any = nullptr;
  for (int64_t d : op.anySign()) {
    V is = b_.CreateICmpSLT(scalar(ir::descAccess(op).offsets[static_cast<size_t>(d)]), b_.getInt32(0));
    any = any ? b_.CreateOr(any, is) : is;
  }
  return any;
}

/// The way of such blocks: the lanes of a warp bring its step from the buffer to memory, 16 bytes (reductions: an
/// element) at a time. A loop of few instructions and registers: it stands beside every copy, and is hardly ever run.
void Lowering::writeInFront(const Op &op, const BulkStore &plan, V buffer, const Regs &start,
                            const std::vector<uint32_t> &at) {
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
    V is = b_.CreateICmpULT(c, scalar(a.extents[d])),
      way = b_.CreateMul(b_.CreateSExt(c, b_.getInt64Ty()), scalar(a.strides[d]));
    isInside = conjunction(isInside, is);
    offset = offset ? b_.CreateAdd(offset, way) : way;
  }
  V from = b_.CreateAdd(buffer, b_.CreateMul(index, b_.getInt32(each * bytes))),
    to = b_.CreateGEP(memType(t.scalarType()), scalar(a.base), offset);
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
  b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(count)), body, after)
      ->setMetadata(llvm::LLVMContext::MD_loop, loop);
  b_.SetInsertPoint(after);
}

// ---- the operation

const BulkStore *Lowering::bulkPlan(const Op &op) {
  std::unique_ptr<BulkStore> &plan = bulkPlans_[&op];
  const Value *v = op.operands.back();
  if (!plan)
    if (std::optional<BulkStore> made = planBulkStore(layoutOf(v), v->type.shape, v->type.elem))
      plan = std::make_unique<BulkStore>(*std::move(made));
  return plan.get();
}

void Lowering::bulkStore(const Op &op) {
  const BulkStore *found = bulkPlan(op);
  if (!found) {
    fail(op, "its layout gives the lanes of a warp no rectangle to store (assign-layouts converts to one that does)");
    return;
  }
  const BulkStore &plan = *found;
  ir::DescAccess a = ir::descAccess(op);
  const ir::Type &t = a.value->type;
  in_->setSite(siteOf(op));
  const SharedRange room = placeOf(op);
  const auto buffers = static_cast<unsigned>(op.buffers());
  if (!buffers || room.size() < plan.sharedBytes(buffers)) {
    fail(op, "it was given no shared memory");
    return;
  }
  // A warp's buffers are the same bytes for all stores that share the room: nobody else ever waits for them.
  // Operands of bulk copies are the same for the whole warp; the assembler makes a loop over the lanes of each copy
  // unless it knows that.
  auto uniform = [&](V x) {
    return target_.simulate || llvm::isa<llvm::Constant>(x) ? x : in_->shuffle(ShuffleMode::Idx, x, b_.getInt32(0));
  };
  V first = b_.CreateAdd(sharedAddress(room),
                         b_.CreateMul(warp_, b_.getInt32(static_cast<uint32_t>(room.size() / plan.warps)))),
    from = uniform(first);
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
  const bool isHeld = op.held(), goesOn = op.find(ir::attr::turn) != nullptr, isQuiet = op.quiet();
  auto turn = static_cast<size_t>(op.turn());
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
        in_->tmaReduce(mapAddress(maps_[&op]), at, plus(from, buffer + box.offset), atomOp(op.rmw()), pred);
    }
    in_->bulkCommit();
  }
}

} // namespace tegula::nvidia
