// Loops: `for` over range, tl.range and tl.static_range, `while`.
//
// A name that the body assigns and that exists before the loop is loop-carried and keeps its exact type. The assigned
// names are read off the text, so a body is evaluated once. Compile-time numbers (parameters, arguments equal to 1) are
// the exception: assigning a name in a pruned arm must not make it a run-time value. So they start as fixed; if the
// body changes one, the attempt is dropped and the body is evaluated again with that number carried. The findings are
// kept per statement and frame, so nested loops do not multiply attempts.
//
// `break`, `continue` and `return` are flags (If.cpp). A body that has them ends in an added `continue`, so that the
// statements after them go into the arm where they are not taken, and all paths join at the body's end. A loop that
// turns out to break or return at run time is evaluated again, as a `while` that carries a flag for continuing, and the
// returned value:
//
//   for i in range(a, b, s): A; if c: break; B      go = a < b
//                                                   while go: A; c ? {go = no} : {B; go = b - i > s}; i += s
//
// so an iteration that Python would not run is not executed at all.
#include "lang/Promotion.h"
#include "lang/Containers.h"
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
  bool reverse = false;
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

/// Adds an option of a loop as an attribute, if a pass uses it.
void addLoopAttr(std::vector<ir::Attr> &attrs, std::string_view option, int64_t v) {
  if (option == "num_stages")
    attrs.push_back({ir::attr::numStages, v});
  // False is the default, not a request: kernels pass it on from their parameters
  else if (option == "warp_specialize" && v != 0)
    attrs.push_back({ir::attr::warpSpecialize, true});
  else if (option == "disable_licm")
    attrs.push_back({ir::attr::disableLicm, v != 0});
  else if (option == "split" && v != 1) // one part is the unchanged loop
    attrs.push_back({ir::attr::splitParts, v});
}

} // namespace

Loop Evaluator::openLoop(const Stmt &s, const Bounds *b) {
  Loop loop;
  loop.stmt = &s;
  if (!frame_->exitsOfLoop.empty() && frame_->exitsOfLoop.contains(&s))
    carryExits(loop, b);
  loop.assigned = reassignedNames(s.body);
  if (s.kind == StmtKind::While)
    addAssigned(*s.value, loop.assigned);
  loop.before = &env();
  loop.inside = Env(loop.before);
  const NameSet &decayed = frame_->decayedByLoop[&s];
  for (std::string_view name : loop.assigned) {
    // The loop sets its own target in each iteration.
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
  loop.diagBefore = diag();
  loop.stoppedBefore = frame_->stopped;
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

/// Did the body change a value that was assumed fixed? Numbers are recorded for another attempt, other values are an
/// error.
void Evaluator::checkFixed(Loop &loop) {
  for (const auto &[name, init] : loop.fixed) {
    const Var *after = env().find(name);
    if (!after || after->value.isError() || (after->state == Var::State::Live && sameType(after->value, init)))
      continue;
    const Var *before = loop.before->find(name);
    if (hasNumber(init) && !before->isConstexpr && after->state == Var::State::Live && hasTensor(after->value)) {
      frame_->decayedByLoop[loop.stmt].insert(name);
      loop.again = true;
      continue;
    }
    const DiagKind &kind = before->isConstexpr ? diag::constexprInLoop : diag::loopKindChanged;
    if (loop.spoilt.insert(name))
      diag().report(kind, after->at, name, describe(init), describe(after->value)).note(before->at, "defined here");
  }
}

/// A carried name at the end of the iteration, converted to its type before the loop; reports if that is impossible.
Value Evaluator::settle(Loop &loop, const Carried &c) {
  const Var *after = env().find(c.name);
  bool usable = after && after->state != Var::State::OneArm && after->state != Var::State::LoopLocal;
  Value now = usable ? after->value : Value::error();
  if (!now.isError() && !sameType(now, c.initial)) {
    ir::Block *here = builder().block();
    Value init = c.initial;
    if (!unify(init, here, now, here, c.at) || !sameType(now, c.initial)) {
      std::string name(c.name);
      bool kinds = now.isTensor() != c.initial.isTensor();
      diag()
          .report(kinds ? diag::loopKindChanged : diag::loopTypeChanged, after->at, name, describe(c.initial),
                  describe(now))
          .note(c.at, "`" + name + "` is " + describe(c.initial) + " before the loop");
      now = Value::error();
    }
  } else if (!usable && after) {
    std::string name(c.name);
    diag().report(diag::definedInOneArm, after->at, name).note(after->why, "the branch is here");
  }
  if (now.isError())
    loop.spoilt.insert(c.name);
  return now;
}

/// Converts all carried names where an iteration ends early.
void Evaluator::settleAll(Loop &loop) {
  checkFixed(loop);
  for (const Carried &c : loop.carried) {
    Value now = settle(loop, c);
    if (const Var *v = env().find(c.name); v && !sameType(v->value, now)) {
      Var *own = env().edit(c.name);
      own->value = now;
      own->state = Var::State::Live;
    }
  }
}

std::optional<std::vector<ir::Value *>> Evaluator::closeLoop(Loop &loop, const Flow &f) {
  if (!f.returned.always())
    checkFixed(loop);
  loop.again |= learnExits(loop, f);
  if (loop.again && !aborted_) {
    diag() = loop.diagBefore;
    frame_->stopped = loop.stoppedBefore;
    output_.resize(loop.outputBefore);
    tree_.resize(loop.treeBefore);
    return std::nullopt;
  }
  std::vector<ir::Value *> yields;
  if (loop.early)
    closeExits(loop, f, yields);
  for (const Carried &c : loop.carried) {
    Value now = f.returned.always() ? Value::error() : settle(loop, c);
    for (const Tensor &t : flatten(now.isError() ? c.initial : now))
      yields.push_back(now.isError() ? builder().poison(t.value->type) : t.value);
  }
  for (std::string_view name : loop.spoilt)
    loop.before->edit(name)->value = Value::error();
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
  checkElse(s, "for");
  const Expr &name = *s.targets[0];
  bool ok = !iterable.isError();
  bool isRange = iterable.is<std::shared_ptr<const RangeValue>>();
  if (ok && !isRange && !target().strict &&
      (lang::sequenceItems(iterable) || lang::isDict(iterable) || lang::isSet(iterable) || iterable.isStr())) {
    extension(diag::loopOverValues, s.value->loc);
    return valuesFor(s, iterable);
  }
  if (ok && !isRange) {
    auto d = diag().report(diag::notARange, s.value->loc, describe(iterable));
    if (iterable.isTensor())
      d.note({}, "operations work on all elements of a block at once; `range(n)` counts");
    ok = false;
  }
  if (name.kind != ExprKind::Name) {
    fail(diag::loopTarget, name.loc);
    ok = false;
  }
  if (!ok) {
    NameSet names = assignedNames(s.body);
    for (std::string_view n : names)
      env().set(n, {Value::error(), s.loc});
    if (name.kind == ExprKind::Name)
      env().set(name.name, {Value::error(), name.loc});
    return {};
  }
  const RangeValue &r = *iterable.get<std::shared_ptr<const RangeValue>>();
  if (r.kind == RangeValue::Kind::Condition) {
    fail(diag::notARange, s.value->loc, "tl.condition(...)");
    return {};
  }
  if (r.kind == RangeValue::Kind::StaticRange)
    return staticFor(s, r);
  return runtimeFor(s, r);
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

namespace {

/// The body of a loop, with a `continue` at its end if it has other exits.
class Body {
public:
  Body(const Stmt &loop, bool also) : stmts_(loop.body.begin(), loop.body.end()) {
    end_.kind = StmtKind::Continue;
    // An empty range marks it as absent from the text.
    end_.loc = loop.body.back()->loc;
    end_.loc.begin = end_.loc.end;
    if (also)
      stmts_.push_back(&end_);
  }
  Body(const Body &) = delete;
  Stmts stmts() const { return stmts_; }

private:
  Stmt end_;
  std::vector<Stmt *> stmts_;
};

} // namespace

/// `break` or `continue`.
Flow Evaluator::execExit(const Stmt &s) {
  // The `continue` that Body adds.
  bool own = s.loc.begin == s.loc.end;
  if (frame_->loops.empty()) {
    fail(diag::exitOutsideLoop, s.loc, s.kind == StmtKind::Break ? "break" : "continue");
    return {};
  }
  if (!own && target().strict)
    return execUnsupported(s);
  Loop *loop = frame_->loops.back();
  if (!own)
    extension(s.kind == StmtKind::Break ? diag::breaksLoop : diag::continuesLoop, s.loc);
  if (loop)
    settleAll(*loop);
  return s.kind == StmtKind::Break ? Flow::breaks(s.loc) : Flow::continues(s.loc);
}

/// The `else` of a loop; an extension.
void Evaluator::checkElse(const Stmt &s, const char *kind) {
  if (s.orelse.empty())
    return;
  if (target().strict)
    fail(diag::loopElse, s.orelse.front()->loc, kind);
  else
    extension(diag::elseOfLoop, s.orelse.front()->loc, kind);
}

Flow Evaluator::staticFor(const Stmt &s, const RangeValue &r) {
  if (std::optional<uint64_t> trips = tripCount(r, s.value->loc)) {
    Body body(s, exitsOf(s.body).leaves);
    return unrolled(s, body.stmts(), 0, *trips, [&](uint64_t k) {
      return Value::integer(r.args[0].asInt() + static_cast<Int>(k) * r.args[2].asInt());
    });
  }
  bindErrors(assignedNames(s.body), s.loc);
  env().set(s.targets[0]->name, {Value::error(), s.targets[0]->loc});
  return {};
}

/// `for` over a tuple or another compile-time iterable: unrolled, each iteration with its item unchanged. An extension.
Flow Evaluator::valuesFor(const Stmt &s, const Value &values) {
  std::optional<std::vector<Value>> items = iterate(values, s.value->loc);
  if (!items)
    return {};
  Body body(s, exitsOf(s.body).leaves);
  return unrolled(s, body.stmts(), 0, items->size(), [&](uint64_t k) { return (*items)[k]; });
}

/// The iterations from number `k` on; after one that may have ended the loop, the rest is guarded by a flag.
Flow Evaluator::unrolled(const Stmt &s, Stmts body, uint64_t k, uint64_t trips,
                         const std::function<Value(uint64_t)> &item) {
  for (; k < trips && step(s.headLoc); ++k) {
    assign(*s.targets[0], item(k), false);
    frame_->loops.push_back(nullptr);
    Flow f = execBlock(body);
    frame_->loops.pop_back();
    f.tookRest = false;
    if (f.broke.never() && f.returned.never())
      continue;
    if (f.broke.always() || f.returned.always())
      return f.afterLoop();
    Flow ended = f.afterLoop();
    if (f.broke.never())
      ended.left = ended.returned = Way::surely();
    return guard(either(f.broke, f.returned), ended, [&] { return unrolled(s, body, k + 1, trips, item); }, s.headLoc);
  }
  return k < trips || target().strict ? Flow() : execBlock(s.orelse);
}

/// An i1 at the insertion point: has it broken or returned?
ir::Value *Evaluator::either(const Way &a, const Way &b) {
  if (a.never() || a == b || b.always())
    return flagOf(b);
  return b.never() || a.always() ? flagOf(a) : builder().binary(ir::OpKind::Or, flagOf(a), flagOf(b));
}

std::vector<ir::Attr> Evaluator::loopAttrs(const RangeValue &r) {
  std::vector<ir::Attr> attrs;
  for (const auto &[name, v] : r.options)
    if (v.isInt() || v.isBool())
      addLoopAttr(attrs, name, static_cast<int64_t>(v.asInt()));
    else if (v.isStr()) // warp_specialize="never"
      attrs.push_back({ir::attr::warpSpecialize, false});
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
  out.dtype = lang::promoteInts(lang::promoteInts(parts[0].asTensor().dtype, parts[1].asTensor().dtype),
                                parts[2].asTensor().dtype);
  // The loop compares signed numbers, so a narrower unsigned type uses the next larger signed one.
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
  out.reverse = reverse;
  if (reverse)
    out.attrs.push_back({ir::attr::reverse, true});
  return true;
}

std::optional<std::vector<ir::Value *>> Evaluator::loopBody(const Stmt &s, Loop &loop, ir::Block *here) {
  Exits exits = exitsOf(s.body);
  Body body(s, exits.leaves || exits.returns);
  frame_->loops.push_back(&loop);
  ++treeIndent_;
  Flow f = execBlock(body.stmts());
  --treeIndent_;
  frame_->loops.pop_back();
  std::optional<std::vector<ir::Value *>> yields = closeLoop(loop, f);
  if (!yields)
    builder().setBlock(here);
  return yields;
}

/// One attempt at the body; nullopt: more names must be carried.
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

Flow Evaluator::runtimeFor(const Stmt &s, const RangeValue &r) {
  Bounds b;
  if (!bounds(s, r, b) || !enterRegion(s.headLoc)) {
    bindErrors(assignedNames(s.body), s.loc);
    return {};
  }
  std::optional<ir::Op *> op;
  Loop loop;
  // Each further attempt carries at least one more name, or has found more exits.
  do {
    const size_t hints = carriedHints_.size();
    loop = openLoop(s, &b);
    op = loop.early ? tryEarlyFor(s, b, loop) : tryFor(s, b, loop);
    carriedHints_.settle(*this, op.value_or(nullptr), hints);
  } while (!op && !aborted_);
  --regionDepth_;
  if (!op)
    return {};
  leaveLoop(loop, (*op)->results);
  builder().setLoc(s.headLoc);
  // After a loop that may end early, programs read the number of its last iteration.
  if (loop.early && loop.targetKept) {
    Value last = Value::tensor(b.dtype, (*op)->result(static_cast<unsigned>(*loop.early->last)));
    env().set(s.targets[0]->name, {last, s.targets[0]->loc});
  } else {
    Value after = Value::tensor(b.dtype, builder().poison(lang::irType(b.dtype)));
    env().set(s.targets[0]->name, {after, s.targets[0]->loc, s.headLoc, Var::State::AfterLoop});
  }
  return afterLoop(loop, (*op)->results);
}

// Loops that end early

/// The values that the loop carries before the names.
void Evaluator::carryExits(Loop &loop, const Bounds *b) {
  const Stmt &s = *loop.stmt;
  const LoopExits &known = frame_->exitsOfLoop[&s];
  EarlyValues &early = loop.early.emplace();
  builder().setLoc(s.headLoc);
  auto add = [&](ir::Value *init) {
    loop.inits.push_back(init);
    loop.types.push_back(init->type);
    return loop.inits.size() - 1;
  };
  ir::Type i1 = ir::Type::scalar(ir::Elem::I1);
  add(b ? builder().cmp(b->reverse ? ir::CmpPred::Sgt : ir::CmpPred::Slt, b->lower, b->upper)
        : builder().constInt(i1, 1));
  if (!s.orelse.empty())
    early.broke = add(builder().constInt(i1, 0));
  if (known.returns) {
    early.returned = add(builder().constInt(i1, 0));
    early.value = loop.inits.size();
    for (const Tensor &t : flatten(known.like))
      add(builder().poison(t.value->type));
    early.count = loop.inits.size() - early.value;
  }
  if (!b)
    return;
  early.iv = add(b->lower);
  // Before the first iteration the target has its value from before the loop, if that is a number of the same type.
  const Var *target = env().find(s.targets[0]->name);
  ir::Value *last = nullptr;
  if (target && target->state == Var::State::Live && target->value.isTensor() && target->value.asTensor().isScalar() &&
      target->value.asTensor().dtype == b->dtype)
    last = target->value.asTensor().value;
  else
    last = lang::cast(*this, Value::tensor(b->control, b->lower), b->dtype, s.targets[0]->loc).asTensor().value;
  early.last = add(last);
}

/// True if the body has an exit that this attempt does not carry.
bool Evaluator::learnExits(Loop &loop, const Flow &f) {
  bool breaks = !f.broke.never(), returns = !f.returned.never();
  if (!breaks && !returns)
    return false;
  LoopExits &known = frame_->exitsOfLoop[loop.stmt];
  bool news = !loop.early || (returns && (!known.returns || !(sameType(known.like, f.value) || f.value.isError())));
  known.breaks |= breaks;
  known.returns |= returns;
  if (returns)
    known.like = f.value;
  return news;
}

/// The values passed to the next iteration before the names.
void Evaluator::closeExits(Loop &loop, const Flow &f, std::vector<ir::Value *> &yields) {
  const EarlyValues &early = *loop.early;
  builder().setLoc(loop.stmt->headLoc);
  ir::Type i1 = ir::Type::scalar(ir::Elem::I1);
  ir::Value *goesOn = builder().binary(ir::OpKind::Xor, either(f.broke, f.returned), builder().constInt(i1, 1));
  yields.push_back(goesOn);
  if (early.broke)
    yields.push_back(flagOf(f.broke));
  if (early.returned) {
    yields.push_back(flagOf(f.returned));
    std::vector<Tensor> leaves = f.returned.never() ? std::vector<Tensor>() : flatten(f.value);
    for (size_t i = 0; i < early.count; ++i)
      yields.push_back(i < leaves.size() ? leaves[i].value : builder().poison(loop.types[early.value + i]));
  }
}

std::optional<ir::Op *> Evaluator::tryEarlyFor(const Stmt &s, const Bounds &b, Loop &loop) {
  const EarlyValues &early = *loop.early;
  ir::Region *before = builder().module().createRegion(loop.types, nullptr);
  ir::Region *body = builder().module().createRegion(loop.types, nullptr);
  ir::Block *here = builder().block();
  builder().setLoc(s.headLoc);
  builder().setBlock(before->block);
  std::vector<ir::Value *> forwarded{before->block->args[0]};
  forwarded.insert(forwarded.end(), before->block->args.begin(), before->block->args.end());
  builder().create(ir::OpKind::Condition, forwarded, {});
  builder().setBlock(body->block);
  EnvScope scope(*frame_, loop.inside);
  std::string_view target = s.targets[0]->name;
  ir::Value *i = body->block->args[*early.iv];
  i->name = target;
  bindCarried(loop, body->block->args);
  Value iv = Value::tensor(b.control, i);
  if (b.control != b.dtype)
    iv = lang::cast(*this, iv, b.dtype, s.targets[0]->loc);
  env().set(target, {iv, s.targets[0]->loc});
  std::optional<std::vector<ir::Value *>> yields = loopBody(s, loop, here);
  if (!yields)
    return std::nullopt;
  builder().setLoc(s.headLoc);
  // Continue if there is another number: compares the remaining distance, which cannot overflow.
  ir::Value *left =
      b.reverse ? builder().binary(ir::OpKind::Sub, i, b.upper) : builder().binary(ir::OpKind::Sub, b.upper, i);
  ir::Value *more = builder().cmp(ir::CmpPred::Ugt, left, b.step);
  (*yields)[0] = builder().binary(ir::OpKind::And, (*yields)[0], more);
  const Var *last = env().find(target);
  loop.targetKept = last->state == Var::State::Live && sameType(last->value, iv);
  ir::Value *next[] = {builder().binary(b.reverse ? ir::OpKind::Sub : ir::OpKind::Add, i, b.step),
                       loop.targetKept ? last->value.asTensor().value : body->block->args[*early.last]};
  yields->insert(yields->begin() + static_cast<ptrdiff_t>(*early.iv), next, next + 2);
  builder().yield(*yields);
  builder().setBlock(here);
  ir::Op *op = builder().create(ir::OpKind::While, loop.inits, loop.types);
  op->regions = {before, body};
  before->op = body->op = op;
  return op;
}

/// The flow after the loop, and its `else`. `endless`: only `break` and `return` end the loop.
Flow Evaluator::afterLoop(const Loop &loop, std::span<ir::Value *const> results, bool endless) {
  const Stmt &s = *loop.stmt;
  Flow f;
  if (loop.early && loop.early->returned) {
    const LoopExits &known = frame_->exitsOfLoop[&s];
    bool always = endless && !known.breaks;
    f.left = f.returned = always ? Way::surely() : Way::sometimes(results[*loop.early->returned]);
    f.value = rebuild(known.like, results.subspan(loop.early->value, loop.early->count));
    f.at = s.headLoc;
  }
  if (s.orelse.empty() || target().strict || f.leaves())
    return f;
  auto orelse = [&]() -> Flow {
    if (!loop.early)
      return execBlock(s.orelse);
    return guard(results[*loop.early->broke], Flow(), [&] { return execBlock(s.orelse); }, s.orelse.front()->loc);
  };
  return f.falls() ? orelse() : guardRest(f, orelse, s.orelse.front()->loc);
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
      addLoopAttr(attrs, name, 1);
  return r.args[0];
}

} // namespace

/// The condition of a `while` as a scalar int1; Error after a report, and without one for compile-time values.
Value Evaluator::condition(const Stmt &s, const Value &test) {
  if (test.isError() || !test.isTensor())
    return Value::error();
  return lang::truth(*this, test, s.value->loc);
}

std::optional<ir::Op *> Evaluator::tryWhile(const Stmt &s, Loop &loop, bool &endless) {
  ir::Region *before = builder().module().createRegion(loop.types, nullptr);
  ir::Region *body = builder().module().createRegion(loop.types, nullptr);
  ir::Block *here = builder().block();
  std::vector<ir::Attr> attrs;
  builder().setBlock(before->block);
  EnvScope scope(*frame_, loop.inside);
  bindCarried(loop, before->block->args);
  Value test, c;
  auto evaluate = [&] {
    test = unwrapCondition(eval(*s.value), attrs);
    c = condition(s, test);
    if (c.isError())
      c = Value::tensor(lang::dtype(lang::Scalar::Int1), builder().poison(ir::Type::scalar(ir::Elem::I1)));
  };
  if (!loop.early) {
    evaluate();
  } else {
    // After a `break` the condition is not evaluated again: it may load, or assign names.
    ir::Value *goesOn = before->block->args[0];
    Arm t = runArm(s.value->loc, [&](Arm &arm) { evaluate(), arm.value = c; });
    Arm e = runArm(s.value->loc, [&](Arm &arm) {
      arm.value = Value::tensor(lang::dtype(lang::Scalar::Int1), builder().constInt(goesOn->type, 0));
    });
    endless = test.isNumber() && lang::constexprTruth(test);
    if (endless)
      c = Value::tensor(lang::dtype(lang::Scalar::Int1), goesOn);
    else
      joinArms(goesOn, t, e, s.value->loc, &c);
  }
  // Names assigned in the condition (walrus) reach the body and the code after the loop through the carried values.
  std::vector<ir::Value *> forwarded{c.asTensor().value};
  for (size_t i = 0; loop.early && i < loop.ahead(); ++i)
    forwarded.push_back(before->block->args[i]);
  std::vector<ir::Value *> current = carriedNow(loop);
  forwarded.insert(forwarded.end(), current.begin(), current.end());
  builder().setLoc(s.value->loc);
  builder().create(ir::OpKind::Condition, forwarded, {});
  builder().setBlock(body->block);
  bindCarried(loop, body->block->args);
  std::optional<std::vector<ir::Value *>> yields = loopBody(s, loop, here);
  if (!yields)
    return std::nullopt;
  if (!test.isError() && !test.isTensor() && !endless)
    diag()
        .report(diag::staticWhile, s.value->loc, describe(test))
        .note({}, "use tl.static_range for a compile-time loop");
  builder().setLoc(s.headLoc);
  builder().yield(*yields);
  builder().setBlock(here);
  ir::Op *op = builder().create(ir::OpKind::While, loop.inits, loop.types, std::move(attrs));
  op->regions = {before, body};
  before->op = body->op = op;
  return op;
}

/// The carried values at the current point; those that the condition made invalid keep their incoming value.
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

Flow Evaluator::execWhile(const Stmt &s) {
  checkElse(s, "while");
  if (!enterRegion(s.headLoc))
    return {};
  std::optional<ir::Op *> op;
  Loop loop;
  bool endless = false;
  do {
    const size_t hints = carriedHints_.size();
    loop = openLoop(s);
    op = tryWhile(s, loop, endless);
    carriedHints_.settle(*this, op.value_or(nullptr), hints);
  } while (!op && !aborted_);
  --regionDepth_;
  if (!op)
    return {};
  leaveLoop(loop, (*op)->results);
  return afterLoop(loop, (*op)->results, endless);
}

} // namespace tegula::sema
