// C's fmod, exact. By integer arithmetic, for machines without a C library: the remainder of x = m 2^e by y = n 2^f is
// (m 2^(e-f) mod n) 2^f: the power is multiplied in as many digits at a time as fit 64 bits. Of vectors on CPUs: by one
// division where quotients are small, else by the C library. One internal function per type.
#include "targets/common/VecUtil.h"
#include "llvm/IR/Module.h"

namespace tegula::targets {
namespace {

using V = llvm::Value *;

class FmodEmitter : public Arith {
public:
  FmodEmitter(VecEmitter &v, llvm::Function *f) : Arith(v), emitter(v), fn(f), x(f->getArg(0)), y(f->getArg(1)) {
    digits = x->getType()->isDoubleTy() ? 52 : 23;
    bias = x->getType()->isDoubleTy() ? 1023 : 127;
  }
  void body();

private:
  VecEmitter &emitter;
  llvm::Function *fn;
  V x, y;
  unsigned digits, bias;

  struct Parts {
    V significand, exponent; // i64; value = significand * 2^(exponent - bias - digits)
  };
  Parts split(V z);
  V timesPower(V integer, V exponent);
  /// n is not zero.
  V remainder(V m, V n) {
    return emitter.target.nvptx ? emitIntDivRem(emitter, ir::OpKind::URem, m, n) : b.CreateURem(m, n);
  }
  llvm::BasicBlock *block(const char *name) { return llvm::BasicBlock::Create(fn->getContext(), name, fn); }
};

FmodEmitter::Parts FmodEmitter::split(V z) {
  V bits = b.CreateZExt(bitsOf(fabs(z)), b.getInt64Ty());
  V exponent = lshr(bits, digits), fraction = and_(bits, (1ull << digits) - 1);
  V isSubnormal = b.CreateICmpEQ(exponent, i(exponent, 0));
  return {b.CreateSelect(isSubnormal, fraction, or_(fraction, 1ull << digits)),
          b.CreateSelect(isSubnormal, i(exponent, 1), exponent)};
}

/// integer * 2^(exponent - bias - digits), which is a number of the format: exact. Two factors, as one may be too
/// small.
V FmodEmitter::timesPower(V integer, V exponent) {
  // exponent - bias - digits = first + second with first >= 1 - bias, second >= -digits.
  V first = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, sub(exponent, bias + digits),
                                    i(exponent, 1 - static_cast<int64_t>(bias)));
  V second = b.CreateSub(sub(exponent, bias + digits), first);
  auto power = [&](V n) {
    V bits = shl(add(n, bias), digits);
    return floatOf(digits == 52 ? bits : b.CreateTrunc(bits, b.getInt32Ty()));
  };
  return b.CreateFMul(b.CreateFMul(b.CreateUIToFP(integer, x->getType()), power(first)), power(second));
}

void FmodEmitter::body() {
  auto *special = block("special"), *divide = block("divide"), *loop = block("loop"), *step = block("step"),
       *done = block("done");
  V ax = fabs(x), ay = fabs(y);
  V infinity = f(x, __builtin_inf());
  // Finite x, y neither 0 nor NaN, |x| >= |y|.
  V regular =
      b.CreateAnd(b.CreateAnd(b.CreateFCmpOGE(ax, ay), b.CreateFCmpOLT(ax, infinity)), b.CreateFCmpOGT(ay, f(y, 0)));
  b.CreateCondBr(regular, divide, special);

  b.SetInsertPoint(special);
  V isSmaller = b.CreateAnd(b.CreateFCmpOLT(ax, ay), b.CreateFCmpOLT(ax, infinity));
  b.CreateRet(b.CreateSelect(isSmaller, x, f(x, __builtin_nan(""))));

  b.SetInsertPoint(divide);
  Parts p = split(x), q = split(y);
  V first = remainder(p.significand, q.significand), distance = b.CreateSub(p.exponent, q.exponent);
  b.CreateBr(loop);

  b.SetInsertPoint(loop);
  auto *rest = b.CreatePHI(b.getInt64Ty(), 2), *left = b.CreatePHI(b.getInt64Ty(), 2);
  b.CreateCondBr(b.CreateICmpSGT(left, i(left, 0)), step, done);

  b.SetInsertPoint(step);
  V places = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, i(left, 63 - digits));
  V next = remainder(b.CreateShl(rest, places), q.significand), after = b.CreateSub(left, places);
  b.CreateBr(loop);
  rest->addIncoming(first, divide);
  rest->addIncoming(next, step);
  left->addIncoming(distance, divide);
  left->addIncoming(after, step);

  b.SetInsertPoint(done);
  b.CreateRet(copySign(timesPower(rest, q.exponent), x));
}

} // namespace

/// A call of the internal function `name`, of two values and a result of x's type, that `body` writes when it is first
/// asked for.
template <typename F> static V callMade(VecEmitter &v, const std::string &name, V x, V y, F body) {
  llvm::Module *m = v.b.GetInsertBlock()->getModule();
  llvm::Type *type = x->getType();
  llvm::Function *f = m->getFunction(name);
  if (!f) {
    f = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false), llvm::Function::InternalLinkage,
                               name, m);
    f->setDoesNotThrow();
    f->setDoesNotAccessMemory();
    llvm::IRBuilder<> inner(llvm::BasicBlock::Create(m->getContext(), "entry", f));
    VecEmitter ve{inner, v.target};
    body(ve, f);
  }
  return v.b.CreateCall(f, {x, y});
}

V emitSoftFmod(VecEmitter &v, V x, V y) {
  if (unsigned lanes = lanesOf(x); x->getType()->isVectorTy()) {
    V out = llvm::PoisonValue::get(x->getType());
    for (unsigned k = 0; k < lanes; ++k)
      out = v.b.CreateInsertElement(out,
                                    emitSoftFmod(v, v.b.CreateExtractElement(x, k), v.b.CreateExtractElement(y, k)), k);
    return out;
  }
  return callMade(v, x->getType()->isDoubleTy() ? "tegula.fmod.f64" : "tegula.fmod.f32", x, y,
                  [](VecEmitter &ve, llvm::Function *f) { FmodEmitter(ve, f).body(); });
}

/// With q = trunc(|x| / |y|) below 2^digits, x - q y is a number of the format, as it is a multiple of y's unit and not
/// larger than y: one fma gives it. The division rounds, so q is the right integer or, where the quotient is just below
/// the next one, that; the rest is negative then, and adding y is exact.
static void vectorFmodBody(VecEmitter &v, llvm::Function *f) {
  Arith a(v);
  llvm::IRBuilder<> &b = v.b;
  V x = f->getArg(0), y = f->getArg(1);
  const double digits = x->getType()->getScalarType()->isDoubleTy() ? 0x1p52 : 0x1p23;
  V ax = a.fabs(x), ay = a.fabs(y);
  V q = b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(ax, ay));
  V rest = emitFma(v, b.CreateFNeg(q), ay, ax); // NaN if x is infinite, y zero, or one of them NaN
  rest = b.CreateSelect(b.CreateFCmpOLT(rest, a.f(x, 0)), b.CreateFAdd(rest, ay), rest);
  rest = b.CreateSelect(b.CreateFCmpOLT(ax, ay), ax, rest); // y may be infinite
  // Where the result is NaN, as in lanes that are masked off, nothing else is asked.
  V isLarge = b.CreateAnd(b.CreateAnd(b.CreateFCmpOGE(q, a.f(x, digits)), b.CreateFCmpOLT(ax, a.f(x, __builtin_inf()))),
                          b.CreateFCmpOGT(ay, a.f(x, 0)));
  auto *large = llvm::BasicBlock::Create(f->getContext(), "large", f),
       *small = llvm::BasicBlock::Create(f->getContext(), "small", f);
  b.CreateCondBr(b.CreateOrReduce(isLarge), large, small);
  b.SetInsertPoint(large);
  b.CreateRet(b.CreateFRem(x, y));
  b.SetInsertPoint(small);
  b.CreateRet(a.copySign(rest, x));
}

V emitFmod(VecEmitter &v, V x, V y) {
  if (!v.target.libm) return emitSoftFmod(v, x, y);
  if (!v.target.fma || !x->getType()->isVectorTy()) return v.b.CreateFRem(x, y);
  const llvm::Function *caller = v.b.GetInsertBlock()->getParent();
  std::string name =
      "tegula.fmod.v" + std::to_string(lanesOf(x)) + (x->getType()->getScalarType()->isDoubleTy() ? "f64" : "f32");
  return callMade(v, name, x, y, [&](VecEmitter &ve, llvm::Function *f) {
    // Vectors are passed as the caller's instructions have them.
    for (const char *attribute : {"target-cpu", "target-features", "prefer-vector-width", "no-builtins"})
      if (llvm::Attribute a = caller->getFnAttribute(attribute); a.isValid()) f->addFnAttr(a);
    vectorFmodBody(ve, f);
  });
}

} // namespace tegula::targets
