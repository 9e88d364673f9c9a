// Shared memory of a block: where tiles and scratch lie, when threads must meet, copies that bypass the registers.
#include "gpu/SharedNeeds.h"
#include "gpu/Tiles.h"
#include "targets/common/Frame.h"
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

/// A tile dies after the last operation of its own block that uses it, itself or in its regions. Atomics that nobody asks
/// for their old values are found on the same walk.
void Lowering::findLastUsers(const ir::Block &b) {
  for (const Op *op : b.ops) {
    for (const Value *v : op->operands)
      if (v->def && (v->def->kind == OpKind::AtomicRmw || v->def->kind == OpKind::AtomicCas)) {
        usedAtomics_.insert(v->def);
      } else if (v->type.isShared) {
        const Op *tile = tileOf(v), *user = op;
        while (user->parent != tile->parent)
          user = user->parent->parent->op;
        // A wgmma may read until it is waited for.
        if (auto at = std::find(tile->parent->ops.begin(), tile->parent->ops.end(), user) + 1; at != tile->parent->ops.end() && (*at)->kind == OpKind::DotWait)
          user = *at;
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
  for (const Op *tile : it->second) {
    releaseShared(tiles_[tile]);
    if (tile->kind == OpKind::BarrierAlloc)
      endBarriers(*tile, tiles_[tile]);
  }
}

/// Takes bytes for an operation. Whoever asks for too many learns at launch what took most at the worst moment.
SharedRange Lowering::takeShared(const Op &op, uint64_t bytes, uint32_t align, bool isNew) {
  waitForReaders();
  uint64_t peak = memory_.peak();
  SharedRange r = isNew ? memory_.takeNew(bytes, align) : memory_.take(bytes, align);
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

bool Lowering::wroteGlobal() const {
  return llvm::any_of(seen_, [](const Seen &s) { return s.writes; });
}

void Lowering::barrier() {
  // The producer has branched off: the barrier counts consumer warps only.
  if (isBehindProducer_)
    in_->namedBarrier(1, 32 * options_.numWarps);
  else
    in_->barrier();
  if (!isCluster())
    seen_.clear();
  memory_.metAtBarrier();
  for (SharedRange r : scratch_)
    memory_.touched(r, true);
}

void Lowering::leaveScratch() {
  in_->clusterArrive(false);
  hasLeft_ = true;
}

void Lowering::waitForReaders() {
  if (hasLeft_)
    in_->clusterWait();
  hasLeft_ = false;
}

void Lowering::meet() {
  if (!isCluster())
    return barrier();
  waitForReaders();
  in_->clusterArrive(false);
  in_->clusterWait();
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
  makeFree(r);
  scratch_.push_back(r);
  memory_.touched(r, true);
  in_->setSite(siteOf(op));
  return sharedAddress(r);
}

static bool othersTakeScratch(const ir::Block &b, const ir::Op &but) {
  return llvm::any_of(b.ops, [&](const ir::Op *op) {
    return (op != &but && takesScratch(*op)) || llvm::any_of(op->regions, [&](const ir::Region *r) { return othersTakeScratch(*r->block, but); });
  });
}

/// Tiles are made in `first` or behind it.
static bool allocatesFrom(const ir::Op &first) {
  auto allocates = [](auto &&self, const ir::Op &op) -> bool {
    return makesTiles(op) ||
           llvm::any_of(op.regions, [&](const ir::Region *r) { return llvm::any_of(r->block->ops, [&](const ir::Op *o) { return self(self, *o); }); });
  };
  const std::vector<ir::Op *> &ops = first.parent->ops;
  return std::any_of(std::find(ops.begin(), ops.end(), &first), ops.end(), [&](const ir::Op *op) { return allocates(allocates, *op); });
}

/// In a loop: bytes that nothing else ever has, so that warps need not meet, unless they might be missing later.
V Lowering::warpScratch(const Op &op, uint64_t bytes) {
  uint64_t left = target_.sharedLimit() - std::min<uint64_t>(memory_.peak(), target_.sharedLimit());
  const Op *loop = op.parent->parent->op;
  while (loop && loop->parent->parent->op)
    loop = loop->parent->parent->op;
  if (!loop || bytes + 16 > left || allocatesFrom(*loop) || (4 * bytes > left && othersTakeScratch(*loop->parent, op)))
    return scratch(op, bytes);
  in_->setSite(siteOf(op));
  in_->syncWarp(); // lanes may still read what they exchanged the last time
  return sharedAddress(takeShared(op, bytes, 16, true));
}

void Lowering::sharedAlloc(const Op &op) {
  const ir::Type &t = op.result()->type;
  SharedRange r = takeShared(op, slotBytes(t) * static_cast<uint64_t>(op.intAttr("slots", 1)), SharedMemory::tileAlign);
  tiles_[&op] = r;
  const Op *last = lastUser_.lookup(&op);
  endsAfter_[last ? last : &op].push_back(&op);
  // The ring is synchronized by the operations around its users; here by who had the bytes before, and by who wrote what will be copied: the
  // copies themselves are not looked at one by one.
  makeFree(r);
  if (op.kind == OpKind::SharedAlloc) {
    finishBeforeCopies();
    if (wroteGlobal()) {
      if (!meta_.tensorMaps.empty()) // copies by TMA see what was stored
        in_->fenceProxyAsync(true);
      meet();
    }
  }
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

// ---- mbarriers

void Lowering::barrierAlloc(const Op &op) {
  auto slots = static_cast<uint32_t>(op.intAttr("slots"));
  SharedRange r = takeShared(op, 8 * slots, 16);
  tiles_[&op] = r;
  const Op *last = lastUser_.lookup(&op);
  endsAfter_[last ? last : &op].push_back(&op);
  // TMA may read and write where threads have stored before.
  finishBeforeCopies();
  bool wrote = wroteGlobal();
  makeFree(r);
  in_->setSite(siteOf(op));
  V first = sharedAddress(r);
  byFirstThread([&](V pred) {
    for (uint32_t i = 0; i < slots; ++i)
      in_->mbarInit(b_.CreateAdd(first, b_.getInt32(8 * i)), static_cast<unsigned>(op.intAttr("arrivals")), pred);
    in_->fenceMbarrierInit(pred);
  });
  in_->fenceProxyAsync(wrote);
  wrote || op.intAttr("ctas") ? meet() : barrier();
  set(op.result(), {first});
}

/// The bytes become ordinary memory again once nobody waits or arrives any more.
void Lowering::endBarriers(const Op &alloc, SharedRange r) {
  alloc.intAttr("ctas") ? meet() : barrier();
  in_->setSite(siteOf(alloc));
  byFirstThread([&](V pred) {
    for (uint32_t at = r.begin; at < r.end; at += 8)
      in_->mbarInval(sharedAddress({at, at + 8}), pred);
  });
  memory_.touched(r, true);
}

void Lowering::barrierWait(const Op &op) {
  in_->setSite(siteOf(op));
  V bar = scalar(op.operands[0]), parity = scalar(op.operands[1]);
  if (op.intAttr("one") && !inProducer_)
    ifThen(isFirstThread(), [&] { in_->mbarWait(bar, parity); });
  else
    in_->mbarWait(bar, parity);
}

void Lowering::barrierArrive(const Op &op) {
  in_->setSite(siteOf(op));
  in_->syncWarp(); // the whole warp is done
  V bar = scalar(op.operands[0]), when = scalar(op.operands[1]);
  auto ctas = static_cast<unsigned>(op.intAttr("ctas", 1));
  if (ctas > 1) // each of the first lanes tells one CTA
    in_->mbarArrive(in_->mapShared(bar, b_.CreateAnd(lane_, ctas - 1)), b_.CreateAnd(when, b_.CreateICmpULT(lane_, b_.getInt32(ctas))), true);
  else
    in_->mbarArrive(bar, b_.CreateAnd(when, b_.CreateICmpEQ(lane_, b_.getInt32(0))));
}

// ---- the producer's warp

void Lowering::producer(const Op &op) {
  llvm::BasicBlock *warp = newBlock("producer"), *thread = newBlock("copies"), *idle = newBlock("idle"), *after = newBlock("consumers");
  in_->setSite(siteOf(op));
  auto registers = static_cast<unsigned>(op.intAttr("registers")), others = static_cast<unsigned>(op.intAttr("consumer_registers"));
  b_.CreateCondBr(b_.CreateICmpUGE(warp_, b_.getInt32(options_.numWarps)), warp, after);
  b_.SetInsertPoint(warp);
  if (registers)
    in_->setMaxRegisters(registers, false);
  b_.CreateCondBr(b_.CreateICmpEQ(tid_, b_.getInt32(32 * options_.numWarps)), thread, idle);
  b_.SetInsertPoint(idle);
  b_.CreateRetVoid();
  b_.SetInsertPoint(thread);
  SharedMemory memory = memory_;
  auto seen = seen_;
  inProducer_ = true;
  block(*op.region(0));
  inProducer_ = false;
  b_.CreateBr(idle);
  // What it has done says nothing of the threads that go on.
  memory_ = memory;
  seen_ = seen;
  isBehindProducer_ = true;
  b_.SetInsertPoint(after);
  if (others)
    in_->setMaxRegisters(others, true);
}

// ---- copies from global memory

void Lowering::findTensorMaps(const ir::Block &b) {
  for (const Op *op : b.ops) {
    bool isStore = op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce;
    if (isStore || op->kind == OpKind::TmaCopy) {
      TensorMap map = isStore ? tensorMapOf(*op, bulkPlan(*op).step) : tensorMapOf(*op);
      auto it = std::find(meta_.tensorMaps.begin(), meta_.tensorMaps.end(), map);
      maps_[op] = static_cast<unsigned>(it - meta_.tensorMaps.begin());
      if (it == meta_.tensorMaps.end())
        meta_.tensorMaps.push_back(std::move(map));
    }
    if (op->kind == OpKind::TmaCopy || op->kind == OpKind::AsyncCopy)
      copied_.push_back({baseArgument(op->operands[op->kind == OpKind::TmaCopy ? 2 : 1]), nullptr, false, nullptr, op->intAttr("whole") != 0});
    for (const ir::Region *r : op->regions)
      findTensorMaps(*r->block);
  }
}

V Lowering::mapAddress(unsigned map) {
  if (target_.simulate)
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(1), (meta_.argBytes + 63) / 64 * 64 + 128 * map);
  return function_->getArg(static_cast<unsigned>(source_->block()->args.size()) + map);
}

void Lowering::tmaCopy(const Op &op) {
  in_->setSite(siteOf(op));
  const Value *tile = op.operands[0];
  unsigned rank = tile->type.shape.rank();
  TmaTile boxes(op);
  if (boxes.merged)
    return rowCopies(op, boxes);
  V base = scalar(tile), first = nullptr, all = nullptr;
  if (boxes.parts > 1) { // to the same place in every CTA
    V cta = in_->special(Special::ClusterRank);
    base = b_.CreateAdd(base, b_.CreateMul(cta, b_.getInt32(boxes.partBytes())));
    first = b_.CreateMul(cta, b_.getInt32(static_cast<uint32_t>(boxes.shape[0]) / boxes.parts));
    all = b_.getInt16(static_cast<uint16_t>((1u << boxes.parts) - 1));
  }
  for (const TmaTile::Box &box : boxes.boxes()) {
    Regs at = boxAt(std::span(op.operands).subspan(3 + 2 * rank), box.at);
    if (first)
      at.back() = b_.CreateAdd(at.back(), first);
    in_->tmaLoad(plus(base, box.offset), mapAddress(maps_[&op]), at, scalar(op.operands[1]), all, isCopier());
  }
}

/// True in one of the threads that hold an index, and in equally many of each warp that does: a warp starts its copies one after the other.
V Lowering::startsRow(const LinearLayout &l) {
  uint32_t freeLanes = l.freeMask(layout::Dim::Lane), freeWarps = l.freeMask(layout::Dim::Warp), warpBit = 1;
  std::vector<uint32_t> images(5); // of the bits of the lane: which of the warp's must be the same
  for (unsigned i = 0; i < images.size(); ++i) {
    if (freeLanes >> i & 1)
      continue;
    while (warpBit <= freeWarps && !(freeWarps & warpBit))
      warpBit *= 2;
    images[i] = warpBit <= freeWarps ? warpBit : 0;
    warpBit *= 2;
  }
  uint64_t mask = 0;
  V is = b_.CreateICmpEQ(b_.CreateAnd(warp_, freeWarps), movedBits(images, lane_, 31, nullptr, mask));
  return b_.CreateAnd(is, b_.CreateICmpEQ(b_.CreateAnd(lane_, freeLanes), b_.getInt32(0)));
}

/// Rows by index: each is copied by a thread that has its index.
void Lowering::rowCopies(const Op &op, const TmaTile &tile) {
  const Value *rows = op.operands[7], *column = op.operands[8];
  V first = b_.CreateAShr(scalar(column), layout::log2Exact(tile.merged)), base = scalar(op.operands[0]), barrier = scalar(op.operands[1]);
  uint32_t copies = layoutOf(rows).freeMask(layout::Dim::Register);
  ifThen(startsRow(layoutOf(rows)), [&] {
    for (unsigned r = 0; r < get(rows).size(); ++r) {
      if (r & copies)
        continue;
      V to = b_.CreateAdd(base, b_.CreateMul(coordinate(rows->type.layout, 0, r), b_.getInt32(tile.box.back() * tile.bytes)));
      for (const TmaTile::Box &box : tile.boxes())
        in_->tmaLoad(plus(to, box.offset), mapAddress(maps_[&op]), {plus(first, box.at[1] / tile.merged), get(rows)[r]}, barrier, nullptr, nullptr);
    }
  });
}

V Lowering::plus(V x, uint32_t n) { return n ? b_.CreateAdd(x, b_.getInt32(n)) : x; }

/// Coordinates of a box, innermost first, as instructions want them.
Regs Lowering::boxAt(std::span<Value *const> offsets, const std::vector<uint32_t> &at) {
  Regs out;
  for (size_t d = offsets.size(); d-- > 0;)
    out.push_back(plus(scalar(offsets[d]), at[d]));
  return out;
}

void Lowering::asyncCopy(const Op &op) {
  const Value *tile = op.operands[0], *pointers = op.operands[1];
  const Regs *mask = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  in_->setSite(siteOf(op));
  copyToShared(layoutOf(tile), scalar(tile), tile->type, get(pointers), layoutOf(pointers), mask,
               static_cast<unsigned>(op.intAttr("vec", 1)), hints(op));
}

} // namespace tegula::nvidia
