"""Computes the polynomials of src/lib/libdevice_float32.py: prints one tuple for each, with float32 coefficients.

Needs mpmath and numpy. Minimax by Lawson's method: weighted least squares, whose weights grow where the error is large. After each fit the lowest
coefficient is rounded to float32 and the others are fitted anew to what is left, so that they make good what its rounding costs.
Usage: libdevice_coefficients.py [NAME ...]
"""
import sys

import numpy as np
from mpmath import mp, mpf, asin, atan, erfc, erfinv, exp, expm1, fabs, log, log1p, loggamma, pi, sin, sinh, sqrt, taylor

mp.prec = 120
GRID = 400


def series(f, terms):
    """f is 0/0 near 0: continue it by its Taylor polynomial there."""
    return lambda x: f(x) if fabs(x) > mpf(2)**-40 else sum(c * x**k for k, c in enumerate(terms))


def lawson(basis, target, weight):
    """The coefficients that minimize max |weight (target - basis c)|."""
    share = np.full(len(target), 1.0 / len(target))
    best, least = None, np.inf
    for _ in range(300):
        root = np.sqrt(share) * weight
        c = np.linalg.lstsq(basis * root[:, None], target * root, rcond=None)[0]
        error = np.abs(weight * (target - basis @ c))
        if error.max() < least:
            best, least = c, error.max()
        share = share * error
        share /= share.sum()
    return best, least


def fit(g, w, lo, hi, degree):
    """Coefficients, lowest first, and the largest weighted error."""
    x = [mpf(v) for v in (float(lo + hi) - float(hi - lo) * np.cos(np.pi * (np.arange(GRID) + 0.5) / GRID)) / 2]
    target, weight = (np.array([float(f(v)) for v in x]) for f in (g, w))
    # Columns of like size.
    size = float(max(abs(lo), abs(hi)))
    powers = np.array([float(v) for v in x])[:, None] / size
    powers = powers**np.arange(degree + 1)
    done = []
    while len(done) <= degree:
        k = len(done)
        c, worst = lawson(powers[:, k:], target, weight)
        done.append(float(np.float32(c[0] / size**k)))
        target = target - powers[:, k] * (done[-1] * size**k)
    return done, float(np.abs(weight * target).max())


def relative(f, power):
    """The weight of a polynomial that is multiplied by x**power on its way to f."""
    return lambda x: fabs(x**power / f(x)) if x != 0 else mpf(0)


def odd(f):
    """(f(x) - x) / x**3 as a function of z = x**2, and its weight."""
    terms = taylor(f, 0, 9)
    g = series(lambda z: (f(sqrt(z)) - sqrt(z)) / (z * sqrt(z)), terms[3::2])
    return g, lambda z: fabs(z * sqrt(z) / f(sqrt(z)))


TABLE = {}
TABLE["EXPM1"] = ("(e**r - 1 - r) / r**2 on |r| <= 1/2", series(lambda r: (expm1(r) - r) / r**2, [mpf(1) / 2, mpf(1) / 6, mpf(1) / 24]), relative(expm1, 2), "-0.505", "0.505", 5)
TABLE["EXP"] = ("(e**r - 1) / r on |r| <= ln2 / 2", series(lambda r: expm1(r) / r, [mpf(1), mpf(1) / 2, mpf(1) / 6]), lambda r: fabs(r) / exp(r) + mpf(10)**-30, "-0.3475", "0.3475", 5)
TABLE["LOG1P"] = ("(log(1 + f) - f + f**2 / 2) / f**3 on [-1/4, 1/2]", series(lambda f: (log1p(f) - f + f * f / 2) / f**3, [mpf(1) / 3, -mpf(1) / 4, mpf(1) / 5]), relative(log1p, 3), "-0.2501", "0.5001", 8)
TABLE["SINH"] = ("(sinh(x) - x) / x**3 in z = x**2, x up to 1", *odd(sinh), "0", "1.0001", 3)
TABLE["ATAN"] = ("(atan(x) - x) / x**3 in z = x**2, x up to 1", *odd(atan), "0", "1.0001", 8)
TABLE["ASIN"] = ("(asin(x) - x) / x**3 in z = x**2, x up to 0.57", *odd(asin), "0", "0.3307", 5)
# With t = (x - 2) / (x + 2) for x from 0 to 10.1 (or infinity).
at = lambda t: 2 * (1 + t) / (1 - t)
erfcx = lambda x: exp(x * x) * erfc(x) if x < 60 else (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * sqrt(pi))
TABLE["ERFCX"] = ("(1 + 2 x) exp(x**2) erfc(x) in t = (x - 2) / (x + 2)", lambda t: (1 + 2 * at(t)) * erfcx(at(t)), lambda t: 1 / fabs((1 + 2 * at(t)) * erfcx(at(t))), "-1", "0.99999", 12)
ln2 = log(mpf(2))
TABLE["EXP10"] = ("(10**r - 1) / r on |r| <= log10(2) / 2", series(lambda r: expm1(r * log(mpf(10))) / r, [log(mpf(10)), log(mpf(10))**2 / 2, log(mpf(10))**3 / 6]), lambda r: fabs(r) / mpf(10)**r + mpf(10)**-30, "-0.151", "0.151", 5)
TABLE["EXP2"] = ("(2**r - 1) / r on |r| <= 1/2", series(lambda r: expm1(r * ln2) / r, [ln2, ln2**2 / 2, ln2**3 / 6]), lambda r: fabs(r) / mpf(2)**r + mpf(10)**-30, "-0.501", "0.501", 5)
TABLE["LOG2"] = ("(log2((1 + s) / (1 - s)) / s - 2 / ln2) / z in z = s**2, s up to 1/5", series(lambda z: ((log1p(sqrt(z)) - log1p(-sqrt(z))) / sqrt(z) - 2) / (z * ln2), [2 / (3 * ln2), 2 / (5 * ln2), 2 / (7 * ln2)]), lambda z: z, "0", "0.0401", 3)
erf_inverse = lambda x: erfinv(x) / x
TABLE["ERFINV_CENTRE"] = ("erfinv(x) / x in w - 35 / 16, w = -log(1 - x**2) up to 5", lambda v: erf_inverse(sqrt(-expm1(-(v + mpf("2.1875") + mpf(10)**-25)))), lambda v: 1 / erf_inverse(sqrt(-expm1(-(v + mpf("2.1875") + mpf(10)**-25)))), "-2.1875", "2.8125", 9)
TABLE["ERFINV_TAIL"] = ("erfinv(x) / x in sqrt(w) - 3, w from 5 to 16.7", lambda v: erf_inverse(sqrt(-expm1(-(v + 3)**2))), lambda v: 1 / erf_inverse(sqrt(-expm1(-(v + 3)**2))), "-0.7650", "1.09", 10)
gamma_1 = lambda y: loggamma(1 + y).real
gamma_2 = lambda y: loggamma(2 + y).real
TABLE["LGAMMA_1"] = ("log(gamma(1 + y)) / y, |y| <= 1/2", series(lambda y: gamma_1(y) / y, taylor(gamma_1, 0, 3)[1:]), lambda y: fabs(y / gamma_1(y)) if y else mpf(0), "-0.5001", "0.5001", 13)
TABLE["LGAMMA_2"] = ("log(gamma(2 + y)) / y, y from -1/2 to 2", series(lambda y: gamma_2(y) / y, taylor(gamma_2, 0, 3)[1:]), lambda y: fabs(y / gamma_2(y)) if y else mpf(0), "-0.5001", "2.0001", 13)
TABLE["STIRLING"] = ("x (log(gamma(x)) - (x - 1/2) (log(x) - 1) - log(2 pi) / 2 + 1/2) in z = 1 / x**2, x from 4", lambda z: (loggamma(1 / sqrt(z)) - (1 / sqrt(z) - mpf(1) / 2) * (log(1 / sqrt(z)) - 1) - log(2 * pi) / 2 + mpf(1) / 2) / sqrt(z), lambda z: mpf(1), "1e-8", "0.0626", 3)
TABLE["SINPI"] = ("(sin(pi d) / d - pi) / z in z = d**2, d up to 1/2", series(lambda z: (sin(pi * sqrt(z)) / sqrt(z) - pi) / z, [-pi**3 / 6, pi**5 / 120, -pi**7 / 5040]), lambda z: z * sqrt(z) / sin(pi * sqrt(z)), "0", "0.2501", 4)


def main(names):
    for name in names or TABLE:
        what, g, w, lo, hi, degree = TABLE[name]
        c, worst = fit(g, w, mpf(lo), mpf(hi), degree)
        print(f"# {what}. Error 2**{np.log2(worst):.1f}.")
        print(f"{name} = ({', '.join(repr(float(x)) for x in c)})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
