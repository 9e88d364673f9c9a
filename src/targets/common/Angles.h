// Sine and cosine of float in float arithmetic, in parts: GPUs do double at half the rate or less, and emit the
// arguments that are out of reach of three parts of pi/2 once for many elements (targets/nvidia/lower/LowerAngles.cpp).
// CPUs take MathTrig.cpp's functions through emitMath.
#pragma once
#include "targets/common/Vec.h"

namespace tegula::targets {

/// x = n * pi/2 + rest: `quadrant` has n in its low two bits (i32), `rest` is a float of at most pi/4 (and a little).
struct Angle {
  llvm::Value *quadrant, *rest;
};

/// The angles of a tile, for the other one of its sine and cosine in the same block. Holds nothing while `of` is null.
struct ReducedTile {
  const ir::Block *block = nullptr;
  const ir::Value *of = nullptr;
  llvm::SmallVector<Angle, 8> angles;
};

/// From here on reduceAngle does not hold.
constexpr double largeFloatArgument = 0x1p17;
/// i1: reduceAngle does not hold, as x is too large. Not so of infinity and NaN, whose results are NaN either way.
llvm::Value *isLargeAngle(VecEmitter &v, llvm::Value *x);
/// A scalar float, straight line code.
Angle reduceAngle(VecEmitter &v, llvm::Value *x);
/// Where isLargeAngle(x) (`isLarge`); elsewhere `otherwise`. A call of a function that is slow.
Angle reduceLargeAngle(VecEmitter &v, llvm::Value *x, llvm::Value *isLarge, Angle otherwise);
/// Sine or cosine within 2 ulp. What the two of one angle share is the same code.
llvm::Value *sineOrCosine(VecEmitter &v, ir::OpKind kind, llvm::Value *x, Angle a);

/// CPUs: where a block has the sine and the cosine of one float, or vector of floats, what the two calls share is one
/// call, and the rest stands in line. Same results; calls of a module that is not optimized yet.
void joinAngles(llvm::Module &m, const VecTarget &target);

} // namespace tegula::targets
