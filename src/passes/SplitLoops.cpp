// See SplitLoops.h.
#include "passes/SplitLoops.h"
#include "ir/Builder.h"
#include "ir/Diagnostics.h"
#include "ir/Walk.h"
#include "passes/RelativeSums.h"
#include "passes/RunningMoments.h"
#include <algorithm>
#include <optional>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

/// The use of a running value in an operation: which operands may be it, and the operation that combines two parts.
struct Combining {
  OpKind kind;
  unsigned first, last; // operands
  bool startsOnce;
};
std::optional<Combining> combining(const Op &op) {
  switch (op.kind) {
  case OpKind::Add: return Combining{OpKind::Add, 0, 1, true};
  case OpKind::Sub: return Combining{OpKind::Add, 0, 0, true};
  case OpKind::FAdd: return Combining{OpKind::FAdd, 0, 1, true};
  case OpKind::FSub: return Combining{OpKind::FAdd, 0, 0, true};
  case OpKind::Fma: return Combining{OpKind::FAdd, 2, 2, true};
  case OpKind::Dot: return Combining{isFloat(op.result()->type.elem) ? OpKind::FAdd : OpKind::Add, 2, 2, true};
  case OpKind::Xor: return Combining{OpKind::Xor, 0, 1, true};
  case OpKind::And: case OpKind::Or: case OpKind::SMin: case OpKind::SMax: case OpKind::UMin: case OpKind::UMax:
  case OpKind::MinNum: case OpKind::MaxNum: case OpKind::Minimum: case OpKind::Maximum:
    return Combining{op.kind, 0, 1, false};
  default: return std::nullopt;
  }
}

/// Follows a carried value through the body as a running sum.
class Follower {
public:
  Follower(const Op &loop, const Value *arg) : loop_(loop), own_(arg->index - 1) { running_.insert(arg); }

  CarriedRole role() {
    const Block &body = *loop_.region(0);
    if (block(body) && !running_.count(body.terminator()->operands[own_]))
      why_ = "the next value does not come from the one before by additions";
    if (!why_ && reachesAnother(*body.terminator()))
      why_ = isRead;
    if (!why_ && isSpread_ && (!how_ || how_->startsOnce))
      why_ = isRead;
    if (why_)
      return {.why = why_};
    return {.kind = CarriedRole::Kind::Sum,
            .combine = how_ ? how_->kind : OpKind::Add,
            .startsOnce = !how_ || how_->startsOnce};
  }

private:
  static constexpr const char *isRead = "an iteration reads what the one before has made of it";

  bool is(const Value *v) const { return running_.count(v) != 0; }
  /// Whether the next value of another carried value has this one in it: sums of sums so far.
  bool reachesAnother(const Op &yield) const {
    for (size_t i = 0; i < yield.operands.size(); ++i)
      if (i != own_ && is(yield.operands[i]))
        return true;
    return false;
  }
  bool fail(const char *why) {
    why_ = why;
    return false;
  }
  bool block(const Block &b) {
    return std::all_of(b.ops.begin(), b.ops.end(), [&](const Op *op) { return visit(*op); });
  }
  bool visit(const Op &op) {
    const bool any = std::any_of(op.operands.begin(), op.operands.end(), [&](const Value *v) { return is(v); });
    switch (op.kind) {
    case OpKind::Yield:
      return true; // handled with the operation that owns the region
    case OpKind::If:
      if (is(op.operands[0]))
        return fail(isRead);
      return block(*op.region(0)) && block(*op.region(1)) &&
             joined(op, {op.region(0)->terminator(), op.region(1)->terminator()}, isRead);
    case OpKind::For: {
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (is(op.operands[i])) {
          if (i < 3)
            return fail(isRead);
          running_.insert(op.region(0)->args[i - 2]);
        }
      if (!block(*op.region(0)))
        return false;
      const Op &yield = *op.region(0)->terminator();
      for (size_t i = 0; i < op.results.size(); ++i) {
        if (is(yield.operands[i]) != is(op.operands[3 + i]))
          return fail(isRead);
        if (is(yield.operands[i]))
          running_.insert(op.results[i]);
      }
      return true;
    }
    case OpKind::Select:
      if (is(op.operands[0]) || is(op.operands[1]) != is(op.operands[2]))
        return fail(isRead);
      if (any)
        running_.insert(op.result());
      return true;
    case OpKind::Splat: // a running maximum among the elements of a block,
      if (any)
        isSpread_ = running_.insert(op.result()).second;
      return true;
    case OpKind::Reduce: // and that of all of them
      if (any && how_ && maximumOfElements(op) == how_->kind && op.result()->type.isScalar())
        return running_.insert(op.result()).second;
      break;
    default:
      break;
    }
    for (const Region *r : op.regions)
      if (anyOp(*r->block, [&](const Op &o) {
            return std::any_of(o.operands.begin(), o.operands.end(), [&](const Value *v) { return is(v); });
          }))
        return fail(isRead);
    if (!any)
      return true;
    std::optional<Combining> c = combining(op);
    unsigned count = 0;
    for (unsigned i = 0; i < op.operands.size(); ++i)
      if (is(op.operands[i])) {
        if (!c || i < c->first || i > c->last || ++count > 1)
          return fail(isRead);
      }
    if (how_ && how_->kind != c->kind)
      return fail("it is combined in more than one way");
    how_ = c;
    running_.insert(op.result());
    return true;
  }
  /// Results of a branch are running values if both arms yield running values.
  bool joined(const Op &op, std::initializer_list<const Op *> yields, const char *why) {
    for (size_t i = 0; i < op.results.size(); ++i) {
      auto n = std::count_if(yields.begin(), yields.end(), [&](const Op *y) { return is(y->operands[i]); });
      if (n == 1)
        return fail(why);
      if (n)
        running_.insert(op.results[i]);
    }
    return true;
  }

  const Op &loop_;
  const size_t own_;
  std::unordered_set<const Value *> running_;
  std::optional<Combining> how_;
  bool isSpread_ = false; // an element of it counts several times
  const char *why_ = nullptr;
};

/// Additions of loop-invariant values, from the argument to the next value.
std::optional<std::vector<const Op *>> stepsOf(const Op &loop, const Value *arg) {
  std::vector<const Op *> steps;
  const Value *v = loop.region(0)->terminator()->operands[arg->index - 1];
  while (v != arg) {
    const Op *op = v->def;
    if (!op || op->parent != loop.region(0) ||
        (op->kind != OpKind::Add && op->kind != OpKind::Sub && op->kind != OpKind::AddPtr))
      return std::nullopt;
    unsigned added = addedOperand(*op, loop);
    if (!isInvariant(op->operands[added], loop))
      return std::nullopt;
    steps.push_back(op);
    v = op->operands[1 - added];
  }
  return steps;
}

} // namespace

unsigned addedOperand(const Op &step, const Op &loop) {
  return step.kind == OpKind::Add && isInvariant(step.operands[0], loop) ? 0 : 1;
}

std::vector<CarriedRole> carriedRoles(const Op &loop) {
  std::vector<CarriedRole> out;
  const Block &body = *loop.region(0);
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const Value *arg = body.args[1 + i];
    if (std::optional<std::vector<const Op *>> steps = stepsOf(loop, arg)) {
      out.push_back({.kind = CarriedRole::Kind::Steps, .steps = std::move(*steps)});
      continue;
    }
    out.push_back(Follower(loop, arg).role());
  }
  return out;
}

std::vector<CarriedRole> rolesOfParts(const Op &loop) {
  std::vector<CarriedRole> roles = carriedRoles(loop);
  if (std::ranges::any_of(roles, [](const CarriedRole &r) { return r.kind == CarriedRole::Kind::Other; }))
    findRelativeSums(loop, roles);
  if (std::ranges::any_of(roles, [](const CarriedRole &r) { return r.kind == CarriedRole::Kind::Other; }))
    findRunningMoments(loop, roles);
  return roles;
}

namespace {

template <typename Fn> void forEachSplit(const Block &b, const Fn &fn) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::For && op->splitParts() && !fn(*op))
      return;
    for (const Region *r : op->regions)
      forEachSplit(*r->block, fn);
  }
}

bool writes(const Op &op) {
  return (op.has(traits::Writes) && op.kind != OpKind::Assert && op.kind != OpKind::Assume) ||
         (op.kind == OpKind::Load && op.isVolatile()) || op.kind == OpKind::SmId;
}

class Checker {
public:
  Checker(const Function &f, DiagEngine &diag) : f_(f), diag_(diag) {}
  void run() {
    int64_t parts = splitOf(f_);
    forEachSplit(*f_.block(), [&](const Op &loop) {
      if (loop.splitParts() != parts)
        diag_.report(diag::cannotSplit, loop.loc, "another one of this kernel asks for another number of parts");
      else
        check(loop);
      return true;
    });
  }

private:
  void check(const Op &loop) {
    auto fail = [&](Loc at, std::string why) { return diag_.report(diag::cannotSplit, at, std::move(why)); };
    if (loop.parent != f_.block()) {
      fail(loop.loc, "it stands in another loop or in a branch");
      return;
    }
    const Op *found = nullptr;
    auto isWrite = [&](const Op &op) { return writes(op) && (found = &op, true); };
    if (anyOp(*loop.region(0), isWrite)) {
      fail(loop.loc, "other CTAs would not see it in order")
          .note(found->loc, "this `" + std::string(info(found->kind).name) + "` has effects outside of the iteration");
      return;
    }
    // Parts run at different paces, so nothing in the loop can wait for all CTAs of the program.
    for (const Op *op : f_.block()->ops) {
      if (op == &loop)
        break;
      if (isWrite(*op) || std::any_of(op->regions.begin(), op->regions.end(),
                                      [&](const Region *r) { return anyOp(*r->block, isWrite); })) {
        fail(loop.loc, "it may read what was written before it")
            .note(found->loc, "this `" + std::string(info(found->kind).name) + "` stands before the loop");
        return;
      }
    }
    const std::vector<CarriedRole> roles = carriedRoles(loop);
    for (size_t i = 0; i < roles.size(); ++i) {
      const Value *arg = loop.region(0)->args[1 + i];
      if (roles[i].kind == CarriedRole::Kind::Other) {
        const std::string &name = !arg->name.empty() ? arg->name : loop.results[i]->name;
        const Value *next = loop.region(0)->terminator()->operands[i];
        fail(next->def && next->def->loc ? next->def->loc : loop.loc,
             (name.empty() ? "a value that it carries is" : "`" + name + "` is") +
                 " neither a sum that the loop only adds to nor moved by a fixed step: " + roles[i].why)
            .note(loop.loc, "the loop is here");
      }
    }
  }

  const Function &f_;
  DiagEngine &diag_;
};

} // namespace

int64_t splitOf(const Function &kernel) {
  int64_t parts = 0;
  forEachSplit(*kernel.block(), [&](const Op &loop) {
    parts = loop.splitParts();
    return false;
  });
  return parts;
}

void checkSplitLoops(const Module &m, DiagEngine &diag) {
  if (const Function *f = m.kernel(); f && splitOf(*f))
    Checker(*f, diag).run();
}

} // namespace tegula
