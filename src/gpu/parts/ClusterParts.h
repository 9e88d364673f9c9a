// How the CTAs of a cluster share the work of one program: which tensors of a kernel are split, and along which axis,
// so that CTA r has the r-th of equal contiguous parts. Everything else is whole: all CTAs compute it.
//
// An operation ties axes of its operands and results together: both sides of an addition are split alike, rows of a
// dot's A are rows of its result. Axes that are tied form a group, and a group is split as one. So any set of groups is
// consistent as long as no tensor is split twice. An obstacle (a scan along the axis, a dot's contraction) keeps a
// group whole. Ranges, splats and what is computed from them alone tie nothing:
// they are made in whatever part a user wants (isFree). A reduction along a split axis is none either: partial results
// are exchanged.
//
// Which groups: those of dots first (rows, while 64 are left; else columns; else rows down to 16), then those of stores
// (an axis along which nothing is reduced; the longest), then what is left of reductions and loads. This is the
// propagation of GSPMD (arXiv:2105.04663) with groups instead of a fixed point.
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

  /// `remarks`, if given, is told which dots and stores every CTA does, and which operation is to blame.
  ClusterParts(const ir::Module &m, unsigned ctas, DiagEngine *remarks);

  /// Is anything split? Iterations are, too: tensors of such a loop (`split`) are whole, and its sums split as their
  /// users want them.
  bool any() const { return any_; }
  /// The axis along which a value is split, or `whole`. Not of free values and of those that only rename coordinates
  /// (sourceOf).
  int of(const ir::Value *v) const { return ofEntity(v); }
  /// The axis along which the operation's work is split: of its result, or of its operands (stores, reductions,
  /// histogram).
  int of(const ir::Op &op) const;

  /// Is it a reduction to a number of what a loop whose iterations are shared has summed up, in the same way? Each CTA
  /// reduces its own sums then, and numbers are exchanged. Also of maxima by elements, and of the sums relative to them
  /// once they are scaled for one maximum: sum(total * exp(top - max(top))).
  bool addsOwn(const ir::Op &reduce) const;
  /// Is it such a sum, or what is computed of one on its way into a reduction?
  bool isOfOwn(const ir::Value *v) const;

  /// A tensor whose parts can be computed from nothing.
  bool isFree(const ir::Value *v) const;
  /// For operations that rename coordinates: the axis of the operand that the parts of result axis `axis` are parts of;
  /// `whole` if all parts are made of the whole operand; nothing if parts of the result are no parts of the operand.
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
  /// Work that is worth splitting.
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
  // obstacles that were told; accesses through descriptors, one of each kind
  std::vector<const ir::Op *> blamed_, blocks_;
};

} // namespace tegula::gpu
