// Run-time branches.
//
//   if c: A          %r... = if c { A; yield } else { B; yield }
//   else: B          rest
//   rest
//
// Names assigned in the arms become results; both values must have one type. With a `return`, `break` or `continue` in
// an arm:
//   * one arm always leaves: the rest goes into the other arm, and the `if` ends the list of statements;
//   * an arm may leave: the `if` yields a flag for each way out that is taken in some runs only, and the value that is
//     returned (poison where there is none), and the rest goes under `if flag {} else { rest }`.
// So the IR has no jumps, and the rest is never copied. A `break` or `continue` proceeds to the end of the loop's body,
// and everything before that end is guarded by flags; so the names after the `if` are those of the taken arm, as usual.
#include "sema/Evaluator.h"
#include <algorithm>
#include <unordered_set>

namespace tegula::sema {

using lang::Tensor;

namespace {

bool definedIn(const ir::Value *v, const ir::Block *b) { return (v->def ? v->def->parent : v->block) == b; }

} // namespace

/// Collects what two arms yield, creates the `if`, and gives the joined values.
class Joiner {
public:
  Joiner(Evaluator &e, Arm &t, Arm &f) : e_(e), t_(t), f_(f) {}

  /// Registers a pair of values of one type; a null pointer marks an arm without a value (poison).
  size_t add(const Value *t, const Value *f) {
    Item item{t ? *t : *f, {}};
    std::vector<Tensor> ts = t ? flatten(*t) : std::vector<Tensor>(), fs = f ? flatten(*f) : std::vector<Tensor>();
    for (size_t i = 0; i < std::max(ts.size(), fs.size()); ++i)
      item.leaves.push_back(leaf(t ? ts[i].value : nullptr, f ? fs[i].value : nullptr));
    items_.push_back(std::move(item));
    return items_.size() - 1;
  }

  void finish(ir::Value *condition, Loc loc) {
    ir::Builder &b = e_.builder();
    ir::Block *here = b.block();
    end(t_, tYields_);
    end(f_, fYields_);
    b.setBlock(here);
    b.setLoc(loc);
    bool empty = types_.empty() && t_.block()->ops.size() == 1 && f_.block()->ops.size() == 1;
    if (empty)
      return;
    ir::Value *operands[] = {condition};
    op_ = b.create(ir::OpKind::If, operands, types_);
    op_->regions = {t_.region, f_.region};
    t_.region->op = f_.region->op = op_;
  }

  Value result(size_t item) const {
    std::vector<ir::Value *> values;
    for (const Leaf &l : items_[item].leaves)
      values.push_back(l.same ? l.same : op_->result(l.index));
    return rebuild(items_[item].like, values);
  }

private:
  struct Leaf {
    ir::Value *same;
    unsigned index;
  };
  struct Item {
    Value like;
    std::vector<Leaf> leaves;
  };

  /// A value defined outside of both arms needs no result.
  Leaf leaf(ir::Value *t, ir::Value *f) {
    if (t == f)
      return {t, 0};
    if (!t && !definedIn(f, f_.block()))
      return {f, 0};
    if (!f && !definedIn(t, t_.block()))
      return {t, 0};
    tYields_.push_back(t);
    fYields_.push_back(f);
    types_.push_back((t ? t : f)->type);
    return {nullptr, static_cast<unsigned>(types_.size() - 1)};
  }

  void end(Arm &arm, std::vector<ir::Value *> &yields) {
    ir::Builder &b = e_.builder();
    b.setBlock(arm.block());
    b.setLoc(arm.loc);
    for (size_t i = 0; i < yields.size(); ++i)
      if (!yields[i])
        yields[i] = b.poison(types_[i]);
    b.yield(yields);
  }

  Evaluator &e_;
  Arm &t_, &f_;
  std::vector<Item> items_;
  std::vector<ir::Value *> tYields_, fYields_;
  std::vector<ir::Type> types_;
  ir::Op *op_ = nullptr;
};

/// Converts two values to one type: compile-time numbers that differ, or whose other value is a tensor, become tensors
/// in their own arm.
bool Evaluator::unify(Value &a, ir::Block *aBlock, Value &b, ir::Block *bBlock, Loc loc) {
  if (sameType(a, b))
    return true;
  const auto *as = lang::sequenceItems(a), *bs = lang::sequenceItems(b);
  if (as && bs && as->size() == bs->size() && a.isTuple() && b.isTuple()) {
    std::vector<Value> x = *as, y = *bs;
    for (size_t i = 0; i < x.size(); ++i)
      if (!unify(x[i], aBlock, y[i], bBlock, loc))
        return false;
    a = Value::tuple(std::move(x));
    b = Value::tuple(std::move(y));
    return true;
  }
  bool promotes = (a.isNumber() || a.isTensor()) && (b.isNumber() || b.isTensor()) && !(a.isTensor() && b.isTensor());
  if (!promotes)
    return false;
  ir::Block *here = builder().block();
  auto convert = [&](Value &v, ir::Block *block) {
    builder().setBlock(block);
    v = lang::toTensor(*this, v, loc);
  };
  convert(a, aBlock);
  convert(b, bBlock);
  builder().setBlock(here);
  return sameType(a, b);
}

/// Converts the values that two arms return to one type (LANGUAGE 1.5); reports if there is none.
void Evaluator::mergeReturns(Arm &t, Arm &e) {
  if (t.flow.value.isError() || e.flow.value.isError()) {
    t.flow.value = e.flow.value = Value::error();
    return;
  }
  Value a = t.flow.value, b = e.flow.value;
  if (unify(t.flow.value, t.block(), e.flow.value, e.block(), t.flow.at))
    return;
  diag().report(diag::returnTypes, e.flow.at ? e.flow.at : t.flow.at, describe(a), describe(b))
      .label(t.flow.at, "returns " + describe(a))
      .label(e.flow.at, "returns " + describe(b));
  t.flow.value = e.flow.value = Value::error();
}

Arm Evaluator::runArm(Loc loc, const std::function<void(Arm &)> &body) {
  Arm arm;
  arm.region = builder().module().createRegion({}, nullptr);
  arm.loc = loc;
  arm.env = Env(&env());
  ir::Block *here = builder().block();
  builder().setBlock(arm.block());
  {
    EnvScope scope(*frame_, arm.env);
    ++treeIndent_;
    body(arm);
    --treeIndent_;
  }
  builder().setBlock(here);
  return arm;
}

/// Continues in an arm that was already evaluated.
void Evaluator::continueArm(Arm &arm, const std::function<Flow()> &body) {
  ir::Block *here = builder().block();
  builder().setBlock(arm.block());
  EnvScope scope(*frame_, arm.env);
  arm.flow = arm.flow.falls() ? body() : guardRest(arm.flow, body, arm.loc);
  builder().setBlock(here);
}

Flow Evaluator::execIf(const Stmt &s, Stmts rest) {
  Value c = eval(*s.value);
  if (!c.isTensor()) {
    std::optional<bool> taken;
    if (!c.isError())
      taken = staticCondition(c, s.value->loc);
    if (taken)
      return execBlock(*taken ? s.body : s.orelse);
    // Nothing is known about either arm: every name they assign becomes an error value, silently.
    bindErrors(assignedNames(s.body), s.loc);
    bindErrors(assignedNames(s.orelse), s.loc);
    return {};
  }
  Value condition = lang::truth(*this, c, s.value->loc);
  if (condition.isError()) {
    bindErrors(assignedNames(s.body), s.loc);
    bindErrors(assignedNames(s.orelse), s.loc);
    return {};
  }
  return runtimeIf(condition.asTensor().value, s, rest);
}

/// Limits the nesting of regions, since passes walk the IR recursively.
bool Evaluator::enterRegion(Loc loc) {
  if (regionDepth_ >= maxRegionDepth) {
    fail(diag::nestedTooDeeply, loc);
    aborted_ = true;
  }
  if (aborted_)
    return false;
  ++regionDepth_;
  return true;
}

Flow Evaluator::runtimeIf(ir::Value *condition, const Stmt &s, Stmts rest) {
  if (!enterRegion(s.headLoc ? s.headLoc : s.loc))
    return {};
  Arm t = runArm(s.body.front()->loc, [&](Arm &arm) { arm.flow = execBlock(s.body); });
  Arm e = runArm(s.orelse.empty() ? s.loc : s.orelse.front()->loc, [&](Arm &arm) { arm.flow = execBlock(s.orelse); });
  bool takeRest = t.dead() != e.dead() && !rest.empty() && !aborted_;
  if (takeRest)
    continueArm(t.dead() ? e : t, [&] { return execBlock(rest); });
  Flow f = joinArms(condition, t, e, s.headLoc ? s.headLoc : s.loc);
  f.tookRest = takeRest;
  --regionDepth_;
  return f;
}

Flow Evaluator::guardRest(const Flow &maybe, const std::function<Flow()> &rest, Loc loc) {
  // In the arm where it has left, ways that are taken exactly then are Always.
  Flow taken = maybe;
  for (Way *way : {&taken.broke, &taken.returned, &taken.left})
    if (*way == maybe.left)
      *way = Way::surely();
  return guard(maybe.left.flag, taken, rest, loc);
}

/// `if flag: (leaves as `taken` says) else: rest`.
Flow Evaluator::guard(ir::Value *flag, const Flow &taken, const std::function<Flow()> &rest, Loc loc) {
  if (!enterRegion(loc))
    return {};
  Arm t = runArm(taken.at, [&](Arm &arm) { arm.flow = taken; });
  Arm e = runArm(loc, [&](Arm &arm) { arm.flow = rest(); });
  Flow f = joinArms(flag, t, e, loc);
  --regionDepth_;
  return f;
}

/// The way as an i1 at the insertion point.
ir::Value *Evaluator::flagOf(const Way &way) {
  return way.flag ? way.flag : builder().constInt(ir::Type::scalar(ir::Elem::I1), way.always() ? 1 : 0);
}

/// The variable after the branch, if both arms are alive and neither value is erroneous. Reports a mismatch unless
/// `silent`.
bool Evaluator::joinVar(std::string_view name, Var &a, Var &b, Arm &t, Arm &e, Loc loc, bool silent) {
  Value av = a.value, bv = b.value;
  bool compileTime = !av.isTensor() && !bv.isTensor() && av.isConstexpr() && bv.isConstexpr() && !sameType(av, bv) &&
                     (a.isConstexpr || b.isConstexpr || !av.isNumber() || !bv.isNumber());
  if (!compileTime && unify(a.value, t.block(), b.value, e.block(), loc))
    return true;
  if (silent)
    return false;
  std::string n(name);
  const DiagKind &kind = compileTime ? diag::constexprInArms : diag::armTypes;
  diag().report(kind, loc, n, describe(av), describe(bv))
      .note(a.at ? a.at : t.loc, "`" + n + "` is " + describe(av) + " here")
      .note(b.at ? b.at : e.loc, "and " + describe(bv) + " here");
  return false;
}

namespace {

/// The names that two arms changed: those from before the branch in their order, then the new ones of the first arm,
/// then those of the second.
std::vector<std::string_view> changedNames(const Env &before, const Env &t, const Env &e) {
  std::vector<Env::Entry const *> known;
  std::vector<std::string_view> fresh, names;
  std::unordered_set<std::string_view> seen;
  for (const Env *arm : {&t, &e})
    for (const Env::Entry &x : arm->changed()) {
      if (!seen.insert(x.name).second)
        continue;
      if (x.order < before.count())
        known.push_back(&x);
      else
        fresh.push_back(x.name);
    }
  std::sort(known.begin(), known.end(), [](const Env::Entry *a, const Env::Entry *b) { return a->order < b->order; });
  for (const Env::Entry *x : known)
    names.push_back(x->name);
  names.insert(names.end(), fresh.begin(), fresh.end());
  return names;
}

bool isDefined(const Var *v) { return v && v->state != Var::State::OneArm && v->state != Var::State::LoopLocal; }

} // namespace

/// A name after a branch, and the values that the `if` must yield for it.
struct Evaluator::Pending {
  std::string_view name;
  Var var;
  std::optional<size_t> item;
};

/// The name as the arms leave it; nullopt if it cannot be read again.
std::optional<Evaluator::Pending> Evaluator::joinName(std::string_view name, Arm &t, Arm &e, Loc loc, Joiner &joiner) {
  const Var *inT = t.env.find(name), *inE = e.env.find(name);
  if (t.returns() || e.returns()) {
    // Only one arm reaches the end; if neither does, the names are not read again.
    const Var *v = t.returns() ? inE : inT;
    if (!v)
      return std::nullopt;
    Pending p{name, *v, {}};
    if (isDefined(v))
      p.item = t.returns() ? joiner.add(nullptr, &v->value) : joiner.add(&v->value, nullptr);
    return p;
  }
  if (t.dead() || e.dead())
    return joinLeaving(name, t, e, loc, joiner);
  if (!isDefined(inT) || !isDefined(inE)) {
    const Var *one = isDefined(inT) ? inT : isDefined(inE) ? inE : nullptr;
    return Pending{name, one ? Var{Value::error(), one->at, loc, Var::State::OneArm} : *(inT ? inT : inE), {}};
  }
  return joinBoth(name, t, e, loc, joiner, false);
}

/// A name that both arms define.
Evaluator::Pending Evaluator::joinBoth(std::string_view name, Arm &t, Arm &e, Loc loc, Joiner &joiner, bool silent) {
  Var a = *t.env.find(name), b = *e.env.find(name);
  Pending p{name, a, {}};
  if (a.value.isError() || b.value.isError() || !joinVar(name, a, b, t, e, loc, silent)) {
    p.var.value = Value::error();
    return p;
  }
  if (b.at.begin > a.at.begin)
    p.var.at = b.at;
  p.var.state = a.state == Var::State::Live ? b.state : a.state;
  p.item = joiner.add(&a.value, &b.value);
  return p;
}

/// A name where an arm leaves by `break` or `continue`. Only names that the loop keeps are read after the end of the
/// body; other assignments of the leaving arm are dropped. Loop-carried names already have their types (settle), so a
/// mismatch has been reported. Names of an unrolled loop stay live in the code around it.
std::optional<Evaluator::Pending> Evaluator::joinLeaving(std::string_view name, Arm &t, Arm &e, Loc loc,
                                                         Joiner &joiner) {
  const Var *inT = t.env.find(name), *inE = e.env.find(name);
  const Loop *loop = frame_->loops.empty() ? nullptr : frame_->loops.back();
  bool kept = !loop || loop->keeps(name), both = t.dead() && e.dead();
  if (kept && isDefined(inT) && isDefined(inE))
    return joinBoth(name, t, e, loc, joiner, loop != nullptr);
  // Reading an undefined name is an error everywhere, so the arm that defines it represents both.
  bool takeT = both ? isDefined(inT) : e.dead();
  const Var *v = takeT ? inT : inE;
  if (v && (kept || !both)) {
    Pending p{name, *v, {}};
    if (isDefined(v))
      p.item = takeT ? joiner.add(&v->value, nullptr) : joiner.add(nullptr, &v->value);
    return p;
  }
  const Var *known = inT ? inT : inE;
  return Pending{name, Var{Value::error(), known->at, loc, Var::State::OneArm}, {}};
}

Flow Evaluator::joinArms(ir::Value *condition, Arm &t, Arm &e, Loc loc, Value *joined) {
  Joiner joiner(*this, t, e);
  std::vector<Pending> names;
  for (std::string_view name : changedNames(env(), t.env, e.env))
    if (std::optional<Pending> p = joinName(name, t, e, loc, joiner))
      names.push_back(std::move(*p));
  Flow flow;
  std::optional<size_t> value, extra;
  bool tReturns = !t.flow.returned.never(), eReturns = !e.flow.returned.never();
  if (tReturns && eReturns)
    mergeReturns(t, e);
  if (tReturns || eReturns)
    value = joiner.add(tReturns ? &t.flow.value : nullptr, eReturns ? &e.flow.value : nullptr);
  flow.at = tReturns || (!eReturns && !t.flow.falls()) ? t.flow.at : e.flow.at;
  // Ways that both arms take alike share one flag.
  static constexpr Way Flow::*ways[] = {&Flow::left, &Flow::broke, &Flow::returned};
  std::optional<size_t> flags[3];
  auto flagIn = [&](Arm &arm, const Way &way) {
    ir::Block *here = builder().block();
    builder().setBlock(arm.block());
    Value v = Value::tensor(lang::dtype(lang::Scalar::Int1), flagOf(way));
    builder().setBlock(here);
    return v;
  };
  for (size_t i = 0; i < 3; ++i) {
    const Way &a = t.flow.*ways[i], &b = e.flow.*ways[i];
    if (a == b && !a.flag) {
      flow.*ways[i] = a;
      continue;
    }
    for (size_t k = 0; k < i && !flags[i]; ++k)
      if (t.flow.*ways[k] == a && e.flow.*ways[k] == b)
        flags[i] = flags[k];
    if (!flags[i]) {
      Value x = flagIn(t, a), y = flagIn(e, b);
      flags[i] = joiner.add(&x, &y);
    }
  }
  if (joined)
    extra = joiner.add(&*t.value, &*e.value);
  joiner.finish(condition, loc);
  for (Pending &p : names) {
    if (p.item)
      p.var.value = joiner.result(*p.item);
    nameValue(p.var.value, p.name);
    env().set(p.name, std::move(p.var));
  }
  if (value)
    flow.value = joiner.result(*value);
  for (size_t i = 0; i < 3; ++i)
    if (flags[i])
      flow.*ways[i] = Way::sometimes(joiner.result(*flags[i]).asTensor().value);
  if (joined)
    *joined = joiner.result(*extra);
  return flow;
}

} // namespace tegula::sema
