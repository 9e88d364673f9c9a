"""Masks with lower bounds, and masks that end before their row: CPUs do rows by segments in which masks are known (src/targets/cpu/emit/EmitSegments.cpp)."""
import numpy as np
import pytest

import tegula
import tegula.language as tl
from harness import WRAPS, assert_same, d, values

pytestmark = pytest.mark.section("3.4 memory")
TYPES = ["float32", "float16", "int8", "int64"]


@tegula.jit
def concatenate(a, b, out, A, B, R, N: tl.constexpr, T: tl.constexpr):
    r = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    c = tl.arange(0, N)[None, :]
    on = (c < A + B) & (r < R)
    x = tl.load(a + r * A + c, on & (c < A), other=1)
    y = tl.load(b + r * B + (c - A), on & (c >= A), other=2)
    tl.store(out + r * (A + B) + c, tl.where(c < A, x, y), on)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("a, b", [(700, 324), (0, 100), (100, 0), (1, 1000), (1000, 3), (64, 64), (333, 444), (31, 33), (512, 512)])
@pytest.mark.parametrize("rows", [1, 4])
def test_concatenation(dev, t, a, b, rows):
    t, n = d(t), 5
    x, y = values(t, n * a + 1, 0)[:n * a].reshape(n, a), values(t, n * b + 1, 1)[:n * b].reshape(n, b)
    out = np.full(n * (a + b) + 8, 7, t.np)
    dev(concatenate, (-(-n // rows), ), x if a else np.zeros(1, t.np), y if b else np.zeros(1, t.np), out, a, b, n, 1024, rows)
    assert_same(out, np.concatenate([np.concatenate([x, y], 1).ravel(), np.full(8, 7, t.np)]))


@tegula.jit
def window(x, out, n, m, low, high, N: tl.constexpr, WIDE: tl.constexpr):
    """Elements low <= i + shift < high of a row, else -1; stored where i < m."""
    r = tl.program_id(0)
    i = tl.arange(0, N)
    k = (i.to(tl.int64) if WIDE else i) + r * 17 - 40
    on = (k >= low) & (k < high)
    v = tl.load(x + r * n + i, on & (i < n), other=-1)
    tl.store(out + r * m + i, v, i < m)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n, m, low, high", [(500, 500, 0, 300), (500, 512, 33, 420), (512, 400, -100, 1000), (300, 300, 200, 100), (300, 512, -5, 150), (77, 77, 12, 13), (512, 512, 400, 401), (200, 190, -(2**31), 2**31 - 1),
                                             (200, 190, 2**31 - 1, 2**31 - 1)])
def test_windows(dev, t, wide, n, m, low, high):
    t, rows = d(t), 9
    x = values(t, rows * n, 0).reshape(rows, n)
    out = np.full((rows + 1) * m, 7, t.np)
    dev(window, (rows, ), x, out, n, m, low, high, 512, wide)
    want = np.full((rows, m), -1, t.np)
    r, i = np.arange(rows)[:, None], np.arange(m)
    k = i + r * 17 - 40
    on = (k >= low) & (k < high) & (i < n)
    want[on] = np.pad(x, ((0, 0), (0, 512)))[:, :m][on]
    assert_same(out, np.concatenate([want.ravel(), np.full(m, 7, t.np)]))


@tegula.jit
def triangle(x, out, n, by, N: tl.constexpr, T: tl.constexpr, UPPER: tl.constexpr):
    r = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    c = tl.arange(0, N)[None, :]
    on = (r < n) & (c < n)
    side = c - r >= by if UPPER else c <= r + by
    tl.store(out + r * n + c, tl.load(x + r * n + c, on & side, other=0), on)


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("by", [0, -3, 40, 300, -300])
@pytest.mark.parametrize("rows", [1, 2])
def test_triangles(dev, t, upper, by, rows):
    t, n = d(t), 237
    x = values(t, n * n, 0).reshape(n, n)
    out = np.zeros_like(x)
    dev(triangle, (-(-n // rows), ), x, out, n, by, 256, rows, upper)
    assert_same(out, np.triu(x, by) if upper else np.tril(x, by))


@tegula.jit
def taps(x, w, out, n, K: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros([B], tl.int32)
    for k in tl.static_range(K):
        i = o + (k - K // 2)
        acc += tl.load(x + i, (i >= 0) & (i < n), other=0) * tl.load(w + k)
    tl.store(out + o, acc, o < n)


@pytest.mark.parametrize("n", [1, 5, 255, 256, 257, 700])
@pytest.mark.parametrize("k", [3, 7])
def test_taps(dev, n, k):
    rng = np.random.default_rng(n)
    x, w = rng.integers(-50, 50, n).astype(np.int32), rng.integers(-50, 50, k).astype(np.int32)
    out = np.zeros(n + 4, np.int32)
    dev(taps, (-(-n // 256), ), x, w, out, n, K=k, B=256)
    padded = np.pad(x, k // 2)
    assert_same(out, np.concatenate([sum(padded[j:j + n] * w[j] for j in range(k)), np.zeros(4, np.int32)]).astype(np.int32))


@tegula.jit
def reductions(x, sums, largest, running, n, low, high, N: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, N)
    on = (i >= low + r) & (i < high)
    v = tl.load(x + r * n + i, on & (i < n), other=0)
    tl.store(sums + r, tl.sum(v))
    tl.store(largest + r, tl.max(tl.where(on & (i < n), v, -1000)))
    tl.store(running + r * n + i, tl.cumsum(v), i < n)


@pytest.mark.parametrize("n, low, high", [(500, 100, 400), (512, 0, 512), (300, 290, 310), (300, 400, 500), (450, 33, 47), (200, -20, 600)])
@pytest.mark.parametrize("element", [np.int32, np.int64])
def test_reductions(dev, element, n, low, high):
    rows = 6
    x = np.random.default_rng(n).integers(-100, 100, (rows, n)).astype(element)
    sums, largest, running = np.zeros(rows, element), np.zeros(rows, element), np.zeros((rows, n), element)
    dev(reductions, (rows, ), x, sums, largest, running, n, low, high, 512)
    i = np.arange(n)
    on = (i >= low + np.arange(rows)[:, None]) & (i < high)
    v = np.where(on, x, 0)
    assert_same(sums, v.sum(1).astype(element))
    assert_same(largest, np.where(on, x, -1000).max(1).astype(element))
    assert_same(running, v.cumsum(1).astype(element))


@tegula.jit
def wrapping(x, out, first, low, N: tl.constexpr):
    i = tl.arange(0, N)
    k = first + i
    tl.store(out + i, tl.load(x + i, k >= low, other=-1))


@pytest.mark.parametrize("first, low", [pytest.param(2**31 - 100, 0, marks=WRAPS), pytest.param(2**31 - 100, 2**31 - 50, marks=WRAPS), (2**31 - 512, 2**31 - 200), (-(2**31), -(2**31) + 77), (-40, 2**31 - 1)])
def test_rows_that_wrap_around(dev, first, low):
    x, out = np.arange(512, dtype=np.int32), np.zeros(512, np.int32)
    dev(wrapping, (1, ), x, out, first, low, 512)
    k = (first + np.arange(512) + 2**31) % 2**32 - 2**31
    assert_same(out, np.where(k >= low, x, -1).astype(np.int32))
