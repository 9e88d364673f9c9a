// See NvptxOps.h. Instructions LLVM has no intrinsic for stand here as inline PTX; all of them are functions of their
// operands.
#include "targets/common/NvptxOps.h"
#include "targets/common/VecUtil.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace tegula::targets {
namespace {

using ir::Elem;
using ir::OpKind;
using V = llvm::Value *;
namespace in = llvm::Intrinsic;

V ptx(VecEmitter &v, const char *text, const char *constraints, llvm::Type *result, llvm::ArrayRef<V> args) {
  llvm::SmallVector<llvm::Type *, 3> types;
  for (V a : args)
    types.push_back(a->getType());
  auto *code =
      llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints, /*hasSideEffects=*/false);
  llvm::CallInst *call = v.b.CreateCall(code, args);
  call->setDoesNotAccessMemory();
  call->setDoesNotThrow();
  return call;
}

/// `f` on every element, or on the scalar; all operands have the same shape.
template <typename F> V eachLane(VecEmitter &v, llvm::ArrayRef<V> x, F f) {
  unsigned lanes = lanesOf(x[0]);
  if (!x[0]->getType()->isVectorTy())
    return f(x);
  V out = nullptr;
  for (unsigned k = 0; k < lanes; ++k) {
    llvm::SmallVector<V, 3> one;
    for (V a : x)
      one.push_back(v.b.CreateExtractElement(a, k));
    V r = f(one);
    if (!out)
      out = llvm::PoisonValue::get(llvm::FixedVectorType::get(r->getType(), lanes));
    out = v.b.CreateInsertElement(out, r, k);
  }
  return out;
}

bool isDouble(V x) { return x->getType()->getScalarType()->isDoubleTy(); }

V call(VecEmitter &v, in::ID id, llvm::ArrayRef<V> args) { return v.b.CreateIntrinsic(id, {}, args); }

constexpr const char *narrowE4m3Pair = "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;",
                     *narrowE5m2Pair = "cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;";

/// Two floats to two elements of 16 bits (in i32) or of 8 (in i16); `high` may be null.
V narrowPair(VecEmitter &v, V low, V high, Elem to, bool towardZero) {
  if (!high)
    high = llvm::ConstantFP::get(low->getType(), 0);
  llvm::IRBuilder<> &b = v.b;
  switch (to) {
  case Elem::F16:
    return b.CreateBitCast(call(v, towardZero ? in::nvvm_ff2f16x2_rz : in::nvvm_ff2f16x2_rn, {high, low}),
                           b.getInt32Ty());
  case Elem::BF16:
    return b.CreateBitCast(call(v, towardZero ? in::nvvm_ff2bf16x2_rz : in::nvvm_ff2bf16x2_rn, {high, low}),
                           b.getInt32Ty());
  case Elem::F8E4M3FN:
    return ptx(v, narrowE4m3Pair, "=h,f,f", b.getInt16Ty(), {high, low});
  default:
    return ptx(v, narrowE5m2Pair, "=h,f,f", b.getInt16Ty(), {high, low});
  }
}

V widenE4m3Pair(VecEmitter &v, V pair16) {
  V halves = ptx(v, "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", v.b.getInt32Ty(), {pair16});
  return v.b.CreateBitCast(halves, llvm::FixedVectorType::get(v.b.getHalfTy(), 2));
}

// Division of 64-bit integers. div.u64 is a function of the assembler's: libnvJitLink, which makes relocatable code,
// calls it by its address, and in a kernel with a call every wgmma waits for itself (advisory C7509; a matmul of
// 128x256x64 lost a sixth). Written out, the reciprocal of a divisor that many elements share is computed once, too.

/// 2^64 / y, at most two too small: from the reciprocal of y as a float, which is made a little too small (2^-21, its
/// errors are 5 * 2^-24), by two Newton steps, each of which squares the relative error: 2^-20.6, 2^-41, 2^-82.
V reciprocal64(VecEmitter &v, V y) {
  llvm::IRBuilder<> &b = v.b;
  llvm::Type *type = b.getFloatTy(), *wide = b.getInt64Ty(), *word = b.getInt32Ty();
  auto constant = [&](double x) { return llvm::ConstantFP::get(type, x); };
  auto fma = [&](V p, V q, V r) { return b.CreateIntrinsic(in::fma, {type}, {p, q, r}); };
  constexpr double word32 = 4294967296.0, slightlyLess = 1 - 0x1p-21;
  V f = fma(b.CreateUIToFP(b.CreateTrunc(b.CreateLShr(y, 32), word), type), constant(word32),
            b.CreateUIToFP(b.CreateTrunc(y, word), type));
  V r = b.CreateFMul(call(v, in::nvvm_rcp_approx_ftz_f, {f}), constant(word32 * word32 * slightlyLess));
  V high = b.CreateUnaryIntrinsic(in::trunc, b.CreateFMul(r, constant(1 / word32)));
  V low = fma(high, constant(-word32), r);
  auto whole = [&](V x) { return b.CreateZExt(call(v, in::nvvm_f2ui_rz, {x}), wide); };
  V now = b.CreateOr(b.CreateShl(whole(high), 32), whole(low)), minus = b.CreateNeg(y);
  for (unsigned step = 0; step < 2; ++step)
    now = b.CreateAdd(now, call(v, in::nvvm_mulhi_ull, {now, b.CreateMul(minus, now)}));
  return now;
}

/// x / y or x % y without signs; of y = 0 some value. By the reciprocal the quotient is at most two too small.
V divide64(VecEmitter &v, V x, V y, bool isRem) {
  llvm::IRBuilder<> &b = v.b;
  V q = call(v, in::nvvm_mulhi_ull, {x, reciprocal64(v, y)}), rest = b.CreateSub(x, b.CreateMul(q, y));
  for (unsigned correction = 0; correction < 2; ++correction) {
    V more = b.CreateICmpUGE(rest, y);
    if (!isRem)
      q = b.CreateAdd(q, b.CreateZExt(more, q->getType()));
    rest = b.CreateSub(rest, b.CreateSelect(more, y, b.getInt64(0)));
  }
  return isRem ? rest : q;
}

/// Towards zero: the quotient of different signs is negative, and the remainder has the sign of x.
V divideSigned64(VecEmitter &v, V x, V y, bool isRem) {
  llvm::IRBuilder<> &b = v.b;
  auto sign = [&](V n) { return b.CreateAShr(n, 63); };                                   // 0 or -1
  auto withSign = [&](V n, V s) { return b.CreateSub(b.CreateXor(n, s), s); };
  V sx = sign(x), sy = sign(y);
  return withSign(divide64(v, withSign(x, sx), withSign(y, sy), isRem), isRem ? sx : b.CreateXor(sx, sy));
}

} // namespace

namespace {

unsigned indexOf(V i) { return static_cast<unsigned>(llvm::cast<llvm::ConstantInt>(i)->getZExtValue()); }

/// Looks through vectors that were put together from elements: what `x` was before.
V beforeVectors(V x) {
  while (auto *take = llvm::dyn_cast<llvm::ExtractElementInst>(x)) {
    if (!llvm::isa<llvm::ConstantInt>(take->getIndexOperand()))
      break;
    unsigned at = indexOf(take->getIndexOperand());
    auto *put = llvm::dyn_cast<llvm::InsertElementInst>(take->getVectorOperand());
    while (put && llvm::isa<llvm::ConstantInt>(put->getOperand(2)) && indexOf(put->getOperand(2)) != at)
      put = llvm::dyn_cast<llvm::InsertElementInst>(put->getOperand(0));
    if (!put || !llvm::isa<llvm::ConstantInt>(put->getOperand(2)))
      break;
    x = put->getOperand(1);
  }
  return x;
}

/// Does it narrow two floats at once, operand 0 to the upper half of its result?
bool narrowsPairs(const llvm::CallInst &call) {
  if (auto *code = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand()))
    return !code->hasSideEffects() &&
           (code->getAsmString() == narrowE4m3Pair || code->getAsmString() == narrowE5m2Pair);
  in::ID id = call.getIntrinsicID();
  return id == in::nvvm_ff2f16x2_rn || id == in::nvvm_ff2f16x2_rz || id == in::nvvm_ff2bf16x2_rn ||
         id == in::nvvm_ff2bf16x2_rz;
}

/// The conversion of one float that nvptxNarrow made `x` by; null if it did not.
llvm::CallInst *conversionOf(V x) {
  auto *low = llvm::dyn_cast<llvm::TruncInst>(beforeVectors(x));
  V pair = low ? low->getOperand(0) : nullptr;
  if (auto *word = llvm::dyn_cast_or_null<llvm::BitCastInst>(pair))
    pair = word->getOperand(0);
  auto *convert = llvm::dyn_cast_or_null<llvm::CallInst>(pair);
  return convert && narrowsPairs(*convert) && llvm::isa<llvm::Constant>(convert->getArgOperand(0)) ? convert : nullptr;
}

/// The integer of two elements that nvptxNarrow made of one float each, by one conversion of both; null if it did not.
V narrowedTogether(llvm::IRBuilder<> &b, V first, V second) {
  llvm::CallInst *low = conversionOf(first), *high = low ? conversionOf(second) : nullptr;
  if (!high || low->getCalledOperand() != high->getCalledOperand())
    return nullptr;
  auto *both = llvm::cast<llvm::CallInst>(b.Insert(low->clone()));
  both->setArgOperand(0, high->getArgOperand(1));
  return b.CreateBitCast(both, b.getIntNTy(2 * first->getType()->getPrimitiveSizeInBits().getFixedValue()));
}

} // namespace

/// The integer of `bits` whose bits were taken apart into a vector, and which element of that vector `x` is.
static std::pair<V, unsigned> placeIn(unsigned bits, V x) {
  auto *take = llvm::dyn_cast<llvm::ExtractElementInst>(beforeVectors(x));
  if (!take || !llvm::isa<llvm::ConstantInt>(take->getIndexOperand()))
    return {nullptr, 0};
  auto *cast = llvm::dyn_cast<llvm::BitCastInst>(take->getVectorOperand());
  return cast && cast->getSrcTy()->isIntegerTy(bits) ? std::pair(cast->getOperand(0), indexOf(take->getIndexOperand()))
                                                     : std::pair<V, unsigned>();
}

std::pair<V, unsigned> placeInWord(V x) { return placeIn(32, x); }

V halfWordOf(llvm::IRBuilder<> &b, V low, V high) {
  for (unsigned bits : {16u, 32u}) {
    auto [from, at] = placeIn(bits, low);
    auto [other, next] = placeIn(bits, high);
    if (from && from == other && at % 2 == 0 && next == at + 1)
      return bits == 16 ? from : b.CreateTrunc(b.CreateLShr(from, 8 * at), b.getInt16Ty());
  }
  return nullptr;
}

std::pair<V, unsigned> halfOfWord(V x) {
  return x->getType()->isIntegerTy(16) ? placeInWord(x) : std::pair<V, unsigned>();
}

V wordOf(llvm::ArrayRef<V> elements) {
  V word = nullptr;
  for (unsigned k = 0; k < elements.size(); ++k) {
    auto [from, at] = placeInWord(elements[k]);
    if (!from || at != k || (word && from != word))
      return nullptr;
    word = from;
  }
  return word && elements.size() * elements[0]->getType()->getPrimitiveSizeInBits() == 32 ? word : nullptr;
}

V packWord(llvm::IRBuilder<> &b, llvm::ArrayRef<V> elements) {
  if (V word = wordOf(elements))
    return word;
  if (elements.size() > 1) {
    llvm::SmallVector<V, 2> pairs;
    for (size_t k = 0; k < elements.size(); k += 2)
      if (V pair = narrowedTogether(b, elements[k], elements[k + 1]))
        pairs.push_back(pair);
    if (pairs.size() == elements.size() / 2)
      return pairs.size() == 1 ? pairs[0] : packWord(b, pairs);
  }
  llvm::Type *type = elements[0]->getType();
  auto count = static_cast<unsigned>(elements.size());
  // LLVM has no register for two bytes: it takes the bit cast of such a vector through local memory, which every thread
  // then writes.
  if (count == 2 && type->isIntegerTy(8))
    return b.CreateOr(b.CreateZExt(elements[0], b.getInt16Ty()),
                      b.CreateShl(b.CreateZExt(elements[1], b.getInt16Ty()), 8));
  V vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, count));
  for (unsigned k = 0; k < count; ++k)
    vector = b.CreateInsertElement(vector, elements[k], k);
  return b.CreateBitCast(vector, b.getIntNTy(count * type->getPrimitiveSizeInBits().getFixedValue()));
}

V nvptxPickBytes(VecEmitter &v, V a, V c, std::array<uint8_t, 4> bytes) {
  uint32_t selector = bytes[0] | bytes[1] << 4 | bytes[2] << 8 | bytes[3] << 12;
  return call(v, in::nvvm_prmt, {a, c, v.b.getInt32(selector)});
}

V nvptxNarrowFma(VecEmitter &v, llvm::ArrayRef<V> x, Elem e) {
  bool isHalf = e == Elem::F16;
  llvm::SmallVector<V, 3> args;
  for (V each : x)
    args.push_back(v.b.CreateBitCast(each, isHalf ? v.b.getHalfTy() : v.b.getBFloatTy()));
  return v.b.CreateBitCast(call(v, isHalf ? in::nvvm_fma_rn_f16 : in::nvvm_fma_rn_bf16, args), v.b.getInt16Ty());
}

V nvptxPairArithmetic(VecEmitter &v, OpKind kind, llvm::ArrayRef<V> words, Elem e) {
  bool isHalf = e == Elem::F16;
  llvm::Type *scalar = isHalf ? v.b.getHalfTy() : v.b.getBFloatTy();
  auto *type = llvm::FixedVectorType::get(scalar, 2);
  auto constant = [&](double c) { return llvm::ConstantFP::get(type, c); };
  V p = v.b.CreateBitCast(words[0], type), q = v.b.CreateBitCast(words[1], type);
  // The one form that every GPU from sm_80 on has for both types. Adding -0 leaves the sign of a product that is zero.
  using Args = llvm::SmallVector<V, 3>;
  const Args args = kind == OpKind::Fma    ? Args{p, q, v.b.CreateBitCast(words[2], type)}
                    : kind == OpKind::FMul ? Args{p, q, constant(-0.0)}
                    : kind == OpKind::FAdd ? Args{p, constant(1), q}
                                           : Args{q, constant(-1), p};
  return v.b.CreateBitCast(call(v, isHalf ? in::nvvm_fma_rn_f16x2 : in::nvvm_fma_rn_bf16x2, args), v.b.getInt32Ty());
}

std::array<V, 2> nvptxWidenE4m3(VecEmitter &v, V word) {
  llvm::Type *i32 = v.b.getInt32Ty();
  V both = ptx(v, "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, $2; cvt.rn.f16x2.e4m3x2 $0, lo; cvt.rn.f16x2.e4m3x2 $1, hi; }",
               "=r,=r,r", llvm::StructType::get(i32, i32), {word});
  return {v.b.CreateExtractValue(both, 0), v.b.CreateExtractValue(both, 1)};
}

V nvptxMinMaxBf16x2(VecEmitter &v, OpKind kind, V x, V y) {
  bool isMin = kind == OpKind::MinNum || kind == OpKind::Minimum,
       nanWins = kind == OpKind::Minimum || kind == OpKind::Maximum;
  auto *type = llvm::FixedVectorType::get(v.b.getBFloatTy(), 2);
  in::ID id = isMin ? (nanWins ? in::nvvm_fmin_nan_bf16x2 : in::nvvm_fmin_bf16x2)
                    : (nanWins ? in::nvvm_fmax_nan_bf16x2 : in::nvvm_fmax_bf16x2);
  return v.b.CreateBitCast(call(v, id, {v.b.CreateBitCast(x, type), v.b.CreateBitCast(y, type)}), v.b.getInt32Ty());
}

V nvptxMinMax(VecEmitter &v, OpKind kind, V x, V y) {
  bool isMin = kind == OpKind::MinNum || kind == OpKind::Minimum,
       nanWins = kind == OpKind::Minimum || kind == OpKind::Maximum;
  return eachLane(v, {x, y}, [&](llvm::ArrayRef<V> a) {
    if (!isDouble(a[0]))
      return call(v,
                  isMin ? (nanWins ? in::nvvm_fmin_nan_f : in::nvvm_fmin_f)
                        : (nanWins ? in::nvvm_fmax_nan_f : in::nvvm_fmax_f),
                  a);
    V r = call(v, isMin ? in::nvvm_fmin_d : in::nvvm_fmax_d, a);
    return nanWins ? v.b.CreateSelect(v.b.CreateFCmpUNO(a[0], a[1]), v.b.CreateFAdd(a[0], a[1]), r) : r;
  });
}

V nvptxWiden(VecEmitter &v, V x, Elem from) {
  // One instruction on the loaded word, where taking the element out of it first would cost one more.
  if (auto [word, half] = from == Elem::BF16 ? halfOfWord(x) : std::pair<V, unsigned>(); word) {
    Arith a(v);
    return v.b.CreateBitCast(half ? a.and_(word, 0xFFFF0000) : a.shl(word, 16), v.b.getFloatTy());
  }
  if (from != Elem::F8E4M3FN || !v.target.fp8)
    return nullptr;
  llvm::IRBuilder<> &b = v.b;
  unsigned lanes = lanesOf(x);
  if (!x->getType()->isVectorTy())
    return b.CreateFPExt(b.CreateExtractElement(widenE4m3Pair(v, b.CreateZExt(x, b.getInt16Ty())), uint64_t(0)),
                         b.getFloatTy());
  V out = llvm::PoisonValue::get(floatLike(x));
  for (unsigned k = 0; k < lanes; k += 2) {
    V pair = b.CreateZExt(b.CreateExtractElement(x, k), b.getInt16Ty());
    if (k + 1 < lanes)
      pair = b.CreateOr(pair, b.CreateShl(b.CreateZExt(b.CreateExtractElement(x, k + 1), b.getInt16Ty()), 8));
    V halves = widenE4m3Pair(v, pair);
    for (unsigned e = 0; e < 2 && k + e < lanes; ++e)
      out = b.CreateInsertElement(out, b.CreateFPExt(b.CreateExtractElement(halves, e), b.getFloatTy()), k + e);
  }
  return out;
}

V nvptxNarrow(VecEmitter &v, V x, Elem to, bool towardZero) {
  bool is8 = to == Elem::F8E4M3FN || to == Elem::F8E5M2;
  if (is8 ? !v.target.fp8 || towardZero : to != Elem::F16 && to != Elem::BF16)
    return nullptr;
  llvm::IRBuilder<> &b = v.b;
  llvm::Type *type = b.getIntNTy(ir::bitWidth(to));
  if (!x->getType()->isVectorTy()) {
    // The conversion of one value (cvt.rn.f16.f32) is slower, and ptxas 13.0 stores a zero for the low byte of its
    // result.
    return b.CreateTrunc(narrowPair(v, x, nullptr, to, towardZero), type);
  }
  unsigned lanes = lanesOf(x);
  V out = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, lanes));
  for (unsigned k = 0; k < lanes; k += 2) {
    V low = b.CreateExtractElement(x, k), high = k + 1 < lanes ? b.CreateExtractElement(x, k + 1) : nullptr;
    V pair = narrowPair(v, low, high, to, towardZero);
    out = b.CreateInsertElement(out, b.CreateTrunc(pair, type), k);
    if (high)
      out = b.CreateInsertElement(out, b.CreateTrunc(b.CreateLShr(pair, ir::bitWidth(to)), type), k + 1);
  }
  return out;
}

V nvptxShift(VecEmitter &v, OpKind kind, V x, V amount) {
  // By inline PTX, as LLVM may take it that amounts are less than the width.
  llvm::IRBuilder<> &b = v.b;
  bool isSigned = kind == OpKind::AShr;
  return eachLane(v, {x, amount}, [&](llvm::ArrayRef<V> a) -> V {
    llvm::Type *type = a[0]->getType(), *word = b.getInt32Ty();
    if (type->isIntegerTy(64)) {
      // ptxas 13.0 shifts a selection of two constants to the left by a constant amount modulo 64: none of 64 and more
      // may come to it.
      if (kind == OpKind::Shl) {
        V inside = b.CreateShl(a[0], b.CreateBinaryIntrinsic(in::umin, a[1], b.getInt64(63)));
        return b.CreateSelect(b.CreateICmpULT(a[1], b.getInt64(64)), inside, b.getInt64(0));
      }
      V by = b.CreateTrunc(b.CreateBinaryIntrinsic(in::umin, a[1], b.getInt64(64)), word);
      return ptx(v, isSigned ? "shr.s64 $0, $1, $2;" : "shr.u64 $0, $1, $2;", "=l,l,r", type, {a[0], by});
    }
    V r =
        ptx(v,
            kind == OpKind::Shl ? "shl.b32 $0, $1, $2;"
            : isSigned          ? "shr.s32 $0, $1, $2;"
                                : "shr.u32 $0, $1, $2;",
            "=r,r,r", word, {isSigned ? b.CreateSExt(a[0], word) : b.CreateZExt(a[0], word), b.CreateZExt(a[1], word)});
    return b.CreateTrunc(r, type);
  });
}

V nvptxDivide(VecEmitter &v, V x, V y, bool isSigned, bool isRem) {
  if (x->getType()->isIntegerTy(64))
    return isSigned ? divideSigned64(v, x, y, isRem) : divide64(v, x, y, isRem);
  if (!x->getType()->isIntegerTy(32))
    return nullptr;
  std::string text = std::string(isRem ? "rem." : "div.") + (isSigned ? "s32" : "u32") + " $0, $1, $2;";
  return ptx(v, text.c_str(), "=r,r,r", x->getType(), {x, y});
}

V nvptxFloatToInt(VecEmitter &v, V x, unsigned bits, bool isSigned) {
  if (bits == 1)
    return nullptr;
  llvm::IRBuilder<> &b = v.b;
  if (bits < 32 && !isDouble(x)) {
    // One instruction, which saturates and gives 0 for NaN; with a rounding before it the assembler takes them together
    // (PTX ISA, cvt).
    std::string text = std::string("cvt.rzi.") + (isSigned ? "s" : "u") + std::to_string(bits) + ".f32 $0, $1;";
    auto *convert = llvm::InlineAsm::get(llvm::FunctionType::get(b.getInt32Ty(), {b.getFloatTy()}, false), text, "=r,f",
                                         /*hasSideEffects=*/false);
    return eachLane(
        v, {x}, [&](llvm::ArrayRef<V> a) -> V { return b.CreateTrunc(b.CreateCall(convert, a), b.getIntNTy(bits)); });
  }
  return eachLane(v, {x}, [&](llvm::ArrayRef<V> a) -> V {
    bool d = isDouble(a[0]), wide = bits == 64;
    in::ID id =
        wide ? (isSigned ? (d ? in::nvvm_d2ll_rz : in::nvvm_f2ll_rz) : (d ? in::nvvm_d2ull_rz : in::nvvm_f2ull_rz))
             : (isSigned ? (d ? in::nvvm_d2i_rz : in::nvvm_f2i_rz) : (d ? in::nvvm_d2ui_rz : in::nvvm_f2ui_rz));
    V n = call(v, id, a); // saturates
    llvm::Type *type = n->getType();
    if (wide || d) // 32 bits from float: NaN gives 0 as it is
      n = b.CreateSelect(b.CreateFCmpUNO(a[0], a[0]), llvm::Constant::getNullValue(type), n);
    if (bits >= 32)
      return n;
    auto limit = [&](const llvm::APInt &c, in::ID minOrMax) {
      n = b.CreateBinaryIntrinsic(minOrMax, n, llvm::ConstantInt::get(type, isSigned ? c.sext(32) : c.zext(32)));
    };
    limit(isSigned ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits),
          isSigned ? in::smin : in::umin);
    if (isSigned)
      limit(llvm::APInt::getSignedMinValue(bits), in::smax);
    return b.CreateTrunc(n, b.getIntNTy(bits));
  });
}

V nvptxIntToFloat(VecEmitter &v, V x, Elem to, bool isSigned) {
  llvm::IRBuilder<> &b = v.b;
  unsigned bits = x->getType()->getScalarSizeInBits();
  if (bits < 8)
    return nullptr;
  auto convert = [&](llvm::Type *t) { return isSigned ? b.CreateSIToFP(x, t) : b.CreateUIToFP(x, t); };
  if (to == Elem::F32 && bits < 32 && isSigned) {
    // The assembler takes the conversion from 16 bits, also of what was extended: 16 a clock and SM. The last bits of
    // 2^23 + 2^(bits - 1) + x are those of x, with another sign.
    Arith a(v);
    uint32_t middle = 1u << (bits - 1);
    V y = b.CreateBitCast(a.xor_(b.CreateZExt(x, intLike(x, 32)), 0x4B000000u | middle), floatLike(x));
    return b.CreateFSub(y, a.f(y, 0x1p23 + middle));
  }
  if (to == Elem::F32)
    return convert(floatLike(x));
  if (to == Elem::F16)
    return b.CreateBitCast(convert(likeShape(x->getType(), b.getHalfTy())), intLike(x, 16));
  if (bits != 32 || to == Elem::F64)
    return nullptr;
  // Rounded to odd in float, then once to the narrow format.
  V wide = eachLane(v, {x}, [&](llvm::ArrayRef<V> a) {
    V y = call(v, isSigned ? in::nvvm_i2f_rz : in::nvvm_ui2f_rz, a);
    V back = call(v, isSigned ? in::nvvm_f2i_rz : in::nvvm_f2ui_rz, {y});
    V sticky = b.CreateZExt(b.CreateICmpNE(back, a[0]), b.getInt32Ty());
    return b.CreateBitCast(b.CreateOr(b.CreateBitCast(y, b.getInt32Ty()), sticky), b.getFloatTy());
  });
  return v.narrow(wide, to);
}

namespace {

/// n = floor(x log2 e), clamped to the exponents of normal numbers; 2^n times 2^(x log2 e - n). The second factor is in
/// [1, 2), where the instruction is at its best, or takes care of overflow and subnormal results. Flushing subnormal
/// numbers changes no result, and without it ex2 takes four instructions: where 2^(x log2 e - n) is subnormal, 2^n is
/// 2^-126.
V expFloat(VecEmitter &v, V x) {
  Arith a(v);
  constexpr double log2e = 0x1.715476p+0, log2eRest = 0x1.4ae0bep-26;
  V t = ptx(v, "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f", x->getType(), {x, a.f(x, log2e / 252), a.f(x, 0.5)});
  // 1.5 * 2^23 lets the sum's low bits count; 1 + 252 t is the biased exponent of 2^n.
  V sum = call(v, in::nvvm_fma_rm_f, {t, a.f(x, 252), a.f(x, 0x1.8p23 + 1)});
  V negated = a.b.CreateFNeg(a.fadd(sum, -(0x1.8p23 + 127)));
  V rest = a.mulAdd(x, log2eRest, a.mulAdd(x, log2e, negated));
  V power = a.floatOf(a.shl(a.bitsOf(sum), 23));
  return a.b.CreateFMul(call(v, in::nvvm_ex2_approx_ftz_f, {rest}), power);
}

/// The instruction that a function is: the one given flushes subnormal numbers to zero, unless the launch wants to keep
/// them.
in::ID flushing(const VecEmitter &v, in::ID id) {
  if (!v.target.keepsSubnormals) return id;
  switch (id) {
  case in::nvvm_ex2_approx_ftz_f: return in::nvvm_ex2_approx_f;
  case in::nvvm_lg2_approx_ftz_f: return in::nvvm_lg2_approx_f;
  case in::nvvm_sin_approx_ftz_f: return in::nvvm_sin_approx_f;
  case in::nvvm_cos_approx_ftz_f: return in::nvvm_cos_approx_f;
  default: return id;
  }
}

} // namespace

V nvptxMath(VecEmitter &v, OpKind kind, V x) {
  if (isDouble(x))
    return nullptr;
  switch (kind) {
  case OpKind::Exp:
    return eachLane(v, {x}, [&](llvm::ArrayRef<V> a) { return expFloat(v, a[0]); });
  case OpKind::Exp2:
    // as Triton: subnormal results are 0
    return eachLane(v, {x}, [&](llvm::ArrayRef<V> a) { return call(v, flushing(v, in::nvvm_ex2_approx_ftz_f), a); });
  case OpKind::Rsqrt:
    return eachLane(v, {x}, [&](llvm::ArrayRef<V> a) { return call(v, in::nvvm_rsqrt_approx_f, a); });
  default:
    return nullptr;
  }
}

V nvptxReciprocal(VecEmitter &v, V x) {
  return eachLane(v, {x}, [&](llvm::ArrayRef<V> a) { return call(v, in::nvvm_rcp_approx_ftz_f, a); });
}

V nvptxFast(VecEmitter &v, OpKind kind, llvm::ArrayRef<V> x) {
  return eachLane(v, x, [&](llvm::ArrayRef<V> a) -> V {
    Arith arith(v);
    switch (kind) {
    case OpKind::FDiv:
      if (v.target.keepsSubnormals) return call(v, in::nvvm_div_approx_f, {a[0], a[1]});
      return v.b.CreateFMul(a[0], call(v, in::nvvm_rcp_approx_ftz_f, {a[1]}));
    case OpKind::Exp: return call(v, flushing(v, in::nvvm_ex2_approx_ftz_f), {arith.fmul(a[0], 0x1.715476p+0)});
    case OpKind::Log: return arith.fmul(call(v, flushing(v, in::nvvm_lg2_approx_ftz_f), a), 0x1.62e43p-1);
    case OpKind::Log2: return call(v, flushing(v, in::nvvm_lg2_approx_ftz_f), a);
    case OpKind::Sin: return call(v, flushing(v, in::nvvm_sin_approx_ftz_f), a);
    case OpKind::Cos: return call(v, flushing(v, in::nvvm_cos_approx_ftz_f), a);
    case OpKind::Tanh: return ptx(v, "tanh.approx.f32 $0, $1;", "=f,f", v.b.getFloatTy(), a);
    default: llvm_unreachable("no operation that is marked fast");
    }
  });
}

V nvptxApprox(VecEmitter &v, OpKind kind, llvm::ArrayRef<V> x) {
  if (isDouble(x[0]))
    return nullptr;
  return eachLane(v, x, [&](llvm::ArrayRef<V> a) -> V {
    if (kind == OpKind::Exp)
      return call(v, in::nvvm_ex2_approx_f, {Arith(v).fmul(a[0], 0x1.715476p+0)});
    return kind == OpKind::Sqrt ? call(v, in::nvvm_sqrt_approx_f, a)
                                : ptx(v, "div.full.f32 $0, $1, $2;", "=f,f,f", v.b.getFloatTy(), a);
  });
}

} // namespace tegula::targets
