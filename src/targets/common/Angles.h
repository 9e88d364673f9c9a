// Sine and cosine of float in float arithmetic, in separate steps. GPUs compute double at half the rate or less, and
// emit the reduction of arguments too large for three parts of pi/2 once for many elements
// (targets/nvidia/lower/LowerAngles.cpp). CPUs use MathTrig.cpp's functions through emitMath.
#pragma once
#include "targets/common/Vec.h"

namespace tegula::targets {

/// x = n * pi/2 + rest: `quadrant` (i32) has n in its low two bits, `rest` is a float of magnitude pi/4 or slightly
/// above.
struct Angle {
  llvm::Value *quadrant, *rest;
};

/// The reduced angles of a tile, shared between its sine and its cosine in the same block. Empty while `of` is null.
struct ReducedTile {
  const ir::Block *block = nullptr;
  const ir::Value *of = nullptr;
  llvm::SmallVector<Angle, 8> angles;
};

/// reduceAngle is not accurate for arguments of this magnitude or above.
constexpr double largeFloatArgument = 0x1p17;
/// i1: x is too large for reduceAngle. False for infinity and NaN, whose results are NaN either way.
llvm::Value *isLargeAngle(VecEmitter &v, llvm::Value *x);
/// Reduces a scalar float, in straight-line code.
Angle reduceAngle(VecEmitter &v, llvm::Value *x);
/// Reduces x where `isLarge` (isLargeAngle(x)) holds; elsewhere returns `otherwise`. Calls a slow function.
Angle reduceLargeAngle(VecEmitter &v, llvm::Value *x, llvm::Value *isLarge, Angle otherwise);
/// Sine or cosine within 2 ulp. The sine and cosine of one angle share common code.
llvm::Value *sineOrCosine(VecEmitter &v, ir::OpKind kind, llvm::Value *x, Angle a);

/// CPUs: where a block computes both sine and cosine of the same float or float vector, moves the work that the two
/// calls share into one call, and inlines the rest. Results do not change. Run it before the module is optimized.
void joinAngles(llvm::Module &m, const VecTarget &target);

} // namespace tegula::targets
