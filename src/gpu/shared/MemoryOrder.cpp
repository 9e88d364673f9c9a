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

/// Is `b` the block `outer`, or nested in it?
static bool isIn(const ir::Block *b, const ir::Block *outer) {
  while (b && b != outer)
    b = b->parent->op ? b->parent->op->parent : nullptr;
  return b && outer;
}

/// Are the blocks on different sides of a branch, so that a program (all of its threads branch alike) runs only one?
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
  // No wait may be left at the end of a block, or before an operation with regions. The combiner of a reduction is not
  // such a block.
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
    // The bytes become ordinary memory again once no thread waits or arrives any more.
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

/// Must threads synchronize before these bytes are used again? Also emits the wait for block stores that still read
/// them.
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
  // Other threads may still read: the next user of these bytes synchronizes. The wait for threads of other CTAs is
  // separate.
  if (isOfCluster)
    leaveScratch();
}

void MemoryOrder::beginTile(Op &op) {
  waitForReaders();
  endsWithLastUser(op);
  // Operations around the users of a ring synchronize it. Here threads synchronize with the earlier users of the bytes,
  // and with the writers of memory that will be copied: single copies are not analyzed.
  makeFree(placeOf(op));
  if (op.kind == OpKind::SharedAlloc) {
    finishBeforeCopies();
    if (wroteGlobal()) {
      if (hasTensorMaps_) // so that block copies see earlier stores
        emit(OpKind::AsyncFence);
      meet();
    }
  }
}

void MemoryOrder::beginBarriers(Op &op) {
  waitForReaders();
  endsWithLastUser(op);
  // Block copies may access memory to which threads have stored before.
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
  ofCluster || op.global() ? meet() : barrier(); // stores before the first of the row count for the last, too
}

void MemoryOrder::touched(const Value *tile, bool writes) {
  if (const Op *of = tileOf(tile))
    shared_.touched(placeOf(*of), writes);
}

/// Calls `fn` with the to_shared of each tile that a dot or a gather reads; rings have their own barriers.
template <typename Fn> static void eachStoredTile(const ir::Op &reader, const Fn &fn) {
  for (const ir::Value *v : reader.operands)
    if (const ir::Op *tile = v->type.isShared ? tileOf(v) : nullptr; tile && tile->kind == OpKind::ToShared)
      fn(*tile);
}

/// The stores of other threads to tiles are visible after a barrier. All tiles are read after it, so none counts as
/// read before.
void MemoryOrder::readTiles(const Op &op) {
  eachStoredTile(op, [&](const Op &tile) {
    if (ready_.insert(&tile).second && shared_.needsBarrier(placeOf(tile), false))
      barrier();
  });
  for (const Value *v : op.operands)
    if (v->type.isShared)
      touched(v, false);
}

/// Adds to `out` the tiles made outside `op` that operations in the block read and that are not known to be ready.
/// Returns whether one is read before threads synchronize there.
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

/// Do the two tiles of addresses have no element in common, within one iteration of the enclosing loops?
static bool areApart(const ir::Value *a, const ir::Value *b) {
  const std::optional<int64_t> distance = constantDistance(a, b);
  return distance && isApartFrom(a, *distance);
}

/// Keeps program order between accesses of different threads. Two accesses through different arguments do not alias: a
/// launch that passes one pointer for two has a form in which they are one argument (passes/MergeArguments.h), or
/// (in-place element-wise kernels) the same thread accesses the same element. A tensor that is not partitioned over the
/// CTAs of a cluster is read by all CTAs and written by the first one. Two accesses through one pointer are by the same
/// threads for each element, unless an element is replicated over several threads (scalars, small tensors): all of them
/// read it, but only one writes it. The values that the others read do not matter if they only become values that these
/// would write. Tiles at a known distance may have no element in common, except that a tile of one CTA of a cluster may
/// overlap one of another CTA.
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

/// Does a load only feed values that are stored in its own layout? Then of several threads that hold copies of an
/// element only the one that stores it uses it.
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

/// A copy at the place of its load reads memory to which threads may have stored before (memory that is copied ahead to
/// a ring is not written meanwhile). The threads of this CTA have synchronized since the buffer was last read; other
/// CTAs have not.
void MemoryOrder::orderCopy(const Op &copy) {
  --copiesLeft_;
  const Op *tile = tileOf(copy.operands[0]);
  const int arg = memoryOf(copy.operands[1]);
  if (isCluster() && tile && tile->slots() == 1 &&
      std::ranges::any_of(seen_, [&](const Seen &s) { return s.writes && mayBeSame(s.arg, arg); }))
    meet();
}

/// In a loop more copies may follow.
void MemoryOrder::waitedForCopies(const Op &wait) {
  if (copiesEnd_ && !copiesLeft_ && wait.pending() == 0 && !isIn(wait.parent, waitedIn_) && !isInLoop(wait))
    waitedIn_ = wait.parent;
}

/// A write after which any access must come.
static constexpr Seen anything{-1, nullptr, true, nullptr, true};

static bool isRelaxed(const ir::Op &atomic) { return atomic.sem() == "relaxed"; }

/// An ordered atomic publishes the earlier accesses of this program: threads synchronize first, unless there was no
/// access since they last did.
void MemoryOrder::beforeAtomic(const Op &op) {
  if (isRelaxed(op))
    return orderAccess(op, true);
  const bool storesBlocks = !blockWrites_.empty();
  finishBlockStores();
  if (storesBlocks || !seen_.empty())
    meet();
}

/// After an ordered atomic, earlier accesses of other programs are visible to all threads: threads synchronize before
/// the next access to any memory. If the old value has no user, the program cannot tell which atomics came before, and
/// only accesses to the same memory wait. The end of the kernel waits for nothing.
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

/// Copies of one iteration continue in the next one if the loop holds buffers for them. Otherwise the stores of the
/// previous iteration may still read all of shared memory.
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

/// Waits until the block stores of this thread are complete, and emits the fence that lets copies of blocks see stores
/// through pointers.
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

/// The same before asynchronous copies are set up, if a copy of the kernel may read the written memory.
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

/// Are the blocks of both stores tiles of one grid? Then two blocks are either disjoint or the same, and in the same
/// block the same thread writes each byte both times.
bool MemoryOrder::haveSameTiles(const Op &x, const Op &y) {
  if (&x == &y)
    return isTiling(x);
  return haveSameBlocks(x, y) && isTiling(x) && isTiling(y);
}

/// Do offsets differ by a constant, within one iteration?
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

/// Returns true if all earlier copies of this thread are complete.
bool MemoryOrder::orderBlockStore(const Op &op) {
  int arg = memoryOf(op.operands[0]);
  bool isWhole = op.whole(), wait = false, together = false;
  bool isBehind =
      std::ranges::any_of(seen_, [&](const Seen &s) { return mayBeSame(s.arg, arg) || (isWhole && s.isWhole); });
  isBehind |= isCopied(arg, isWhole);
  // After plain accesses of other threads, which the asynchronous path to memory does not see without a fence.
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

/// Adds the accesses that another iteration may have made; false if they are not all known.
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

/// Is there an earlier access that must come before an access of the loop?
bool MemoryOrder::anyBefore(const Accesses &inside) const {
  return std::ranges::any_of(inside.seen, [&](const Seen &s) {
    return std::ranges::any_of(blockWrites_, [&](const BlockWrite &w) { return mayBeSame(w.arg, s.arg); }) ||
           std::ranges::any_of(seen_, [&](const Seen &e) { return (s.writes || e.writes) && mayBeSame(s.arg, e.arg); });
  });
}

/// May an operation in the block access shared memory?
static bool usesShared(const ir::Block &b) {
  auto isShared = [](const ir::Value *v) { return v->type.isShared; };
  return std::ranges::any_of(b.ops, [&](const ir::Op *op) {
    return placeOf(*op).size() || op->kind == OpKind::AsmEffect || std::ranges::any_of(op->operands, isShared) ||
           std::ranges::any_of(op->results, isShared) ||
           std::ranges::any_of(op->regions, [](const ir::Region *r) { return usesShared(*r->block); });
  });
}

/// The accesses of the loop just before `loop`, if it does the first iterations of the same loop and none of them must
/// come after another one. Threads have already synchronized with the accesses before those.
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
  // Reads need no order among each other.
  o.writes = writesGlobal(op);
  Accesses inside;
  o.isKnown = o.writes && accessesIn(*op.region(0), inside);
  // If no iteration must come after another one, threads synchronize before the loop if at all, not in it.
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
  // The loop may run zero times, and its waits then have not happened. (Without writes it only adds reads.)
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
    shared_.setHistory(o.sharedBefore); // its threads have not synchronized either, if it does not run
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

/// Both sides begin with the accesses before the branch, and the accesses of either side may come before later ones.
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
