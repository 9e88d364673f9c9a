// See DelayReductions.h.
#include "gpu/DelayReductions.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "layout/Constructors.h"
#include "passes/Extremum.h"
#include "passes/Neutral.h"
#include "passes/RemoveDead.h"
#include "passes/Users.h"
#include <algorithm>
#include <bit>

namespace tegula::gpu {

using namespace ir;
using layout::Dim;

namespace {

/// May results of this operation be combined in another order?
bool isReorderable(const Op &op) {
  if (op.results.size() != 1 || isFp8(op.result()->type.elem))
    return false;
  switch (op.kind) {
  case OpKind::FAdd: {
    const Elem e = op.result()->type.elem;
    return (e == Elem::F32 || e == Elem::F64) && !op.rounded();
  }
  case OpKind::Add:
  case OpKind::Mul:
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Xor:
  case OpKind::SMin:
  case OpKind::SMax:
  case OpKind::UMin:
  case OpKind::UMax:
  case OpKind::MinNum:
  case OpKind::MaxNum:
  case OpKind::Minimum:
  case OpKind::Maximum:
    return true;
  default:
    return false;
  }
}

/// An axis as the threads hold it: the tensor takes `split` as its shape, its axes change places by `order`, and `joined` is its shape then. There the reduced axis has become two: `own`, of which a
/// thread holds all elements, and the other one of `axis` and `axis + 1`, of which it holds one.
struct AxisParts {
  Shape split, joined;
  std::vector<int64_t> order;
  unsigned own = 0;
  bool isOwn = false; // a thread holds several elements
};

/// Nothing if no threads exchange elements, or if they do not hold them bit by bit.
std::optional<AxisParts> partsOf(const LinearLayout &l, const Shape &shape, unsigned axis) {
  const Dim along = layout::tensorDim(axis);
  uint32_t registers = 0, threads = 0;
  for (const layout::DimBits &in : l.ins())
    for (uint64_t basis : l.bases(in.dim)) {
      const uint32_t bit = l.outs().part(basis, along);
      if (!bit)
        continue;
      if (!std::has_single_bit(bit) || ((registers | threads) & bit))
        return std::nullopt;
      (in.dim == Dim::Register ? registers : threads) |= bit;
    }
  const auto extent = static_cast<uint32_t>(shape[axis]);
  if (!axesAreSeparate(l) || !threads || (registers | threads) != extent - 1)
    return std::nullopt;
  AxisParts out;
  out.isOwn = registers != 0;
  // Runs of bits of one kind, the highest first.
  std::vector<std::pair<int64_t, bool>> runs; // extent, registers
  for (uint32_t bit = extent / 2; bit; bit /= 2) {
    const bool isOwn = registers & bit;
    if (runs.empty() || runs.back().second != isOwn)
      runs.push_back({1, isOwn});
    runs.back().first *= 2;
  }
  if (shape.rank() + runs.size() > Shape::maxRank)
    return std::nullopt;
  for (unsigned i = 0; i < shape.rank(); ++i)
    if (i != axis)
      out.split.push(shape[i]);
  for (size_t r = runs.size(); r-- > 0;)
    out.split.insert(axis, runs[r].first);
  out.own = axis + (runs.size() == 2 && runs[0].second ? 0 : 1);
  // The runs of threads before those of registers; of two runs, each is an axis already.
  for (unsigned i = 0; i < out.split.rank(); ++i)
    out.order.push_back(i);
  if (runs.size() > 2) {
    unsigned to = axis;
    for (bool isOwn : {false, true})
      for (unsigned r = 0; r < runs.size(); ++r)
        if (runs[r].second == isOwn)
          out.order[to++] = axis + r;
  }
  const int64_t own = int64_t{1} << std::popcount(registers);
  out.joined = shape;
  out.joined.set(axis, out.own == axis ? own : extent / own);
  out.joined.insert(axis + 1, out.own == axis ? extent / own : own);
  return out;
}

class Delayer {
public:
  explicit Delayer(Module &m) : m_(m), b_(m) { b_.setFolding(false); }

  /// Has anything changed?
  bool visit() {
    changed_ = false;
    visit(*m_.kernel()->block());
    return changed_;
  }

private:
  void visit(Block &b) {
    for (size_t i = 0; i < b.ops.size(); ++i) {
      Op *op = b.ops[i];
      for (Region *r : op->regions)
        visit(*r->block);
      if (op->kind == OpKind::For)
        loop(*op);
    }
  }
  /// An operation on the way of a carried value to the yield; operand `sum` is that value.
  struct Link {
    Op *op;
    size_t sum;
  };
  /// A reduction of the loop, and views of its result up to the link.
  struct Reduction {
    Op *op;
    std::vector<Op *> views; // from the reduction on
    AxisParts parts;
  };
  /// What each thread has of reductions of one form.
  struct Partial {
    Reduction of;
    Value *arg, *now;
  };

  void loop(Op &loop) {
    std::optional<Users> users; // of the body as it is
    // Carried values that are added below are behind these.
    for (size_t i = 0, n = loop.results.size(); i < n; ++i) {
      if (!users)
        users.emplace(*loop.region(0));
      if (carried(loop, i, *users))
        users.reset();
    }
  }

  /// The links of carried value i; empty if it is used in any other way.
  std::vector<Link> linksOf(const Op &loop, size_t i, const Users &users) {
    const Block &body = *loop.region(0);
    std::vector<Link> links;
    for (const Value *v = body.args[1 + i];;) {
      Op *user = users.only(v);
      if (!user || user->parent != &body || std::count(user->operands.begin(), user->operands.end(), v) != 1)
        return {};
      if (user == body.terminator())
        return user->operands[i] == v ? links : std::vector<Link>();
      if (user->kind != OpKind::Convert) {
        if (!isReorderable(*user) || (!links.empty() && user->kind != links[0].op->kind))
          return {};
        links.push_back({user, user->operands[0] == v ? size_t{0} : size_t{1}});
      }
      v = user->result();
    }
  }

  /// The reduction that a link adds, if threads exchange elements in it and nobody else sees the result.
  std::optional<Reduction> reductionOf(const Link &link, const Users &users) {
    Reduction out;
    for (const Value *v = link.op->operands[1 - link.sum];;) {
      Op *op = v->def;
      if (!op || op->parent != link.op->parent || !users.only(v))
        return std::nullopt;
      if (op->kind == OpKind::Reduce) {
        if (onlyOperation(*op) != link.op->kind || !canDelay(*op))
          return std::nullopt;
        const Type &t = op->operands[0]->type;
        std::optional<AxisParts> parts = partsOf(m_.layoutOf(t), t.shape, static_cast<unsigned>(op->axis()));
        if (!parts)
          return std::nullopt;
        out.op = op;
        out.parts = std::move(*parts);
        std::reverse(out.views.begin(), out.views.end());
        return out;
      }
      if (!op->has(traits::Shape) || op->operands.size() != 1 || op->results.size() != 1)
        return std::nullopt;
      out.views.push_back(op);
      v = op->operands[0];
    }
  }

  static bool haveOneForm(const Reduction &a, const Reduction &b) {
    auto same = [](const Op *x, const Op *y) { return x->kind == y->kind && x->result()->type == y->result()->type && x->attrs == y->attrs; };
    return a.op->operands[0]->type == b.op->operands[0]->type && a.op->attrs == b.op->attrs &&
           std::equal(a.views.begin(), a.views.end(), b.views.begin(), b.views.end(), same);
  }

  /// Has the loop changed?
  bool carried(Op &loop, size_t i, const Users &users) {
    Block &body = *loop.region(0);
    std::vector<Link> links = linksOf(loop, i, users);
    std::vector<Partial> partials;
    size_t left = links.size();
    for (const Link &link : links) {
      std::optional<Reduction> r = reductionOf(link, users);
      if (!r)
        continue;
      --left;
      Block made;
      made.parent = body.parent;
      at(*link.op, made);
      Value *part = ownPart(*r);
      auto found = std::ranges::find_if(partials, [&](const Partial &p) { return haveOneForm(p.of, *r); });
      if (found == partials.end()) {
        partials.push_back({*r, startOf(loop, *r->op, part->type), nullptr});
        found = partials.end() - 1;
        found->now = found->arg;
      }
      found->now = b_.binary(link.op->kind, found->now, part);
      splice(made, body, positionOf(body, link.op));
      replaceUses(body, link.op->result(), link.op->operands[link.sum]);
    }
    if (partials.empty())
      return false;
    changed_ = true;
    // Behind the loop.
    Block behind;
    behind.parent = loop.parent->parent;
    at(*links[0].op, behind);
    Value *result = loop.results[i], *sum = nullptr;
    for (const Partial &p : partials) {
      carryOn(loop, p.arg, p.now);
      Value *whole = wholeOf(p, loop.results[p.arg->index - 1]);
      sum = sum ? b_.binary(links[0].op->kind, sum, whole) : whole;
    }
    if (sum->type != result->type)
      sum = b_.create1(OpKind::Convert, {sum}, result->type);
    // Nothing else is added: the loop need not carry it.
    if (!left)
      carryOn(loop, body.args[1 + i], body.args[1 + i]);
    const size_t next = positionOf(*loop.parent, &loop) + 1;
    Value *before = left ? result : loop.operands[3 + i];
    Op *last = b_.create(links[0].op->kind, std::array{before, sum}, std::array{result->type});
    last->result()->name = result->name;
    replaceUses(*loop.parent, result, last->result(), next);
    splice(behind, *loop.parent, next);
    return true;
  }

  void at(const Op &place, Block &b) {
    b_.setBlock(&b);
    b_.setLoc(place.loc);
    b_.setInlinedAt(place.inlinedAt);
  }

  Value *view(OpKind kind, Value *v, const Shape &shape, const LinearLayout &l, std::vector<Attr> attrs = {}) {
    return b_.create1(kind, {v}, v->type.withShape(shape).withLayout(m_.internLayout(l)), std::move(attrs));
  }

  /// The reduction `like`, of another operand along another axis.
  Value *reduce(const Op &like, Value *of, unsigned axis) {
    Shape shape = of->type.shape;
    shape.erase(axis);
    const uint16_t id = shape.rank() ? m_.internLayout(layout::slice(m_.layoutOf(of->type), axis)) : uint16_t{0};
    Op *op = b_.create(OpKind::Reduce, std::array{of}, std::array{of->type.withShape(shape).withLayout(id)}, {{attr::axis, axis}});
    Cloner(m_).copyBlock(*like.region(0), *op->region(0));
    return op->result();
  }

  /// The operand of a reduction, combined within each thread.
  Value *ownPart(const Reduction &r) {
    Value *x = r.op->operands[0];
    if (!r.parts.isOwn)
      return x;
    x = view(OpKind::Reshape, x, r.parts.split, layout::reshape(m_.layoutOf(x->type), r.parts.split));
    if (!std::ranges::is_sorted(r.parts.order)) {
      Shape moved;
      for (int64_t axis : r.parts.order)
        moved.push(x->type.shape[static_cast<unsigned>(axis)]);
      x = view(OpKind::Permute, x, moved, layout::permute(m_.layoutOf(x->type), r.parts.order), {{attr::perm, r.parts.order}});
    }
    if (x->type.shape != r.parts.joined)
      x = view(OpKind::Reshape, x, r.parts.joined, layout::reshape(m_.layoutOf(x->type), r.parts.joined));
    return reduce(*r.op, x, r.parts.own);
  }

  /// A new carried value, which starts as what changes nothing.
  Value *startOf(Op &loop, const Op &reduction, const Type &t) {
    Block *inside = b_.block();
    Block before;
    before.parent = loop.parent->parent;
    b_.setBlock(&before);
    Value *start = neutralElement(b_, reduction, t);
    splice(before, *loop.parent, positionOf(*loop.parent, &loop));
    b_.setBlock(inside);
    return carry(m_, loop, start, "partial");
  }

  /// What the links would have added in all.
  Value *wholeOf(const Partial &p, Value *partial) {
    const Op &reduction = *p.of.op;
    Value *v = reduce(reduction, partial, static_cast<unsigned>(reduction.axis()));
    if (v->type != reduction.result()->type)
      v = b_.create1(OpKind::Convert, {v}, reduction.result()->type);
    for (const Op *op : p.of.views)
      v = b_.create1(op->kind, {v}, op->result()->type, op->attrs);
    return v;
  }

  Module &m_;
  Builder b_;
  bool changed_ = false;
};

} // namespace

bool canDelay(const Op &reduction) { return onlyOperation(reduction) && isReorderable(*reduction.region(0)->ops[0]); }

void delayReductions(Module &m) {
  // Again for a loop around: what the loop inside no longer carries is gone then.
  Delayer delayer(m);
  while (delayer.visit())
    removeDead(m);
}

} // namespace tegula::gpu
