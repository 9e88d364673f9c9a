// Emits single element-wise operations on registers, for the emitters of all targets. CPUs pass native vectors, GPUs
// pass scalars.
//
// The representation of elements in LLVM values, in all targets: i1 -> i1; ints -> iN; f32, f64 -> float, double;
// f16 and bf16 -> i16 (their bits); fp8 -> i8 (their bits); pointers -> ptr. A value is a scalar or a fixed vector of
// these; every function here takes either and returns the same shape. In memory i1 is one byte, 0 or 1.
#pragma once
#include "ir/Ir.h"
#include "llvm/IR/IRBuilder.h"

namespace tegula::targets {

/// The properties of the machine that element-wise operations depend on. Exactly one of the first three is set.
struct VecTarget {
  bool x86 = false, aarch64 = false, nvptx = false;
  bool gpu = false; // code of a GPU kernel: nvptx, or for the simulator
  bool fma = false, f16c = false; // instructions for float and double; half <-> float
  bool fp8 = false;               // nvptx: has conversions float -> e4m3, e5m2, and from these to half
  bool libm = true;               // fmod may be called
  bool avx2 = false, avx512 = false;
  bool fpFusion = true; // a*b+c may become fma (within one kernel expression)
  bool keepsSubnormals = false; // nvptx: exp2 and fast functions do not flush them to zero
};

struct VecEmitter {
  llvm::IRBuilder<> &b;
  VecTarget target;

  /// LLVM element type of an Elem in registers.
  llvm::Type *elemType(ir::Elem e) const;
  /// elemType, or a vector of n of it (n = 1: the scalar).
  llvm::Type *vecType(ir::Elem e, unsigned n) const;

  /// Any op with the Elementwise trait except AddPtr, IntToPtr, PtrToInt and Select: `args` are the operands in
  /// registers, `argElem` the element kind of operand 0, `resElem` of the result, `op` gives kind and attributes.
  /// Covers integer and float arithmetic (narrow floats: widened to f32, computed, rounded once), comparisons, min/max,
  /// casts incl. fp8/bf16/f16, elementary functions.
  /// One operation on floats of 16 bits or less, rounded once: MinNum, FAdd ...
  llvm::Value *narrowOperation(ir::OpKind kind, llvm::Value *x, llvm::Value *y, ir::Elem e);
  llvm::Value *elementwise(const ir::Op &op, llvm::ArrayRef<llvm::Value *> args, ir::Elem argElem, ir::Elem resElem);

  /// The value of a `const` op of an int or float element, as a scalar.
  llvm::Value *constant(const ir::Op &op);

  /// f16/bf16/fp8 bits -> float (exact); f32/f64 pass through.
  llvm::Value *widen(llvm::Value *x, ir::Elem from);
  /// float -> narrow bits, nearest even, or toward zero. The fp8 formats saturate, infinities included; NaN stays NaN
  /// (f8e4b15 has none: it gets 0x7F, the largest number). The fnuz formats have no negative zero: it becomes zero.
  llvm::Value *narrow(llvm::Value *x, ir::Elem to, bool towardZero = false);
};

} // namespace tegula::targets
