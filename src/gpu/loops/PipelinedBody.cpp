// The steps of PipelinedLoop that rewrite the body: filling and releasing stages, advancing slots, replacing loads by
// tiles, inserting waits.
#include "gpu/loops/PipelinedLoop.h"
#include "gpu/BlockEdit.h"
#include "gpu/loops/CopyLoads.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

StageBarriers makeStageBarriers(Builder &b, const StageBarrierCounts &c) {
  Type type = Type::shared({1}, Elem::I64, 0);
  auto make = [&](unsigned slots, unsigned arrivals) {
    return b.create1(OpKind::BarrierAlloc, {}, type, {{attr::slots, slots}, {attr::arrivals, arrivals}});
  };
  auto makeFull = [&] { return make(c.stages, c.fillers); };
  auto makeEmpty = [&](bool late, unsigned ctas) { return make(c.stages + c.hasSpare[late], c.consumers * ctas); };
  StageBarriers out;
  out.full = makeFull();
  out.empty = makeEmpty(false, c.ctas);
  if (c.ctas > 1) // after this one both are initialized for all CTAs
    out.empty->def->set(attr::ctas, c.ctas);
  if (c.hasLate) {
    out.lateFull = makeFull();
    out.lateEmpty = makeEmpty(true, 1);
  }
  return out;
}

bool PipelinedLoop::isShared(const Ring &r, unsigned ctas) const {
  return ctas > 1 && r.inStages && r.source->whole() && target_.canMulticast(r.tile, ctas);
}

Value *PipelinedLoop::carry(Value *init, std::string name) { return gpu::carry(module_, loop_, init, std::move(name)); }
void PipelinedLoop::carryOn(const Value *arg, Value *next) { gpu::carryOn(loop_, arg, next); }

void PipelinedLoop::fillStage(Value *slot, Value *freePhase, const std::function<Value *(Value *)> &of) {
  for (bool late : {false, true}) {
    auto isMine = [&](const Ring &r) { return r.inStages && r.isLate == late; };
    int64_t bytes = 0; // of block copies
    for (const Ring &r : rings_)
      // without the padding of slots
      bytes += isMine(r) && r.source->kind == OpKind::DescLoad ? r.tile.numel() * byteWidth(r.tile.elem) : 0;
    if (!anyRing(isMine))
      continue;
    if (freePhase)
      waitFor(barriers_.emptyOf(late), slot, freePhase, !gathers_);
    Value *full = barrierAt(barriers_.fullOf(late), slot);
    if (bytes)
      b_.create(OpKind::BarrierExpect, {&full, 1}, {}, {{attr::bytes, bytes}});
    for (const Ring &r : rings_) {
      if (!isMine(r))
        continue;
      const bool isBlock = r.source->kind == OpKind::DescLoad;
      std::vector<Value *> operands{b_.create1(OpKind::SharedSlot, {r.memory, slot}, r.tile)};
      if (isBlock)
        operands.push_back(full);
      for (size_t i = 0; i < r.source->operands.size() && (isBlock || i < 2); ++i) // masked-off elements are zero
        operands.push_back(of(r.source->operands[i]));
      b_.setLoc(r.source->loc);
      b_.setInlinedAt(r.source->inlinedAt);
      const OpKind kind = isBlock ? OpKind::TmaCopy : OpKind::AsyncCopy;
      Op *copy = b_.create(kind, operands, {}, r.source->attrsFor(kind));
      if (isShared(r, ctas_))
        copy->set(attr::multicast, ctas_);
    }
    if (gathers_) {
      Value *arrival[] = {full, b_.constInt(Type::scalar(Elem::I1), 1)};
      b_.create(OpKind::BarrierArrive, arrival, {}, {{attr::copied, true}});
    }
  }
}

void PipelinedLoop::carryStages(Value *slot, Value *phase) {
  for (const Ring &r : rings_)
    if (!slot_.count(r.slots))
      slot_[r.slots] = carry(barriers_.full && r.slots != stages_ ? b_.constI32(0) : slot, "slot");
  if (barriers_.full) {
    phase_ = carry(phase, "phase");
    last_ = carry(isReleasedLate() && usesSpare() ? b_.constI32(static_cast<int32_t>(stages_)) : slot, "last");
  }
}

/// Arrives for this warp at the empty barrier of a stage of the late rings or the others: in its own CTA, or in all
/// CTAs that fill the stage.
void PipelinedLoop::release(bool late, Value *stage, Value *when) {
  Value *operands[] = {barrierAt(barriers_.emptyOf(late), stage), when};
  Op *op = b_.create(OpKind::BarrierArrive, operands, {});
  if (ctas_ > 1)
    op->set(attr::ctas, ctas_);
}

void PipelinedLoop::nextStage() {
  if (barriers_.full) {
    Value *slot = slot_[stages_];
    for (bool late : {false, true}) {
      if (!barriers_.emptyOf(late))
        continue;
      if (!isReleasedLate(late))
        release(late, slot, b_.constInt(Type::scalar(Elem::I1), 1));
      else if (!isReleasedBehindWait())
        release(late, last_, hasLast());
    }
    carryOn(last_, slot);
    carryOn(phase_, flip(phase_, slot, stages_));
  }
  for (auto [slots, arg] : slot_)
    carryOn(arg, nextSlot(arg, slots, 1));
}

void PipelinedLoop::releaseBehindWait() {
  if (!isReleasedBehindWait())
    return;
  Block here;
  b_.setBlock(&here);
  b_.setLoc(loop_.loc);
  b_.setInlinedAt(loop_.inlinedAt);
  for (bool late : {false, true})
    if (isReleasedLate(late))
      release(late, last_, hasLast());
  splice(here, body_, positionOf(body_, oldWait_) + 1);
}

void PipelinedLoop::releaseLastStage() {
  for (bool late : {false, true})
    if (isReleasedLate(late))
      release(late, resultOf(last_),
              usesSpare() ? b_.constInt(Type::scalar(Elem::I1), 1) : runsAhead(b_, loop_, loop_.operands[0], 0));
}

void PipelinedLoop::useRings(size_t top) {
  for (const Ring &r : rings_)
    r.isCopied ? useCopies(r, top) : storeInTurn(r);
}

/// Does every thread read only elements that it has copied itself?
bool PipelinedLoop::readsOwnCopies(const Op &load) const {
  const Op *memory = load.operands[0]->def;
  while (memory && memory->kind != OpKind::SharedAlloc)
    memory = memory->operands[0]->def;
  for (const Ring &r : rings_)
    if (memory && r.memory->def == memory && r.isCopied && !r.inStages) {
      const Type &copied = r.source->operands[0]->type;
      const LinearLayout &l = module_.layoutOf(copied);
      return copied.layout == load.result()->type.layout && !l.freeMask(layout::Dim::Lane) &&
             !l.freeMask(layout::Dim::Warp);
    }
  return false;
}

/// Drops the first barrier of the body where a computed operand has another one before the dots. The second barrier
/// then serves the copies as well, if no operation before it reads elements that other threads copied.
void PipelinedLoop::dropFirstBarrier() {
  if (isDrained_ && turns_ == Turns::Single)
    return; // after it the only slot of a computed operand is free
  auto isBarrier = [](const Op *op) { return op->kind == OpKind::SharedBarrier; };
  auto first = std::find_if(body_.ops.begin(), body_.ops.end(), isBarrier);
  if (first == body_.ops.end())
    return;
  auto second = std::find_if(first + 1, body_.ops.end(), isBarrier);
  if (second == body_.ops.end() || (*second)->fence() < (*first)->fence())
    return;
  bool needed = std::any_of(first + 1, second, [&](const Op *op) {
    bool own = op->kind == OpKind::SharedLoad ? readsOwnCopies(*op) : op->has(traits::Pure) && op->kind != OpKind::Dot;
    return !own && op->kind != OpKind::SharedStore;
  });
  if (needed)
    return;
  for (auto op = body_.ops.begin(); op != first; ++op)
    if ((*op)->kind == OpKind::AsyncWait)
      (*op)->set(attr::syncsWarp, true);
  body_.ops.erase(first);
}

size_t PipelinedLoop::placeOfPrologue() const {
  return positionOf(*loop_.parent, &loop_) - (isBehindFirst_ ? 0 : opsOfFirstDot(loop_));
}

size_t PipelinedLoop::placeBehind() const {
  size_t at = positionOf(*loop_.parent, &loop_) + 1;
  return at + (loop_.parent->ops[at]->kind == OpKind::DotWait);
}

Value *PipelinedLoop::nextSlot(Value *slot, unsigned slots, int64_t distance) {
  Value *n = b_.constI32(static_cast<int32_t>(slots));
  Value *sum = b_.binary(OpKind::Add, slot, b_.constI32(static_cast<int32_t>(distance)));
  return b_.select(b_.cmp(CmpPred::Sge, sum, n), b_.binary(OpKind::Sub, sum, n), sum);
}

void PipelinedLoop::waitFor(Value *ring, Value *slot, Value *phase, bool one) {
  Value *operands[] = {barrierAt(ring, slot), phase};
  b_.create(OpKind::BarrierWait, operands, {}, {{attr::one, one}});
}

Value *PipelinedLoop::flip(Value *phase, Value *slot, unsigned slots) {
  Value *wraps = b_.cmp(CmpPred::Eq, slot, b_.constI32(static_cast<int32_t>(slots) - 1));
  return b_.select(wraps, b_.binary(OpKind::Xor, phase, b_.constI32(1)), phase);
}

/// Replaces the load by this iteration's tile.
void PipelinedLoop::useCopies(const Ring &r, size_t top) {
  Block here;
  b_.setBlock(&here);
  b_.setLoc(r.source->loc);
  b_.setInlinedAt(r.source->inlinedAt);
  Value *tile = b_.create1(OpKind::SharedSlot, {r.memory, slot_[r.slots]}, r.tile);
  splice(here, body_, top);
  if (!r.isStaged)
    useTile(module_, body_, r.source->result(), tile);
  if (auto user =
          std::find_if(body_.ops.begin(), body_.ops.end(), [&](const Op *op) { return uses(*op, r.source->result()); });
      user != body_.ops.end()) {
    // As late as possible: a widened operand leaves its registers before the next one needs them.
    b_.setBlock(&here);
    Value *loaded = b_.create1(OpKind::SharedLoad, {tile}, r.source->result()->type);
    splice(here, body_, static_cast<size_t>(user - body_.ops.begin()));
    replaceUses(body_, r.source->result(), loaded);
  }
  std::erase(body_.ops, r.source);
}

/// Stores a computed operand to the next slot, and puts a barrier before the dot that reads it.
void PipelinedLoop::storeInTurn(const Ring &r) {
  Block here;
  b_.setBlock(&here);
  b_.setLoc(r.source->loc);
  b_.setInlinedAt(r.source->inlinedAt);
  Value *tile = b_.create1(OpKind::SharedSlot, {r.memory, slot_[r.slots]}, r.tile);
  Value *operands[] = {tile, r.source->operands[0]};
  if (r.source == firstStore_)
    b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, false}});
  b_.create(OpKind::SharedStore, operands, {});
  // As early as possible; a single slot is free only after the waits.
  Op *made = r.source->operands[0]->def;
  for (; made && made->parent == &body_ && (made->kind == OpKind::Permute || made->kind == OpKind::Reshape);
       made = made->operands[0]->def)
    here.ops.insert(here.ops.begin(), made);
  if (turns_ != Turns::Single && made && made->parent == &body_) {
    std::erase_if(body_.ops,
                  [&](const Op *op) { return std::find(here.ops.begin(), here.ops.end(), op) != here.ops.end(); });
    splice(here, body_, positionOf(body_, made) + 1);
  } else {
    std::erase_if(here.ops, [&](const Op *op) { return op->parent == &body_; });
    splice(here, body_, positionOf(body_, r.source));
  }
  replaceUses(body_, r.source->result(), tile);
  std::erase(body_.ops, r.source);
  for (size_t i = positionOf(body_, tile->def); i < body_.ops.size(); ++i)
    if (body_.ops[i]->kind == OpKind::Dot &&
        std::find(body_.ops[i]->operands.begin(), body_.ops[i]->operands.end(), tile) != body_.ops[i]->operands.end()) {
      // Another operand's barrier may already follow this store.
      const auto from = body_.ops.begin() + static_cast<long>(positionOf(body_, tile->def)),
                 to = body_.ops.begin() + static_cast<long>(i);
      if (std::none_of(from, to, [](const Op *op) { return op->kind == OpKind::SharedBarrier && op->fence(); })) {
        b_.setBlock(&here);
        b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, true}});
        splice(here, body_, i);
      }
      break;
    }
}

void PipelinedLoop::insertWaits() {
  for (Op *dot : dots_)
    dot->set(attr::isAsync, true);
  for (const DotWaitPoint &w : waits_.waits) {
    Block &block = *w.before->parent;
    Op *op = wait(block, positionOf(block, w.before), w.pending(), w.values);
    replaceUses(block, w.values, op->results, positionOf(block, op) + 1);
    if (w.before == waits_.oldDone)
      oldWait_ = op;
  }
  if (waits_.atEnd.empty())
    return;
  // After the loop: waits for all dots.
  std::vector<Value *> results;
  for (size_t i = 0; i < loop_.results.size(); ++i)
    if (const Value *v = body_.terminator()->operands[i];
        v && std::find(waits_.yielded.begin(), waits_.yielded.end(), v) != waits_.yielded.end())
      results.push_back(loop_.results[i]);
  Block &outer = *loop_.parent;
  Op *op = wait(outer, positionOf(outer, &loop_) + 1, 0, results);
  op->set(attr::behindLoop, true);
  takeUsers(results, *op);
}

/// Creates the wait at `position`. The caller replaces the uses of `values`.
Op *PipelinedLoop::wait(Block &block, size_t position, int64_t pending, const std::vector<Value *> &values) {
  Block here;
  b_.setBlock(&here);
  std::vector<Type> types;
  for (const Value *v : values)
    types.push_back(v->type);
  b_.setLoc(block.ops[position < block.ops.size() ? position : block.ops.size() - 1]->loc);
  Op *op = b_.create(OpKind::DotWait, values, types, {{attr::pending, pending}});
  splice(here, block, position);
  return op;
}

} // namespace tegula::gpu
