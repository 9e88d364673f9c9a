// Loops: `for` over range, tl.range and tl.static_range, `while`.
//
// A name that the body assigns and that exists before the loop is carried around it and keeps its exact type. Which names are
// assigned is read off the text, so a body is evaluated once. The exception are compile-time numbers (parameters, arguments equal
// to 1): assigning a name in an arm that is pruned must not make it a run-time value, so they start as fixed; if the body
// turns out to change one, the attempt is dropped and the body evaluated again with that number carried. What was learnt is kept
// per statement and frame, so nested loops do not multiply attempts.
#include "sema/Evaluator.h"

namespace tegula::sema {

using lang::Dtype;
using lang::Int;
using lang::RangeValue;
using lang::Tensor;

struct Evaluator::Bounds {
  Dtype dtype;       // of the induction variable
  Dtype control;     // of the loop: signed
  ir::Value *lower = nullptr, *upper = nullptr, *step = nullptr;
  std::vector<ir::Attr> attrs;
};

namespace {

bool hasNumber(const Value &v) {
  if (v.isNumber())
    return true;
  if (v.isTuple())
    for (const Value &i : v.items())
      if (hasNumber(i))
        return true;
  return false;
}

bool hasTensor(const Value &v) { return !flatten(v).empty(); }

/// LANGUAGE 1.3: the integer promotion of bounds and step.
Dtype promoteInts(Dtype a, Dtype b) {
  if (a.isSigned() == b.isSigned())
    return a.bits() >= b.bits() ? a : b;
  Dtype s = a.isSigned() ? a : b, u = a.isSigned() ? b : a;
  return u.bits() >= s.bits() ? u : s;
}

} // namespace

Evaluator::Loop Evaluator::openLoop(const Stmt &s) {
  Loop loop;
  loop.stmt = &s;
  loop.assigned = reassignedNames(s.body);
  if (s.kind == StmtKind::While)
    addAssigned(*s.value, loop.assigned);
  loop.before = &env();
  loop.inside = Env(loop.before);
  const NameSet &decayed = frame_->decayedByLoop[&s];
  for (std::string_view name : loop.assigned) {
    // The loop sets its own target anew in each iteration.
    if (s.kind == StmtKind::For && s.targets[0]->name == name)
      continue;
    const Var *v = loop.before->find(name);
    if (!v || v->state == Var::State::OneArm || v->state == Var::State::LoopLocal || v->value.isError())
      continue;
    Value init = v->value;
    if (decayed.contains(name)) {
      builder().setLoc(v->at ? v->at : s.loc);
      init = decay(init, s.loc);
    }
    if (!hasTensor(init)) {
      loop.fixed.emplace_back(name, init);
      continue;
    }
    Carried c{name, init, v->at, loop.inits.size(), 0};
    for (const Tensor &t : flatten(init)) {
      loop.inits.push_back(t.value);
      loop.types.push_back(t.value->type);
    }
    c.count = loop.inits.size() - c.first;
    loop.carried.push_back(std::move(c));
  }
  if (!loop.fixed.empty())
    loop.diagBefore = diag();
  loop.outputBefore = output_.size();
  loop.treeBefore = tree_.size();
  return loop;
}

void Evaluator::bindCarried(const Loop &loop, std::span<ir::Value *const> values) {
  for (const Carried &c : loop.carried) {
    Var *v = env().edit(c.name);
    v->value = rebuild(c.initial, values.subspan(c.first, c.count));
    nameValue(v->value, c.name);
  }
}

/// Did the body change a value that was taken for fixed? Numbers are noted for another attempt, the rest is an error.
bool Evaluator::fixedChanged(Loop &loop) {
  bool again = false;
  for (const auto &[name, init] : loop.fixed) {
    const Var *after = env().find(name);
    if (!after || after->value.isError() || (after->state == Var::State::Live && sameType(after->value, init)))
      continue;
    Var *before = loop.before->edit(name);
    if (hasNumber(init) && !before->isConstexpr && after->state == Var::State::Live && hasTensor(after->value)) {
      frame_->decayedByLoop[loop.stmt].insert(name);
      again = true;
      continue;
    }
    const DiagKind &kind = before->isConstexpr ? diag::constexprInLoop : diag::loopKindChanged;
    diag().report(kind, after->at, name, describe(init), describe(after->value)).note(before->at, "defined here");
    before->value = Value::error();
  }
  return again;
}

std::optional<std::vector<ir::Value *>> Evaluator::closeLoop(Loop &loop) {
  if (fixedChanged(loop) && !aborted_) {
    diag() = loop.diagBefore;
    output_.resize(loop.outputBefore);
    tree_.resize(loop.treeBefore);
    return std::nullopt;
  }
  std::vector<ir::Value *> yields;
  for (Carried &c : loop.carried) {
    const Var *after = env().find(c.name);
    bool usable = after && after->state != Var::State::OneArm && after->state != Var::State::LoopLocal;
    Value now = usable ? after->value : Value::error();
    std::vector<Tensor> was = flatten(c.initial);
    if (!now.isError() && !sameType(now, c.initial)) {
      ir::Block *here = builder().block();
      Value init = c.initial;
      if (!unify(init, here, now, here, c.at) || !sameType(now, c.initial)) {
        std::string name(c.name);
        bool kinds = now.isTensor() != c.initial.isTensor();
        diag().report(kinds ? diag::loopKindChanged : diag::loopTypeChanged, after->at, name, describe(c.initial), describe(now))
            .note(c.at, "`" + name + "` is " + describe(c.initial) + " before the loop");
        now = Value::error();
      }
    } else if (!usable && after) {
      std::string name(c.name);
      diag().report(diag::definedInOneArm, after->at, name).note(after->why, "the branch is here");
    }
    if (now.isError()) {
      loop.before->edit(c.name)->value = Value::error();
      for (const Tensor &t : was)
        yields.push_back(builder().poison(t.value->type));
      continue;
    }
    for (const Tensor &t : flatten(now))
      yields.push_back(t.value);
  }
  return yields;
}

void Evaluator::leaveLoop(const Loop &loop, std::span<ir::Value *const> results) {
  for (const Carried &c : loop.carried) {
    Var *v = env().edit(c.name);
    if (!v->value.isError())
      v->value = rebuild(c.initial, results.subspan(c.first, c.count));
    if (const Var *in = loop.inside.find(c.name))
      v->at = in->at;
    nameValue(v->value, c.name);
  }
  for (const Env::Entry &x : loop.inside.changed())
    if (!env().find(x.name))
      env().set(x.name, {Value::error(), x.var.at, loop.stmt->headLoc, Var::State::LoopLocal});
}

// for

Flow Evaluator::execFor(const Stmt &s) {
  Value iterable = eval(*s.value);
  if (!s.orelse.empty())
    fail(diag::loopElse, s.orelse.front()->loc, "for");
  const Expr &target = *s.targets[0];
  bool ok = !iterable.isError();
  if (ok && !iterable.is<std::shared_ptr<const RangeValue>>()) {
    fail(diag::notARange, s.value->loc, describe(iterable));
    ok = false;
  }
  if (target.kind != ExprKind::Name) {
    fail(diag::loopTarget, target.loc);
    ok = false;
  }
  if (!ok) {
    NameSet names = assignedNames(s.body);
    for (std::string_view n : names)
      env().set(n, {Value::error(), s.loc});
    if (target.kind == ExprKind::Name)
      env().set(target.name, {Value::error(), target.loc});
    return {};
  }
  const RangeValue &r = *iterable.get<std::shared_ptr<const RangeValue>>();
  if (r.kind == RangeValue::Kind::Condition) {
    fail(diag::notARange, s.value->loc, "tl.condition(...)");
    return {};
  }
  if (r.kind == RangeValue::Kind::StaticRange)
    return staticFor(s, r);
  runtimeFor(s, r);
  return {};
}

std::optional<uint64_t> Evaluator::tripCount(const RangeValue &r, Loc loc) {
  using Wide = unsigned __int128;
  Int first = r.args[0].asInt(), stop = r.args[1].asInt(), by = r.args[2].asInt();
  // Differences of unsigned numbers, so that bounds at the ends of the range cannot overflow.
  Wide size = by > 0 ? static_cast<Wide>(by) : -static_cast<Wide>(by);
  Wide distance = by > 0 ? (first < stop ? static_cast<Wide>(stop) - static_cast<Wide>(first) : 0)
                         : (first > stop ? static_cast<Wide>(first) - static_cast<Wide>(stop) : 0);
  Wide trips = distance / size + (distance % size != 0);
  uint64_t left = steps_ < options_.maxSteps ? options_.maxSteps - steps_ : 0;
  if (trips <= left)
    return static_cast<uint64_t>(trips);
  std::string count = trips >> 126 ? "2**126 or more" : lang::intToString(static_cast<Int>(trips));
  fail(diag::tooManyIterations, loc, count, options_.maxSteps);
  return std::nullopt;
}

Flow Evaluator::staticFor(const Stmt &s, const RangeValue &r) {
  if (std::optional<uint64_t> trips = tripCount(r, s.value->loc))
    return staticIterations(s, r.args[0].asInt(), *trips, r.args[2].asInt());
  bindErrors(assignedNames(s.body), s.loc);
  env().set(s.targets[0]->name, {Value::error(), s.targets[0]->loc});
  return {};
}

/// The iterations from `i` on, `left` of them; after one that may have returned, the others go under its flag.
Flow Evaluator::staticIterations(const Stmt &s, Int i, uint64_t left, Int stepBy) {
  for (; left > 0 && step(s.headLoc); --left) {
    env().set(s.targets[0]->name, {Value::integer(i), s.targets[0]->loc});
    // Not beyond the last one: the next number may not exist.
    if (left > 1)
      i += stepBy;
    Flow f = execBlock(s.body);
    if (f.falls())
      continue;
    f.tookRest = false;
    if (f.kind == Flow::Kind::Maybe)
      return guardRest(f, [&] { return staticIterations(s, i, left - 1, stepBy); }, s.headLoc);
    return f;
  }
  return {};
}

std::vector<ir::Attr> Evaluator::loopAttrs(const RangeValue &r) {
  std::vector<ir::Attr> attrs;
  for (const auto &[name, v] : r.options)
    if (v.isInt() || v.isBool())
      attrs.push_back({name == "loop_unroll_factor" ? "unroll" : name, static_cast<int64_t>(v.asInt())});
  return attrs;
}

bool Evaluator::bounds(const Stmt &s, const RangeValue &r, Bounds &out) {
  builder().setLoc(s.value->loc);
  bool reverse = r.args[2].isNumber() && r.args[2].asInt() < 0;
  Value stepValue = reverse ? Value::integer(-r.args[2].asInt()) : r.args[2];
  Value parts[] = {r.args[0], r.args[1], stepValue};
  for (Value &v : parts) {
    v = lang::toTensor(*this, v, s.value->loc);
    if (v.isError())
      return false;
  }
  out.dtype = promoteInts(promoteInts(parts[0].asTensor().dtype, parts[1].asTensor().dtype), parts[2].asTensor().dtype);
  // The loop compares signed numbers, so a narrower unsigned type counts in the next signed one.
  out.control = out.dtype;
  if (out.dtype.isUnsigned() && out.dtype.bits() < 64)
    out.control = lang::dtype(out.dtype.bits() < 32 ? lang::Scalar::Int32 : lang::Scalar::Int64);
  ir::Value **slots[] = {&out.lower, &out.upper, &out.step};
  for (size_t i = 0; i < 3; ++i) {
    Value v = lang::cast(*this, parts[i], out.control, s.value->loc);
    if (v.isError())
      return false;
    *slots[i] = v.asTensor().value;
  }
  out.attrs = loopAttrs(r);
  if (reverse)
    out.attrs.push_back({"reverse", int64_t{1}});
  return true;
}

std::optional<std::vector<ir::Value *>> Evaluator::loopBody(const Stmt &s, Loop &loop, ir::Block *here) {
  ++frame_->loops;
  ++treeIndent_;
  execBlock(s.body);
  --treeIndent_;
  --frame_->loops;
  std::optional<std::vector<ir::Value *>> yields = closeLoop(loop);
  if (!yields)
    builder().setBlock(here);
  return yields;
}

/// One attempt at the body; nullopt: more has to be carried.
std::optional<ir::Op *> Evaluator::tryFor(const Stmt &s, const Bounds &b, Loop &loop) {
  std::vector<ir::Type> argTypes{b.lower->type};
  argTypes.insert(argTypes.end(), loop.types.begin(), loop.types.end());
  ir::Region *region = builder().module().createRegion(argTypes, nullptr);
  ir::Block *here = builder().block();
  builder().setBlock(region->block);
  std::span<ir::Value *const> args(region->block->args);
  EnvScope scope(*frame_, loop.inside);
  args[0]->name = s.targets[0]->name;
  bindCarried(loop, args.subspan(1));
  Value iv = Value::tensor(b.control, args[0]);
  if (b.control != b.dtype)
    iv = lang::cast(*this, iv, b.dtype, s.targets[0]->loc);
  env().set(s.targets[0]->name, {iv, s.targets[0]->loc});
  std::optional<std::vector<ir::Value *>> yields = loopBody(s, loop, here);
  if (!yields)
    return std::nullopt;
  builder().setLoc(s.headLoc);
  builder().yield(*yields);
  builder().setBlock(here);
  std::vector<ir::Value *> operands{b.lower, b.upper, b.step};
  operands.insert(operands.end(), loop.inits.begin(), loop.inits.end());
  ir::Op *op = builder().create(ir::OpKind::For, operands, loop.types, b.attrs);
  op->regions = {region};
  region->op = op;
  return op;
}

void Evaluator::runtimeFor(const Stmt &s, const RangeValue &r) {
  Bounds b;
  if (!bounds(s, r, b) || !enterRegion(s.headLoc))
    return bindErrors(assignedNames(s.body), s.loc);
  std::optional<ir::Op *> op;
  Loop loop;
  // Each further attempt carries at least one name more.
  do {
    loop = openLoop(s);
    op = tryFor(s, b, loop);
  } while (!op && !aborted_);
  --regionDepth_;
  if (!op)
    return;
  leaveLoop(loop, (*op)->results);
  builder().setLoc(s.headLoc);
  Value after = Value::tensor(b.dtype, builder().poison(lang::irType(b.dtype)));
  env().set(s.targets[0]->name, {after, s.targets[0]->loc, s.headLoc, Var::State::AfterLoop});
}

// while

namespace {

/// `tl.condition(c, ...)` or the condition itself.
Value unwrapCondition(const Value &v, std::vector<ir::Attr> &attrs) {
  if (!v.is<std::shared_ptr<const RangeValue>>())
    return v;
  const RangeValue &r = *v.get<std::shared_ptr<const RangeValue>>();
  if (r.kind != RangeValue::Kind::Condition)
    return v;
  for (const auto &[name, option] : r.options)
    if (option.isNumber() && lang::constexprTruth(option))
      attrs.push_back({name, int64_t{1}});
  return r.args[0];
}

} // namespace

std::optional<ir::Op *> Evaluator::tryWhile(const Stmt &s, Loop &loop) {
  ir::Region *before = builder().module().createRegion(loop.types, nullptr);
  ir::Region *body = builder().module().createRegion(loop.types, nullptr);
  ir::Block *here = builder().block();
  std::vector<ir::Attr> attrs;
  builder().setBlock(before->block);
  EnvScope scope(*frame_, loop.inside);
  bindCarried(loop, before->block->args);
  Value test = unwrapCondition(eval(*s.value), attrs);
  ir::Value *condition = nullptr;
  bool isStatic = !test.isError() && !test.isTensor();
  if (!test.isError() && !isStatic) {
    Value c = lang::truth(*this, test, s.value->loc);
    if (!c.isError())
      condition = c.asTensor().value;
  }
  if (!condition)
    condition = builder().poison(ir::Type::scalar(ir::Elem::I1));
  // What the condition assigned (walrus) reaches the body and the code after the loop through the carried values.
  std::vector<ir::Value *> forwarded{condition};
  std::vector<ir::Value *> current = carriedNow(loop);
  forwarded.insert(forwarded.end(), current.begin(), current.end());
  builder().setLoc(s.value->loc);
  builder().create(ir::OpKind::Condition, forwarded, {});
  builder().setBlock(body->block);
  bindCarried(loop, body->block->args);
  std::optional<std::vector<ir::Value *>> yields = loopBody(s, loop, here);
  if (!yields)
    return std::nullopt;
  if (isStatic)
    diag().report(diag::staticWhile, s.value->loc, describe(test)).note({}, "use tl.static_range for a compile-time loop");
  builder().setLoc(s.headLoc);
  builder().yield(*yields);
  builder().setBlock(here);
  ir::Op *op = builder().create(ir::OpKind::While, loop.inits, loop.types, std::move(attrs));
  op->regions = {before, body};
  before->op = body->op = op;
  return op;
}

/// The carried values where control is now; those the condition spoilt stay what they came in as.
std::vector<ir::Value *> Evaluator::carriedNow(const Loop &loop) {
  std::vector<ir::Value *> out;
  for (const Carried &c : loop.carried) {
    Value v = env().find(c.name)->value;
    if (!v.isError() && !sameType(v, c.initial)) {
      fail(diag::loopTypeChanged, env().find(c.name)->at, c.name, describe(c.initial), describe(v));
      v = Value::error();
    }
    std::vector<Tensor> leaves = flatten(v.isError() ? c.initial : v);
    for (const Tensor &t : leaves)
      out.push_back(t.value);
  }
  return out;
}

void Evaluator::execWhile(const Stmt &s) {
  if (!s.orelse.empty())
    fail(diag::loopElse, s.orelse.front()->loc, "while");
  if (!enterRegion(s.headLoc))
    return;
  std::optional<ir::Op *> op;
  Loop loop;
  do {
    loop = openLoop(s);
    op = tryWhile(s, loop);
  } while (!op && !aborted_);
  --regionDepth_;
  if (op)
    leaveLoop(loop, (*op)->results);
}

} // namespace tegula::sema
