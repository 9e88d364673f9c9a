// See CarrySums.h.
#include "targets/cpu/rewrite/CarrySums.h"
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
using ir::Type;
using ir::Value;

namespace {

/// A step of a sum from a loop's argument to its yield: `op` combines it with another operand; `select`, if not null,
/// restricts that to elements where its condition holds.
struct Link {
  Op *op;
  Value *other;
  Op *select = nullptr;
  bool whereTrue = true;
};

struct CarriedSum {
  Op *reduce = nullptr, *flat = nullptr; // flat: the reshape between, of all axes to one
  std::vector<std::pair<Op *, size_t>> loops; // the outermost one first, and the numbers of their carried values
  std::vector<Link> links;
  unsigned axis = 0; // of the tile
};

class SumFinder {
public:
  SumFinder(const ir::Function &f, const CpuTarget &target) : target_(target), users_(*f.block()) { find(*f.block()); }
  std::vector<CarriedSum> found;

private:
  void find(const ir::Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::For)
        for (size_t i = 0; i < op->results.size(); ++i)
          if (std::optional<CarriedSum> sum = sumOf(*op, i))
            found.push_back(std::move(*sum));
      for (const ir::Region *r : op->regions)
        find(*r->block);
    }
  }

  std::optional<CarriedSum> sumOf(Op &loop, size_t i) const {
    const Value *v = loop.results[i];
    if (!v->type.isTensor() || v->type.isPtr)
      return {};
    CarriedSum sum;
    Op *user = users_.only(v);
    if (user && user->kind == OpKind::Reshape && v->type.shape.rank() > 1 && user->result()->type.shape.rank() == 1) {
      sum.flat = user;
      user = users_.only(user->result());
    }
    if (!user || user->kind != OpKind::Reduce)
      return {};
    const std::optional<OpKind> kind = onlyOperation(*user);
    if (!kind || !isReorderable(*user->region(0)->ops[0]))
      return {};
    sum.reduce = user;
    sum.axis = sum.flat ? v->type.shape.rank() - 1 : static_cast<unsigned>(user->axis());
    if (!isWorth(v->type, sum) || !follow(loop, i, *kind, sum) || sum.links.empty())
      return {};
    return sum;
  }

  bool isWorth(const Type &t, const CarriedSum &sum) const {
    const unsigned rank = t.shape.rank(), axis = sum.axis;
    const int64_t bits = t.shape[axis] * ir::bitWidth(t.elem), vector = target_.vectorBits;
    if (axis + 1 < rank)
      return t.shape[axis] > 1;
    return bits > (rank == 1 ? 1 : 8) * vector;
  }

  /// Carried value i of a loop, from its argument to the yield.
  bool follow(Op &loop, size_t i, OpKind kind, CarriedSum &sum) const {
    sum.loops.push_back({&loop, i});
    const ir::Block &body = *loop.region(0);
    for (const Value *v = body.args[1 + i];;) {
      const std::span<Op *const> users = users_.of(v);
      if (users.empty() || users.size() > 2)
        return false;
      Op *user = users[0];
      if (user->parent != &body || std::count(user->operands.begin(), user->operands.end(), v) != 1)
        return false;
      if (users.size() == 1 && user == body.terminator())
        return user->operands[i] == v;
      if (users.size() == 1 && user->kind == OpKind::For) {
        const auto at =
            static_cast<size_t>(std::find(user->operands.begin(), user->operands.end(), v) - user->operands.begin());
        if (at < 3 || !follow(*user, at - 3, kind, sum))
          return false;
        v = user->results[at - 3];
        continue;
      }
      if (user->kind != kind || !isReorderable(*user))
        return false;
      Link link{user, user->operands[user->operands[0] == v ? 1 : 0]};
      if (users.size() == 2) {
        Op *select = users[1];
        if (select->kind != OpKind::Select || select->parent != &body || users_.only(user->result()) != select ||
            !select->operands[0]->type.isTensor())
          return false;
        link.select = select;
        link.whereTrue = select->operands[1] == user->result();
        if (select->operands[link.whereTrue ? 2 : 1] != v ||
            select->operands[link.whereTrue ? 1 : 2] != user->result() || select->operands[0] == v)
          return false;
      }
      sum.links.push_back(link);
      v = (link.select ? link.select : user)->result();
    }
  }

  const CpuTarget &target_;
  Users users_;
};

/// Does any number of copies of the constant, combined, give it again?
bool combinesToItself(OpKind kind, const Op &constant) {
  switch (kind) {
  case OpKind::FAdd:
    return constant.floatValue() == 0;
  case OpKind::Add: case OpKind::Xor:
    return constant.intValue() == 0;
  case OpKind::Mul:
    return constant.intValue() == 0 || constant.intValue() == 1;
  default:
    return true;
  }
}

class SumCarrier {
public:
  SumCarrier(ir::Module &m, ir::Function &f, llvm::ArrayRef<CarriedSum> sums) : m_(m), b_(m) {
    for (const CarriedSum &sum : sums) {
      inits_[sum.loops[0].first].push_back(&sum);
      for (const Link &link : sum.links)
        links_[link.op] = {&sum, &link};
      for (const Link &link : sum.links)
        if (link.select)
          replaced_[link.select->result()] = link.op->result();
      if (!sum.flat)
        replaced_[sum.reduce->result()] = sum.loops[0].first->results[sum.loops[0].second];
    }
    rewrite(*f.block());
  }

private:
  static Type reducedType(const CarriedSum &sum, const Type &t) {
    ir::Shape s = t.shape;
    s.erase(sum.axis);
    return t.withShape(s);
  }

  /// `x`, a tile like the sum, reduced as the sum will be.
  Value *reduced(const CarriedSum &sum, Value *x) {
    const Type t = reducedType(sum, x->type);
    if (x->def && x->def->kind == OpKind::Const && combinesToItself(*onlyOperation(*sum.reduce), *x->def))
      return b_.create(OpKind::Const, {}, {&t, 1}, x->def->attrs)->result();
    ir::Cloner copy(m_);
    copy.map(sum.reduce->operands[0], x);
    Op *op = copy.copy(*sum.reduce, *b_.block());
    op->set(ir::attr::axis, sum.axis);
    op->result()->type = t;
    return op->result();
  }

  void rewrite(ir::Block &block) {
    std::vector<Op *> ops;
    ops.swap(block.ops);
    for (Op *op : ops) {
      b_.setBlock(&block);
      for (Value *&v : op->operands)
        v = now(v);
      if (auto init = inits_.find(op); init != inits_.end())
        for (const CarriedSum *sum : init->second)
          begin(*sum);
      if (auto link = links_.find(op); link != links_.end())
        combine(*op, *link->second.first, *link->second.second);
      // a select that the addition stands for, or a reduction that the loop stands for
      if (!op->results.empty() && replaced_.contains(op->results[0]))
        continue;
      if (op->kind == OpKind::Reshape && flat_.contains(op))
        op->result()->type = op->result()->type.withShape({op->operands[0]->type.numel()});
      block.ops.push_back(op);
      for (const ir::Region *r : op->regions)
        rewrite(*r->block);
    }
  }

  Value *now(Value *v) const {
    for (auto it = replaced_.find(v); it != replaced_.end(); it = replaced_.find(v))
      v = it->second;
    return v;
  }

  /// Before the outermost loop: what it begins with, and the types of what all loops carry.
  void begin(const CarriedSum &sum) {
    Op *outer = sum.loops[0].first;
    b_.setLoc(outer->loc);
    b_.setInlinedAt(outer->inlinedAt);
    Value *&init = outer->operands[3 + sum.loops[0].second];
    const Type t = reducedType(sum, init->type);
    init = reduced(sum, init);
    for (auto [loop, i] : sum.loops) {
      loop->region(0)->args[1 + i]->type = t;
      loop->results[i]->type = t;
    }
    if (sum.flat)
      flat_.insert(sum.flat);
  }

  void combine(Op &op, const CarriedSum &sum, const Link &link) {
    b_.setLoc(op.loc);
    b_.setInlinedAt(op.inlinedAt);
    Value *x = now(link.other);
    if (link.select) {
      Value *none = neutralElement(b_, *sum.reduce, x->type), *condition = now(link.select->operands[0]);
      x = link.whereTrue ? b_.select(condition, x, none) : b_.select(condition, none, x);
    }
    op.operands[op.operands[0] == now(link.other) ? 0 : 1] = reduced(sum, x);
    op.result()->type = reducedType(sum, op.result()->type);
  }

  ir::Module &m_;
  ir::Builder b_;
  llvm::DenseMap<const Op *, llvm::SmallVector<const CarriedSum *, 2>> inits_; // by the outermost loop
  llvm::DenseMap<const Op *, std::pair<const CarriedSum *, const Link *>> links_;
  llvm::DenseMap<const Value *, Value *> replaced_;
  llvm::SmallPtrSet<const Op *, 2> flat_;
};

} // namespace

bool hasCarriedSums(const ir::Module &m, const CpuTarget &target) {
  return llvm::any_of(m.functions, [&](const ir::Function *f) { return !SumFinder(*f, target).found.empty(); });
}

void carrySums(ir::Module &m, const CpuTarget &target) {
  for (ir::Function *f : m.functions)
    SumCarrier(m, *f, SumFinder(*f, target).found);
}

} // namespace tegula::cpu
