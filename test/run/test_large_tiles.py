"""Tiles of so many elements a thread that GPU code does them in parts, by loops (gpu/parts/SplitTiles.h): the same results as ever."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close, rng

pytestmark = pytest.mark.section("3.7 reductions")
N = 1 << 14  # 512 elements a thread with one warp


@tegula.jit
def chain(x, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(out + i, tl.exp(tl.sin(v)) + tl.log(v * v + 1) / tl.sqrt(v + 2), mask=i < n)


@pytest.mark.parametrize("in_place", [False, True])
def test_elementwise(dev, in_place):
    n = 2 * N - 77
    x = rng("chain").random(n, np.float32) * 4
    out = x.copy() if in_place else np.zeros_like(x)
    dev(chain, (2,), out if in_place else x, out, n, N, num_warps=1)
    w = x.astype(np.float64)
    assert_close(out, np.exp(np.sin(w)) + np.log(w * w + 1) / np.sqrt(w + 2), 1e-5)


@tegula.jit
def divide(x, y, quotient, remainder, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(quotient + i, a // b)
    tl.store(remainder + i, a % b)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_integer_division(dev, dtype):
    r = rng("divide", np.dtype(dtype).name)
    x, y = r.integers(0 if dtype == np.uint8 else -2000, 200, N).astype(dtype), r.integers(1, 90, N).astype(dtype)
    q, m = np.zeros_like(x), np.zeros_like(x)
    dev(divide, (1,), x, y, q, m, N, num_warps=1)
    np.testing.assert_array_equal(q, np.trunc(x / y.astype(np.float64)).astype(dtype))
    np.testing.assert_array_equal(m, np.fmod(x, y))


@tegula.jit
def softmax(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@pytest.mark.parametrize("in_place", [False, True])
def test_softmax(dev, in_place):
    n = N - 333
    x = rng("softmax").standard_normal((2, n)).astype(np.float32) * 3
    out = x.copy() if in_place else np.zeros_like(x)
    dev(softmax, (2,), out if in_place else x, out, n, N, num_warps=1)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert_close(out, e / e.sum(1, keepdims=True), 1e-4)


@tegula.jit
def in_place_softmax(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i
    v = tl.load(p, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(p, e / tl.sum(e, 0), mask=i < n)


def test_one_pointer_is_read_and_written(dev):
    n = N - 5
    x = rng("in place").standard_normal(n).astype(np.float32)
    out = x.copy()
    dev(in_place_softmax, (1,), out, n, N, num_warps=1)
    e = np.exp(x.astype(np.float64) - x.max())
    assert_close(out, e / e.sum(), 1e-4)


@tegula.jit
def sum_of_range(out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.arange(0, N)))


def test_sum_of_a_range(dev):
    out = np.zeros(1, np.int32)
    dev(sum_of_range, (1,), out, 1 << 20, num_warps=4)
    assert out[0] == np.arange(1 << 20, dtype=np.int64).sum().astype(np.int32)


@tegula.jit
def first_of_largest(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    value, index = tl.max(v * v - v * 3 + v * v * v, 0, return_indices=True)
    tl.store(out, value)
    tl.store(out + 1, index)


# The combination takes two values and is not commutative where they are equal.
def test_index_of_the_maximum(dev):
    x = rng("argmax").integers(-9, 10, 4 * N).astype(np.int32)
    out = np.zeros(2, np.int32)
    dev(first_of_largest, (1,), x, out, 4 * N, num_warps=1)
    v = x * x - x * 3 + x * x * x
    assert out.tolist() == [v.max(), v.argmax()]


@tegula.jit
def rows_and_columns(x, by_row, by_column, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    v = tl.exp(v) * j[None, :] + tl.sin(v) * i[:, None]
    tl.store(by_row + i, tl.sum(v, 1))
    tl.store(by_column + j, tl.sum(v, 0))


@pytest.mark.parametrize("shape", [(256, 64), (64, 256), (8, 2048)])
def test_sums_along_both_axes(dev, shape):
    m, n = shape
    x = rng("sums", shape).random(shape, np.float32)
    by_row, by_column = np.zeros(m, np.float32), np.zeros(n, np.float32)
    dev(rows_and_columns, (1,), x, by_row, by_column, m, n, num_warps=1)
    w = x.astype(np.float64)
    w = np.exp(w) * np.arange(n) + np.sin(w) * np.arange(m)[:, None]
    assert_close(by_row, w.sum(1), 1e-4, 1e-2)
    assert_close(by_column, w.sum(0), 1e-4, 1e-2)


@tegula.jit
def layer_norm(x, w, b, out, n, eps, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(i < n, v - mean, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(out + i, d * r * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


# Three loops: mean, variance, the rest.
def test_layer_norm(dev):
    r, n = rng("norm"), N - 100
    x, w, b = r.standard_normal(n).astype(np.float16), r.random(n, np.float32), r.random(n, np.float32)
    out = np.zeros(n, np.float32)
    dev(layer_norm, (1,), x, w, b, out, n, 1e-5, N, num_warps=1)
    v = x.astype(np.float64)
    assert_close(out, (v - v.mean()) / np.sqrt(v.var() + 1e-5) * w + b, 1e-4, 1e-4)


@tegula.jit
def shift(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(x + (i + 1) % N, v // n + v % n * v)


# The store may not overtake a load of any part.
def test_stores_to_other_places_come_behind_all_loads(dev):
    x = rng("shift").integers(0, 1000, N).astype(np.int32)
    out = x.copy()
    dev(shift, (1,), out, 7, N, num_warps=1)
    np.testing.assert_array_equal(out, np.roll(x // 7 + x % 7 * x, 1))


@tegula.jit
def repeated(x, out, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    total = 0.0
    for k in range(steps):
        v = tl.load(x + k * N + i)
        e = tl.exp(v) * (k + 1) + tl.sin(v)
        total += tl.sum(e, 0)
        tl.store(out + k * N + i, e - total)


# Work inside a loop of the kernel; what is carried around it is the sum.
def test_inside_a_loop(dev):
    x = rng("repeated").random((3, N), np.float32)
    out = np.zeros_like(x)
    dev(repeated, (1,), x, out, 3, N, num_warps=1)
    w = x.astype(np.float64)
    e = np.exp(w) * np.arange(1, 4)[:, None] + np.sin(w)
    assert_close(out, e - np.cumsum(e.sum(1))[:, None], 1e-4)


@tegula.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    d = mean_b - mean_a
    r = tl.where(n == 0, 0.0, n_b / n)
    return mean_a + d * r, m2_a + m2_b + d * d * n_a * r, n


@tegula.jit
def variance(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    mean, m2, n = tl.reduce((v, tl.zeros_like(v), tl.full((N,), 1.0, tl.float32)), 0, welford)
    tl.store(out, mean)
    tl.store(out + 1, m2 / n)


def test_three_values_are_reduced(dev):
    x = rng("variance").standard_normal(N).astype(np.float32) + 3
    out = np.zeros(2, np.float32)
    dev(variance, (1,), x, out, N, num_warps=1)
    assert_close(out, [x.mean(), x.var()], 1e-4)


@tegula.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j[None, :])
    start = (i[:, None] - j[None, :]).to(tl.float32)
    tl.store(out + i[:, None] * N + j[None, :], tl.dot(x, y, start, input_precision=PRECISION))


@pytest.mark.parametrize("shape", [(16, 16, 1 << 14), (128, 128, 256), (64, 256, 256)])
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_dot_whose_operands_do_not_fit(dev, shape, precision):
    m, n, k = shape
    r = rng("product", m, n, k)
    a, b = (r.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    out = np.zeros((m, n), np.float32)
    dev(product, (1,), a, b, out, m, n, k, precision)
    np.testing.assert_array_equal(out, a @ b + np.arange(m)[:, None] - np.arange(n))


@tegula.jit
def two_stores(x, out, shift, READ: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, v // 7 + v % 11)
    if READ:
        v += tl.load(out + i + shift - 1)
    tl.store(out + i + shift, v // 5 - v % 13)


@pytest.mark.parametrize("shift", [0, 1, 100, 4096, N])
@pytest.mark.parametrize("read", [False, True])
def test_two_stores_that_overlap(dev, shift, read):
    """The second one is the last for what both write, and what is read between them is what the first one wrote."""
    x = rng("two stores", shift).integers(0, 1 << 20, N).astype(np.int32)
    out = np.zeros(2 * N + 1, np.int32)
    want = out.copy()
    dev(two_stores, (1,), x, out[1:], shift, read, N, num_warps=1)
    want[1:N + 1] = x // 7 + x % 11
    v = x + (want[shift:shift + N] if read else 0)
    want[1 + shift:1 + shift + N] = v // 5 - np.fmod(v, 13)
    np.testing.assert_array_equal(out, want)


@tegula.jit
def rotate(x, out, cos, sin, heads, PAIRS: tl.constexpr, H: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    h, m, k = tl.arange(0, H), tl.arange(0, M), tl.arange(0, K // 2)
    place = h[:, None, None] * (M * K) + m[None, :, None] * K
    mask = h[:, None, None] < heads
    c, s = tl.load(cos + m[:, None] * (K // 2) + k[None, :]), tl.load(sin + m[:, None] * (K // 2) + k[None, :])
    if PAIRS:
        places = place + tl.arange(0, K)[None, None, :]
        a, b = tl.split(tl.reshape(tl.load(x + places, mask=mask, other=0.0), [H, M, K // 2, 2]))
        tl.store(out + places, tl.reshape(tl.join(a * c - b * s, a * s + b * c), [H, M, K]), mask=mask)
    else:
        a = tl.load(x + place + k[None, None, :], mask=mask, other=0.0)
        b = tl.load(x + place + k[None, None, :] + K // 2, mask=mask, other=0.0)
        tl.store(out + place + k[None, None, :], a * c - b * s, mask=mask)
        tl.store(out + place + k[None, None, :] + K // 2, a * s + b * c, mask=mask)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
def test_rotary(dev, pairs, in_place):
    H, M, K = 16, 32, 32
    r = rng("rotary", pairs)
    x, cos, sin = (r.integers(-8, 8, s).astype(np.float32) for s in ((H, M, K), (M, K // 2), (M, K // 2)))
    out = x.copy() if in_place else np.zeros_like(x)
    dev(rotate, (1,), out if in_place else x, out, cos, sin, H - 3, pairs, H, M, K, num_warps=1)
    a, b = (x[..., 0::2], x[..., 1::2]) if pairs else (x[..., :K // 2], x[..., K // 2:])
    want = x.copy() if in_place else np.zeros_like(x)
    p, q = (want[..., 0::2], want[..., 1::2]) if pairs else (want[..., :K // 2], want[..., K // 2:])
    p[:-3], q[:-3] = (a * cos - b * sin)[:-3], (a * sin + b * cos)[:-3]
    np.testing.assert_array_equal(out, want)
