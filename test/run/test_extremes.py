"""Maxima and minima of floats where zeros of both signs, NaNs and infinities meet."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import apply, d, rng

pytestmark = pytest.mark.section("3.7 reductions")


@tegula.jit
def f_max(x, axis, keep):
    return tl.max(x, axis, keep_dims=keep)


@tegula.jit
def f_min(x, axis, keep):
    return tl.min(x, axis, keep_dims=keep)


@tegula.jit
def masked_extremes(x, high, low, n, R: tl.constexpr, C: tl.constexpr):
    rows, cols = tl.arange(0, R), tl.arange(0, C)
    at = rows[:, None] * C + cols[None, :]
    tl.store(high + rows, tl.max(tl.load(x + at, mask=cols[None, :] < n, other=-float("inf")), 1))
    tl.store(low + rows, tl.min(tl.load(x + at, mask=cols[None, :] < n, other=float("inf")), 1))


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize("shp, axis", [((512,), 0), ((2048,), 0), ((16, 128), 1), ((128, 16), 0), ((64, 8), 1)], ids=str)
def test_extremes_of_zeros_nans_and_infinities(dev, t, shp, axis):
    """A zero of the better sign, a number among NaNs, nothing but NaNs, at any place: each is right though most rows are computed as if there were none of them."""
    g = rng("extremes", t, shp)
    nan, inf = np.nan, np.inf
    rest = {"max": [-0.0, 0.0, -1.0, -inf, nan], "min": [-0.0, 0.0, 1.0, inf, nan]}
    for name, fn in (("max", f_max), ("min", f_min)):
        for kind in range(12):
            pool = [x for i, x in enumerate(rest[name]) if (3 * kind + 1) >> i & 1] or [nan]
            x = g.choice(np.array(pool, d(t).np), shp)
            if kind % 3:
                x[g.random(shp) < 2 / shp[axis]] = [0.0, -0.0, 7.0, nan][kind % 4]
            worst = -inf if name == "max" else inf
            numbers = np.where(np.isnan(x), d(t).np(worst), x)
            best = np.max(numbers, axis) if name == "max" else np.min(numbers, axis)
            # -0 < +0
            zero = 0.0 if name == "max" else -0.0
            has = ((numbers == 0) & (np.signbit(numbers) == np.signbit(zero))).any(axis)
            best = np.where(best == 0, np.where(has, zero, -zero), best)
            best = np.where(np.isnan(x).all(axis), nan, best).astype(d(t).np)
            got = apply(dev, fn, [x], best.shape, d(t).np, (axis, False))
            assert np.array_equal(np.isnan(got), np.isnan(best)) and got[~np.isnan(best)].tobytes() == best[~np.isnan(best)].tobytes(), (kind, name, got, best)


@pytest.mark.parametrize("n", [128, 100, 3, 1, 0])
def test_extremes_under_masks(dev, n):
    x = rng("masked", n).standard_normal((32, 128)).astype(np.float32)
    x[3], x[4], x[5, ::2], x[6] = np.nan, -0.0, np.nan, np.where(np.arange(128) == n // 2, np.float32(0), np.float32(-0.0))
    high, low = np.zeros((2, 32), np.float32)
    dev(masked_extremes, (1,), x.reshape(-1), high, low, n, 32, 128)
    for got, ref, worst in ((high, np.fmax, -np.inf), (low, np.fmin, np.inf)):
        full = x.copy()
        full[:, n:] = worst
        best = ref.reduce(full, 1)
        assert np.array_equal(got, best, equal_nan=True), (got, best)
    if n:
        assert np.signbit(high[4]) == (n == 128 or n > 0) and not np.signbit(high[6])


@tegula.jit
def bounded(x, low, high, out, n, s, t, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    s, t = s.to(v.dtype), t.to(v.dtype)
    tl.store(low + i, tl.minimum(v, s), mask=i < n)
    tl.store(high + i, tl.maximum(t, v), mask=i < n)
    tl.store(out + i, tl.minimum(tl.maximum(v, s), t), mask=i < n)


SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-45, 5e-324, -5e-324, 6e-8, -6e-8, 3.0, 1e-38]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_bounds_of_the_launch(dev, dtype):
    """Each special value beside each as one number for all elements: what is not a number loses, and -0 is less than +0."""
    def least(a, b):
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))))

    x = np.tile(np.array(SPECIAL, np.float64).astype(dtype), 3)
    n = len(x)
    for s in SPECIAL:
        for t in (s, 1.0, -0.0, float("nan")):
            low, high, out = (np.zeros(n, dtype) for _ in range(3))
            dev(bounded, (1,), x, low, high, out, n, s, t, B=64)
            a, b = (np.float64(v).astype(np.float32).astype(dtype) for v in (s, t))
            want = least(x, a), -least(-x, -b), least(-least(-x, -a), b)
            for got, right in zip((low, high, out), want):
                assert np.array_equal(got, right, equal_nan=True) and np.array_equal(np.signbit(got) | np.isnan(got), np.signbit(right) | np.isnan(right)), (s, t)
