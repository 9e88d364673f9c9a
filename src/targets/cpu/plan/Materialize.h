// Which tensor values get a buffer, and why.
//
// A value has a buffer if something other than a nest makes it (dot, loops, calls, ...), if a later write could change
// what a load would read, if it is read inside a loop but made outside (the left operand of a dot even if it costs
// nothing to compute), or if it is expensive to compute and two nests that cannot be one need it, if its expression has
// become too deep for one loop body, if it is a row whose elements lie apart and that several rows of a tile need, or
// if it stands for several loads that a later write would give buffers of their own. Everything else is recomputed
// where it is used. Walks the function backwards, so that the fate of a value's users is known before its own.
#pragma once
#include "passes/AxisFacts.h"
#include "targets/cpu/plan/Uses.h"
#include <memory>

namespace tegula::cpu {

class Materialization {
public:
  Materialization(const ir::Function &f, const Uses &uses);
  bool buffered(const ir::Value *v) const { return buffered_.contains(v); }
  /// Buffered to bound the depth of expressions: the nest that makes it must not hold its users.
  bool endsChain(const ir::Value *v) const { return chainEnds_.contains(v); }
  /// Operations on the longest way from what is loaded or buffered to a value that a nest computes (a few more where no
  /// value on the way may end it).
  static constexpr unsigned longestChain = 128;

private:
  using Ops = llvm::SmallVector<const ir::Op *, 4>;
  void cutChains(const ir::Block &b);
  void visit(const ir::Block &b);
  void visitResult(const ir::Op &op, const ir::Value *v);
  bool decide(const ir::Op &op, const ir::Value *v);
  bool loadMustBeBuffered(const ir::Op &op, const ir::Value *v);
  bool clobbered(const ir::Op &load, const ir::Value *v) const;
  bool isScatteredRow(const ir::Op &load, const ir::Value *v);
  bool standsForLoads(const ir::Op &op, const ir::Value *v) const;
  bool readsOwnPlaceOnly(const ir::Op &store, const ir::Value *load) const;
  bool canShareNest(const Ops &roots) const;
  void collect(const ir::Value *v);

  const ir::Function &function_;
  const Uses &uses_;
  llvm::SmallPtrSet<const ir::Value *, 32> buffered_;
  llvm::SmallPtrSet<const ir::Value *, 8> chainEnds_;
  llvm::DenseMap<const ir::Value *, unsigned> depth_;
  /// Ops that start the nests (or steps) in which a virtual value is computed; and the last position of one of them.
  llvm::DenseMap<const ir::Value *, Ops> roots_;
  llvm::DenseMap<const ir::Value *, unsigned> lastUse_;
  std::unique_ptr<AxisFacts> facts_; // of the function, once they are asked for
};

/// A dot in a loop whose left operand is made outside of it, or null: the operand is packed once, where it is made.
const ir::Op *dotInLoop(const Uses &uses, const ir::Value *v);

/// The shape a root op's nest walks.
const ir::Shape &nestSpace(const ir::Op &root);

} // namespace tegula::cpu
