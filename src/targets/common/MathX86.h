// Parts of Math.cpp for x86 with AVX2 or AVX-512.
#pragma once
#include "targets/common/VecUtil.h"

namespace tegula::targets {

/// exp, exp2, tanh, log or log2 of float (scalar or vector) within 2 ulp; null for other functions, types and machines;
/// Math.cpp computes those.
llvm::Value *emitMathX86(VecEmitter &v, ir::OpKind kind, llvm::Value *x);

/// AVX-512: x * 2^floor(n), rounded once, for float or double of any number of lanes; 0 where `nonzero` (i1 of each
/// lane; null: nowhere) is false.
llvm::Value *emitScale(VecEmitter &v, llvm::Value *x, llvm::Value *n, llvm::Value *nonzero);

/// AVX-512: the square root of a vector of float, correctly rounded; null for other types and machines, which use a
/// single instruction.
llvm::Value *emitSqrtX86(VecEmitter &v, llvm::Value *x);

/// AVX2: a vector of float -> i32, saturating, NaN -> 0.
llvm::Value *emitToIntX86(VecEmitter &v, llvm::Value *x);

/// AVX2, which has no 64-bit conversions: a vector of double -> i64, saturating, NaN -> 0; and a vector of i64 ->
/// double, correctly rounded.
llvm::Value *emitToLongX86(VecEmitter &v, llvm::Value *x), *emitFromLongX86(VecEmitter &v, llvm::Value *x);

} // namespace tegula::targets
