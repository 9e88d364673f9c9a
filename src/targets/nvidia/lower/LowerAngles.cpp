// Sine and cosine of float tiles. Arguments beyond 2^17 take a slow function, and a branch around it for each element
// would cut the code into blocks that are too short to schedule: the elements of a tile share one branch, or have none
// if they are known to be small (passes/Magnitude.h). The sine and the cosine of a value share its reduction.
#include "passes/Magnitude.h"
#include "targets/common/Angles.h"
#include "targets/nvidia/lower/Lower.h"

namespace tegula::nvidia {

using targets::Angle;

std::optional<Regs> Lowering::sineOrCosine(const Op &op) {
  if ((op.kind != ir::OpKind::Sin && op.kind != ir::OpKind::Cos) || op.result()->type.elem != ir::Elem::F32 ||
      op.fast())
    return std::nullopt;
  const Value *of = op.operands[0];
  const Regs &x = get(of);
  auto waves = [&](llvm::ArrayRef<Angle> angles) {
    Regs out;
    for (size_t k = 0; k < x.size(); ++k)
      out.push_back(targets::sineOrCosine(*vec_, op.kind, x[k], angles[k]));
    return out;
  };
  if (lastAngles_.block == op.parent && lastAngles_.of == of)
    return waves(lastAngles_.angles);
  llvm::SmallVector<Angle, 8> small;
  for (V e : x)
    small.push_back(targets::reduceAngle(*vec_, e));
  // Scalars may be of a reduction's region, which is lowered many times with other values.
  auto keep = [&](const llvm::SmallVector<Angle, 8> &angles) {
    if (!of->type.isScalar())
      lastAngles_ = {op.parent, of, angles};
    return waves(angles);
  };
  if (magnitude(of) < targets::largeFloatArgument)
    return keep(small);
  llvm::SmallVector<V, 8> isLarge;
  V any = nullptr;
  for (V e : x) {
    isLarge.push_back(targets::isLargeAngle(*vec_, e));
    any = any ? b_.CreateOr(any, isLarge.back()) : isLarge.back();
  }
  llvm::BasicBlock *before = b_.GetInsertBlock(), *large = newBlock("large"), *done = newBlock("angles");
  b_.CreateCondBr(any, large, done);
  b_.SetInsertPoint(large);
  llvm::SmallVector<Angle, 8> all;
  for (size_t k = 0; k < x.size(); ++k)
    all.push_back(targets::reduceLargeAngle(*vec_, x[k], isLarge[k], small[k]));
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  auto join = [&](V fast, V slow) -> V {
    llvm::PHINode *phi = b_.CreatePHI(fast->getType(), 2);
    phi->addIncoming(fast, before);
    phi->addIncoming(slow, large);
    return phi;
  };
  for (size_t k = 0; k < x.size(); ++k) {
    V quadrant = join(small[k].quadrant, all[k].quadrant);
    all[k] = {quadrant, join(small[k].rest, all[k].rest)};
  }
  return keep(all);
}

} // namespace tegula::nvidia
