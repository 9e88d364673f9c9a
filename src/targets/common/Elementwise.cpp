// Element-wise operations on registers: arithmetic, comparisons, minimum and maximum. Casts stand in Casts.cpp,
// elementary functions in Math*.cpp.
#include "targets/common/MathX86.h"
#include "targets/common/NvptxOps.h"
#include "targets/common/VecUtil.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"

namespace tegula::targets {

using ir::CmpPred;
using ir::Elem;
using ir::OpKind;
using V = llvm::Value *;

V Arith::poly(V x, llvm::ArrayRef<double> c) {
  V y = f(x, c.back());
  for (size_t k = c.size() - 1; k-- > 0;)
    y = mulAdd(y, x, c[k]);
  return y;
}

V callShared(VecEmitter &v, const std::string &name, V x, llvm::function_ref<void(VecEmitter &, V)> body,
             llvm::Type *result) {
  llvm::Module *m = v.b.GetInsertBlock()->getModule();
  llvm::Type *type = x->getType();
  const std::string whole =
      "tegula." + name + (type->getScalarType()->isDoubleTy() ? ".f64x" : ".f32x") + std::to_string(lanesOf(x));
  llvm::Function *f = m->getFunction(whole);
  if (!f) {
    f = llvm::Function::Create(llvm::FunctionType::get(result ? result : type, {type}, false),
                               llvm::Function::InternalLinkage, whole, m);
    f->setDoesNotThrow();
    f->setDoesNotAccessMemory();
    llvm::IRBuilder<> inner(llvm::BasicBlock::Create(m->getContext(), "entry", f));
    VecEmitter ve{inner, v.target};
    body(ve, f->getArg(0));
  }
  return v.b.CreateCall(f, {x});
}

void returnIfAny(VecEmitter &v, V isRare, llvm::function_ref<V()> rare) {
  llvm::Function *f = v.b.GetInsertBlock()->getParent();
  auto *rareBlock = llvm::BasicBlock::Create(f->getContext(), "rare", f),
       *usual = llvm::BasicBlock::Create(f->getContext(), "usual", f, rareBlock);
  V any = lanesOf(isRare) == 1 ? isRare : v.b.CreateOrReduce(isRare);
  v.b.CreateCondBr(any, rareBlock, usual, llvm::MDBuilder(f->getContext()).createBranchWeights(1, 1000));
  v.b.SetInsertPoint(rareBlock);
  v.b.CreateRet(rare());
  v.b.SetInsertPoint(usual);
}

llvm::Type *VecEmitter::elemType(Elem e) const {
  if (e == Elem::F32)
    return b.getFloatTy();
  if (e == Elem::F64)
    return b.getDoubleTy();
  return b.getIntNTy(ir::bitWidth(e));
}

llvm::Type *VecEmitter::vecType(Elem e, unsigned n) const {
  return n == 1 ? elemType(e) : llvm::FixedVectorType::get(elemType(e), n);
}

V VecEmitter::constant(const ir::Op &op) {
  Elem e = op.results[0]->type.elem;
  llvm::Type *reg = elemType(e);
  if (ir::isInt(e))
    return llvm::ConstantInt::getSigned(reg, op.intValue());
  double d = op.floatValue();
  if (e == Elem::F32 || e == Elem::F64)
    return llvm::ConstantFP::get(reg, d);
  if (e == Elem::F16 || e == Elem::BF16) {
    llvm::APFloat f(d);
    bool lossy;
    f.convert(e == Elem::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven,
              &lossy);
    return llvm::ConstantInt::get(reg, f.bitcastToAPInt());
  }
  // 8-bit formats: the conversion code itself, which folds.
  return narrow(llvm::ConstantFP::get(b.getFloatTy(), d), e);
}

namespace {

unsigned bitsOf(V x) { return x->getType()->getScalarSizeInBits(); }

/// Quotient of integers that fit the float type exactly: the rounded quotient truncates right because a true quotient
/// that is no integer lies at least 1/divisor away from the next one, more than half an ulp.
V divideInFloat(VecEmitter &v, V x, V y, bool isSigned, llvm::Type *floatType) {
  llvm::IRBuilder<> &b = v.b;
  bool fitsSigned = isSigned || bitsOf(x) < 32;
  llvm::Type *wide = intLike(x, 32);
  auto toFloat = [&](V n) {
    if (bitsOf(n) < 32)
      n = isSigned ? b.CreateSExt(n, wide) : b.CreateZExt(n, wide);
    return fitsSigned ? b.CreateSIToFP(n, floatType) : b.CreateUIToFP(n, floatType);
  };
  V q = b.CreateFDiv(toFloat(x), toFloat(y));
  // Division by zero and INT_MIN / -1 leave the range: freeze turns the poison into some value.
  V n = b.CreateFreeze(fitsSigned ? b.CreateFPToSI(q, wide) : b.CreateFPToUI(q, wide));
  return bitsOf(x) < 32 ? b.CreateTrunc(n, x->getType()) : n;
}

/// Every lane a known constant that the hardware instruction takes without trapping.
bool isSafeDivisor(V y, bool isSigned) {
  auto *c = llvm::dyn_cast<llvm::Constant>(y);
  if (c && y->getType()->isVectorTy())
    c = c->getSplatValue();
  auto *n = llvm::dyn_cast_or_null<llvm::ConstantInt>(c);
  return n && !n->isZero() && !(isSigned && n->isMinusOne());
}

V plainDivision(VecEmitter &v, V x, V y, bool isSigned) {
  Arith a(v);
  if (!isSafeDivisor(y, isSigned)) {
    V bad = a.b.CreateICmpEQ(y, a.i(y, 0));
    if (isSigned) {
      llvm::APInt min = llvm::APInt::getSignedMinValue(bitsOf(x));
      V overflow = a.b.CreateAnd(a.b.CreateICmpEQ(x, llvm::ConstantInt::get(x->getType(), min)),
                                 a.b.CreateICmpEQ(y, a.i(y, ~uint64_t(0))));
      bad = a.b.CreateOr(bad, overflow);
    }
    y = a.b.CreateSelect(bad, a.i(y, 1), y);
  }
  return isSigned ? a.b.CreateSDiv(x, y) : a.b.CreateUDiv(x, y);
}

/// Lanes that are zero whatever the kernel gets: those of constants, what constant masks, shuffles and products leave
/// of these. `budget`: values looked at.
llvm::APInt zeroLanes(V x, unsigned &budget) {
  const unsigned n = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  llvm::APInt zero(n, 0);
  if (!budget)
    return zero;
  --budget;
  if (auto *c = llvm::dyn_cast<llvm::Constant>(x)) {
    for (unsigned i = 0; i < n; ++i)
      if (llvm::Constant *e = c->getAggregateElement(i); e && e->isNullValue())
        zero.setBit(i);
    return zero;
  }
  auto chosen = [&](V mask, V on, V off) {
    auto *c = llvm::dyn_cast<llvm::Constant>(mask);
    if (!c || !c->getType()->isVectorTy())
      return zero;
    llvm::APInt a = on ? zeroLanes(on, budget) : zero, b = zeroLanes(off, budget);
    for (unsigned i = 0; i < n; ++i)
      if (auto *bit = llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getAggregateElement(i));
          bit && (bit->isOne() ? a[i] : b[i]))
        zero.setBit(i);
    return zero;
  };
  if (auto *select = llvm::dyn_cast<llvm::SelectInst>(x))
    return chosen(select->getCondition(), select->getTrueValue(), select->getFalseValue());
  if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(x);
      call && call->getIntrinsicID() == llvm::Intrinsic::masked_load)
    return chosen(call->getArgOperand(2), nullptr, call->getArgOperand(3));
  if (auto *op = llvm::dyn_cast<llvm::BinaryOperator>(x);
      op && (op->getOpcode() == llvm::Instruction::Mul || op->getOpcode() == llvm::Instruction::And))
    return zeroLanes(op->getOperand(0), budget) | zeroLanes(op->getOperand(1), budget);
  if (auto *shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(x)) {
    llvm::APInt from[2] = {zeroLanes(shuffle->getOperand(0), budget), zeroLanes(shuffle->getOperand(1), budget)};
    const auto of = static_cast<int>(from[0].getBitWidth());
    for (unsigned i = 0; i < n; ++i)
      if (int at = shuffle->getMaskValue(i); at >= 0 && from[at / of][static_cast<unsigned>(at % of)])
        zero.setBit(i);
  }
  return zero;
}

/// x * y. LLVM 19 does not compute lanes of an operand where the other one's are zero, each way around, and then takes
/// for the product an operand that is zero or not computed in all its lanes, as if it were zero in these. So where both
/// have such lanes, these are chosen after the product.
V multiply(llvm::IRBuilder<> &b, V x, V y) {
  V all = b.CreateMul(x, y);
  if (!x->getType()->isVectorTy() || llvm::isa<llvm::Constant>(x) || llvm::isa<llvm::Constant>(y))
    return all;
  unsigned budget = 64;
  const llvm::APInt a = zeroLanes(x, budget), c = a.isZero() ? a : zeroLanes(y, budget);
  if (a.isZero() || c.isZero())
    return all;
  llvm::SmallVector<llvm::Constant *> is;
  for (unsigned i = 0; i < a.getBitWidth(); ++i)
    is.push_back(b.getInt1(a[i] || c[i]));
  return b.CreateSelect(llvm::ConstantVector::get(is), llvm::Constant::getNullValue(x->getType()), all);
}

/// Low half of the product. x86 without SSE4.1 multiplies 32-bit lanes by pmuludq, lanes of odd numbers apart. Where
/// LLVM 19 sees what these hold (by masks and constants that differ from lane to lane) it leaves an undefined value for
/// them, so here they are apart already.
V product(VecEmitter &v, V x, V y) {
  Arith a(v);
  auto *lanes = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!v.target.x86 || v.target.avx2 || !lanes || bitsOf(x) != 32 || lanes->getNumElements() % 2 ||
      llvm::isa<llvm::Constant>(x) || llvm::isa<llvm::Constant>(y))
    return multiply(a.b, x, y);
  auto *pairs = llvm::FixedVectorType::get(a.b.getInt64Ty(), lanes->getNumElements() / 2);
  x = a.b.CreateBitCast(x, pairs);
  y = a.b.CreateBitCast(y, pairs);
  V even = a.and_(a.b.CreateMul(a.and_(x, 0xFFFFFFFF), a.and_(y, 0xFFFFFFFF)), 0xFFFFFFFF);
  V odd = a.b.CreateShl(a.b.CreateMul(a.lshr(x, 32), a.lshr(y, 32)), 32);
  return a.b.CreateBitCast(a.b.CreateOr(even, odd), lanes);
}

/// High half of the unsigned product.
V umulHi(VecEmitter &v, V x, V y) {
  Arith a(v);
  unsigned n = bitsOf(x);
  auto *lanes = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (n == 32 && lanes && lanes->getNumElements() % 2 == 0) {
    // Lanes in pairs, as pmuludq multiplies them. From the plain form below LLVM 19 makes ISD::MULHU, of whose
    // expansion for AVX-512 nothing is left (an undefined value) where it sees that a product of products is below
    // 2^32.
    auto *pairs = llvm::FixedVectorType::get(a.b.getInt64Ty(), lanes->getNumElements() / 2);
    x = a.b.CreateBitCast(x, pairs);
    y = a.b.CreateBitCast(y, pairs);
    V even = a.lshr(a.b.CreateMul(a.and_(x, 0xFFFFFFFF), a.and_(y, 0xFFFFFFFF)), 32);
    V odd = a.and_(a.b.CreateMul(a.lshr(x, 32), a.lshr(y, 32)), ~uint64_t(0xFFFFFFFF));
    return a.b.CreateBitCast(a.b.CreateOr(even, odd), lanes);
  }
  if (n < 64 || !lanes) {
    llvm::Type *wide = intLike(x, 2 * n);
    V product = a.b.CreateMul(a.b.CreateZExt(x, wide), a.b.CreateZExt(y, wide));
    return a.b.CreateTrunc(a.lshr(product, n), x->getType());
  }
  // Schoolbook on 32-bit halves, which vector units multiply; none has a 64x64 -> 128 product.
  V xl = a.and_(x, 0xFFFFFFFF), xh = a.lshr(x, 32), yl = a.and_(y, 0xFFFFFFFF), yh = a.lshr(y, 32);
  V low = a.lshr(a.b.CreateMul(xl, yl), 32);
  V mid = a.b.CreateAdd(a.b.CreateMul(xh, yl), low);
  V mid2 = a.b.CreateAdd(a.b.CreateMul(xl, yh), a.and_(mid, 0xFFFFFFFF));
  return a.b.CreateAdd(a.b.CreateMul(xh, yh), a.b.CreateAdd(a.lshr(mid, 32), a.lshr(mid2, 32)));
}

/// By the width and more: nothing is left but the sign. LLVM leaves it open.
V shift(VecEmitter &v, OpKind kind, V x, V amount) {
  llvm::IRBuilder<> &b = v.b;
  if (v.target.nvptx && !llvm::isa<llvm::Constant>(amount))
    return nvptxShift(v, kind, x, amount);
  auto number = [&](unsigned n) { return llvm::ConstantInt::get(amount->getType(), n); };
  V fits = b.CreateICmpULT(amount, number(bitsOf(x)));
  if (kind == OpKind::AShr)
    return b.CreateAShr(x, b.CreateSelect(fits, amount, number(bitsOf(x) - 1)));
  V r = kind == OpKind::Shl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  auto *known = llvm::dyn_cast<llvm::Constant>(fits);
  return known && known->isAllOnesValue() ? r : b.CreateSelect(fits, r, llvm::Constant::getNullValue(x->getType()));
}

llvm::CmpInst::Predicate predicateOf(CmpPred p) {
  using P = llvm::CmpInst;
  switch (p) {
  case CmpPred::Eq:
    return P::ICMP_EQ;
  case CmpPred::Ne:
    return P::ICMP_NE;
  case CmpPred::Slt:
    return P::ICMP_SLT;
  case CmpPred::Sle:
    return P::ICMP_SLE;
  case CmpPred::Sgt:
    return P::ICMP_SGT;
  case CmpPred::Sge:
    return P::ICMP_SGE;
  case CmpPred::Ult:
    return P::ICMP_ULT;
  case CmpPred::Ule:
    return P::ICMP_ULE;
  case CmpPred::Ugt:
    return P::ICMP_UGT;
  case CmpPred::Uge:
    return P::ICMP_UGE;
  case CmpPred::Oeq:
    return P::FCMP_OEQ;
  case CmpPred::One:
    return P::FCMP_ONE;
  case CmpPred::Olt:
    return P::FCMP_OLT;
  case CmpPred::Ole:
    return P::FCMP_OLE;
  case CmpPred::Ogt:
    return P::FCMP_OGT;
  case CmpPred::Oge:
    return P::FCMP_OGE;
  case CmpPred::Ord:
    return P::FCMP_ORD;
  case CmpPred::Ueq:
    return P::FCMP_UEQ;
  case CmpPred::Une:
    return P::FCMP_UNE;
  case CmpPred::FUlt:
    return P::FCMP_ULT;
  case CmpPred::FUle:
    return P::FCMP_ULE;
  case CmpPred::FUgt:
    return P::FCMP_UGT;
  case CmpPred::FUge:
    return P::FCMP_UGE;
  case CmpPred::Uno:
    return P::FCMP_UNO;
  }
  llvm_unreachable("bad predicate");
}

V compare(VecEmitter &v, CmpPred p, V x, V y) {
  llvm::CmpInst::Predicate pred = predicateOf(p);
  return llvm::CmpInst::isFPPredicate(pred) ? v.b.CreateFCmp(pred, x, y) : v.b.CreateICmp(pred, x, y);
}

bool isFnuz(Elem e) { return e == Elem::F8E4B8 || e == Elem::F8E5B16; }

/// fneg and fabs touch the sign bit only, also of NaN; in the fnuz formats code 0x80 is NaN and has no sign.
V signOp(VecEmitter &v, OpKind kind, V x, Elem e) {
  Arith a(v);
  if (x->getType()->isFPOrFPVectorTy())
    return kind == OpKind::FNeg ? a.b.CreateFNeg(x) : a.fabs(x);
  uint64_t signBit = 1ull << (bitsOf(x) - 1);
  V r = kind == OpKind::FNeg ? a.xor_(x, signBit) : a.and_(x, signBit - 1);
  if (!isFnuz(e))
    return r;
  return a.b.CreateSelect(a.b.CreateICmpEQ(a.and_(x, signBit - 1), a.i(x, 0)), x, r);
}

/// Add, subtract, multiply, divide on float or double. `contract` allows the code generator to fuse a multiplication
/// into the addition that uses it.
V floatArith(VecEmitter &v, OpKind kind, V x, V y, bool contract) {
  llvm::IRBuilder<> &b = v.b;
  V r = nullptr;
  switch (kind) {
  case OpKind::FAdd:
    r = b.CreateFAdd(x, y);
    break;
  case OpKind::FSub:
    r = b.CreateFSub(x, y);
    break;
  case OpKind::FMul:
    r = b.CreateFMul(x, y);
    break;
  case OpKind::FDiv:
    return b.CreateFDiv(x, y);
  default:
    return emitFmod(v, x, y);
  }
  if (auto *inst = llvm::dyn_cast<llvm::Instruction>(r); inst && contract) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    inst->setFastMathFlags(flags);
  }
  return r;
}

V integerOp(VecEmitter &v, OpKind kind, llvm::ArrayRef<V> x) {
  llvm::IRBuilder<> &b = v.b;
  switch (kind) {
  case OpKind::Add:
    return b.CreateAdd(x[0], x[1]);
  case OpKind::Sub:
    return b.CreateSub(x[0], x[1]);
  case OpKind::Mul:
    return product(v, x[0], x[1]);
  case OpKind::And:
    return b.CreateAnd(x[0], x[1]);
  case OpKind::Or:
    return b.CreateOr(x[0], x[1]);
  case OpKind::Xor:
    return b.CreateXor(x[0], x[1]);
  case OpKind::SMin:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x[0], x[1]);
  case OpKind::SMax:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x[0], x[1]);
  case OpKind::UMin:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x[0], x[1]);
  case OpKind::UMax:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x[0], x[1]);
  case OpKind::AbsI:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], b.getFalse());
  case OpKind::Clz:
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x[0], b.getFalse());
  case OpKind::PopCount:
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x[0]);
  case OpKind::UMulHi:
    return umulHi(v, x[0], x[1]);
  case OpKind::Shl:
  case OpKind::LShr:
  case OpKind::AShr:
    return shift(v, kind, x[0], x[1]);
  default:
    return emitIntDivRem(v, kind, x[0], x[1]);
  }
}

} // namespace

V emitIntDivRem(VecEmitter &v, OpKind kind, V x, V y) {
  bool isSigned = kind == OpKind::SDiv || kind == OpKind::SRem;
  bool isRem = kind == OpKind::SRem || kind == OpKind::URem;
  unsigned bits = bitsOf(x);
  if (bits == 1) // only x/1 is defined
    return isRem ? llvm::Constant::getNullValue(x->getType()) : x;
  if (v.target.nvptx && !isSafeDivisor(y, isSigned))
    if (V r = nvptxDivide(v, x, y, isSigned, isRem))
      return r;
  V q;
  if (!x->getType()->isVectorTy() || bits == 64 || isSafeDivisor(y, isSigned))
    q = plainDivision(v, x, y, isSigned);
  else
    q = divideInFloat(v, x, y, isSigned, bits == 32 ? doubleLike(x) : floatLike(x));
  return isRem ? v.b.CreateSub(x, product(v, q, y)) : q;
}

/// The number that all lanes of `x` are, as a scalar: through casts of it, too. Null: it is not known to be one.
static V scalarOfSplat(llvm::IRBuilder<> &b, V x) {
  if (V scalar = llvm::getSplatValue(x))
    return scalar;
  auto *cast = llvm::dyn_cast<llvm::CastInst>(x);
  auto *shift = llvm::dyn_cast<llvm::BinaryOperator>(x);
  if (cast && cast->getSrcTy()->isVectorTy() && lanesOf(cast->getSrcTy()) == lanesOf(x))
    if (V scalar = scalarOfSplat(b, cast->getOperand(0)))
      return b.CreateCast(cast->getOpcode(), scalar, x->getType()->getScalarType());
  if (shift && shift->getOpcode() == llvm::Instruction::Shl)
    if (auto *by = llvm::dyn_cast<llvm::Constant>(shift->getOperand(1)); by && by->getSplatValue())
      if (V scalar = scalarOfSplat(b, shift->getOperand(0)))
        return b.CreateShl(scalar, by->getSplatValue());
  return nullptr;
}

V emitMinMax(VecEmitter &v, OpKind kind, V x, V y) {
  if (v.target.nvptx)
    return nvptxMinMax(v, kind, x, y);
  Arith a(v);
  bool isMin = kind == OpKind::MinNum || kind == OpKind::Minimum;
  if (kind == OpKind::Minimum || kind == OpKind::Maximum)
    return a.b.CreateBinaryIntrinsic(isMin ? llvm::Intrinsic::minimum : llvm::Intrinsic::maximum, x, y);
  if (llvm::isa<llvm::Constant>(x) && !llvm::isa<llvm::Constant>(y))
    std::swap(x, y);
  auto better = [&](V p, V q) { return isMin ? a.b.CreateFCmpOLT(p, q) : a.b.CreateFCmpOGT(p, q); };
  // On bits for AArch64: it would make fminnm of a float select, which lets signalling NaN win.
  bool onBits = !v.target.x86;
  auto choose = [&](V c, V p, V q) {
    return onBits ? a.floatOf(a.b.CreateSelect(c, a.bitsOf(p), a.bitsOf(q))) : a.b.CreateSelect(c, p, q);
  };
  V r = choose(better(x, y), x, y);
  auto *c = llvm::dyn_cast<llvm::Constant>(y);
  if (c && y->getType()->isVectorTy())
    c = c->getSplatValue();
  auto *n = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  // The select takes y if the operands are equal or x is NaN: right as it is for such a constant y.
  if (n && !n->isNaN() && !(n->isZero() && n->isNegative() != isMin))
    return r;
  // Such a comparison takes x.
  if (n && !n->isNaN() && !onBits)
    return a.b.CreateSelect(isMin ? a.b.CreateFCmpOLE(x, y) : a.b.CreateFCmpOGE(x, y), x, y);
  // One number for all lanes: x where it is not less than (of minima, greater than) a bound that is this number, but
  // for two: the zero that its own sign would not choose, which is next to zero here, and NaN, which is beyond
  // everything. So lanes that are NaN take y, and all others take x if y is NaN. The bound is a scalar, which leaves
  // loops.
  V one = x->getType()->isVectorTy() ? scalarOfSplat(a.b, y) : nullptr;
  if (V other = !one && x->getType()->isVectorTy() ? scalarOfSplat(a.b, x) : nullptr) {
    one = other;
    std::swap(x, y);
  }
  if (one) {
    V bits = a.bitsOf(one), wrongZero = a.i(bits, isMin ? uint64_t(1) << (bitsOf(one) - 1) : 0);
    V bound = a.b.CreateSelect(a.b.CreateICmpEQ(bits, wrongZero), a.floatOf(a.add(wrongZero, 1)), one);
    bound = a.b.CreateSelect(a.isNan(one), a.f(one, isMin ? INFINITY : -INFINITY), bound);
    bound = a.b.CreateVectorSplat(lanesOf(x), bound);
    return choose(isMin ? a.b.CreateFCmpOLE(x, bound) : a.b.CreateFCmpOGE(x, bound), x, y);
  }
  // Equal operands differ at most in the sign of zero: `or` gives the lower one, `and` the higher one.
  V xb = a.bitsOf(x), yb = a.bitsOf(y);
  V zero = a.floatOf(isMin ? a.b.CreateOr(xb, yb) : a.b.CreateAnd(xb, yb));
  r = a.b.CreateSelect(a.b.CreateFCmpOEQ(x, y), zero, r);
  return a.b.CreateSelect(a.isNan(y), x, r);
}

V emitFmaToOdd(VecEmitter &v, V x, V y, V z) {
  Arith a(v);
  V p = a.b.CreateFMul(x, y);
  V s = a.b.CreateFAdd(p, z);
  // TwoSum: s + error is p + z exactly.
  V zz = a.b.CreateFSub(s, p);
  V error = a.b.CreateFAdd(a.b.CreateFSub(p, a.b.CreateFSub(s, zz)), a.b.CreateFSub(z, zz));
  V bits = a.bitsOf(s);
  V even = a.b.CreateICmpEQ(a.and_(bits, 1), a.i(bits, 0));
  // Ordered compare: an infinite sum has a NaN error and stays.
  V adjust = a.b.CreateAnd(even, a.b.CreateFCmpONE(error, a.f(error, 0)));
  V away = a.b.CreateICmpSGE(a.b.CreateXor(bits, a.bitsOf(error)), a.i(bits, 0)); // error has the sign of s
  V step = a.b.CreateSelect(away, a.i(bits, 1), a.i(bits, ~uint64_t(0)));
  return a.floatOf(a.b.CreateSelect(adjust, a.b.CreateAdd(bits, step), bits));
}

V emitFma(VecEmitter &v, V x, V y, V z) {
  // Without the instruction double falls back to fma() of libm, lane by lane; float stays inline.
  if (v.target.fma || bitsOf(x) == 64)
    return v.b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  llvm::Type *d = doubleLike(x);
  V wide = emitFmaToOdd(v, v.b.CreateFPExt(x, d), v.b.CreateFPExt(y, d), v.b.CreateFPExt(z, d));
  return v.b.CreateFPTrunc(wide, x->getType());
}

V emitRound(VecEmitter &v, OpKind kind, V x) {
  bool isFloor = kind == OpKind::Floor, isRint = kind == OpKind::Rint;
  if (v.target.avx2 || v.target.aarch64 || v.target.nvptx)
    return v.b.CreateUnaryIntrinsic(isFloor  ? llvm::Intrinsic::floor
                                    : isRint ? llvm::Intrinsic::roundeven
                                             : llvm::Intrinsic::ceil,
                                    x);
  // SSE2 has no rounding instruction: adding 2^23 (2^52) pushes the fraction out of the significand.
  Arith a(v);
  V size = a.fabs(x), magic = a.f(x, bitsOf(x) == 64 ? 0x1p52 : 0x1p23);
  V nearest = a.copySign(a.b.CreateFSub(a.b.CreateFAdd(size, magic), magic), x);
  if (isRint)
    return a.b.CreateSelect(a.b.CreateFCmpOLT(size, magic), nearest, x);
  V wrong = isFloor ? a.b.CreateFCmpOGT(nearest, x) : a.b.CreateFCmpOLT(nearest, x);
  V r = a.b.CreateSelect(wrong, a.fadd(nearest, isFloor ? -1 : 1), nearest);
  // Large values are integers already; so is NaN. The sign of a zero result is that of x.
  return a.b.CreateSelect(a.b.CreateFCmpOLT(size, magic), a.copySign(r, x), x);
}

namespace {

V floatOp(VecEmitter &v, OpKind kind, llvm::ArrayRef<V> x, bool contract) {
  switch (kind) {
  case OpKind::FAdd:
  case OpKind::FSub:
  case OpKind::FMul:
  case OpKind::FDiv:
  case OpKind::FRem:
    return floatArith(v, kind, x[0], x[1], contract);
  case OpKind::Fma:
    return emitFma(v, x[0], x[1], x[2]);
  case OpKind::MinNum:
  case OpKind::MaxNum:
  case OpKind::Minimum:
  case OpKind::Maximum:
    return emitMinMax(v, kind, x[0], x[1]);
  case OpKind::Sqrt:
    if (V r = emitSqrtX86(v, x[0]))
      return r;
    return v.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]);
  case OpKind::Floor:
  case OpKind::Rint:
  case OpKind::Ceil:
    return emitRound(v, kind, x[0]);
  default:
    return emitMath(v, kind, x[0]);
  }
}

/// f16, bf16, fp8: computed in float, which has more than twice the digits plus two, so that rounding twice rounds
/// right for + - * / sqrt. A fused multiply-add needs double rounded to odd instead.
V narrowFloatOp(VecEmitter &v, OpKind kind, llvm::ArrayRef<V> args, Elem e) {
  if (kind == OpKind::Fma && v.target.nvptx && (e == Elem::F16 || e == Elem::BF16) &&
      args[0]->getType()->isIntegerTy(16))
    return nvptxNarrowFma(v, args, e);
  llvm::SmallVector<V, 3> wide;
  for (V x : args)
    wide.push_back(v.widen(x, e));
  // Minima, maxima and integral parts are values of the format as they are.
  if ((kind >= OpKind::MinNum && kind <= OpKind::Maximum) || (kind >= OpKind::Floor && kind <= OpKind::Ceil))
    return narrowExact(v, floatOp(v, kind, wide, false), e);
  if (kind != OpKind::Fma)
    return v.narrow(floatOp(v, kind, wide, /*contract=*/false), e);
  for (V &x : wide)
    x = v.b.CreateFPExt(x, doubleLike(x));
  return narrowFromDouble(v, emitFmaToOdd(v, wide[0], wide[1], wide[2]), e, /*towardZero=*/false);
}

} // namespace

V VecEmitter::narrowOperation(OpKind kind, V x, V y, Elem e) { return narrowFloatOp(*this, kind, {x, y}, e); }

V VecEmitter::elementwise(const ir::Op &op, llvm::ArrayRef<V> args, Elem argElem, Elem resElem) {
  OpKind k = op.kind;
  if (k >= OpKind::Trunc && k <= OpKind::Bitcast)
    return emitCast(*this, op, args[0], argElem, resElem);
  if (k == OpKind::CmpI)
    return compare(*this, op.pred(), args[0], args[1]);
  if (k == OpKind::CmpF)
    return compare(*this, op.pred(), widen(args[0], argElem), widen(args[1], argElem));
  if (k == OpKind::FNeg || k == OpKind::FAbs)
    return signOp(*this, k, args[0], argElem);
  if (k >= OpKind::Add && k < OpKind::CmpI)
    return integerOp(*this, k, args);
  assert(k >= OpKind::FAdd && k <= OpKind::Ceil && "not an element-wise operation of this layer");
  if (target.nvptx && argElem == Elem::F32 && op.fast())
    return nvptxFast(*this, k, args);
  if (target.nvptx && (k == OpKind::FDiv || k == OpKind::Sqrt || k == OpKind::Exp) && argElem == Elem::F32 &&
      op.approx())
    return nvptxApprox(*this, k, args);
  if (argElem == Elem::F32 || argElem == Elem::F64)
    return floatOp(*this, k, args, target.fpFusion && !op.rounded());
  return narrowFloatOp(*this, k, args, argElem);
}

} // namespace tegula::targets
