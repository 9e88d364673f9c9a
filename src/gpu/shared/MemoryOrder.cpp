// See MemoryOrder.h.
#include "gpu/shared/MemoryOrder.h"
#include "gpu/BlockEdit.h"
#include "gpu/SameIterations.h"
#include "gpu/shared/ApartElements.h"
#include "gpu/shared/ApartIterations.h"
#include "gpu/shared/BlockStores.h"
#include "gpu/shared/Tiles.h"
#include "passes/ArgumentAccess.h"
#include "ir/Walk.h"
#include <algorithm>
#include <utility>

namespace tegula::gpu {

using ir::OpKind;

static bool mayBeSame(int a, int b) { return a < 0 || b < 0 || a == b; }

void MemoryOrder::beginOrder() {
  lastUser_ = lastUsersOfTiles(*source_->block());
  findCopies(*source_->block());
}

const AxisFacts &MemoryOrder::facts() {
  if (!facts_)
    facts_.emplace(*source_);
  return *facts_;
}

std::span<ir::Op *const> MemoryOrder::usersOf(const Value *v) {
  if (!users_)
    users_.emplace(*source_->block());
  return users_->of(v);
}

/// Is it the block `outer`, or inside of it?
static bool isIn(const ir::Block *b, const ir::Block *outer) {
  while (b && b != outer)
    b = b->parent->op ? b->parent->op->parent : nullptr;
  return b && outer;
}

/// Does a program, all of whose threads take the same branches, run only one of the two?
static bool areExclusive(const ir::Block *a, const ir::Block *b) {
  const ir::Op *branch = nullptr;
  for (const ir::Block *x = a; x && !isIn(b, x); x = x->parent->op ? x->parent->op->parent : nullptr)
    branch = x->parent->op;
  if (!branch || branch->kind != OpKind::If || !isIn(b, branch->parent) ||
      std::ranges::none_of(branch->regions, [&](const ir::Region *r) { return isIn(b, r->block); }))
    return false;
  return !isInLoop(*branch);
}

static bool isCombination(const ir::Block &b) {
  const ir::Op *owner = b.parent->op;
  return owner && (owner->kind == OpKind::Reduce || owner->kind == OpKind::Scan);
}

void MemoryOrder::beforeOp(const Op &op) {
  block_ = op.parent;
  // All ways through a block leave nothing to wait for; what reductions combine is no block of its own.
  if (op.has(ir::traits::Terminator) ? !isCombination(*op.parent)
                                     : op.kind != OpKind::Reduce && op.kind != OpKind::Scan && !op.regions.empty())
    waitForReaders();
}

// ---- lifetimes

void MemoryOrder::findCopies(const ir::Block &b) {
  for (const Op *op : b.ops) {
    hasTensorMaps_ |= op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce || op->kind == OpKind::TmaCopy;
    copiesEnd_ &= op->kind != OpKind::TmaCopy && op->kind != OpKind::Partitions;
    copiesLeft_ += op->kind == OpKind::AsyncCopy;
    if (op->kind == OpKind::TmaCopy || op->kind == OpKind::AsyncCopy)
      copied_.push_back(
          {{memoryOf(op->operands[op->kind == OpKind::TmaCopy ? 2 : 1]), nullptr, false, nullptr, op->whole()}, &b});
    for (const ir::Region *r : op->regions)
      findCopies(*r->block);
  }
}

void MemoryOrder::endsWithLastUser(const Op &tile) {
  auto last = lastUser_.find(&tile);
  endsAfter_[last != lastUser_.end() ? last->second : &tile].push_back(&tile);
}

void MemoryOrder::afterOp(const Op &op) {
  scratch_ = {};
  auto it = endsAfter_.find(&op);
  if (it == endsAfter_.end())
    return;
  for (const Op *tile : it->second) {
    if (tile->kind != OpKind::BarrierAlloc)
      continue;
    // The bytes become ordinary memory again once nobody waits or arrives any more.
    tile->ctas() > 1 ? meet() : barrier();
    b_.create(OpKind::BarrierFree, tile->results, {});
    shared_.touched(placeOf(*tile), true);
  }
}

// ---- threads synchronize

bool MemoryOrder::wroteGlobal() const {
  return std::ranges::any_of(seen_, [](const Seen &s) { return s.writes; });
}

void MemoryOrder::haveMet(bool wholeProgram) {
  if (wholeProgram || !isCluster())
    seen_.clear();
  if (wholeProgram && isIn(block_, waitedIn_) && !isIn(block_, overIn_))
    overIn_ = block_;
  shared_.metAtBarrier();
  if (scratch_.size())
    shared_.touched(scratch_, true);
}

void MemoryOrder::barrier() {
  emit(OpKind::SharedBarrier);
  haveMet(false);
}

void MemoryOrder::leaveScratch() {
  emit(OpKind::ClusterArrive);
  hasLeft_ = true;
}

void MemoryOrder::waitForReaders() {
  if (hasLeft_)
    emit(OpKind::ClusterWait);
  hasLeft_ = false;
}

void MemoryOrder::openExchanges(const ir::Block &kernel) {
  const std::vector<const Op *> sending = sendingGathers(kernel);
  if (sending.empty())
    return;
  b_.setLoc(sending.front()->loc);
  b_.setInlinedAt(sending.front()->inlinedAt);
  emit(OpKind::ClusterOpen);
  emit(OpKind::ClusterArrive, {{ir::attr::relaxed, true}});
  hasLeft_ = true;
}

void MemoryOrder::meet() {
  if (!isCluster())
    return barrier();
  waitForReaders();
  emit(OpKind::ClusterArrive);
  emit(OpKind::ClusterWait);
  haveMet(true);
}

// ---- shared memory

/// Before somebody else uses these bytes; block stores have read them then.
bool MemoryOrder::mustMeet(SharedRange r) {
  bool isRead = std::ranges::any_of(blockReads_, [&](SharedRange b) { return b.overlaps(r); });
  if (isRead) {
    emit(OpKind::StoreWait, {{ir::attr::read, true}});
    blockReads_.clear();
  }
  return isRead || shared_.needsBarrier(r, true);
}

void MemoryOrder::makeFree(SharedRange r) {
  if (mustMeet(r))
    barrier();
}

void MemoryOrder::beforeScratch(Op &op) {
  const SharedRange r = placeOf(op);
  waitForReaders();
  if (op.own())
    return;
  if (mustMeet(r)) {
    op.set(ir::attr::meet, true);
    haveMet(false);
  }
  scratch_ = r;
  shared_.touched(r, true);
}

void MemoryOrder::afterScratch(layout::ExchangeScope scope) {
  if (scope == layout::ExchangeScope::Warp)
    return;
  const bool isOfCluster = scope == layout::ExchangeScope::Cluster;
  haveMet(isOfCluster);
  // Other threads may still read: whoever uses these bytes next waits. Threads of other CTAs are waited for apart.
  if (isOfCluster)
    leaveScratch();
}

void MemoryOrder::beginTile(Op &op) {
  waitForReaders();
  endsWithLastUser(op);
  // The ring is synchronized by the operations around its users; here by who had the bytes before, and by who wrote
  // what will be copied: the copies themselves are not looked at one by one.
  makeFree(placeOf(op));
  if (op.kind == OpKind::SharedAlloc) {
    finishBeforeCopies();
    if (wroteGlobal()) {
      if (hasTensorMaps_) // block copies see what was stored
        emit(OpKind::AsyncFence);
      meet();
    }
  }
}

void MemoryOrder::beginBarriers(Op &op) {
  waitForReaders();
  endsWithLastUser(op);
  // Block copies may read and write where threads have stored before.
  finishBeforeCopies();
  if (wroteGlobal())
    op.set(ir::attr::global, true);
  makeFree(placeOf(op));
}

void MemoryOrder::barriersReady(Op &op, bool more) {
  barriersOfCluster_ |= op.ctas() > 1;
  if (more)
    return op.set(ir::attr::more, true);
  const bool ofCluster = std::exchange(barriersOfCluster_, false);
  ofCluster || op.global() ? meet() : barrier(); // what was stored before the first of the row counts for the last, too
}

void MemoryOrder::touched(const Value *tile, bool writes) {
  if (const Op *of = tileOf(tile))
    shared_.touched(placeOf(*of), writes);
}

/// The operations that made the tiles which a dot or a gather reads and threads have stored; rings bring their own
/// barriers.
template <typename Fn> static void eachStoredTile(const ir::Op &reader, const Fn &fn) {
  for (const ir::Value *v : reader.operands)
    if (const ir::Op *tile = v->type.isShared ? tileOf(v) : nullptr; tile && tile->kind == OpKind::ToShared)
      fn(*tile);
}

/// What other threads put into tiles is there after a barrier. All are read after it, so none counts as read before.
void MemoryOrder::readTiles(const Op &op) {
  eachStoredTile(op, [&](const Op &tile) {
    if (ready_.insert(&tile).second && shared_.needsBarrier(placeOf(tile), false))
      barrier();
  });
  for (const Value *v : op.operands)
    if (v->type.isShared)
      touched(v, false);
}

/// Adds to `out` the tiles made outside of `op` that operations in the block read and that are not known to be ready.
/// Is one read before threads synchronize there?
bool MemoryOrder::findUnready(const ir::Block &b, const Op &op, bool &meets, std::vector<const Op *> &out) const {
  bool isFirst = false;
  for (const Op *o : b.ops) {
    meets |= o->kind == OpKind::SharedBarrier;
    if (o->kind == OpKind::Dot || o->kind == OpKind::Gather)
      eachStoredTile(*o, [&](const Op &tile) {
        if (!ready_.count(&tile) && !ir::isInside(tile.result(), op)) {
          out.push_back(&tile);
          isFirst |= !meets && shared_.needsBarrier(placeOf(tile), false);
        }
      });
    for (const ir::Region *r : o->regions)
      isFirst |= findUnready(*r->block, op, meets, out);
  }
  return isFirst;
}

void MemoryOrder::tilesReady(const Op &op) {
  std::vector<const Op *> tiles;
  bool isFirst = false;
  for (const ir::Region *r : op.regions) {
    bool meets = false;
    isFirst |= findUnready(*r->block, op, meets, tiles);
  }
  if (isFirst)
    barrier();
  for (const Op *tile : tiles)
    if (!shared_.needsBarrier(placeOf(*tile), false))
      ready_.insert(tile);
}

// ---- global memory

bool MemoryOrder::isCopied(int arg, bool isWhole) const {
  return isCluster() && !isIn(block_, overIn_) && std::ranges::any_of(copied_, [&](const Copied &c) {
           return (mayBeSame(c.what.arg, arg) || (isWhole && c.what.isWhole)) && !areExclusive(block_, c.in);
         });
}

/// No element of one is one of the other, in an iteration of the loops around.
static bool areApart(const ir::Value *a, const ir::Value *b) {
  const std::optional<int64_t> distance = constantDistance(a, b);
  return distance && isApartFrom(a, *distance);
}

/// Program order between accesses of different threads. Two accesses through different arguments are taken to be of
/// different memory, as a launch that gives one pointer for two has a form in which they are one argument
/// (passes/MergeArguments.h), or (in-place element-wise kernels) of the same element by the same thread. What CTAs of a
/// cluster do not share out all of them read and the first one writes. Two accesses through one pointer are of the same
/// elements by the same threads, unless several threads hold copies of an element (scalars, small tensors): all of them
/// read it, but only one writes it. What the others read does not matter where it only becomes what they would write.
/// Tiles that are a known distance apart may have no element in common; those of a cluster's CTA may have some with
/// another CTA's.
void MemoryOrder::orderAccess(const Op &op, bool writes) {
  const Value *pointer = op.operands[0];
  int arg = memoryOf(pointer);
  if (std::ranges::any_of(blockWrites_, [&](const BlockWrite &w) { return mayBeSame(w.arg, arg); }))
    finishBlockStores();
  bool isWhole = op.whole(), copies = hasCopies(m_, pointer->type.layout),
       byFirst = (op.kind == OpKind::Store || (op.kind == OpKind::Load && placeOf(op).size())) &&
                 pointer->type.isScalar() && !isCluster();
  const bool byOwners = copies && !isCluster() && op.kind == OpKind::Load && isForOwners(op);
  auto isBefore = [&](const Seen &s) {
    bool isSameThread = s.pointer == pointer ? !copies || (s.writes && writes) || s.byOwners || byOwners
                                             : s.pointer && !isCluster() && areApart(s.pointer, pointer);
    bool isOther = mayBeSame(s.arg, arg) && !isSameThread && s.tiled != &op && !(s.byFirst && byFirst);
    return (s.writes || writes) && (isOther || (isWhole && s.isWhole && mayBeSame(s.arg, arg)));
  };
  if ((writes && isCopied(arg, isWhole)) || std::ranges::any_of(seen_, isBefore))
    meet();
  seen_.push_back({arg, pointer, writes, op.tiled() ? &op : nullptr, isWhole, byFirst, byOwners});
}

/// Does nothing come of what a load reads but values that are stored in its own layout? Then of several threads that
/// hold copies of an element only the one that stores has a use for it.
bool MemoryOrder::isForOwners(const Op &load) {
  const uint16_t layout = load.operands[0]->type.layout;
  std::vector<const Value *> left{load.result()};
  std::unordered_set<const Value *> found(left.begin(), left.end());
  while (!left.empty()) {
    const Value *v = left.back();
    left.pop_back();
    for (const Op *user : usersOf(v)) {
      if (user->kind == OpKind::Store
              ? user->operands[0] == v || user->operands[0]->type.layout != layout
              : !user->has(ir::traits::Elementwise) || !user->has(ir::traits::Pure) || user->results.size() != 1 ||
                    user->result()->type.layout != layout || user->result()->type.isScalar())
        return false;
      if (user->kind != OpKind::Store && found.insert(user->result()).second)
        left.push_back(user->result());
    }
  }
  return true;
}

/// A copy that stands where its load stood (a ring of copies ahead is made of memory that nobody writes meanwhile)
/// reads what threads have stored before. Those of this CTA have met where the buffer was read last; other CTAs have
/// not.
void MemoryOrder::orderCopy(const Op &copy) {
  --copiesLeft_;
  const Op *tile = tileOf(copy.operands[0]);
  const int arg = memoryOf(copy.operands[1]);
  if (isCluster() && tile && tile->slots() == 1 &&
      std::ranges::any_of(seen_, [&](const Seen &s) { return s.writes && mayBeSame(s.arg, arg); }))
    meet();
}

/// In a loop more may come.
void MemoryOrder::waitedForCopies(const Op &wait) {
  if (copiesEnd_ && !copiesLeft_ && wait.pending() == 0 && !isIn(wait.parent, waitedIn_) && !isInLoop(wait))
    waitedIn_ = wait.parent;
}

/// A write that any access must come after.
static constexpr Seen anything{-1, nullptr, true, nullptr, true};

static bool isRelaxed(const ir::Op &atomic) { return atomic.sem() == "relaxed"; }

/// What this program did before is visible to whoever sees an ordered atomic: threads synchronize, unless they have
/// since they accessed anything.
void MemoryOrder::beforeAtomic(const Op &op) {
  if (isRelaxed(op))
    return orderAccess(op, true);
  const bool storesBlocks = !blockWrites_.empty();
  finishBlockStores();
  if (storesBlocks || !seen_.empty())
    meet();
}

/// And what others did before theirs is visible to all threads: the next access, of whatever memory, comes after a
/// meeting. Who does not look at the old value cannot know whom the atomic came after, and only accesses of the same
/// memory wait for it. The kernel's end waits for nothing.
Seen MemoryOrder::seenOf(const Op &atomic) {
  return !isRelaxed(atomic) && !usersOf(atomic.result()).empty()
             ? anything
             : Seen{memoryOf(atomic.operands[0]), nullptr, true, nullptr, atomic.whole()};
}

void MemoryOrder::afterAtomic(const Op &op) {
  if (!isRelaxed(op))
    seen_.push_back(seenOf(op));
}

void MemoryOrder::forgetAccesses() {
  seen_.clear();
  seen_.push_back(anything);
  shared_.unknownBefore();
}

// ---- stores and reductions of blocks

static bool storesBlocksIn(const ir::Block &b) {
  return std::ranges::any_of(b.ops, [](const ir::Op *op) {
    return op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce ||
           std::ranges::any_of(op->regions, [](const ir::Region *r) { return storesBlocksIn(*r->block); });
  });
}

/// Copies of one iteration go on in the next where the loop has buffers for them; else all that the iteration before
/// stores may still be read.
void MemoryOrder::beforeLoop(const Op &loop) {
  if (heldBy_)
    return;
  if (const SharedRange r = placeOf(loop); r.size()) {
    waitForReaders();
    heldBy_ = &loop;
    makeFree(r);
  } else if (std::ranges::any_of(loop.regions, [](const ir::Region *r) { return storesBlocksIn(*r->block); })) {
    blockReads_.push_back({0, UINT64_MAX});
  }
}

void MemoryOrder::releaseBuffers(const Op &loop) {
  if (heldBy_ != &loop)
    return;
  blockReads_.push_back(placeOf(loop));
  heldBy_ = nullptr;
}

/// What this thread has written by block stores is there, and copies of blocks see what went by pointers instead.
void MemoryOrder::waitForBlockWrites() {
  emit(OpKind::StoreWait);
  if (std::ranges::any_of(blockWrites_, [](const BlockWrite &w) { return w.op->find(ir::attr::anySign) != nullptr; }))
    emit(OpKind::AsyncFence);
}

void MemoryOrder::finishBlockStores() {
  if (blockWrites_.empty())
    return;
  waitForBlockWrites();
  blockWrites_.clear();
  blockReads_.clear();
  meet();
}

/// The same before asynchronous copies are set up, if one of the kernel may read what was written.
void MemoryOrder::finishBeforeCopies() {
  if (std::ranges::any_of(blockWrites_, [&](const BlockWrite &w) {
        return std::ranges::any_of(copied_, [&](const Copied &c) { return mayBeSame(c.what.arg, w.arg); });
      }))
    finishBlockStores();
}

/// Do the blocks of the store start at multiples of their extents?
bool MemoryOrder::isTiling(const Op &op) {
  if (op.find(ir::attr::tiled)) // of parts: PartitionCluster.cpp
    return op.tiled();
  ir::DescAccess a = ir::descAccess(op);
  for (unsigned d = 0; d < a.rank(); ++d)
    if (facts().of(a.offsets[d]).axes[0].divisibility % a.block[d] != 0)
      return false;
  return true;
}

/// The blocks of both stores are tiles of one grid: two of them are the same, and then each byte is written by the same
/// thread both times, or have nothing in common.
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

void MemoryOrder::addBlockWrite(const BlockWrite &w) {
  if (std::ranges::none_of(blockWrites_, [&](const BlockWrite &b) {
        return b.op == w.op && b.isHere == w.isHere && b.isDone <= w.isDone;
      }))
    blockWrites_.push_back(w);
}

/// True if all earlier copies of this thread are done.
bool MemoryOrder::orderBlockStore(const Op &op) {
  int arg = memoryOf(op.operands[0]);
  bool isWhole = op.whole(), wait = false, together = false;
  bool isBehind =
      std::ranges::any_of(seen_, [&](const Seen &s) { return mayBeSame(s.arg, arg) || (isWhole && s.isWhole); });
  isBehind |= isCopied(arg, isWhole);
  // After plain accesses of other threads, which another path to memory does not see by itself.
  if (isBehind)
    emit(OpKind::AsyncFence);
  for (const BlockWrite &w : blockWrites_) {
    bool commutes = op.kind == OpKind::DescReduce && w.op->kind == OpKind::DescReduce && op.rmw() == w.op->rmw();
    if (!mayBeSame(w.arg, arg) || commutes)
      continue;
    bool sameTiles = haveSameTiles(op, *w.op);
    if (sameTiles && (w.isDone || (w.isHere && areApart(op, *w.op))))
      continue;
    wait = true;
    together |= !sameTiles;
  }
  if (wait) {
    waitForBlockWrites();
    for (BlockWrite &w : blockWrites_)
      w.isDone = true;
  }
  if (together)
    blockWrites_.clear();
  if (isBehind || together)
    meet();
  addBlockWrite({arg, &op, true});
  return wait;
}

void MemoryOrder::beginBlockStore(Op &op) {
  if (orderBlockStore(op))
    op.set(ir::attr::quiet, true);
  if (op.held())
    return;
  waitForReaders();
  makeFree(placeOf(op));
}

void MemoryOrder::endBlockStore(const Op &op) {
  storesBlocks_ = true;
  if (op.held())
    return;
  blockReads_.push_back(placeOf(op));
  shared_.touched(placeOf(op), true);
}

void MemoryOrder::beforeReturn() {
  if (storesBlocks_)
    emit(OpKind::StoreWait, {{ir::attr::read, true}});
}

// ---- control flow

MemoryOrder::PartitionOrder MemoryOrder::enterPartition() {
  return {accesses(), shared_.history(), std::exchange(storesBlocks_, false)};
}

void MemoryOrder::leavePartition(PartitionOrder o) {
  shared_.setHistory(std::move(o.sharedBefore));
  seen_ = std::move(o.before.seen);
  blockWrites_ = std::move(o.before.blockWrites);
  blockReads_ = std::move(o.before.blockReads);
  storesBlocks_ = o.storesBlocks;
}

/// What another iteration may have accessed; false if that cannot be told.
bool MemoryOrder::accessesIn(const ir::Block &b, Accesses &out) {
  bool isKnown = true;
  for (const Op *op : b.ops) {
    bool isRead = op->kind == OpKind::Load, isAtomic = op->kind == OpKind::AtomicRmw || op->kind == OpKind::AtomicCas;
    if (isRead || isAtomic || op->kind == OpKind::Store)
      out.seen.push_back(isAtomic && !isRelaxed(*op) ? seenOf(*op)
                                                     : Seen{memoryOf(op->operands[0]), nullptr, !isRead,
                                                            op->tiled() ? op : nullptr, op->whole()});
    else if (op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce)
      out.blockWrites.push_back({memoryOf(op->operands[0]), op});
    else if (op->regions.empty() && writesGlobal(*op))
      isKnown = false;
    for (const ir::Region *r : op->regions)
      isKnown &= accessesIn(*r->block, out);
  }
  return isKnown;
}

void MemoryOrder::alsoAccesses(const Accesses &a) {
  unite(seen_, a.seen);
  for (const BlockWrite &w : a.blockWrites)
    addBlockWrite(w);
  unite(blockReads_, a.blockReads);
}

void MemoryOrder::otherIterations(const ForOrder &o) {
  if (o.isKnown)
    seen_.clear();
  else
    forgetAccesses();
  alsoAccesses(o.around);
}

/// Has something been accessed that an access of a loop may have to come after?
bool MemoryOrder::anyBefore(const Accesses &inside) const {
  return std::ranges::any_of(inside.seen, [&](const Seen &s) {
    return std::ranges::any_of(blockWrites_, [&](const BlockWrite &w) { return mayBeSame(w.arg, s.arg); }) ||
           std::ranges::any_of(seen_, [&](const Seen &e) { return (s.writes || e.writes) && mayBeSame(s.arg, e.arg); });
  });
}

/// Does anything in it read or write shared memory, or may it?
static bool usesShared(const ir::Block &b) {
  auto isShared = [](const ir::Value *v) { return v->type.isShared; };
  return std::ranges::any_of(b.ops, [&](const ir::Op *op) {
    return placeOf(*op).size() || op->kind == OpKind::AsmEffect || std::ranges::any_of(op->operands, isShared) ||
           std::ranges::any_of(op->results, isShared) ||
           std::ranges::any_of(op->regions, [](const ir::Region *r) { return usesShared(*r->block); });
  });
}

/// What a loop accesses that stands just before it and does the first iterations of the same loop, none of which have
/// to come after another one. What came before those has been waited for.
Accesses MemoryOrder::firstIterations(const Op &loop) {
  Accesses out;
  for (size_t i = positionOf(*loop.parent, &loop); i--;) {
    const Op &op = *loop.parent->ops[i];
    if (op.kind == OpKind::For && goesOn(loop, op) && !iterationsMeet(op, options_.numCtas))
      accessesIn(*op.region(0), out);
    if (!op.has(ir::traits::Pure))
      break;
  }
  return out;
}

MemoryOrder::ForOrder MemoryOrder::enterFor(const Op &op) {
  ForOrder o;
  // Reads alone change nothing for each other.
  o.writes = writesGlobal(op);
  Accesses inside;
  o.isKnown = o.writes && accessesIn(*op.region(0), inside);
  // Where no iteration has to come after another one, the threads synchronize before the loop if they have to, not in
  // it.
  const bool areApart = o.isKnown && inside.blockWrites.empty() && !iterationsMeet(op, options_.numCtas);
  const auto writesCopied = [&] {
    return std::ranges::any_of(inside.seen, [&](const Seen &s) { return s.writes && isCopied(s.arg, s.isWhole); });
  };
  if (areApart && anyBefore(inside)) {
    const Accesses first = firstIterations(op);
    std::erase_if(seen_, [&](const Seen &s) { return std::ranges::find(first.seen, s) != first.seen.end(); });
  }
  if (areApart && (anyBefore(inside) || writesCopied())) {
    finishBlockStores();
    if (anyBefore(inside) || writesCopied())
      meet();
  }
  o.earlier = o.around = accesses();
  o.usesShared = placeOf(op).size() || usesShared(*op.region(0));
  o.sharedBefore = shared_.history();
  if (areApart) {
    if (o.usesShared)
      shared_.unknownBefore();
    unite(o.around.seen, inside.seen);
    return o;
  }
  unite(o.around.seen, inside.seen);
  o.around.blockWrites.insert(o.around.blockWrites.end(), inside.blockWrites.begin(), inside.blockWrites.end());
  if (o.writes)
    otherIterations(o);
  if (o.usesShared)
    shared_.unknownBefore();
  return o;
}

void MemoryOrder::leaveFor(const Op &op, const ForOrder &o) {
  // The loop may not run at all: what it waited for has not happened then. (Without writes it only ever adds reads.)
  auto isKept = [&] {
    const Accesses &e = o.earlier;
    return seen_.size() >= e.seen.size() && std::equal(e.seen.begin(), e.seen.end(), seen_.begin()) &&
           blockWrites_.size() >= e.blockWrites.size() && blockReads_.size() >= e.blockReads.size();
  };
  if (o.writes)
    otherIterations(o);
  else if (!isKept())
    alsoAccesses(o.earlier);
  if (o.usesShared)
    shared_.unknownBefore();
  else
    shared_.setHistory(o.sharedBefore); // nor have its threads synchronized, if it does not run
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
MemoryOrder::IfOrder MemoryOrder::enterIf() { return {accesses(), {}, shared_.history(), {}}; }

void MemoryOrder::enterElse(IfOrder &o) {
  o.then = accesses();
  o.sharedThen = shared_.history();
  seen_ = o.before.seen;
  blockWrites_ = o.before.blockWrites;
  blockReads_ = o.before.blockReads;
  shared_.setHistory(o.sharedBefore);
}

void MemoryOrder::leaveIf(const IfOrder &o) {
  alsoAccesses(o.then);
  shared_.addHistory(o.sharedThen);
}

} // namespace tegula::gpu
