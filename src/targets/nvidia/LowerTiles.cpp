// Shared memory of a block: where tiles and scratch lie, when threads must meet, copies that bypass the registers.
#include "targets/common/Frame.h"
#include "targets/nvidia/DotChoice.h"
#include "targets/nvidia/Lower.h"
#include <algorithm>

namespace tegula::nvidia {

using ir::OpKind;

// ---- lifetimes

const ir::Op *Lowering::tileOf(const Value *v) {
  while (v->def && (v->def->kind == OpKind::SharedSlot || v->def->kind == OpKind::Permute || v->def->kind == OpKind::Reshape))
    v = v->def->operands[0];
  return v->def;
}

/// A tile dies after the last operation of its own block that uses it, itself or in its regions.
void Lowering::findLastUsers(const ir::Block &b) {
  for (const Op *op : b.ops) {
    for (const Value *v : op->operands)
      if (v->type.isShared) {
        const Op *tile = tileOf(v), *user = op;
        while (user->parent != tile->parent)
          user = user->parent->parent->op;
        lastUser_[tile] = user;
      }
    for (const ir::Region *r : op->regions)
      findLastUsers(*r->block);
  }
}

void Lowering::releaseAfter(const Op &op) {
  for (SharedRange r : scratch_)
    releaseShared(r);
  scratch_.clear();
  auto it = endsAfter_.find(&op);
  if (it == endsAfter_.end())
    return;
  for (const Op *tile : it->second)
    releaseShared(tiles_[tile]);
}

/// Takes bytes for an operation. Whoever asks for too many learns at launch what took most at the worst moment.
SharedRange Lowering::takeShared(const Op &op, uint64_t bytes, uint32_t align) {
  uint64_t peak = memory_.peak();
  SharedRange r = memory_.take(bytes, align);
  live_.push_back({&op, r});
  if (memory_.peak() > peak) {
    meta_.sharedTiles.clear();
    for (const auto &[owner, range] : live_) {
      targets::Site at = targets::siteAt(m_, *owner, targets::Site::Kind::Other, source_->name);
      meta_.sharedTiles.push_back({range.size(), std::string(ir::info(owner->kind).name), at.file, at.line, at.column});
    }
    llvm::sort(meta_.sharedTiles.begin(), meta_.sharedTiles.end(), [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  }
  return r;
}

void Lowering::releaseShared(SharedRange r) {
  memory_.release(r);
  llvm::erase_if(live_, [&](const auto &l) { return l.second.begin == r.begin; });
}

// ---- barriers and places

void Lowering::barrier() {
  in_->barrier();
  seen_.clear();
  memory_.metAtBarrier();
  for (SharedRange r : scratch_)
    memory_.touched(r, true);
}

/// A little memory lies elsewhere rather than wait for its last users: two reductions in a row take turns, and meet half as often.
V Lowering::scratch(const Op &op, uint64_t bytes) {
  constexpr uint32_t little = 1024;
  SharedRange r = takeShared(op, bytes, 16);
  if (memory_.needsBarrier(r, true) && r.end <= little) {
    SharedRange other = takeShared(op, bytes, 16);
    bool isBetter = other.end <= little && !memory_.needsBarrier(other, true);
    releaseShared(isBetter ? r : other);
    r = isBetter ? other : r;
  }
  if (memory_.needsBarrier(r, true))
    barrier();
  scratch_.push_back(r);
  memory_.touched(r, true);
  in_->setSite(siteOf(op));
  return sharedAddress(r);
}

void Lowering::sharedAlloc(const Op &op) {
  const ir::Type &t = op.result()->type;
  SharedRange r = takeShared(op, slotBytes(t) * static_cast<uint64_t>(op.intAttr("slots", 1)), SharedMemory::tileAlign);
  tiles_[&op] = r;
  const Op *last = lastUser_.lookup(&op);
  endsAfter_[last ? last : &op].push_back(&op);
  // The ring is synchronized by the operations around its users; here by who had the bytes before.
  if (memory_.needsBarrier(r, true))
    barrier();
  set(op.result(), {sharedAddress(r)});
}

/// The store, and the fence that lets wgmma see it. Users bring the barrier (LowerDot.cpp).
void Lowering::toShared(const Op &op) {
  sharedAlloc(op);
  const Value *from = op.operands[0];
  in_->setSite(siteOf(op));
  storeShared(layoutOf(op.result()), scalar(op.result()), get(from), from->type);
  in_->fenceProxyAsync();
  memory_.touched(tiles_[&op], true);
}

// ---- copies from global memory

void Lowering::asyncCopy(const Op &op) {
  const Value *tile = op.operands[0], *pointers = op.operands[1];
  const Regs *mask = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  in_->setSite(siteOf(op));
  copyToShared(layoutOf(tile), scalar(tile), tile->type, get(pointers), layoutOf(pointers), mask,
               static_cast<unsigned>(op.intAttr("vec", 1)), hints(op));
}

} // namespace tegula::nvidia
