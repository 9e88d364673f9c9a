// The backward slice of a loop's body that computes given values, so that they can be computed for a later iteration.
//
// Software pipelining starts memory accesses some iterations ahead. Their addresses and masks follow from the induction
// variable and carried values by pure arithmetic (the slice); copying the slice with other values for those gives the
// operands of another iteration.
#pragma once
#include "ir/Builder.h"
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tegula::gpu {

class LoopSlice {
public:
  /// From a value of the body to its counterpart in a copy.
  using Map = std::unordered_map<const ir::Value *, ir::Value *>;

  /// `loop` is a For.
  explicit LoopSlice(ir::Op &loop) : loop_(loop), body_(*loop.region(0)) {}

  /// Adds the operations that `v` is computed from, and those that update the carried values among them; of an `if`,
  /// only the results that are needed. Returns false, and leaves the slice unchanged, if that takes more than pure
  /// arithmetic. `mostLoaded`: `v` itself may also be computed from loads of at most that many elements (indices). The
  /// caller must then execute the copy only for iterations that run, and nothing in the loop may write to memory.
  bool add(const ir::Value *v, int64_t mostLoaded = 0);
  bool hasLoads() const { return hasLoads_; }
  /// Carried values (block arguments) of the slice, in order of discovery.
  const std::vector<ir::Value *> &carried() const { return carried_; }

  bool isInside(const ir::Value *v) const { return v->def ? v->def->parent == &body_ : v->block == &body_; }
  /// The value `carried` has one iteration later, as the body yields it.
  ir::Value *nextOf(const ir::Value *carried) const { return body_.terminator()->operands[carried->index - 1]; }
  /// Induction variable and carried values of the first iteration, and (appended at the builder's block) one iteration
  /// after `now`; an empty map stands for the current one.
  Map start() const;
  Map next(ir::Builder &b, Map now) const;
  /// Appends copies of the operations that `v` needs to the builder's block; `map` gives the induction variable and
  /// carried values, and receives the copies. `runs` (i1): does that iteration run? Needed where no branch guards the
  /// copy: loads are masked off if it does not run, and their values do not matter then.
  ir::Value *copy(ir::Builder &b, ir::Value *v, Map &map, ir::Value *runs = nullptr) const;
  /// Appends copies of the `if`s of the slice. Copies to a region after that need not branch again.
  void copyBranches(ir::Builder &b, Map &map) const;
  static ir::Op *clone(ir::Builder &b, const ir::Op &op, std::span<ir::Value *const> operands);
  /// A copy of `load` with other operands, masked off unless `runs` (i1). The values it gives where it is masked off do
  /// not matter.
  static ir::Op *cloneLoad(ir::Builder &b, const ir::Op &load, std::vector<ir::Value *> operands, ir::Value *runs);

private:
  /// Operations visited with loads allowed, and without.
  struct Seen {
    std::unordered_set<const ir::Op *> withLoads, others;
  };
  /// An `if` of the body, or nested in another one's branch, and the results of it that are needed.
  struct Branch {
    ir::Op *op;
    std::vector<size_t> results;
  };

  bool isWithin(const ir::Value *v) const;
  bool needs(const ir::Value *v, int64_t mostLoaded, Seen &seen);
  bool needsResult(const ir::Value *v, Seen &seen);
  void copyBranch(ir::Builder &b, const Branch &branch, Map &map) const;

  ir::Op &loop_;
  ir::Block &body_;
  std::vector<ir::Value *> carried_;
  std::vector<Branch> branches_;
  bool hasLoads_ = false;
};

/// The tensor loads (load, desc_load) of the body that its dots, or the tiles it stores to shared memory, are computed
/// from, in program order. The search does not continue through the operations `ends`.
std::vector<ir::Op *> loadsOfDots(const ir::Block &body, const std::unordered_set<const ir::Op *> &ends = {});
/// Does the loop count down, iv, iv - step, ... while iv > end?
bool isReverse(const ir::Op &loop);
/// i1: does the loop have an iteration with this induction variable? iv < end, or iv > end where it counts down.
ir::Value *runs(ir::Builder &b, const ir::Op &loop, ir::Value *iv);
/// i1: does it have the iteration that comes `ahead` iterations after the one with `iv`? iv + ahead * step < end,
/// without overflow (iv - ahead * step > end where it counts down).
ir::Value *runsAhead(ir::Builder &b, const ir::Op &loop, ir::Value *iv, int64_t ahead);

} // namespace tegula::gpu
