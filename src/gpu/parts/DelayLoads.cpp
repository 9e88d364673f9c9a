// See DelayLoads.h.
#include "gpu/parts/DelayLoads.h"
#include "gpu/Layouts.h"
#include "gpu/parts/HeldRows.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/ArgumentAccess.h"
#include "passes/Users.h"
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tegula::gpu {

using namespace ir;

namespace {

/// What a load may not move across, or whose rows nobody counts.
bool isObstacle(const Op &op) {
  switch (op.kind) {
  case OpKind::Load:
    return op.isVolatile() || op.cache() == ".cv";
  case OpKind::Store: case OpKind::Reduce: case OpKind::If: case OpKind::Yield: case OpKind::Return:
    return false;
  default:
    return !op.has(traits::Pure);
  }
}

class Delay {
public:
  Delay(Module &m, unsigned threads) : threads_(threads), block_(*m.kernel()->block()), users_(block_) {
    anyOp(block_, [&](const Op &op) {
      if (op.kind == OpKind::Store)
        written_.insert(memoryOf(op.operands[0]));
      return false;
    });
    for (size_t i = 0; i < block_.ops.size(); ++i)
      positions_[block_.ops[i]] = i;
  }

  bool run() {
    for (Op *op : block_.ops)
      if (op->kind == OpKind::Load && op->result()->type.isTensor() && op->result()->type.numel() >= threads_ && isOnlyRead(op->operands[0]))
        visit(*op);
    if (before_.empty())
      return false;
    std::vector<Op *> now;
    for (Op *op : block_.ops) {
      if (auto it = before_.find(op); it != before_.end())
        now.insert(now.end(), it->second.begin(), it->second.end());
      if (!moved_.contains(op))
        now.push_back(op);
    }
    block_.ops = std::move(now);
    return true;
  }

private:
  bool isOnlyRead(const Value *pointer) const {
    constexpr int any = -1;
    const int memory = memoryOf(pointer);
    return memory != any && !written_.contains(memory) && !written_.contains(any);
  }

  /// Position in the kernel's block of an operation of it, or of a region in it.
  size_t positionOf(const Op *op) const {
    while (op->parent != &block_)
      op = op->parent->parent->op;
    return positions_.at(op);
  }

  void visit(Op &load) {
    // With it goes what renames or widens it for one user alone.
    std::vector<Op *> chain{&load};
    while (Op *next = users_.only(chain.back()->result())) {
      if (next->parent != &block_ || !(renames(next->kind) || next->kind == OpKind::FpExt))
        break;
      chain.push_back(next);
    }
    size_t first = block_.ops.size();
    for (const Op *user : users_.of(chain.back()->result()))
      first = std::min(first, positionOf(user));
    if (first == block_.ops.size())
      return;
    const auto begin = block_.ops.begin() + static_cast<ptrdiff_t>(positions_.at(&load)), end = block_.ops.begin() + static_cast<ptrdiff_t>(first);
    if (std::none_of(begin, end, [](const Op *op) { return op->kind == OpKind::Reduce; }))
      return;
    for (Op *op : chain) {
      before_[block_.ops[first]].push_back(op);
      moved_.insert(op);
    }
  }

  std::set<int> written_; // memory
  const int64_t threads_;
  Block &block_;
  Users users_;
  std::unordered_map<const Op *, size_t> positions_;
  std::unordered_map<const Op *, std::vector<Op *>> before_;
  std::unordered_set<const Op *> moved_;
};

} // namespace

std::unique_ptr<Module> delayedLoads(const Module &module, unsigned threads) {
  const Function *kernel = module.kernel();
  if (!kernel || anyOp(*kernel->block(), isObstacle))
    return nullptr;
  std::unique_ptr<Module> out = clone(module);
  return Delay(*out, threads).run() ? std::move(out) : nullptr;
}

std::unique_ptr<Module> delayLoads(const Module &module, const TargetInfo &target, const Options &options) {
  const Function *kernel = module.kernel();
  const unsigned threads = target.lanes() * options.numWarps;
  if (!kernel || anyOp(*kernel->block(), isObstacle))
    return nullptr;
  if (heldRows(*kernel, threads).words / std::max(options.numCtas, ctasOf(options.clusters)) + besideRows <= target.registerLimit(threads))
    return nullptr;
  return delayedLoads(module, threads);
}

} // namespace tegula::gpu
