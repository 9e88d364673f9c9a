# tl.extra.libdevice: elementary functions of float32 in float32 arithmetic. GPUs do float64 at half the rate or less, and conversions at a quarter; a
# CPU's registers hold twice as many float32. Each function is one straight line. Errors are within what CUDA's documentation gives for the function
# of this name; test/run/test_libdevice.py has the bounds. Polynomials: scripts/libdevice_coefficients.py.
#
# Reductions by ln 2 and its like subtract n times a constant in two parts, the first of which has so few digits that the product is exact (W. J.
# Cody, W. Waite, Software Manual for the Elementary Functions, 1980). Rounding errors are recovered as by T. J. Dekker (A floating-point technique
# for extending the available precision, 1971).
import tegula.language as tl
from tegula import jit
from tegula.language.extra import libdevice


@jit(exact=True)
def _clamp32(x, LOW: tl.constexpr, HIGH: tl.constexpr):
    # NaN stays.
    return tl.clamp(x, LOW, HIGH, propagate_nan=tl.PropagateNan.ALL)


@jit(exact=True)
def _all32(x, VALUE: tl.constexpr):
    # As fma takes it beside x.
    return tl.zeros_like(x) + VALUE


@jit(exact=True)
def _bits32(x):
    return x.to(tl.int32, bitcast=True)


@jit(exact=True)
def _float32_of(bits):
    return bits.to(tl.float32, bitcast=True)


@jit(exact=True)
def _nearest32(x, SCALE: tl.constexpr):
    # n, the whole number nearest to x * SCALE (below 2**21), and n * 2**23 as an integer modulo 2**32: added to the bits of a
    # float32 it multiplies by 2**n. The sum with 1.5 * 2**23 has n in its low bits.
    t = x * SCALE + 12582912.0
    return t - 12582912.0, _bits32(t) << 23


@jit(exact=True)
def _scaled32(p, near):
    # p * 2**n, where near is n + 1.5 * 2**23, whose last bits are n. By two factors, only the second of which can round.
    n = _bits32(near)
    half = (n << 22) & -0x800000
    return p * _float32_of(half + 0x3f800000) * _float32_of((n << 23) - half + 0x3f800000)


# Exponentials and logarithms.


@jit(exact=True)
def _expm1_32(x):
    a = _clamp32(x, -20.0, 89.0)
    near = tl.abs(x) < 0.5
    n, shift = _nearest32(tl.where(near, 0.0, a), 1.4426950408889634)
    r = (a - n * 0.693145751953125) - n * 1.4286068203094172e-06
    p = r + r * r * libdevice._poly(r, (0.50000006, 0.16666669, 0.041664954, 0.008332852, 0.001401103, 0.00020086438))
    # 2**n p + (2**n - 1) by halves, as 2**128 is no number. What is large takes the 1 from the first term, where it is exact.
    s = _float32_of(shift + 0x3f000000)
    large = n > 24.0
    h = s * p + tl.where(large, -0.5, s - 0.5) + tl.where(large, s, 0.0)
    return libdevice.copysign(tl.where(near, p, h + h), x)


@jit(exact=True)
def _log1p_32(x):
    # 1 + x = 2**k (1 + f) with -1/4 <= f < 1/2; x, not the sum, goes into f.
    u = x + 1.0
    k = (_bits32(u) - 0x3f400000) & -0x800000
    s = _float32_of(0x40800000 - k)
    f = _float32_of(_bits32(x) - k) + (s * 0.25 - 1.0)
    r = f * f * (f * libdevice._poly(f, (0.3333334, -0.25000164, 0.19999582, -0.16655315, 0.14276685, -0.12728232, 0.11698092,
        -0.091097996, 0.037630875)) - 0.5) + f
    n = k.to(tl.float32)
    r = n * (0.693145751953125 / 8388608) + (n * (1.4286068203094172e-06 / 8388608) + r)
    special = tl.where(u == 0.0, -float("inf"), tl.where(u < 0.0, float("nan"), u))
    return libdevice.copysign(tl.where((u > 0.0) & (u < float("inf")), r, special), x)


@jit(exact=True)
def _log10_32(x):
    # 1 / ln 10 is more than its first part, so that infinities do not meet.
    l = libdevice.log(x)
    return l * 0.43429446220397949 + l * 1.9699273e-08


@jit(exact=True)
def _exp10_32(x):
    a = _clamp32(x, -46.0, 39.0)
    t = a * 3.321928094887362 + 12582912.0
    n = t - 12582912.0
    r = (a - n * 0.301025390625) - n * 4.605039e-06
    return _scaled32(r * libdevice._poly(r, (2.3025851, 2.6509488, 2.0346558, 1.1712942, 0.54183954, 0.20621234)) + 1.0, t)


# Hyperbolic functions.


@jit(exact=True)
def _quarter_exp32(a):
    # exp(a) / 4 for a from 0 on, which leaves the range no earlier than exp(a) / 2.
    a = tl.minimum(a, 89.5, propagate_nan=tl.PropagateNan.ALL)
    n, shift = _nearest32(a, 1.4426950408889634)
    r = (a - n * 0.693145751953125) - n * 1.4286068203094172e-06
    p = r * libdevice._poly(r, (1.0, 0.49999994, 0.16666521, 0.041668292, 0.008368716, 0.0013818698)) + 1.0
    return p * _float32_of(shift + 0x3e800000)


@jit(exact=True)
def _sinh32(x):
    a = tl.abs(x)
    q = _quarter_exp32(a)
    z = a * a
    small = a * z * libdevice._poly(z, (0.16666667, 0.0083333105, 0.00019842894, 2.78223e-06)) + a
    return libdevice.copysign(tl.where(a < 1.0, small, (q + q) - libdevice.fast_dividef(0.125, q)), x)


@jit(exact=True)
def _cosh32(x):
    q = _quarter_exp32(tl.abs(x))
    return (q + q) + libdevice.fast_dividef(0.125, q)


@jit(exact=True)
def _asinh32(x):
    a = tl.abs(x)
    big = a > 1e9
    square = a * a
    u = tl.where(big, a, a + libdevice.fast_dividef(square, tl.sqrt(square + 1.0) + 1.0))
    return libdevice.copysign(_log1p_32(u) + tl.where(big, 0.69314718055994531, 0.0), x)


@jit(exact=True)
def _acosh32(x):
    big = x > 1e9
    t = x - 1.0
    u = tl.where(big, x, t + tl.sqrt(t * t + (t + t)))
    r = _log1p_32(u) + tl.where(big, 0.69314718055994531, 0.0)
    return tl.where(x < 1.0, float("nan"), r)


@jit(exact=True)
def _atanh32(x):
    # 2 a / (1 - a), of which the quick division makes a part alone: its two last places count less the smaller a is, and subnormal numbers are not flushed by it.
    # Beyond 1, and where x is none, 2 is as good as any number: the sum is less than -1.
    a = tl.minimum(tl.abs(x), 2.0)
    twice = a + a
    return libdevice.copysign(0.5 * _log1p_32(twice + libdevice.fast_dividef(twice * a, 1.0 - a)), x)


# Inverse trigonometric functions.


@jit(exact=True)
def _quarter_turn_less_32(r):
    # pi / 2 - r, with pi / 2 in two parts
    return 1.57079637050628662 - (r + 4.3711388e-08)


@jit(exact=True)
def _atan_of_32(q):
    # 0 <= q <= 1
    z = q * q
    return q * z * libdevice._poly(z, (-0.333333, 0.1999853, -0.14264016, 0.109508805, -0.083993055, 0.057881333, -0.031096842,
        0.010868533, -0.0017827628)) + q


@jit(exact=True)
def _atan32(x):
    a = tl.abs(x)
    over = a > 1.0
    r = _atan_of_32(tl.where(over, libdevice.fast_dividef(1.0, a), a))
    return libdevice.copysign(tl.where(over, _quarter_turn_less_32(r), r), x)


@jit(exact=True)
def _atan2_32(y, x):
    ax = tl.abs(x)
    ay = tl.abs(y)
    swap = ay > ax
    low = tl.where(swap, ax, ay)
    high = tl.where(swap, ay, ax)
    q = low / high
    q = tl.where(high == 0.0, 0.0, tl.where(low == float("inf"), 1.0, q))
    r = _atan_of_32(q)
    r = tl.where(swap, _quarter_turn_less_32(r), r)
    r = tl.where(_bits32(x) < 0, 3.14159265358979324 - r, r)
    return tl.where((x != x) | (y != y), float("nan"), libdevice.copysign(r, y))


@jit(exact=True)
def _asin_of_32(a):
    # asin(s) and whether s is not a itself but sqrt((1 - a) / 2): then asin(a) = pi / 2 - 2 asin(s).
    big = a > 0.57
    half = 0.5 - a * 0.5
    z = tl.where(big, half, a * a)
    s = tl.where(big, tl.sqrt(half), a)
    return s * z * libdevice._poly(z, (0.16666618, 0.075027674, 0.04412547, 0.03474365, 0.0044798907, 0.050062504)) + s, big


@jit(exact=True)
def _asin32(x):
    p, big = _asin_of_32(tl.abs(x))
    return libdevice.copysign(tl.where(big, _quarter_turn_less_32(p + p), p), x)


@jit(exact=True)
def _acos32(x):
    p, big = _asin_of_32(tl.abs(x))
    p = libdevice.copysign(p, x)
    return tl.where(big, tl.where(x < 0.0, 3.14159265358979324 + (p + p), p + p), _quarter_turn_less_32(p))


# Powers and roots.


@jit(exact=True)
def _hypot32(x, y):
    # Both divided by a power of 16 near the greater one.
    ax = tl.abs(x)
    ay = tl.abs(y)
    e = tl.maximum(_bits32(tl.maximum(ax, ay)) & 0x7e000000, 0x2000000)
    down = _float32_of(0x7f000000 - e)
    sx = ax * down
    sy = ay * down
    r = tl.sqrt(sx * sx + sy * sy) * _float32_of(e)
    return tl.where((ax == float("inf")) | (ay == float("inf")), float("inf"), r)


@jit(exact=True)
def _pow32(x, y):
    a = tl.abs(x)
    # a = 2**n m, sqrt(1/2) <= m < sqrt(2); log2(m) = s (2 / ln 2 + t), t = s**2 (...), with s = (m - 1) / (m + 1) to twice the precision. Of t the
    # float32 is enough: it is below 1 / 100 of what it is added to.
    small = a < 1.1754943508222875e-38
    bits = _bits32(tl.where(small, a * 16777216.0, a))
    shift = (bits - 0x3f3504f3) & -0x800000
    m = _float32_of(bits - shift)
    n = tl.fma(shift.to(tl.float32), _all32(a, 1.1920928955078125e-07), tl.where(small, -24.0, 0.0))
    f = m - 1.0
    d = m + 1.0
    reciprocal = libdevice.fast_dividef(1.0, d)
    s = f * reciprocal
    s_lo = tl.fma(-s, m - (d - 1.0), tl.fma(-s, d, f)) * reciprocal
    z = s * s
    t = z * libdevice._poly(z, (0.96179664, 0.5770906, 0.41126198, 0.34779546))
    k = _all32(a, 2.885390043258667)
    p = s * k
    lo = tl.fma(s_lo, tl.fma(t, _all32(a, 3.0), k), tl.fma(s, _all32(a, 3.8519259e-08), tl.fma(s, k, -p)))
    u = s * t
    # Each first operand is 0 or greater than the second.
    l = p + u
    lo = lo + (u - (l - p))
    h = n + l
    lo = lo + (l - (h - n))
    # 0 and infinity, whose logarithms are infinite.
    extreme = (_bits32(a) - 1).to(tl.uint32, bitcast=True) >= 0x7f7fffff
    h = tl.where(extreme, h * float("inf"), h)
    # 2**(y (h + lo)). No power of 1 is NaN: y must be finite.
    y_finite = tl.clamp(y, -3.4028234663852886e38, 3.4028234663852886e38)
    whole = y_finite * h
    rest = tl.fma(y_finite, lo, tl.fma(y_finite, h, -whole))
    c = tl.clamp(whole, -200.0, 200.0)
    rest = tl.where(c == whole, rest, 0.0)
    near = c + 12582912.0
    q = (c - (near - 12582912.0)) + rest
    r = _scaled32(libdevice._poly(q, (1.0, 0.6931472, 0.24022648, 0.055503596, 0.009618506, 0.0013391025, 0.00015326781)), near)
    # The sign, and NaN: what |y| / 2 lacks of the nearest whole number is 1/2 where y is odd, between that and 0 where it has a fraction. From 2**23 on
    # there is no fraction, and nothing that is lacking below 1.
    half = tl.abs(y) * 0.5
    lacking = tl.abs(half - ((half + 8388608.0) - 8388608.0))
    r = _float32_of(_bits32(r) ^ (_bits32(x) & tl.where(lacking == 0.5, -0x80000000, 0)))
    no_number = (x < 0.0) & (lacking < 0.5) & (lacking > 0.0) & ~extreme
    r = tl.where(no_number | (x != x) | (y != y), float("nan"), r)
    return tl.where((y == 0.0) | (x == 1.0), 1.0, r)


@jit(exact=True)
def _cube_root_of_32(a, POWER: tl.constexpr):
    # a**POWER to about 20 digits, for POWER 1/3 or -1/3
    return tl.exp2(libdevice.fast_log2f(a) * POWER)


@jit(exact=True)
def _cbrt32(x):
    a = tl.abs(x)
    small = a < 5.169878828456423e-26
    b = tl.where(small, a * 1152921504606846976.0, a)
    r = _cube_root_of_32(b, 0.33333333333333333)
    # One step of Newton's; what is subtracted must not be rounded first.
    square = r * r
    rest = tl.fma(square, r, -b) + tl.fma(r, r, -square) * r
    r = r - rest * libdevice.fast_dividef(0.33333333333333333, square)
    r = libdevice.copysign(tl.where(small, r * 9.5367431640625e-07, r), x)
    return tl.where((a > 0.0) & (a < float("inf")), r, x)


@jit(exact=True)
def _rcbrt32(x):
    a = tl.abs(x)
    small = a < 5.169878828456423e-26
    b = tl.where(small, a * 1152921504606846976.0, a)
    r = _cube_root_of_32(b, -0.33333333333333333)
    # r + r (1 - b r**3) / 3, with the roundings of both products
    square = r * r
    t = b * r
    rest = tl.fma(-square, t, _all32(a, 1.0)) - (tl.fma(r, r, -square) * t + square * tl.fma(b, r, -t))
    r = tl.fma(r * 0.33333333333333333, rest, r)
    r = tl.where(small, r * 1048576.0, r)
    r = tl.where(a == 0.0, float("inf"), tl.where(a == float("inf"), 0.0, r))
    return tl.where(x == x, libdevice.copysign(r, x), x)


# Sines and cosines of multiples of pi.


@jit(exact=True)
def _quadrant32(x):
    # sin(pi f) and cos(pi f), and q: x is f + q / 2 modulo 2, |f| <= 1/4
    r = x - 2.0 * libdevice.rint(x * 0.5)
    t = r + r + 12582912.0
    f = r - (t - 12582912.0) * 0.5
    z = f * f
    s = tl.fma(f, _all32(f, 3.1415927410125732), f * libdevice._poly(z, (-8.743713e-08, -5.1677127, 2.550155, -0.598992, 0.07927673)))
    c = tl.fma(z, libdevice._poly(z, (-4.934802, 4.0586967, -1.3347579, 0.22898124)), _all32(z, 1.0))
    return s, c, _bits32(t)


@jit(exact=True)
def _sinpi32(x):
    s, c, q = _quadrant32(x)
    r = _float32_of(_bits32(tl.where((q & 1) == 0, s, c)) ^ ((q & 2) << 30))
    return tl.where(r == 0.0, libdevice.copysign(r, x), r)


@jit(exact=True)
def _cospi32(x):
    s, c, q = _quadrant32(x)
    r = _float32_of(_bits32(tl.where((q & 1) == 0, c, s)) ^ (((q + 1) & 2) << 30))
    return r + 0.0  # 0 and not -0


# Error functions.


@jit(exact=True)
def _erfcx_of_32(a):
    # exp(a**2) erfc(a) for a from 0 on: (1 + 2 a) times it is smooth in (a - 2) / (a + 2). (M. M. Shepherd, J. G. Laframboise, Chebyshev
    # approximation of (1 + 2 x) exp(x**2) erfc x, 1981.)
    a = tl.minimum(a, 3.4028234663852886e38, propagate_nan=tl.PropagateNan.ALL)
    r = libdevice.fast_dividef(1.0, a + 2.0)
    t = (a - 2.0) * r
    # What t lacks: near 0 the polynomial would pass it on whole.
    t = (tl.fma(-t, a, a - (t + t + 2.0))) * r + t
    p = libdevice._poly(t, (1.2769784, -0.092763826, -0.16603011, 0.16405056, -0.05422234, -0.008024566, 0.008731048, 0.0012292498,
        -0.0014737066, -0.00036906044, 0.00022849345, 6.72288e-05, -2.2173588e-05)) * 0.5
    r = libdevice.fast_dividef(1.0, a + 0.5)
    q = p * r
    return tl.fma(-q, a, p - q * 0.5) * r + q


@jit(exact=True)
def _erfc_of_32(x, a, rest):
    # a = |x|, up to 11.4, from where on it is 0; a**2 is a * a as float32 plus `rest`.
    e = libdevice.exp(-(a * a))
    r = _erfcx_of_32(a) * (e - e * rest)
    return tl.where(x < 0.0, 2.0 - r, r)


@jit(exact=True)
def _erfc32(x):
    a = tl.minimum(tl.abs(x), 11.0, propagate_nan=tl.PropagateNan.ALL)
    return _erfc_of_32(x, a, tl.fma(a, a, -(a * a)))


@jit(exact=True)
def _normcdf32(x):
    # erfc(-x / sqrt(2)) / 2, with the rounding error of the quotient, which erfc would multiply by x**2
    x = tl.clamp(x, -16.0, 16.0, propagate_nan=tl.PropagateNan.ALL)
    k = _all32(x, -0.70710676908493042)
    h = x * k
    lo = tl.fma(x, k, -h) + x * -1.2101617e-08
    return 0.5 * _erfc_of_32(h, tl.abs(h), tl.fma(h, h, -(h * h)) + 2.0 * h * lo)


@jit(exact=True)
def _erfcx32(x):
    a = tl.abs(x)
    r = tl.where(a == float("inf"), 0.0, _erfcx_of_32(a))
    c = tl.minimum(a, 10.0, propagate_nan=tl.PropagateNan.ALL)
    square = c * c
    e = libdevice.exp(square)
    e = tl.where(e == float("inf"), e, e + e * tl.fma(c, c, -square))
    return tl.where(x < 0.0, (e + e) - r, r)


@jit(exact=True)
def _erfinv_centre32(w):
    # erfinv(x) / x, w = -log(1 - x**2) up to 5, as M. Giles has it (Approximating the erfinv function, 2011)
    # The last two products are not rounded, whatever the machine: they are as large as the result.
    t = w - 2.1875
    r = libdevice._poly(t, (-0.0028740123, -0.0015282681, 0.00022054563, 2.4427807e-06, -4.3954415e-06, 3.754887e-07, 4.7861466e-08, -8.669909e-09))
    return tl.fma(t, tl.fma(t, r, _all32(t, 0.24885732)), _all32(t, 1.4239666))


@jit(exact=True)
def _erfinv32(x):
    w = libdevice.fast_log2f(tl.fma(-x, x, _all32(x, 1.0))) * -0.69314718055994531
    tail = libdevice._poly(tl.sqrt(w) - 3.0, (2.8329768, 1.0016752, 0.009444448, -0.007643153, 0.005694565, -0.0035655673, 0.0014563571,
        -0.000120450335, -0.00025829155, 0.00015852357, -3.4682285e-05))
    p = tl.where(w > 5.0, tail, _erfinv_centre32(w))
    return x * tl.where(w == float("inf"), w, p)


@jit(exact=True)
def _erfcinv32(p):
    # z and p or -z and 2 - p; w = -log(p (2 - p)) is that of erfinv(1 - p).
    low = tl.where(p > 1.0, 2.0 - p, p)
    small = low < 1.1754943508222875e-38
    l = libdevice.fast_log2f(tl.where(small, low * 16777216.0, low) * (2.0 - low)) - tl.where(small, 24.0, 0.0)
    w = l * -0.69314718055994531
    # z / sqrt(w) in 1 / sqrt(w)
    u = tl.rsqrt(w)
    tail = w * u * libdevice._poly(u, (1.0005063, -0.0352709, -1.0929589, 3.6615481, -7.5060935, 10.8015995, -7.5702577, -1.2164855, 3.2969394))
    z = tl.where(w > 5.0, tl.where(p > 1.0, -tail, tail), (1.0 - p) * _erfinv_centre32(w))
    z = tl.where(low == 0.0, tl.where(p > 1.0, -float("inf"), float("inf")), z)
    return tl.where((p >= 0.0) & (p <= 2.0), z, float("nan"))


# The logarithm of the gamma function.


@jit(exact=True)
def _lgamma32(x):
    a = tl.abs(x)
    low = a < 0.5
    near_1 = a < 1.5
    l = libdevice.log(a)
    y = tl.where(low, a, a - tl.where(near_1, 1.0, 2.0))
    r = y * tl.where(near_1, libdevice._poly(y, (-0.5772157, 0.822467, -0.4006835, 0.27057934, -0.2074973, 0.16966094, -0.1418995,
        0.123328894, -0.1305049, 0.12014721, -0.0075948206, -0.0040627425, -0.2362625, 0.23501553)), libdevice._poly(y, (0.42278433,
        0.32246703, -0.06735174, 0.02058074, -0.0073931725, 0.0028973992, -0.0011605811, 0.00045264568, -0.00023613691, 0.00020862315,
        -0.00015949184, 7.4043695e-05, -1.8390912e-05, 1.8894368e-06))) + 0.0  # 0 and not -0
    r = tl.where(low, r - l, r)
    z = 1.0 / a
    big = (a - 0.5) * (l - 1.0) + (z * libdevice._poly(z * z, (0.083333336, -0.0027784596, 0.0008208129,
        -0.0008286847)) + 0.41893853320467274)
    r = tl.where(a < 4.0, r, big)
    # log |gamma(-a)| = log(pi / |a sin(pi a)|) - log gamma(a)
    d = tl.abs(a - libdevice.rint(a))
    square = d * d
    s = d * square * libdevice._poly(square, (-5.1677127, 2.5501604, -0.5992179, 0.08189091, -0.006772354)) + d * 3.14159265358979324
    below = (1.14472988584940017 - libdevice.log(s)) - (l + r)
    r = tl.where((x < 0.0) & (a > 1e-9), tl.where(s == 0.0, float("inf"), below), r)
    return tl.where(a == float("inf"), a, r)
