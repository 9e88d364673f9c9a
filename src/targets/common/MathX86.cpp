// exp, exp2, tanh, log and log2 of floats on x86 with fused multiply-adds: what shuffles by a table and AVX-512's
// instructions for exponents save. Math.cpp has what holds everywhere.
//
// Powers of two come from a table that a register holds (P. T. P. Tang, Table-driven implementation of the exponential
// function, ACM TOMS 15, 1989): `vpermps` looks up as many entries as it has lanes, by the low bits of each index, on a
// port that multiply-adds do not use. So a fraction of a quarter (AVX2, 8 entries) or a sixteenth (AVX-512) is left for
// the polynomial, which is two to three terms shorter.
//
// Vectors of fewer lanes, and scalars, are widened for it, so that each element has the same value wherever it lies.
#include "targets/common/MathTables.h"
#include "targets/common/MathX86.h"
#include "llvm/IR/IntrinsicsX86.h"
#include <bit>
#include <cmath>

namespace tegula::targets {
namespace {

using ir::OpKind;
using V = llvm::Value *;
using namespace llvm::Intrinsic;

/// The places of the first and the second half of a vector of n lanes, and of both one after the other: shuffles of
/// whole registers, which cost nothing.
struct Halves {
  llvm::SmallVector<int, 32> low, high, all;
  explicit Halves(unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      (i < n / 2 ? low : high).push_back(static_cast<int>(i));
      all.push_back(static_cast<int>(i));
    }
  }
};

struct X86Math : Arith {
  using Arith::Arith;
  bool wide = v.target.avx512;

  /// The first lanes of x; what is after these in a wider vector is unspecified.
  V lanes(V x, unsigned n);
  V scalarOrLanes(V x, unsigned n) { return n == 1 ? b.CreateExtractElement(x, uint64_t(0)) : lanes(x, n); }
  template <typename F> V inRegisters(V x, unsigned registerLanes, F &&of);

  /// table[index % size], of 8 (AVX2), 16 or 32 (AVX-512) entries: a register or two.
  V lookUp(V index, llvm::ArrayRef<uint32_t> table);
  /// The bits of float(of(j)) for each j below n.
  template <typename F> llvm::SmallVector<uint32_t, 32> powers(unsigned n, F &&of);

  /// x in steps of 1/`steps`: `value` is the nearest multiple, the low bits of `bits` count the steps, with `bias`
  /// added to the whole numbers.
  struct Steps {
    V value, bits;
  };
  Steps nearest(V sum, double whole) { return {fadd(sum, -whole), bitsOf(sum)}; }
  double whole(unsigned steps, double bias) { return 0x1.8p23 / steps + bias; }
  V reduceByLn2(V x, V n) { return mulAdd(n, -tables::ln2Low32, mulAdd(n, -tables::ln2High32, x)); }
  /// 2^k as a float, k the whole numbers of bits that count them with a bias of 127 above `digits` bits.
  V wholePower(V bits, unsigned digits) { return and_(shl(bits, 23 - digits), 0xFF800000); }

  V atMost(V x, double c) { return b.CreateSelect(b.CreateFCmpOGT(x, f(x, c)), f(x, c), x); }
  V atLeast(V x, double c) { return b.CreateSelect(b.CreateFCmpOLT(x, f(x, c)), f(x, c), x); }

  V power(V p, Steps n, V nonzero);
  V reciprocal(V x);
  V exp(V x), exp2(V x), tanh(V x);

  /// x = 2^exponent * (1 + f), 1 + f in [3/4, 3/2).
  struct Split {
    V f, exponent;
  };
  Split split(V x), splitNormal(V x);
  V special(V x, V result);
  V logOf(V x, OpKind kind);
  /// The exponent of s is in multiples of `unit`.
  V log(Split s, double unit), log2(Split s, double unit);
};

V X86Math::lanes(V x, unsigned n) {
  if (lanesOf(x) == 1)
    return b.CreateInsertElement(llvm::PoisonValue::get(llvm::FixedVectorType::get(x->getType(), n)), x, uint64_t(0));
  llvm::SmallVector<int, 16> places;
  for (unsigned i = 0; i < n; ++i)
    places.push_back(i < lanesOf(x) ? static_cast<int>(i) : -1);
  return b.CreateShuffleVector(x, places);
}

/// of(register) for each register of x, one after the other; x is widened to one where it has fewer lanes.
template <typename F> V X86Math::inRegisters(V x, unsigned registerLanes, F &&of) {
  unsigned n = lanesOf(x);
  if (n < registerLanes)
    return scalarOrLanes(of(lanes(x, registerLanes)), n);
  if (n == registerLanes)
    return of(x);
  const Halves h(n);
  V first = inRegisters(b.CreateShuffleVector(x, h.low), registerLanes, of),
    second = inRegisters(b.CreateShuffleVector(x, h.high), registerLanes, of);
  return b.CreateShuffleVector(first, second, h.all);
}

V X86Math::lookUp(V index, llvm::ArrayRef<uint32_t> table) {
  auto part = [&](size_t from, size_t count) {
    return llvm::ConstantDataVector::get(b.getContext(), table.slice(from, count));
  };
  if (table.size() == 8)
    return inRegisters(index, 8, [&](V i) -> V { return b.CreateIntrinsic(x86_avx2_permd, {}, {part(0, 8), i}); });
  return inRegisters(index, 16, [&](V i) -> V {
    if (table.size() == 16)
      return b.CreateIntrinsic(x86_avx512_permvar_si_512, {}, {part(0, 16), i});
    return b.CreateIntrinsic(x86_avx512_vpermi2var_d_512, {}, {part(0, 16), i, part(16, 16)});
  });
}

template <typename F> llvm::SmallVector<uint32_t, 32> X86Math::powers(unsigned n, F &&of) {
  llvm::SmallVector<uint32_t, 32> table;
  for (unsigned j = 0; j < n; ++j)
    table.push_back(std::bit_cast<uint32_t>(static_cast<float>(of(j))));
  return table;
}

/// (1 + p) 2^n. AVX-512: n in sixteenths, 0 where `nonzero` is false. AVX2: n in quarters, so that a table of eight has
/// the powers up to 4, and the whole numbers that are left, k = floor(n / 2), are the square of one float: 2^n = T 2^k
/// 2^k. Its bits, with the bias that `whole` adds, are those of n shifted; from n = -254 down they are 0, and so is the
/// result, without products that underflow.
V X86Math::power(V p, Steps n, V nonzero) {
  if (wide) {
    V t = floatOf(lookUp(n.bits, powers(16, [](unsigned j) { return std::exp2(j / 16.0); })));
    return emitScale(v, mulAdd(p, t, t), n.value, nonzero); // floor(n.value) is what counts there
  }
  llvm::SmallVector<uint32_t, 32> table = powers(8, [](unsigned j) { return std::exp2(j / 4.0); });
  for (uint32_t &t : table)
    t -= std::bit_cast<uint32_t>(1.0f);
  V k = wholePower(n.bits, 3);
  V t = floatOf(b.CreateAdd(lookUp(n.bits, table), k));
  return b.CreateFMul(mulAdd(p, t, t), floatOf(k));
}

V X86Math::exp(V x) {
  using namespace tables;
  // beyond these the result is infinity anyway, or 0: half of the least number at most, to even
  V y = atMost(x, 89), nonzero = nullptr;
  if (wide)
    nonzero = b.CreateFCmpUGE(x, f(x, -104));
  else
    y = atLeast(y, -176);
  double w = wide ? whole(16, 0) : whole(4, 254);
  Steps n = nearest(mulAdd(y, 0x1.71547652b82fep+0, f(y, w)), w);
  V r = reduceByLn2(y, n.value);
  V tail = wide ? poly(r, expTail32By16) : poly(r, expTail32By4);
  return power(mulAdd(b.CreateFMul(r, r), tail, r), n, nonzero);
}

V X86Math::exp2(V x) {
  using namespace tables;
  V y = atMost(x, 129), nonzero = nullptr; // as in exp()
  if (wide)
    nonzero = b.CreateFCmpUGE(x, f(x, -150));
  else
    y = atLeast(y, -254);
  double w = wide ? whole(16, 0) : whole(4, 254);
  Steps n = nearest(fadd(y, w), w);
  V r = b.CreateFSub(y, n.value);
  return power(b.CreateFMul(r, wide ? poly(r, exp2Tail32By16) : poly(r, exp2Tail32By4)), n, nonzero);
}

/// 2|x| = (k + j/steps) ln 2 + r with all of it at least 0. With L = 1 - 2^(-j/steps), p = 1 - e^-r and u = L + (1 - L)
/// p, tanh |x| = (2^k - 1 + u) / (2^k + 1 - u): sums of what is not negative, and p alone near zero.
/// AVX2, of which the steps are twice as large, takes back what the rounded divisor does to the quotient, or it would
/// be 2.2 ulp.
V X86Math::tanh(V x) {
  using namespace tables;
  unsigned steps = wide ? 32 : 8;
  V y = atMost(fabs(x), 10);
  y = b.CreateFAdd(y, y);
  double w = whole(steps, 127);
  Steps n = nearest(fadd(mulAdd(y, 0x1.71547652b82fep+0, f(y, -0.5 / steps)), w), w); // rounds down
  V r = reduceByLn2(y, n.value);
  auto less = [=](unsigned j) { return 1 - std::exp2(-static_cast<double>(j) / steps); };
  V high = floatOf(lookUp(n.bits, powers(steps, less))),
    low = floatOf(lookUp(n.bits, powers(steps, [=](unsigned j) { return less(j) - static_cast<float>(less(j)); })));
  // p = r - r^2 tail, its parts added one by one
  V power = b.CreateFSub(f(x, 1), high), less2 = b.CreateFNeg(b.CreateFMul(b.CreateFMul(r, r), power));
  V u = b.CreateFAdd(high,
                     mulAdd(power, r, mulAdd(less2, wide ? poly(r, decayTail32By32) : poly(r, decayTail32By8), low)));
  V s = floatOf(wholePower(n.bits, wide ? 5 : 3)), sPlus1 = fadd(s, 1), d = b.CreateFSub(sPlus1, u);
  V q = b.CreateFDiv(b.CreateFAdd(fadd(s, -1), u), d);
  if (!wide) {
    V error = b.CreateFSub(b.CreateFSub(sPlus1, d), u), part = b.CreateFMul(q, reciprocal(d));
    q = mulAdd(b.CreateFNeg(part), error, q);
  }
  return copySign(q, x);
}

/// AVX2: 1/x but for 2^-11 of it.
V X86Math::reciprocal(V x) {
  return inRegisters(x, 8, [&](V y) -> V { return b.CreateIntrinsic(x86_avx_rcp_ps_256, {}, {y}); });
}

X86Math::Split X86Math::split(V x) {
  // zero: -infinity and 1; infinity: infinity and 1; negative numbers: NaN (Intel's manual, VGETMANT, of which the sign
  // is "NaN if negative" here)
  if (wide) {
    auto native = [&](V y, ID id128, ID id256, ID id512, llvm::ArrayRef<V> rest) {
      return inRegisters(y, std::clamp(lanesOf(y), 4u, 16u), [&](V z) -> V {
        unsigned n = lanesOf(z);
        llvm::SmallVector<V, 5> args = {z};
        args.append(rest.begin(), rest.end());
        args.push_back(llvm::Constant::getNullValue(z->getType()));
        args.push_back(llvm::ConstantInt::get(b.getIntNTy(std::max(8u, n)), ~uint64_t(0)));
        if (n == 16)
          args.push_back(b.getInt32(4)); // current rounding mode
        return b.CreateIntrinsic(n == 4 ? id128 : n == 8 ? id256 : id512, {}, args);
      });
    };
    V m = native(x, x86_avx512_mask_getmant_ps_128, x86_avx512_mask_getmant_ps_256, x86_avx512_mask_getmant_ps_512,
                 {b.getInt32(8 | 3)});
    auto exponent = [&](V y) {
      return native(y, x86_avx512_mask_getexp_ps_128, x86_avx512_mask_getexp_ps_256, x86_avx512_mask_getexp_ps_512, {});
    };
    return {fadd(m, -1), b.CreateFSub(exponent(x), exponent(m))};
  }
  // Subnormals are scaled into the normal range first, by 2^23: as no blend is needed, both are what is added to the
  // bits of numbers.
  V bits = bitsOf(x);
  V more = b.CreateAnd(b.CreateSExt(b.CreateICmpSLT(bits, i(bits, 1 << 23)), bits->getType()), i(bits, 23 << 23));
  V factor = floatOf(add(more, std::bit_cast<uint32_t>(1.0f)));
  uint32_t least = std::bit_cast<uint32_t>(0.75f);
  V above = sub(bitsOf(b.CreateFMul(x, factor)), least);
  V m = floatOf(add(and_(above, 0x7FFFFF), least));
  return {fadd(m, -1), b.CreateSIToFP(ashr(b.CreateSub(above, more), 23), x->getType())};
}

/// AVX2: the logarithm of what is no positive number, in place of a finite result: infinity and NaN are added, as is
/// -infinity for zero; negative numbers set all bits.
V X86Math::special(V x, V result) {
  auto where = [&](V condition) { return b.CreateSExt(condition, intLike(x, 32)); };
  V large = b.CreateAnd(where(b.CreateFCmpUGE(x, f(x, INFINITY))), bitsOf(x));
  V zero = b.CreateAnd(where(b.CreateFCmpOEQ(x, f(x, 0))), bitsOf(f(x, -INFINITY)));
  V sum = b.CreateFAdd(result, floatOf(b.CreateOr(large, zero)));
  return floatOf(b.CreateOr(bitsOf(sum), where(b.CreateFCmpOLT(x, f(x, 0)))));
}

/// AVX2: of a positive normal number, with fewer operations; the exponent is 2^23 times as large.
X86Math::Split X86Math::splitNormal(V x) {
  uint32_t least = std::bit_cast<uint32_t>(0.75f);
  V bits = bitsOf(x), whole = and_(sub(bits, least), 0xFF800000);
  return {fadd(floatOf(b.CreateSub(bits, whole)), -1), b.CreateSIToFP(whole, x->getType())};
}

V X86Math::log(Split s, double unit) {
  V rest = mulAdd(b.CreateFMul(s.f, s.f), poly(s.f, tables::logRest32), s.f);
  return mulAdd(s.exponent, 0x1.62e42fefa39efp-1 * unit, rest); // ln 2 is a float but for 2^-28 of it
}

V X86Math::log2(Split s, double unit) {
  using namespace tables;
  V rest = b.CreateFMul(b.CreateFMul(s.f, s.f), poly(s.f, logRest32)); // log(1+f) - f
  V r = mulAdd(s.f, log2eHigh32, mulAdd(rest, log2eHigh32, fmul(s.f, log2eLow32)));
  return unit == 1 ? b.CreateFAdd(s.exponent, r) : mulAdd(s.exponent, unit, r);
}

/// AVX2 finds the numbers that need care by one comparison and leaves them, and the others of their vector, to a
/// function that is seldom called: a third of the operations. Results of other numbers are the same in both.
V X86Math::logOf(V x, OpKind kind) {
  auto core = [kind](X86Math &m, Split s, double unit) {
    return kind == OpKind::Log ? m.log(s, unit) : m.log2(s, unit);
  };
  if (wide)
    return core(*this, split(x), 1);
  const std::string name = kind == OpKind::Log ? "log" : "log2";
  return callShared(v, name, x, [&](VecEmitter &e, V y) {
    X86Math m(e);
    // Not from 2^-126 to the largest number: one signed comparison of bits less those of 2^-126, turned to the lower
    // end of the range.
    V isRare = e.b.CreateICmpSGT(m.add(m.bitsOf(y), 0x7F800000), m.i(m.bitsOf(y), 0xFEFFFFFF));
    returnIfAny(e, isRare, [&] {
      return callShared(e, name + ".any", y, [&](VecEmitter &e2, V z) {
        X86Math m2(e2);
        e2.b.CreateRet(m2.special(z, core(m2, m2.split(z), 1)));
      });
    });
    e.b.CreateRet(core(m, m.splitNormal(y), 0x1p-23));
  });
}

} // namespace

V emitScale(VecEmitter &v, V x, V n, V nonzero) {
  X86Math m(v);
  bool d = x->getType()->getScalarSizeInBits() == 64;
  unsigned least = d ? 2 : 4, count = lanesOf(x);
  if (count > 4 * least) {
    const Halves h(count);
    auto half = [&](llvm::ArrayRef<int> part) {
      return emitScale(v, v.b.CreateShuffleVector(x, part), v.b.CreateShuffleVector(n, part),
                       nonzero ? v.b.CreateShuffleVector(nonzero, part) : nullptr);
    };
    V first = half(h.low), second = half(h.high);
    return v.b.CreateShuffleVector(first, second, h.all);
  }
  if (count < least)
    return m.scalarOrLanes(
        emitScale(v, m.lanes(x, least), m.lanes(n, least), nonzero ? m.lanes(nonzero, least) : nullptr), count);
  unsigned width = count * (d ? 64 : 32), maskBits = std::max(8u, count);
  ID id = width == 512   ? (d ? x86_avx512_mask_scalef_pd_512 : x86_avx512_mask_scalef_ps_512)
          : width == 256 ? (d ? x86_avx512_mask_scalef_pd_256 : x86_avx512_mask_scalef_ps_256)
                         : (d ? x86_avx512_mask_scalef_pd_128 : x86_avx512_mask_scalef_ps_128);
  V mask = llvm::ConstantInt::get(v.b.getIntNTy(maskBits), ~uint64_t(0) >> (64 - maskBits));
  if (nonzero) {
    llvm::SmallVector<int, 16> all;
    for (unsigned i = 0; i < maskBits; ++i)
      all.push_back(static_cast<int>(i < count ? i : count));
    mask = v.b.CreateBitCast(
        count == maskBits ? nonzero
                          : v.b.CreateShuffleVector(nonzero, llvm::Constant::getNullValue(nonzero->getType()), all),
        v.b.getIntNTy(maskBits));
  }
  llvm::SmallVector<V, 5> args = {x, n, nonzero ? llvm::Constant::getNullValue(x->getType()) : x, mask};
  if (width == 512)
    args.push_back(v.b.getInt32(4)); // current rounding mode
  return v.b.CreateIntrinsic(id, {}, args);
}

V emitMathX86(VecEmitter &v, OpKind kind, V x) {
  if (!v.target.x86 || v.target.gpu || !v.target.fma || !v.target.avx2 || x->getType()->getScalarSizeInBits() != 32)
    return nullptr;
  X86Math m(v);
  switch (kind) {
  case OpKind::Exp:
    return m.exp(x);
  case OpKind::Exp2:
    return m.exp2(x);
  case OpKind::Tanh:
    return m.tanh(x);
  case OpKind::Log:
  case OpKind::Log2:
    return m.logOf(x, kind);
  default:
    return nullptr;
  }
}

// The divider takes twelve cycles for a root of 16 floats on Intel's cores; multiply-adds do it in half of that, and
// divisions beside it go on. From an estimate y of 1/sqrt(x), g of the root and h of half its reciprocal are improved
// together, and the last step adds the exact remainder x - g^2 times h, which rounds as the root does (P. W. Markstein,
// Computation of elementary functions on the IBM RISC System/6000 processor, IBM J. Res. Dev. 34, 1990). test_math.py
// compares all floats of two binades, which stand for the others: numbers whose remainder would be subnormal are scaled
// by 2^64.
V emitSqrtX86(VecEmitter &v, V x) {
  if (!v.target.x86 || v.target.gpu || !v.target.avx512 || !x->getType()->isVectorTy() ||
      !x->getType()->getScalarType()->isFloatTy() || lanesOf(x) < 16)
    return nullptr;
  X86Math m(v);
  return m.inRegisters(x, 16, [&](V all) -> V {
    llvm::IRBuilder<> &b = m.b;
    V small = b.CreateFCmpOLT(all, m.f(all, 0x1p-100)), z = b.CreateSelect(small, m.fmul(all, 0x1p64), all);
    V every = llvm::ConstantInt::get(b.getInt16Ty(), 0xFFFF),
      y = b.CreateIntrinsic(x86_avx512_rsqrt14_ps_512, {}, {z, llvm::Constant::getNullValue(z->getType()), every});
    V g = b.CreateFMul(z, y), h = m.fmul(y, 0.5);
    V r = m.mulAdd(b.CreateFNeg(g), h, 0.5);
    g = m.mulAdd(g, r, g), h = m.mulAdd(h, r, h);
    V root = m.mulAdd(m.mulAdd(b.CreateFNeg(g), g, z), h, g);
    root = b.CreateSelect(small, m.fmul(root, 0x1p-32), root);
    // zeros of both signs and infinity
    V itself = b.CreateIntrinsic(x86_avx512_fpclass_ps_512, {}, {all, b.getInt32(0x02 | 0x04 | 0x08)});
    return b.CreateSelect(itself, all, root);
  });
}

// The instruction gives -2^31 for all that it cannot convert (Intel SDM vol. 2, VCVTTPS2DQ): what is too large differs
// from the largest number in all bits, what is too small is right.
V emitToIntX86(VecEmitter &v, V x) {
  X86Math m(v);
  V raw = m.inRegisters(x, m.wide && lanesOf(x) >= 16 ? 16 : 8, [&](V y) -> V {
    if (lanesOf(y) == 8)
      return m.b.CreateIntrinsic(x86_avx_cvtt_ps2dq_256, {}, {y});
    V all = llvm::ConstantInt::get(m.b.getInt16Ty(), 0xFFFF), none = llvm::Constant::getNullValue(intLike(y, 32));
    // 4: exceptions as they are set
    return m.b.CreateIntrinsic(x86_avx512_mask_cvttps2dq_512, {}, {y, none, all, m.b.getInt32(4)});
  });
  V r = m.b.CreateXor(raw, m.b.CreateSExt(m.b.CreateFCmpOGE(x, m.f(x, 0x1p31)), raw->getType()));
  return m.b.CreateSelect(m.isNan(x), llvm::Constant::getNullValue(r->getType()), r);
}

// The significand, an integer of 53 bits, is shifted by what its exponent says; the instructions give zero for amounts
// from 64 on (Intel SDM vol. 2, VPSLLVQ, VPSRLVQ), so one of the two shifts does unless both give the same.
V emitToLongX86(VecEmitter &v, V x) {
  X86Math m(v);
  return m.inRegisters(x, 4, [&](V y) -> V {
    V bits = m.bitsOf(y), significand = m.or_(m.and_(bits, (uint64_t(1) << 52) - 1), uint64_t(1) << 52);
    V left = m.sub(m.and_(m.lshr(bits, 52), 0x7FF), 1075), right = m.b.CreateNeg(left);
    V size = m.b.CreateOr(m.b.CreateIntrinsic(x86_avx2_psllv_q_256, {}, {significand, left}),
                          m.b.CreateIntrinsic(x86_avx2_psrlv_q_256, {}, {significand, right}));
    V sign = m.b.CreateSExt(m.b.CreateICmpSLT(bits, m.i(bits, 0)), bits->getType());
    V r = m.b.CreateSub(m.b.CreateXor(size, sign), sign);
    r = m.b.CreateSelect(m.b.CreateICmpSGT(left, m.i(left, 10)), m.b.CreateXor(sign, m.i(bits, INT64_MAX)), r);
    return m.b.CreateSelect(m.isNan(y), llvm::Constant::getNullValue(bits->getType()), r);
  });
}

// Both halves as the low bits of doubles, 2^52 + low and 2^84 + 2^63 + 2^32 high; what is too much is taken from the
// upper one, exactly, and their sum is rounded once.
V emitFromLongX86(VecEmitter &v, V x) {
  X86Math m(v);
  V low = m.floatOf(m.or_(m.and_(x, 0xFFFFFFFF), 0x4330000000000000)),
    high = m.floatOf(m.xor_(m.lshr(x, 32), 0x4530000080000000));
  return m.b.CreateFAdd(m.fadd(high, -(0x1p84 + 0x1p63 + 0x1p52)), low);
}

} // namespace tegula::targets
