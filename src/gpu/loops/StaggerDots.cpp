// See StaggerDots.h.
#include "gpu/loops/StaggerDots.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/LoopSlice.h"
#include "gpu/shared/SharedNeeds.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include <algorithm>
#include <cmath>

namespace tegula::gpu {

using namespace ir;

namespace {

bool takes(const Op &op, const std::unordered_set<const Value *> &values) {
  return std::ranges::any_of(op.operands, [&](const Value *v) { return values.count(v) != 0; });
}

/// The two dots of a loop, and the operations on the second one's accumulators.
class Pair {
public:
  Pair(const Module &m, const Op &loop, const TargetInfo &target, const Options &options)
      : module_(m), target_(target), options_(options), body_(*loop.region(0)) {
    for (Op *op : body_.ops)
      if (op->kind == OpKind::Dot) {
        (!first_ ? first_ : second_) = op;
        ++count_;
      }
    if (count_ == 2)
      isPair_ = find();
  }

  explicit operator bool() const { return isPair_; }
  Op &first() const { return *first_; }
  Op &second() const { return *second_; }
  /// The operation that computes the second dot's A.
  const Op &fragments() const { return *fragments_; }
  /// Index of the carried value that the second dot's result becomes.
  size_t number() const { return number_; }
  const Value *carried() const { return body_.args[number_ + 1]; }
  /// Is it one of the operations between the carried value, or the wait for it, and the second dot?
  bool isOfAccumulators(const Op *op) const { return ofAccumulators_.count(op) != 0; }
  /// That operation if there is exactly one, else null.
  const Op *onlyOneOfAccumulators() const { return ofAccumulators_.size() == 1 ? *ofAccumulators_.begin() : nullptr; }
  bool hasNoneOfAccumulators() const { return ofAccumulators_.empty(); }

private:
  /// Does each warp compute it without data of other warps? Fragments of 8 bits are exchanged between lanes.
  bool isOfOneWarp(const Op &op) const {
    return op.has(traits::Elementwise) ||
           (op.kind == OpKind::Convert &&
            scratchNeed(module_, op, target_, options_, target_.sharedLimit(), true).bytes == 0);
  }

  bool find() {
    const Value *a = second_->operands[0];
    fragments_ = a->def;
    if (!isAsyncMma(*first_) || !isAsyncMma(*second_) || bitWidth(first_->result()->type.elem) != 32 ||
        bitWidth(second_->result()->type.elem) != 32 || a->type.isShared || !fragments_ ||
        fragments_->parent != &body_ || !fragments_->has(traits::Pure) || !isOfOneWarp(*fragments_))
      return false;
    const std::vector<Value *> &yields = body_.terminator()->operands;
    const auto at = std::ranges::find(yields, second_->result());
    if (at == yields.end() || std::ranges::count(yields, second_->result()) != 1)
      return false;
    number_ = static_cast<size_t>(at - yields.begin());
    // Values computed from the first dot's result, and from the second dot's result of the last iteration.
    std::unordered_set<const Value *> ofFirst{first_->result()}, ofLast{carried()};
    bool isBehind = false;
    for (const Op *op : body_.ops) {
      if (op == second_) {
        isBehind = true;
        continue;
      }
      if (op->kind == OpKind::DotWait) { // passes its operands on
        for (size_t i = 0; i < op->operands.size(); ++i)
          for (auto *set : {&ofFirst, &ofLast})
            if (set->count(op->operands[i]))
              set->insert(op->results[i]);
        continue;
      }
      if (takes(*op, ofLast) || uses(*op, second_->result())) {
        if (op == body_.terminator() && !takes(*op, ofLast))
          continue;
        if (isBehind || op == fragments_ || op == first_ || !op->has(traits::Pure) || !op->regions.empty())
          return false;
        ofAccumulators_.insert(op);
        ofLast.insert(op->results.begin(), op->results.end());
      } else if (takes(*op, ofFirst)) {
        ofFirst.insert(op->results.begin(), op->results.end());
      }
      if (uses(*op, fragments_->result()))
        return false;
    }
    return ofFirst.count(a) && ofLast.count(second_->operands[2]) && !ofLast.count(second_->operands[1]) &&
           !takes(*first_, ofFirst);
  }

  const Module &module_;
  const TargetInfo &target_;
  const Options &options_;
  const Block &body_;
  Op *first_ = nullptr, *second_ = nullptr;
  size_t count_ = 0, number_ = 0;
  const Op *fragments_ = nullptr;
  std::unordered_set<const Op *> ofAccumulators_;
  bool isPair_ = false;
};

class Staggerer {
public:
  Staggerer(Module &m, Op &loop, bool gathers, const TargetInfo &target, const Options &options)
      : m_(m), b_(m), loop_(loop), body_(*loop.region(0)), pair_(m, loop, target, options), gathers_(gathers) {
    b_.setFolding(false);
  }

  void run() {
    if (!find())
      return;
    b_.setLoc(loop_.loc);
    b_.setInlinedAt(loop_.inlinedAt);
    Block here, &outer = *loop_.parent;
    here.parent = outer.parent;
    b_.setBlock(&here);
    std::vector<Type> types;
    for (const Value *r : loop_.results)
      types.push_back(r->type);
    Op *when = b_.ifOp(gpu::runs(b_, loop_, loop_.operands[0]), types);
    iterate(*when->region(0));
    b_.setBlock(when->region(1));
    b_.yield(std::vector<Value *>(loop_.operands.begin() + 3, loop_.operands.end()));
    const size_t at = positionOf(outer, &loop_);
    replaceUses(outer, loop_.results, when->results, at + 1);
    replaceUses(outer, behind_->results, behind_->operands, at + 1);
    std::erase(outer.ops, behind_);
    std::erase(outer.ops, &loop_);
    splice(here, outer, at);
  }

private:
  /// Requires one wait for both the last iteration's second dot and this one's first, and between the wait and the
  /// second dot only operations that may run beside a dot.
  bool find() {
    if (!pair_ || !pair_.first().isAsync() || !pair_.second().isAsync())
      return false;
    for (const Op *op : body_.ops)
      if (op->kind == OpKind::DotWait) {
        if (wait_)
          return false;
        wait_ = op;
      }
    if (!wait_ || wait_->pending() != 0 || wait_->operands.size() != 2)
      return false;
    const size_t accumulators = wait_->operands[0] == pair_.carried() ? 0 : 1;
    if (wait_->operands[accumulators] != pair_.carried() || wait_->operands[1 - accumulators] != pair_.first().result())
      return false;
    accumulators_ = wait_->results[accumulators];
    scores_ = wait_->results[1 - accumulators];
    const size_t atWait = positionOf(body_, wait_), atSecond = positionOf(body_, &pair_.second());
    if (atWait < positionOf(body_, &pair_.first()) || atWait > atSecond)
      return false;
    if (const Op *op = body_.ops[atSecond - 1]; op->kind == OpKind::BarrierWait)
      tileWait_ = op;
    for (size_t i = 0; i < atSecond; ++i) {
      const Op *op = body_.ops[i];
      if (op == tileWait_)
        continue;
      if (i < atWait ? pair_.isOfAccumulators(op) || uses(*op, pair_.carried()) : !isQuiet(*op))
        return false;
      if (i > atWait && op->kind == OpKind::BarrierArrive)
        arrives_.insert(op);
    }
    const Block &outer = *loop_.parent;
    const size_t next = positionOf(outer, &loop_) + 1;
    behind_ = outer.ops[next];
    return behind_->kind == OpKind::DotWait && findTile(pair_.second().operands[1]) &&
           (!tileWait_ || std::ranges::all_of(tileWait_->operands, [&](const Value *v) { return findTile(v); }));
  }

  bool isQuiet(const Op &op) const {
    return op.has(traits::Pure) || op.kind == OpKind::Reduce || op.kind == OpKind::BarrierArrive || &op == wait_;
  }

  /// Collects the operations that select the tile of the second dot (names_), and the carried values that they depend
  /// on (which_). False if that takes anything else.
  bool findTile(const Value *v) {
    const Op *op = v->def;
    if (!op ? v->block != &body_ : op->parent != &body_)
      return true;
    if (!op) {
      if (v->index && v->type.isScalar() && std::ranges::find(which_, v) == which_.end())
        which_.push_back(v);
      return v->index && v->type.isScalar();
    }
    if (!op->has(traits::Pure) || !op->regions.empty() ||
        !std::ranges::all_of(op->operands, [&](const Value *o) { return findTile(o); }))
      return false;
    if (std::ranges::find(names_, op) == names_.end())
      names_.push_back(op);
    return true;
  }

  /// Emits the previous iteration's second dot to `to`, with its A, its accumulator, and the carried values that select
  /// its tile.
  Op *lateDot(Value *fragments, Value *acc, std::span<Value *const> which, Block &to) {
    Cloner c(m_);
    for (size_t i = 0; i < which_.size(); ++i)
      c.map(which_[i], which[i]);
    for (const Op *op : names_)
      c.copy(*op, to);
    if (tileWait_)
      c.copy(*tileWait_, to);
    c.map(pair_.second().operands[0], fragments);
    c.map(pair_.second().operands[2], acc);
    return c.copy(pair_.second(), to);
  }

  Value *wait(Block &to, int64_t pending, Value *v) {
    b_.setBlock(&to);
    const Type t = v->type;
    return b_.create(OpKind::DotWait, {&v, 1}, {&t, 1}, {{attr::pending, pending}})->result();
  }

  /// The values that an iteration yields: the carried values, with the second dot's accumulator in place of its result;
  /// then its A, and the values that select its tile.
  std::vector<Value *> left(const Cloner &c) const {
    std::vector<Value *> out;
    for (const Value *v : body_.terminator()->operands)
      out.push_back(c(v == pair_.second().result() ? pair_.second().operands[2] : v));
    out.push_back(c(pair_.second().operands[0]));
    for (const Value *v : which_)
      out.push_back(c(v));
    return out;
  }

  void iterate(Block &to) {
    b_.setBlock(&to);
    const bool isFirstInLoop = wantsFirstInLoop() && findScale();
    const std::vector<Value *> inits = isFirstInLoop ? beforeFirst() : firstIteration(to);
    b_.setBlock(&to);
    Value *second = b_.binary(isReverse(loop_) ? OpKind::Sub : OpKind::Add, loop_.operands[0], loop_.operands[2]);
    if (isFirstInLoop)
      second_ = second;
    Op *now = b_.forOp(isFirstInLoop ? loop_.operands[0] : second, loop_.operands[1], loop_.operands[2], inits);
    now->attrs = loop_.attrs;
    otherIterations(*now->region(0));
    // The last iteration's second dot.
    const size_t carried = loop_.results.size();
    const std::span<Value *const> all(now->results);
    Value *sum = all[pair_.number()];
    if (isFirstInLoop) {
      b_.setBlock(&to);
      Value *isOnly = b_.binary(OpKind::Xor, gpu::runs(b_, loop_, second), b_.constInt(Type::scalar(Elem::I1), 1));
      sum = zeroIf(isOnly, sum);
    }
    Op *dot = lateDot(all[carried], sum, all.subspan(carried + 1), to);
    std::vector<Value *> results(all.begin(), all.begin() + static_cast<long>(carried));
    results[pair_.number()] = wait(to, 0, dot->result());
    if (scale_) {
      Cloner c(m_);
      c.map(scale_, all.back());
      for (const Op *op : spread_)
        c.copy(*op, to);
      b_.setBlock(&to);
      results[pair_.number()] = b_.binary(OpKind::FAdd, results[pair_.number()], c(spread_.back()->result()));
    }
    b_.yield(results);
  }

  // ---- the first iteration in the loop

  /// Should the first iteration stay in the loop? That costs one late dot whose result is unused, and assembles faster.
  /// As measured on an H200, 29 configurations: by block copies with few stages, where the stage is released after the
  /// wait, 1.004 of the speed (0.99-1.02); with more stages 0.96 (0.91-1.04), and where threads copy 0.95 (0.91-1.01).
  bool wantsFirstInLoop() const { return !gathers_ && !arrives_.empty(); }

  /// Can the first iteration stay in the loop, where the result of its late dot is unused? That result may be NaN
  /// (zeros times a tile of arbitrary numbers), so the second iteration's late dot does not read the sum. Therefore the
  /// sum must begin at zero. The operation on the sum before the second dot (none, or a product by factors of rows)
  /// turns that zero into zero or NaN; this value is kept and added after the loop.
  bool findScale() {
    const auto zero = constantFloat(loop_.operands[3 + pair_.number()]);
    if (!zero || *zero != 0 || std::signbit(*zero))
      return false;
    if (pair_.hasNoneOfAccumulators())
      return pair_.second().operands[2] == accumulators_;
    const Op *op = pair_.onlyOneOfAccumulators();
    if (!op || op->kind != OpKind::FMul || op->result() != pair_.second().operands[2] ||
        op->operands[0] == op->operands[1])
      return false;
    const Value *by = op->operands[op->operands[0] == accumulators_];
    for (;
         by->def && by->def->parent == &body_ &&
         (by->def->kind == OpKind::Broadcast || by->def->kind == OpKind::ExpandDims || by->def->kind == OpKind::Splat);
         by = by->def->operands[0])
      spread_.insert(spread_.begin(), by->def);
    constexpr int64_t few = 16; // the elements of a row, at least
    if (spread_.empty() || by->type.numel() * few > accumulators_->type.numel() ||
        by->type.elem != accumulators_->type.elem)
      return false;
    scale_ = by;
    return true;
  }

  /// `v`, or zeros if `condition` holds; a dot does not read an accumulator of zeros.
  Value *zeroIf(Value *condition, Value *v) {
    return b_.create1(
        OpKind::Select,
        {b_.create1(OpKind::Splat, {condition}, v->type.withElem(Elem::I1)), b_.constFloat(v->type, 0), v}, v->type);
  }

  /// The loop's initial values if its first iteration stays in the loop.
  std::vector<Value *> beforeFirst() {
    std::vector<Value *> out(loop_.operands.begin() + 3, loop_.operands.end());
    out.push_back(b_.constFloat(pair_.second().operands[0]->type, 0));
    for (const Value *v : which_)
      out.push_back(loop_.operands[v->index + 2]);
    if (scale_)
      out.push_back(b_.constFloat(scale_->type, 0));
    return out;
  }

  /// At the end of an iteration: zero times the first iteration's scale.
  Value *zeroScaled(Value *scale, Value *before, Value *i) {
    Value *isFirst = b_.cmp(CmpPred::Eq, i, loop_.operands[0]);
    if (!scale->type.isScalar())
      isFirst = b_.create1(OpKind::Splat, {isFirst}, scale->type.withElem(Elem::I1));
    Value *scaled = b_.binary(OpKind::FMul, b_.constFloat(scale->type, 0), scale);
    return b_.create1(OpKind::Select, {isFirst, scaled, before}, scale->type);
  }

  std::vector<Value *> firstIteration(Block &to) {
    Cloner c(m_);
    c.map(body_.args[0], loop_.operands[0]);
    for (size_t i = 1; i < body_.args.size(); ++i)
      c.map(body_.args[i], loop_.operands[i + 2]);
    for (const Op *op : body_.ops) {
      if (op == wait_) {
        c.map(accumulators_, c(pair_.carried()));
        Value *scores = c(pair_.first().result());
        c.map(scores_, gathers_ ? wait(to, 0, scores) : scores);
      } else if (op != &pair_.second() && op != tileWait_ && !op->has(traits::Terminator)) {
        Op *copy = c.copy(*op, to);
        if (op == &pair_.first() && !gathers_) { // no work to run beside it: waited for at once
          std::erase_if(copy->attrs, [](const Attr &a) { return a.key == AttrKey(attr::isAsync); });
          copy->set(attr::rounds, 2); // or more
        }
      }
    }
    return left(c);
  }

  void otherIterations(Block &to) {
    Cloner c(m_);
    for (size_t i = 0; i < body_.args.size(); ++i) {
      c.map(body_.args[i], to.args[i]);
      to.args[i]->name = body_.args[i]->name;
    }
    const std::span<Value *const> carried = std::span<Value *const>(to.args).subspan(body_.args.size());
    const Op *late = nullptr;
    for (const Op *op : body_.ops) {
      if (op == wait_) {
        constexpr int64_t mostPending = 7;
        c.map(scores_, wait(to, std::min(mostPending, late->rounds()), c(pair_.first().result())));
      } else if (op == &pair_.second()) {
        // The late dot is done: its tile, its A and its accumulator may change.
        c.map(accumulators_, wait(to, 0, late->result()));
        for (const Op *o : body_.ops)
          if (arrives_.count(o) || pair_.isOfAccumulators(o) || o == &pair_.fragments())
            c.copy(*o, to);
      } else if (!op->has(traits::Terminator) && op != tileWait_ && op != &pair_.fragments() &&
                 !pair_.isOfAccumulators(op) && !arrives_.count(op)) {
        c.copy(*op, to);
        if (op == &pair_.first()) {
          b_.setBlock(&to);
          Value *sum = c(pair_.carried());
          late = lateDot(carried[0], second_ ? zeroIf(b_.cmp(CmpPred::Eq, to.args[0], second_), sum) : sum,
                         carried.subspan(1), to);
        }
      }
    }
    b_.setBlock(&to);
    std::vector<Value *> next = left(c);
    if (scale_)
      next.push_back(zeroScaled(c(scale_), to.args.back(), to.args[0]));
    b_.yield(next);
  }

  Module &m_;
  Builder b_;
  Op &loop_;
  Block &body_;
  Pair pair_;
  /// Do threads copy tiles? If the peeled first dot is a loop of its own, ptxas schedules the main loop differently: by
  /// block copies 1.006 of the speed over 17 configurations (0.968-1.048, an H200), by threads 0.985 over 18.
  const bool gathers_;
  const Op *wait_ = nullptr;
  Op *behind_ = nullptr;
  const Op *tileWait_ = nullptr; // for the tile of the second dot
  const Value *accumulators_ = nullptr, *scores_ = nullptr; // after the wait
  std::unordered_set<const Op *> arrives_;                  // arrivals that release a stage
  std::vector<const Op *> names_;
  std::vector<const Value *> which_;
  // If the first iteration stays in the loop: the second iteration's counter; the factor of the accumulators, and the
  // operations that broadcast it to a tile.
  Value *second_ = nullptr;
  const Value *scale_ = nullptr;
  std::vector<const Op *> spread_;
};

void visit(Module &m, Block &b, const TargetInfo &target, const Options &options) {
  std::vector<Op *> loops;
  for (Op *op : b.ops) {
    for (Region *r : op->regions)
      visit(m, *r->block, target, options);
    if (op->kind == OpKind::For && canStagger(m, *op, target, options))
      loops.push_back(op);
  }
  if (loops.empty())
    return;
  const bool gathers = anyOp(*m.kernel()->block(), [](const Op &op) { return op.kind == OpKind::AsyncCopy; });
  for (Op *loop : loops)
    Staggerer(m, *loop, gathers, target, options).run();
}

} // namespace

bool canStagger(const Module &m, const Op &loop, const TargetInfo &target, const Options &options) {
  constexpr unsigned twoWarpgroups = 8;
  const Pair pair(m, loop, target, options);
  if (!pair || options.numWarps < twoWarpgroups)
    return false;
  // As measured on an H200: by pointers, all warps synchronize in each iteration, and a late dot delays the next
  // iteration unless products take much longer than the work beside them (D=256, not 128).
  constexpr int64_t many = 384; // multiply-adds of both dots for each element of the first one's result
  const bool isByBlocks = anyOp(
      *loop.region(0), [](const Op &op) { return op.kind == OpKind::DescLoad || op.kind == OpKind::BarrierWait; });
  if (!isByBlocks && pair.first().operands[0]->type.shape[1] + pair.second().result()->type.shape[1] < many)
    return false;
  // Live at a time: both results, and the A.
  constexpr int64_t others = 40; // addresses, sums and maxima of rows, loop
  const int64_t threads = int64_t{target.lanes()} * options.numWarps;
  const Type &scores = pair.first().result()->type, &a = pair.second().operands[0]->type;
  const int64_t words = scores.numel() + pair.second().result()->type.numel() + a.numel() * byteWidth(a.elem) / 4;
  return others + words / threads <= target.registerLimit(static_cast<unsigned>(threads));
}

void staggerDots(Module &m, const TargetInfo &target, const Options &options) {
  visit(m, *m.kernel()->block(), target, options);
}

} // namespace tegula::gpu
