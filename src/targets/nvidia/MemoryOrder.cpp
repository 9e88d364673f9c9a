// See MemoryOrder.h.
#include "targets/nvidia/MemoryOrder.h"
#include "gpu/BlockEdit.h"
#include "gpu/BlockStores.h"
#include "gpu/Tiles.h"
#include "ir/Builder.h"
#include "passes/ArgumentAccess.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tegula::nvidia {

using ir::OpKind;

static bool mayBeSame(int a, int b) { return a < 0 || b < 0 || a == b; }

void MemoryOrder::beginOrder() {
  findLastUsers(*source_->block());
  findCopies(*source_->block());
}

const AxisFacts &MemoryOrder::facts() {
  if (!facts_)
    facts_.emplace(*source_);
  return *facts_;
}

static bool isCombination(const ir::Block &b) {
  const ir::Op *owner = b.parent->op;
  return owner && (owner->kind == OpKind::Reduce || owner->kind == OpKind::Scan);
}

void MemoryOrder::beforeOp(const Op &op) {
  // All ways through a block leave nothing to wait for; what reductions combine is no block of its own.
  if (op.has(ir::traits::Terminator) ? !isCombination(*op.parent) : op.kind != OpKind::Reduce && op.kind != OpKind::Scan && !op.regions.empty())
    waitForReaders();
}

// ---- lifetimes

const ir::Op *MemoryOrder::tileOf(const Value *v) {
  while (v->def && (v->def->kind == OpKind::SharedSlot || v->def->kind == OpKind::Permute || v->def->kind == OpKind::Reshape))
    v = v->def->operands[0];
  return v->def;
}

/// A tile dies after the last operation of its own block that uses it, itself or in its regions. Atomics that nobody asks
/// for their old values are found on the same walk.
void MemoryOrder::findLastUsers(const ir::Block &b) {
  for (size_t i = 0; i < b.ops.size(); ++i) {
    const Op *op = b.ops[i];
    if (i + 1 < b.ops.size() && b.ops[i + 1]->kind == OpKind::DotWait)
      waitBehind_[op] = b.ops[i + 1];
    for (const Value *v : op->operands)
      if (v->def && (v->def->kind == OpKind::AtomicRmw || v->def->kind == OpKind::AtomicCas)) {
        usedAtomics_.insert(v->def);
      } else if (v->type.isShared) {
        const Op *tile = tileOf(v), *user = op;
        while (user->parent != tile->parent)
          user = user->parent->parent->op;
        // A wgmma may read until it is waited for.
        const Op *wait = waitBehind_.lookup(user);
        lastUser_[tile] = wait ? wait : user;
      }
    for (const ir::Region *r : op->regions)
      findLastUsers(*r->block);
  }
}

void MemoryOrder::findCopies(const ir::Block &b) {
  for (const Op *op : b.ops) {
    hasTensorMaps_ |= op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce || op->kind == OpKind::TmaCopy;
    if (op->kind == OpKind::TmaCopy || op->kind == OpKind::AsyncCopy)
      copied_.push_back({baseArgument(op->operands[op->kind == OpKind::TmaCopy ? 2 : 1]), nullptr, false, nullptr, op->intAttr("whole") != 0});
    for (const ir::Region *r : op->regions)
      findCopies(*r->block);
  }
}

void MemoryOrder::endsWithLastUser(const Op &tile) {
  const Op *last = lastUser_.lookup(&tile);
  endsAfter_[last ? last : &tile].push_back(&tile);
}

void MemoryOrder::afterOp(const Op &op) {
  for (SharedRange r : scratch_)
    release(r);
  scratch_.clear();
  auto it = endsAfter_.find(&op);
  if (it == endsAfter_.end())
    return;
  for (const Op *tile : it->second) {
    SharedRange r = tiles_[tile];
    release(r);
    if (tile->kind != OpKind::BarrierAlloc)
      continue;
    // The bytes become ordinary memory again once nobody waits or arrives any more.
    tile->intAttr("ctas") ? meet() : barrier();
    emitBarriersEnd(*tile, r);
    memory_.touched(r, true);
  }
}

SharedRange MemoryOrder::take(const Op &op, uint64_t bytes, uint32_t align, bool isNew) {
  waitForReaders();
  uint64_t peak = memory_.peak();
  SharedRange r = isNew ? memory_.takeNew(bytes, align) : memory_.take(bytes, align);
  live_.push_back({&op, r});
  if (memory_.peak() > peak)
    mostLive_ = live_;
  return r;
}

void MemoryOrder::release(SharedRange r) {
  memory_.release(r);
  llvm::erase_if(live_, [&](const auto &l) { return l.second.begin == r.begin; });
}

// ---- threads meet

bool MemoryOrder::wroteGlobal() const {
  return llvm::any_of(seen_, [](const Seen &s) { return s.writes; });
}

void MemoryOrder::met() {
  memory_.metAtBarrier();
  for (SharedRange r : scratch_)
    memory_.touched(r, true);
}

void MemoryOrder::barrier() {
  emitBarrier();
  if (!isCluster())
    seen_.clear();
  met();
}

void MemoryOrder::leaveScratch() {
  emitClusterArrive();
  hasLeft_ = true;
}

void MemoryOrder::waitForReaders() {
  if (hasLeft_)
    emitClusterWait();
  hasLeft_ = false;
}

void MemoryOrder::meet() {
  if (!isCluster())
    return barrier();
  waitForReaders();
  emitClusterArrive();
  emitClusterWait();
  seen_.clear();
  met();
}

// ---- shared memory

/// Nobody uses these bytes any more: bulk stores have read them, threads have met.
void MemoryOrder::makeFree(SharedRange r) {
  bool isRead = llvm::any_of(bulkReads_, [&](SharedRange b) { return b.begin < r.end && r.begin < b.end; });
  if (isRead) {
    emitBulkWait(0, true);
    bulkReads_.clear();
  }
  if (isRead || memory_.needsBarrier(r, true))
    barrier();
}

/// Conversions take turns rather than more scratch than this: it would cost blocks per multiprocessor.
static constexpr uint64_t preferredScratch = 64 * 1024;

Scratch MemoryOrder::scratchNeedOf(const Op &op) const {
  // Beside the rings of a loop over tiles little may be left (TileLoop.h has made sure that it is enough).
  uint64_t limit = target_.sharedLimit(), top = memory_.top(), left = limit > top ? limit - top : 0;
  layout::ConversionOptions conversions;
  conversions.stmatrix = target_.sm >= 90;
  conversions.maxBytes = static_cast<unsigned>(std::min(preferredScratch, std::max<uint64_t>(1024, left)));
  return scratchNeed(m_, op, {NvTarget::lanes, options_.numWarps}, options_.numCtas, conversions, isUsed(op));
}

SharedRange MemoryOrder::takeScratch(const Op &op, uint64_t bytes) {
  constexpr uint32_t little = 1024;
  SharedRange r = take(op, bytes, 16);
  if (memory_.needsBarrier(r, true) && r.end <= little) {
    SharedRange other = take(op, bytes, 16);
    bool isBetter = other.end <= little && !memory_.needsBarrier(other, true);
    release(isBetter ? r : other);
    r = isBetter ? other : r;
  }
  makeFree(r);
  scratch_.push_back(r);
  memory_.touched(r, true);
  return r;
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

bool MemoryOrder::hasOwnRoom(const Op &op, uint64_t bytes) const {
  uint64_t left = target_.sharedLimit() - std::min<uint64_t>(memory_.peak(), target_.sharedLimit());
  const Op *loop = op.parent->parent->op;
  while (loop && loop->parent->parent->op)
    loop = loop->parent->parent->op;
  return loop && bytes + 16 <= left && !allocatesFrom(*loop) && !(4 * bytes > left && othersTakeScratch(*loop->parent, op));
}

SharedRange MemoryOrder::takeWarpScratch(const Op &op, uint64_t bytes, bool &isOwn) {
  isOwn = hasOwnRoom(op, bytes);
  return isOwn ? take(op, bytes, 16, true) : takeScratch(op, bytes);
}

SharedRange MemoryOrder::beginTile(const Op &op) {
  SharedRange r = take(op, tilesBytes(op), SharedMemory::tileAlign);
  tiles_[&op] = r;
  endsWithLastUser(op);
  // The ring is synchronized by the operations around its users; here by who had the bytes before, and by who wrote what will be copied: the
  // copies themselves are not looked at one by one.
  makeFree(r);
  if (op.kind == OpKind::SharedAlloc) {
    finishBeforeCopies();
    if (wroteGlobal()) {
      if (hasTensorMaps_) // copies by TMA see what was stored
        emitProxyFence(true);
      meet();
    }
  }
  return r;
}

SharedRange MemoryOrder::beginBarriers(const Op &op, bool &wrote) {
  SharedRange r = take(op, tilesBytes(op), 16);
  tiles_[&op] = r;
  endsWithLastUser(op);
  // TMA may read and write where threads have stored before.
  finishBeforeCopies();
  wrote = wroteGlobal();
  makeFree(r);
  return r;
}

void MemoryOrder::barriersReady(const Op &op, bool wrote) { wrote || op.intAttr("ctas") ? meet() : barrier(); }

/// What other threads put into tiles is there after a barrier; rings bring their own. All are read behind it, so none counts as read before.
void MemoryOrder::readTiles(llvm::ArrayRef<Value *> operands) {
  for (const Value *v : operands)
    if (const Op *tile = tileOf(v); tile && tile->kind == OpKind::ToShared && memory_.needsBarrier(tiles_[tile], false))
      barrier();
  for (const Value *v : operands)
    if (const Op *tile = tileOf(v))
      memory_.touched(tiles_[tile], false);
}

// ---- global memory

bool MemoryOrder::isCopied(int arg, bool isWhole) const {
  return isCluster() && llvm::any_of(copied_, [&](const Seen &s) { return mayBeSame(s.arg, arg) || (isWhole && s.isWhole); });
}

/// Program order between accesses of different threads. Two accesses through different arguments are taken to be of
/// different memory or (in-place element-wise kernels) of the same element by the same thread. In a cluster that is so of what is shared out
/// only: what is not all CTAs read and the first one writes. Two accesses through one pointer are of the same elements by the same threads,
/// unless several threads hold copies of an element (scalars, small tensors): all of them read it, but only one writes it.
void MemoryOrder::orderAccess(const Op &op, bool writes) {
  const Value *pointer = op.operands[0];
  int arg = baseArgument(pointer);
  if (llvm::any_of(bulkWrites_, [&](const BulkWrite &w) { return mayBeSame(w.arg, arg); }))
    finishBulkStores();
  bool isWhole = op.intAttr("whole") != 0, copies = hasCopies(m_, pointer->type.layout);
  auto isBefore = [&](const Seen &s) {
    bool isSameThread = s.pointer == pointer && (!copies || (s.writes && writes));
    bool isOther = mayBeSame(s.arg, arg) && !isSameThread && s.tiled != &op;
    return (s.writes || writes) && (isOther || (isWhole && s.isWhole));
  };
  if ((writes && isCopied(arg, isWhole)) || llvm::any_of(seen_, isBefore))
    meet();
  seen_.push_back({arg, pointer, writes, op.intAttr("tiled") ? &op : nullptr, isWhole});
}

/// What this program did before is visible to whoever sees an ordered atomic, and the other way round: all threads meet.
void MemoryOrder::beforeAtomic(const Op &op) {
  if (!isOrdered(op))
    return orderAccess(op, true);
  finishBulkStores();
  meet();
}

void MemoryOrder::afterAtomic(const Op &op) {
  if (isOrdered(op))
    meet();
}

void MemoryOrder::forgetAccesses() {
  seen_.clear();
  seen_.push_back({-1, nullptr, true, nullptr, true});
  memory_.unknownBefore();
}

// ---- stores and reductions by TMA

const BulkStore &MemoryOrder::bulkPlan(const Op &op) {
  std::unique_ptr<BulkStore> &plan = bulkPlans_[&op];
  if (!plan) {
    const Value *v = op.operands.back();
    // Layouts without a plan were converted (AssignLayouts).
    plan = std::make_unique<BulkStore>(*planBulkStore(layoutOf(v), v->type.shape, v->type.elem));
  }
  return *plan;
}

/// For the buffers of all bulk stores in a loop; 0: nothing is stored so, or the loop wants the memory for tiles of its own.
uint64_t MemoryOrder::bytesHeld(const Op &loop) {
  uint64_t one = 0;
  bool tiles = false, scratch = false;
  auto look = [&](auto &&self, const ir::Block &b) -> void {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce)
        one = std::max(one, bulkPlan(*op).sharedBytes(1));
      tiles |= makesTiles(*op);
      scratch |= takesScratch(*op);
      for (const ir::Region *r : op->regions)
        self(self, *r->block);
    }
  };
  for (const ir::Region *r : loop.regions)
    look(look, *r->block);
  if (!one)
    return 0;
  constexpr uint64_t usualScratch = 8192;
  uint64_t limit = target_.sharedLimit(), top = memory_.top() + SharedMemory::tileAlign + (scratch ? usualScratch : 0);
  if (tiles || top + one > limit) {
    bulkReads_.push_back({0, UINT64_MAX}); // of the iteration before
    return 0;
  }
  return top + 2 * one <= limit ? 2 * one : one;
}

/// Room for the buffers of all bulk stores in a loop, for as long as it runs: so that copies of one iteration go on in the next.
void MemoryOrder::holdBuffers(const Op &loop) {
  uint64_t bytes = held_ ? 0 : bytesHeld(loop);
  if (!bytes)
    return;
  held_ = take(loop, bytes, SharedMemory::tileAlign);
  heldBy_ = &loop;
  makeFree(*held_);
}

void MemoryOrder::releaseBuffers(const Op &loop) {
  if (heldBy_ != &loop)
    return;
  bulkReads_.push_back(*held_);
  release(*held_);
  held_.reset();
  heldBy_ = nullptr;
}

/// What this thread has written by bulk stores is there, and bulk copies see what went by pointers instead.
void MemoryOrder::waitForBulkWrites() {
  emitBulkWait(0, false);
  if (llvm::any_of(bulkWrites_, [](const BulkWrite &w) { return w.op->find("any_sign") != nullptr; }))
    emitProxyFence(true);
}

void MemoryOrder::finishBulkStores() {
  if (bulkWrites_.empty())
    return;
  waitForBulkWrites();
  bulkWrites_.clear();
  bulkReads_.clear();
  meet();
}

/// The same before asynchronous copies are set up, if one of the kernel may read what was written.
void MemoryOrder::finishBeforeCopies() {
  if (llvm::any_of(bulkWrites_, [&](const BulkWrite &w) { return llvm::any_of(copied_, [&](const Seen &s) { return mayBeSame(s.arg, w.arg); }); }))
    finishBulkStores();
}

/// Do the blocks of the store start at multiples of their extents?
bool MemoryOrder::isTiling(const Op &op) {
  if (op.find("tiled")) // of parts: PartitionCluster.cpp
    return op.intAttr("tiled") != 0;
  ir::DescAccess a = ir::descAccess(op);
  for (unsigned d = 0; d < a.rank(); ++d)
    if (facts().of(a.offsets[d]).axes[0].divisibility % a.block[d] != 0)
      return false;
  return true;
}

/// The blocks of both stores are tiles of one grid: two of them are the same, and then each byte is written by the same thread both times, or
/// have nothing in common.
bool MemoryOrder::haveSameTiles(const Op &x, const Op &y) {
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

void MemoryOrder::addBulkWrite(const BulkWrite &w) {
  if (llvm::none_of(bulkWrites_, [&](const BulkWrite &b) { return b.op == w.op && b.isHere == w.isHere && b.isDone <= w.isDone; }))
    bulkWrites_.push_back(w);
}

/// True if all earlier copies of this thread are done.
bool MemoryOrder::orderBulk(const Op &op) {
  int arg = baseArgument(op.operands[0]);
  bool isWhole = op.intAttr("whole") != 0, wait = false, together = false;
  bool isBehind = llvm::any_of(seen_, [&](const Seen &s) { return mayBeSame(s.arg, arg) || (isWhole && s.isWhole); });
  isBehind |= isCopied(arg, isWhole);
  // Behind plain accesses of other threads, which another path to memory does not see by itself.
  if (isBehind)
    emitProxyFence(true);
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

MemoryOrder::BulkRoom MemoryOrder::beginBulk(const Op &op) {
  const BulkStore &plan = bulkPlan(op);
  BulkRoom room;
  room.isQuiet = orderBulk(op);
  room.isHeld = held_.has_value();
  if (room.isHeld) {
    room.range = *held_;
  } else {
    unsigned buffers = plan.steps.size() > 1 ? 2 : 1;
    if (memory_.top() + SharedMemory::tileAlign + plan.sharedBytes(buffers) > target_.sharedLimit())
      buffers = 1;
    room.range = take(op, plan.sharedBytes(buffers), SharedMemory::tileAlign);
    makeFree(room.range);
  }
  room.buffers = plan.steps.size() > 1 && plan.sharedBytes(2) <= room.range.size() ? 2 : 1;
  room.goesOn = room.isHeld && turns_.bytes == plan.bytes && turns_.buffers == room.buffers;
  room.turn = room.goesOn ? turns_.next : 0;
  return room;
}

void MemoryOrder::endBulk(const Op &op, const BulkRoom &room, size_t turn) {
  storedInBulk_ = true;
  turns_ = {room.isHeld ? bulkPlan(op).bytes : 0, room.buffers, turn};
  if (room.isHeld)
    return;
  bulkReads_.push_back(room.range);
  release(room.range);
  memory_.touched(room.range, true);
}

// ---- control flow

/// What another iteration may have accessed; false if that cannot be told.
bool MemoryOrder::accessesIn(const ir::Block &b, Accesses &out) const {
  bool isKnown = true;
  for (const Op *op : b.ops) {
    bool isRead = op->kind == OpKind::Load, isAtomic = op->kind == OpKind::AtomicRmw || op->kind == OpKind::AtomicCas;
    if (isRead || isAtomic || op->kind == OpKind::Store)
      out.seen.push_back({baseArgument(op->operands[0]), nullptr, !isRead, op->intAttr("tiled") ? op : nullptr, op->intAttr("whole") != 0});
    else if (op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce)
      out.bulkWrites.push_back({baseArgument(op->operands[0]), op});
    else if (op->regions.empty() && writesGlobal(*op))
      isKnown = false;
    for (const ir::Region *r : op->regions)
      isKnown &= accessesIn(*r->block, out);
  }
  return isKnown;
}

void MemoryOrder::alsoAccesses(const Accesses &a) {
  turns_ = {};
  unite(seen_, a.seen);
  for (const BulkWrite &w : a.bulkWrites)
    addBulkWrite(w);
  unite(bulkReads_, a.bulkReads);
}

void MemoryOrder::otherIterations(const ForOrder &o) {
  if (o.isKnown)
    seen_.clear();
  else
    forgetAccesses();
  alsoAccesses(o.around);
}

MemoryOrder::ForOrder MemoryOrder::enterFor(const Op &op) {
  ForOrder o;
  // Reads alone change nothing for each other.
  o.writes = writesGlobal(op);
  o.around = o.earlier = accesses();
  o.isKnown = o.writes && accessesIn(*op.region(0), o.around);
  if (o.writes)
    otherIterations(o);
  memory_.unknownBefore();
  return o;
}

void MemoryOrder::leaveFor(const Op &op, const ForOrder &o) {
  // The loop may not run at all: what it waited for has not happened then. (Without writes it only ever adds reads.)
  auto isKept = [&] {
    const Accesses &e = o.earlier;
    return seen_.size() >= e.seen.size() && std::equal(e.seen.begin(), e.seen.end(), seen_.begin()) && bulkWrites_.size() >= e.bulkWrites.size() &&
           bulkReads_.size() >= e.bulkReads.size();
  };
  if (o.writes)
    otherIterations(o);
  else if (!isKept())
    alsoAccesses(o.earlier);
  memory_.unknownBefore();
  releaseBuffers(op);
}

Accesses MemoryOrder::enterWhile(const Op &op) {
  Accesses around = accesses();
  accessesIn(*op.region(0), around);
  accessesIn(*op.region(1), around);
  forgetAccesses();
  alsoAccesses(around);
  return around;
}

void MemoryOrder::leaveWhile(const Op &op, const Accesses &around) {
  forgetAccesses();
  alsoAccesses(around);
  releaseBuffers(op);
}

/// Both sides begin with what was done before, and what either has done may come before what follows.
MemoryOrder::IfOrder MemoryOrder::enterIf() { return {accesses(), {}, memory_.history(), {}}; }

void MemoryOrder::enterElse(IfOrder &o) {
  o.then = accesses();
  o.sharedThen = memory_.history();
  seen_ = o.before.seen;
  bulkWrites_ = o.before.bulkWrites;
  bulkReads_ = o.before.bulkReads;
  memory_.setHistory(o.sharedBefore);
}

void MemoryOrder::leaveIf(const IfOrder &o) {
  alsoAccesses(o.then);
  memory_.addHistory(o.sharedThen);
}

} // namespace tegula::nvidia
