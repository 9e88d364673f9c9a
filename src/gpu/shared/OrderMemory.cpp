// See OrderMemory.h. Calls the functions of MemoryOrder.h for each operation, in the order of its steps.
#include "gpu/shared/OrderMemory.h"
#include "gpu/shared/MemoryOrder.h"
#include <utility>

namespace tegula::gpu {

using namespace ir;

namespace {

class Orderer : MemoryOrder {
public:
  Orderer(Module &m, const TargetInfo &target, const Options &options) : MemoryOrder(m, target, options) {
    b_.setFolding(false);
  }

  void run() {
    beginOrder();
    block(*m_.kernel()->block());
  }

private:
  void block(Block &b) {
    Block now, *outer = b_.block();
    if (&b == m_.kernel()->block()) {
      b_.setBlock(&now);
      openExchanges(b);
    }
    for (size_t i = 0; i < b.ops.size(); ++i) {
      Op *op = b.ops[i];
      b_.setBlock(&now);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      beforeOp(*op);
      visit(*op, now, i + 1 < b.ops.size() ? b.ops[i + 1] : nullptr);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      afterOp(*op);
    }
    for (Op *op : now.ops)
      op->parent = &b;
    b.ops = std::move(now.ops);
    b_.setBlock(outer);
  }

  /// `next`: the next operation of the block, or null.
  void visit(Op &op, Block &now, const Op *next);
  void exchange(Op &op, Block &now);
  void regions(Op &op, Block &now);
  bool isParted_ = false; // partitions end the kernel, each for its own warps
};

/// Visits an operation that may have scratch.
void Orderer::exchange(Op &op, Block &now) {
  const SharedRange place = placeOf(op);
  if (!place.size()) {
    now.ops.push_back(&op);
    return;
  }
  if (op.kind == OpKind::ClusterGather && op.own()) {
    beforeSending();
    now.ops.push_back(&op);
    return;
  }
  beforeScratch(op);
  now.ops.push_back(&op);
  afterScratch(op.own() ? layout::ExchangeScope::Warp
                        : scratchNeed(m_, op, target_, options_, place.size(), true).scope);
}

/// Visits control flow and its blocks.
void Orderer::regions(Op &op, Block &now) {
  if (op.kind != OpKind::Partitions)
    tilesReady(op);
  const Tiles ready = readyTiles();
  switch (op.kind) {
  case OpKind::For: {
    beforeLoop(op);
    ForOrder order = enterFor(op);
    block(*op.region(0));
    leaveFor(op, order);
    break;
  }
  case OpKind::While: {
    beforeLoop(op);
    Accesses around = enterWhile(op);
    block(*op.region(0));
    block(*op.region(1));
    leaveWhile(op, around);
    break;
  }
  case OpKind::If: {
    IfOrder order = enterIf();
    block(*op.region(0));
    setReadyTiles(ready);
    enterElse(order);
    block(*op.region(1));
    leaveIf(order);
    break;
  }
  default: // partitions
    for (unsigned i = static_cast<unsigned>(op.regions.size()); i-- > 1;) {
      PartitionOrder order = enterPartition();
      block(*op.region(i));
      leavePartition(std::move(order));
    }
    block(*op.region(0));
    isParted_ = true;
    break;
  }
  setReadyTiles(ready);
  now.ops.push_back(&op);
}

void Orderer::visit(Op &op, Block &now, const Op *next) {
  switch (op.kind) {
  case OpKind::Load:
  case OpKind::Store:
    orderAccess(op, op.kind == OpKind::Store);
    if (op.kind == OpKind::Load)
      return exchange(op, now);
    break;
  case OpKind::AsyncCopy:
    orderCopy(op);
    break;
  case OpKind::AsyncWait:
    waitedForCopies(op);
    break;
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    beforeAtomic(op);
    exchange(op, now);
    return afterAtomic(op);
  case OpKind::AsmEffect:
    forgetAccesses();
    return exchange(op, now);
  case OpKind::DescStore:
  case OpKind::DescReduce:
    beginBlockStore(op);
    endBlockStore(op);
    break;
  case OpKind::Barrier: // of the program: replaced by waits and synchronization
    finishBlockStores();
    return meet();
  case OpKind::Dot:
    readTiles(op);
    break;
  case OpKind::Gather:
    readTiles(op);
    return exchange(op, now);
  case OpKind::ToShared:
    beginTile(op);
    storesTile(op);
    touched(op.result(), true);
    break;
  case OpKind::SharedAlloc:
    beginTile(op);
    break;
  case OpKind::SharedLoad:
    touched(op.operands[0], false);
    break;
  case OpKind::BarrierAlloc:
    beginBarriers(op);
    now.ops.push_back(&op);
    return barriersReady(op, next && next->kind == OpKind::BarrierAlloc);
  case OpKind::SharedBarrier:
    haveMet(false);
    break;
  case OpKind::For:
  case OpKind::While:
  case OpKind::If:
  case OpKind::Partitions:
    return regions(op, now);
  case OpKind::Yield:
    if (op.parent->parent->op->kind == OpKind::Partitions)
      beforeReturn();
    break;
  case OpKind::Return:
    if (!isParted_)
      beforeReturn();
    break;
  default:
    return exchange(op, now);
  }
  now.ops.push_back(&op);
}

} // namespace

void orderMemory(Module &m, const TargetInfo &target, const Options &options) {
  Function &kernel = *m.kernel();
  if (std::exchange(kernel.isOrdered, true))
    return;
  Orderer(m, target, options).run();
}

} // namespace tegula::gpu
