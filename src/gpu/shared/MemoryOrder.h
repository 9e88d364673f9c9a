// What the place of an operation in its kernel decides: which barriers and waits stand between its accesses and those
// before it. OrderMemory.cpp walks the kernel and asks; the answers become operations and attributes (`emit`).
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

/// An access since threads have synchronized: argument (or -1) and, of this iteration, pointer.
struct Seen {
  int arg;
  const ir::Value *pointer;
  bool writes;
  const ir::Op *tiled = nullptr; // a store whose elements are always written by the same threads
  bool isWhole = false;          // by all CTAs of a cluster, or the first one of them
  bool byFirst = false;          // a store of a scalar, which the first thread does
  bool byOwners = false;         // a load whose copies of an element have no use but in the thread that writes them
  auto operator<=>(const Seen &) const = default;
};

/// A store or reduction of a block that has been started.
struct BlockWrite {
  int arg; // of the kernel, -1: unknown
  const ir::Op *op;
  bool isHere = false; // in this iteration of all loops around
  bool isDone = false; // the thread that started a copy has waited for it; others do not know that
};

/// What came before a place; what another path to it has done is added.
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

  /// Looks at the whole kernel. Goes first.
  void beginOrder();
  /// Around every operation: what cluster-wide exchanges left to wait for, and what ends with the operation.
  void beforeOp(const Op &op), afterOp(const Op &op);

  // ---- threads synchronize
  /// All threads of the block that compute.
  void barrier();
  /// All threads of the program, for the order of accesses to global memory: those of the cluster, if there is one.
  void meet();
  /// They have, inside of the operation.
  void haveMet(bool wholeProgram);
  bool isCluster() const { return options_.numCtas > 1; }

  // ---- shared memory
  /// Before what writes scratch, which nobody uses any more once threads have synchronized if the operation says so
  /// (`meet`); after it, with all threads or those of a warp alone.
  void beforeScratch(Op &op);
  void afterScratch(layout::ExchangeScope scope);
  /// At the beginning of the kernel: CTAs that send each other parts know that mbarriers wait for them. The other CTAs
  /// are waited for where something may be sent, at the latest at the end of the kernel.
  /// No other meeting is needed: a CTA sends where it knows that the receiver has begun, and a receiver cannot end
  /// before what it waits for has come.
  void openExchanges(const ir::Block &kernel);
  void beforeSending() { waitForReaders(); }
  /// The tile of a to_shared, the ring of a shared_alloc.
  void beginTile(Op &op);
  /// mbarriers. What was stored before may be read by block copies.
  void beginBarriers(Op &op);
  /// Once they are initialized: threads synchronize. `more`: the next operation has mbarriers, too, and threads
  /// synchronize after the last of the row.
  void barriersReady(Op &op, bool more);
  /// Operands of one operation are about to be read: the barrier before, if they need one.
  void readTiles(const Op &op);
  /// Before a loop or a branch: the barrier for tiles that dots and gathers in it read before threads synchronize
  /// there. Once, and not in each iteration, as nobody else has their bytes until the last one reads.
  void tilesReady(const Op &op);
  /// Of what a region that may not run has made sure of nothing is known after it.
  using Tiles = std::unordered_set<const Op *>;
  Tiles readyTiles() const { return ready_; }
  void setReadyTiles(Tiles t) { ready_ = std::move(t); }
  /// Threads store to the tile.
  void storesTile(const Op &op) { ready_.erase(&op); }
  void touched(const Value *tile, bool writes);

  // ---- global memory
  /// A barrier if an earlier access of this program may touch the same memory from another thread.
  void orderAccess(const Op &op, bool writes);
  void orderCopy(const Op &copy);
  /// This thread has waited for all of its copies.
  void waitedForCopies(const Op &wait);
  void beforeAtomic(const Op &op), afterAtomic(const Op &op);
  Seen seenOf(const Op &atomic);
  /// Accesses of other paths, or of statements that nobody can look into, may have come before.
  void forgetAccesses();
  /// Everything that block stores of this program have written is there for all its threads.
  void finishBlockStores();

  // ---- stores and reductions of blocks
  void beginBlockStore(Op &op), endBlockStore(const Op &op);
  /// Shared memory must stay until it has been read.
  void beforeReturn();

  // ---- control flow
  /// A loop may have the buffers of all block stores in it (`shared`). Before it begins.
  void beforeLoop(const Op &loop);
  struct ForOrder {
    Accesses around, earlier;
    bool writes = false, isKnown = false, usesShared = true;
    SharedAccesses::History sharedBefore; // of a loop that does not use shared memory: what it leaves
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
  /// What its threads have done says nothing of those of the next one, who run at the same time: they have other bytes.
  void leavePartition(PartitionOrder o);

  ir::Builder b_; // where operations go
  ir::Module &m_;
  const TargetInfo &target_;
  const Options &options_;

private:
  bool findUnready(const ir::Block &b, const Op &op, bool &meets, std::vector<const Op *> &out) const;
  Op *emit(ir::OpKind kind, std::vector<ir::Attr> attrs = {}) { return b_.create(kind, {}, {}, std::move(attrs)); }
  /// This thread has read what it wanted of other CTAs' scratch; whoever takes memory next, or ends the block, waits
  /// until all have.
  void leaveScratch(), waitForReaders();
  bool mustMeet(SharedRange r);
  void makeFree(SharedRange r), endsWithLastUser(const Op &tile);
  void findCopies(const ir::Block &b);
  void releaseBuffers(const Op &loop);
  void waitForBlockWrites(), finishBeforeCopies(), addBlockWrite(const BlockWrite &w);
  bool orderBlockStore(const Op &op), isTiling(const Op &op), haveSameTiles(const Op &x, const Op &y);
  /// Do asynchronous copies of any CTA read what is accessed? This CTA's are known to be over; the others' where
  /// threads have synchronized since all have waited.
  bool isCopied(int arg, bool isWhole) const;
  /// Since the last barrier, as far as that is known.
  bool wroteGlobal() const;
  /// At the border of a block.
  Accesses accesses() const { return {seen_, blockWrites_, blockReads_}; }
  void alsoAccesses(const Accesses &a), otherIterations(const ForOrder &o);
  bool anyBefore(const Accesses &inside) const;
  Accesses firstIterations(const Op &loop);
  bool accessesIn(const ir::Block &b, Accesses &out);
  /// Of the kernel, found when they are first asked for.
  const AxisFacts &facts();
  std::span<Op *const> usersOf(const Value *v);
  bool isForOwners(const Op &load);

  const ir::Function *source_;
  std::unordered_set<const Op *> ready_; // tiles whose stores all threads know of
  SharedAccesses shared_;
  std::optional<AxisFacts> facts_;
  std::optional<Users> users_;
  bool hasTensorMaps_ = false, storesBlocks_ = false;
  bool barriersOfCluster_ = false;                      // some of a row of barrier_alloc that has not ended
  bool hasLeft_ = false;                                // between leaveScratch and waitForReaders
  std::vector<Seen> seen_;
  std::vector<BlockWrite> blockWrites_;                 // nobody has waited until they were done
  std::vector<SharedRange> blockReads_;                 // shared memory that block stores may still read
  const Op *heldBy_ = nullptr;                          // the loop that has the buffers of block stores
  struct Copied {
    Seen what;
    const ir::Block *in;
  };
  std::vector<Copied> copied_;                          // what asynchronous copies of the kernel read
  size_t copiesLeft_ = 0;                               // that have not come yet
  bool copiesEnd_ = true;                               // a wait for them may be for all: they are all of this thread
  const ir::Block *block_ = nullptr;                    // that is looked at
  // where threads have waited for all copies of the kernel, and have met since
  const ir::Block *waitedIn_ = nullptr, *overIn_ = nullptr;
  SharedRange scratch_;                                 // of the current operation
  std::unordered_map<const Op *, const Op *> lastUser_; // of a tile, in the tile's block
  std::unordered_map<const Op *, std::vector<const Op *>> endsAfter_; // the tiles that die with an operation
};

} // namespace tegula::gpu
