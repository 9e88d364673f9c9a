// Calls of jit functions: inlined by evaluating the body at the call, or (noinline) emitted as separate functions.
#include "sema/Evaluator.h"

namespace tegula::sema {

using lang::Function;
using lang::Tensor;

Frame Evaluator::makeFrame(const std::shared_ptr<const Function> &fn) {
  Frame f;
  f.fn = fn;
  f.scope = fn->scope.get();
  std::shared_ptr<const NameSet> &locals = localsOf_[fn->def];
  if (!locals)
    locals = std::make_shared<const NameSet>(assignedNames(fn->def->body));
  f.locals = locals;
  f.python = fn->kind != Function::Kind::Jit;
  f.handlesTensors = fn->kind == Function::Kind::Builtin;
  return f;
}

void Evaluator::staticPrint(std::string text, Loc loc) {
  constexpr size_t most = 16 << 20;
  if (aborted_ || output_.size() + text.size() <= most) {
    output_ += aborted_ ? "" : text;
    return;
  }
  fail(diag::tooMuchOutput, loc, static_cast<uint64_t>(most));
  aborted_ = true;
}

std::string Evaluator::currentFunction() const { return frame_ && frame_->fn ? frame_->fn->name : std::string(); }
bool Evaluator::isExact() const { return frame_ && frame_->fn && frame_->fn->exact; }

void Evaluator::bindParams(Frame &frame, std::span<const Value> values, std::span<const Loc> locs) {
  size_t i = 0;
  const auto &params = frame.fn->def->params;
  for (size_t k = 0; k < params.size(); ++k) {
    const syntax::Param &p = params[k];
    if (p.kind == syntax::Param::Kind::Star && p.name.empty())
      continue;
    Var v{values[i], p.loc};
    v.isConstexpr = frame.fn->isConstexprParam(k) && values[i].isConstexpr();
    frame.env.set(p.name, std::move(v));
    ++i;
  }
}

Value Evaluator::runBody(Frame &frame) {
  FrameScope scope(*this, frame);
  discarded_ = nullptr;
  if (frame.python && isGenerator(*frame.fn->def))
    frame.yielded.emplace();
  Flow f = execBlock(frame.fn->def->body);
  if (frame.yielded && (f.falls() || !f.value.isError()))
    return bounded(Value::tuple(std::move(*frame.yielded)), frame.fn->def->nameLoc);
  return f.falls() ? Value::none() : f.value;
}

bool Evaluator::enterCall(const Function &fn, Loc loc) {
  if (aborted_)
    return false;
  if (depth_ < options_.maxCallDepth) {
    ++depth_;
    return true;
  }
  diag().report(diag::recursionTooDeep, loc, fn.name, options_.maxCallDepth)
      .note(fn.def->nameLoc, "recursion ends only where a compile-time `if` with an `else` leaves the call out");
  aborted_ = true;
  return false;
}

Value Evaluator::inlineCall(const std::shared_ptr<const Function> &fn, std::span<const Value> values,
                            std::span<const Loc> locs, Loc loc) {
  if (!enterCall(*fn, loc))
    return Value::error();
  CallNote note(*this, *fn, loc);
  ir::Module &m = builder().module();
  int32_t outer = builder().inlinedAt();
  m.inlineSites.push_back({loc, fn->name, outer});
  builder().setInlinedAt(static_cast<int32_t>(m.inlineSites.size() - 1));
  keepSource(*fn);
  Frame frame = makeFrame(fn);
  bindParams(frame, values, locs);
  Value r = runBody(frame);
  builder().setInlinedAt(outer);
  builder().setLoc(loc);
  --depth_;
  return r;
}

void Evaluator::keepSource(const Function &fn) {
  std::shared_ptr<const SourceFile> file = fn.tree->filePtr();
  if (kept_.insert(file.get()).second)
    builder().module().sources.push_back(file);
}

Value Evaluator::realCall(const std::shared_ptr<const Function> &fn, std::span<const Value> values,
                          std::span<const Loc> locs, Loc loc) {
  std::vector<ir::Value *> operands;
  std::string key = fn->contentHash();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].isError() || !charge(values[i].summary().weight, loc))
      return Value::error();
    for (const Tensor &t : flatten(values[i])) {
      if (!t.isScalar())
        return fail(diag::noinlineBlock, locs[i], fn->name, describe(values[i]));
      operands.push_back(t.value);
    }
    key += ";" + typeKey(values[i]);
  }
  auto it = emitted_.find(key);
  if (it == emitted_.end()) {
    if (!enterCall(*fn, loc))
      return Value::error();
    CallNote note(*this, *fn, loc);
    // Entered first, so that a recursive call with the same types is detected.
    it = emitted_.emplace(key, Emitted{}).first;
    Emitted e = emitFunction(fn, values, locs, loc, emitted_.size());
    it->second = e;
    --depth_;
  }
  if (!it->second.function)
    return it->second.result.isError() && !it->second.done ? fail(diag::noinlineRecursion, loc, fn->name)
                                                           : Value::error();
  builder().setLoc(loc);
  ir::Function *f = it->second.function;
  ir::Op *op = builder().create(ir::OpKind::Call, operands, f->resultTypes, {{ir::attr::callee, f->name}});
  return rebuild(it->second.result, op->results);
}

Evaluator::Emitted Evaluator::emitFunction(const std::shared_ptr<const Function> &fn, std::span<const Value> values,
                                           std::span<const Loc> locs, Loc loc, size_t number) {
  keepSource(*fn);
  std::vector<ir::Type> argTypes;
  std::vector<Tensor> tensors;
  for (const Value &v : values)
    flatten(v, tensors);
  for (const Tensor &t : tensors)
    argTypes.push_back(t.value->type);
  std::string name = fn->name + "__" + std::to_string(number);
  ir::Function *f = builder().module().createFunction(name, argTypes, {}, fn->def->nameLoc);
  f->noinline_ = true;
  f->argInfo.clear();
  for (const Tensor &t : tensors)
    f->argInfo.push_back({t.value->name, fn->def->nameLoc, 1, t.dtype.isConst, t.dtype.isSigned()});
  ir::Block *here = builder().block();
  int32_t inlinedAt = builder().inlinedAt();
  unsigned regions = std::exchange(regionDepth_, 0);
  builder().setBlock(f->block());
  builder().setInlinedAt(-1);
  std::span<ir::Value *const> args(f->block()->args);
  std::vector<Value> inner;
  for (const Value &v : values) {
    size_t n = flatten(v).size();
    inner.push_back(rebuild(v, args.first(n)));
    args = args.subspan(n);
  }
  Frame frame = makeFrame(fn);
  bindParams(frame, inner, locs);
  for (const Env::Entry &x : frame.env.changed())
    nameValue(x.var.value, x.name);
  Value result = runBody(frame);
  std::vector<ir::Value *> results;
  for (const Tensor &t : flatten(result)) {
    results.push_back(t.value);
    f->resultTypes.push_back(t.value->type);
  }
  builder().setLoc(fn->def->loc);
  builder().create(ir::OpKind::Return, results, {});
  builder().setBlock(here);
  builder().setInlinedAt(inlinedAt);
  regionDepth_ = regions;
  finished_.push_back(f);
  return {result.isError() ? nullptr : f, result, true};
}

/// The type of a value for specialization: dtypes and shapes of tensors, and the complete value otherwise.
std::string Evaluator::typeKey(const Value &v) {
  if (v.isTensor())
    return describe(v);
  if (const auto *items = lang::sequenceItems(v)) {
    std::string s = v.isRecord() ? v.record().cls->name + "(" : "(";
    for (const Value &i : *items)
      s += typeKey(i) + ",";
    return s + ")";
  }
  return lang::key(v);
}

} // namespace tegula::sema
