// See HoistAddresses.h.
#include "gpu/loops/HoistAddresses.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/LoopSlice.h"
#include "gpu/loops/LoopObstacles.h"
#include "gpu/loops/ShortOffsets.h"
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

namespace tegula::gpu {

using namespace ir;

namespace {

/// times * of, a summand of an offset that moves through the loop.
struct Moving {
  Value *of;    // a number of the body, of 32 or 64 bits
  Value *times; // i64, defined before the loop; null: 1
};

/// A tensor as tile + splat(fixed) + splat(moving) + broadcast(held): pointers, or integers of 64 bits. A part that is
/// null or empty is zero. `tile` and `fixed` are loop-invariant.
struct Parts {
  Value *tile = nullptr;  // a tensor; never null for pointers
  Value *fixed = nullptr; // i64
  std::vector<Moving> moving;
  // i64 tensor, computed from results of an `if` of the body that change in few iterations; not yet broadcast
  Value *held = nullptr;
};

/// Cycles of an SM's tensor cores for the dots of an iteration, at 4096 products of 16 bits per cycle.
int64_t cyclesOfDots(const Block &body) {
  int64_t bits = 0;
  for (const Op *op : body.ops)
    if (op->kind == OpKind::Dot)
      bits += op->result()->type.numel() * op->operands[0]->type.shape[op->operands[0]->type.shape.rank() - 1] *
              bitWidth(op->operands[0]->type.elem);
  return bits / (16 * 4096);
}

class AddressHoister {
public:
  AddressHoister(Module &m, Op &loop)
      : module_(m), loop_(loop), body_(*loop.region(0)), before_(m), here_(m), rarely_(m),
        dotsAreLong_(cyclesOfDots(body_) >= 256) {
    before_.setBlock(&front_);
    here_.setBlock(&inside_);
    rarely_.setBlock(&ofHeld_);
  }

  void run(const std::vector<Op *> &loads) {
    shareCounters();
    for (Op *load : loads) {
      for (Builder *b : {&before_, &here_, &rarely_})
        b->setLoc(load->loc), b->setInlinedAt(load->inlinedAt);
      memo_.clear(); // it refers to values that stand right before a single load
      Value *&pointers = load->operands[0];
      const size_t made = front_.ops.size();
      const std::optional<Parts> p = isHoisted(pointers) ? std::nullopt : split(pointers);
      if (p && p->held)
        pointers = withHeld(*p, pointers->type, load->vec());
      else if (p && !p->moving.empty())
        pointers = here_.addPtr(p->tile, splat(here_, offset(p->moving), pointers->type));
      else
        forgetSince(made);
      ofHeld_.ops.clear(), branch_ = nullptr;
      splice(inside_, body_, positionOf(body_, load));
    }
    here_.setLoc(loop_.loc), here_.setInlinedAt(loop_.inlinedAt);
    for (size_t i = 0; i < carried_.size(); ++i) // step() may add to carried_
      step(i);
    splice(inside_, body_, body_.ops.size() - 1);
    splice(front_, *loop_.parent, positionOf(*loop_.parent, &loop_));
  }

private:
  // ---- moving offsets

  /// times * of, where `of` is a carried value of the loop or its counter: `value` is the carried value for the
  /// product.
  struct Carried {
    const Value *of; // an argument of the body
    Value *times;    // i64, defined before the loop
    Value *value;
  };

  /// Makes the body use only one of several carried numbers that have the same initial value and the same step, such as
  /// those of two block pointers.
  void shareCounters() {
    const std::vector<Value *> &next = body_.terminator()->operands;
    auto isSame = [](const Value *a, const Value *b) {
      return a == b || (a->type == b->type && a->type.isScalar() && constantInt(a) && constantInt(a) == constantInt(b));
    };
    auto stepOf = [&](size_t i) -> const Op * { // arg + step, arg - step
      const Op *op = next[i]->def;
      const bool steps = op && op->parent == &body_ && (op->kind == OpKind::Add || op->kind == OpKind::Sub) &&
                         op->operands[0] == body_.args[i + 1];
      return steps && op->result()->type.isScalar() && !isInside(op->operands[1]) ? op : nullptr;
    };
    for (size_t k = 1; k < next.size(); ++k)
      for (size_t i = 0; i < k; ++i) {
        const Op *a = stepOf(i), *b = stepOf(k);
        if (!a || !b || a->kind != b->kind || !isSame(a->operands[1], b->operands[1]) ||
            !isSame(loop_.operands[i + 3], loop_.operands[k + 3]))
          continue;
        replaceUses(body_, body_.args[k + 1], body_.args[i + 1]);
        break;
      }
  }

  /// Emits the sum of the moving summands at the load.
  Value *offset(const std::vector<Moving> &moving) {
    Value *sum = nullptr;
    for (const Moving &m : moving) {
      Value *v = isCarriedBetter(m) ? scaled(here_, m.of, m.times) : product(m);
      sum = sum ? here_.binary(OpKind::Add, sum, v) : v;
    }
    return sum;
  }

  /// Emits the product, computed in each iteration.
  Value *product(const Moving &m) {
    Value *v = widened(m.of);
    return m.times ? here_.binary(OpKind::Mul, v, m.times) : v;
  }

  /// Is the summand linear in the loop-carried numbers, so that carrying it pays? Not through selections beside short
  /// dots: a selection is an instruction of each thread, for which such an iteration has no time left, while the
  /// counters of other loops are computed once for a warp.
  bool isCarriedBetter(const Moving &m) const {
    std::unordered_set<const Value *> seen;
    unsigned left = mostOfOffset;
    bool selects = false;
    return isLinear(m.of, seen, left, selects) && (!selects || dotsAreLong_);
  }

  /// Is `v` computed only by sums, differences, products by one loop-invariant number and selections? The inputs may be
  /// the loop's counter, loop-carried numbers that are computed from each other in the same way, and loop-invariant
  /// values. `left`: operations that may still be visited. Sets `selects` where there are selections.
  bool isLinear(const Value *v, std::unordered_set<const Value *> &seen, unsigned &left, bool &selects) const {
    if (!isNew(v) || !seen.insert(v).second)
      return true;
    if (v->block == &body_)
      return v->index == 0 || isLinear(body_.terminator()->operands[v->index - 1], seen, left, selects);
    const Op &op = *v->def;
    if (left-- == 0 || (v->type.elem != Elem::I32 && v->type.elem != Elem::I64))
      return left = 0, false;
    auto both = [&](unsigned i, unsigned k) {
      return isLinear(op.operands[i], seen, left, selects) && isLinear(op.operands[k], seen, left, selects);
    };
    switch (op.kind) {
    case OpKind::SExt: return isLinear(op.operands[0], seen, left, selects);
    case OpKind::Add: case OpKind::Sub: return both(0, 1);
    case OpKind::Select: return selects = true, both(1, 2);
    case OpKind::Mul: return (!isNew(op.operands[0]) || !isNew(op.operands[1])) && both(0, 1);
    default: return false;
    }
  }

  /// Emits times * v in 64 bits at `b`; null `times` is 1. `v` must be a value that isLinear() accepts.
  Value *scaled(Builder &b, Value *v, Value *times) {
    if (!isNew(v))
      return times ? early(OpKind::Mul, widened(v), times) : widened(v);
    if (v->block == &body_)
      return scaledArgument(v, times);
    if (auto it = scaled_.find({v, times}); it != scaled_.end())
      return it->second;
    const Op &op = *v->def;
    Value *made = nullptr;
    switch (op.kind) {
    case OpKind::SExt: made = scaled(b, op.operands[0], times); break;
    case OpKind::Mul: {
      const unsigned one = isNew(op.operands[0]) ? 1 : 0;
      made = scaled(b, op.operands[1 - one], scaled(b, op.operands[one], times));
      break;
    }
    case OpKind::Select: {
      Value *x = scaled(b, op.operands[1], times), *y = scaled(b, op.operands[2], times);
      made = b.create1(OpKind::Select, {op.operands[0], x, y}, x->type);
      break;
    }
    default: {
      Value *x = scaled(b, op.operands[0], times), *y = scaled(b, op.operands[1], times);
      made = b.binary(op.kind, x, y);
    }
    }
    return scaled_[{v, times}] = made;
  }

  Value *scaledArgument(Value *arg, Value *times) {
    if (!times && arg->type.elem == Elem::I64 && arg->index)
      return arg;
    for (const Carried &c : carried_)
      if (c.of == arg && c.times == times)
        return c.value;
    Value *init = scaled(before_, loop_.operands[arg->index ? arg->index + 2 : 0], times);
    carried_.push_back({arg, times, carry(module_, loop_, init, "")});
    return carried_.back().value;
  }

  /// At the end of the body: emits the value of carried_[i] in the next iteration.
  void step(size_t i) {
    const Carried c = carried_[i];
    Value *next = c.of->index ? scaled(here_, body_.terminator()->operands[c.of->index - 1], c.times)
                              : here_.binary(isReverse(loop_) ? OpKind::Sub : OpKind::Add, c.value,
                                             scaled(before_, loop_.operands[2], c.times));
    carryOn(loop_, c.value, next);
  }

  bool isInside(const Value *v) const { return v->def ? v->def->parent == &body_ : v->block == &body_; }
  /// Has this pass already rewritten the pointers?
  bool isHoisted(const Value *v) const {
    const Op *op = v->def;
    return op && op->kind == OpKind::AddPtr && !isInside(op->operands[0]) && op->operands[1]->type.elem == Elem::I64 &&
           op->operands[1]->def && op->operands[1]->def->kind == OpKind::Splat;
  }

  // ---- values that an `if` replaces in few iterations

  /// The carried value that one side of an `if` yields unchanged for its result `v`; null if `v` is not such a result.
  const Value *heldSince(const Value *v) const {
    const Op *op = v->def;
    if (!op || op->kind != OpKind::If || op->parent != &body_)
      return nullptr;
    for (unsigned r = 0; r < 2; ++r) {
      const Value *kept = op->region(r)->terminator()->operands[v->index];
      if (kept->block == &body_ && kept->index > 0 && body_.terminator()->operands[kept->index - 1] == v)
        return kept;
    }
    return nullptr;
  }

  /// Clones the computation of `held` to the end of `b`, with `of` in place of each result of the `if`.
  Value *heldAt(Builder &b, Value *held, const std::function<Value *(const Value *)> &of) {
    LoopSlice::Map map;
    auto now = [&](Value *v) {
      auto it = map.find(v);
      return it != map.end() ? it->second : v->def == branch_ ? of(v) : v;
    };
    for (const Op *op : ofHeld_.ops) {
      std::vector<Value *> operands;
      for (Value *v : op->operands)
        operands.push_back(now(v));
      map[op->result()] = LoopSlice::clone(b, *op, operands)->result();
    }
    return now(held);
  }

  /// Adds the held part as another result of the `if`, computed on the side that replaces the other results, and
  /// carries it.
  Value *carried(Value *held) {
    Value *arg =
        carry(module_, loop_,
              heldAt(before_, held, [&](const Value *v) { return loop_.operands[heldSince(v)->index + 2]; }), "");
    Value *result = module_.addResult(branch_, held->type);
    for (unsigned r = 0; r < 2; ++r) {
      Block &block = *branch_->region(r);
      Op *yield = block.terminator();
      const bool keeps = std::any_of(branch_->results.begin(), branch_->results.end() - 1,
                                     [&](const Value *v) { return heldSince(v) == yield->operands[v->index]; });
      Value *next = arg;
      if (!keeps) {
        Block more;
        Builder b(module_);
        b.setBlock(&more);
        b.setLoc(branch_->loc);
        next = heldAt(b, held, [&](const Value *v) { return yield->operands[v->index]; });
        splice(more, block, positionOf(block, yield));
      }
      yield->operands.push_back(next);
    }
    carryOn(loop_, arg, result);
    return result;
  }

  /// tile + splat(moving) + broadcast(held). The sum with fewer elements in a thread is computed first.
  Value *withHeld(const Parts &p, const Type &type, int64_t vec) {
    Value *held = carried(p.held);
    const Type offsets = type.withElem(Elem::I64);
    // A thread's vectors along the axes of the held part, and along the other axes.
    const layout::LinearLayout &l = module_.layoutOf(type);
    int64_t ofHeld = 1, ofTile = 1;
    for (unsigned bit = layout::log2Exact(vec); bit < l.inBits(layout::Dim::Register); ++bit)
      for (unsigned axis = 0; axis < type.shape.rank(); ++axis)
        if (l.basis(layout::Dim::Register, bit, layout::tensorDim(axis)))
          (held->type.shape[axis] > 1 ? ofHeld : ofTile) *= 2;
    auto wide = [&](Value *v) {
      return v->type.shape == type.shape ? v : here_.create1(OpKind::Broadcast, {v}, offsets);
    };
    if (p.moving.empty())
      return here_.addPtr(p.tile, wide(held));
    Value *moving = offset(p.moving);
    if (ofHeld <= ofTile)
      return here_.addPtr(p.tile, wide(here_.binary(OpKind::Add, held, splat(here_, moving, held->type))));
    return here_.addPtr(here_.addPtr(p.tile, splat(here_, moving, type)), wide(held));
  }

  static Value *splat(Builder &b, Value *scalar, const Type &like) {
    return b.create1(OpKind::Splat, {scalar}, scalar->type.isPtr ? like : like.withElem(Elem::I64));
  }

  // ---- scalars

  /// Emits an operation on loop-invariant numbers before the loop, once for the same operands.
  Value *early(OpKind kind, Value *a, Value *b) {
    auto [it, isFirst] = early_.try_emplace({kind, a, b}, nullptr);
    if (isFirst) {
      it->second = b ? before_.binary(kind, a, b) : before_.cast(kind, a, Elem::I64);
      if (std::optional<int64_t> c = constantInt(it->second))
        it->second = constant(*c);
    }
    return it->second;
  }
  Value *constant(int64_t c) {
    auto [it, isFirst] = constants_.try_emplace(c, nullptr);
    return isFirst ? it->second = before_.constI64(c) : it->second;
  }
  /// Removes the operations that were emitted before the loop since it had `made` of them.
  void forgetSince(size_t made) {
    const std::unordered_set<const Op *> gone(front_.ops.begin() + static_cast<std::ptrdiff_t>(made), front_.ops.end());
    std::erase_if(early_, [&](const auto &known) { return gone.contains(known.second->def); });
    std::erase_if(constants_, [&](const auto &known) { return gone.contains(known.second->def); });
    std::erase_if(scaled_,
                  [&](const auto &known) { return known.second->def && known.second->def->parent == &inside_; });
    front_.ops.resize(made);
    inside_.ops.clear();
  }

  Value *widened(Value *v) {
    if (v->type.elem == Elem::I64)
      return isNew(v) || !constantInt(v) ? v : constant(*constantInt(v));
    if (!isNew(v))
      return constantInt(v) ? constant(*constantInt(v)) : early(OpKind::SExt, v, nullptr);
    Value *&made = scaled_[{v, nullptr}];
    return made ? made : made = here_.cast(OpKind::SExt, v, Elem::I64);
  }

  /// The integer `v` as fixed + moving, without wrapping around at 32 bits.
  Parts scalar(Value *v, unsigned depth = 0) {
    constexpr unsigned deepest = 16;
    const Op *op = v->def;
    if (!isInside(v))
      return Parts{.fixed = widened(v)};
    if (op && depth < deepest)
      switch (op->kind) {
      case OpKind::SExt:
        if (op->operands[0]->type.elem == Elem::I32)
          return scalar(op->operands[0], depth + 1);
        break;
      case OpKind::Add:
      case OpKind::Sub: return sumOf(op->kind, scalar(op->operands[0], depth + 1), scalar(op->operands[1], depth + 1));
      case OpKind::Mul: return uniformProduct(scalar(op->operands[0], depth + 1), scalar(op->operands[1], depth + 1));
      default: break;
      }
    return Parts{.moving = {{v, nullptr}}};
  }

  /// a + b, a - b or a * b of loop-invariant values, where null is zero.
  Value *combine(OpKind kind, Value *a, Value *b) {
    if (!b)
      return kind == OpKind::Mul ? nullptr : a;
    if (!a && kind != OpKind::Sub)
      return kind == OpKind::Mul ? nullptr : b;
    if (b->type.isScalar())
      return early(kind, a ? a : constant(0), b);
    return before_.binary(kind, a ? a : before_.constInt(b->type, 0), b);
  }

  std::vector<Moving> combine(OpKind kind, std::vector<Moving> a, const std::vector<Moving> &b) {
    for (const Moving &m : b) {
      Value *times = kind == OpKind::Sub ? early(OpKind::Sub, constant(0), m.times ? m.times : constant(1)) : m.times;
      auto same = std::find_if(a.begin(), a.end(), [&](const Moving &x) { return x.of == m.of; });
      if (same == a.end())
        a.push_back({m.of, times});
      else
        same->times = early(OpKind::Add, same->times ? same->times : constant(1), times ? times : constant(1));
    }
    return a;
  }
  std::vector<Moving> times(std::vector<Moving> a, Value *factor) {
    if (!factor)
      return {};
    for (Moving &m : a)
      m.times = m.times ? early(OpKind::Mul, m.times, factor) : factor;
    return a;
  }

  Parts sumOf(OpKind kind, const Parts &a, const Parts &b) {
    return {combine(kind, a.tile, b.tile), combine(kind, a.fixed, b.fixed), combine(kind, a.moving, b.moving),
            a.held ? a.held : b.held};
  }
  /// The fixed and moving parts of a product.
  Parts uniformProduct(const Parts &a, const Parts &b) {
    Parts p{.fixed = combine(OpKind::Mul, a.fixed, b.fixed),
            .moving = combine(OpKind::Add, times(a.moving, b.fixed), times(b.moving, a.fixed))};
    if (!a.moving.empty() && !b.moving.empty())
      p.moving.push_back({here_.binary(OpKind::Mul, plain(a.moving), plain(b.moving)), nullptr});
    return p;
  }
  /// Emits the sum, computed in each iteration.
  Value *plain(const std::vector<Moving> &moving) {
    Value *sum = nullptr;
    for (const Moving &m : moving) {
      Value *v = product(m);
      sum = sum ? here_.binary(OpKind::Add, sum, v) : v;
    }
    return sum;
  }

  /// Is the value defined in the body, or emitted for it?
  bool isNew(const Value *v) const { return isInside(v) || (v->def && v->def->parent == &inside_); }

  // ---- tensors

  std::optional<Parts> split(Value *v) {
    if (auto it = memo_.find(v); it != memo_.end())
      return it->second;
    std::optional<Parts> p = v->type.isPtr ? pointers(v) : offsets(v);
    memo_.emplace(v, p);
    return p;
  }

  std::optional<Parts> offsets(Value *v) {
    if (v->type.elem != Elem::I32 && v->type.elem != Elem::I64)
      return std::nullopt;
    const Op *op = v->def;
    if (std::optional<int64_t> c = constantInt(v)) // the same in every element
      return Parts{.fixed = constant(*c)};
    if (!isInside(v)) {
      if (op && op->kind == OpKind::Splat)
        return Parts{.fixed = widened(op->operands[0])};
      if (v->type.isScalar())
        return Parts{.fixed = widened(v)};
      return Parts{.tile = v->type.elem == Elem::I64 ? v : before_.cast(OpKind::SExt, v, Elem::I64)};
    }
    if (!op)
      return std::nullopt;
    if (v->type.isTensor() && heldSince(v) && (!branch_ || branch_ == op)) {
      branch_ = v->def;
      return Parts{.held = v->type.elem == Elem::I64 ? v : rarely_.cast(OpKind::SExt, v, Elem::I64)};
    }
    switch (op->kind) {
    case OpKind::Range: {
      Value *tile = LoopSlice::clone(before_, *op, {})->result();
      return Parts{.tile = v->type.elem == Elem::I64 ? tile : before_.cast(OpKind::SExt, tile, Elem::I64)};
    }
    case OpKind::Splat: return scalar(op->operands[0]);
    case OpKind::SExt: return split(op->operands[0]);
    case OpKind::Add:
    case OpKind::Sub: return sum(*op);
    case OpKind::Mul: return product(*op);
    default: return moved(*op);
    }
  }

  std::optional<Parts> sum(const Op &op) {
    std::optional<Parts> a = split(op.operands[0]), b = a ? split(op.operands[1]) : std::nullopt;
    if (!b || (b->held && (a->held || op.kind == OpKind::Sub)))
      return std::nullopt;
    return sumOf(op.kind, *a, *b);
  }

  /// A product by a uniform number, or of two loop-invariant tensors. If one of two tensors moved, each element would
  /// have a step of its own.
  std::optional<Parts> product(const Op &op) {
    std::optional<Parts> a = split(op.operands[0]), b = a ? split(op.operands[1]) : std::nullopt;
    if (!b)
      return std::nullopt;
    if (b->tile || b->held)
      std::swap(a, b);
    if (b->held || (a->held && (b->tile || !b->moving.empty() || !b->fixed)))
      return std::nullopt;
    if (b->tile && a->moving.empty() && b->moving.empty()) {
      Value *x = whole(*a, op.result()->type), *y = whole(*b, op.result()->type);
      return Parts{.tile = before_.binary(OpKind::Mul, x, y)};
    }
    if (b->tile || (a->tile && !b->moving.empty()))
      return std::nullopt;
    Parts p = uniformProduct(*a, *b);
    if (a->held)
      p.held = rarely_.binary(OpKind::Mul, a->held, splat(rarely_, b->fixed, a->held->type));
    if (a->tile && b->fixed)
      p.tile = before_.binary(OpKind::Mul, a->tile, splat(before_, b->fixed, op.result()->type));
    return p;
  }

  /// The tensor of parts that do not move.
  Value *whole(const Parts &p, const Type &like) {
    return p.fixed ? combine(OpKind::Add, p.tile, splat(before_, p.fixed, like)) : p.tile;
  }

  /// A view operation or layout conversion: the same elements in other places.
  std::optional<Parts> moved(const Op &op) {
    bool moves = op.kind == OpKind::ExpandDims || op.kind == OpKind::Broadcast || op.kind == OpKind::Reshape ||
                 op.kind == OpKind::Permute || op.kind == OpKind::Convert;
    std::optional<Parts> p = moves ? split(op.operands[0]) : std::nullopt;
    if (p && p->held && op.kind != OpKind::Broadcast) {
      if (p->held->type.shape != op.operands[0]->type.shape)
        return std::nullopt;
      Type t = op.result()->type.withElem(Elem::I64);
      p->held = rarely_.create(op.kind, {&p->held, 1}, {&t, 1}, op.attrs)->result();
    }
    if (!p || !p->tile)
      return p;
    Type t = op.result()->type.isPtr ? op.result()->type : op.result()->type.withElem(Elem::I64);
    p->tile = before_.create(op.kind, {&p->tile, 1}, {&t, 1}, op.attrs)->result();
    return p;
  }

  std::optional<Parts> pointers(Value *v) {
    const Op *op = v->def;
    if (!isInside(v))
      return Parts{.tile = v};
    if (!op)
      return std::nullopt;
    if (op->kind == OpKind::Splat) {
      Parts p;
      Value *s = op->operands[0];
      while (isInside(s) && s->def && s->def->kind == OpKind::AddPtr) {
        Value *by = s->def->operands[1];
        if (by->type.elem != Elem::I32 && by->type.elem != Elem::I64)
          return std::nullopt;
        p = sumOf(OpKind::Add, p, scalar(by));
        s = s->def->operands[0];
      }
      if (isInside(s))
        return std::nullopt;
      p.tile = splat(before_, p.fixed ? before_.addPtr(s, p.fixed) : s, v->type);
      p.fixed = nullptr;
      return p;
    }
    if (op->kind != OpKind::AddPtr)
      return moved(*op);
    std::optional<Parts> p = split(op->operands[0]), by = p ? split(op->operands[1]) : std::nullopt;
    if (!by || (p->held && by->held))
      return std::nullopt;
    if (by->held)
      p->held = by->held;
    if (by->tile)
      p->tile = before_.addPtr(p->tile, by->tile);
    if (by->fixed)
      p->tile = before_.addPtr(p->tile, splat(before_, by->fixed, v->type));
    p->moving = combine(OpKind::Add, p->moving, by->moving);
    return p;
  }

  Module &module_;
  Op &loop_;
  Block &body_;
  Block front_, inside_;   // operations emitted so far: to be put before the loop; before the current load
  Block ofHeld_;           // operations of the current load's held parts; cloned to the side of the `if` that replaces
  Op *branch_ = nullptr;   // that `if`
  Builder before_, here_, rarely_;
  const bool dotsAreLong_; // an iteration's dots take 256 cycles or more on an SM
  static constexpr unsigned mostOfOffset = 16; // operations of an offset
  std::vector<Carried> carried_;
  // products in the body, by value and factor; without a factor, widened values too
  std::map<std::pair<const Value *, const Value *>, Value *> scaled_;
  std::map<std::tuple<OpKind, const Value *, const Value *>, Value *> early_;        // before the loop
  std::map<int64_t, Value *> constants_;
  std::unordered_map<const Value *, std::optional<Parts>> memo_;
};

/// Is an access of the load wide enough for an asynchronous copy?
bool isCopied(const Op &load) { return load.vec() * bitWidth(load.result()->type.elem) >= 32; }

/// Registers of a thread for the results of dots and for pointers. There is one pointer for each vector that the thread
/// loads.
int64_t registersFor(const Block &body, const std::vector<Op *> &loads, int64_t threads) {
  int64_t needed = registersOfDots(body, threads);
  for (const Op *load : loads)
    needed += 2 * load->result()->type.numel() / load->vec() / threads;
  return needed;
}

void visit(Module &m, Block &b, const TargetInfo &target, const Options &options) {
  for (Op *op : std::vector<Op *>(b.ops)) {
    for (Region *r : op->regions)
      visit(m, *r->block, target, options);
    if (op->kind != OpKind::For || stagesOf(*op, options) < 2 || op->disableLicm())
      continue;
    std::vector<Op *> loads = loadsOfDots(*op->region(0));
    std::erase_if(loads, [](const Op *load) { return load->kind != OpKind::Load; });
    // Beside mma, whose operands are in registers, the pointers would spill.
    const std::vector<Op *> &ops = op->region(0)->ops;
    if (std::none_of(ops.begin(), ops.end(), [](const Op *o) { return o->kind == OpKind::Dot && isAsyncMma(*o); }))
      continue;
    const int64_t threads = int64_t{target.lanes()} * options.numWarps,
                  limit = target.registerLimit(static_cast<unsigned>(threads)),
                  needed = registersFor(*op->region(0), loads, threads);
    const bool fit = needed <= limit;
    // For elements loaded one by one, pointers take twice the registers of offsets, and one more instruction each; for
    // longer accesses, pointers let copies start faster. Far beyond the limit, offsets would spill, but rows and
    // columns that are added in each iteration do not (128x256x64, 376 registers needed: 2280 -> 5350 us; 312: 1430 ->
    // 1335, 1990 -> 1160).
    std::erase_if(loads, [&](Op *load) {
      return !(fit && isCopied(*load)) && needed <= limit / 4 * 5 && shortenOffset(m, *op, *load);
    });
    if (fit && !loads.empty())
      AddressHoister(m, *op).run(loads);
  }
}

} // namespace

void hoistAddresses(Module &m, const TargetInfo &target, const Options &options) {
  visit(m, *m.kernel()->block(), target, options);
}

} // namespace tegula::gpu
