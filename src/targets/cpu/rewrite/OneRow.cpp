// See OneRow.h.
#include "targets/cpu/rewrite/OneRow.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include "passes/AxisFacts.h"
#include "targets/cpu/plan/ColumnsOfA.h"
#include "targets/cpu/plan/Lin.h"
#include "targets/cpu/plan/Part.h"
#include "llvm/ADT/STLExtras.h"
#include <array>

namespace tegula::cpu {
using ir::Elem;
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

constexpr std::array<int64_t, 2> turned = {1, 0};

struct OneRowDot {
  Op *loop, *dot;
  size_t carried;  // the number of its accumulator
  bool alongDepth; // B is contiguous in memory along k
};

/// `m < 1` in any spelling, of integer tiles: the comparison's side that grows, or null.
const Value *belowOne(const Op &op) {
  if (op.kind != OpKind::CmpI || op.operands[0]->type.isPtr || !op.result()->type.isTensor())
    return nullptr;
  const std::optional<Below> below = asBelow(op.pred());
  if (!below || below->isUnsigned)
    return nullptr;
  const std::optional<int64_t> bound = ir::constantInt(op.operands[below->swapped ? 0 : 1]);
  return bound && *bound + below->orEqual == 1 ? op.operands[below->swapped ? 1 : 0] : nullptr;
}

class OneRowFinder {
public:
  OneRowFinder(const ir::Function &f, const CpuTarget &target) : target_(target), uses_(f), facts_(f) {
    find(*f.block());
  }
  std::vector<OneRowDot> found;
  // what left operands are made from, and which of its dimensions are the dot's rows
  llvm::DenseMap<const Op *, unsigned> rows;

private:
  void find(const ir::Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::For)
        for (size_t i = 0; i < op->results.size(); ++i)
          look(*op, i);
      for (const ir::Region *r : op->regions)
        find(*r->block);
    }
  }

  void look(Op &loop, size_t i) {
    const ir::Block &body = *loop.region(0);
    const Value *acc = body.args[1 + i];
    if (acc->type.isPtr || acc->type.elem != Elem::F32 || acc->type.shape.rank() != 2 || acc->type.shape[0] < 2)
      return;
    Op *dot = only(acc);
    if (!dot || dot->kind != OpKind::Dot || dot->parent != &body || dot->operands[2] != acc ||
        only(dot->result()) != body.terminator() || body.terminator()->operands[i] != dot->result())
      return;
    const Value *a = dot->operands[0], *b = dot->operands[1];
    auto isPlain = [&](const Value *v) {
      return v->type.isFloatLike() && v->type.elem != Elem::F64 &&
             (v->type.elem != Elem::F32 || dot->precision() != "tf32");
    };
    if (!isPlain(a) || !isPlain(b) || dot->precision() == "wide")
      return;
    const DotPart part = partOf(*dot, uses_);
    if (part.seen.empty() || !llvm::all_of(part.seen, [&](const DotPart::Conditions &c) {
          return llvm::any_of(c, [&](const DotPart::Condition &one) { return isFirstRow(one, acc->type.shape); });
        }))
      return;
    // Sums down columns take four vectors of a row at a time; less than two lines of it are slower than what a dot
    // fetches ahead.
    constexpr unsigned vectors = 4, lines = 2 * 64;
    const bool alongDepth = columnsLieTogether(b);
    if (!alongDepth && vectors * target_.vectorBits / ir::bitWidth(Elem::F32) * ir::byteWidth(b->type.elem) < lines)
      return;
    llvm::DenseMap<const Op *, unsigned> more = rows;
    if (!canTake(a, 0, more))
      return;
    rows = std::move(more);
    found.push_back({&loop, dot, i, alongDepth});
  }

  Op *only(const Value *v) const {
    const std::span<Op *const> users = uses_.users(v);
    return users.size() == 1 && llvm::count(users[0]->operands, v) == 1 ? users[0] : nullptr;
  }

  /// Does it hold in no row of the tile but the first one?
  bool isFirstRow(const DotPart::Condition &c, const Shape &tile) const {
    const Value *grows = belowOne(*c.compare);
    if (!grows)
      return false;
    const Shape &shape = c.compare->result()->type.shape;
    const unsigned columns = dimBits(tile, 1), bits = dimBits(tile, 0);
    for (unsigned d = 0; d < shape.rank(); ++d) {
      bool isRows = dimBits(shape, d) == bits;
      for (unsigned i = 0; isRows && i < bits; ++i)
        isRows = c.at[dimOffset(shape, d) + i] == static_cast<BitSource>(columns + i);
      if (isRows)
        return facts_.of(grows).sign != Sign::Unknown && facts_.of(grows, d).contiguity == tile[0];
    }
    return false;
  }

  /// Can row 0 of `v`, whose dimension `dim` the rows are, be computed from other operations?
  bool canTake(const Value *v, unsigned dim, llvm::DenseMap<const Op *, unsigned> &visited) const {
    if (v->type.isScalar() || v->type.shape[dim] == 1)
      return true;
    if (!v->def || v->def->results.size() != 1 || v->def->isVolatile())
      return false;
    const Op &op = *v->def;
    if (auto [known, isNew] = visited.try_emplace(&op, dim); !isNew)
      return known->second == dim;
    auto operands = [&](unsigned d) {
      return llvm::all_of(op.operands, [&](const Value *x) { return canTake(x, d, visited); });
    };
    switch (op.kind) {
    case OpKind::Const: case OpKind::Range: case OpKind::Splat:
      return true;
    case OpKind::ExpandDims:
      return operands(dim - (dim > static_cast<unsigned>(op.axis())));
    case OpKind::Permute:
      return operands(static_cast<unsigned>(op.perm()[dim]));
    case OpKind::Broadcast: case OpKind::Load:
      return operands(dim);
    default:
      return op.has(ir::traits::Elementwise) && op.has(ir::traits::Pure) && op.regions.empty() && operands(dim);
    }
  }

  const CpuTarget &target_;
  const Uses uses_;
  const AxisFacts facts_;
};

class RowSummer {
public:
  RowSummer(ir::Module &m, const OneRowFinder &work) : b_(m), rows_(work.rows) {
    for (const OneRowDot &one : work.found) {
      dots_[one.dot] = &one;
      loops_[one.loop].push_back(&one);
    }
  }

  void rewrite(ir::Block &block) {
    std::vector<Op *> ops;
    ops.swap(block.ops);
    for (Op *op : ops) {
      b_.setBlock(&block);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      for (Value *&v : op->operands)
        if (auto known = now_.find(v); known != now_.end())
          v = known->second;
      const auto loop = loops_.find(op);
      llvm::SmallVector<Value *, 2> inits;
      if (loop != loops_.end())
        for (const OneRowDot *one : loop->second)
          inits.push_back(begin(*one));
      if (auto dot = dots_.find(op); dot != dots_.end()) {
        now_[op->result()] = product(*dot->second);
        continue;
      }
      block.ops.push_back(op);
      if (auto row = rows_.find(op); row != rows_.end())
        take(*op, row->second);
      for (const ir::Region *r : op->regions)
        rewrite(*r->block);
      b_.setBlock(&block);
      for (size_t i = 0; i < inits.size(); ++i)
        end(*loop->second[i], inits[i]);
    }
  }

private:
  static Shape withOne(Shape s, unsigned dim) {
    s.set(dim, 1);
    return s;
  }

  Value *row(Value *v) const {
    auto known = first_.find(v);
    return known == first_.end() ? v : known->second;
  }

  /// Row 0 of what `op` computes, after it.
  void take(const Op &op, unsigned dim) {
    Value *v = op.result(), *&out = first_[v];
    const Type type = v->type.withShape(withOne(v->type.shape, dim));
    switch (op.kind) {
    case OpKind::Range:
      out = b_.range(op.get(ir::attr::start), op.get(ir::attr::start) + 1);
      return;
    case OpKind::Splat:
      out = b_.splat(op.operands[0], type.shape);
      return;
    case OpKind::Broadcast:
      out = b_.broadcast(row(op.operands[0]), type.shape);
      return;
    default:
      break;
    }
    std::vector<Value *> operands;
    for (Value *x : op.operands)
      operands.push_back(row(x));
    std::vector<ir::Attr> attrs = op.attrs;
    std::erase_if(attrs, [](const ir::Attr &a) {
      return a.key == ir::attr::divisibility || a.key == ir::attr::contiguity || a.key == ir::attr::constancy;
    });
    out = b_.create(op.kind, operands, {&type, 1}, std::move(attrs))->result();
  }

  Value *widened(Value *x) { return x->type.elem == Elem::F32 ? x : b_.cast(OpKind::FpExt, x, Elem::F32); }

  /// Before the loop: what it carries now. Gives what it began with.
  Value *begin(const OneRowDot &one) {
    const Shape &b = one.dot->operands[1]->type.shape;
    const Type tile = Type::scalar(Elem::F32).withShape(one.alongDepth ? Shape{b[1], b[0]} : b);
    Value *&init = one.loop->operands[3 + one.carried], *before = init;
    init = b_.constFloat(tile, 0);
    one.loop->region(0)->args[1 + one.carried]->type = one.loop->results[one.carried]->type = tile;
    return before;
  }

  Value *product(const OneRowDot &one) {
    Value *a = widened(row(one.dot->operands[0])), *b = widened(one.dot->operands[1]), *acc = one.dot->operands[2];
    (one.alongDepth ? b : a) = b_.permute(one.alongDepth ? b : a, turned);
    return b_.binary(OpKind::FAdd, acc, b_.binary(OpKind::FMul, b_.broadcast(a, acc->type.shape), b));
  }

  /// After the loop: the sums, in each row.
  void end(const OneRowDot &one, Value *init) {
    Value *tile = one.loop->results[one.carried];
    Op *reduce = b_.reduceOp(OpKind::Reduce, {&tile, 1}, one.alongDepth ? 1 : 0);
    ir::Block &combine = *reduce->region(0), &block = *b_.block();
    b_.setBlock(&combine);
    Value *sum = b_.binary(OpKind::FAdd, combine.args[0], combine.args[1]);
    b_.yield({&sum, 1});
    b_.setBlock(&block);
    Value *all = b_.broadcast(b_.expandDims(reduce->result(), 0), init->type.shape);
    if (const std::optional<double> zero = ir::constantFloat(init); !zero || *zero != 0)
      all = b_.binary(OpKind::FAdd, init, all);
    now_[tile] = all;
  }

  ir::Builder b_;
  const llvm::DenseMap<const Op *, unsigned> &rows_;
  llvm::DenseMap<const Op *, const OneRowDot *> dots_;
  llvm::DenseMap<const Op *, llvm::SmallVector<const OneRowDot *, 2>> loops_;
  llvm::DenseMap<const Value *, Value *> first_, now_; // row 0 of a tile; what stands for a value from here on
};

/// Is it worth a look?
bool mayHaveOneRow(const ir::Function &f) {
  return ir::anyOp(*f.block(), [](const Op &op) { return belowOne(op) != nullptr; }) &&
         ir::anyOp(*f.block(), [](const Op &op) { return op.kind == OpKind::Dot; });
}

} // namespace

bool hasOneRow(const ir::Module &m, const CpuTarget &target) {
  return llvm::any_of(
      m.functions, [&](const ir::Function *f) { return mayHaveOneRow(*f) && !OneRowFinder(*f, target).found.empty(); });
}

void sumOneRow(ir::Module &m, const CpuTarget &target) {
  for (ir::Function *f : m.functions)
    if (mayHaveOneRow(*f)) {
      const OneRowFinder finder(*f, target);
      RowSummer(m, finder).rewrite(*f->block());
    }
}

} // namespace tegula::cpu
