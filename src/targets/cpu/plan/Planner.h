// Builds a plan (Plan.h): the state of the walk over the operations of a function. Planner.cpp walks and fills nests,
// PlanCarried.cpp plans values that cross blocks (loop-carried values, results), PlanDots.cpp plans products.
#pragma once
#include "targets/cpu/plan/Materialize.h"
#include "targets/cpu/plan/Plan.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallSet.h"

namespace tegula::cpu {

/// Creates the steps of one function, block after block, in program order. Roots that are computed chunk by chunk join
/// the pending nest if they fit; flush() ends that nest.
class Planner {
public:
  Planner(const ir::Function &f, const CpuTarget &target, Plan &plan)
      : target_(target), plan_(plan), uses_(f), materialization_(f, uses_) {}

  void block(const ir::Block &b, Steps &out);
  const Uses &uses() const { return uses_; }

private:
  void op(const ir::Op &op);
  void combineRegion(const ir::Op &op);
  bool needsPending(const ir::Op &op) const;
  void define(const ir::Op &op);
  bool mayBeLate(const ir::Op &op) const;
  void dot(const ir::Op &op);
  void forLoop(const ir::Op &op);
  void whileLoop(const ir::Op &op);
  void ifOp(const ir::Op &op);
  void terminator(const ir::Op &op);
  void print(const ir::Op &op);
  int newBuffer(const ir::Type &t, const ir::Shape &s);
  DotPlan planOf(const ir::Op &dot) const;
  Buffer packedBuffer(const ir::Op &dot, const ir::Value *v, ir::Elem elem, int64_t elems,
                      llvm::function_ref<int64_t(bool row, int64_t)> strideOf) const;
  Buffer packedLeft(const ir::Op &dot, const DotPlan &p) const;
  Buffer bufferOfDefined(const ir::Value *v) const;
  int resultBuffer(const ir::Value *v);
  void materialize(const ir::Value *v, int buffer);
  /// Writes several values to the buffers of loop-carried arguments, as a parallel copy.
  void parallelMaterialize(llvm::ArrayRef<std::pair<const ir::Value *, const ir::Value *>> valueAndTarget);
  /// Values already visited, and whether at the same position.
  using Seen = llvm::SmallSet<std::pair<const ir::Value *, bool>, 16>;
  bool reads(const ir::Value *v, int buffer, bool atSamePlace, Seen &seen) const;
  bool reads(const ir::Value *v, int buffer, bool atSamePlace) const {
    Seen seen;
    return reads(v, buffer, atSamePlace, seen);
  }
  void flushReadersOf(int buffer);
  bool isLoadOfMemory(const ir::Value *v) const;
  bool onlyFeeds(const ir::Value *v, const ir::Op &dot) const;
  const ir::Value *accumulatesInto(const ir::Op &dot) const;
  const ir::Op *addsToCarried(const ir::Op &reduce) const;

  void add(Root root, const ir::Shape &space, int axis = -1, bool sequential = false);
  bool fits(const Root &root, const ir::Shape &space, int axis) const;
  bool memoryOrderKept(const Root &root) const;
  bool dependsOnPending(const ir::Value *v, bool samePlace, unsigned &budget) const;
  /// Loads that `v` needs. `moved`: those of them whose elements are used at other positions than they are loaded at
  /// (a transposed tile).
  void loadsOf(const ir::Value *v, bool samePlace, llvm::SmallPtrSetImpl<const ir::Op *> &out,
               llvm::SmallPtrSetImpl<const ir::Op *> &moved, unsigned &budget) const;
  void flush();
  Step &step(StepKind kind, const ir::Op *op);

  const CpuTarget &target_;
  Plan &plan_;
  Uses uses_;
  Materialization materialization_;
  Steps *out_ = nullptr;
  std::unique_ptr<Nest> pending_;
  llvm::SmallPtrSet<const ir::Value *, 8> pendingResults_; // computed by the pending nest
  llvm::SmallVector<const ir::Op *, 8> late_;              // defined after the pending nest, as they use its results
  llvm::SmallPtrSet<const ir::Op *, 4> absorbed_;          // done by the roots of other ops
  bool pendingWrites_ = false;                         // the pending nest has a store
  bool inRegion_ = false;                              // of a reduction or scan
};

} // namespace tegula::cpu
