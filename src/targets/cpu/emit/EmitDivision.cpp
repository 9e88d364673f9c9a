// Divisions by a loop-invariant number, as products with its reciprocal, which is computed where the number is.
#include "targets/cpu/emit/Emitter.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

// A quotient or remainder of 32-bit integers, in 64-bit floats. Null: it is none. The reciprocal is a little too large,
// (1 + 2^-52) / y at least, 1 + 2^-50 at most. So the rounded product is not less than a quotient that is an integer,
// and one that is none lies a part of 1 / x >= 2^-32 below the next integer at least, more than 2^-50.
V FunctionEmitter::divideByOneNumber(const Op &op, llvm::ArrayRef<V> args, const Bits &at) {
  const bool isSigned = op.kind == OpKind::SDiv || op.kind == OpKind::SRem,
             isRemainder = op.kind == OpKind::SRem || op.kind == OpKind::URem;
  if ((!isSigned && op.kind != OpKind::UDiv && op.kind != OpKind::URem) || op.results[0]->type.elem != ir::Elem::I32)
    return nullptr;
  V x = args[0], y = args[1];
  const bool vector = x->getType()->isVectorTy();
  auto known = lin_.find(op.operands[1]);
  const unsigned depth = known != lin_.end() && known->second.uniform() ? 0 : std::min(depthOf(at), nest_->open);
  if (y->getType()->isVectorTy() || llvm::isa<llvm::Constant>(y) || depth >= nest_->depth ||
      (vector ? !isSigned && !state_.target.avx512 : !vec_.target.x86))
    return nullptr;
  llvm::Type *real = b_.getDoubleTy(), *wide = b_.getInt64Ty();
  V reciprocal = atDepth(depth, [&] {
    V one = b_.CreateFDiv(llvm::ConstantFP::get(real, 1),
                          isSigned ? b_.CreateSIToFP(y, real) : b_.CreateSIToFP(b_.CreateZExt(y, wide), real));
    return b_.CreateFMul(one, llvm::ConstantFP::get(real, 1 + 0x1p-51));
  });
  V q;
  if (vector) {
    real = llvm::VectorType::get(real, llvm::cast<llvm::VectorType>(x->getType()));
    q = b_.CreateFMul(isSigned ? b_.CreateSIToFP(x, real) : b_.CreateUIToFP(x, real),
                      broadcast(reciprocal, nest_->lanes()));
    // by zero, and INT_MIN / -1: some value
    q = b_.CreateFreeze(isSigned ? b_.CreateFPToSI(q, x->getType()) : b_.CreateFPToUI(q, x->getType()));
  } else {
    q = b_.CreateFMul(b_.CreateSIToFP(isSigned ? x : b_.CreateZExt(x, wide), real), reciprocal);
    q = isSigned ? b_.CreateFPToSI(q, x->getType()) : b_.CreateTrunc(b_.CreateFPToSI(q, wide), x->getType());
    q = b_.CreateFreeze(q);
  }
  return isRemainder ? b_.CreateSub(x, b_.CreateMul(q, vector ? broadcast(y, nest_->lanes()) : y)) : q;
}

namespace {

/// What a nest computes for each vector: quotients of floats, and instructions beside them.
struct Work {
  unsigned quotients = 0, instructions = 0;
};

unsigned instructionsOf(const Op &op) {
  switch (op.kind) {
  case OpKind::FpTrunc:
    return ir::isFp8(op.results[0]->type.elem) ? 30 : op.results[0]->type.elem == ir::Elem::BF16 ? 12 : 2;
  case OpKind::FpToSI: case OpKind::FpToUI:
    return 8;
  case OpKind::Sqrt:
    return 2;
  default:
    return opCost(op);
  }
}

/// Adds that of `v` and of what it is computed from. Addresses and masks, which most vectors have none of, do not
/// count.
void addWork(const Plan &plan, const ir::Value *v, bool fromOperands, llvm::SmallPtrSetImpl<const ir::Value *> &seen,
             Work &work) {
  if (!v->def || !v->type.isTensor() || v->type.isPtr || v->type.elem == ir::Elem::I1 || !seen.insert(v).second)
    return;
  const Op &op = *v->def;
  if (op.kind == OpKind::Load || (!fromOperands && plan.bufferFor(v) >= 0)) {
    ++work.instructions;
    return;
  }
  if (op.kind == OpKind::FDiv)
    ++work.quotients;
  else
    work.instructions += instructionsOf(op);
  for (const ir::Value *operand : op.operands)
    addWork(plan, operand, false, seen, work);
}

/// The divider takes five cycles for eight floats on Intel's cores since Ice Lake and ten for sixteen (`wide`).
/// Meanwhile two ports execute ten or twenty other instructions. With that many others a division is free, and the
/// three products that replace it are not.
bool waitsForDivider(const Plan &plan, const Nest &nest, bool wide) {
  Work work;
  llvm::SmallPtrSet<const ir::Value *, 32> seen;
  for (const Root &r : nest.roots)
    for (const ir::Value *v : r.asked())
      addWork(plan, v, r.kind == RootKind::Materialize && r.makes, seen, work);
  return work.instructions + 3 * work.quotients < (wide ? 20 : 10) * work.quotients;
}

} // namespace

// A quotient of floats of which two units in the last place are allowed, as a sum of products (Divisor.h). Null: it is
// none, or the nest is not faster for it: what is done before the loop takes as long as a few hundred quotients.
V FunctionEmitter::divideByOneFloat(const Op &op, llvm::ArrayRef<V> args, Bits at) {
  V x = args[0], y = args[1];
  if (!op.approx() || op.results[0]->type.elem != ir::Elem::F32 || !x->getType()->isVectorTy() ||
      y->getType()->isVectorTy() || !targets::hasDivisors(vec_))
    return nullptr;
  NestState &n = *nest_;
  if (auto *constant = llvm::dyn_cast<llvm::ConstantFP>(y)) {
    if (constant->getValueAPF().getExactInverse(nullptr)) // one product is exact, and LLVM uses it
      return nullptr;
  } else {
    const ir::Value *source = op.operands[1];
    for (; source->def && source->def->has(ir::traits::Shape) && source->def->operands.size() == 1;
         source = source->def->operands[0])
      at = operandBits(*source->def, 0, source->index, at);
    const unsigned depth = std::min(depthOf(at), n.open);
    // of the positions that one divisor is for, at most
    unsigned bits = n.laneBits + static_cast<unsigned>(n.unrolled.size());
    for (unsigned d = depth; d < n.depth; ++d)
      bits += n.loops[d].bits;
    if (depth >= n.depth || bits < 9)
      return nullptr;
  }
  if (!n.waitsForDivider)
    n.waitsForDivider = waitsForDivider(plan_, *n.nest, state_.target.avx512);
  if (!*n.waitsForDivider)
    return nullptr;
  targets::Divisor &d = divisors_[y];
  if (!d.high) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    insertBehindDef(y);
    d = targets::divisorOf(vec_, y);
  }
  return targets::divideBy(vec_, x,
                           {broadcast(d.scale, n.lanes()), broadcast(d.high, n.lanes()), broadcast(d.low, n.lanes())});
}

} // namespace tegula::cpu
