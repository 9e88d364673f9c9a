// The element-wise operations that NVIDIA GPUs do by an instruction of their own: what VecEmitter asks first in its
// nvptx flavour. Each function gives null where there is no such instruction, or none with the right result; then the
// code for all targets serves.
#pragma once
#include "targets/common/Vec.h"
#include <array>

namespace tegula::targets {

/// fmin, fmax of PTX: -0 < +0; a NaN loses (MinNum, MaxNum) or wins (Minimum, Maximum).
llvm::Value *nvptxMinMax(VecEmitter &v, ir::OpKind kind, llvm::Value *x, llvm::Value *y);
llvm::Value *nvptxWiden(VecEmitter &v, llvm::Value *x, ir::Elem from);
/// Pairs of elements take one instruction: give vectors where the caller has them.
llvm::Value *nvptxNarrow(VecEmitter &v, llvm::Value *x, ir::Elem to, bool towardZero);
llvm::Value *nvptxFloatToInt(VecEmitter &v, llvm::Value *x, unsigned bits, bool isSigned);
llvm::Value *nvptxIntToFloat(VecEmitter &v, llvm::Value *x, ir::Elem to, bool isSigned);
/// Quotient, or remainder, of scalars of 32 bits: unlike LLVM's instruction without a precaution against zero, which
/// gives some number.
llvm::Value *nvptxDivide(VecEmitter &v, llvm::Value *x, llvm::Value *y, bool isSigned, bool isRem);
/// Shifts as PTX does them: by the width and more nothing is left but the sign.
llvm::Value *nvptxShift(VecEmitter &v, ir::OpKind kind, llvm::Value *x, llvm::Value *amount);
/// Elementary functions within 2 ulp; `approx`: a division or root that may be as far off, an exp
/// with the error of the product x log2 e.
llvm::Value *nvptxMath(VecEmitter &v, ir::OpKind kind, llvm::Value *x);
/// 1 / x of floats, within 1 ulp; subnormal numbers count as zero.
llvm::Value *nvptxReciprocal(VecEmitter &v, llvm::Value *x);
/// Operations that are marked `fast`: one instruction, and a product where the instruction has another base.
llvm::Value *nvptxFast(VecEmitter &v, ir::OpKind kind, llvm::ArrayRef<llvm::Value *> x);
llvm::Value *nvptxApprox(VecEmitter &v, ir::OpKind divSqrtOrExp, llvm::ArrayRef<llvm::Value *> x);

/// The word and the half of it (0 low, 1 high) that a 16-bit element was taken from, as loads leave them; null if it
/// was not.
std::pair<llvm::Value *, unsigned> halfOfWord(llvm::Value *x);
/// The i32 whose bits were taken apart into a vector, and which element of that vector `x` is; null if it is none. On
/// any target.
std::pair<llvm::Value *, unsigned> placeInWord(llvm::Value *x);
/// The word that these elements, of 32 bits together, are in order; null if they are none. On any target.
llvm::Value *wordOf(llvm::ArrayRef<llvm::Value *> elements);
/// The 16 bits that two bytes are in order: both halves of one i16, or neighbours in a word (made at the builder); null
/// if they are none. On any target.
llvm::Value *halfWordOf(llvm::IRBuilder<> &b, llvm::Value *low, llvm::Value *high);
/// The integer that these elements make in order, the first lowest: a word they were taken from, one conversion of each
/// two floats they were narrowed from, or a vector put together. On any target.
llvm::Value *packWord(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> elements);
/// Bytes of the words `a` (0..3) and `c` (4..7), the lowest of the result first in `bytes`.
llvm::Value *nvptxPickBytes(VecEmitter &v, llvm::Value *a, llvm::Value *c, std::array<uint8_t, 4> bytes);
/// x + y, x - y, x * y or x * y + z (FAdd, FSub, FMul, Fma) of the two f16 or bf16 in each of these words, rounded
/// once.
llvm::Value *nvptxPairArithmetic(VecEmitter &v, ir::OpKind kind, llvm::ArrayRef<llvm::Value *> words, ir::Elem e);
/// x * y + z of f16 or bf16 (an i16 each), rounded once.
llvm::Value *nvptxNarrowFma(VecEmitter &v, llvm::ArrayRef<llvm::Value *> x, ir::Elem e);
/// The f16 pairs of the four e4m3 in a word (sm_89).
std::array<llvm::Value *, 2> nvptxWidenE4m3(VecEmitter &v, llvm::Value *word);
/// Minimum or maximum of both bf16 halves of two words.
llvm::Value *nvptxMinMaxBf16x2(VecEmitter &v, ir::OpKind kind, llvm::Value *x, llvm::Value *y);

} // namespace tegula::targets
