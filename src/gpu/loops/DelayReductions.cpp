// See DelayReductions.h.
#include "gpu/loops/DelayReductions.h"
#include "gpu/AxisParts.h"
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
#include <cmath>
#include <unordered_map>
#include <utility>

namespace tegula::gpu {

using namespace ir;
using layout::Dim;

namespace {

/// Like behindViews, but only through operations that keep the coordinates of every element.
const Value *behindConverts(const Value *v) {
  while (v->def && v->def->kind == OpKind::Convert)
    v = v->def->operands[0];
  return v;
}

/// The constant that all elements of a value are equal to, if there is one.
std::optional<double> constantOf(const Value *v) {
  v = behindViews(v);
  return v->def && v->def->kind == OpKind::Const && isFloat(v->type.elem) ? std::optional(v->def->floatValue())
                                                                          : std::nullopt;
}

bool isMaximum(const Op &op) { return op.kind == OpKind::MaxNum || op.kind == OpKind::Maximum; }

/// Do the operations that compute a float prove that it is at most 0, or NaN?
bool isAtMostZero(const Value *v) {
  const Op *op = behindViews(v)->def;
  if (std::optional<double> c = constantOf(v))
    return *c <= 0;
  if (!op)
    return false;
  if (op->kind == OpKind::FSub) { // x - max(x, ...)
    const Op *most = behindConverts(op->operands[1])->def;
    return most && isMaximum(*most) && std::ranges::any_of(most->operands, [&](const Value *o) {
             return behindConverts(o) == behindConverts(op->operands[0]);
           });
  }
  if (op->kind == OpKind::FMul)
    for (size_t i : {0, 1})
      if (std::optional<double> c = constantOf(op->operands[i]); c && *c >= 0)
        return isAtMostZero(op->operands[1 - i]);
  return false;
}

/// Is a scale known to be between 0 and 1, or NaN? Then scaling partial sums overflows no sooner than scaling the full
/// sum, and never multiplies zero by infinity.
bool isFraction(const Value *v) {
  const Op *op = behindViews(v)->def;
  if (std::optional<double> c = constantOf(v))
    return *c >= 0 && *c <= 1;
  if (!op)
    return false;
  if (op->kind == OpKind::Select)
    return isFraction(op->operands[1]) && isFraction(op->operands[2]);
  return (op->kind == OpKind::Exp || op->kind == OpKind::Exp2) && isAtMostZero(op->operands[0]);
}

/// Does the body have dots and descriptor loads? A branch for the copies will then follow the dots. The assembler moves
/// partial sums after that branch, away from the exponentials that would hide them (D=64, four warps: 0.96-0.98).
bool hasCopiesBehindDots(const Block &body) {
  auto has = [&](OpKind kind) { return std::ranges::any_of(body.ops, [&](const Op *op) { return op->kind == kind; }); };
  return has(OpKind::Dot) && has(OpKind::DescLoad);
}

class Delayer {
public:
  explicit Delayer(Module &m) : m_(m), b_(m) { b_.setFolding(false); }

  /// Returns whether anything has changed.
  bool visit() {
    changed_ = false;
    around_.clear();
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
  /// An operation on the way of a carried value from the argument to the yield; operand `sum` is that value.
  struct Link {
    Op *op;
    size_t sum;
    bool isScale = false; // the other operand multiplies the sum
    Value *other() const { return op->operands[1 - sum]; }
  };
  /// A reduction of the loop, and views of its result up to the link.
  struct Reduction {
    Op *op;
    std::vector<Op *> views; // from the reduction on
    AxisParts parts;
  };
  /// The partial sums for all reductions of one form.
  struct Partial {
    Reduction of;
    Value *arg, *now;
  };

  void loop(Op &loop) {
    std::optional<Users> users; // of the body as it is
    // Carried values that are added below follow these.
    for (size_t i = 0, n = loop.results.size(); i < n; ++i) {
      if (!users)
        users.emplace(*loop.region(0));
      if (carried(loop, i, *users) || narrowed(loop, i, *users))
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
        return user->operands[i] == v && isOfOneKind(links) ? links : std::vector<Link>();
      if (user->kind != OpKind::Convert) {
        Link link{user, user->operands[0] == v ? size_t{0} : size_t{1}};
        link.isScale = user->kind == OpKind::FMul;
        if (link.isScale ? user->rounded() || !isFraction(link.other()) || hasCopiesBehindDots(body)
                         : !isReorderable(*user))
          return {};
        links.push_back(link);
      }
      v = user->result();
    }
  }

  /// Do all links have the same operation? Sums of floats may have scales besides.
  static bool isOfOneKind(const std::vector<Link> &links) {
    const bool hasScale = std::ranges::any_of(links, &Link::isScale);
    auto first = std::ranges::find_if(links, [](const Link &l) { return !l.isScale; });
    return std::ranges::all_of(links, [&](const Link &l) {
      return l.isScale || (l.op->kind == first->op->kind && (!hasScale || l.op->kind == OpKind::FAdd));
    });
  }

  /// The reduction that a link adds, if threads exchange elements in it and its result has no other use.
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
        std::optional<AxisParts> parts =
            partsOf(m_.layoutOf(t), t.shape, static_cast<unsigned>(op->axis()), {Dim::Register});
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
    auto same = [](const Op *x, const Op *y) {
      return x->kind == y->kind && x->result()->type == y->result()->type && x->attrs == y->attrs;
    };
    return a.op->operands[0]->type == b.op->operands[0]->type && a.op->attrs == b.op->attrs &&
           std::equal(a.views.begin(), a.views.end(), b.views.begin(), b.views.end(), same);
  }

  /// Has the loop changed?
  bool carried(Op &loop, size_t i, const Users &users) {
    Block &body = *loop.region(0);
    const std::vector<Link> links = linksOf(loop, i, users);
    std::vector<const Link *> scales;
    std::vector<std::optional<Reduction>> reductions;
    size_t left = 0;
    for (const Link &link : links) {
      reductions.push_back(link.isScale ? std::nullopt : reductionOf(link, users));
      if (link.isScale)
        scales.push_back(&link);
      else
        left += !reductions.back();
    }
    // Every scale must be available in the layout of a thread's partial sums.
    for (std::optional<Reduction> &r : reductions)
      if (r && !std::ranges::all_of(scales, [&](const Link *scale) { return spreads(scale->other()->type, *r); })) {
        r.reset();
        ++left;
      }
    std::vector<Partial> partials;
    size_t scaled = 0; // of `scales`
    for (size_t k = 0; k < links.size(); ++k) {
      const Link &link = links[k];
      const std::optional<Reduction> &r = reductions[k];
      if (!r && !link.isScale)
        continue;
      Block made;
      made.parent = body.parent;
      at(*link.op, made);
      if (link.isScale) {
        for (Partial &p : partials)
          p.now = b_.binary(OpKind::FMul, p.now, spread(link.other(), p.of, p.now->type));
        ++scaled;
        splice(made, body, positionOf(body, link.op));
        continue;
      }
      Value *part = ownPart(*r);
      auto found = std::ranges::find_if(partials, [&](const Partial &p) { return haveOneForm(p.of, *r); });
      if (found == partials.end()) {
        partials.push_back({*r, startOf(loop, *r->op, part->type), nullptr});
        found = partials.end() - 1;
        found->now = found->arg;
        for (size_t n = 0; n < scaled; ++n)
          found->now = b_.binary(OpKind::FMul, found->now, spread(scales[n]->other(), *r, part->type));
      }
      found->now = b_.binary(link.op->kind, found->now, part);
      splice(made, body, positionOf(body, link.op));
      replaceUses(body, link.op->result(), link.op->operands[link.sum]);
    }
    if (partials.empty())
      return false;
    changed_ = true;
    const Op &sumOp = *std::ranges::find_if(links, [](const Link &l) { return !l.isScale; })->op;
    // Scales apply to the loop's initial value as well, so the partial sums must contain it.
    const bool isStart = !scales.empty() && !left;
    if (isStart)
      startWith(loop, partials[0], loop.operands[3 + i]);
    // After the loop.
    Block behind;
    behind.parent = loop.parent->parent;
    at(sumOp, behind);
    Value *result = loop.results[i], *sum = nullptr;
    for (const Partial &p : partials) {
      carryOn(loop, p.arg, p.now);
      Value *whole = wholeOf(p, loop.results[p.arg->index - 1]);
      sum = sum ? b_.binary(sumOp.kind, sum, whole) : whole;
    }
    if (sum->type != result->type)
      sum = b_.create1(OpKind::Convert, {sum}, result->type);
    // No other operand is added, so the loop need not carry the sum.
    if (!left)
      carryOn(loop, body.args[1 + i], body.args[1 + i]);
    const size_t next = positionOf(*loop.parent, &loop) + 1;
    if (!isStart)
      sum = b_.create1(sumOp.kind, {left ? result : loop.operands[3 + i], sum}, result->type);
    sum->name = result->name;
    replaceUses(*loop.parent, result, sum, next);
    splice(behind, *loop.parent, next);
    return true;
  }

  // ---- tiles that are reduced after the loop

  /// Does combining any number of copies of the constant give the constant?
  static bool combinesToItself(OpKind kind, const Value &c) {
    switch (kind) {
    case OpKind::FAdd:
      return c.def->floatValue() == 0;
    case OpKind::Add:
    case OpKind::Xor:
      return c.def->intValue() == 0;
    case OpKind::Mul:
      return c.def->intValue() == 0 || c.def->intValue() == 1;
    default:
      return true;
    }
  }

  /// Carried value i is a tile that the loop only adds to, and its only use after the loop is a reduction: narrows it
  /// to one element of a thread along that axis, to which the thread adds all of its elements. Has the loop changed?
  bool narrowed(Op &loop, size_t i, const Users &users) {
    Value *result = loop.results[i];
    if (!result->type.isTensor())
      return false;
    const std::vector<Link> links = linksOf(loop, i, users);
    if (links.empty() ||
        std::ranges::any_of(links, [&](const Link &l) { return l.isScale || l.op->result()->type != result->type; }))
      return false;
    Op *reduction = around_.try_emplace(loop.parent, *loop.parent).first->second.only(result);
    if (!reduction || reduction->kind != OpKind::Reduce || reduction->parent != loop.parent || !canDelay(*reduction) ||
        onlyOperation(*reduction) != links[0].op->kind)
      return false;
    std::optional<AxisParts> parts = partsOf(m_.layoutOf(result->type), result->type.shape,
                                             static_cast<unsigned>(reduction->axis()), {Dim::Register});
    if (!parts || !parts->isOwn)
      return false;
    const Reduction of{reduction, {}, std::move(*parts)};
    auto partOf = [&](Value *x, const Op &place, Block &to) {
      Block made;
      made.parent = to.parent;
      at(place, made);
      Value *part = ownPart(of, x);
      splice(made, to, positionOf(to, &place));
      return part;
    };
    Block &body = *loop.region(0);
    Value *start = partOf(loop.operands[3 + i], loop, *loop.parent);
    if (const Value *init = behindViews(loop.operands[3 + i]);
        init->def && init->def->kind == OpKind::Const && combinesToItself(links[0].op->kind, *init)) {
      Block made;
      made.parent = loop.parent->parent;
      at(loop, made);
      start = isFloat(init->type.elem) ? b_.constFloat(start->type, init->def->floatValue())
                                       : b_.constInt(start->type, init->def->intValue());
      splice(made, *loop.parent, positionOf(*loop.parent, &loop));
    }
    Value *arg = carry(m_, loop, start, "partial"), *now = arg;
    for (const Link &link : links) {
      Value *part = partOf(link.other(), *link.op, body);
      Block made;
      made.parent = body.parent;
      at(*link.op, made);
      now = b_.binary(link.op->kind, now, part);
      splice(made, body, positionOf(body, link.op));
    }
    carryOn(loop, arg, now);
    carryOn(loop, body.args[1 + i], body.args[1 + i]);
    Block behind;
    behind.parent = loop.parent->parent;
    at(*reduction, behind);
    Value *whole = wholeOf({of, arg, now}, loop.results[arg->index - 1]);
    whole->name = reduction->result()->name;
    const size_t next = positionOf(*loop.parent, reduction);
    replaceUses(*loop.parent, reduction->result(), whole, next + 1);
    splice(behind, *loop.parent, next);
    return changed_ = true;
  }

  // ---- scales

  /// Shape and layout of the result of ownPart().
  std::pair<Shape, LinearLayout> formOfPart(const Reduction &r) {
    const Value *x = r.op->operands[0];
    LinearLayout l = m_.layoutOf(x->type);
    if (!r.parts.isOwn)
      return {x->type.shape, l};
    l = splitAxis(l, r.parts);
    Shape shape = r.parts.joined;
    shape.erase(r.parts.own);
    return {shape, layout::slice(l, r.parts.own)};
  }
  /// The same with one element along the axis of the reduction.
  std::pair<Shape, LinearLayout> formOfColumn(const Reduction &r) {
    auto [shape, l] = formOfPart(r);
    shape.set(static_cast<unsigned>(r.op->axis()), 1);
    return {shape, layout::cut(l, shape)};
  }

  /// Can every thread multiply its partial sums by values of type `t`, the type of the reduction's result after the
  /// views, without an exchange?
  bool spreads(const Type &t, const Reduction &r) {
    const Type &row = r.op->result()->type;
    if (!std::ranges::all_of(
            r.views, [](const Op *op) { return op->kind == OpKind::ExpandDims || op->kind == OpKind::Reshape; }))
      return false;
    if (row.isScalar())
      return t.isScalar();
    return t.isTensor() && layout::reshape(m_.layoutOf(t), row.shape) ==
                               layout::slice(formOfColumn(r).second, static_cast<unsigned>(r.op->axis()));
  }
  Value *spread(Value *v, const Reduction &r, const Type &to) {
    const Type &row = r.op->result()->type;
    if (row.isScalar())
      return b_.create1(OpKind::Splat, {v}, to);
    if (v->type.shape != row.shape)
      v = view(OpKind::Reshape, v, row.shape, layout::reshape(m_.layoutOf(v->type), row.shape));
    auto [shape, l] = formOfColumn(r);
    return b_.create1(OpKind::Broadcast, {view(OpKind::ExpandDims, v, shape, l, {{attr::axis, r.op->axis()}})}, to);
  }

  /// Gives the partial sums initial values that add up to `init`: equal parts of a constant, each of which is exact;
  /// otherwise `init` in the first partial sum along the axis, and zeros in the others.
  void startWith(Op &loop, const Partial &p, Value *init) {
    const Type &t = p.arg->type;
    const auto axis = static_cast<unsigned>(p.of.op->axis());
    const auto count = static_cast<double>(t.shape[axis]);
    Block before;
    before.parent = loop.parent->parent;
    at(loop, before);
    Value *start;
    if (std::optional<double> c = constantOf(init); c && (!std::isfinite(*c) || *c == 0 || std::abs(*c) > 1e-30)) {
      start = b_.constFloat(t, *c / count);
    } else {
      Value *v = init;
      if (v->type.isTensor() && !spreads(v->type, p.of)) {
        const LinearLayout row = layout::slice(formOfColumn(p.of).second, axis);
        v = b_.create1(OpKind::Convert, {v}, v->type.withLayout(m_.internLayout(layout::reshape(row, v->type.shape))));
      }
      Value *all = spread(v, p.of, t);
      start = b_.select(isFirst(t, axis), all, neutralElement(b_, *p.of.op, t));
    }
    splice(before, *loop.parent, positionOf(*loop.parent, &loop));
    loop.operands[2 + p.arg->index] = start;
  }

  /// A tensor of conditions like `t`: is the coordinate along the axis 0?
  Value *isFirst(const Type &t, unsigned axis) {
    Shape alone = t.shape;
    for (unsigned d = 0; d < alone.rank(); ++d)
      if (d != axis)
        alone.set(d, 1);
    // layouts with the other axes removed one by one, the last axis first
    std::vector<LinearLayout> forms{layout::cut(m_.layoutOf(t), alone)};
    Shape shape = alone;
    std::vector<unsigned> gone;
    for (unsigned d = alone.rank(); d-- > 0;)
      if (d != axis) {
        forms.push_back(layout::slice(forms.back(), d));
        shape.erase(d);
        gone.push_back(d);
      }
    Value *index =
        b_.create1(OpKind::Range, {}, Type::tensor(shape, Elem::I32).withLayout(m_.internLayout(forms.back())),
                   {{attr::start, 0}});
    Value *is = b_.cmp(CmpPred::Eq, index, b_.constInt(index->type, 0));
    for (size_t i = gone.size(); i-- > 0;) {
      shape.insert(gone[i], 1);
      is = view(OpKind::ExpandDims, is, shape, forms[i], {{attr::axis, static_cast<int64_t>(gone[i])}});
    }
    return is->type.shape == t.shape ? is : b_.create1(OpKind::Broadcast, {is}, t.withElem(Elem::I1));
  }

  void at(const Op &place, Block &b) {
    b_.setBlock(&b);
    b_.setLoc(place.loc);
    b_.setInlinedAt(place.inlinedAt);
  }

  Value *view(OpKind kind, Value *v, const Shape &shape, const LinearLayout &l, std::vector<Attr> attrs = {}) {
    return b_.create1(kind, {v}, v->type.withShape(shape).withLayout(m_.internLayout(l)), std::move(attrs));
  }

  /// The operand of a reduction, combined within each thread.
  Value *ownPart(const Reduction &r) { return ownPart(r, r.op->operands[0]); }
  Value *ownPart(const Reduction &r, Value *x) {
    if (!r.parts.isOwn)
      return x;
    return reduceAlong(b_, m_, *r.op, splitAxis(b_, m_, x, r.parts), r.parts.own);
  }

  /// Adds a carried value that starts as the neutral element.
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

  /// Combines the partial sums to the total of all that the links added.
  Value *wholeOf(const Partial &p, Value *partial) {
    const Op &reduction = *p.of.op;
    Value *v = reduceAlong(b_, m_, reduction, partial, static_cast<unsigned>(reduction.axis()));
    if (v->type != reduction.result()->type)
      v = b_.create1(OpKind::Convert, {v}, reduction.result()->type);
    for (const Op *op : p.of.views)
      v = b_.create1(op->kind, {v}, op->result()->type, op->attrs);
    return v;
  }

  Module &m_;
  Builder b_;
  bool changed_ = false;
  // users in blocks with loops, from before any of their loops changed: still correct for results of loops
  std::unordered_map<const Block *, Users> around_;
};

} // namespace

bool canDelay(const Op &reduction) { return onlyOperation(reduction) && isReorderable(*reduction.region(0)->ops[0]); }

void delayReductions(Module &m) {
  // Repeated for outer loops: dead values that an inner loop no longer carries are removed in between.
  Delayer delayer(m);
  while (delayer.visit())
    removeDead(m);
}

} // namespace tegula::gpu
