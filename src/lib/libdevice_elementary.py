# tl.extra.libdevice: elementary functions that no operation of the IR computes. The float64 formulas are good to a few units in the last place;
# float32 has its own (libdevice_float32.py) or is computed in float64 and rounded once. Names are visible in libdevice alone.
import tegula.language as tl
from tegula import jit
from tegula.language.extra import libdevice


@jit(exact=True)
def _real(x):
    t = tl.to_tensor(x)
    tl.static_assert(t.dtype == tl.float32 or t.dtype == tl.float64, "libdevice: float32 or float64 is expected")
    return t


@jit(exact=True)
def _pair(x, y):
    # One type and one shape; a number takes the type of the tensor beside it.
    return _real(tl.where(True, x, y)), _real(tl.where(True, y, x))


@jit
def _poly(x, c: tl.constexpr):
    # c[0] + c[1] x + c[2] x**2 + ... Products may be fused into sums here: half the instructions, and no coefficient needs their rounding.
    r = x * c[len(c) - 1] + c[len(c) - 2]
    for k in tl.static_range(len(c) - 3, -1, -1):
        r = r * x + c[k]
    return r


@jit(exact=True)
def _signed(x, y):
    return libdevice.copysign(x, y)


# Exponentials and logarithms.


@jit(exact=True)
def _expm1(x):
    # The error of u = exp(x) and that of log(u) are the same, so their ratio has none (Kahan).
    u = tl.exp(x)
    r = (u - 1.0) * (x / tl.log(u))
    return tl.where(u == 1.0, x, tl.where((u - 1.0 == -1.0) | (tl.abs(x) > 1.0), u - 1.0, r))


@jit(exact=True)
def expm1(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._expm1_32(x)
    return _expm1(x.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def _log1p(x):
    u = x + 1.0
    return tl.where(u == 1.0, x, tl.where(tl.abs(x) > 1e300, tl.log(u), tl.log(u) * (x / (u - 1.0))))


@jit(exact=True)
def log1p(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._log1p_32(x)
    return _log1p(x.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def log10(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._log10_32(x)
    return (tl.log2(x.to(tl.float64)) * 0.30102999566398119521).to(x.dtype)


@jit(exact=True)
def _exp2_of_sum(hi, lo):
    # lo is a few units in the last place of hi.
    e = tl.exp2(hi)
    return tl.where((e == 0.0) | (e == float("inf")) | (lo != lo), e, e + e * (lo * 0.69314718055994530942))


@jit(exact=True)
def exp10(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._exp10_32(x)
    w = x.to(tl.float64)
    hi = w * 3.321928094887362
    return _exp2_of_sum(hi, tl.fma(w, w * 0 + 3.321928094887362, -hi) + w * 1.661617516973592e-16).to(x.dtype)


@jit(exact=True)
def fast_exp10f(arg0):
    return libdevice.fast_expf(_real(arg0) * 2.302585092994046)


@jit(exact=True)
def fast_log10f(arg0):
    return libdevice.fast_log2f(_real(arg0)) * 0.30102999566398120


@jit(exact=True)
def fast_tanf(arg0):
    x = _real(arg0)
    return libdevice.fast_dividef(libdevice.fast_sinf(x), libdevice.fast_cosf(x))


# Numbers as significand and exponent.


@jit(exact=True)
def _pow2(n):
    # For -1022 <= n <= 1023.
    return ((n.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)


@jit(exact=True)
def _significand(x):
    # float64 x = m * 2**e with 1 <= |m| < 2, if x is finite and not 0.
    small = tl.abs(x) < 2.2250738585072014e-308
    scaled = tl.where(small, x * 18014398509481984.0, x)
    word = scaled.to(tl.int64, bitcast=True)
    e = ((word >> 52) & 2047) - 1023
    m = ((word & -9218868437227405313) | 4607182418800017408).to(tl.float64, bitcast=True)
    return m, tl.where(small, e - 54, e)


@jit(exact=True)
def ldexp(arg0, arg1):
    x = _real(arg0)
    w = x.to(tl.float64)
    m, e = _significand(w)
    # Only the last factor rounds.
    k = tl.minimum(tl.maximum(e + tl.to_tensor(arg1).to(tl.int64), -1120), 1120)
    first = tl.where(k < 0, k + 100, k - 100)
    r = (m * _pow2(first)) * tl.where(k < 0, 7.888609052210118e-31, 1267650600228229401496703205376.0).to(tl.float64)
    return tl.where((w == 0.0) | (tl.abs(w) == float("inf")) | (w != w), w, r).to(x.dtype)


@jit(exact=True)
def scalbn(arg0, arg1):
    return ldexp(arg0, arg1)


@jit(exact=True)
def logb(arg0):
    x = _real(arg0)
    w = tl.abs(x.to(tl.float64))
    m, e = _significand(w)
    r = tl.where(w == 0.0, -float("inf"), e.to(tl.float64))
    return tl.where(w < float("inf"), r, w).to(x.dtype)


@jit(exact=True)
def ilogb(arg0):
    x = _real(arg0)
    w = tl.abs(x.to(tl.float64))
    m, e = _significand(w)
    r = tl.where(w == 0.0, -2147483648, e.to(tl.int32))
    return tl.where(w < float("inf"), r, tl.where(w != w, -2147483648, 2147483647)).to(tl.int32)


# Powers and roots.


@jit(exact=True)
def _log2_of(x):
    # log2 of a positive finite float64 as hi + lo, good to about 2**-65 of its size. With s = (m-1)/(m+1):
    # log m = 2 (s + s**3/3 + s**5/5 + ...); s and the third power's term need their rounding errors.
    m, e = _significand(x)
    big = m > 1.4142135623730951
    m = tl.where(big, m * 0.5, m)
    n = tl.where(big, e + 1, e).to(tl.float64)
    a = m - 1.0
    b = m + 1.0
    b_lo = m - (b - 1.0)
    s = a / b
    s_lo = (tl.fma(-s, b, a) - s * b_lo) / b
    q = s * s
    q_lo = tl.fma(s, s, -q) + (s * s_lo) * 2.0
    tail = q * _poly(q, (0.2, 1 / 7, 1 / 9, 1 / 11, 1 / 13, 1 / 15, 1 / 17, 1 / 19, 1 / 21, 1 / 23, 1 / 25))
    c = tail + 0.3333333333333333
    c_lo = (0.3333333333333333 - c) + tail + 1.850371707708594e-17
    p = q * c
    p_lo = tl.fma(q, c, -p) + (q * c_lo + q_lo * c)
    t = s * p
    t_lo = tl.fma(s, p, -t) + (s * p_lo + s_lo * p)
    h = s + t
    h_lo = ((s - h) + t) + (s_lo + t_lo)
    k = tl.zeros_like(h) + 2.8853900817779268
    l = h * k
    l_lo = tl.fma(h, k, -l) + (h * 4.0710547481862066e-17 + h_lo * k)
    r = n + l
    return r, ((n - r) + l) + l_lo


@jit(exact=True)
def _exp2_of_product(y, hi, lo):
    p = y * hi
    return _exp2_of_sum(p, tl.fma(y, hi, -p) + y * lo)


@jit(exact=True)
def _power_of(x, Y: tl.constexpr):
    # For the exponents that people write, as numbers: products, quotients and roots.
    if Y == 1:
        return x
    elif Y == 2:
        return x * x
    elif Y == 3:
        return x * x * x
    elif Y == 4:
        square = x * x
        return square * square
    elif Y == -1:
        return 1.0 / x
    elif Y == -2:
        reciprocal = 1.0 / x # its square underflows where the power does, not before
        return reciprocal * reciprocal
    else:
        # Of -0 and -infinity: those of 0 and infinity.
        root = tl.where(x == float("-inf"), float("inf"), tl.abs(tl.sqrt(x) if x.dtype == tl.float64 else tl.sqrt_rn(x)))
        return root if Y == 0.5 else 1.0 / root


@jit(exact=True)
def pow(arg0, arg1):
    if isinstance(arg1, tl.constexpr) and not isinstance(arg0, tl.constexpr):
        # Else a logarithm and an exponential of twice the precision: 50 times the time on a CPU.
        if arg1 == 1 or arg1 == 2 or arg1 == 3 or arg1 == 4 or arg1 == -1 or arg1 == -2 or arg1 == 0.5 or arg1 == -0.5:
            return libdevice._power_of(_real(arg0), arg1)
    y = tl.to_tensor(arg1)
    if y.dtype.is_int():
        x = _real(arg0)
        y = y.to(tl.float64)
    else:
        x, y = _pair(arg0, arg1)
        if x.dtype == tl.float32:
            return libdevice._pow32(x, y)
        y = y.to(tl.float64)
    w = x.to(tl.float64)
    a = tl.abs(w)
    regular = (a > 0.0) & (a < float("inf"))
    if x.dtype == tl.float64:
        hi, lo = _log2_of(tl.where(regular, a, 1.0))
        r = tl.where(regular, _exp2_of_product(y, hi, lo), tl.exp2(y * tl.log2(a)))
    else:
        r = tl.exp2(y * tl.log2(a))
    infinite = tl.abs(y) == float("inf")
    whole = (y == tl.floor(y)) | infinite
    odd = whole & (y * 0.5 != tl.floor(y * 0.5)) & ~infinite
    r = tl.where((a == 1.0) & (y == y), 1.0, r)
    negative = w.to(tl.int64, bitcast=True) < 0
    r = tl.where(negative & odd, -r, tl.where((w < 0.0) & (a < float("inf")) & ~whole, float("nan"), r))
    r = tl.where((w != w) | (y != y), float("nan"), r)
    return tl.where((y == 0.0) | (w == 1.0), 1.0, r).to(x.dtype)


@jit(exact=True)
def fast_powf(arg0, arg1):
    x, y = _pair(arg0, arg1)
    return tl.exp2(y * libdevice.fast_log2f(x))


@jit(exact=True)
def cbrt(arg0):
    w = _real(arg0)
    if w.dtype == tl.float32:
        return libdevice._cbrt32(w)
    a = tl.abs(w)
    small = a < 1e-290
    a = tl.where(small, a * 18014398509481984.0, a)
    r = tl.exp2(tl.log2(a) * 0.33333333333333333)
    # One Newton step; what is subtracted from x must not be rounded first.
    square = r * r
    rest = tl.fma(square, r, -a) + tl.fma(r, r, -square) * r
    r = r - rest / (3.0 * square)
    r = tl.where(small, r * 3.814697265625e-06, r)
    return tl.where((w == 0.0) | (a == float("inf")) | (w != w), w, _signed(r, w))


@jit(exact=True)
def rcbrt(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._rcbrt32(x)
    return 1.0 / cbrt(x)


@jit(exact=True)
def _norm(x, y, z, t):
    # Relative to the greatest one, so that no square leaves the range; infinity wins over NaN.
    x = tl.abs(x)
    y = tl.abs(y)
    z = tl.abs(z)
    t = tl.abs(t)
    top = tl.maximum(tl.maximum(x, y), tl.maximum(z, t))
    m, e = _significand(top)
    e = tl.minimum(tl.maximum(e, -1000), 1000)
    down = _pow2(-e)
    x = x * down
    y = y * down
    z = z * down
    t = t * down
    square = (x * x + y * y) + (z * z + t * t)
    r = tl.sqrt(square) * _pow2(e)
    nan = (x != x) | (y != y) | (z != z) | (t != t)
    return tl.where(top == float("inf"), top, tl.where(nan, float("nan"), tl.where(top == 0.0, top, r)))


@jit(exact=True)
def hypot(arg0, arg1):
    x, y = _pair(arg0, arg1)
    if x.dtype == tl.float32:
        return libdevice._hypot32(x, y)
    w = x.to(tl.float64)
    zero = tl.zeros_like(w)
    return _norm(w, y.to(tl.float64), zero, zero).to(x.dtype)


@jit(exact=True)
def rhypot(arg0, arg1):
    x, y = _pair(arg0, arg1)
    return (1.0 / hypot(x.to(tl.float64), y.to(tl.float64))).to(x.dtype)


@jit(exact=True)
def norm3d(arg0, arg1, arg2):
    x, y = _pair(arg0, arg1)
    x, z = _pair(x, arg2)
    w = x.to(tl.float64)
    return _norm(w, y.to(tl.float64), z.to(tl.float64), tl.zeros_like(w)).to(x.dtype)


@jit(exact=True)
def rnorm3d(arg0, arg1, arg2):
    x, y = _pair(arg0, arg1)
    return (1.0 / norm3d(x.to(tl.float64), y, arg2)).to(x.dtype)


@jit(exact=True)
def norm4d(arg0, arg1, arg2, arg3):
    x, y = _pair(arg0, arg1)
    z, t = _pair(arg2, arg3)
    return _norm(x.to(tl.float64), y.to(tl.float64), z.to(tl.float64), t.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def rnorm4d(arg0, arg1, arg2, arg3):
    x, y = _pair(arg0, arg1)
    return (1.0 / norm4d(x.to(tl.float64), y, arg2, arg3)).to(x.dtype)


@jit(exact=True)
def remainder(arg0, arg1):
    x, y = _pair(arg0, arg1)
    b = tl.abs(y)
    r = libdevice.fmod(tl.abs(x), b + b)
    # 2 r against b, where neither side leaves the range.
    small = b < 1e-30
    factor = tl.where(small, 2.0, 1.0)
    half = tl.where(small, b, b * 0.5)
    less = r - b
    less = tl.where(less * factor >= half, less - b, less)
    r = tl.where(r * factor > half, less, r)
    r = tl.where(b == b, r, b)
    return tl.where(x.to(tl.int64 if x.dtype == tl.float64 else tl.int32, bitcast=True) < 0, -r, r)


# Trigonometry.


@jit(exact=True)
def tan(arg0):
    x = _real(arg0)
    return libdevice.sin(x) / libdevice.cos(x)


@jit(exact=True)
def _sinpi(x):
    # The part of x that matters is exact, in [-1/2, 1/2].
    r = x - 2.0 * libdevice.rint(x * 0.5)
    a = tl.abs(r)
    s = tl.sin(tl.where(a > 0.5, 1.0 - a, a) * 3.14159265358979323846)
    return tl.where(x == tl.floor(x), _signed(tl.zeros_like(x), x), _signed(s, r))


@jit(exact=True)
def sinpi(arg0):
    w = _real(arg0)
    if w.dtype == tl.float32:
        return libdevice._sinpi32(w)
    return tl.where(tl.abs(w) < float("inf"), _sinpi(w), float("nan"))


@jit(exact=True)
def cospi(arg0):
    w = _real(arg0)
    if w.dtype == tl.float32:
        return libdevice._cospi32(w)
    a = tl.abs(w - 2.0 * libdevice.rint(w * 0.5))
    near = tl.cos(a * 3.14159265358979323846)
    r = tl.where(a < 0.25, near, tl.sin((0.5 - a) * 3.14159265358979323846))
    r = tl.where(a > 0.75, -tl.cos((1.0 - a) * 3.14159265358979323846), r)
    return tl.where(tl.abs(w) < float("inf"), r, float("nan"))


@jit(exact=True)
def _atan(x):
    # To [0, 1] by atan(x) = pi/2 - atan(1/x), from there to |t| < 0.24 around 0, 1/2 or 1, then the series.
    a = tl.abs(x)
    over = a > 1.0
    q = tl.where(over, 1.0 / a, a)
    middle = q > 0.25
    high = q > 0.75
    zero = tl.zeros_like(q)
    c = tl.where(high, 1.0, tl.where(middle, 0.5, zero))
    t = (q - c) / (1.0 + q * c)
    z = t * t
    series = _poly(z, (-1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11, 1 / 13, -1 / 15, 1 / 17, -1 / 19, 1 / 21, -1 / 23, 1 / 25, -1 / 27))
    lo = tl.where(high, 3.061616997868383e-17, tl.where(middle, 2.2698777452961687e-17, zero))
    hi = tl.where(high, 0.7853981633974483, tl.where(middle, 0.4636476090008061, zero))
    part = t * z * series + lo
    r = hi + (t + part)
    r = tl.where(over, 1.5707963267948966 - (r - 6.123233995736766e-17), r)
    return _signed(r, x)


@jit(exact=True)
def atan(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._atan32(x)
    return _atan(x.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def _atan2(y, x):
    ax = tl.abs(x)
    ay = tl.abs(y)
    same = (ax == ay) & ((ax == 0.0) | (ax == float("inf")))
    swap = ay > ax
    q = tl.where(swap, ax, ay) / tl.where(swap, ay, ax)
    q = tl.where(same, tl.where(ax == 0.0, 0.0, 1.0), q)
    r = _atan(q)
    r = tl.where(swap, 1.5707963267948966 - (r - 6.123233995736766e-17), r)
    r = tl.where(x.to(tl.int64, bitcast=True) < 0, 3.141592653589793 - (r - 1.2246467991473532e-16), r)
    return tl.where((x != x) | (y != y), float("nan"), _signed(r, y))


@jit(exact=True)
def atan2(arg0, arg1):
    y, x = _pair(arg0, arg1)
    if x.dtype == tl.float32:
        return libdevice._atan2_32(y, x)
    return _atan2(y.to(tl.float64), x.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def asin(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._asin32(x)
    w = x.to(tl.float64)
    return _atan2(w, tl.sqrt((1.0 - w) * (1.0 + w))).to(x.dtype)


@jit(exact=True)
def acos(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._acos32(x)
    w = x.to(tl.float64)
    return (2.0 * _atan2(tl.sqrt(1.0 - w), tl.sqrt(1.0 + w))).to(x.dtype)


# Hyperbolic functions.


@jit(exact=True)
def sinh(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._sinh32(x)
    w = x.to(tl.float64)
    a = tl.abs(w)
    e = tl.exp(a * 0.5)
    t = _expm1(tl.where(a > 30.0, 30.0, a))
    return _signed(tl.where(a > 22.0, (0.5 * e) * e, 0.5 * (t + t / (t + 1.0))), w).to(x.dtype)


@jit(exact=True)
def cosh(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._cosh32(x)
    a = tl.abs(x.to(tl.float64))
    e = tl.exp(a * 0.5)
    t = tl.exp(tl.where(a > 30.0, 30.0, a))
    return tl.where(a > 22.0, (0.5 * e) * e, 0.5 * (t + 1.0 / t)).to(x.dtype)


@jit(exact=True)
def asinh(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._asinh32(x)
    w = x.to(tl.float64)
    a = tl.abs(w)
    b = tl.where(a > 1e10, 1e10, a)
    square = b * b
    r = _log1p(b + square / (tl.sqrt(square + 1.0) + 1.0))
    return _signed(tl.where(a > 1e9, tl.log(a) + 0.69314718055994530942, r), w).to(x.dtype)


@jit(exact=True)
def acosh(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._acosh32(x)
    w = x.to(tl.float64)
    t = w - 1.0
    r = _log1p(t + tl.sqrt(t * (w + 1.0)))
    return tl.where(w > 1e9, tl.log(w) + 0.69314718055994530942, tl.where(w < 1.0, float("nan"), r)).to(x.dtype)


@jit(exact=True)
def atanh(arg0):
    x = _real(arg0)
    if x.dtype == tl.float32:
        return libdevice._atanh32(x)
    w = x.to(tl.float64)
    a = tl.abs(w)
    return _signed(0.5 * _log1p(2.0 * (a / (1.0 - a))), w).to(x.dtype)
