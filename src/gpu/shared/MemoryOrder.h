// Decides which barriers and waits must come between the accesses of an operation and those before it, from its
// position in the kernel. OrderMemory.cpp walks the kernel and calls this class, which emits operations and sets
// attributes.
//
// Program order must hold between the threads of a program: docs/rationale/gpu.md, "Order of memory accesses", "Shared
// memory".
#pragma once
#include "gpu/TargetInfo.h"
#include "gpu/shared/SharedAccesses.h"
#include "gpu/shared/SharedNeeds.h"
#include "ir/Builder.h"
#include "passes/AxisFacts.h"
#include "passes/Users.h"
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tegula::gpu {

/// An access since threads last synchronized: its argument (-1: unknown), and its pointer if the access was in this
/// iteration.
struct Seen {
  int arg;
  const ir::Value *pointer;
  bool writes;
  const ir::Op *tiled = nullptr; // a store each element of which the same thread always writes
  bool isWhole = false;          // by all CTAs of a cluster, or the first one of them
  bool byFirst = false;          // an access to a scalar by the first thread
  bool byOwners = false;         // a replicated load whose values only the thread uses that writes the element
  auto operator<=>(const Seen &) const = default;
};

/// A store or reduction of a block that has started.
struct BlockWrite {
  int arg; // of the kernel, -1: unknown
  const ir::Op *op;
  bool isHere = false; // in this iteration of all enclosing loops
  bool isDone = false; // the thread that started the copy has waited for it, but threads have not synchronized
};

/// The accesses before a program point, over all paths to it.
struct Accesses {
  std::vector<Seen> seen;
  std::vector<BlockWrite> blockWrites;
  std::vector<SharedRange> blockReads; // buffers of block stores
};

class MemoryOrder {
protected:
  using Op = ir::Op;
  using Value = ir::Value;

  MemoryOrder(ir::Module &m, const TargetInfo &target, const Options &options)
      : b_(m), m_(m), target_(target), options_(options), source_(m.kernel()) {}

  /// Analyzes the whole kernel. Must be called first.
  void beginOrder();
  /// Called before and after every operation. beforeOp emits the wait that an exchange over the cluster left, where
  /// control flow needs it; afterOp ends the live ranges of mbarriers.
  void beforeOp(const Op &op), afterOp(const Op &op);

  // ---- threads synchronize
  /// Synchronizes all threads of the block that compute.
  void barrier();
  /// Synchronizes all threads of the program (of the cluster, if there is one), to order accesses to global memory.
  void meet();
  /// Records that threads have synchronized inside the operation.
  void haveMet(bool wholeProgram);
  bool isCluster() const { return options_.numCtas > 1; }

  // ---- shared memory
  /// beforeScratch: before an operation writes its scratch. Sets `meet` if threads must synchronize first, because
  /// another operation may still use the bytes. afterScratch: after an exchange among the threads of `scope`.
  void beforeScratch(Op &op);
  void afterScratch(layout::ExchangeScope scope);
  /// At the beginning of the kernel, if CTAs send each other parts: sets up the mbarriers and arrives at the barrier of
  /// the cluster. The wait for the other CTAs comes where something may be sent, at the latest at the end of the
  /// kernel. CTAs need no other synchronization: a CTA sends only after the receiver has begun, and a receiver cannot
  /// end before the parts that it waits for have arrived.
  void openExchanges(const ir::Block &kernel);
  void beforeSending() { waitForReaders(); }
  /// Before the tile of a to_shared, or the ring of a shared_alloc, is allocated.
  void beginTile(Op &op);
  /// Before mbarriers are allocated. Block copies may read data stored before.
  void beginBarriers(Op &op);
  /// After the initialization of mbarriers: synchronizes threads. `more`: the next operation allocates mbarriers, too,
  /// and threads synchronize after the last one in a row.
  void barriersReady(Op &op, bool more);
  /// Before an operation reads tiles: emits the barrier, if they need one.
  void readTiles(const Op &op);
  /// Before a loop or a branch: emits the barrier for tiles that dots and gathers in it read before threads synchronize
  /// there. One barrier before the loop is enough, as no other operation has the bytes before the last read.
  void tilesReady(const Op &op);
  /// Tiles that are ready for all threads. Tiles that become ready in a region that may not run are not known to be
  /// ready after it.
  using Tiles = std::unordered_set<const Op *>;
  Tiles readyTiles() const { return ready_; }
  void setReadyTiles(Tiles t) { ready_ = std::move(t); }
  /// Records that threads store to the tile.
  void storesTile(const Op &op) { ready_.erase(&op); }
  void touched(const Value *tile, bool writes);

  // ---- global memory
  /// Emits a barrier if another thread of this program may have accessed the same memory before.
  void orderAccess(const Op &op, bool writes);
  void orderCopy(const Op &copy);
  /// Records that this thread has waited for all of its copies.
  void waitedForCopies(const Op &wait);
  void beforeAtomic(const Op &op), afterAtomic(const Op &op);
  Seen seenOf(const Op &atomic);
  /// Assumes that any access may have happened before: after opaque statements and on unknown paths.
  void forgetAccesses();
  /// Waits for the block stores of this program and synchronizes, so that all its threads see the data.
  void finishBlockStores();

  // ---- stores and reductions of blocks
  void beginBlockStore(Op &op), endBlockStore(const Op &op);
  /// Shared memory must stay allocated until block stores have read it.
  void beforeReturn();

  // ---- control flow
  /// Before a loop, which may hold the buffers of all block stores in it (`shared`).
  void beforeLoop(const Op &loop);
  struct ForOrder {
    Accesses around, earlier;
    bool writes = false, isKnown = false, usesShared = true;
    SharedAccesses::History sharedBefore; // the history after a loop that does not use shared memory
  };
  ForOrder enterFor(const Op &op);
  void leaveFor(const Op &op, const ForOrder &o);
  Accesses enterWhile(const Op &op);
  void leaveWhile(const Op &op, const Accesses &around);
  struct IfOrder {
    Accesses before, then;
    SharedAccesses::History sharedBefore, sharedThen;
  };
  IfOrder enterIf();
  void enterElse(IfOrder &o), leaveIf(const IfOrder &o);
  struct PartitionOrder {
    Accesses before;
    SharedAccesses::History sharedBefore;
    bool storesBlocks;
  };
  PartitionOrder enterPartition();
  /// Restores the state before the partition: the threads of the next partition run at the same time and have other
  /// bytes.
  void leavePartition(PartitionOrder o);

  ir::Builder b_; // where operations go
  ir::Module &m_;
  const TargetInfo &target_;
  const Options &options_;

private:
  bool findUnready(const ir::Block &b, const Op &op, bool &meets, std::vector<const Op *> &out) const;
  Op *emit(ir::OpKind kind, std::vector<ir::Attr> attrs = {}) { return b_.create(kind, {}, {}, std::move(attrs)); }
  /// leaveScratch: this thread has read the data it needs from other CTAs' scratch, and arrives at the barrier of the
  /// cluster. waitForReaders: emits the wait until all threads have, before memory is reused or a block ends.
  void leaveScratch(), waitForReaders();
  bool mustMeet(SharedRange r);
  void makeFree(SharedRange r), endsWithLastUser(const Op &tile);
  void findCopies(const ir::Block &b);
  void releaseBuffers(const Op &loop);
  void waitForBlockWrites(), finishBeforeCopies(), addBlockWrite(const BlockWrite &w);
  bool orderBlockStore(const Op &op), isTiling(const Op &op), haveSameTiles(const Op &x, const Op &y);
  /// May asynchronous copies of another CTA still read the accessed memory? This CTA's copies are known to be complete;
  /// the others' are where threads have synchronized after all of them have waited.
  bool isCopied(int arg, bool isWhole) const;
  /// Has global memory been written since the last barrier, as far as is known?
  bool wroteGlobal() const;
  /// The accesses before the current point.
  Accesses accesses() const { return {seen_, blockWrites_, blockReads_}; }
  void alsoAccesses(const Accesses &a), otherIterations(const ForOrder &o);
  bool anyBefore(const Accesses &inside) const;
  Accesses firstIterations(const Op &loop);
  bool accessesIn(const ir::Block &b, Accesses &out);
  /// Axis facts of the kernel, computed on first use.
  const AxisFacts &facts();
  std::span<Op *const> usersOf(const Value *v);
  bool isForOwners(const Op &load);

  const ir::Function *source_;
  std::unordered_set<const Op *> ready_; // tiles whose stores all threads see
  SharedAccesses shared_;
  std::optional<AxisFacts> facts_;
  std::optional<Users> users_;
  bool hasTensorMaps_ = false, storesBlocks_ = false;
  bool barriersOfCluster_ = false;                      // some of a row of barrier_alloc that has not ended
  bool hasLeft_ = false;                                // between leaveScratch and waitForReaders
  std::vector<Seen> seen_;
  std::vector<BlockWrite> blockWrites_;                 // not known to be complete
  std::vector<SharedRange> blockReads_;                 // shared memory that block stores may still read
  const Op *heldBy_ = nullptr;                          // the loop that holds the buffers of block stores
  struct Copied {
    Seen what;
    const ir::Block *in;
  };
  std::vector<Copied> copied_;                          // what asynchronous copies of the kernel read
  size_t copiesLeft_ = 0;                               // copies that the walk has not reached yet
  bool copiesEnd_ = true;                               // a wait may cover all copies: this thread starts all of them
  const ir::Block *block_ = nullptr;                    // the current block
  // blocks where threads have waited for all copies of the kernel, and have synchronized since
  const ir::Block *waitedIn_ = nullptr, *overIn_ = nullptr;
  SharedRange scratch_;                                 // of the current operation
  std::unordered_map<const Op *, const Op *> lastUser_; // of a tile, in the tile's block
  std::unordered_map<const Op *, std::vector<const Op *>> endsAfter_; // the tiles that die with an operation
};

} // namespace tegula::gpu
