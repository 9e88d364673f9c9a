// Operations on registers: single ops, scalar memory access, combine regions.
#include "abi/CpuAbi.h"
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

llvm::Type *FunctionEmitter::regType(const ir::Type &t) const {
  return t.isPtr ? static_cast<llvm::Type *>(llvm::PointerType::getUnqual(context_)) : vec_.elemType(t.elem);
}

llvm::Type *FunctionEmitter::memType(const ir::Type &t) const {
  return !t.isPtr && t.elem == ir::Elem::I1 ? llvm::Type::getInt8Ty(context_) : regType(t);
}

V FunctionEmitter::toMemory(V x, const ir::Type &t) {
  if (t.isPtr || t.elem != ir::Elem::I1)
    return x;
  return b_.CreateZExt(x, x->getType()->getWithNewBitWidth(8));
}

V FunctionEmitter::fromMemory(V x, const ir::Type &t) {
  if (t.isPtr || t.elem != ir::Elem::I1)
    return x;
  return b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
}

V FunctionEmitter::broadcast(V x, unsigned lanes) {
  if (lanes == 1 || x->getType()->isVectorTy())
    return x;
  if (auto *c = llvm::dyn_cast<llvm::Constant>(x))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), c);
  return b_.CreateVectorSplat(lanes, x);
}

V FunctionEmitter::pickLanes(V x, llvm::ArrayRef<int> lanes) {
  return lanes.size() == 1 ? b_.CreateExtractElement(x, static_cast<uint64_t>(lanes[0]))
                           : b_.CreateShuffleVector(x, lanes);
}

static unsigned commonLanes(llvm::ArrayRef<V> values) {
  for (V x : values)
    if (auto *t = llvm::dyn_cast<llvm::FixedVectorType>(x->getType()))
      return t->getNumElements();
  return 1;
}

V FunctionEmitter::constant(const Op &op) {
  ir::Type t = op.results[0]->type.scalarType();
  llvm::Type *reg = regType(t);
  if (t.isPtr)
    return llvm::ConstantExpr::getIntToPtr(b_.getInt64(static_cast<uint64_t>(op.intValue())), reg);
  return vec_.constant(op);
}

V FunctionEmitter::elementwise(const Op &op, llvm::SmallVector<V, 3> args) {
  unsigned lanes = commonLanes(args);
  if (op.kind == OpKind::Asm)
    return assembly(op, args);
  if (op.kind == OpKind::Select && !args[0]->getType()->isVectorTy() && lanes > 1) {
    // A uniform condition stays scalar.
    return b_.CreateSelect(args[0], broadcast(args[1], lanes), broadcast(args[2], lanes));
  }
  if (op.kind == OpKind::And && args[0]->getType()->isIntOrIntVectorTy(1)) {
    for (unsigned i = 0; i < 2; ++i)
      if (auto *c = llvm::dyn_cast<llvm::ConstantInt>(args[i]))
        return c->isOne() ? args[1 - i] : c;
  }
  for (V &a : args)
    a = broadcast(a, lanes);
  const ir::Type &from = op.operands[0]->type, &to = op.results[0]->type;
  auto shaped = [&](llvm::Type *t) {
    return lanes == 1 ? t : static_cast<llvm::Type *>(llvm::FixedVectorType::get(t, lanes));
  };
  switch (op.kind) {
  case OpKind::SDiv: case OpKind::UDiv: case OpKind::SRem: case OpKind::URem:
    if (lanes > 1 && ir::bitWidth(from.elem) == 64 && !llvm::isa<llvm::Constant>(args[1]))
      state_.notVectorized(op,
                           "CPUs divide vectors of integers of up to 32 bits, by way of floats, and single ones of 64");
    break;
  case OpKind::FRem:
    if (lanes > 1 && !state_.target.fma)
      state_.notVectorized(op, "it is exact, which takes a function of the C library without fused multiply-adds");
    break;
  default:
    break;
  }
  switch (op.kind) {
  case OpKind::Select:
    return b_.CreateSelect(args[0], args[1], args[2]);
  case OpKind::AddPtr: {
    V o = b_.CreateSExtOrTrunc(args[1], shaped(b_.getInt64Ty()));
    unsigned bytes = std::max(1u, ir::byteWidth(to.elem));
    if (bytes > 1)
      o = b_.CreateMul(o, llvm::ConstantInt::get(o->getType(), bytes));
    return b_.CreateGEP(b_.getInt8Ty(), args[0], o);
  }
  case OpKind::IntToPtr:
    return b_.CreateIntToPtr(b_.CreateZExtOrTrunc(args[0], shaped(b_.getInt64Ty())), shaped(b_.getPtrTy()));
  case OpKind::PtrToInt:
    return b_.CreatePtrToInt(args[0], shaped(b_.getInt64Ty()));
  case OpKind::Bitcast:
    if (from.isPtr || to.isPtr) {
      if (from.isPtr && to.isPtr)
        return args[0];
      return from.isPtr ? b_.CreatePtrToInt(args[0], shaped(regType(to.scalarType())))
                        : b_.CreateIntToPtr(args[0], shaped(b_.getPtrTy()));
    }
    break;
  case OpKind::CmpI:
    if (from.isPtr) {
      V x = b_.CreatePtrToInt(args[0], shaped(b_.getInt64Ty())),
        y = b_.CreatePtrToInt(args[1], shaped(b_.getInt64Ty()));
      llvm::SmallVector<V, 2> ints{x, y};
      return vec_.elementwise(op, ints, ir::Elem::I64, ir::Elem::I1);
    }
    break;
  default:
    break;
  }
  return vec_.elementwise(op, args, from.elem, to.elem);
}

V FunctionEmitter::maskedScalarLoad(V pointer, const ir::Type &t, V mask, V other, bool isVolatile) {
  // Without a branch: a masked-off load reads scratch memory instead, which is always there.
  V p = mask ? b_.CreateSelect(mask, pointer, scratch_) : pointer;
  llvm::Align align(isVolatile && !t.isPtr ? ir::byteWidth(t.elem) : 1);
  if (!isVolatile)
    align = llvm::Align(t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem)));
  V x = fromMemory(b_.CreateAlignedLoad(memType(t), p, align, isVolatile), t);
  return mask && other ? b_.CreateSelect(mask, x, other) : x;
}

V FunctionEmitter::scalarLoad(const Op &op) {
  V p = scalar_.lookup(op.operands[0]);
  V mask = op.operands.size() > 1 ? scalar_.lookup(op.operands[1]) : nullptr;
  V other = op.operands.size() > 2 ? scalar_.lookup(op.operands[2]) : nullptr;
  guardAccess({p}, ir::byteWidth(op.results[0]->type.elem), mask, op);
  return maskedScalarLoad(p, op.results[0]->type, mask, other, op.isVolatile());
}

// Where code goes on after a branch at the insertion point, which may be in the middle of a finished block (a hoist
// point) or at the end of an open one. The current block is left open; resumeAt() goes on in the rest.
llvm::BasicBlock *FunctionEmitter::splitHere(const char *name) {
  llvm::BasicBlock *block = b_.GetInsertBlock();
  if (b_.GetInsertPoint() == block->end())
    return llvm::BasicBlock::Create(context_, name, function_);
  llvm::BasicBlock *rest = block->splitBasicBlock(b_.GetInsertPoint(), name);
  block->getTerminator()->eraseFromParent();
  b_.SetInsertPoint(block);
  return rest;
}

void FunctionEmitter::resumeAt(llvm::BasicBlock *rest) { b_.SetInsertPoint(rest, rest->getFirstInsertionPt()); }

llvm::AllocaInst *FunctionEmitter::onStack(llvm::Type *type) {
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::BasicBlock &entry = function_->getEntryBlock();
  b_.SetInsertPoint(&entry, entry.getFirstInsertionPt());
  return b_.CreateAlloca(type);
}

void FunctionEmitter::eachLane(unsigned lanes, const char *name, const char *behind, llvm::function_ref<void(V)> body) {
  llvm::BasicBlock *before = b_.GetInsertBlock(), *each = llvm::BasicBlock::Create(context_, name, function_),
                   *after = splitHere(behind);
  b_.CreateBr(each);
  b_.SetInsertPoint(each);
  llvm::PHINode *lane = b_.CreatePHI(b_.getInt64Ty(), 2);
  lane->addIncoming(b_.getInt64(0), before);
  body(lane);
  V next = b_.CreateAdd(lane, b_.getInt64(1));
  lane->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpNE(next, b_.getInt64(lanes)), each, after);
  resumeAt(after);
}

V FunctionEmitter::ifThen(V cond, llvm::Type *result, llvm::function_ref<V()> then, V otherwise) {
  llvm::BasicBlock *before = b_.GetInsertBlock();
  auto *yes = llvm::BasicBlock::Create(context_, "then", function_);
  llvm::BasicBlock *after = splitHere("after");
  b_.CreateCondBr(cond, yes, after);
  b_.SetInsertPoint(yes);
  V x = then();
  llvm::BasicBlock *end = b_.GetInsertBlock();
  b_.CreateBr(after);
  resumeAt(after);
  if (!result)
    return nullptr;
  llvm::PHINode *phi = b_.CreatePHI(result, 2);
  phi->addIncoming(otherwise ? otherwise : llvm::Constant::getNullValue(result), before);
  phi->addIncoming(x, end);
  return phi;
}

void FunctionEmitter::scalarStore(const Op &op) {
  V p = scalar_.lookup(op.operands[0]), x = scalar_.lookup(op.operands[1]);
  const ir::Type &t = op.operands[1]->type;
  V mask = op.operands.size() > 2 ? scalar_.lookup(op.operands[2]) : nullptr;
  guardAccess({p}, ir::byteWidth(t.elem), mask, op);
  auto store = [&]() -> V {
    b_.CreateAlignedStore(toMemory(x, t), p, llvm::Align(t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem))),
                          op.isVolatile());
    return nullptr;
  };
  if (mask)
    ifThen(mask, nullptr, store);
  else
    store();
}

V FunctionEmitter::numPrograms(unsigned axis) { return grid_[axis]; }

V FunctionEmitter::scalarOp(const Op &op) {
  auto arg = [&](unsigned i) { return scalar_.lookup(op.operands[i]); };
  switch (op.kind) {
  case OpKind::Const:
    return constant(op);
  case OpKind::Poison:
    return llvm::Constant::getNullValue(regType(op.results[0]->type));
  case OpKind::ProgramId:
    return pid_[op.axis()];
  case OpKind::NumPrograms:
    return numPrograms(static_cast<unsigned>(op.axis()));
  case OpKind::SmId:
    return b_.getInt32(0);
  case OpKind::Clock: {
    V clock =
        b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, clock)));
    return b_.CreateCall(llvm::FunctionType::get(b_.getInt64Ty(), false), clock);
  }
  case OpKind::Load:
    return scalarLoad(op);
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas: {
    llvm::SmallVector<V, 3> rest;
    for (unsigned i = 1; i < op.operands.size(); ++i)
      rest.push_back(arg(i));
    V mask = op.mask() ? rest.pop_back_val() : nullptr;
    return maskedAtomic(op, arg(0), rest, mask);
  }
  default: {
    llvm::SmallVector<V, 3> args;
    for (const ir::Value *v : op.operands)
      args.push_back(scalar_.lookup(v));
    return elementwise(op, args);
  }
  }
}

llvm::SmallVector<V, 4> FunctionEmitter::combine(const ir::Region &r, llvm::ArrayRef<V> args) {
  if (auto planned = plan_.regions.find(&r); planned != plan_.regions.end())
    return combineLanes(r, planned->second, args);
  llvm::DenseMap<const ir::Value *, V> env;
  for (size_t i = 0; i < args.size(); ++i)
    env[r.block->args[i]] = args[i];
  auto out = combineBlock(*r.block, env);
  // A result may be a literal.
  for (V &x : out)
    x = broadcast(x, commonLanes(args));
  return out;
}

// A region with loops or calls: its steps, for one lane.
llvm::SmallVector<V, 4> FunctionEmitter::combineScalars(const ir::Region &r, const Steps &s, llvm::ArrayRef<V> args) {
  NestState *nest = nest_;
  const size_t mixed = mixed_.mark();
  nest_ = nullptr;
  for (size_t i = 0; i < args.size(); ++i)
    scalar_[r.block->args[i]] = args[i];
  steps(s);
  nest_ = nest;
  mixed_.backTo(mixed);
  llvm::SmallVector<V, 4> out;
  for (const ir::Value *v : r.block->terminator()->operands)
    out.push_back(scalar_.lookup(v));
  return out;
}

// The same for all lanes, one after the other in a loop; vectors go through the stack.
llvm::SmallVector<V, 4> FunctionEmitter::combineLanes(const ir::Region &r, const Steps &s, llvm::ArrayRef<V> args) {
  unsigned lanes = commonLanes(args);
  if (lanes == 1)
    return combineScalars(r, s, args);
  state_.notVectorized(*r.op, "its function has a loop, a branch or a call");
  llvm::SmallVector<V, 8> slots;
  for (size_t i = 0; i < args.size(); ++i)
    slots.push_back(onStack(llvm::FixedVectorType::get(memType(r.block->args[i]->type), lanes)));
  for (size_t i = 0; i < args.size(); ++i)
    b_.CreateStore(toMemory(broadcast(args[i], lanes), r.block->args[i]->type), slots[i]);
  llvm::SmallVector<V, 4> out;
  eachLane(lanes, "lane", "lanes", [&](V lane) {
    auto element = [&](size_t i) { return b_.CreateGEP(memType(r.block->args[i]->type), slots[i], lane); };
    llvm::SmallVector<V, 8> one;
    for (size_t i = 0; i < args.size(); ++i) {
      const ir::Type &t = r.block->args[i]->type;
      one.push_back(fromMemory(b_.CreateLoad(memType(t), element(i)), t));
    }
    out = combineScalars(r, s, one);
    for (size_t i = 0; i < out.size(); ++i) // in the place of the left arguments
      b_.CreateStore(toMemory(out[i], r.block->args[i]->type), element(i));
  });
  for (size_t i = 0; i < out.size(); ++i) {
    const ir::Type &t = r.block->args[i]->type;
    out[i] = fromMemory(b_.CreateLoad(llvm::FixedVectorType::get(memType(t), lanes), slots[i]), t);
  }
  return out;
}

// Both arms of an `if` are computed: a combine region has no effects, so a select per result is the same.
llvm::SmallVector<V, 4> FunctionEmitter::combineBlock(const ir::Block &block,
                                                      llvm::DenseMap<const ir::Value *, V> &env) {
  auto value = [&](const ir::Value *v) {
    auto it = env.find(v);
    return it != env.end() ? it->second : scalar_.lookup(v);
  };
  for (const Op *op : block.ops) {
    setLoc(op);
    llvm::SmallVector<V, 3> args;
    for (const ir::Value *v : op->operands)
      args.push_back(value(v));
    switch (op->kind) {
    case OpKind::Yield:
      return llvm::SmallVector<V, 4>(args.begin(), args.end());
    case OpKind::If: {
      auto yes = combineBlock(*op->regions[0]->block, env), no = combineBlock(*op->regions[1]->block, env);
      for (size_t i = 0; i < op->results.size(); ++i) {
        unsigned lanes = commonLanes({args[0], yes[i], no[i]});
        env[op->results[i]] = b_.CreateSelect(args[0], broadcast(yes[i], lanes), broadcast(no[i], lanes));
      }
      break;
    }
    case OpKind::Const:
      env[op->results[0]] = constant(*op);
      break;
    case OpKind::Poison:
      env[op->results[0]] = llvm::Constant::getNullValue(regType(op->results[0]->type));
      break;
    case OpKind::Assert: case OpKind::Print: case OpKind::Assume:
      break; // allowed, count unspecified
    default:
      env[op->results[0]] = elementwise(*op, args);
    }
  }
  return {};
}

} // namespace tegula::cpu
