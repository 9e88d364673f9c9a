// Steps of a plan in order: scalar code, nests, structured control flow.
#include "targets/cpu/emit/Emitter.h"
#include "abi/CpuAbi.h"
#include "targets/common/DebugInfo.h"
#include "targets/cpu/plan/ProgramOrder.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

void FunctionEmitter::steps(const Steps &s) {
  for (const Step &one : s)
    step(one);
}

void FunctionEmitter::step(const Step &s) {
  if (s.op)
    setLoc(s.op);
  switch (s.kind) {
  case StepKind::Define: return defineStep(*s.op);
  case StepKind::Nest: return stretch([&] { nestWithInit(s); });
  case StepKind::Dot: return stretch([&] { dotStep(s); });
  case StepKind::For: return forStep(s);
  case StepKind::While: return whileStep(s);
  case StepKind::If: return ifStep(s);
  case StepKind::Call: return callStep(s);
  case StepKind::Print: return printStep(s);
  case StepKind::Return: return returnStep(s);
  }
}

// A stretch of the function that may be equal to another one.
void FunctionEmitter::stretch(llvm::function_ref<void()> emit) {
  if (!repeats_ || b_.GetInsertPoint() != b_.GetInsertBlock()->end())
    return emit();
  auto *begin = llvm::BasicBlock::Create(context_, "step", function_);
  b_.CreateBr(begin);
  b_.SetInsertPoint(begin);
  emit();
  auto *end = llvm::BasicBlock::Create(context_, "step.end", function_);
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  stretches_.push_back({begin, end});
}

// Two dots of the same sizes and elements.
static bool repeatsDots(const Steps &steps, std::set<std::array<int64_t, 5>> &seen) {
  return llvm::any_of(steps, [&](const Step &s) {
    const bool again = s.dot && !seen.insert({s.dot->m, s.dot->n, s.dot->k, static_cast<int64_t>(s.dot->aElem),
                                              static_cast<int64_t>(s.dot->accElem)})
                                     .second;
    return again || llvm::any_of(s.bodies, [&](const Steps &inner) { return repeatsDots(inner, seen); });
  });
}

bool FunctionEmitter::repeats(const Plan &plan, const Options &options) {
  std::set<std::array<int64_t, 5>> seen;
  return options.optLevel > 0 && !options.debugInfo && repeatsDots(plan.steps, seen);
}

void FunctionEmitter::nestStep(const Step &s) {
  V inGroup = programs(); // before all loops
  auto emit = [&](bool ofOneProgram) {
    NestState state;
    state.nest = s.nest.get();
    state.copyFrom = s.bufferA;
    state.ofOneProgram = ofOneProgram;
    if (state.nest == rows_.first)
      state.given = rows_.second, state.byRow = true;
    runNest(state);
  };
  if (!plan_.groupsColumns())
    return emit(false);
  // Grids of one program along the axis: rows are short, and the innermost loop goes down them.
  auto *one = llvm::BasicBlock::Create(context_, "one.program", function_),
       *many = llvm::BasicBlock::Create(context_, "programs", function_);
  auto *exit = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateCondBr(b_.CreateICmpEQ(inGroup, b_.getInt64(1), "is.one"), one, many);
  for (bool ofOneProgram : {true, false}) {
    b_.SetInsertPoint(ofOneProgram ? one : many);
    emit(ofOneProgram);
    b_.CreateBr(exit);
  }
  b_.SetInsertPoint(exit);
}

void FunctionEmitter::nestWithInit(const Step &s) {
  for (const Root &r : s.nest->roots)
    if (r.kind == RootKind::Histogram) {
      const Buffer &b = plan_.buffers[static_cast<size_t>(plan_.bufferFor(r.op->results[0]))];
      b_.CreateMemSet(scratchAt(b.offset), b_.getInt8(0), b.bytes(), llvm::MaybeAlign(64));
    }
  if (!atomicStep(s))
    nestStep(s);
}

void FunctionEmitter::defineStep(const Op &op) {
  if (op.results.empty()) {
    if (op.kind == OpKind::Store)
      scalarStore(op);
    else if (op.kind == OpKind::Assert)
      assertRoot(op, scalar_.lookup(op.operands[0]), op.operands.size() > 1 ? scalar_.lookup(op.operands[1]) : nullptr);
    return;
  }
  if (isTensorResult(op)) {
    defineLinear(op);
    return;
  }
  if (op.kind == OpKind::Unsplat || op.kind == OpKind::Split || op.kind == OpKind::Reshape) {
    // A scalar out of a one-element tensor: a nest of one element, all index bits constant.
    Nest one;
    NestState state;
    state.nest = &one;
    state.memo.resize(1);
    state.addressMemo.resize(1);
    nest_ = &state;
    const size_t mixed = mixed_.mark();
    for (const ir::Value *r : op.results)
      scalar_[r] = eval(op.operands[0], op.kind == OpKind::Split ? operandBits(op, 0, r->index, {}) : Bits{});
    mixed_.backTo(mixed);
    nest_ = nullptr;
    return;
  }
  if (op.kind == OpKind::AsmEffect)
    return assemblyScalar(op);
  V x = plan_.group && op.result() == plan_.group->count ? b_.CreateTrunc(programs(), b_.getInt32Ty()) : scalarOp(op);
  if (x && !op.results[0]->name.empty() && !llvm::isa<llvm::Constant>(x) && !x->hasName())
    x->setName(op.results[0]->name);
  scalar_[op.results[0]] = x;
  if (state_.debug)
    state_.debug->variable(b_, x, *op.results[0], true);
}

bool FunctionEmitter::isTensorResult(const Op &op) { return op.results[0]->type.isTensor(); }

llvm::SmallVector<V> FunctionEmitter::scalarsOf(llvm::ArrayRef<ir::Value *> values) {
  llvm::SmallVector<V> r;
  for (const ir::Value *v : values)
    if (v->type.isScalar())
      r.push_back(scalar_.lookup(v));
  return r;
}

void FunctionEmitter::bindScalars(llvm::ArrayRef<ir::Value *> values, llvm::ArrayRef<V> regs) {
  size_t i = 0;
  for (const ir::Value *v : values)
    if (v->type.isScalar())
      scalar_[v] = regs[i++];
}

// Polls for cancellation in `loop`, or, if null, between programs, where no location is reported.
void FunctionEmitter::pollCancel(const Op *loop) {
  auto *seen = b_.CreateLoad(b_.getInt32Ty(), cancel_, true);
  auto *stop = llvm::BasicBlock::Create(context_, "cancelled", function_);
  auto *on = llvm::BasicBlock::Create(context_, "on", function_);
  b_.CreateCondBr(b_.CreateICmpNE(seen, b_.getInt32(0)), stop, on);
  b_.SetInsertPoint(stop);
  if (loop) {
    llvm::BasicBlock *tell = stoppedBlock();
    b_.CreateStore(b_.getInt32(static_cast<uint32_t>(siteNumber(*loop, Site::Kind::Other))), stopSite_, true);
    b_.CreateBr(tell);
  } else {
    b_.CreateRet(b_.getInt32(TEGULA_FAULT_CANCELLED));
  }
  b_.SetInsertPoint(on);
}

/// The block that all loops of the function branch to when `cancel` is set: it reports the loop to the runtime. The
/// site is passed through memory, by volatile accesses: a call in every loop, or a phi of all loops, would have
/// thousands of operands, for which register coalescing takes quadratic time.
llvm::BasicBlock *FunctionEmitter::stoppedBlock() {
  if (stopped_)
    return stopped_;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::BasicBlock &entry = function_->getEntryBlock();
  b_.SetInsertPoint(&entry, entry.begin());
  stopSite_ = b_.CreateAlloca(b_.getInt32Ty());
  stopped_ = llvm::BasicBlock::Create(context_, "stopped", function_);
  b_.SetInsertPoint(stopped_);
  V site = b_.CreateLoad(b_.getInt32Ty(), stopSite_, true);
  callRuntime(offsetof(TegulaCpuLaunch, stopped), {site, pid_[0], pid_[1], pid_[2]});
  b_.CreateRet(b_.getInt32(TEGULA_FAULT_CANCELLED));
  return stopped_;
}

/// Calls the function pointer at `offset` of the launch: launch, then `args`; no result.
void FunctionEmitter::callRuntime(size_t offset, llvm::ArrayRef<V> args) {
  llvm::SmallVector<V> all{launch_};
  all.append(args.begin(), args.end());
  llvm::SmallVector<llvm::Type *> types;
  for (V a : all)
    types.push_back(a->getType());
  V fn = b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offset));
  b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), types, false), fn, all);
}

// Every 64 iterations other programs get a turn: the loop may be waiting for one of them.
void FunctionEmitter::giveTurn(V rounds) {
  constexpr unsigned logRounds = 6;
  auto *turn = llvm::BasicBlock::Create(context_, "turn", function_);
  auto *on = llvm::BasicBlock::Create(context_, "on", function_);
  V low = b_.CreateAnd(rounds, b_.getInt64((uint64_t(1) << logRounds) - 1));
  b_.CreateCondBr(b_.CreateICmpEQ(low, b_.getInt64(0)), turn, on);
  b_.SetInsertPoint(turn);
  callRuntime(offsetof(TegulaCpuLaunch, wait), {b_.CreateLShr(rounds, logRounds)});
  b_.CreateBr(on);
  b_.SetInsertPoint(on);
}

// Rows outside of the loop, where that is better.
void FunctionEmitter::forStep(const Step &s) {
  NestState state;
  state.nest = accumulatesRows(s, plan_);
  if (state.nest) {
    nest_ = &state;
    state.byRow = true;
    layOut(state);
    nest_ = nullptr;
  }
  const bool oneTrip = state.loops.size() == 1;
  if (!state.nest || state.loops.empty() || state.loops.size() > 2 ||
      state.loops[0].firstBit < state.nest->columnBits() || state.vectorBits ||
      (oneTrip && state.loops[0].firstBit > state.nest->columnBits()))
    return forLoop(s);
  state.loops.resize(1); // of the rows
  nest_ = &state;
  V end = b_.getInt64(uint64_t(1) << state.loops[0].bits);
  loop(state.loops[0], b_.getInt64(0), end, false, {}, [&](llvm::ArrayRef<V>) {
    rows_ = {state.nest, {state.loops[0].iv}};
    nest_ = nullptr;
    if (oneTrip)
      withRowInRegisters(*state.nest, state.loops[0].iv, [&] { forLoop(s); });
    else
      forLoop(s);
    nest_ = &state;
    rows_ = {};
    return llvm::SmallVector<V>();
  });
  nest_ = nullptr;
}

// Meanwhile replaces the buffer that the nest accumulates in by one row on the stack, at constant offsets, so that LLVM
// promotes it to registers.
void FunctionEmitter::withRowInRegisters(const Nest &nest, V row, llvm::function_ref<void()> emit) {
  const int id = nest.roots[0].buffer;
  const Buffer &buffer = plan_.buffers[static_cast<size_t>(id)];
  const Lin whole = bufferLin(id);
  const unsigned columns = nest.columnBits(), bytes = buffer.element.isPtr ? 8 : ir::byteWidth(buffer.element.elem);
  for (size_t i = 0; i < whole.coef.size(); ++i) {
    const int64_t first = i < columns ? bytes : whole.coef[columns].k;
    if (!(whole.coef[i] == Coef{first << (i < columns ? i : i - columns)}))
      return emit();
  }
  const uint64_t size = uint64_t(bytes) << columns;
  llvm::BasicBlock &entry = function_->getEntryBlock();
  llvm::IRBuilder<> first(&entry, entry.getFirstInsertionPt());
  llvm::AllocaInst *place = first.CreateAlloca(llvm::ArrayType::get(first.getInt8Ty(), size));
  place->setAlignment(llvm::Align(64));
  V inBuffer = b_.CreateGEP(b_.getInt8Ty(), whole.base,
                            b_.CreateMul(row, b_.getInt64(static_cast<uint64_t>(whole.coef[columns].k))));
  b_.CreateMemCpy(place, llvm::Align(64), inBuffer, llvm::Align(bytes), size);
  Lin one = whole;
  one.base = place;
  std::fill(one.coef.begin() + columns, one.coef.end(), Coef{});
  bufferLin_[id] = one;
  emit();
  bufferLin_[id] = whole;
  b_.CreateMemCpy(inBuffer, llvm::Align(bytes), place, llvm::Align(64), size);
}

void FunctionEmitter::forLoop(const Step &s) {
  const Op &op = *s.op;
  const ir::Block &body = *op.regions[0]->block;
  V lb = scalar_.lookup(op.operands[0]), ub = scalar_.lookup(op.operands[1]), by = scalar_.lookup(op.operands[2]);
  bool reverse = op.reverse();
  llvm::ArrayRef<ir::Value *> inits = llvm::ArrayRef(op.operands).drop_front(3);
  llvm::ArrayRef<ir::Value *> args = llvm::ArrayRef(body.args).drop_front(1);
  llvm::SmallVector<V> init = scalarsOf(inits);
  startKept(s.bodies[0], false);
  auto *enter = llvm::BasicBlock::Create(context_, "for", function_);
  auto *exit = llvm::BasicBlock::Create(context_, "end", function_);
  V streamsAround = streamLaunch_, roundsAround = rounds_;
  if (!reverse)
    streamLaunch_ = streamsInRounds(s, lb, ub, by);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  b_.CreateCondBr(reverse ? b_.CreateICmpSGT(lb, ub) : b_.CreateICmpSLT(lb, ub), enter, exit);
  b_.SetInsertPoint(enter);
  llvm::PHINode *iv = b_.CreatePHI(lb->getType(), 2, body.args[0]->name);
  iv->addIncoming(lb, before);
  llvm::SmallVector<V> carried;
  for (V x : init) {
    llvm::PHINode *phi = b_.CreatePHI(x->getType(), 2);
    phi->addIncoming(x, before);
    carried.push_back(phi);
  }
  scalar_[body.args[0]] = iv;
  factors_.isBetween(iv, lb, ub);
  bindScalars(args, carried);
  const size_t mixed = mixed_.mark();
  if (reverse) steps(s.bodies[0]);
  else stepsOfLoop(s.bodies[0], body, iv, by, ub);
  mixed_.backTo(mixed);
  streamLaunch_ = streamsAround, rounds_ = roundsAround;
  setLoc(&op);
  llvm::SmallVector<V> next = scalarsOf(body.terminator()->operands);
  pollCancel(&op);
  // The distance to the bound does not overflow where iv + step might.
  V left = reverse ? b_.CreateSub(iv, ub) : b_.CreateSub(ub, iv);
  V more = b_.CreateICmpUGT(left, by);
  V step = reverse ? b_.CreateSub(iv, by) : b_.CreateAdd(iv, by);
  llvm::BasicBlock *latch = b_.GetInsertBlock();
  b_.CreateCondBr(more, enter, exit);
  iv->addIncoming(step, latch);
  b_.SetInsertPoint(exit);
  llvm::SmallVector<V> out;
  for (size_t i = 0; i < carried.size(); ++i) {
    llvm::cast<llvm::PHINode>(carried[i])->addIncoming(next[i], latch);
    llvm::PHINode *phi = b_.CreatePHI(next[i]->getType(), 2);
    phi->addIncoming(init[i], before);
    phi->addIncoming(next[i], latch);
    out.push_back(phi);
  }
  bindScalars(op.results, out);
}

void FunctionEmitter::whileStep(const Step &s) {
  const Op &op = *s.op;
  const ir::Block &test = *op.regions[0]->block, &body = *op.regions[1]->block;
  llvm::SmallVector<V> init = scalarsOf(op.operands);
  startKept(s.bodies[1], false);
  auto *enter = llvm::BasicBlock::Create(context_, "while", function_);
  auto *inside = llvm::BasicBlock::Create(context_, "do", function_);
  auto *exit = llvm::BasicBlock::Create(context_, "end", function_);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  b_.CreateBr(enter);
  b_.SetInsertPoint(enter);
  llvm::SmallVector<V> carried;
  for (V x : init) {
    llvm::PHINode *phi = b_.CreatePHI(x->getType(), 2);
    phi->addIncoming(x, before);
    carried.push_back(phi);
  }
  bool waits = waitsForMemory(op);
  state_.meta.waits |= waits;
  llvm::PHINode *rounds = waits ? b_.CreatePHI(b_.getInt64Ty(), 2) : nullptr;
  if (waits)
    rounds->addIncoming(b_.getInt64(0), before);
  bindScalars(test.args, carried);
  const size_t mixed = mixed_.mark();
  steps(s.bodies[0]);
  const Op *cond = test.terminator();
  llvm::SmallVector<V> passed = scalarsOf(llvm::ArrayRef(cond->operands).drop_front(1));
  b_.CreateCondBr(scalar_.lookup(cond->operands[0]), inside, exit);
  b_.SetInsertPoint(inside);
  bindScalars(body.args, passed);
  steps(s.bodies[1]);
  mixed_.backTo(mixed);
  setLoc(&op);
  llvm::SmallVector<V> next = scalarsOf(body.terminator()->operands);
  V round = waits ? b_.CreateAdd(rounds, b_.getInt64(1)) : nullptr;
  if (waits)
    giveTurn(round);
  pollCancel(&op);
  if (waits)
    rounds->addIncoming(round, b_.GetInsertBlock());
  for (size_t i = 0; i < carried.size(); ++i)
    llvm::cast<llvm::PHINode>(carried[i])->addIncoming(next[i], b_.GetInsertBlock());
  b_.CreateBr(enter);
  b_.SetInsertPoint(exit);
  bindScalars(op.results, passed);
}

void FunctionEmitter::ifStep(const Step &s) {
  const Op &op = *s.op;
  V cond = scalar_.lookup(op.operands[0]);
  llvm::BasicBlock *arms[2] = {llvm::BasicBlock::Create(context_, "then", function_),
                               llvm::BasicBlock::Create(context_, "else", function_)};
  auto *after = llvm::BasicBlock::Create(context_, "endif", function_);
  b_.CreateCondBr(cond, arms[0], arms[1]);
  llvm::SmallVector<V> values[2];
  llvm::BasicBlock *ends[2];
  for (unsigned i = 0; i < 2; ++i) {
    b_.SetInsertPoint(arms[i]);
    const size_t mixed = mixed_.mark();
    if (i < s.bodies.size())
      steps(s.bodies[i]);
    mixed_.backTo(mixed);
    const ir::Block *block = i < op.regions.size() ? op.regions[i]->block : nullptr;
    if (block && block->terminator() && block->terminator()->kind == OpKind::Yield)
      values[i] = scalarsOf(block->terminator()->operands);
    ends[i] = b_.GetInsertBlock();
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
  llvm::SmallVector<V> out;
  for (size_t i = 0; i < values[0].size(); ++i) {
    llvm::PHINode *phi = b_.CreatePHI(values[0][i]->getType(), 2);
    phi->addIncoming(values[0][i], ends[0]);
    phi->addIncoming(values[1][i], ends[1]);
    out.push_back(phi);
  }
  bindScalars(op.results, out);
}

void FunctionEmitter::setLoc(const Op *op) {
  if (state_.debug)
    b_.SetCurrentDebugLocation(state_.debug->location(*op));
}

} // namespace tegula::cpu
