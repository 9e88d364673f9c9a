// How a plan is made (Plan.h): the state of the walk over the operations of a function, for those who decide a part of
// it. Planner.cpp walks and fills nests, PlanCarried.cpp has what blocks leave for one another, PlanDots.cpp products.
#pragma once
#include "targets/cpu/plan/Materialize.h"
#include "targets/cpu/plan/Plan.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallSet.h"

namespace tegula::cpu {

/// Makes the steps of one function, block after block, in program order. What is computed chunk by chunk joins the
/// pending nest while it can; flush() ends that nest.
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
  /// Writes several values to the buffers of loop-carried arguments as if at once.
  void parallelMaterialize(llvm::ArrayRef<std::pair<const ir::Value *, const ir::Value *>> valueAndTarget);
  /// Values already looked at, and whether at the same place.
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
  /// Loads that `v` needs. `moved`: those among them whose elements are used at other places than they are loaded for
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
  llvm::SmallPtrSet<const ir::Value *, 8> pendingResults_; // made by the pending nest
  llvm::SmallVector<const ir::Op *, 8> late_;              // defined after the pending nest, as they need what it makes
  llvm::SmallPtrSet<const ir::Op *, 4> absorbed_;          // done by the roots of others
  bool pendingWrites_ = false;                         // holds a store
  bool inRegion_ = false;                              // of a reduction or scan
};

} // namespace tegula::cpu
