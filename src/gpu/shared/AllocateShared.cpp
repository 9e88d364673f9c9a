// See AllocateShared.h.
#include "gpu/shared/AllocateShared.h"
#include "gpu/shared/SharedAccesses.h"
#include "gpu/shared/SharedNeeds.h"
#include "gpu/shared/Tiles.h"
#include <algorithm>
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Conversions take several rounds rather than more scratch than this, which would cost blocks per multiprocessor.
constexpr uint64_t preferredScratch = 64 * 1024;
/// Scratch that ends below this may move rather than make threads synchronize once more.
constexpr uint64_t littleScratch = 1024;

class Allocator {
public:
  Allocator(Module &m, const TargetInfo &target, const Options &options) : m_(m), target_(target), options_(options) {}

  void run() {
    const Block &kernel = *m_.kernel()->block();
    lastUser_ = lastUsersOfTiles(kernel);
    usedByOwners_ = usedByOwners(kernel);
    block(*m_.kernel()->block());
  }

private:
  /// The next buffer is known only within one block.
  void block(Block &b) {
    turns_ = {};
    for (Op *op : b.ops) {
      visit(*op);
      end(*op);
    }
    turns_ = {};
  }

  void visit(Op &op);
  void regions(Op &op);

  // ---- places

  void note(Op &op, SharedRange r) {
    op.set(attr::shared, std::vector<int64_t>{static_cast<int64_t>(r.begin), static_cast<int64_t>(r.end)});
  }

  void tile(Op &op, uint32_t align) {
    const SharedRange r = places_[&op] = memory_.take(tilesBytes(op), align);
    note(op, r);
    const auto last = lastUser_.find(&op);
    endsAfter_[last != lastUser_.end() ? last->second : &op].push_back(&op);
  }

  void scratch(Op &op);
  /// Takes bytes of scratch for the time that the operation runs. A small request prefers bytes untouched since threads
  /// last synchronized: two reductions in a row alternate, and synchronize half as often.
  void takeScratch(Op &op, uint64_t bytes);
  bool hasOwnRoom(const Op &op, uint64_t bytes) const;

  void touch(const Value *tile, bool writes) {
    if (const Op *of = tileOf(tile))
      accesses_.touched(places_[of], writes);
  }

  void touchOperands(const Op &op) {
    for (const Value *v : op.operands)
      if (v->type.isShared)
        touch(v, false);
  }

  /// Releases the scratch of the operation and the tiles of which it is the last user.
  void end(const Op &op);

  // ---- buffers of stores by descriptors

  uint64_t bytesHeld(const Op &loop) const;
  void blockStore(Op &op);

  Module &m_;
  const TargetInfo &target_;
  const Options &options_;
  SharedMemory memory_;
  SharedAccesses accesses_; // since the last synchronization that happens in any case; order-memory will add more
  std::unordered_set<const Op *> usedByOwners_;
  std::unordered_map<const Op *, const Op *> lastUser_; // of a tile, in the tile's block
  std::unordered_map<const Op *, std::vector<const Op *>> endsAfter_;
  std::unordered_map<const Op *, SharedRange> places_;
  std::optional<SharedRange> scratch_; // of the current operation
  std::optional<SharedRange> held_;    // buffers, while a loop runs
  /// The buffer of held_ that is next after the last store; 0 bytes: not known.
  struct Turns {
    uint64_t bytes = 0;
    unsigned buffers = 0;
    size_t next = 0;
  } turns_;
};

void Allocator::takeScratch(Op &op, uint64_t bytes) {
  SharedRange r = memory_.take(bytes, 16);
  if (accesses_.needsBarrier(r, true) && r.end <= littleScratch) {
    const SharedRange other = memory_.take(bytes, 16);
    const bool isBetter = other.end <= littleScratch && !accesses_.needsBarrier(other, true);
    memory_.release(isBetter ? r : other);
    r = isBetter ? other : r;
  }
  note(op, r);
  scratch_ = r;
}

bool othersTakeScratch(const Block &b, const Op &but) {
  return std::ranges::any_of(b.ops, [&](const Op *op) {
    return (op != &but && takesScratch(*op)) ||
           std::ranges::any_of(op->regions, [&](const Region *r) { return othersTakeScratch(*r->block, but); });
  });
}

/// Are tiles allocated in `first` or after it?
bool allocatesFrom(const Op &first) {
  auto allocates = [](auto &&self, const Op &op) -> bool {
    return makesTiles(op) || std::ranges::any_of(op.regions, [&](const Region *r) {
             return std::ranges::any_of(r->block->ops, [&](const Op *o) { return self(self, *o); });
           });
  };
  const std::vector<Op *> &ops = first.parent->ops;
  return std::any_of(std::find(ops.begin(), ops.end(), &first), ops.end(),
                     [&](const Op *op) { return allocates(allocates, *op); });
}

/// The operation of the kernel's block, or of a partition, that `op` is in.
const Op &outermost(const Op &op) {
  const Op *out = &op;
  for (const Op *around = op.parent->parent->op; around && around->kind != OpKind::Partitions;
       around = around->parent->parent->op)
    out = around;
  return *out;
}

/// An exchange within warps in a loop gets bytes that nothing else ever takes (`own`), so that warps need no barrier of
/// the block, unless the bytes might be missing later.
bool Allocator::hasOwnRoom(const Op &op, uint64_t bytes) const {
  const uint64_t left = target_.sharedLimit() - std::min<uint64_t>(memory_.peak(), target_.sharedLimit());
  const Op &loop = outermost(op);
  return &loop != &op && bytes + 16 <= left && !allocatesFrom(loop) &&
         !(4 * bytes > left && othersTakeScratch(*loop.parent, op));
}

void Allocator::scratch(Op &op) {
  // Beside the rings of a loop over tiles little may be left (TileLoop.h has made sure that it is enough).
  const uint64_t limit = target_.sharedLimit(), top = memory_.top(), left = limit > top ? limit - top : 0;
  if (const std::optional<SentParts> sent = sentParts(op);
      sent && memory_.peak() + sent->bytes + 16 <= limit && !allocatesFrom(outermost(op))) {
    note(op, memory_.takeNew(sent->bytes, 16));
    op.set(attr::own, true);
    return;
  }
  const Scratch need =
      scratchNeed(m_, op, target_, options_, std::min(preferredScratch, std::max<uint64_t>(1024, left)),
                  usedByOwners_.contains(&op));
  if (!need.bytes)
    return;
  const bool isOfWarps = need.scope == layout::ExchangeScope::Warp;
  if (isOfWarps && hasOwnRoom(op, need.bytes)) {
    note(op, memory_.takeNew(need.bytes, 16));
    op.set(attr::own, true);
    return;
  }
  takeScratch(op, need.bytes);
  if (!isOfWarps) // threads synchronize inside
    accesses_.metAtBarrier();
  accesses_.touched(*scratch_, true);
}

void Allocator::end(const Op &op) {
  if (scratch_)
    memory_.release(*scratch_);
  scratch_.reset();
  const auto ended = endsAfter_.find(&op);
  if (ended == endsAfter_.end())
    return;
  for (const Op *tile : ended->second) {
    memory_.release(places_[tile]);
    if (tile->kind != OpKind::BarrierAlloc)
      continue;
    accesses_.metAtBarrier(); // before they become ordinary memory
    accesses_.touched(places_[tile], true);
  }
}

/// Bytes for the buffers of all block stores in a loop; 0: there are no such stores, or the loop needs the memory for
/// its own tiles.
uint64_t Allocator::bytesHeld(const Op &loop) const {
  uint64_t one = 0;
  bool tiles = false, scratch = false;
  auto look = [&](auto &&self, const Block &b) -> void {
    for (const Op *op : b.ops) {
      one = std::max(one, target_.blockStore(m_, *op).bytes);
      tiles |= makesTiles(*op);
      scratch |= takesScratch(*op);
      for (const Region *r : op->regions)
        self(self, *r->block);
    }
  };
  for (const Region *r : loop.regions)
    look(look, *r->block);
  constexpr uint64_t usualScratch = 8192;
  const uint64_t limit = target_.sharedLimit(),
                 top = memory_.top() + SharedMemory::tileAlign + (scratch ? usualScratch : 0);
  if (!one || tiles || top + one > limit)
    return 0;
  return top + 2 * one <= limit ? 2 * one : one;
}

void Allocator::blockStore(Op &op) {
  const BlockStore plan = target_.blockStore(m_, op);
  if (!plan.bytes)
    return; // lowering refuses it
  SharedRange r;
  if (held_) {
    r = *held_;
  } else {
    unsigned buffers = plan.steps > 1 ? 2 : 1;
    if (memory_.top() + SharedMemory::tileAlign + plan.bytes * buffers > target_.sharedLimit())
      buffers = 1;
    r = memory_.take(plan.bytes * buffers, SharedMemory::tileAlign);
    memory_.release(r);
    accesses_.touched(r, true);
  }
  note(op, r);
  const unsigned buffers = plan.steps > 1 && plan.bytes * 2 <= r.size() ? 2 : 1;
  op.set(attr::buffers, buffers);
  if (held_)
    op.set(attr::held, true);
  const bool goesOn = held_ && turns_.bytes == plan.bytes && turns_.buffers == buffers;
  const size_t turn = goesOn ? turns_.next : 0;
  if (goesOn)
    op.set(attr::turn, static_cast<int64_t>(turn % buffers));
  turns_ = {held_ ? plan.bytes : 0, buffers, turn + plan.steps};
}

void Allocator::regions(Op &op) {
  switch (op.kind) {
  case OpKind::If: {
    const SharedAccesses::History before = accesses_.history();
    block(*op.region(0));
    const SharedAccesses::History then = accesses_.history();
    accesses_.setHistory(before);
    block(*op.region(1));
    return accesses_.addHistory(then);
  }
  case OpKind::For:
  case OpKind::While: {
    const uint64_t bytes = held_ ? 0 : bytesHeld(op);
    if (bytes)
      note(op, held_.emplace(memory_.take(bytes, SharedMemory::tileAlign)));
    accesses_.unknownBefore();
    for (const Region *r : op.regions)
      block(*r->block);
    accesses_.unknownBefore();
    if (bytes) {
      memory_.release(*held_);
      held_.reset();
    }
    return;
  }
  // Partitions all run at once, so each gets other bytes. The first one, which has the most work, gets the bytes that
  // the others leave.
  default:
    for (size_t i = op.regions.size(); i-- > 1;) {
      SharedMemory around = memory_;
      const SharedAccesses::History before = accesses_.history();
      block(*op.regions[i]->block);
      around.takeAllOf(memory_);
      memory_ = std::move(around);
      accesses_.setHistory(before);
    }
    return block(*op.region(0));
  }
}

void Allocator::visit(Op &op) {
  switch (op.kind) {
  case OpKind::ToShared:
    tile(op, alignOf(op.result()->type));
    return touch(op.result(), true);
  case OpKind::SharedAlloc: return tile(op, alignOf(op.result()->type));
  case OpKind::BarrierAlloc:
    tile(op, 16);
    return accesses_.metAtBarrier(); // once they are initialized
  case OpKind::SharedLoad:
  case OpKind::Dot:
    return touchOperands(op);
  case OpKind::Gather:
    touchOperands(op);
    return scratch(op);
  case OpKind::SharedBarrier:
  case OpKind::Barrier: return accesses_.metAtBarrier();
  case OpKind::AsmEffect:
    accesses_.unknownBefore();
    return scratch(op);
  case OpKind::DescStore:
  case OpKind::DescReduce: return blockStore(op);
  case OpKind::For:
  case OpKind::While:
  case OpKind::If:
  case OpKind::Partitions: return regions(op);
  default: return scratch(op);
  }
}

bool hasPlaces(const Block &b) {
  return std::ranges::any_of(b.ops, [](const Op *op) {
    return op->find(attr::shared) ||
           std::ranges::any_of(op->regions, [](const Region *r) { return hasPlaces(*r->block); });
  });
}

} // namespace

void allocateShared(Module &m, const TargetInfo &target, const Options &options) {
  if (!hasPlaces(*m.kernel()->block()))
    Allocator(m, target, options).run();
}

} // namespace tegula::gpu
