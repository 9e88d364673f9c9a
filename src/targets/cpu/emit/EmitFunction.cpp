// The LLVM function around a plan: entry point with the loop over programs, noinline functions and calls to them.
#include "targets/cpu/emit/Emitter.h"
#include "abi/CpuAbi.h"
#include "targets/common/DebugInfo.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {
using ir::Op;
using V = llvm::Value *;

FunctionEmitter::FunctionEmitter(ModuleState &state, const Plan &plan)
    : state_(state), plan_(plan), context_(state.llvm.getContext()),
      b_(context_), vec_{b_, vecTarget(state.target, state.options)}, calleeScratch_(plan.scratchBytes),
      repeats_(repeats(plan, state.options)), factors_(state.options.facts.form == exactForm) {}

// In the entry block, so that one address serves the whole function.
V FunctionEmitter::scratchAt(uint64_t offset) {
  V &p = scratchAt_[offset];
  if (!p) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
    p = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, offset);
  }
  return p;
}

void FunctionEmitter::emitKernel() {
  const ir::Function &f = *plan_.function;
  KernelMeta &meta = state_.meta;
  llvm::Type *ptr = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  auto *type = llvm::FunctionType::get(b_.getInt32Ty(), {ptr, ptr, i64, i64, ptr}, false);
  function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, f.name, state_.llvm);
  setAttributes();
  beginDebug();
  meta.symbol = f.name;
  auto *entry = llvm::BasicBlock::Create(context_, "entry", function_);
  b_.SetInsertPoint(entry);
  launch_ = function_->getArg(1);
  scratch_ = function_->getArg(4);
  function_->getArg(4)->addAttr(llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
  cancel_ = b_.CreateLoad(ptr, b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, cancel)));
  for (unsigned i = 0; i < 3; ++i)
    grid_[i] = b_.CreateLoad(b_.getInt32Ty(), b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, 4 * i));
  const std::vector<ArgumentAccess> access = kernelAccess(state_.source);
  uint64_t offset = 0;
  for (size_t i = 0; i < f.block()->args.size(); ++i) {
    const ir::Value *a = f.block()->args[i];
    unsigned bytes = a->type.isPtr ? 8 : std::max(1u, ir::byteWidth(a->type.elem));
    offset = llvm::alignTo(offset, bytes);
    V p = b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(0), offset);
    V x = fromMemory(b_.CreateAlignedLoad(memType(a->type), p, llvm::Align(bytes)), a->type);
    bool info = i < f.argInfo.size();
    std::string name = info ? f.argInfo[i].name : a->name;
    x->setName(name);
    scalar_[a] = x;
    if (!a->type.isPtr && a->type.isIntLike())
      factors_.isArgument(x, static_cast<uint32_t>(i));
    if (state_.debug) {
      ir::Value named;
      named.type = a->type;
      named.name = name;
      state_.debug->variable(b_, x, named, info ? f.argInfo[i].isSigned : true, static_cast<unsigned>(i) + 1);
    }
    meta.args.push_back({a->type, static_cast<uint32_t>(offset), name, info ? f.argInfo[i].isSigned : true,
                         access[i].reads, access[i].writes});
    offset += bytes;
  }
  meta.argBytes = static_cast<uint32_t>(llvm::alignTo(offset, 8));
  decideStreaming();
  askAlone();
  programLoop(function_->getArg(2), function_->getArg(3));
}

void FunctionEmitter::programLoop(V begin, V end) {
  llvm::BasicBlock *entry = b_.GetInsertBlock();
  auto *start = llvm::BasicBlock::Create(context_, "start", function_);
  auto *program = llvm::BasicBlock::Create(context_, "program", function_);
  done_ = llvm::BasicBlock::Create(context_, "finished", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), start, done_);
  b_.SetInsertPoint(start);
  llvm::Type *i64 = b_.getInt64Ty(), *i32 = b_.getInt32Ty();
  const unsigned fast = plan_.alongY ? 1 : 0, slow = 1 - fast; // z is slowest
  V gFast = b_.CreateZExt(grid_[fast], i64), gSlow = b_.CreateZExt(grid_[slow], i64);
  V rest = b_.CreateUDiv(begin, gFast);
  V first[3];
  first[fast] = b_.CreateTrunc(b_.CreateURem(begin, gFast), i32);
  first[slow] = b_.CreateTrunc(b_.CreateURem(rest, gSlow), i32);
  first[2] = b_.CreateTrunc(b_.CreateUDiv(rest, gSlow), i32);
  V columns = plan_.order.divisor ? ofLaunch(plan_.order.divisor) : nullptr, rows = rowsOfGroup();
  askKept();
  b_.CreateBr(program);
  b_.SetInsertPoint(program);
  llvm::BasicBlock *started = program->getSinglePredecessor();
  llvm::PHINode *linear = b_.CreatePHI(i64, 2, "program");
  linear->addIncoming(begin, started);
  llvm::PHINode *pid[3];
  for (unsigned i = 0; i < 3; ++i) {
    pid[i] = b_.CreatePHI(i32, 2, std::string("pid.") + "xyz"[i]);
    pid[i]->addIncoming(first[i], started);
    pid_[i] = pid[i];
  }
  if (plan_.group)
    left_ = b_.CreateSub(end, linear);
  if (plan_.order.kind)
    placeInOrder(linear, columns, rows);
  for (unsigned i = 0; i < 3; ++i)
    for (V x : {pid_[i], grid_[i]})
      factors_.isProgram(x);
  pollCancel(nullptr);
  startKept(plan_.steps, false);
  auto *next = llvm::BasicBlock::Create(context_, "next", function_);
  after_ = next;
  steps(plan_.steps);
  if (!b_.GetInsertBlock()->getTerminator())
    b_.CreateBr(next);
  b_.SetInsertPoint(next);
  V zero = b_.getInt32(0), one = b_.getInt32(1), ran = programs_ ? programs_ : b_.getInt64(1);
  V x = b_.CreateAdd(pid[fast], b_.CreateTrunc(ran, i32)), wrapX = b_.CreateICmpEQ(x, grid_[fast]);
  V y = b_.CreateSelect(wrapX, b_.CreateAdd(pid[slow], one), pid[slow]), wrapY = b_.CreateICmpEQ(y, grid_[slow]);
  pid[fast]->addIncoming(b_.CreateSelect(wrapX, zero, x), next);
  pid[slow]->addIncoming(b_.CreateSelect(wrapY, zero, y), next);
  pid[2]->addIncoming(b_.CreateSelect(wrapY, b_.CreateAdd(pid[2], one), pid[2]), next);
  V count = b_.CreateAdd(linear, ran);
  linear->addIncoming(count, next);
  b_.CreateCondBr(b_.CreateICmpSLT(count, end), program, done_);
  b_.SetInsertPoint(done_);
  finishStreaming();
  b_.CreateRet(b_.getInt32(0));
  state_.meta.forms = factors_.forms();
  targets::shareStretches(*function_, stretches_);
  (void)entry;
}

// A number that is made of arguments, before the programs.
V FunctionEmitter::ofLaunch(const ir::Value *v) {
  if (V known = scalar_.lookup(v))
    return known;
  for (const ir::Value *o : v->def->operands)
    ofLaunch(o);
  return scalar_[v] = scalarOp(*v->def);
}

// TileOrder: how many rows of tiles run before the next columns, i64, before the programs. Null: all.
V FunctionEmitter::rowsOfGroup() {
  const TileOrder &o = plan_.order;
  if (!o.rows)
    return nullptr;
  auto number = [&](int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); };
  if (!o.loop)
    return number(o.rows);
  auto least = [&](V x, V y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); };
  auto most = [&](V x, V y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y); };
  auto bound = [&](unsigned i) { return b_.CreateSExtOrTrunc(ofLaunch(o.loop->operands[i]), b_.getInt64Ty()); };
  V one = number(1), step = most(bound(2), one),
    rounds = b_.CreateSDiv(b_.CreateAdd(b_.CreateSub(bound(1), bound(0)), b_.CreateSub(step, one)), step);
  V fit = b_.CreateUDiv(number(o.slots), most(rounds, one));
  return least(most(fit, number(o.fewest)), number(o.rows));
}

// TileOrder: which program is `linear`. Counted are rows of tiles, of which a row of units has o.unit, and the programs
// of such a row. Programs that are not a whole one keep their place, and all do where `columns` is no number of
// columns.
void FunctionEmitter::placeInOrder(V linear, V columns, V rowsOfGroup) {
  const TileOrder &o = plan_.order;
  const bool isAxis = o.kind == TileOrder::AlongX;
  llvm::Type *i64 = b_.getInt64Ty(), *i32 = b_.getInt32Ty();
  V gridX = b_.CreateZExt(grid_[0], i64), gridY = b_.CreateZExt(grid_[1], i64),
    unit = b_.getInt64(static_cast<uint64_t>(o.unit));
  auto positive = [&](V x) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b_.getInt64(1)); };
  // programs of a row of units, whole rows
  V wide = isAxis ? gridX : positive(b_.CreateSExt(columns, i64)), whole = isAxis ? gridY : b_.CreateUDiv(gridX, wide);
  V plane = isAxis ? b_.CreateMul(gridX, gridY) : gridX, rest = b_.CreateUDiv(linear, plane),
    at = b_.CreateURem(linear, plane);
  // tiles of a row, rows of tiles
  V across = positive(b_.CreateUDiv(wide, unit)), rows = b_.CreateMul(whole, unit),
    each = rowsOfGroup ? rowsOfGroup : positive(rows);
  V group = b_.CreateUDiv(at, b_.CreateMul(each, across)), first = b_.CreateMul(group, each),
    in = b_.CreateSub(at, b_.CreateMul(first, across));
  V height = positive(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, each, b_.CreateSub(rows, first)));
  V column = b_.CreateUDiv(in, height), row = b_.CreateAdd(first, b_.CreateURem(in, height));
  V x = column, y = row, z = rest;
  if (!isAxis) {
    x = b_.CreateAdd(b_.CreateMul(b_.CreateUDiv(row, unit), wide),
                     b_.CreateAdd(b_.CreateMul(column, unit), b_.CreateURem(row, unit)));
    V isWhole = b_.CreateICmpEQ(b_.CreateURem(wide, unit), b_.getInt64(0)),
      isIn = b_.CreateICmpULT(at, b_.CreateMul(whole, wide));
    x = b_.CreateSelect(b_.CreateAnd(isWhole, isIn), x, at);
    y = b_.CreateURem(rest, gridY);
    z = b_.CreateUDiv(rest, gridY);
  }
  for (unsigned i = 0; V v : {x, y, z})
    pid_[i++] = b_.CreateTrunc(v, i32);
}

// How many programs of a group run at once, i64: as many as the grid has left along the axis, this call, and what the
// group itself says. It is asked first before the first nest. Null: programs run one by one.
V FunctionEmitter::programs() {
  if (programs_ || !plan_.group)
    return programs_;
  llvm::Type *i64 = b_.getInt64Ty();
  const unsigned axis = plan_.group->axis;
  V n = b_.CreateZExt(b_.CreateSub(grid_[axis], pid_[axis]), i64);
  auto least = [&](V to) { n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n, to); };
  least(b_.getInt64(static_cast<uint64_t>(plan_.group->size)));
  least(left_);
  for (const ir::Value *limit : plan_.group->limits)
    least(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSExt(scalar_.lookup(limit), i64), b_.getInt64(1)));
  if (plan_.group->least > 1)
    n = b_.CreateSelect(b_.CreateICmpSGE(n, b_.getInt64(static_cast<uint64_t>(plan_.group->least))), n, b_.getInt64(1),
                        "programs.as.lanes");
  return programs_ = n;
}

void FunctionEmitter::setAttributes() {
  function_->addFnAttr("target-cpu", state_.target.cpu);
  function_->addFnAttr("target-features", state_.target.features);
  function_->addFnAttr("prefer-vector-width", std::to_string(state_.target.vectorBits));
  function_->addFnAttr("no-builtins");
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  // Else LLVM takes an access through a constant null pointer for unreachable, and control falls into whatever code is
  // next.
  function_->addFnAttr(llvm::Attribute::NullPointerIsValid);
  function_->setUWTableKind(llvm::UWTableKind::None);
}

// Prologue and program loop stand on the line of the `def`.
void FunctionEmitter::beginDebug() {
  if (!state_.debug)
    return;
  state_.debug->begin(*function_, *plan_.function);
  ir::Op place{ir::OpKind::Return, plan_.function->loc};
  b_.SetCurrentDebugLocation(state_.debug->location(place));
}

// Parameters: launch, scratch, pid x y z, grid x y z, the function's own, a pointer per result.
void FunctionEmitter::emitCallee() {
  const ir::Function &f = *plan_.function;
  llvm::Type *ptr = b_.getPtrTy(), *i32 = b_.getInt32Ty();
  llvm::SmallVector<llvm::Type *> params{ptr, ptr, i32, i32, i32, i32, i32, i32};
  for (const ir::Value *a : f.block()->args)
    params.push_back(regType(a->type));
  params.append(f.resultTypes.size(), ptr);
  function_ = llvm::Function::Create(llvm::FunctionType::get(i32, params, false), llvm::GlobalValue::InternalLinkage,
                                     f.name, state_.llvm);
  setAttributes();
  function_->addFnAttr(llvm::Attribute::NoInline);
  beginDebug();
  state_.functions[f.name] = function_;
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  launch_ = function_->getArg(0);
  scratch_ = function_->getArg(1);
  cancel_ = b_.CreateLoad(ptr, b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, cancel)));
  for (unsigned i = 0; i < 3; ++i) {
    pid_[i] = function_->getArg(2 + i);
    grid_[i] = function_->getArg(5 + i);
  }
  unsigned n = 8;
  for (const ir::Value *a : f.block()->args)
    scalar_[a] = function_->getArg(n++);
  for (size_t i = 0; i < f.resultTypes.size(); ++i)
    externals_.push_back(function_->getArg(n++));
  askAlone();
  auto *body = llvm::BasicBlock::Create(context_, "body", function_);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  steps(plan_.steps);
  if (!b_.GetInsertBlock()->getTerminator())
    b_.CreateRet(b_.getInt32(0));
  targets::shareStretches(*function_, stretches_);
}

void FunctionEmitter::returnStep(const Step &s) {
  if (plan_.function->isKernel) {
    b_.CreateBr(after_);
  } else {
    for (size_t i = 0; i < s.op->operands.size(); ++i)
      if (const ir::Value *v = s.op->operands[i]; v->type.isScalar())
        b_.CreateStore(toMemory(scalar_.lookup(v), v->type), externals_[i]);
    b_.CreateRet(b_.getInt32(0));
  }
}

void FunctionEmitter::callStep(const Step &s) {
  const Op &op = *s.op;
  std::string callee(op.callee());
  llvm::Function *f = state_.functions[callee];
  llvm::SmallVector<V> args{launch_, scratchAt(calleeScratch_), pid_[0], pid_[1], pid_[2], grid_[0], grid_[1],
                            grid_[2]};
  for (const ir::Value *v : op.operands)
    args.push_back(scalar_.lookup(v));
  llvm::SmallVector<llvm::AllocaInst *> results;
  for (const ir::Value *r : op.results) {
    if (r->type.isTensor()) {
      args.push_back(bufferLin(plan_.bufferFor(r)).base);
      results.push_back(nullptr);
      continue;
    }
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    llvm::BasicBlock &entry = function_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.begin());
    results.push_back(b_.CreateAlloca(memType(r->type)));
    args.push_back(results.back());
  }
  V code = b_.CreateCall(f, args);
  auto *failed = llvm::BasicBlock::Create(context_, "failed", function_);
  auto *on = llvm::BasicBlock::Create(context_, "returned", function_);
  b_.CreateCondBr(b_.CreateICmpNE(code, b_.getInt32(0)), failed, on);
  b_.SetInsertPoint(failed);
  b_.CreateRet(code);
  b_.SetInsertPoint(on);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i])
      scalar_[op.results[i]] =
          fromMemory(b_.CreateLoad(results[i]->getAllocatedType(), results[i]), op.results[i]->type);
}

} // namespace tegula::cpu
