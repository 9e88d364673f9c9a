// What the place of an operation in its kernel decides: which bytes of shared memory it has, and which barriers and waits stand between its accesses
// and those before it. No instruction is made here: Lowering makes them (the `emit` functions).
//
// Structured code is walked in order, operation by operation. A tile lives from its operation to its last user, so taking the lowest free bytes is
// allocation by liveness (SharedMemory.h). Program order must hold between the threads of a program: docs/rationale/gpu.md,
// "Order of memory accesses", "Shared memory".
#pragma once
#include "gpu/Layouts.h"
#include "gpu/SharedNeeds.h"
#include "passes/AxisFacts.h"
#include "targets/nvidia/Accesses.h"
#include "targets/nvidia/Nvidia.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tegula::nvidia {

class MemoryOrder {
protected:
  using Op = ir::Op;
  using Value = ir::Value;

  MemoryOrder(const ir::Module &m, const NvTarget &target, const NvOptions &options) : m_(m), target_(target), options_(options), source_(m.kernel()) {}
  virtual ~MemoryOrder() = default;

  /// Looks at the whole kernel. Goes first.
  void beginOrder();
  /// Around every operation: what cluster-wide exchanges left to wait for, and what ends with the operation.
  void beforeOp(const Op &op), afterOp(const Op &op);

  // ---- what is made of a decision
  virtual void emitBarrier() {}
  virtual void emitClusterArrive() {}
  virtual void emitClusterWait() {}
  /// Until so many younger bulk stores of this thread are left; `read`: until they have read shared memory, else until their writes are there.
  virtual void emitBulkWait(unsigned pending, bool read) {}
  /// Between accesses by pointers and by TMA; `global`: to global memory too.
  virtual void emitProxyFence(bool global) {}
  /// The mbarriers are ordinary bytes again.
  virtual void emitBarriersEnd(const Op &alloc, SharedRange r) {}

  // ---- threads meet
  /// All threads of the block that compute. Scratch of the current operation counts as written afterwards.
  void barrier();
  /// All threads of the program meet, for the order of accesses to global memory: those of the cluster, if there is one.
  void meet();
  /// This thread has read what it wanted of other CTAs' scratch; who takes memory next, or ends the block, waits until all have.
  void leaveScratch(), waitForReaders();
  bool isCluster() const { return options_.numCtas > 1; }

  // ---- shared memory
  /// The scratch that an operation needs (SharedNeeds.h) beside what is taken now.
  Scratch scratchNeedOf(const Op &op) const;
  /// Bytes of scratch, which nobody uses any more. A little memory lies elsewhere rather than wait for its last users: two reductions in a row take turns, and meet
  /// half as often.
  SharedRange takeScratch(const Op &op, uint64_t bytes);
  /// The same for an exchange inside warps. `isOwn`: in a loop, bytes that nothing else ever has, so that warps need no barrier of the block, unless the bytes
  /// might be missing later.
  SharedRange takeWarpScratch(const Op &op, uint64_t bytes, bool &isOwn);
  /// The tile of a to_shared, the ring of a shared_alloc.
  SharedRange beginTile(const Op &op);
  /// mbarriers. What was stored before may be read by TMA: `wrote`. barriersReady() once they are initialized.
  SharedRange beginBarriers(const Op &op, bool &wrote);
  void barriersReady(const Op &op, bool wrote);
  /// Operands of one operation are about to be read: the barrier before, if they need one.
  void readTiles(llvm::ArrayRef<Value *> operands);
  void touched(const Value *tile, bool writes) { memory_.touched(tiles_[tileOf(tile)], writes); }
  /// The operation whose tile or ring a shared value is (a part of).
  static const Op *tileOf(const Value *v);

  // ---- global memory
  /// A barrier if an earlier access of this program may touch the same memory from another thread.
  void orderAccess(const Op &op, bool writes);
  void beforeAtomic(const Op &op), afterAtomic(const Op &op);
  static bool isOrdered(const Op &atomic) { return atomic.strAttr("sem") != "relaxed"; }
  /// Accesses of other paths, or of statements that nobody can look into, may have come before.
  void forgetAccesses();
  /// Everything that bulk stores of this program have written is there for all its threads.
  void finishBulkStores();
  /// Somebody reads its old values.
  bool isUsed(const Op &atomic) const { return usedAtomics_.contains(&atomic); }

  // ---- stores and reductions by TMA
  struct BulkRoom {
    SharedRange range;
    unsigned buffers = 1; // for each warp
    bool isHeld = false;  // a loop around has them
    bool goesOn = false;  // the same buffers in the same order as the store just before, or nobody knows which are in use
    bool isQuiet = false; // all earlier copies of this thread are done
    size_t turn = 0;      // the first buffer
  };
  const BulkStore &bulkPlan(const Op &op);
  BulkRoom beginBulk(const Op &op);
  /// `turn`: the buffer after the last one.
  void endBulk(const Op &op, const BulkRoom &room, size_t turn);
  bool storedInBulk() const { return storedInBulk_; }

  // ---- control flow
  /// Room for the buffers of all bulk stores in a loop. Before the loop begins.
  void beforeLoop(const Op &loop) { holdBuffers(loop); }
  struct ForOrder {
    Accesses around, earlier;
    bool writes = false, isKnown = false;
  };
  ForOrder enterFor(const Op &op);
  void leaveFor(const Op &op, const ForOrder &o);
  Accesses enterWhile(const Op &op);
  void leaveWhile(const Op &op, const Accesses &around);
  struct IfOrder {
    Accesses before, then;
    SharedMemory::History sharedBefore, sharedThen;
  };
  IfOrder enterIf();
  void enterElse(IfOrder &o), leaveIf(const IfOrder &o);
  struct ProducerOrder {
    SharedMemory memory;
    llvm::SmallVector<Seen, 8> seen;
  };
  ProducerOrder enterProducer() const { return {memory_, seen_}; }
  /// What it has done says nothing of the threads that go on.
  void leaveProducer(ProducerOrder o) { memory_ = std::move(o.memory), seen_ = std::move(o.seen); }

  using Live = llvm::SmallVector<std::pair<const Op *, SharedRange>, 8>;
  /// What was there when most was.
  const Live &mostLive() const { return mostLive_; }
  /// The axis facts of the kernel, found when they are first asked for.
  const AxisFacts &facts();
  const LinearLayout &layoutOf(const Value *v) const { return m_.layoutOf(v->type); }

  const ir::Module &m_;
  const NvTarget &target_;
  const NvOptions &options_;
  const ir::Function *source_;
  SharedMemory memory_;

private:
  SharedRange take(const Op &op, uint64_t bytes, uint32_t align, bool isNew = false);
  bool hasOwnRoom(const Op &op, uint64_t bytes) const;
  uint64_t bytesHeld(const Op &loop);
  void release(SharedRange r), makeFree(SharedRange r), met(), endsWithLastUser(const Op &tile);
  void findLastUsers(const ir::Block &b), findCopies(const ir::Block &b);
  void holdBuffers(const Op &loop), releaseBuffers(const Op &loop);
  void waitForBulkWrites(), finishBeforeCopies(), addBulkWrite(const BulkWrite &w);
  bool orderBulk(const Op &op), isTiling(const Op &op), haveSameTiles(const Op &x, const Op &y);
  /// Do asynchronous copies of any CTA read what is accessed? Only this CTA's are known to be over.
  bool isCopied(int arg, bool isWhole) const;
  /// Since the last barrier, as far as that is known.
  bool wroteGlobal() const;
  /// At the border of a block.
  Accesses accesses() {
    turns_ = {};
    return {seen_, bulkWrites_, bulkReads_};
  }
  void alsoAccesses(const Accesses &a), otherIterations(const ForOrder &o);
  bool accessesIn(const ir::Block &b, Accesses &out) const;

  std::optional<AxisFacts> facts_;
  bool hasTensorMaps_ = false, storedInBulk_ = false;
  bool hasLeft_ = false;                          // between leaveScratch and waitForReaders
  llvm::SmallVector<Seen, 8> seen_;
  llvm::DenseSet<const Op *> usedAtomics_; // those whose old values somebody reads
  llvm::DenseMap<const Op *, std::unique_ptr<BulkStore>> bulkPlans_;
  llvm::SmallVector<BulkWrite, 2> bulkWrites_;  // nobody has waited until they were done
  llvm::SmallVector<SharedRange, 2> bulkReads_; // shared memory that bulk stores may still read
  std::optional<SharedRange> held_;             // room for buffers while a loop runs
  const Op *heldBy_ = nullptr;                  // the loop
  BufferTurns turns_;                           // in held_, as the last store left them
  llvm::SmallVector<Seen, 4> copied_;           // what asynchronous copies of the kernel read
  Live live_, mostLive_;                        // everything taken now
  llvm::SmallVector<SharedRange, 2> scratch_;   // of the current operation
  llvm::DenseMap<const Op *, SharedRange> tiles_;
  llvm::DenseMap<const Op *, const Op *> lastUser_;                        // of a tile, in the tile's block
  llvm::DenseMap<const Op *, const Op *> waitBehind_;                      // the dot_wait that stands right behind an operation
  llvm::DenseMap<const Op *, llvm::SmallVector<const Op *, 2>> endsAfter_; // the tiles that die with an operation
};

} // namespace tegula::nvidia
