# tl.extra.libdevice: error functions, normal distribution, gamma function. float32 has formulas of its own (libdevice_float32.py) or is computed in
# float64 and rounded once.
import tegula.language as tl
from tegula import jit
from tegula.language.extra import libdevice


@jit(exact=True)
def _erfcx(x):
    # exp(x**2) erfc(x) for x >= 0: (1 + 2x) erfcx(x) is a polynomial in (x - 3.75) / (x + 3.75) to the last place.
    t = (x - 3.75) / (x + 3.75)
    p = libdevice._poly(t, (1.2375126308378275, -0.14024059858554702, 0.003585415485479575, 0.08227673849014977,
                  -0.10880393014246645, 0.09230432116025894, -0.05869339857631061, 0.028362277420377335,
                  -0.00974657968596217, 0.001755625843431864, 0.000293714390578856, -0.00029015404203352704,
                  5.164649341002877e-05, 2.2384138525656757e-05, -1.1437980374495534e-05, -9.733875167494142e-07,
                  1.7419011945194367e-06, -5.741076073013916e-08, -2.4851108650210706e-07, 2.3398534313040898e-08,
                  3.195398612057818e-08, -3.798189797736207e-09, -2.618520156503145e-09, 3.2052623379289157e-10))
    return tl.where(x == float("inf"), 0.0, p / (1.0 + 2.0 * x))


@jit(exact=True)
def _exp_of_square(x, SIGN: tl.constexpr):
    hi = x * x
    e = tl.exp(hi * SIGN)
    lo = tl.fma(x, x, -hi) * SIGN
    return tl.where((e == 0.0) | (e == float("inf")), e, e + e * lo)


@jit(exact=True)
def _erfc(x):
    a = tl.abs(x)
    r = _erfcx(a) * _exp_of_square(a, -1.0)
    return tl.where(x < 0.5, 1.0 - tl.math.erf(x), r)


@jit(exact=True)
def erfc(arg0):
    x = libdevice._real(arg0)
    if x.dtype == tl.float32:
        return libdevice._erfc32(x)
    return _erfc(x.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def erfcx(arg0):
    x = libdevice._real(arg0)
    if x.dtype == tl.float32:
        return libdevice._erfcx32(x)
    w = x.to(tl.float64)
    a = tl.abs(w)
    r = _erfcx(a)
    return tl.where(w < 0.0, 2.0 * _exp_of_square(a, 1.0) - r, r).to(x.dtype)


@jit(exact=True)
def _erfcinv(p, y):
    # z >= 0 with erfc(z) = p <= 1 and erf(z) = y = 1 - p, both given without rounding. A closed approximation (two
    # digits), then Halley's steps, each of which triples the digits; erf is the better one to solve below 1/2.
    l = tl.log(p * (2.0 - p))
    h = 4.330746750799873 + l * 0.5
    z = tl.sqrt(tl.sqrt(h * h - l * 6.802721088435374) - h)
    central = y < 0.5
    z = tl.where(y < 1e-3, y * 0.88622692545275801365, z)
    for _ in tl.static_range(3):
        error = tl.where(central, tl.math.erf(z) - y, p - _erfc(z))
        u = error * 0.88622692545275801365 / _exp_of_square(z, -1.0)
        z = z - u / (1.0 + z * u)
    return z


@jit(exact=True)
def _erfinv(y):
    a = tl.abs(y)
    z = _erfcinv(1.0 - a, a)
    z = tl.where(a < 1e-9, a * 0.88622692545275801365, z)
    z = tl.where(a < 1.0, z, tl.where(a == 1.0, float("inf"), float("nan")))
    return libdevice.copysign(z, y)


@jit(exact=True)
def erfinv(arg0):
    x = libdevice._real(arg0)
    if x.dtype == tl.float32:
        return libdevice._erfinv32(x)
    return _erfinv(x.to(tl.float64)).to(x.dtype)


@jit(exact=True)
def _erfcinv_all(p):
    low = tl.where(p > 1.0, 2.0 - p, p)
    z = tl.where(low > 0.5, _erfinv(1.0 - low), _erfcinv(low, 1.0 - low))
    z = tl.where(low == 0.0, float("inf"), z)
    z = tl.where(p > 1.0, -z, z)
    return tl.where((p >= 0.0) & (p <= 2.0), z, float("nan"))


@jit(exact=True)
def erfcinv(arg0):
    x = libdevice._real(arg0)
    if x.dtype == tl.float32:
        return libdevice._erfcinv32(x)
    return _erfcinv_all(x)


@jit(exact=True)
def normcdf(arg0):
    w = libdevice._real(arg0)
    if w.dtype == tl.float32:
        return libdevice._normcdf32(w)
    # -x / sqrt(2) with its rounding error, which erfc would multiply by x**2.
    k = tl.zeros_like(w) - 0.7071067811865476
    hi = w * k
    lo = tl.fma(w, k, -hi) + w * 4.833646656726457e-17
    slope = -1.1283791670955126 * _exp_of_square(hi, -1.0)
    r = _erfc(hi)
    return (0.5 * tl.where(tl.abs(hi) < 30.0, r + slope * lo, r))


@jit(exact=True)
def normcdfinv(arg0):
    x = libdevice._real(arg0)
    if x.dtype == tl.float32:
        return -1.4142135623730951 * libdevice._erfcinv32(2.0 * x)
    return -1.4142135623730951 * _erfcinv_all(2.0 * x)


# The gamma function.


@jit(exact=True)
def _lgamma_of_2_plus(t):
    # log gamma(2 + t) for |t| <= 1/2: t (1 - Euler) + sum of (-1)**k (zeta(k) - 1) t**k / k.
    return t * libdevice._poly(t, (0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546,
                         -0.007385551028673986, 0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425,
                         -0.00022315475845357939, 9.945751278180853e-05, -4.492623673813314e-05,
                         2.050721277567069e-05, -9.439488275268397e-06, 4.374866789907488e-06, -2.039215753801366e-06,
                         9.55141213040742e-07, -4.492469198764566e-07, 2.1207184805554665e-07,
                         -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08,
                         1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09,
                         -1.1921401405860912e-09, 5.731367241678862e-10, -2.7595228851242334e-10,
                         1.330476437424449e-10, -6.4229645638381e-11))


@jit(exact=True)
def _stirling(x):
    # What log gamma has beyond (x - 1/2) log(x) - x + log(2 pi) / 2, for x > 8.
    z = 1.0 / x
    return z * libdevice._poly(z * z, (0.08333333333333333, -0.002777777777777778, 0.0007936507936507937,
                             -0.0005952380952380953, 0.0008417508417508417, -0.0019175269175269176,
                             0.00641025641025641, -0.029550653594771242, 0.17964437236883057, -1.3924322169059011))


@jit(exact=True)
def _near_2(x):
    # For 0 < x < 9: t and p with gamma(x) = p gamma(2 + t), |t| <= 1/2. Each step is exact in t.
    p = tl.zeros_like(x) + 1.0
    t = x - 2.0
    for _ in tl.static_range(7):
        over = t > 0.5
        p = tl.where(over, p * (t + 1.0), p)
        t = tl.where(over, t - 1.0, t)
    return t, p


@jit(exact=True)
def _lgamma_positive(x):
    small = x < 1.5
    low = x < 0.5
    t, p = _near_2(tl.where(x < 9.0, tl.where(small, 2.0, x), 2.0))
    # Below 3/2 the argument is raised by one or two, and the logarithms of the factors taken away.
    t = tl.where(small, tl.where(low, x, x - 1.0), t)
    r = _lgamma_of_2_plus(t)
    factors = tl.where(low, tl.log(x) + libdevice.log1p(x), libdevice.log1p(x - 1.0))
    r = tl.where(small, r - factors, r + tl.log(p))
    big = (x - 0.5) * (tl.log(x) - 1.0) + (_stirling(x) + 0.4189385332046727)
    return tl.where(x == float("inf"), x, tl.where(x > 9.0, big, r))


@jit(exact=True)
def lgamma(arg0):
    x = libdevice._real(arg0)
    if x.dtype == tl.float32:
        return libdevice._lgamma32(x)
    w = x.to(tl.float64)
    a = tl.abs(w)
    r = _lgamma_positive(tl.where(a == 0.0, 1.0, a))
    # log |gamma(-a)| = log(pi / |a sin(pi a)|) - log gamma(a)
    s = tl.abs(libdevice._sinpi(a))
    below = 1.1447298858494002 - tl.log(s) - tl.log(a) - r
    tiny = a < 1e-20
    r = tl.where(w < 0.0, tl.where((s == 0.0) & ~tiny, float("inf"), below), r)
    r = tl.where(tiny, tl.where(a == 0.0, float("inf"), -tl.log(a)), r)
    return tl.where(w != w, w, tl.where(a == float("inf"), a, r)).to(x.dtype)


@jit(exact=True)
def _tgamma_positive(x):
    t, p = _near_2(tl.where(x > 9.0, 2.0, tl.where(x < 1.5, 2.0, x)))
    raised = x < 1.5
    low = x < 0.5
    t = tl.where(raised, tl.where(low, x, x - 1.0), t)
    r = p * tl.exp(_lgamma_of_2_plus(t))
    r = tl.where(raised, r / tl.where(low, x * (x + 1.0), x), r)
    y = tl.where(x > 9.0, tl.where(x > 180.0, 180.0, x), 10.0)
    # x**(x - 1/2) as a square, which leaves the range no earlier than the result.
    half = libdevice.pow(y, y * 0.5 - 0.25)
    big = half * tl.exp(-y) * half * 2.5066282746310007 * tl.exp(_stirling(y))
    return tl.where(x > 9.0, big, r)


@jit(exact=True)
def tgamma(arg0):
    x = libdevice._real(arg0)
    w = x.to(tl.float64)
    a = tl.abs(w)
    r = _tgamma_positive(tl.where(a < 1e-300, 1.0, a))
    # gamma(-a) = -pi / (a sin(pi a) gamma(a))
    s = libdevice._sinpi(a)
    below = -3.141592653589793 / (a * s) / r
    r = tl.where(w < 0.0, tl.where(s == 0.0, float("nan"), below), r)
    r = tl.where(a < 1e-20, 1.0 / w, r)
    r = tl.where(a == float("inf"), tl.where(w < 0.0, float("nan"), a), r)
    return tl.where(w != w, w, r).to(x.dtype)
