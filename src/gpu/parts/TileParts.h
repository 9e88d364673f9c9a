// Which operations of a block can be done part by part: in loops over n equal contiguous parts of their tiles, instead
// of over whole tiles.
//
//   x = load p            for i < n: xi = load pi; acc = acc + sum(xi)             loop 0
//   s = sum(x)       ->   s = acc
//   y = x / splat(s)      for i < n: xi = load pi; yi = xi / splat(s); store qi, yi     loop 1
//   store q, y
//
// Nothing of a tile crosses the border of a loop: what several loops need they compute again, from memory or from
// ranges. So a value is done in parts only if all that it is made of and all that uses it is, down to stores,
// assertions and reductions; an axis to split is tied through operations as in ClusterParts.h. A reduction along that
// axis ends its loop: what depends on its result comes in a later one.
// So does a dot whose operands are too large for shared memory: it is split along what is contracted, and each part
// adds to what those before gave. Operations that are not done in parts (scalars, rows that are broadcast) stand
// between the loops.
//
// Accesses keep their order where it matters by the rules of Lowering::orderAccess: different arguments are different
// memory, and one pointer tensor accesses each element in the same part. Other pairs must not come into one loop, nor
// change places: the second of two stores through two pointers into one memory gets a loop of its own, which reads
// again what it stores.
#pragma once
#include "passes/Users.h"
#include <map>
#include <optional>
#include <span>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tegula::gpu {

/// What is asked of a function for each of its blocks.
struct FunctionUses {
  explicit FunctionUses(const ir::Function &f);
  const ir::Function &function;
  Users users;
  std::unordered_map<const ir::Op *, size_t> order; // in the text
  /// Tensors made of ranges, constants and scalars alone.
  std::unordered_set<const ir::Value *> free;
  /// What an operation is made of: its operands, and what its regions use of tiles outside if it is a loop that
  /// isLaneWise().
  std::span<ir::Value *const> inputs(const ir::Op &op) const;
  bool isLoop(const ir::Op &op) const { return loops_.contains(&op); }

private:
  void visit(const ir::Block &b, const ir::Op *loop);
  std::unordered_map<const ir::Op *, std::vector<ir::Value *>> loops_; // those that are lane-wise, with their inputs
};

class TileParts {
public:
  static constexpr int whole = -1;
  /// In place of an axis, of a dot: it is done for parts of what is contracted.
  static constexpr int contraction = 1 << 20;
  /// A loop: indices of the block's operations that its body does a part of, in order.
  using Loop = std::vector<size_t>;

  /// Looks at operations [begin, end) of a block, none of which separates(). `parts` is a power of two, `threads` those
  /// of a program. Dots whose operands have more than `operandBytes` are done in parts.
  TileParts(const FunctionUses &uses, const ir::Block &b, size_t begin, size_t end, int64_t parts, int64_t threads,
            int64_t operandBytes);
  /// Loops only ever stand between two of these: control flow, atomics, barriers, ...
  static bool separates(const ir::Op &op);
  /// A dot whose operands have more bytes.
  static bool isLargeDot(const ir::Op &op, int64_t bytes);

  /// Is there anything that can be done in parts?
  bool any() const { return !loops_.empty(); }
  int64_t parts() const { return parts_; }
  /// The axis along which the operation's work is split (of its operands, for stores and reductions), or `whole`.
  int of(const ir::Op &op) const;
  /// The axis of the operand that the operation needs for its own; nothing if parts of the result are no parts of the
  /// operand.
  std::optional<int> operandAxis(const ir::Op &op, const ir::Value *operand, int axis) const;
  /// A reduction along the split axis, a dot.
  bool isAccumulated(const ir::Op &op) const;
  const std::vector<Loop> &loops() const { return loops_; } // some may be empty
  /// Of an operation that is not done in parts: the loop before which it stands, or the number of loops.
  unsigned level(size_t op) const { return levels_[op - begin_]; }

private:
  /// A choice of axes that is undone if it does not work out.
  struct Trial {
    std::vector<const ir::Value *> values;
    std::vector<const ir::Op *> ops;
    std::vector<std::pair<const ir::Value *, int>> free;
    std::vector<const ir::Value *> whole;             // tensors that an operation done in parts needs whole
    std::vector<std::pair<const ir::Op *, int>> work; // still to look at
    bool isRight = true, accumulates = false;
  };
  /// A load or store that is done in parts, of the memory of an argument (-1: unknown), in this loop at the earliest.
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
