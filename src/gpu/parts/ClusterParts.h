// Decides how the CTAs of a cluster share the work of one program: which tensors of a kernel are partitioned, and along
// which axis, so that CTA r has the r-th of equal contiguous parts. All other tensors are whole (replicated): every CTA
// computes them.
//
// An operation ties axes of its operands and results: both operands of an addition are partitioned alike, and the rows
// of a dot's A are the rows of its result. Tied axes form a group, which is split as a whole. So any set of groups is
// consistent as long as no tensor is split twice. An obstacle (a scan along the axis, a dot's contraction) keeps a
// group whole. Ranges, splats and values computed only from these tie nothing: each user gets the part it needs
// (isFree). A reduction along a split axis is no obstacle: partial results are exchanged.
//
// The order of choice: first groups of dots (rows, while a part has at least 64; else columns; else rows down to 16),
// then groups of stores (first axes along which nothing is reduced; then the longest), then the remaining reductions
// and loads. This is the propagation of GSPMD (arXiv:2105.04663) with groups instead of a fixed point.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include <map>
#include <optional>
#include <unordered_map>

namespace tegula::gpu {

class ClusterParts {
public:
  static constexpr int whole = -1;

  /// `remarks`, if given, receives the dots and stores that every CTA repeats, and the operation that prevents the
  /// split.
  ClusterParts(const ir::Module &m, unsigned ctas, DiagEngine *remarks);

  /// Is anything split? Iterations of a loop count, too (`split`): the tensors of such a loop are whole, and its sums
  /// are split as their users need.
  bool any() const { return any_; }
  /// The axis along which a value is split, or `whole`. Not for free values and results of view operations.
  int of(const ir::Value *v) const { return ofEntity(v); }
  /// The axis along which the work of the operation is split: an axis of its result, or of its operands (stores,
  /// reductions, histogram).
  int of(const ir::Op &op) const;

  /// Does `reduce` reduce to a number the sums of a loop whose iterations are shared, with the same combiner? Then each
  /// CTA reduces its own sums, and only numbers are exchanged. Also true of element-wise maxima, and of the sums
  /// relative to them after they are scaled to one maximum: sum(total * exp(top - max(top))).
  bool addsOwn(const ir::Op &reduce) const;
  /// Is `v` such a sum, or computed from one on its way into a reduction?
  bool isOfOwn(const ir::Value *v) const;

  /// Is `v` a tensor whose parts can be rematerialized from ranges and scalars alone?
  bool isFree(const ir::Value *v) const;
  /// For view operations: the axis of the operand whose parts are the parts of result axis `axis`; `whole` if each part
  /// needs the whole operand; nullopt if parts of the result are not parts of the operand.
  std::optional<int> axisBehind(const ir::Op &op, int axis) const { return axisBehind(op, axis, ctas_); }
  /// The same for any number of parts.
  static std::optional<int> axisBehind(const ir::Op &op, int axis, int64_t parts);

private:
  struct Node {
    const void *entity; // a value, or an operation
    unsigned axis;
    int64_t extent;
    unsigned group; // union-find
  };
  struct Group {
    std::vector<unsigned> nodes;
    const ir::Op *obstacle = nullptr;
    std::string why;
    bool isReduced = false, isSplit = false;
  };
  /// An operation whose work is worth splitting.
  struct Work {
    const ir::Op *op;
    const void *entity;
    const ir::Type *type;
  };

  int ofEntity(const void *e) const {
    auto it = split_.find(e);
    return it == split_.end() ? whole : it->second;
  }
  unsigned node(const void *entity, const ir::Type &t, unsigned axis);
  unsigned find(unsigned n);
  void unite(unsigned a, unsigned b);
  /// Axis `axis` of an operand is tied to `with`.
  void tie(const ir::Op &op, const ir::Value *operand, unsigned axis, unsigned with);
  void tieAll(const ir::Op &op, const void *entity, const ir::Type &t, std::span<ir::Value *const> operands);
  void block(const ir::Op &op, unsigned node, std::string why);
  void blockOperand(const ir::Op &op, const ir::Value *operand, unsigned axis, const char *why);
  void atLeast(const ir::Op &op, unsigned node, int64_t part);

  void visit(const ir::Block &b);
  void visit(const ir::Op &op);
  void visitSplit(const ir::Op &loop);
  void visitDot(const ir::Op &op), visitReduce(const ir::Op &op), visitJoin(const ir::Op &op),
      visitControl(const ir::Op &op), visitDescriptor(const ir::Op &op), visitGather(const ir::Op &op);

  void close();
  bool trySplit(unsigned node, const Work &w);
  void splitDot(const Work &w);
  void splitOther(const Work &w);
  void remark(const Work &w, DiagEngine &diag);
  void report(const ir::Op &obstacle, const char *work, const std::string &why, DiagEngine &diag) const;

  const ir::Module &module_;
  int64_t ctas_;
  bool any_ = false;
  std::vector<Node> nodes_;
  std::vector<Group> groups_; // by representative
  std::map<std::pair<const void *, unsigned>, unsigned> nodeOf_;
  std::unordered_map<const void *, int> split_;
  mutable std::unordered_map<const ir::Value *, bool> free_;
  std::vector<Work> dots_, stores_, others_;
  // obstacles already reported; accesses through descriptors, one of each kind
  std::vector<const ir::Op *> blamed_, blocks_;
};

} // namespace tegula::gpu
