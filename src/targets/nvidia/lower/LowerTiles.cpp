// Shared memory of a block: barriers, tiles, copies that bypass the registers.
#include "gpu/shared/Tiles.h"
#include "targets/nvidia/lower/LowerPart.h"
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace tegula::nvidia {

using ir::OpKind;

// ---- threads synchronize

void Lowering::barrier() {
  if (partition_)
    in_->namedBarrier(static_cast<unsigned>(partitions_->barriers()[*partition_]),
                      32 * static_cast<unsigned>(partitions_->warps()[*partition_]));
  else
    in_->barrier();
}

void Lowering::meet() {
  if (!isCluster())
    return barrier();
  in_->clusterArrive(false);
  in_->clusterWait();
}

// ---- places

V Lowering::scratch(const Op &op) {
  SharedRange r = placeOf(op);
  if (!r.size())
    fail(op, "it was given no shared memory");
  if (op.meet())
    barrier();
  in_->setSite(siteOf(op));
  if (op.own())
    in_->syncWarp(); // lanes may still read what they exchanged the last time
  return sharedAddress(r);
}

// ---- tiles

void Lowering::sharedAlloc(const Op &op) {
  if (!placeOf(op).size())
    fail(op, "it was given no shared memory");
  set(op.result(), {sharedAddress(placeOf(op))});
}

/// The store, and the fence that lets wgmma see it. A barrier stands before its users.
void Lowering::toShared(const Op &op) {
  sharedAlloc(op);
  const Value *from = op.operands[0];
  in_->setSite(siteOf(op));
  storeShared(layoutOf(op.result()), scalar(op.result()), get(from), from->type);
  if (std::ranges::any_of(users_.of(op.result()), [](const Op *user) { return user->kind != OpKind::Gather; }))
    in_->fenceProxyAsync();
}

// ---- mbarriers

void Lowering::barrierAlloc(const Op &op) {
  in_->setSite(siteOf(op));
  sharedAlloc(op);
  V first = scalar(op.result());
  for (uint32_t at = 0; at < placeOf(op).size(); at += 8)
    begun_.push_back({b_.CreateAdd(first, b_.getInt32(at)), static_cast<unsigned>(op.arrivals())});
  if (op.more())
    return;
  byFirstThread([&](V pred) { in_->mbarInit(begun_, pred); });
  begun_.clear();
  in_->fenceProxyAsync(op.global());
}

void Lowering::barrierFree(const Op &op) {
  const Op &alloc = *tileOf(op.operands[0]);
  SharedRange r = placeOf(alloc);
  in_->setSite(siteOf(alloc));
  std::vector<V> bars;
  for (uint64_t at = r.begin; at < r.end; at += 8)
    bars.push_back(sharedAddress({at, at + 8}));
  byFirstThread([&](V pred) { in_->mbarInval(bars, pred); });
}

void Lowering::barrierWait(const Op &op) {
  in_->setSite(siteOf(op));
  V bar = scalar(op.operands[0]), parity = scalar(op.operands[1]);
  const unsigned copiers = copiersOf(op).warps;
  // by whole warps: after a branch that divides a warp, ptxas keeps nothing in uniform registers
  if (op.one() && !isElected_ && copiers < options_.numWarps)
    ifThen(copiers == 1 ? b_.CreateICmpEQ(warp_, b_.getInt32(0)) : b_.CreateICmpULT(uniformWarp_, b_.getInt32(copiers)),
           [&] { in_->mbarWait(bar, parity); });
  else
    in_->mbarWait(bar, parity);
}

void Lowering::barrierArrive(const Op &op) {
  in_->setSite(siteOf(op));
  if (op.copied())
    return in_->cpAsyncMbarArrive(scalar(op.operands[0]));
  in_->syncWarp(); // the whole warp is done
  V bar = scalar(op.operands[0]), when = scalar(op.operands[1]);
  auto ctas = static_cast<unsigned>(op.ctas());
  if (ctas > 1) // each of the first lanes tells one CTA
    in_->mbarArrive(in_->mapShared(bar, b_.CreateAnd(lane_, ctas - 1)),
                    b_.CreateAnd(when, b_.CreateICmpULT(lane_, b_.getInt32(ctas))), true);
  else
    in_->mbarArrive(bar, b_.CreateAnd(when, b_.CreateICmpEQ(lane_, b_.getInt32(0))));
}

// ---- partitions of the warps

/// The first partition goes on where the kernel was; the dedicated warps after it branch off, each to its region, and
/// end there.
void Lowering::partitions(const Op &op) {
  const auto count = static_cast<unsigned>(op.regions.size());
  llvm::BasicBlock *dedicated = newBlock("dedicated"), *run = newBlock("partition"), *end = newBlock("end"),
                   *first = newBlock("partition0");
  in_->setSite(siteOf(op));
  b_.CreateCondBr(b_.CreateICmpUGE(warp_, b_.getInt32(options_.numWarps)), dedicated, first);
  b_.SetInsertPoint(end);
  b_.CreateRetVoid();
  b_.SetInsertPoint(dedicated);
  for (unsigned n = 1, begin = options_.numWarps; n < count; ++n) {
    const unsigned behind = begin + static_cast<unsigned>(op.warps()[n]);
    llvm::BasicBlock *others = n + 1 < count ? newBlock("dedicated") : nullptr;
    if (others) {
      llvm::BasicBlock *here = newBlock("chosen");
      b_.CreateCondBr(b_.CreateICmpULT(warp_, b_.getInt32(behind)), here, others);
      b_.SetInsertPoint(here);
    }
    partition(op, n, begin, n == 1 ? run : newBlock("partition"), end);
    b_.SetInsertPoint(others);
    begin = behind;
  }
  b_.SetInsertPoint(first);
  partition(op, 0, 0, nullptr, nullptr);
}

/// Region `n`, whose warps begin at `begin`: from here on, or (not null) in block `run`, for the threads that run it,
/// and then to `end`.
void Lowering::partition(const Op &op, unsigned n, unsigned begin, llvm::BasicBlock *run, llvm::BasicBlock *end) {
  partition_ = n;
  isElected_ = !op.elected().empty() && op.elected()[n];
  if (std::span<const int64_t> registers = op.registers(), warps = op.warps(); !registers.empty()) {
    // They begin with equal shares of what all have together.
    int64_t all = std::inner_product(registers.begin(), registers.end(), warps.begin(), int64_t{0});
    in_->setMaxRegisters(static_cast<unsigned>(registers[n]),
                         registers[n] * std::accumulate(warps.begin(), warps.end(), int64_t{0}) > all);
  }
  if (!run)
    return block(*op.region(n));
  if (isElected_)
    b_.CreateCondBr(b_.CreateICmpEQ(tid_, b_.getInt32(32 * begin)), run, end);
  else
    b_.CreateBr(run);
  // Threads and warps count from the region's own; what was computed from them for another one does not hold here.
  const V tid = tid_, warp = warp_, uniformWarp = uniformWarp_;
  decltype(threadPart_) parts;
  decltype(owners_) owners;
  if (!isElected_) {
    b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
    tid_ = b_.CreateSub(tid_, b_.getInt32(32 * begin));
    warp_ = b_.CreateSub(warp_, b_.getInt32(begin));
    if (uniformWarp_)
      uniformWarp_ = b_.CreateSub(uniformWarp_, b_.getInt32(begin));
    std::swap(parts, threadPart_);
    std::swap(owners, owners_);
  }
  b_.SetInsertPoint(run);
  block(*op.region(n));
  b_.CreateBr(end);
  if (!isElected_) {
    std::swap(parts, threadPart_);
    std::swap(owners, owners_);
  }
  tid_ = tid;
  warp_ = warp;
  uniformWarp_ = uniformWarp;
}

// ---- copies from global memory

void Lowering::findTensorMaps(const ir::Block &b) {
  for (const Op *op : b.ops) {
    bool isStore = op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce;
    const BulkStore *plan = isStore ? bulkPlan(*op) : nullptr; // none: bulkStore() says so
    if (plan || op->kind == OpKind::TmaCopy) {
      TensorMap map = plan ? tensorMapOf(*op, plan->step) : tensorMapOf(*op);
      auto it = std::find(meta_.tensorMaps.begin(), meta_.tensorMaps.end(), map);
      maps_[op] = static_cast<unsigned>(it - meta_.tensorMaps.begin());
      if (it == meta_.tensorMaps.end())
        meta_.tensorMaps.push_back(std::move(map));
    }
    // Of partitions those first that are lowered first.
    for (size_t r = 0, n = op->regions.size(); r < n; ++r)
      findTensorMaps(*op->region(static_cast<unsigned>(op->kind == OpKind::Partitions ? (r + 1) % n : r)));
  }
}

V Lowering::mapAddress(unsigned map) {
  if (target_.simulate)
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(1), (meta_.argBytes + 63) / 64 * 64 + 128 * map);
  return function_->getArg(static_cast<unsigned>(source_->block()->args.size()) + map);
}

struct Lowering::BlockCopies : Part {
  using Part::Part;
  void tmaCopy(const Op &op), rowCopies(const Op &op, const TmaTile &tile);
  V startsRow(const LinearLayout &indices);
};

void Lowering::tmaCopy(const Op &op) { BlockCopies(*this).tmaCopy(op); }

void Lowering::BlockCopies::tmaCopy(const Op &op) {
  in_->setSite(frame_.siteOf(op));
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
  std::vector<TmaTile::Box> list = boxes.boxes();
  const Copiers copiers = frame_.copiersOf(op);
  // Of each `share` boxes in a row every warp has one: places in the tile and the block move with the warp's number,
  // bit by bit.
  const auto share = static_cast<unsigned>(std::min<size_t>(copiers.warps, list.size()));
  V isMine = nullptr;       // null: every warp has its boxes
  std::vector<V> way(rank); // null: none
  if (!frame_.isElected_) {
    V mine = frame_.uniformWarp_;
    if (copiers.first)
      mine = b_.CreateSub(mine, b_.getInt32(copiers.first));
    if (share < options_.numWarps)
      isMine = b_.CreateICmpULT(mine, b_.getInt32(share));
    auto moved = [&](auto &&imageOf) -> V {
      std::vector<uint32_t> images;
      for (unsigned box = 1; box < share; box *= 2)
        images.push_back(imageOf(list[box]));
      uint64_t mask = 0;
      V sum = frame_.movedBits(images, mine, share - 1, nullptr, mask);
      return mask ? sum : nullptr;
    };
    if (V offset = moved([](const TmaTile::Box &box) { return box.offset; }))
      base = b_.CreateAdd(base, offset);
    for (unsigned d = 0; d < rank; ++d)
      way[d] = moved([&](const TmaTile::Box &box) { return box.at[d]; });
  }
  auto copy = [&] {
    // The assembler knows of elect, and of no comparison, that it leaves one thread of a warp: it makes no loop over
    // them then, and no branch.
    V pred = frame_.isElected_ ? nullptr : in_->elect();
    if (isMine && !copiers.inRing)
      pred = b_.CreateAnd(pred, isMine);
    for (size_t i = 0; i < list.size(); i += share) {
      const TmaTile::Box &box = list[i];
      Regs at = frame_.boxAt(std::span(op.operands).subspan(3 + 2 * rank), box.at); // innermost first
      for (unsigned d = 0; d < rank; ++d)
        if (way[d])
          at[rank - 1 - d] = b_.CreateAdd(at[rank - 1 - d], way[d]);
      if (first)
        at.back() = b_.CreateAdd(at.back(), first);
      in_->tmaLoad(frame_.plus(base, box.offset), frame_.mapAddress(frame_.maps_[&op]), at, scalar(op.operands[1]), all,
                   pred);
    }
  };
  // Outside of rings there may be many copies, and LLVM looks at all uses of a condition for each branch on it.
  if (isMine && copiers.inRing)
    frame_.ifThen(isMine, copy);
  else
    copy();
}

/// The copies between one barrier_expect and the next fill one stage. `warpsOfBlock` run the block. Warps beyond the
/// first four would wait for others that their dots do not wait for.
void Lowering::findCopiers(const ir::Block &b, unsigned warpsOfBlock) {
  constexpr unsigned warpgroup = 4;
  const Op *wait = nullptr, *waitOfNext = nullptr;
  std::vector<std::pair<const Op *, unsigned>> copies; // with their boxes
  unsigned most = 1;                                   // of a copy
  auto share = [&] {
    const unsigned warps = std::min({warpsOfBlock, warpgroup, most});
    unsigned next = 0;
    for (auto [copy, count] : copies) {
      // A copy of fewer boxes than warps stays in a row of them that does not wrap around.
      if (next % warps + std::min(count, warps) > warps)
        next = 0;
      copiers_[copy] = {warps, next % warps, wait != nullptr};
      next += count;
    }
    if (wait && !copies.empty())
      copiers_[wait] = {warps};
    copies.clear();
    most = 1;
  };
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::BarrierWait && op->one())
      waitOfNext = op;
    if (op->kind == OpKind::BarrierExpect) {
      share();
      wait = std::exchange(waitOfNext, nullptr);
    }
    if (op->kind == OpKind::TmaCopy) {
      const TmaTile tile(*op);
      const auto count = static_cast<unsigned>(tile.boxes().size());
      copiers_[op] = {};
      if (!tile.merged && std::has_single_bit(count)) { // rows by index are copied by the threads that have their index
        copies.push_back({op, count});
        most = std::max(most, count);
      }
    }
    for (size_t r = 0; r < op->regions.size(); ++r)
      if (op->kind != OpKind::Partitions)
        findCopiers(*op->region(static_cast<unsigned>(r)), warpsOfBlock);
      else if (op->elected().empty() || !op->elected()[r])
        findCopiers(*op->region(static_cast<unsigned>(r)), static_cast<unsigned>(op->warps()[r]));
  }
  share();
}

/// True in one of the threads that hold an index, and in equally many of each warp that does: a warp starts its copies
/// one after the other.
V Lowering::BlockCopies::startsRow(const LinearLayout &l) {
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
  V is =
      b_.CreateICmpEQ(b_.CreateAnd(frame_.warp_, freeWarps), frame_.movedBits(images, frame_.lane_, 31, nullptr, mask));
  return b_.CreateAnd(is, b_.CreateICmpEQ(b_.CreateAnd(frame_.lane_, freeLanes), b_.getInt32(0)));
}

/// Rows by index: each is copied by a thread that has its index.
void Lowering::BlockCopies::rowCopies(const Op &op, const TmaTile &tile) {
  const Value *rows = op.operands[7], *column = op.operands[8];
  V first = b_.CreateAShr(scalar(column), layout::log2Exact(tile.merged)), base = scalar(op.operands[0]),
    barrier = scalar(op.operands[1]);
  uint32_t copies = layoutOf(rows).freeMask(layout::Dim::Register);
  frame_.ifThen(startsRow(layoutOf(rows)), [&] {
    for (unsigned r = 0; r < get(rows).size(); ++r) {
      if (r & copies)
        continue;
      V to = b_.CreateAdd(
          base, b_.CreateMul(frame_.coordinate(rows->type.layout, 0, r), b_.getInt32(tile.box.back() * tile.bytes)));
      for (const TmaTile::Box &box : tile.boxes())
        in_->tmaLoad(frame_.plus(to, box.offset), frame_.mapAddress(frame_.maps_[&op]),
                     {frame_.plus(first, box.at[1] / tile.merged), get(rows)[r]}, barrier, nullptr, nullptr);
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
  // Where the mask is off zeros are written; where the copy is not done, nothing is.
  size_t n = op.operands.size();
  V isDone = n > 2 && op.operands[n - 1]->type.isScalar() ? scalar(op.operands[--n]) : nullptr;
  const Regs *mask = n > 2 ? &get(op.operands[2]) : nullptr;
  in_->setSite(siteOf(op));
  copyToShared(layoutOf(tile), scalar(tile), tile->type, get(pointers), layoutOf(pointers), mask,
               static_cast<unsigned>(op.vec()), hints(op), isDone);
}

} // namespace tegula::nvidia
