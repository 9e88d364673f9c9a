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

/// Is the operation one that a load may not move across, or whose rows are not counted?
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

/// Finds loads of tensors with at least a given number of elements from memory that the kernel never writes.
class OnlyRead {
public:
  OnlyRead(const Block &kernel, int64_t elements) : elements_(elements) {
    anyOp(kernel, [&](const Op &op) {
      if (op.kind == OpKind::Store)
        written_.insert(memoryOf(op.operands[0]));
      return false;
    });
  }

  bool has(const Op &op) const {
    return op.kind == OpKind::Load && op.result()->type.isTensor() && op.result()->type.numel() >= elements_ &&
           isOnlyRead(op.operands[0]);
  }

private:
  bool isOnlyRead(const Value *pointer) const {
    constexpr int any = -1;
    const int memory = memoryOf(pointer);
    return memory != any && !written_.contains(memory) && !written_.contains(any);
  }

  std::set<int> written_; // memory
  const int64_t elements_;
};

class Delay {
public:
  Delay(Module &m, unsigned threads) : block_(*m.kernel()->block()), onlyRead_(block_, threads), users_(block_) {
    for (size_t i = 0; i < block_.ops.size(); ++i)
      positions_[block_.ops[i]] = i;
  }

  bool run() {
    for (Op *op : block_.ops)
      if (onlyRead_.has(*op))
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
  /// The position in the kernel's block of `op`, or of the operation of the block that contains it.
  size_t positionOf(const Op *op) const {
    while (op->parent != &block_)
      op = op->parent->parent->op;
    return positions_.at(op);
  }

  void visit(Op &load) {
    // View operations and widenings with one user move with the load.
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
    const auto begin = block_.ops.begin() + static_cast<ptrdiff_t>(positions_.at(&load)),
               end = block_.ops.begin() + static_cast<ptrdiff_t>(first);
    if (std::none_of(begin, end, [](const Op *op) { return op->kind == OpKind::Reduce; }))
      return;
    for (Op *op : chain) {
      before_[block_.ops[first]].push_back(op);
      moved_.insert(op);
    }
  }

  Block &block_;
  const OnlyRead onlyRead_;
  Users users_;
  std::unordered_map<const Op *, size_t> positions_;
  std::unordered_map<const Op *, std::vector<Op *>> before_;
  std::unordered_set<const Op *> moved_;
};

/// Moves loads after the first reduction to before it, with the operations there that compute their addresses and
/// masks.
class Advance {
public:
  Advance(Module &m, unsigned threads) : block_(*m.kernel()->block()), onlyRead_(block_, threads) {}

  bool run() {
    const auto first = std::ranges::find(block_.ops, OpKind::Reduce, &Op::kind);
    for (auto it = first; it != block_.ops.end(); ++it) {
      behind_.insert(*it);
      if (std::vector<Op *> chain; onlyRead_.has(**it) && canMove(**it, chain))
        for (Op *op : chain)
          if (moved_.insert(op).second)
            ahead_.push_back(op);
    }
    if (ahead_.empty())
      return false;
    const auto at = static_cast<size_t>(first - block_.ops.begin());
    std::erase_if(block_.ops, [&](Op *op) { return moved_.contains(op); });
    block_.ops.insert(block_.ops.begin() + static_cast<ptrdiff_t>(at), ahead_.begin(), ahead_.end());
    return true;
  }

private:
  /// Appends `op` to `chain`, after the operations behind the reduction that it depends on. False if one of them cannot
  /// move.
  bool canMove(Op &op, std::vector<Op *> &chain) {
    for (const Value *v : op.operands)
      if (v->def && behind_.contains(v->def) && std::ranges::find(chain, v->def) == chain.end())
        if (v->def->kind == OpKind::Reduce || !v->def->regions.empty() || !v->def->has(traits::Pure) ||
            v->def->has(traits::Reads) || !canMove(*v->def, chain))
          return false;
    chain.push_back(&op);
    return true;
  }

  Block &block_;
  const OnlyRead onlyRead_;
  std::unordered_set<const Op *> behind_, moved_;
  std::vector<Op *> ahead_;
};

} // namespace

std::unique_ptr<Module> advancedLoads(const Module &module, unsigned threads) {
  const Function *kernel = module.kernel();
  if (!kernel || anyOp(*kernel->block(), isObstacle))
    return nullptr;
  std::unique_ptr<Module> out = clone(module);
  return Advance(*out, threads).run() ? std::move(out) : nullptr;
}

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
  if (heldRows(*kernel, threads).words / std::max(options.numCtas, ctasOf(options.clusters)) + besideRows <=
      target.registerLimit(threads))
    return nullptr;
  return delayedLoads(module, threads);
}

} // namespace tegula::gpu
