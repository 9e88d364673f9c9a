"""§3.6 elementwise functions."""
import math

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, FLOATS, NO_FP8, apply, assert_same, assert_ulp, d, rng, values

pytestmark = pytest.mark.section("3.6 elementwise")


@tegula.jit
def f_exp(x):
    return tl.exp(x)


@tegula.jit
def f_exp2(x):
    return tl.exp2(x)


@tegula.jit
def f_log(x):
    return tl.log(x)


@tegula.jit
def f_log2(x):
    return tl.log2(x)


@tegula.jit
def f_sin(x):
    return tl.sin(x)


@tegula.jit
def f_cos(x):
    return tl.cos(x)


@tegula.jit
def f_sqrt(x):
    return tl.sqrt(x)


@tegula.jit
def f_rsqrt(x):
    return tl.rsqrt(x)


@tegula.jit
def f_erf(x):
    return tl.erf(x)


@tegula.jit
def f_floor(x):
    return tl.floor(x)


@tegula.jit
def f_ceil(x):
    return tl.ceil(x)


@tegula.jit
def f_sqrt_rn(x):
    return tl.sqrt_rn(x)


@tegula.jit
def m_exp(x):
    return x.exp()


@tegula.jit
def m_math_exp(x):
    return tl.math.exp(x)


@tegula.jit
def m_erf(x):
    return x.erf()


@tegula.jit
def m_log2(x):
    return x.log2()


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))


def exact(f):
    return lambda x: f(x.astype(np.longdouble if x.dtype == np.float64 else np.float64))


# name, kernel function, reference, interval, ulp for float32, ulp for float64
MATH = [
    ("exp", f_exp, exact(np.exp), (-104, 89), 2, 2),
    ("exp2", f_exp2, exact(np.exp2), (-150, 128.5), 2, 2),
    ("log", f_log, exact(np.log), (1e-6, 1e6), 2, 2),
    ("log2", f_log2, exact(np.log2), (1e-6, 1e6), 2, 2),
    ("log near 1", f_log, exact(np.log), (0.9, 1.1), 2, 2),
    ("exp near 0", f_exp, exact(np.exp), (-1e-3, 1e-3), 2, 2),
    ("sin", f_sin, exact(np.sin), (-100, 100), 2, 2),
    ("cos", f_cos, exact(np.cos), (-100, 100), 2, 2),
    ("sin near 0", f_sin, exact(np.sin), (-1e-3, 1e-3), 2, 2),
    ("sin of large", f_sin, exact(np.sin), (-1e5, 1e5), 2, 2),
    ("cos of large", f_cos, exact(np.cos), (-1e5, 1e5), 2, 2),
    ("sqrt", f_sqrt, exact(np.sqrt), (0, 1e10), 2, 2),
    ("rsqrt", f_rsqrt, exact(lambda x: 1 / np.sqrt(x)), (1e-10, 1e10), 2, 2),
    ("erf", f_erf, erf, (-5, 5), 2, 4),
    ("erf near 0", f_erf, erf, (-1e-2, 1e-2), 2, 4),
    ("floor", f_floor, exact(np.floor), (-1e4, 1e4), 0, 0),
    ("ceil", f_ceil, exact(np.ceil), (-1e4, 1e4), 0, 0),
    ("exp method", m_exp, exact(np.exp), (-10, 10), 2, 2),
    ("tl.math.exp", m_math_exp, exact(np.exp), (-10, 10), 2, 2),
    ("erf method", m_erf, erf, (-2, 2), 2, 4),
    ("log2 method", m_log2, exact(np.log2), (1e-3, 1e3), 2, 2),
]


def bound(dev, name, ulps, x):
    """On a GPU float32 exp may be exp2(x log2 e), the product rounded (LANGUAGE 3.6)."""
    return ulps + 1.25 * np.where(np.isfinite(x), np.abs(x), 0) if dev.name.startswith("cuda") and "exp" in name and "exp2" not in name and x.dtype == np.float32 else ulps


@pytest.mark.parametrize("row", MATH, ids=lambda r: r[0])
@pytest.mark.parametrize("t", ["float32", "float64"])
def test_math(dev, row, t):
    name, fn, ref, (low, high), ulp32, ulp64 = row
    n = 16384
    x = rng(name).uniform(low, high, n).astype(d(t).np)
    if low > 0:
        x[::2] = np.exp(rng(name, 1).uniform(np.log(low), np.log(high), n // 2)).astype(d(t).np)
    got, want = apply(dev, fn, [x], (n,), d(t).np), ref(x)
    if name == "exp2" and t == "float32" and dev.name.startswith("cuda"):  # ex2.approx.ftz: subnormal results are 0
        got = np.where((got == 0) & (want < 2.0**-126), want.astype(np.float32), got)
    assert_ulp(got, want, bound(dev, name, ulp32, x) if t == "float32" else ulp64)


SPECIALS = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 1e-40, 3.4e38, -3.4e38, 0.5, 89.5, -104.5, 128.0, -150.5])


@pytest.mark.parametrize("row", [("exp", f_exp, np.exp), ("exp2", f_exp2, np.exp2), ("log", f_log, np.log),
                                 ("log2", f_log2, np.log2), ("sqrt", f_sqrt, np.sqrt),
                                 ("rsqrt", f_rsqrt, lambda x: 1 / np.sqrt(x)), ("floor", f_floor, np.floor),
                                 ("ceil", f_ceil, np.ceil), ("erf", f_erf, erf)], ids=lambda r: r[0])
@pytest.mark.parametrize("t", ["float32", "float64"])
def test_specials(dev, row, t):
    name, fn, ref = row
    x = SPECIALS.astype(d(t).np)
    with np.errstate(all="ignore"):
        assert_ulp(apply(dev, fn, [x], (16,),
                         d(t).np), ref(x.astype(np.float64 if t == "float32" else np.longdouble)),
                   bound(dev, name, 2, x) if name != "erf" else 4)


@pytest.mark.parametrize("fn", [f_sin, f_cos], ids=["sin", "cos"])
def test_trigonometry_of_infinity(dev, fn):
    x = np.array([np.inf, -np.inf, np.nan, np.nan], np.float32)
    assert np.isnan(apply(dev, fn, [x], (4,), np.float32)).all()


@tegula.jit
def add_sine(a, b):
    return a + tl.sin(b)


@tegula.jit
def angles(x, y, total, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    sum = tl.zeros([N], tl.float32)
    for k in range(K):
        sum += tl.sin(v) * tl.cos(v)
        v = v * 3.0
        if k > 1:
            sum += tl.cos(v)
    tl.store(y + i, sum)
    tl.store(total, tl.reduce(v, 0, add_sine))


def test_angles_in_loops_and_regions(dev):
    """Sine and cosine of one value may share its reduction, but not with the value of another iteration or call."""
    x = rng("angles").standard_normal(256).astype(np.float32)
    x[3] = 1e8
    y, total = np.zeros(256, np.float32), np.zeros(1, np.float32)
    dev(angles, (1,), x, y, total, 256, 4)
    v, sum = x.copy(), np.zeros(256)
    for k in range(4):
        sum += np.sin(v.astype(np.float64)) * np.cos(v.astype(np.float64))
        v = v * np.float32(3)
        sum += np.cos(v.astype(np.float64)) if k > 1 else 0
    np.testing.assert_allclose(y, sum, atol=2e-6)
    assert np.isfinite(total).all()


@pytest.mark.parametrize("fn", [f_exp, f_exp2, f_log, f_log2, f_sin, f_cos, f_sqrt, f_rsqrt, f_erf, f_floor, f_ceil],
                         ids=lambda f: f.__name__)
@pytest.mark.parametrize("t", ["float16", "bfloat16", "int32"])
def test_function_form_wants_wide_floats(dev, fn, t):
    with pytest.raises(CompileError, match="[Ee]xpected dtype"):
        apply(dev, fn, [np.ones(16, d(t).np)], (16,), d(t).np)


def test_sqrt_rn_is_exact(dev):
    x = np.abs(values(d("float32"), 4096, special=True))
    with np.errstate(all="ignore"):
        assert_same(apply(dev, f_sqrt_rn, [x], (4096,), np.float32), np.sqrt(x))


@tegula.jit
def f_div_rn(x, y):
    return tl.div_rn(x, y)


@tegula.jit
def f_fdiv(x, y):
    return tl.fdiv(x, y)


@tegula.jit
def f_fdiv_ieee(x, y):
    return tl.fdiv(x, y, ieee_rounding=True)


@tegula.jit
def f_fma(x, y, z):
    return tl.fma(x, y, z)


@tegula.jit
def f_f32x2(x, y, z):
    return tl.math.fma_f32x2(tl.math.add_f32x2(x, y), tl.math.sub_f32x2(x, z), tl.math.mul_f32x2(y, z))


@tegula.jit
def f_umulhi(x, y):
    return tl.umulhi(x, y)


@tegula.jit
def f_add(x, y):
    return tl.add(x, y, sanitize_overflow=False)


@tegula.jit
def f_sub(x, y):
    return tl.sub(x, y)


@tegula.jit
def f_mul(x, y):
    return tl.mul(x, y)


@tegula.jit
def f_minimum(x, y):
    return tl.minimum(x, y)


@tegula.jit
def f_maximum(x, y):
    return tl.maximum(x, y)


@tegula.jit
def f_minimum_nan(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@tegula.jit
def f_maximum_nan(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@tegula.jit
def f_clamp(x, lo, hi):
    return tl.clamp(x, lo, hi)


@tegula.jit
def f_clamp_nan(x, lo, hi):
    return tl.clamp(x, lo, hi, propagate_nan=tl.PropagateNan.ALL)


@tegula.jit
def f_abs(x):
    return tl.abs(x)


@tegula.jit
def m_abs(x):
    return x.abs()


@tegula.jit
def f_where(c, x, y):
    return tl.where(c, x, y)


@tegula.jit
def f_cdiv(x, y):
    return tl.cdiv(x, y)


@tegula.jit
def m_cdiv(x, y):
    return x.cdiv(y)


@tegula.jit
def f_sigmoid(x):
    return tl.sigmoid(x)


@tegula.jit
def f_softmax(x, dim, keep):
    return tl.softmax(x, dim, keep)


@tegula.jit
def f_expect_zero(x, m):
    return tl.expect_zero(x, m)


def pair(t, n, *key):
    x, y = values(t, n, (key, 0), special=True), values(t, n, (key, 1), special=True)[::-1].copy()
    return x, y


@pytest.mark.parametrize("fn", [f_div_rn, f_fdiv_ieee], ids=["div_rn", "fdiv ieee"])
def test_division_rounds_correctly(dev, fn):
    x, y = pair(d("float32"), 4096, "div")
    with np.errstate(all="ignore"):
        assert_same(apply(dev, fn, [x, y], (4096,), np.float32), x / y)


@pytest.mark.parametrize("t", ["float32", "float64", "float16"])
def test_fdiv(dev, t):
    x, y = values(d(t), 256, 0), values(d(t), 256, 1)
    got = apply(dev, f_fdiv, [x, y], (256,), np.float64 if t == "float64" else np.float32)
    np.testing.assert_allclose(got, x.astype(np.float64) / y.astype(np.float64), rtol=2.0**-22)


@pytest.mark.parametrize("a, b", [("int32", "int32"), ("int8", "uint8")])
def test_fdiv_errors(dev, a, b):
    with pytest.raises(CompileError, match="requires floating-point operands"):
        apply(dev, f_fdiv, [np.ones(8, d(a).np), np.ones(8, d(b).np)], (8,), np.float32)


@pytest.mark.parametrize("t", ["float32", "float64"])
def test_fma_rounds_once(dev, t):
    g = rng("fma")
    x = g.standard_normal(1024).astype(d(t).np)
    y = g.standard_normal(1024).astype(d(t).np)
    z = (-(x * y)).astype(d(t).np)
    e = (x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble))
    got = apply(dev, f_fma, [x, y, z], (1024,), d(t).np)
    if t == "float32":
        assert_same(got, e.astype(np.float32))
    else:
        assert (got != 0).mean() > 0.5  # an unfused product would cancel to zero everywhere


@pytest.mark.parametrize("t", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [512, 4096])
def test_narrow_fma_rounds_once(dev, t, n):
    g = rng("narrow fma")
    x, y, z = (np.copysign(g.uniform(2**-6, 4, n), g.standard_normal(n)).astype(d(t).np) for _ in range(3))
    # Products half way between two numbers, and sums that tell only with more digits than a float has where to round to.
    factors, less = {"float16": ((12, 683 / 512), 2.0**-24), "bfloat16": ((7, 37), 2.0**-30)}[t]
    x[:4], y[:4], z[:4] = factors[0], [factors[1], factors[1], -factors[1], -factors[1]], [less, -less, less, -less]
    x[4:8], y[4:8], z[4:8] = [0.0, -0.0, np.inf, 1], [1, 1, 0, np.nan], [-0.0, -0.0, 1, 1]
    with np.errstate(invalid="ignore"):
        e = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
    away = {"float16": np.array([16.015625, 16, -16, -16.015625]), "bfloat16": np.array([260, 258, -258, -260])}[t]
    e[:4] = away
    assert_same(apply(dev, f_fma, [x, y, z], (n,), d(t).np), e.astype(d(t).np))


def test_f32x2(dev):
    x, y, z = (values(d("float32"), 256, i) for i in range(3))
    want = (np.float64(x + y) * np.float64(x - z) + np.float64(y * z)).astype(np.float32)
    assert_same(apply(dev, f_f32x2, [x, y, z], (256,), np.float32), want)
    with pytest.raises(CompileError, match="Expected dtype"):
        apply(dev, f_f32x2, [v.astype(np.float16) for v in (x, y, z)], (256,), np.float32)


@pytest.mark.parametrize("t", ["int32", "uint32", "int64", "uint64"])
def test_umulhi(dev, t):
    t = d(t)
    x, y = values(t, 256, 0), values(t, 256, 1)
    mask = (1 << t.bits) - 1
    e = np.array([((int(a) & mask) * (int(b) & mask)) >> t.bits for a, b in zip(x, y)], f"u{t.bits // 8}").view(t.np)
    assert_same(apply(dev, f_umulhi, [x, y], (256,), t.np), e)


def test_umulhi_wants_words(dev):
    with pytest.raises(CompileError):
        apply(dev, f_umulhi, [np.ones(8, np.int16), np.ones(8, np.int16)], (8,), np.int16)


@pytest.mark.parametrize("t", ["int8", "int32", "uint16", "int64", "float32", "float64"])
@pytest.mark.parametrize("fn, ref", [(f_add, np.add), (f_sub, np.subtract), (f_mul, np.multiply)],
                         ids=["add", "sub", "mul"])
def test_function_forms(dev, t, fn, ref):
    x, y = values(d(t), 64, 0), values(d(t), 64, 1)
    with np.errstate(all="ignore"):
        assert_same(apply(dev, fn, [x, y], (64,), d(t).np), ref(x, y))


@pytest.mark.parametrize("t", [t for t in NO_FP8 if t.kind != "b"], ids=str)
@pytest.mark.parametrize("fn, ref", [(f_minimum, np.fmin), (f_maximum, np.fmax), (f_minimum_nan, np.minimum), (f_maximum_nan, np.maximum)],
                         ids=["min", "max", "min nan", "max nan"])
def test_extrema(dev, t, fn, ref):
    x, y = pair(t, 256, "extrema")
    if t.kind == "f":
        # Zeros of both signs: which one comes out is not checked.
        both = (x == 0) & (y == 0)
        y[both] = x[both]
        x[40], y[40] = np.nan, 1
        x[41], y[41] = 1, np.nan
    assert_same(apply(dev, fn, [x, y], (256,), t.np), ref(x, y).astype(t.np))


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_clamp(dev, t):
    x = values(t, 256, special=True)
    result = t.np
    lo, hi = np.array(-1.5, t.np), np.array(2.5, t.np)
    e = np.clip(x.astype(np.float64), -1.5, 2.5).astype(result)
    nan = np.isnan(e.astype(np.float64))
    got = apply(dev, f_clamp, [x, lo, hi], (256,), result)
    assert_same(got, e, ~nan)
    assert np.isin(got[nan].astype(np.float64), [-1.5, 2.5]).all()
    assert_same(apply(dev, f_clamp_nan, [x, lo, hi], (256,), result), e)


@pytest.mark.parametrize("t", ["int8", "uint8", "int32", "uint32", "int64"])
def test_clamp_of_integers(dev, t):
    x = np.arange(-4, 4).astype(d(t).np)
    assert_same(apply(dev, f_clamp, [x, np.full(8, 1, x.dtype), np.full(8, 100, x.dtype)], (8,), x.dtype), np.clip(x, 1, 100))


@pytest.mark.parametrize("t", [t for t in NO_FP8 if t.kind != "b"], ids=str)
@pytest.mark.parametrize("fn", [f_abs, m_abs], ids=["function", "method"])
def test_abs(dev, t, fn):
    x = values(t, 64, special=True)
    with np.errstate(all="ignore"):
        assert_same(apply(dev, fn, [x], (64,), t.np), np.abs(x))


@pytest.mark.parametrize("t", NO_FP8, ids=str)
@pytest.mark.parametrize("cond", ["int1", "int32"])
def test_where(dev, t, cond):
    c = values(d(cond), 64, "where") if cond == "int1" else np.arange(64, dtype=np.int32) % 3
    x, y = values(t, 64, 0, special=True), values(t, 64, 1)
    assert_same(apply(dev, f_where, [c, x, y], (64,), t.np), np.where(c != 0, x, y))


@pytest.mark.parametrize("sc, sx, sy", [((4, 1), (1, 8), ()), ((), (4, 8), (8,)), ((8,), (), ()),
                                        ((4, 8), (), (4, 1))], ids=str)
def test_where_broadcasts(dev, sc, sx, sy):
    c = (np.arange(int(np.prod(sc))) % 2 == 0).reshape(sc)
    x, y = np.arange(int(np.prod(sx)),
                     dtype=np.int32).reshape(sx), -np.arange(int(np.prod(sy)), dtype=np.int32).reshape(sy) - 1
    e = np.where(c, x, y).astype(np.int32)
    assert_same(apply(dev, f_where, [c, x, y], e.shape, np.int32), e)


@tegula.jit
def where_pointers(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(tl.where(i % 2 == 0, x + i, y + i)))


def test_where_of_pointers(dev):
    x, y, out = np.arange(32, dtype=np.float32), -np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    dev(where_pointers, (1,), x, y, out, 32)
    assert_same(out, np.where(np.arange(32) % 2 == 0, x, y))


@pytest.mark.parametrize("fn", [f_cdiv, m_cdiv], ids=["function", "method"])
@pytest.mark.parametrize("t", ["int32", "int64", "uint32"])
def test_cdiv(dev, fn, t):
    x, y = values(d(t), 64, 0, low=0, high=10000), values(d(t), 64, 1, low=1, high=50)
    assert_same(apply(dev, fn, [x, y], (64,), d(t).np), ((x + y - 1) // y).astype(d(t).np))


@tegula.jit
def constexpr_cdiv(out):
    n: tl.constexpr = tl.cdiv(100, 32)
    tl.static_assert(n == 4)
    tl.static_assert(tl.cdiv(96, 32) == 3)
    tl.store(out + tl.arange(0, n), 1)


def test_cdiv_of_constants(dev):
    out = np.zeros(4, np.int32)
    dev(constexpr_cdiv, (1,), out)
    assert out.sum() == 4


def test_sigmoid(dev):
    x = values(d("float32"), 256)
    np.testing.assert_allclose(apply(dev, f_sigmoid, [x], (256,), np.float32), 1 / (1 + np.exp(-x.astype(np.float64))),
                               rtol=1e-6)


@pytest.mark.parametrize("shp, dim, keep", [((64,), None, False), ((64,), 0, True), ((8, 16), 0, True),
                                            ((8, 16), 1, True), ((8, 16), -1, True), ((16, 16), 0, False),
                                            ((2, 4, 8), 2, True)], ids=str)
@pytest.mark.parametrize("t", ["float32", "float16"])
def test_softmax(dev, shp, dim, keep, t):
    x = values(d(t), int(np.prod(shp)), "softmax").reshape(shp)
    x64 = x.astype(np.float64)
    axis = dim or 0
    e = np.exp(x64 - x64.max(axis, keepdims=True))
    # The maximum of half floats is float32, so is all that follows.
    np.testing.assert_allclose(apply(dev, f_softmax, [x], shp, np.float32, (dim, keep)), e / e.sum(axis, keepdims=True),
                               rtol=1e-5)


def test_expect_zero(dev):
    x = np.arange(8, dtype=np.int32)
    assert_same(apply(dev, f_expect_zero, [x, np.zeros(8, np.bool_)], (8,), np.int32), x)


@tegula.jit
def numbers_kernel(out):
    # Functions of numbers give scalars.
    tl.store(out, tl.exp(0.0))
    tl.store(out + 1, tl.maximum(3, 4).to(tl.float32))
    tl.store(out + 2, tl.abs(-2.5))
    tl.store(out + 3, tl.where(True, 1.5, 2.5))
    tl.store(out + 4, tl.fma(2.0, 3.0, 4.0))
    tl.store(out + 5, tl.math.sqrt(tl.to_tensor(16.0)))


def test_numbers(dev):
    out = np.zeros(6, np.float32)
    dev(numbers_kernel, (1,), out)
    assert out.tolist() == [1, 4, 2.5, 1.5, 10, 4]
