// Which tensor values get a buffer, and why.
//
// A value has a buffer if one of these holds; every other value is rematerialized where it is used:
// - something other than a nest computes it (dot, loops, calls, ...);
// - it is loaded, and a later write could change the memory before the value is used;
// - it is used inside a loop and computed outside (the left operand of a dot even if it is free to compute);
// - it is expensive to compute and used by two nests that cannot be fused;
// - its expression has become too deep for one loop body;
// - it is a row whose elements are not contiguous and that several rows of a tile need;
// - it replaces several loads that a later write would give buffers of their own.
// The analysis walks the function backwards, so that it decides a value's users before the value.
#pragma once
#include "passes/AxisFacts.h"
#include "targets/cpu/plan/Uses.h"
#include <memory>

namespace tegula::cpu {

class Materialization {
public:
  Materialization(const ir::Function &f, const Uses &uses);
  bool buffered(const ir::Value *v) const { return buffered_.contains(v); }
  /// Buffered to bound the depth of expressions: the nest that computes it must not contain its users.
  bool endsChain(const ir::Value *v) const { return chainEnds_.contains(v); }
  /// Operations on the longest path from loaded or buffered values to a value that a nest computes (a few more if no
  /// value on the path may end it).
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
  /// Ops that start the nests (or steps) in which a virtual value is computed, and the last position of these ops.
  llvm::DenseMap<const ir::Value *, Ops> roots_;
  llvm::DenseMap<const ir::Value *, unsigned> lastUse_;
  std::unique_ptr<AxisFacts> facts_; // of the function, computed on first use
};

/// The dot in a loop whose left operand `v` is computed outside the loop, or null. Packed once, where it is computed.
const ir::Op *dotInLoop(const Uses &uses, const ir::Value *v);

/// The shape a root op's nest walks.
const ir::Shape &nestSpace(const ir::Op &root);

} // namespace tegula::cpu
