// 1/y is `high` + `low`, of which high is one step nearer to zero than the reciprocal rounded: so low has the sign of
// high and is never zero, and x low + x high is right for zeros of both signs and infinity as well.
// The sum is known to 46 bits when it is rounded (N. Brisebarre, J.-M. Muller, S. K. Raina, Accelerating correctly
// rounded floating-point division when the divisor is known in advance, IEEE Trans. Computers 53, 2004, algorithm 2,
// but for their choice of high).
#include "targets/common/Divisor.h"
#include "targets/common/VecUtil.h"

namespace tegula::targets {

using V = llvm::Value *;

bool hasDivisors(const VecEmitter &v) { return v.target.fma && !v.target.gpu; }

Divisor divisorOf(VecEmitter &v, V y) {
  Arith a(v);
  llvm::IRBuilder<> &b = a.b;
  // Both parts are normal numbers for |y| from 2^-126 to 2^100. x is scaled with what is smaller or larger; if a
  // product overflows there or loses digits, so would the quotient have, by far.
  V size = a.fabs(y), one = a.f(y, 1);
  V scale = b.CreateSelect(b.CreateFCmpOLT(size, a.f(y, 0x1p-126)), a.f(y, 0x1p64),
                           b.CreateSelect(b.CreateFCmpOGT(size, a.f(y, 0x1p100)), a.f(y, 0x1p-64), one));
  V scaled = b.CreateFMul(y, scale), reciprocal = b.CreateFDiv(one, scaled),
    below = a.floatOf(a.sub(a.bitsOf(reciprocal), 1));
  V low = b.CreateFMul(a.mulAdd(b.CreateFNeg(below), scaled, one), below);
  // Of zero and infinity, and NaN, the reciprocal alone, twice: it is infinity, zero or NaN, and so is the sum, unless
  // x makes NaN of it as it does of the quotient.
  V isNumber = b.CreateAnd(b.CreateFCmpOGT(size, a.f(y, 0)), b.CreateFCmpOLT(size, a.f(y, INFINITY)));
  return {scale, b.CreateSelect(isNumber, below, reciprocal), b.CreateSelect(isNumber, low, reciprocal)};
}

V divideBy(VecEmitter &v, V x, const Divisor &d) {
  V scaled = v.b.CreateFMul(x, d.scale);
  return Arith(v).mulAdd(scaled, d.high, v.b.CreateFMul(scaled, d.low));
}

} // namespace tegula::targets
