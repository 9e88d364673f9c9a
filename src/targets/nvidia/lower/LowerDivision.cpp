// Quotients and remainders of tiles of 64-bit integers. Where indices are 64 bits wide for the sake of large tensors,
// nearly all of them fit 32: the threads whose operands do divide those, a quarter of the instructions or less. The
// elements of a tile share one branch, which keeps the blocks long enough to be scheduled (as in LowerAngles.cpp).
#include "targets/common/VecUtil.h"
#include "targets/nvidia/lower/Lower.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace tegula::nvidia {

using ir::OpKind;

/// Divides pair after pair in a loop, so that few registers and little text go to what seldom runs, and branches to
/// `done`. The numbers move up by one in each round, and the result takes the last place: after as many rounds as there
/// are pairs all results are in order. The block from which `done` is reached.
llvm::BasicBlock *Lowering::divideInTurn(OpKind kind, llvm::ArrayRef<std::pair<V, V>> pairs, llvm::BasicBlock *done,
                                         llvm::SmallVectorImpl<V> &results) {
  const auto n = static_cast<unsigned>(pairs.size());
  const bool oneDivisor = llvm::all_of(pairs, [&](auto &p) { return p.second == pairs[0].second; });
  // LLVM would compute its reciprocal before a loop around this, where it takes registers from those who never use it.
  V divisor = oneDivisor ? in_->opaque(pairs[0].second) : nullptr;
  if (n == 1) {
    results.push_back(targets::emitIntDivRem(*vec_, kind, pairs[0].first, divisor));
    b_.CreateBr(done);
    return b_.GetInsertBlock();
  }
  llvm::BasicBlock *before = b_.GetInsertBlock(), *round = newBlock("round");
  b_.CreateBr(round);
  b_.SetInsertPoint(round);
  auto carried = [&](llvm::Type *type, V first) {
    llvm::PHINode *phi = b_.CreatePHI(type, 2);
    phi->addIncoming(first, before);
    return phi;
  };
  llvm::PHINode *count = carried(b_.getInt32Ty(), b_.getInt32(0));
  llvm::SmallVector<llvm::PHINode *, 16> x, y;
  for (auto &[dividend, by] : pairs) {
    x.push_back(carried(dividend->getType(), dividend));
    if (!oneDivisor)
      y.push_back(carried(by->getType(), by));
  }
  V result = targets::emitIntDivRem(*vec_, kind, x[0], oneDivisor ? divisor : y[0]),
    next = b_.CreateAdd(count, b_.getInt32(1));
  llvm::BasicBlock *end = b_.GetInsertBlock();
  count->addIncoming(next, end);
  for (unsigned k = 0; k < n; ++k) {
    results.push_back(k + 1 < n ? V(x[k + 1]) : result);
    x[k]->addIncoming(results.back(), end);
    if (!oneDivisor)
      y[k]->addIncoming(y[(k + 1) % n], end);
  }
  keepRolled(b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(n)), round, done));
  return end;
}

std::optional<Regs> Lowering::divideWide(const Op &op) {
  const bool isDivision =
      op.kind == OpKind::SDiv || op.kind == OpKind::UDiv || op.kind == OpKind::SRem || op.kind == OpKind::URem;
  if (!isDivision || op.result()->type.isScalar() || op.result()->type.elem != ir::Elem::I64)
    return std::nullopt;
  const Regs &x = get(op.operands[0]), &y = get(op.operands[1]);
  // LLVM divides by constants without a division.
  if (llvm::any_of(y, [](V v) { return llvm::isa<llvm::Constant>(v); }))
    return std::nullopt;
  llvm::SmallVector<unsigned, 16> equal = equalRegisters(op.result());
  auto pairOf = [&](size_t i) {
    return std::pair<V, V>(x[equal.empty() ? i : equal[i]], y[equal.empty() ? i : equal[i]]);
  };
  llvm::SmallMapVector<std::pair<V, V>, V, 16> quotients;
  llvm::SmallSetVector<V, 16> operands;
  for (size_t i = 0; i < x.size(); ++i) {
    quotients.insert({pairOf(i), nullptr});
    operands.insert(pairOf(i).first);
    operands.insert(pairOf(i).second);
  }
  // Numbers that are negative do not fit either.
  V bits = nullptr;
  for (V v : operands)
    bits = bits ? b_.CreateOr(bits, v) : v;
  llvm::Type *word = b_.getInt32Ty(), *wide = b_.getInt64Ty();
  llvm::BasicBlock *narrow = newBlock("narrow"), *full = newBlock("wide"), *done = newBlock("quotients");
  b_.CreateCondBr(b_.CreateICmpULE(bits, b_.getInt64(UINT32_MAX)), narrow, full);
  llvm::SmallVector<V, 16> fast, slow;
  b_.SetInsertPoint(narrow);
  const OpKind unsignedKind = op.kind == OpKind::SDiv || op.kind == OpKind::UDiv ? OpKind::UDiv : OpKind::URem;
  for (auto &[pair, quotient] : quotients)
    fast.push_back(b_.CreateZExt(targets::emitIntDivRem(*vec_, unsignedKind, b_.CreateTrunc(pair.first, word),
                                                        b_.CreateTrunc(pair.second, word)),
                                 wide));
  b_.CreateBr(done);
  b_.SetInsertPoint(full);
  llvm::SmallVector<std::pair<V, V>, 16> pairs;
  for (auto &[pair, quotient] : quotients)
    pairs.push_back(pair);
  full = divideInTurn(op.kind, pairs, done, slow);
  b_.SetInsertPoint(done);
  for (size_t k = 0; auto &[pair, quotient] : quotients) {
    llvm::PHINode *phi = b_.CreatePHI(wide, 2);
    phi->addIncoming(fast[k], narrow);
    phi->addIncoming(slow[k++], full);
    quotient = phi;
  }
  Regs out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back(quotients.lookup(pairOf(i)));
  return out;
}

} // namespace tegula::nvidia
