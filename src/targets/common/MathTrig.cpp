// Sine and cosine on float and double, right for every argument.
//
// x = n * pi/2 + r with |r| <= pi/4. Up to 2^20 the subtraction is done with pi/2 in three parts (double arithmetic,
// also for float); if any lane lies beyond, those lanes go one by one through a multiplication of their 53 digits by
// the 192 digits of 2/pi that matter for them (Payne and Hanek's method). As this needs branches, each function is
// emitted once per vector length as an internal function of the module and called: the code around a sine stays one
// basic block. Floats of less than 2^17 on CPUs with fused multiply-adds need no double arithmetic (Angles.h): vectors
// of such alone take less than half the time.
#include "targets/common/Angles.h"
#include "targets/common/MathTables.h"
#include "targets/common/VecUtil.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include <cmath>
#include <optional>

namespace tegula::targets {
namespace {

using ir::OpKind;
using V = llvm::Value *;

constexpr double largeArgument = 0x1p20;

/// {quadrant, rest}, which functions return.
V packed(llvm::IRBuilder<> &b, Angle a) {
  V both = llvm::PoisonValue::get(llvm::StructType::get(a.quadrant->getType(), a.rest->getType()));
  return b.CreateInsertValue(b.CreateInsertValue(both, a.quadrant, 0), a.rest, 1);
}

struct Reduced {
  V quadrant;  // i64 per lane; only the low two bits count
  V high, low; // double; r = high + low
};

class TrigEmitter : public Arith {
public:
  using Arith::Arith;
  Reduced reduceSmall(V x, bool wantLow);
  Reduced reduceLarge(V x);
  V kernel(V x, Reduced r, OpKind kind);
  V floatKernel(V x, V quadrant, V rest, OpKind kind);
  /// Returns sine or cosine; of no kind, the angle of a float.
  void body(V arg, std::optional<OpKind> kind);
  V floatOfAngle(Angle a, OpKind kind);
  llvm::Function *largeFunction();

private:
  V sinFloat(V r);
  V cosFloat(V r);
  V sinDouble(V r, V low);
  V cosDouble(V r, V low);
  llvm::GlobalVariable *digits();
  V ofQuadrant(V x, V sine, V cosine, V n, OpKind kind);
};

Reduced TrigEmitter::reduceSmall(V x, bool wantLow) {
  using namespace tables;
  V sum = mulAdd(x, 0x1.45f306dc9c883p-1, f(x, 0x1.8p52)); // x * 2/pi, rounded
  V n = fadd(sum, -0x1.8p52);
  // n has 20 bits, halfPi1 and halfPi2 have 33: both products are exact.
  V r1 = b.CreateFSub(x, fmul(n, halfPi1));
  if (!wantLow)
    return {bitsOf(sum), b.CreateFSub(r1, fmul(n, halfPi2And3)), nullptr};
  V p2 = fmul(n, halfPi2);
  V r2 = b.CreateFSub(r1, p2);
  V t = b.CreateFSub(r2, r1);
  V error = b.CreateFSub(b.CreateFSub(r1, b.CreateFSub(r2, t)), b.CreateFAdd(p2, t)); // r1 - p2 - r2
  V p3 = fmul(n, halfPi3);
  V high = b.CreateFSub(r2, p3);
  V low = b.CreateFAdd(b.CreateFSub(b.CreateFSub(r2, high), p3), error);
  return {bitsOf(sum), high, low};
}

llvm::GlobalVariable *TrigEmitter::digits() {
  llvm::Module *m = b.GetInsertBlock()->getModule();
  constexpr const char *name = "tegula.two_over_pi";
  if (auto *g = m->getNamedGlobal(name))
    return g;
  auto *data = llvm::ConstantDataArray::get(m->getContext(), llvm::ArrayRef<uint64_t>(tables::twoOverPi));
  auto *g = new llvm::GlobalVariable(*m, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, name);
  g->setAlignment(llvm::Align(64));
  return g;
}

/// One finite double of at least 2^17.
Reduced TrigEmitter::reduceLarge(V x) {
  llvm::Type *i64 = b.getInt64Ty(), *i128 = b.getInt128Ty();
  V bits = bitsOf(x);
  V m = or_(and_(bits, (1ull << 52) - 1), 1ull << 52);
  // x = m 2^e: digits of 2/pi before place e - 2 only add multiples of 4 quadrants. 64 zeros lead the table.
  V start = add(and_(lshr(bits, 52), 0x7FF), static_cast<uint64_t>(-1075 - 2 + 64));
  V word = lshr(start, 6), shift = and_(start, 63);
  V w[4];
  for (unsigned k = 0; k < 4; ++k)
    w[k] = b.CreateAlignedLoad(i64, b.CreateInBoundsGEP(i64, digits(), add(word, k)), llvm::Align(8));
  V f[3];
  for (unsigned k = 0; k < 3; ++k)
    f[k] = b.CreateIntrinsic(llvm::Intrinsic::fshl, {i64}, {w[k], w[k + 1], shift});
  // P = m * f mod 2^192 is the fraction of x / (2 pi).
  auto wide = [&](V y) { return b.CreateZExt(y, i128); };
  V low = b.CreateMul(wide(f[2]), wide(m));
  V mid = b.CreateAdd(b.CreateMul(wide(f[1]), wide(m)), lshr(low, 64));
  V p0 = b.CreateAdd(b.CreateMul(f[0], m), b.CreateTrunc(lshr(mid, 64), i64));
  V p1 = b.CreateTrunc(mid, i64), p2 = b.CreateTrunc(low, i64);
  V quadrant = lshr(add(p0, 1ull << 61), 62);
  // The rest as a signed fraction of a quadrant, 128 digits.
  V upper = b.CreateOr(shl(p0, 2), lshr(p1, 62)), lower = b.CreateOr(shl(p1, 2), lshr(p2, 62));
  V fraction = b.CreateOr(shl(wide(upper), 64), wide(lower));
  V negative = b.CreateICmpSLT(upper, b.getInt64(0));
  V size = b.CreateSelect(negative, b.CreateNeg(fraction), fraction);
  V zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, size, b.getFalse());
  V normal = b.CreateShl(size, zeros);
  V zeros64 = b.CreateTrunc(zeros, i64);
  auto part = [&](unsigned place) { // 53 digits whose last has the weight 2^(place-128-zeros)
    V d = b.CreateSIToFP(and_(b.CreateTrunc(lshr(normal, place), i64), (1ull << 53) - 1), b.getDoubleTy());
    V exponent = b.CreateSub(b.getInt64(1023 + place - 128), zeros64);
    return b.CreateFMul(d, floatOf(shl(exponent, 52)));
  };
  V high = part(75), rest = part(22);
  using namespace tables;
  V r = fmul(high, halfPiHigh);
  V error = emitFma(v, high, this->f(high, halfPiHigh), b.CreateFNeg(r));
  error = b.CreateFAdd(error, b.CreateFAdd(fmul(high, halfPiLow), fmul(rest, halfPiHigh)));
  V flip = b.CreateXor(negative, b.CreateICmpSLT(bits, b.getInt64(0)));
  quadrant = b.CreateSelect(b.CreateICmpSLT(bits, b.getInt64(0)), b.CreateNeg(quadrant), quadrant);
  return {quadrant, b.CreateSelect(flip, b.CreateFNeg(r), r), b.CreateSelect(flip, b.CreateFNeg(error), error)};
}

/// {i64 quadrant, double high, double low} (double), shared by all sines and cosines of the module.
llvm::Function *TrigEmitter::largeFunction() {
  llvm::Module *m = b.GetInsertBlock()->getModule();
  constexpr const char *name = "tegula.reduce_large";
  if (llvm::Function *f = m->getFunction(name))
    return f;
  llvm::Type *d = b.getDoubleTy();
  auto *result = llvm::StructType::get(b.getInt64Ty(), d, d);
  auto *f =
      llvm::Function::Create(llvm::FunctionType::get(result, {d}, false), llvm::Function::InternalLinkage, name, m);
  llvm::IRBuilder<> inner(llvm::BasicBlock::Create(m->getContext(), "entry", f));
  VecEmitter ve{inner, v.target};
  TrigEmitter t(ve);
  Reduced r = t.reduceLarge(f->getArg(0));
  V out = llvm::PoisonValue::get(result);
  out = inner.CreateInsertValue(out, r.quadrant, 0);
  out = inner.CreateInsertValue(out, r.high, 1);
  inner.CreateRet(inner.CreateInsertValue(out, r.low, 2));
  return f;
}

V TrigEmitter::sinFloat(V r) {
  V z = b.CreateFMul(r, r);
  return mulAdd(b.CreateFMul(r, z), poly(z, tables::sinTail32), r);
}
V TrigEmitter::cosFloat(V r) {
  V z = b.CreateFMul(r, r);
  return mulAdd(z, mulAdd(z, poly(z, tables::cosTail32), -0.5), 1.0);
}
V TrigEmitter::sinDouble(V r, V low) {
  V z = b.CreateFMul(r, r);
  V correction = b.CreateFMul(low, mulAdd(z, -0.5, f(z, 1)));
  return b.CreateFAdd(r, mulAdd(b.CreateFMul(r, z), poly(z, tables::sinTail64), correction));
}
V TrigEmitter::cosDouble(V r, V low) {
  V z = b.CreateFMul(r, r);
  V half = fmul(z, 0.5);
  V w = b.CreateFSub(f(z, 1), half);
  V lost = b.CreateFSub(b.CreateFSub(f(z, 1), w), half);
  V tail = mulAdd(b.CreateFMul(z, z), poly(z, tables::cosTail64), b.CreateFNeg(b.CreateFMul(r, low)));
  return b.CreateFAdd(w, b.CreateFAdd(lost, tail));
}

V TrigEmitter::ofQuadrant(V x, V sine, V cosine, V n, OpKind kind) {
  if (kind == OpKind::Cos)
    n = add(n, 1);
  V odd = b.CreateICmpNE(and_(n, 1), i(n, 0));
  V y = bitsOf(b.CreateSelect(odd, cosine, sine));
  y = floatOf(b.CreateXor(y, shl(and_(n, 2), n->getType()->getScalarSizeInBits() - 2)));
  // r has lost the sign of a zero argument.
  return kind == OpKind::Sin ? b.CreateSelect(b.CreateFCmpOEQ(x, f(x, 0)), x, y) : y;
}

V TrigEmitter::floatKernel(V x, V quadrant, V rest, OpKind kind) {
  return ofQuadrant(x, sinFloat(rest), cosFloat(rest), quadrant, kind);
}

V TrigEmitter::kernel(V x, Reduced r, OpKind kind) {
  if (!x->getType()->getScalarType()->isDoubleTy())
    return floatKernel(x, b.CreateTrunc(r.quadrant, intLike(x, 32)), b.CreateFPTrunc(r.high, x->getType()), kind);
  return ofQuadrant(x, sinDouble(r.high, r.low), cosDouble(r.high, r.low), r.quadrant, kind);
}

/// (By multiples of pi one polynomial would do, but next to 1 it is wrong by 1.9 ulp and beyond 1 at times.)
V TrigEmitter::floatOfAngle(Angle a, OpKind kind) {
  V n = kind == OpKind::Cos ? add(a.quadrant, 1) : a.quadrant;
  V sine = bitsOf(sinFloat(a.rest));
  if (kind == OpKind::Sin) // a sum, that has lost the sign of a zero
    sine = b.CreateOr(sine, and_(bitsOf(a.rest), 0x80000000));
  V odd = b.CreateICmpSLT(shl(n, 31), i(n, 0)); // so that a blend takes its sign bit
  V y = bitsOf(b.CreateSelect(odd, cosFloat(a.rest), floatOf(sine)));
  return floatOf(b.CreateXor(y, shl(and_(n, 2), 30)));
}

void TrigEmitter::body(V arg, std::optional<OpKind> kind) {
  llvm::LLVMContext &context = b.getContext();
  llvm::Function *fn = b.GetInsertBlock()->getParent();
  bool isFloat = !arg->getType()->getScalarType()->isDoubleTy();
  unsigned lanes = lanesOf(arg);
  auto *entry = b.GetInsertBlock(), *loop = llvm::BasicBlock::Create(context, "lane", fn),
       *large = llvm::BasicBlock::Create(context, "large", fn), *next = llvm::BasicBlock::Create(context, "next", fn),
       *done = llvm::BasicBlock::Create(context, "done", fn);
  V x = isFloat ? b.CreateFPExt(arg, doubleLike(arg)) : arg;
  Reduced small = reduceSmall(x, !isFloat);
  if (isFloat)
    small.low = llvm::Constant::getNullValue(small.high->getType());
  // NaN and infinity are not "large": the arithmetic above has made NaN of them. (inf - inf)
  V isLarge =
      b.CreateAnd(b.CreateFCmpOGE(fabs(arg), f(arg, largeArgument)), b.CreateFCmpONE(fabs(arg), f(arg, INFINITY)));
  V any = lanes == 1 ? isLarge : b.CreateOrReduce(isLarge);
  llvm::MDNode *unlikely = llvm::MDBuilder(context).createBranchWeights(1, 1000);
  b.CreateCondBr(any, loop, done, unlikely);

  b.SetInsertPoint(loop);
  auto *lane = b.CreatePHI(b.getInt64Ty(), 2);
  auto *q = b.CreatePHI(small.quadrant->getType(), 2), *h = b.CreatePHI(small.high->getType(), 2),
       *l = b.CreatePHI(small.low->getType(), 2);
  auto get = [&](V vec) { return lanes == 1 ? vec : b.CreateExtractElement(vec, lane); };
  auto put = [&](V vec, V e) { return lanes == 1 ? e : b.CreateInsertElement(vec, e, lane); };
  V laneX = get(x);
  b.CreateCondBr(get(isLarge), large, next);
  b.SetInsertPoint(large);
  V r = b.CreateCall(largeFunction(), {laneX});
  V q2 = put(q, b.CreateExtractValue(r, 0)), h2 = put(h, b.CreateExtractValue(r, 1)),
    l2 = put(l, b.CreateExtractValue(r, 2));
  b.CreateBr(next);
  b.SetInsertPoint(next);
  auto merge = [&](V kept, V changed) {
    auto *phi = b.CreatePHI(kept->getType(), 2);
    phi->addIncoming(kept, loop);
    phi->addIncoming(changed, large);
    return phi;
  };
  V q3 = merge(q, q2), h3 = merge(h, h2), l3 = merge(l, l2);
  V after = add(lane, 1);
  b.CreateCondBr(b.CreateICmpULT(after, b.getInt64(lanes)), loop, done);
  lane->addIncoming(b.getInt64(0), entry);
  lane->addIncoming(after, next);
  for (auto [phi, start, end] : {std::tuple{q, small.quadrant, q3}, {h, small.high, h3}, {l, small.low, l3}}) {
    phi->addIncoming(start, entry);
    phi->addIncoming(end, next);
  }

  b.SetInsertPoint(done);
  auto join = [&](V start, V end) {
    auto *phi = b.CreatePHI(start->getType(), 2);
    phi->addIncoming(start, entry);
    phi->addIncoming(end, next);
    return phi;
  };
  Reduced all{join(small.quadrant, q3), join(small.high, h3), join(small.low, l3)};
  b.CreateRet(
      kind ? kernel(arg, all, *kind)
           : packed(b, {b.CreateTrunc(all.quadrant, intLike(arg, 32)), b.CreateFPTrunc(all.high, arg->getType())}));
}

} // namespace

V emitTrig(VecEmitter &v, OpKind kind, V x) {
  const std::string name = kind == OpKind::Sin ? "sin" : "cos";
  auto anyArgument = [&](VecEmitter &e, V y) { TrigEmitter(e).body(y, kind); };
  if (x->getType()->getScalarType()->isDoubleTy() || !v.target.fma || v.target.gpu)
    return callShared(v, name, x, anyArgument);
  return callShared(v, name, x, [&](VecEmitter &e, V y) {
    TrigEmitter t(e);
    V isLarge = e.b.CreateFCmpOGE(t.fabs(y), t.f(y, largeFloatArgument));
    // A small argument has the same sine whatever stands beside it.
    returnIfAny(e, isLarge, [&] {
      return e.b.CreateSelect(isLarge, callShared(e, name + ".large", y, anyArgument),
                              t.floatOfAngle(reduceAngle(e, y), kind));
    });
    e.b.CreateRet(t.floatOfAngle(reduceAngle(e, y), kind));
  });
}

void joinAngles(llvm::Module &m, const VecTarget &target) {
  if (!target.fma)
    return;
  auto angleOf = [](VecEmitter &e, const char *name, V x, llvm::function_ref<void(VecEmitter &, V)> body) -> Angle {
    V both = callShared(e, name, x, body, llvm::StructType::get(intLike(x, 32), x->getType()));
    return {e.b.CreateExtractValue(both, 0), e.b.CreateExtractValue(both, 1)};
  };
  auto anyAngle = [&](VecEmitter &e, V x) {
    Arith a(e);
    V isLarge = e.b.CreateFCmpOGE(a.fabs(x), a.f(x, largeFloatArgument));
    Angle small = reduceAngle(e, x);
    returnIfAny(e, isLarge, [&] {
      Angle large = angleOf(e, "angle.large", x, [](VecEmitter &e2, V y) { TrigEmitter(e2).body(y, std::nullopt); });
      return packed(e.b, {e.b.CreateSelect(isLarge, large.quadrant, small.quadrant),
                          e.b.CreateSelect(isLarge, large.rest, small.rest)});
    });
    e.b.CreateRet(packed(e.b, small));
  };
  constexpr llvm::StringRef sine = "tegula.sin.f32x", cosine = "tegula.cos.f32x";
  llvm::SmallVector<llvm::Function *, 4> sines;
  for (llvm::Function &f : m)
    if (f.getName().starts_with(sine))
      sines.push_back(&f);
  for (llvm::Function *f : sines) {
    llvm::Function *other = m.getFunction((cosine + f->getName().substr(sine.size())).str());
    for (llvm::User *u : llvm::make_early_inc_range(f->users())) {
      auto *sin = llvm::cast<llvm::CallInst>(u);
      V x = sin->getArgOperand(0);
      auto isOther = [&](llvm::User *c) {
        auto *call = llvm::dyn_cast<llvm::CallInst>(c);
        return call && call->getCalledFunction() == other && call->getParent() == sin->getParent();
      };
      auto found = llvm::find_if(x->users(), isOther);
      if (!other || llvm::isa<llvm::Constant>(x) || found == x->user_end())
        continue;
      auto *cos = llvm::cast<llvm::CallInst>(*found);
      llvm::IRBuilder<> b(sin->comesBefore(cos) ? sin : cos);
      VecEmitter e{b, target};
      TrigEmitter t(e);
      Angle angle = angleOf(e, "angle", x, anyAngle);
      sin->replaceAllUsesWith(t.floatOfAngle(angle, OpKind::Sin));
      cos->replaceAllUsesWith(t.floatOfAngle(angle, OpKind::Cos));
      sin->eraseFromParent();
      cos->eraseFromParent();
    }
    for (llvm::Function *unused : {f, other})
      if (unused && unused->use_empty()) {
        std::string rest = unused->getName().str();
        unused->eraseFromParent();
        if (llvm::Function *large = m.getFunction(rest.insert(rest.find(".f32"), ".large"));
            large && large->use_empty())
          large->eraseFromParent();
      }
  }
}

V isLargeAngle(VecEmitter &v, V x) {
  Arith a(v);
  return a.b.CreateAnd(a.b.CreateFCmpOGE(a.fabs(x), a.f(x, largeFloatArgument)),
                       a.b.CreateFCmpONE(a.fabs(x), a.f(x, INFINITY)));
}

/// n has 17 bits at most and the parts of pi/2 24 each; the first difference is exact, and of the others what is
/// rounded is less than the last place of the rest (Cody and Waite's method, with fused operations).
Angle reduceAngle(VecEmitter &v, V x) {
  using namespace tables;
  Arith a(v);
  V sum = emitFma(v, x, a.f(x, 0x1.45f306p-1), a.f(x, 0x1.8p23));
  V n = a.fadd(sum, -0x1.8p23), rest = x;
  for (double part : {halfPiA32, halfPiB32, halfPiC32})
    rest = emitFma(v, n, a.f(x, -part), rest);
  return {a.bitsOf(sum), rest};
}

Angle reduceLargeAngle(VecEmitter &v, V x, V isLarge, Angle otherwise) {
  TrigEmitter t(v);
  // The function takes finite arguments that are not small.
  V large = v.b.CreateSelect(isLarge, x, t.f(x, largeFloatArgument));
  V r = v.b.CreateCall(t.largeFunction(), {v.b.CreateFPExt(large, v.b.getDoubleTy())});
  V quadrant = v.b.CreateTrunc(v.b.CreateExtractValue(r, 0), v.b.getInt32Ty()),
    rest = v.b.CreateFPTrunc(v.b.CreateExtractValue(r, 1), x->getType());
  return {v.b.CreateSelect(isLarge, quadrant, otherwise.quadrant), v.b.CreateSelect(isLarge, rest, otherwise.rest)};
}

V sineOrCosine(VecEmitter &v, OpKind kind, V x, Angle angle) {
  return TrigEmitter(v).floatKernel(x, angle.quadrant, angle.rest, kind);
}

} // namespace tegula::targets
