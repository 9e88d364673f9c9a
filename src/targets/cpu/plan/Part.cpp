// See Part.h.
#include "targets/cpu/plan/Part.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

using Visited = llvm::DenseMap<const Value *, llvm::SmallVector<Bits, 1>>;

/// The comparisons whose conjunction is `mask`, at all positions of a two-dimensional tile; each once.
void conditionsOf(const Value *mask, const Bits &at, const ir::Shape &tile, Visited &visited,
                  DotPart::Conditions &out) {
  if (!mask->def || !mask->type.isTensor() || llvm::is_contained(visited[mask], at))
    return;
  visited[mask].push_back(at);
  const Op &op = *mask->def;
  if (op.kind == OpKind::And || isView(op)) {
    for (unsigned i = 0; i < op.operands.size(); ++i)
      conditionsOf(op.operands[i], operandBits(op, i, mask->index, at), tile, visited, out);
    return;
  }
  if (op.kind != OpKind::CmpI || op.operands[0]->type.isPtr)
    return;
  const int columns = static_cast<int>(dimBits(tile, 1));
  bool row = false, column = false;
  for (BitSource s : at)
    if (s >= 0)
      (s < columns ? column : row) = true;
  if (row || column)
    out.push_back({&op, at, row && column});
}

DotPart::Conditions conditionsOf(const Value *mask, const Bits &at, const ir::Shape &tile) {
  Visited visited;
  DotPart::Conditions out;
  conditionsOf(mask, at, tile, visited, out);
  return out;
}

/// Where the elements of an operand are zero.
DotPart::Conditions zeroUnless(const Value *v) {
  const ir::Shape tile = v->type.shape;
  Bits at = identityBits(bitCount(tile));
  for (; v->def; v = v->def->operands[0]) {
    const Op &op = *v->def;
    if (op.kind == OpKind::Load) {
      const Op *other = op.operands.size() > 2 ? op.operands[2]->def : nullptr;
      bool zero = op.operands.size() == 2;
      if (other && other->kind == OpKind::Const)
        zero = other->results[0]->type.isIntLike() ? other->intValue() == 0 : other->floatValue() == 0;
      return zero ? conditionsOf(op.operands[1], at, tile) : DotPart::Conditions();
    }
    bool keeps = op.kind == OpKind::FpTrunc || op.kind == OpKind::FpExt || op.kind == OpKind::SExt ||
                 op.kind == OpKind::ZExt || op.kind == OpKind::Trunc || op.kind == OpKind::SIToFp ||
                 op.kind == OpKind::UIToFp || (isView(op) && op.kind != OpKind::Splat);
    if (!keeps)
      return {};
    at = operandBits(op, 0, v->index, at);
  }
  return {};
}

/// Follows the result of a dot to its users, through elementwise operations only.
class Observers {
public:
  Observers(const Uses &uses, ir::Shape tile) : uses_(uses), tile_(tile) {}

  /// Empty if the result has users other than stores and selects.
  llvm::SmallVector<DotPart::Conditions, 1> of(const Value *result) {
    if (!follow(result))
      return {};
    for (DotPart::Conditions &c : sights_) {
      llvm::erase_if(c, [&](const DotPart::Condition &one) {
        return llvm::any_of(one.compare->operands, [&](const Value *v) { return !isSameInAllIterations(v, 0); });
      });
      if (c.empty())
        return {};
    }
    return sights_;
  }

  /// After of(): the last store that was met whose place is known before the dot.
  const Op *store() {
    return store_ && isSameInAllIterations(store_->operands[0], 0) ? store_ : nullptr;
  }

private:
  bool follow(const Value *v) {
    if (!seen_.insert(v).second)
      return true;
    if (!(v->type.shape == tile_) || seen_.size() > 64)
      return false;
    return llvm::all_of(uses_.users(v), [&](const Op *user) { return followInto(v, *user); });
  }

  bool followInto(const Value *v, const Op &user) {
    switch (user.kind) {
    case OpKind::Store: case OpKind::AtomicRmw:
      if (user.operands[1] == v)
        store_ = &user;
      if (user.operands[0] == v || user.operands.size() < 3 || user.operands[2] == v)
        return false;
      return seenWhere(user.operands[2]);
    case OpKind::Select:
      return (user.operands[1] == v && user.operands[0] != v && user.operands[2] != v && !inSelect_ &&
              seenThrough(user)) ||
             follow(user.results[0]);
    case OpKind::Dot: // adds to it, element by element
      return user.operands[0] != v && user.operands[1] != v && follow(user.results[0]);
    case OpKind::For: {
      for (size_t i = 3; i < user.operands.size(); ++i)
        if (user.operands[i] == v && !(follow(user.regions[0]->block->args[i - 2]) && follow(user.results[i - 3])))
          return false;
      return true;
    }
    case OpKind::Yield: {
      const Op *owner = user.parent->parent ? user.parent->parent->op : nullptr;
      if (!owner || (owner->kind != OpKind::For && owner->kind != OpKind::If))
        return false;
      for (size_t i = 0; i < user.operands.size(); ++i) {
        if (user.operands[i] != v)
          continue;
        if (owner->kind == OpKind::For)
          loops_.insert(owner);
        if (!follow(owner->results[i]))
          return false;
        if (owner->kind == OpKind::For) {
          if (!follow(owner->regions[0]->block->args[i + 1]))
            return false;
        }
      }
      return true;
    }
    default:
      return user.has(ir::traits::Elementwise) && user.results.size() == 1 && follow(user.results[0]);
    }
  }

  bool seenWhere(const Value *mask) {
    DotPart::Conditions all = conditionsOf(mask, identityBits(bitCount(tile_)), tile_);
    if (all.empty())
      return false;
    sights_.push_back(std::move(all));
    return true;
  }

  /// The elements that users of the result of `select` use, restricted to those where its condition holds.
  bool seenThrough(const Op &select) {
    DotPart::Conditions all = conditionsOf(select.operands[0], identityBits(bitCount(tile_)), tile_);
    if (all.empty())
      return false;
    Observers behind(uses_, tile_);
    behind.inSelect_ = true;
    if (behind.follow(select.results[0])) {
      loops_.insert(behind.loops_.begin(), behind.loops_.end());
      for (DotPart::Conditions &c : behind.sights_) {
        c.append(all);
        sights_.push_back(std::move(c));
      }
    } else {
      sights_.push_back(std::move(all));
    }
    return true;
  }

  bool isSameInAllIterations(const Value *v, unsigned depth) {
    const Op *def = v->def;
    bool computed =
        def && (def->has(ir::traits::Elementwise) || def->has(ir::traits::Shape) || def->kind == OpKind::Const ||
                def->kind == OpKind::Range || def->kind == OpKind::ProgramId || def->kind == OpKind::NumPrograms);
    if (computed) {
      if (auto known = same_.find(v); known != same_.end())
        return known->second;
      bool same = depth < 20 &&
                  llvm::all_of(def->operands, [&](const Value *x) { return isSameInAllIterations(x, depth + 1); });
      same_[v] = same; // too deep on this path: skipped on shorter ones as well
      return same;
    }
    for (const ir::Block *b = def ? def->parent : v->block; b;
         b = b->parent && b->parent->op ? b->parent->op->parent : nullptr)
      if (b->parent && b->parent->op && loops_.contains(b->parent->op))
        return false;
    return true;
  }

  const Uses &uses_;
  const ir::Shape tile_;
  bool inSelect_ = false;
  llvm::SmallPtrSet<const Value *, 16> seen_;
  llvm::SmallPtrSet<const Op *, 4> loops_; // that carry it on
  llvm::DenseMap<const Value *, bool> same_; // isSameInAllIterations() of what is computed
  llvm::SmallVector<DotPart::Conditions, 1> sights_;
  const Op *store_ = nullptr;
};

} // namespace

DotPart partOf(const Op &dot, const Uses &uses) {
  const ir::Shape &tile = dot.results[0]->type.shape;
  if (tile.rank() != 2)
    return {};
  Observers observers(uses, tile);
  DotPart r{observers.of(dot.results[0]), zeroUnless(dot.operands[0]), zeroUnless(dot.operands[1])};
  r.store = observers.store();
  return r;
}

} // namespace tegula::cpu
