// Finds the operations of a block that can be done part by part: in loops over n equal contiguous parts of their tiles,
// instead of on whole tiles.
//
//   x = load p            for i < n: xi = load pi; acc = acc + sum(xi)             loop 0
//   s = sum(x)       ->   s = acc
//   y = x / splat(s)      for i < n: xi = load pi; yi = xi / splat(s); store qi, yi     loop 1
//   store q, y
//
// No tile is live across the end of a loop: values that several loops need are rematerialized, from memory or from
// ranges. So a value is computed in parts only if all its operands and all its users are, down to stores, assertions
// and reductions. The axes to split are tied through operations as in ClusterParts.h. A reduction along that axis ends
// its loop: operations that depend on its result are in a later loop. So does a dot whose operands are too large for
// shared memory: it is split along the contraction, and each part adds to the sum of the parts before. Operations that
// are not done in parts (scalars, rows that are broadcast) are placed between the loops.
//
// Accesses keep their order where it matters by the rules of MemoryOrder::orderAccess (shared/MemoryOrder.h): different
// arguments are different memory, and one pointer tensor accesses each element in the same part. Other pairs must not
// share a loop, nor be reordered: the second of two stores through two pointers into one memory gets a loop of its own,
// which rematerializes the value that it stores.
#pragma once
#include "passes/Users.h"
#include <map>
#include <optional>
#include <span>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tegula::gpu {

/// Facts about a function that are needed for each of its blocks.
struct FunctionUses {
  explicit FunctionUses(const ir::Function &f);
  const ir::Function &function;
  Users users;
  std::unordered_map<const ir::Op *, size_t> order; // position in the text
  /// Tensors made of ranges, constants and scalars alone.
  std::unordered_set<const ir::Value *> free;
  /// The inputs of an operation: its operands; for a loop that isLaneWise(), the tiles from outside that it uses.
  std::span<ir::Value *const> inputs(const ir::Op &op) const;
  bool isLoop(const ir::Op &op) const { return loops_.contains(&op); }

private:
  void visit(const ir::Block &b, const ir::Op *loop);
  std::unordered_map<const ir::Op *, std::vector<ir::Value *>> loops_; // lane-wise loops with their inputs
};

class TileParts {
public:
  static constexpr int whole = -1;
  /// Instead of an axis, for a dot: the dot is split along its contraction.
  static constexpr int contraction = 1 << 20;
  /// A loop: the indices of the operations of the block whose parts its body computes, in order.
  using Loop = std::vector<size_t>;

  /// Analyzes operations [begin, end) of a block, none of which separates(). `parts` is a power of two; `threads`: the
  /// threads of a program. Dots whose operands have more than `operandBytes` are done in parts.
  TileParts(const FunctionUses &uses, const ir::Block &b, size_t begin, size_t end, int64_t parts, int64_t threads,
            int64_t operandBytes);
  /// May loops not extend across the operation? True for control flow, atomics, barriers, ...
  static bool separates(const ir::Op &op);
  /// Is `op` a dot whose operands have more than `bytes` bytes?
  static bool isLargeDot(const ir::Op &op, int64_t bytes);

  /// Can anything be done in parts?
  bool any() const { return !loops_.empty(); }
  int64_t parts() const { return parts_; }
  /// The axis along which the work of the operation is split (an axis of its operands, for stores and reductions), or
  /// `whole`.
  int of(const ir::Op &op) const;
  /// The axis along which the operand must be split if the work is split along `axis`; nullopt if parts of the result
  /// are not parts of the operand.
  std::optional<int> operandAxis(const ir::Op &op, const ir::Value *operand, int axis) const;
  /// Is `op` a reduction along the split axis, or a dot split along its contraction?
  bool isAccumulated(const ir::Op &op) const;
  const std::vector<Loop> &loops() const { return loops_; } // some may be empty
  /// For an operation that is not done in parts: the loop before which it is placed, or the number of loops.
  unsigned level(size_t op) const { return levels_[op - begin_]; }

private:
  /// A choice of axes that is undone if it turns out to be inconsistent.
  struct Trial {
    std::vector<const ir::Value *> values;
    std::vector<const ir::Op *> ops;
    std::vector<std::pair<const ir::Value *, int>> free;
    std::vector<const ir::Value *> whole;             // tensors that operations done in parts need whole
    std::vector<std::pair<const ir::Op *, int>> work; // work list
    bool isRight = true, accumulates = false;
  };
  /// A load or store that is done in parts, of the memory of an argument (-1: unknown), in loop `level` at the
  /// earliest.
  struct Access {
    const ir::Op *op;
    int memory;
    unsigned level;
  };
  static unsigned levelBehind(std::span<const Access> before, const ir::Op &op, int memory);
  bool isInside(const ir::Op *op) const, canSplit(const ir::Op &dot) const;
  void findGroups(), tryRoot(const ir::Op &root);
  Trial attempt(const ir::Op &root, int axis);
  void undo(const Trial &t), keep(const Trial &t);
  void add(Trial &t, const ir::Op &op, int axis), give(Trial &t, const ir::Value *v, int axis),
      giveFree(Trial &t, const ir::Value *v, int axis);
  bool checkWholeUses() const;
  bool findLevels(), keepsOrder() const;

  const FunctionUses &uses_;
  const ir::Block &block_;
  size_t begin_, end_;
  int64_t parts_, threads_, operandBytes_;
  std::unordered_map<const ir::Value *, int> axis_;
  std::unordered_map<const ir::Op *, int> work_;
  std::set<std::pair<const ir::Value *, int>> free_;
  std::unordered_set<const ir::Value *> wholeUses_;
  std::unordered_set<const ir::Op *> failed_;
  std::vector<Loop> loops_;
  std::vector<unsigned> levels_;
};

} // namespace tegula::gpu
