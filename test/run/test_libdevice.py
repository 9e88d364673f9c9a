"""§3.10 libdevice against numpy's long double, math, and exact rational arithmetic. Bounds are units in the last place."""
import functools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, apply, assert_same, assert_ulp, d, rng, run
from tegula.language.extra import libdevice

pytestmark = pytest.mark.section("3.10 libdevice")
TYPES = ["float32", "float64"]
HIGH = {"float32": np.float64, "float64": np.longdouble}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-5, -1e-5, 1.1e-5, 9e-6, 1e-20, 3e-30, 1e30, 0.99999, 1.00001, np.inf, -np.inf, np.nan]


def inputs(t, low, high, key=""):
    """Values from [low, high], evenly and by magnitude, with both edges."""
    g = rng(t, low, high, key)
    v = np.concatenate([np.array(EDGES), g.uniform(low, high, 246), 10.0**g.uniform(-30, 0, 246) * g.choice([low, high], 246)])
    v = np.where((v >= low) & (v <= high) | ~np.isfinite(v) | (v == 0), v, low)
    return v.astype(d(t).np)


def call(dev, fn, *arrays, dtype=None):
    return apply(dev, getattr(libdevice, fn), list(arrays), arrays[0].shape, dtype or arrays[0].dtype)


# Bounds for float64, and for float32 what CUDA's documentation gives for the function.
UNARY = [
    ("expm1", np.expm1, -50, 80, 4, 1),
    ("log1p", np.log1p, -0.999, 1e6, 4, 1),
    ("log10", np.log10, 0, 1e6, 3, 2),
    ("exp10", lambda x: x.dtype.type(10)**x, -30, 30, 2, 2),
    ("sinh", np.sinh, -80, 80, 5, 3),
    ("cosh", np.cosh, -80, 80, 4, 2),
    ("asinh", np.arcsinh, -1e6, 1e6, 5, 3),
    ("acosh", np.arccosh, 1, 1e6, 5, 4),
    ("atanh", np.arctanh, -1, 1, 5, 3),
    ("asin", np.arcsin, -1, 1, 3, 2),
    ("acos", np.arccos, -1, 1, 4, 2),
    ("atan", np.arctan, -1e3, 1e3, 2, 2),
    ("tan", np.tan, -10, 10, 4, 4),
    ("cbrt", np.cbrt, -1e6, 1e6, 1, 1),
    ("rcbrt", lambda x: 1 / np.cbrt(x), -1e6, 1e6, 2, 1),
]


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("fn, ref, low, high, ulps, ulps32", UNARY, ids=[r[0] for r in UNARY])
def test_elementary(dev, fn, ref, low, high, ulps, ulps32, t):
    x = inputs(t, low, high)
    with np.errstate(all="ignore"):
        exact = ref(x.astype(HIGH[t]))
        assert_ulp(call(dev, fn, x), exact, ulps if t == "float64" else ulps32)


def every_float32(n):
    """n values among all of float32, evenly by their bits, and as many where functions are not constant."""
    g = rng("all", n)
    bits = (np.arange(n, dtype=np.uint64) * (2**32 // n) + g.integers(0, 2**32 // n, n, dtype=np.uint64)).astype(np.uint32)
    near = np.concatenate([g.uniform(-1, 1, n // 4), g.uniform(-12, 12, n // 4), g.uniform(-110, 110, n // 4), 1 + g.uniform(-0.6, 0.6, n // 4)**3])
    edges = np.array(EDGES + [2.0**-149, -2.0**-149, 2.0**-126, 3.4028235e38, -3.4028235e38], np.float32)
    x = np.concatenate([bits.view(np.float32), near.astype(np.float32)])
    x[::n // 16][:len(edges)] = edges[:len(x[::n // 16])]
    return x


@tegula.jit
def k_many(x, out, f: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, f(tl.load(x + i)))


def call_many(dev, fn, x):
    out = np.zeros_like(x)
    dev(k_many, (len(x) // 1024,), x, out, getattr(libdevice, fn), 1024)
    return out


# What numpy does not have is compared with the float64 form, another formula, which test_special looks at.
DENSE = {r[0]: (r[1], r[5]) for r in UNARY} | {"sin": (np.sin, 2), "cos": (np.cos, 2), "tanh": (np.tanh, 2), "erf": (None, 2), "erfc": (None, 4.5), "erfcx": (None, 4), "erfinv": (None, 2.1), "lgamma": (None, 6),
    "erfcinv": (None, 4), "normcdf": (None, 5), "normcdfinv": (None, 5), "sinpi": (None, 1), "cospi": (None, 1)}


@pytest.mark.parametrize("fn", DENSE)
def test_all_of_float32(dev, fn):
    x = every_float32({"cpu": 2**19, "interpreter": 2**10}.get(dev.name, 2**14))
    ref, ulps = DENSE[fn]
    with np.errstate(all="ignore"):
        w = x.astype(np.float64)
        exact = ref(w) if ref else call_many(dev, fn, w)
        got = call_many(dev, fn, x)
        near_roots = (x > -10.001) & (x < -2.264) if fn == "lgamma" else np.zeros(len(x), bool)
        # Where the result is the greatest number or infinity by its last place, either will do.
        border = np.isinf(got) != np.isinf(exact.astype(np.float32))
        # GPUs' quick reciprocals flush what would be subnormal (rcp.approx.ftz), as they do in NVIDIA's library.
        flushed = (dev.name == "cuda") & (got == 0) & (np.abs(exact) < 2.0**-126)
        assert (np.abs(exact[border]) > 3.4028e38).all() and np.array_equal(np.isnan(got), np.isnan(exact))
        left_out = near_roots | border | flushed
        assert_ulp(np.where(left_out, 0, got), np.where(left_out, 0, exact), ulps)
        assert np.array_equal(np.signbit(got)[got == 0], np.signbit(exact)[got == 0])


@pytest.mark.parametrize("t", TYPES)
def test_pi(dev, t):
    x = inputs(t, -100, 100)
    h = x.astype(HIGH[t])
    r = h - 2 * np.rint(h / 2)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    a = np.abs(r)
    s = np.copysign(np.sin(pi * np.minimum(a, 1 - a)), r)
    c = np.where(a > 0.25, np.sin(pi * (np.longdouble(0.5) - a)), np.cos(pi * a))
    c = np.where(a > 0.75, -np.cos(pi * (1 - a)), c)
    assert_ulp(call(dev, "sinpi", x), s, 2)
    assert_ulp(call(dev, "cospi", x), c, 2)


SIDES = [("atan2", np.arctan2, 4), ("hypot", np.hypot, 2), ("rhypot", lambda x, y: 1 / np.hypot(x, y), 3)]


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("fn, ref, ulps", SIDES, ids=[r[0] for r in SIDES])
def test_two_sides(dev, fn, ref, ulps, t):
    x, y = (a.ravel() for a in np.meshgrid(inputs(t, -5, 5)[:128], inputs(t, -5, 5, "y")[:128:4]))
    with np.errstate(all="ignore"):
        assert_ulp(call(dev, fn, x, y), ref(x.astype(HIGH[t]), y.astype(HIGH[t])), ulps)


@pytest.mark.parametrize("t", TYPES)
def test_norms(dev, t):
    v = [inputs(t, -5, 5, k)[20:276] * d(t).np(s) for k, s in enumerate([1, 1e30, 1e-30, 1e20])]
    h = [x.astype(HIGH[t]) for x in v]
    three, four = np.sqrt(h[0]**2 + h[1]**2 + h[2]**2), np.sqrt(h[0]**2 + h[1]**2 + h[2]**2 + h[3]**2)
    assert_ulp(call(dev, "norm3d", *v[:3]), three, 2)
    assert_ulp(call(dev, "rnorm3d", *v[:3]), 1 / three, 3)
    got = np.zeros(256, d(t).np)
    dev(norm4, (1,), *v, got)
    assert_ulp(got, four, 2)


@tegula.jit
def norm4(a, b, c, e, out):
    i = tl.arange(0, 256)
    tl.store(out + i, libdevice.norm4d(tl.load(a + i), tl.load(b + i), tl.load(c + i), tl.load(e + i)))


POWERS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 1e300, -1e300, 2.0**53, 2.0**53 - 1, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("t", TYPES)
def test_pow(dev, t):
    with np.errstate(all="ignore"):
        x, y = (a.ravel().astype(d(t).np) for a in np.meshgrid(POWERS[:-1] + [np.nan] * 16, POWERS[:-1] + [np.nan] * 16))
        got, exact = call(dev, "pow", x, y), np.power(x, y)
        assert_ulp(got, exact.astype(HIGH[t]), 1.5)
        assert np.array_equal(np.signbit(got)[exact == exact], np.signbit(exact)[exact == exact])
        g = rng("pow", t)
        x = np.exp(g.uniform(-20, 20, 4096)).astype(d(t).np)
        y = (g.uniform(-1, 1, 4096) * (700 if t == "float64" else 80) / np.maximum(np.abs(np.log(x.astype(np.float64))), 0.1)).astype(d(t).np)
        assert_ulp(call(dev, "pow", x, y), np.power(x.astype(HIGH[t]), y.astype(HIGH[t])), 1.5 if t == "float64" else 4)
        n = g.integers(-8, 9, 4096).astype(np.int32)
        assert_ulp(call(dev, "pow", -x[:4096], n, dtype=x.dtype), np.power(-x.astype(HIGH[t]), n), 1.5)


def exact_list(f, x):
    return np.array([f(float(v)) for v in x])


SPECIAL = [
    ("erfc", math.erfc, -6, 26, 8),
    ("lgamma", math.lgamma, 0.01, 1000, 8),
    ("lgamma", math.lgamma, 0.5, 3, 12),
    ("tgamma", math.gamma, 0.01, 170, 12),
    ("tgamma", math.gamma, -20.7, -0.3, 12),
    ("normcdf", lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), -5, 5, 40),  # the reference's own error
    ("normcdfinv", statistics.NormalDist().inv_cdf, 1e-10, 1 - 1e-10, 8),
]


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("fn, ref, low, high, ulps", SPECIAL, ids=[r[0] for r in SPECIAL])
def test_special(dev, fn, ref, low, high, ulps, t):
    x = rng(fn, t).uniform(low, high, 512).astype(d(t).np)
    exact = exact_list(ref, x)
    inside = np.abs(exact) < np.finfo(d(t).np).max / 2
    x, exact = np.where(inside, x, x[inside][0]), np.where(inside, exact, exact[inside][0])
    got = call(dev, fn, x)
    # math.lgamma is not precise near its roots; POINTS are.
    unit = np.spacing(np.maximum(np.abs(exact), 1.0 if fn == "lgamma" else 0.0).astype(d(t).np)).astype(np.float64)
    error = np.abs(got.astype(np.float64) - exact) / unit
    assert error.max() <= (ulps if t == "float64" else {"tgamma": 0.51}.get(fn, DENSE.get(fn, (None, 0))[1])), f"{error.max()} at {x[error.argmax()]!r}: {got[error.argmax()]!r}"


POINTS = {  # computed with 40 digits
    "lgamma": [
        (1.0009765625, -0.0005629031799912047),
        (0.9990234375, 0.0005644719118551234),
        (1.001, -0.0005763935982833062),
        (0.999, 0.0005780385328913802),
        (1.999, -0.0004224618006921073),
        (2.001, 0.000423106734800117),
        (0.75, 0.20328095143129538),
        (1.4999, -0.12078588195849393),
        (2.5001, 0.2847531885887332),
    ],
    "normcdf": [
        (-4.9, 4.79183276590319e-07),
        (-20.3, 6.429244467698346e-92),
        (-37.1, 1.4047119663106221e-301),
    ],
    "j0": [
        (2.4048255576957724, 1.6946014926954953e-16), (2.40482, 2.885267185150057e-06),
        (5.5200781102863115, 2.7469320873595837e-16), (5.52, -2.6578369480081305e-05), (1e-05, 0.999999999975),
        (0.7, 0.8812008886074053), (7.9, 0.19436184484127825), (3.5, -0.3801277399872634),
    ],
    "j1": [
        (3.8317059702075125, -6.149807356994906e-17), (3.8317, 2.404559043103632e-06),
        (7.015586669815619, 2.825339409478929e-17), (7.0156, 4.000594516065271e-06), (1e-09, 5e-10),
        (0.7, 0.32899574154005895), (7.9, 0.2191793999217512), (-2.5, -0.49709410246427405),
    ],
    "y0": [
        (0.8935769662791675, -2.3389279284062102e-17), (0.8936, 2.0256072188037605e-05),
        (3.957678419314858, -4.3331064642935194e-17), (3.9577, -8.687122970341427e-06),
        (7.086051060301773, 2.651448172550504e-17), (7.086, -1.5323129979224543e-05),
        (1e-12, -17.664258668214952), (0.3, -0.8072735778045195), (2.2, 0.5207842853880227),
        (5.6, -0.33544418124531583),
    ],
    "y1": [
        (2.197141326031017, 2.513306678922122e-17), (2.1971, -2.152223783393695e-05),
        (5.429681040794135, 1.4165786380203692e-16), (5.4297, -6.452148619667969e-06),
        (1e-12, -636619772367.5813), (0.3, -2.2931051383885293), (3.7, 0.41667437268380747),
        (3.8, 0.4141146893077841), (7.9, -0.18172107728057313),
    ],
    "cyl_bessel_i0": [
        (1e-05, 1.000000000025), (1.0, 1.2660658777520084), (7.99, 423.5842036746737),
        (8.01, 431.5817860520924), (-30.5, 1278062138712.5664), (300.0, 4.475847367935052e+128),
        (713.5, 1.1051012081178279e+308),
    ],
    "cyl_bessel_i1": [
        (1e-05, 5.0000000000625004e-06), (1.0, 0.565159103992485), (7.99, 396.1152262074013),
        (8.01, 403.6669399977041), (-30.5, -1256932623308.4714), (300.0, 4.468381385036955e+128),
        (713.5, 1.1043265136795952e+308),
    ],
}


@pytest.mark.parametrize("fn", POINTS)
def test_points(dev, fn):
    x, exact = np.array((POINTS[fn] * 16)[:16]).T  # the first again and again
    assert_ulp(call(dev, fn, np.ascontiguousarray(x)), exact, 6)


@pytest.mark.parametrize("t", TYPES)
def test_inverses_of_erf(dev, t):
    y = np.concatenate([np.linspace(-0.999, 0.999, 480), [1e-30, -1e-10, 1e-9, 1 - 2.0**-20, 0.5, -0.5, 0.0]])
    y = np.concatenate([y, np.zeros(512 - len(y))]).astype(d(t).np)
    z = call(dev, "erfinv", y).astype(np.float64)
    # erf loses what its slope is below 1; a unit of z there is worth less than one of y.
    slope = 2 / math.sqrt(math.pi) * np.exp(-z * z)
    back = exact_list(math.erf, z)
    bound = np.spacing(np.abs(z).astype(d(t).np)) * 3 * slope + 2 * np.spacing(np.abs(y).astype(np.float64))
    assert np.all(np.abs(back - y) <= bound)
    p = np.exp(rng("erfcinv").uniform(-80 if t == "float32" else -600, 0.6, 512)).astype(d(t).np)
    z = call(dev, "erfcinv", p).astype(np.float64)
    back = exact_list(math.erfc, z)
    assert np.all(np.abs(back - p) <= np.maximum(np.abs(z), 1) * np.spacing(np.abs(z).astype(d(t).np)) * 6 * p * np.maximum(np.abs(z), 1) + 4 * np.spacing(p))
    x = np.array([1, -1, 2, np.nan, 0, -0.0, 1.5, -np.inf], d(t).np)
    assert_same(call(dev, "erfinv", x), np.array([np.inf, -np.inf, np.nan, np.nan, 0, -0.0, np.nan, np.nan], d(t).np))
    assert call(dev, "erfcinv", np.array([0, 2, 1, -1] * 2, d(t).np))[:3].tolist() == [np.inf, -np.inf, 0]


def test_gamma_of_special_values(dev):
    x = np.array([0.0, -0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 1.0, 2.0, 172.0, 1e-310, 5.0, 3.0, -1e-30, 0.5, 4.0])
    assert_same(call(dev, "lgamma", x)[:9], np.array([np.inf] * 6 + [np.nan, 0, 0]))
    assert_same(call(dev, "tgamma", x)[:11], np.array([np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan, np.nan, 1, 1, np.inf, np.inf]))


@tegula.jit
def k_order(f: tl.constexpr, n, x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, f(tl.load(n + i), tl.load(x + i)))


def of_order(dev, fn, n, x):
    out = np.zeros_like(x)
    dev(k_order, (1,), getattr(libdevice, fn), np.asarray(n, np.int32), x, out, len(x))
    return out.astype(np.float64)


def bessel_integral(n, x):
    """J of any order as the mean of a periodic function, which sums of 512 values give to the last place."""
    angle = (np.arange(512) + 0.5) * (np.pi / 512)
    return np.cos(np.multiply.outer(n, angle) - np.multiply.outer(x, np.sin(angle))).mean(axis=-1)


@pytest.mark.parametrize("t", TYPES)
def test_bessel(dev, t):
    g = rng("bessel", t)
    x = np.abs(np.concatenate([g.uniform(0, 8, 96), g.uniform(8, 90, 96), 10.0**g.uniform(-12, 0, 64)])).astype(d(t).np)
    w, eps = x.astype(np.float64), float(np.finfo(d(t).np).eps)
    n = g.integers(0, 60, 256)
    j = {0: call(dev, "j0", x), 1: call(dev, "j1", x), "n": of_order(dev, "jn", n, x)}
    for k, got in j.items():
        order = n if k == "n" else np.full(256, k)
        exact = bessel_integral(order, w)
        np.testing.assert_allclose(got, exact, rtol=eps, atol=2e-15)
    y = {0: call(dev, "y0", x), 1: call(dev, "y1", x)}
    # Neighbours in order: J(n + 1) Y(n) - J(n) Y(n + 1) = 2 / (pi x).
    low = np.minimum(n, 12)
    z = np.maximum(x, d(t).np(0.5))
    a, b = (of_order(dev, "jn", low + k, z) for k in (0, 1))
    ya, yb = (of_order(dev, "yn", low + k, z) for k in (0, 1))
    for p, q in [((np.float64(j[0]), np.float64(j[1])), (np.float64(y[0]), np.float64(y[1]))), ((a, b), (ya, yb))]:
        at = w if p[0] is not a else z.astype(np.float64)
        size = np.abs(p[1] * q[0]) + np.abs(p[0] * q[1])
        assert (np.abs(p[1] * q[0] - p[0] * q[1] - 2 / (np.pi * at)) <= size * eps * 16 + 2e-14).all()
    assert_same(call(dev, "j1", -x), -call(dev, "j1", x))


def test_bessel_of_special_values(dev):
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, -1.0, 1e-310, 720.0])
    expect = {
        "j0": [1, 1, 0, 0, nan], "j1": [0, -0.0, 0, -0.0, nan], "y0": [-inf, -inf, 0, nan, nan, nan], "y1": [-inf, -inf, 0, nan, nan, nan, -inf],
        "cyl_bessel_i0": [1, 1, inf, inf, nan, 1.2660658777520084, 1, inf], "cyl_bessel_i1": [0, -0.0, inf, -inf, nan, -0.565159103992485, 5e-311, inf]
    }
    for fn, e in expect.items():
        assert_ulp(call(dev, fn, x)[:len(e)], np.array(e, np.float64), 2)
    n = np.array([0, 1, 2, 5, -1, 3, 4, 2])
    x = np.array([0.0, -0.0, 0.0, inf, 1.0, -inf, nan, -0.5])
    assert_ulp(of_order(dev, "jn", n, x), np.array([1, -0.0, 0, 0, nan, -0.0, nan, 0.030604023458682638]), 4)
    assert_ulp(of_order(dev, "yn", n, x), np.array([-inf, -inf, -inf, 0, nan, nan, nan, nan]), 4)
    n, x = np.array([5, 40, 40, 2, 7, 2, 1, 0]), np.array([2.5, 12.25, 70.5, 1e-120, 1e-3, 8.0, 8.0, 8.0])
    assert_ulp(of_order(dev, "jn", n, x)[:5], np.array([0.01950162513450322, 1.4816853171120296e-17, 0.1005094910410612, 1.25e-241, 1.5500991579086071e-27]), 40)
    assert_ulp(of_order(dev, "yn", n, x)[:5], np.array([-3.8301760007407517, -564205144198177.1, -0.029357246735912557, -1.2732395447351627e+240, -2.9335440333008136e+25]), 40)


def rounded(q, t, mode):
    """The fraction q in float type t, by comparing neighbours exactly."""
    with np.errstate(all="ignore"):
        r = d(t).np(float(q) if abs(q) < Fraction(2)**1023 else np.inf * (1 if q > 0 else -1))
    top, inf = np.finfo(d(t).np).max, d(t).np(np.inf)
    if np.isinf(r):
        r = top if r > 0 else -top
    while Fraction(float(r)) > q:
        r = np.nextafter(r, -inf)
        if np.isinf(r):
            break
    while not np.isinf(np.nextafter(r, inf)) and Fraction(float(np.nextafter(r, inf))) <= q:
        r = np.nextafter(r, inf)
    low = r
    high = r if not np.isinf(r) and Fraction(float(r)) == q else np.nextafter(r, inf)
    return {"rd": low, "ru": high, "rz": low if q > 0 else high}[mode]


EXACT = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y}


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
@pytest.mark.parametrize("op", EXACT)
def test_directed(dev, op, mode, t):
    g = rng("directed", op, mode, t)
    span = 30 if t == "float32" else 300
    x, y = ((g.standard_normal(512) * 10.0**np.where(np.arange(512) % 2, 0, g.uniform(-span, span, 512))).astype(d(t).np) for _ in range(2))
    got = call(dev, f"{op}_{mode}", x, y)
    expected = np.array([rounded(EXACT[op](Fraction(float(a)), Fraction(float(b))), t, mode) for a, b in zip(x, y)], d(t).np)
    tiny = np.abs(expected) == 0  # the sign of a zero is another row
    assert_same(np.where(tiny, np.abs(got), got), np.where(tiny, np.abs(expected), expected))


@pytest.mark.parametrize("t", TYPES)
def test_directed_zeros_and_infinities(dev, t):
    x = np.array([1, 0, 0, -0.0, np.inf, np.inf, np.nan, 1], d(t).np)
    y = np.array([-1, 0, -0.0, -0.0, 1, -np.inf, 1, np.inf], d(t).np)
    down, up = call(dev, "add_rd", x, y), call(dev, "add_ru", x, y)
    assert_same(down, np.array([-0.0, 0, -0.0, -0.0, np.inf, np.nan, np.nan, np.inf], d(t).np))
    assert_same(up, np.array([0, 0, 0, -0.0, np.inf, np.nan, np.nan, np.inf], d(t).np))
    one = np.ones(4, d(t).np)
    assert_same(call(dev, "div_rz", one, one * 0), one * d(t).np(np.inf))


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
def test_directed_roots_and_reciprocals(dev, mode, t):
    x = np.abs(inputs(t, 0, 1e6)[20:276]) + d(t).np(1e-30)
    got = call(dev, f"sqrt_{mode}", x)
    inf = d(t).np(np.inf)
    for r, q in zip(got, x):
        q, below = Fraction(float(q)), Fraction(float(r))**2
        assert below >= q > Fraction(float(np.nextafter(r, -inf)))**2 if mode == "ru" else below <= q < Fraction(float(np.nextafter(r, inf)))**2
    expected = np.array([rounded(1 / Fraction(float(q)), t, mode) for q in x], d(t).np)
    assert_same(call(dev, f"rcp_{mode}", x), expected)
    z = -(x * x)
    expected = np.array([rounded(Fraction(float(a))**2 + Fraction(float(b)), t, mode) for a, b in zip(x, z)], d(t).np)
    got = call(dev, f"fma_{mode}", x, x, z)
    assert_same(np.where(expected == 0, 0, got), np.where(expected == 0, 0, expected))


INT = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("f", ["float", "double"])
@pytest.mark.parametrize("i", INT)
def test_conversions(dev, i, f, mode):
    t, it = {"float": "float32", "double": "float64"}[f], d(INT[i])
    x = np.concatenate([np.arange(-8, 8) / 4, rng(i, f, mode).uniform(-1000, 1000, 240)]).astype(d(t).np)
    x = np.abs(x) if it.kind == "u" else x
    step = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
    assert_same(call(dev, f"{f}2{i}_{mode}", x, dtype=it.np), step(x).astype(it.np))
    if not (f == "double" and i in ("int", "uint") and mode != "rn"):
        info = np.iinfo(it.np)
        n = rng(i, f).integers(info.min, info.max, 256, dtype=it.np, endpoint=True)
        n[:6] = [info.min, info.max, info.max - 1, 0, 1, 2**24 + 1]
        expected = n.astype(d(t).np) if mode == "rn" else np.array([rounded(Fraction(int(v)), t, mode) for v in n], d(t).np)
        assert_same(call(dev, f"{i}2{f}_{mode}", n, dtype=d(t).np), expected)


@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
def test_double_to_float(dev, mode):
    x = inputs("float64", -1e30, 1e30)[20:276]
    assert_same(call(dev, f"double2float_{mode}", x, dtype=np.float32), np.array([rounded(Fraction(float(v)), "float32", mode) for v in x], np.float32))


@pytest.mark.parametrize("t", TYPES)
def test_parts_of_numbers(dev, t):
    x = np.concatenate([inputs(t, -5, 5), [np.finfo(d(t).np).smallest_subnormal * 5, np.finfo(d(t).np).max] * 2, np.ones(508)]).astype(d(t).np)[:512 + 512]
    x = np.resize(x, 1024)
    y = np.roll(x, 7)
    with np.errstate(all="ignore"):
        assert_same(call(dev, "nextafter", x, y), np.nextafter(x, y))
        e = np.frexp(x)[1] - 1.0
        logb = np.where(x == 0, -np.inf, np.where(np.isfinite(x), e, np.abs(x))).astype(d(t).np)
        assert_same(call(dev, "logb", x), logb)
        n = rng("ldexp", t).integers(-1200 if t == "float64" else -160, 160, 1024).astype(np.int32)
        assert_same(call(dev, "ldexp", x, n, dtype=x.dtype), np.ldexp(x, n))
        assert_same(call(dev, "scalbn", x, n, dtype=x.dtype), np.ldexp(x, n))
    ilogb = call(dev, "ilogb", x, dtype=np.int32)
    ok = np.isfinite(x) & (x != 0)
    assert_same(ilogb[ok], e[ok].astype(np.int32))
    ref = [math.remainder(float(a), float(b)) if np.isfinite(a) and b == b and b != 0 else math.nan for a, b in zip(x, y)]
    assert_same(call(dev, "remainder", x, y), np.array(ref, d(t).np))
    halves = np.array([0.5, 1.5, -2.5, 3.5, -0.5, 7.25, 1e6, -3], d(t).np)
    assert call(dev, "llrint", halves, dtype=np.int64).tolist() == [0, 2, -2, 4, 0, 7, 1000000, -3]
    assert call(dev, "llround", halves, dtype=np.int64).tolist() == [1, 2, -3, 4, -1, 7, 1000000, -3]


@pytest.mark.parametrize("t", ["float32", "float64"])
def test_round(dev, t):
    """Halves and their neighbours, up to where all numbers are whole."""
    half = np.concatenate([np.arange(-9, 10) / 2, np.outer([1, -1], 2.0 ** np.arange(1, 54)).ravel() + np.repeat([0.5, -0.5], 53), np.array([0.0, -0.0])]).astype(d(t).np)
    x = np.concatenate([half, np.nextafter(half, d(t).np(np.inf)), np.nextafter(half, d(t).np(-np.inf)), np.array([np.inf, -np.inf, np.nan], d(t).np)])
    expected = np.array([v if not np.isfinite(v) else math.copysign(math.floor(Fraction(abs(float(v))) + Fraction(1, 2)), v) for v in x], d(t).np)
    assert_same(call(dev, "round", x), expected)


@pytest.mark.parametrize("t", ["int32", "uint32", "int64", "uint64"])
def test_integers(dev, t):
    it = d(t)
    info = np.iinfo(it.np)
    g = rng("integers", t)
    x, y = (g.integers(info.min, info.max, 256, dtype=it.np, endpoint=True) >> g.integers(0, it.bits, 256).astype(it.np) for _ in range(2))
    x[:3] = info.min, info.max, 0
    mask = (1 << it.bits) - 1
    table = lambda f, dt=it.np: np.array([f(int(a), int(b)) for a, b in zip(x, y)], dt)
    assert_same(call(dev, "mulhi", x, y), table(lambda a, b: a * b >> it.bits))
    assert_same(call(dev, "hadd", x, y), table(lambda a, b: a + b >> 1))
    assert_same(call(dev, "rhadd", x, y), table(lambda a, b: a + b + 1 >> 1))
    assert_same(call(dev, "brev", x).view(f"u{it.bits // 8}"), table(lambda a, b: int(f"{a & mask:0{it.bits}b}"[::-1], 2), f"u{it.bits // 8}"))
    assert_same(call(dev, "ffs", x, dtype=np.int32), table(lambda a, b: (a & -a).bit_length(), np.int32))
    if it.bits == 32:
        low = lambda a: (((a & 0xffffff) ^ 0x800000) - 0x800000) if it.kind == "i" else a & 0xffffff
        assert_same(call(dev, "mul24", x, y).view(np.uint32), table(lambda a, b: low(a) * low(b) & mask, np.uint32))
        z = np.full(256, 7, np.uint32)
        assert_same(call(dev, "sad", x, y, z, dtype=np.uint32), table(lambda a, b: abs(a - b) + 7 & mask, np.uint32))
        s = g.integers(0, 1 << 16, 256).astype(it.np)
        both = [(int(a) & mask) | (int(b) & mask) << 32 for a, b in zip(x, y)]
        perm = [sum((v >> 8 * (int(k) >> 4 * i & 7) & 255) << 8 * i for i in range(4)) for v, k in zip(both, s)]
        assert_same(call(dev, "byte_perm", x, y, s).view(np.uint32), np.array(perm, np.uint32))


def test_words_of_doubles(dev):
    x = rng("words").standard_normal(64)
    w = x.view(np.int64)
    high, low = (w >> 32).astype(np.int32), w.astype(np.int32)
    assert_same(call(dev, "double2hiint", x, dtype=np.int32), high)
    assert_same(call(dev, "double2loint", x, dtype=np.int32), low)
    assert_same(call(dev, "hiloint2double", high, low, dtype=np.float64), x)


@pytest.mark.parametrize("fn, dtype", [("atan", np.int32), ("tgamma", np.float16), ("mulhi", np.int16), ("no_such", np.float32)])
def test_wrong_types_and_names(dev, fn, dtype):
    with pytest.raises((CompileError, AttributeError)):
        f = getattr(libdevice, fn)
        apply(dev, f, [np.ones(8, dtype)] * (2 if fn == "mulhi" else 1), (8,), dtype)


@tegula.jit
def k_numbers(out):
    tl.store(out, libdevice.atan2(1.0, 2.0))
    tl.store(out + 1, libdevice.pow(2.0, 10))
    tl.store(out + 2, libdevice.fast_powf(tegula.language.load(out + 7) + 3.0, 2.0))


def test_numbers(dev):
    assert np.allclose(run(dev, k_numbers, dtype=np.float32)[:3], [math.atan2(1, 2), 1024, 9])


@tegula.jit
def k_power(out, x, P: tl.constexpr):
    i = tl.arange(0, 64)
    tl.store(out + i, libdevice.pow(tl.load(x + i), P))


@pytest.mark.parametrize("t", [np.float32, np.float64])
def test_powers_of_numbers(dev, t):
    # Products and roots where the exponent is one of these numbers; special values are those of C's pow.
    x = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-19, -2e19, 1e38], rng("powers").standard_normal(54)]).astype(t)
    for p in (1, 2, 3, 4, -1, -2, 0.5, -0.5, 2.0, 5, -3.0):
        got = np.array(run(dev, k_power, x, n=64, dtype=t, P=p), t)
        with np.errstate(all="ignore"):
            want = np.array([math.inf if v == -math.inf and p == 0.5 else 0.0 if v == -math.inf and p == -0.5 else math.inf if v == 0 and p == -0.5 else np.float64(v) ** np.float64(p) for v in x])
            want = want.astype(t)
        assert np.allclose(got, want, rtol=4 * np.finfo(t).eps, atol=0, equal_nan=True), p
        if p != 0.5 and p != -0.5:
            assert np.array_equal(np.signbit(got[x == x]), np.signbit(want[x == x])), p
        elif p == 0.5:
            assert not np.signbit(got[1])


@tegula.jit
def rounded_operations(x, y, z, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, libdevice.mul_rn(a, b) + c)
    tl.store(out + B + i, libdevice.add_rn(a * b, c))
    tl.store(out + 2 * B + i, libdevice.sub_rn(c, -a * b))


@pytest.mark.parametrize("t", TYPES)
def test_rounded_operations_are_not_fused(dev, t):
    """x*y, rounded, less the same is 0; a fused multiply-add would give what the rounding took away."""
    x, y = (rng("rounded", n).uniform(1, 2, 256).astype(d(t).np) for n in "xy")
    out = np.full(3 * 256, -1, d(t).np)
    dev(rounded_operations, (1,), x, y, -(x * y), out, B=256)
    assert_same(out, np.zeros(3 * 256, d(t).np))


@tegula.jit
def sums_of_products(x, y, z, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, libdevice.add_ru(a * b, c))
    tl.store(out + B + i, libdevice.sub_rd(c, a * b))


@pytest.mark.parametrize("t", TYPES)
def test_directed_sums_of_products_are_not_fused(dev, t):
    """The argument is the rounded product, whatever makes it."""
    x, y = (rng("directed", n).uniform(1, 2, 256).astype(d(t).np) for n in "xy")
    out = np.full(2 * 256, -1, d(t).np)
    dev(sums_of_products, (1,), x, y, -(x * y), out, B=256)
    down = -2 * (x * y).astype(np.longdouble)  # exact: sums of equal numbers
    assert_same(out, np.concatenate([np.zeros(256), down]).astype(d(t).np))


@tegula.jit(exact=True)
def exact_product_and_sum(a, b, c):
    return a * b + c


@functools.partial(tegula.jit, exact=True)
def exact_sum(a, b):
    return a + b


@tegula.jit
def exact_functions(x, y, z, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, exact_product_and_sum(a, b, c))
    tl.store(out + B + i, exact_sum(a * b, c))


@pytest.mark.parametrize("t", TYPES)
def test_exact_functions_are_not_fused(dev, t):
    x, y = (rng("exact", n).uniform(1, 2, 256).astype(d(t).np) for n in "xy")
    out = np.full(2 * 256, -1, d(t).np)
    dev(exact_functions, (1,), x, y, -(x * y), out, B=256)
    assert_same(out, np.zeros(2 * 256, d(t).np))


@tegula.jit(exact=True)
def exact_wrap(x):
    return x + 2147483647


@tegula.jit
def wraps(x, out):
    tl.store(out, exact_wrap(tl.load(x)))


def test_exact_functions_wrap(dev):
    """In debug builds, too, where other integers are checked."""
    out = np.zeros(1, np.int32)
    dev(wraps, (1,), np.array([5], np.int32), out, debug=True)
    assert out[0] == np.int32(-2147483644)
