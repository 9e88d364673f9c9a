// See ColumnsFirst.h.
#include "targets/cpu/rewrite/ColumnsFirst.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "passes/Extremum.h"
#include "passes/Neutral.h"
#include "passes/Users.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// A scalar that reduces all of `tile`, and the ops between: reductions of single axes, or the reshape to one axis.
struct WholeReduction {
  Value *tile = nullptr;
  llvm::SmallVector<Op *, 3> between;
};

std::optional<OpKind> reorderable(const Op &op) {
  if (op.kind != OpKind::Reduce)
    return {};
  const std::optional<OpKind> kind = onlyOperation(op);
  return kind && isReorderable(*op.region(0)->ops[0]) ? kind : std::nullopt;
}

class ReductionFinder {
public:
  ReductionFinder(const ir::Function &f, const CpuTarget &target) : target_(target), users_(*f.block()) {
    find(*f.block());
  }
  llvm::DenseMap<Op *, WholeReduction> found;

private:
  void find(const ir::Block &b) {
    for (Op *op : b.ops) {
      if (std::optional<OpKind> kind = reorderable(*op); kind && op->result()->type.isScalar())
        if (std::optional<WholeReduction> whole = wholeOf(*op, *kind))
          found[op] = std::move(*whole);
      for (const ir::Region *r : op->regions)
        find(*r->block);
    }
  }

  std::optional<WholeReduction> wholeOf(const Op &op, OpKind kind) const {
    WholeReduction whole{op.operands[0], {}};
    bool columnsFirst = true;
    for (Op *def = whole.tile->def; def && users_.only(whole.tile); def = whole.tile->def) {
      if (def->kind == OpKind::Reshape && whole.between.empty() && def->operands[0]->type.shape.rank() > 1)
        columnsFirst = false;
      else if (def->parent == op.parent && reorderable(*def) == kind &&
               !(whole.between.size() == 1 && whole.between[0]->kind == OpKind::Reshape))
        columnsFirst &= def->axis() == 0;
      else
        break;
      whole.between.push_back(def);
      whole.tile = def->operands[0];
    }
    const ir::Type &t = whole.tile->type;
    const unsigned rank = t.shape.rank();
    if (columnsFirst || t.isPtr || rank < 2 || t.shape[rank - 1] * ir::bitWidth(t.elem) < target_.vectorBits ||
        t.shape[rank - 1] == t.numel())
      return {};
    return whole;
  }

  const CpuTarget &target_;
  Users users_;
};

class ColumnReducer {
public:
  ColumnReducer(ir::Module &m, const llvm::DenseMap<Op *, WholeReduction> &found) : m_(m), b_(m), found_(found) {
    for (const auto &[op, whole] : found)
      dropped_.insert(whole.between.begin(), whole.between.end());
  }

  void rewrite(ir::Block &block) {
    std::vector<Op *> ops;
    ops.swap(block.ops);
    for (Op *op : ops) {
      if (dropped_.contains(op))
        continue;
      b_.setBlock(&block);
      if (auto whole = found_.find(op); whole != found_.end())
        begin(*op, whole->second.tile);
      block.ops.push_back(op);
      for (const ir::Region *r : op->regions)
        rewrite(*r->block);
    }
  }

private:
  /// Reduces all axes of the tile but the last one before `op`.
  void begin(Op &op, Value *x) {
    b_.setLoc(op.loc);
    b_.setInlinedAt(op.inlinedAt);
    while (x->type.shape.rank() > 1) {
      ir::Shape s = x->type.shape;
      s.erase(0u);
      ir::Cloner copy(m_);
      copy.map(op.operands[0], x);
      Op *reduce = copy.copy(op, *b_.block());
      reduce->set(ir::attr::axis, 0u);
      reduce->result()->type = x->type.withShape(s);
      x = reduce->result();
    }
    op.operands[0] = x;
    op.set(ir::attr::axis, 0u);
  }

  ir::Module &m_;
  ir::Builder b_;
  const llvm::DenseMap<Op *, WholeReduction> &found_;
  llvm::SmallPtrSet<const Op *, 4> dropped_;
};

} // namespace

bool hasWholeReductions(const ir::Module &m, const CpuTarget &target) {
  return llvm::any_of(m.functions, [&](const ir::Function *f) { return !ReductionFinder(*f, target).found.empty(); });
}

void columnsFirst(ir::Module &m, const CpuTarget &target) {
  for (ir::Function *f : m.functions) {
    const ReductionFinder finder(*f, target);
    ColumnReducer(m, finder.found).rewrite(*f->block());
  }
}

} // namespace tegula::cpu
