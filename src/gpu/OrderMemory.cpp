// See OrderMemory.h. What an operation asks of memory, in the order of its steps; MemoryOrder.h answers.
#include "gpu/OrderMemory.h"
#include "gpu/MemoryOrder.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

class Orderer : MemoryOrder {
public:
  Orderer(Module &m, const TargetInfo &target, const Options &options) : MemoryOrder(m, target, options) { b_.setFolding(false); }

  void run() {
    beginOrder();
    block(*m_.kernel()->block());
  }

private:
  void block(Block &b) {
    Block now, *outer = b_.block();
    for (Op *op : b.ops) {
      b_.setBlock(&now);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      beforeOp(*op);
      visit(*op, now);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      afterOp(*op);
    }
    for (Op *op : now.ops)
      op->parent = &b;
    b.ops = std::move(now.ops);
    b_.setBlock(outer);
  }

  void visit(Op &op, Block &now);
  void exchange(Op &op, Block &now);
  void regions(Op &op, Block &now);
  bool isParted_ = false; // partitions have ended the kernel, each for its own warps
};

/// An operation that may take scratch, with what it does to it.
void Orderer::exchange(Op &op, Block &now) {
  const Scratch need = scratchNeedOf(op);
  if (need.bytes && need.scope == layout::ExchangeScope::Warp)
    takeWarpScratch(op, need.bytes);
  else if (need.bytes)
    takeScratch(op, need.bytes);
  now.ops.push_back(&op);
  if (!need.bytes || need.scope == layout::ExchangeScope::Warp)
    return;
  bool isOfCluster = need.scope == layout::ExchangeScope::Cluster;
  haveMet(isOfCluster);
  // Other threads may still read: whoever uses these bytes next waits. Threads of other CTAs are waited for apart.
  if (isOfCluster)
    leaveScratch();
}

/// Control flow, around its blocks.
void Orderer::regions(Op &op, Block &now) {
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
    enterElse(order);
    block(*op.region(1));
    leaveIf(order);
    break;
  }
  default: // Partitions. The first one, which has most to do, gets the bytes that the others leave.
    for (unsigned i = static_cast<unsigned>(op.regions.size()); i-- > 1;) {
      PartitionOrder order = enterPartition();
      block(*op.region(i));
      leavePartition(std::move(order));
    }
    block(*op.region(0));
    isParted_ = true;
    break;
  }
  now.ops.push_back(&op);
}

void Orderer::visit(Op &op, Block &now) {
  switch (op.kind) {
  case OpKind::Load:
  case OpKind::Store:
    orderAccess(op, op.kind == OpKind::Store);
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
  case OpKind::Barrier: // of the program: by what it consists of
    finishBlockStores();
    return meet();
  case OpKind::Dot:
    readTiles(op);
    break;
  case OpKind::ToShared:
    beginTile(op);
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
    return barriersReady(op);
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

static bool hasPlaces(const Block &b) {
  return std::ranges::any_of(b.ops, [](const Op *op) {
    return op->find(attr::shared) || std::ranges::any_of(op->regions, [](const Region *r) { return hasPlaces(*r->block); });
  });
}

void orderMemory(Module &m, const TargetInfo &target, const Options &options) {
  if (!hasPlaces(*m.kernel()->block()))
    Orderer(m, target, options).run();
}

} // namespace tegula::gpu
