"""§3.4 integers wrap, in offsets: masks let the wrapped number pass, and that one is accessed."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import WRAPS, assert_same

pytestmark = pytest.mark.section("3.4 arithmetic")

N = 100
FACTORS = [3, 1 << 30, (1 << 31) - 1, -(1 << 31), 3 << 29, (1 << 30) + 1, -(1 << 30) + 2, 0x55555555, 7]


def int32(x):
    return np.asarray(x, np.int64).astype(np.int32)


def inside(p):
    return (p >= 0) & (p < N)


def loaded(x, p):
    return np.where(inside(p), x[np.where(inside(p), p, 0)], np.float32(-1))


@tegula.jit
def products(x, out, factor, n):
    i = tl.arange(0, 256)
    p = i * factor
    tl.store(out + i, tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0))


@WRAPS
def test_products_with_an_argument(dev):
    """One launch after the other, so that those with small factors must not take the code of those with large ones for granted, nor the other way round."""
    x = np.arange(N, dtype=np.float32)
    for factor in FACTORS:
        out = np.zeros(256, np.float32)
        dev(products, (1,), x, out, factor, N)
        assert_same(out, loaded(x, int32(np.arange(256) * factor)))


@tegula.jit
def two_axes(x, out, s, t, n):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 32)[None, :]
    p = (i + tl.program_id(0)) * s + j * t + 3
    y = tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0)
    tl.store(out + (tl.program_id(0) * 16 + i) * 32 + j, y)


@WRAPS
def test_sums_of_products(dev):
    """What each of two products is far from wrapping around, their sum may be back in the tensor."""
    x = np.arange(N, dtype=np.float32)
    i, j = np.arange(17)[:, None], np.arange(32)[None, :]
    for s, t in [(1 << 28, 1 << 28), (1, 1 << 27), (1 << 30, 1), (-(1 << 28), 3 << 27), (32, 1)]:
        out = np.zeros((32, 32), np.float32)
        dev(two_axes, (2,), x, out, s, t, N)
        expected = loaded(x, int32(i * s + j * t + 3))
        assert_same(out, np.concatenate([expected[:16], expected[1:]]))


@tegula.jit
def shared_factor(x, out, s, n):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    p, q = i * s + i * 64 + j, i * s + j
    y = tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0)
    tl.store(out + i * 16 + j, y + 128 * tl.load(x + q, mask=(q >= 0) & (q < n), other=-1.0))


def test_a_factor_alone_and_in_a_sum(dev):
    """What has been made of the one, s + 64, is not what the other one needs."""
    x, out = np.arange(N, dtype=np.float32), np.zeros((16, 16), np.float32)
    dev(shared_factor, (1,), x, out, 3, N)
    i, j = np.arange(16)[:, None], np.arange(16)[None, :]
    assert_same(out, loaded(x, i * 67 + j) + 128 * loaded(x, i * 3 + j))


@tegula.jit
def doubled(x, out, factor, n, times: tl.constexpr):
    i = tl.arange(0, 256)
    p = i * factor
    q = i
    for _ in tl.static_range(times):
        p = p + p
        q = q + q
    y = tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0)
    tl.store(out + i, y + 128 * tl.load(x + q, mask=(q >= 0) & (q < n), other=-1.0))


@WRAPS
@pytest.mark.parametrize("times", [2, 24, 31, 32, 62])
def test_doubled_until_nothing_is_left(dev, times):
    """It takes no longer to compile each time, and no coefficient overflows."""
    x, i = np.arange(N, dtype=np.float32), np.arange(256)
    for factor in (5, 1 << 30):
        out = np.zeros(256, np.float32)
        dev(doubled, (1,), x, out, factor, N, times)
        p, q = int32(i * factor * 2 ** min(times, 32) % (1 << 32)), int32(i * 2 ** min(times, 32) % (1 << 32))
        assert_same(out, loaded(x, p) + 128 * loaded(x, q))


@tegula.jit
def sums_of_sums(x, index, out, n, times: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, 128)
    p = tl.load(index + i)
    q = tl.load(index + 128 + i) * 3 + 2 * i + n
    if WIDE:
        p = p.to(tl.int64)
        q = q.to(tl.int64)
    first = p + q
    for _ in tl.static_range(times):
        p, q = q, p + q
    last = q - first - first - p
    r = p & 63
    y = tl.load(x + (q - last - first - first - p) * 4 + r, mask=r < n, other=-1.0)
    tl.store(out + i, y)
    tl.store(out + 128 + i, (last & 0xffff).to(tl.float32))


@pytest.mark.parametrize("times, wide", [(3, False), (40, False), (3, True), (40, True)])
def test_sums_of_sums_of_what_is_loaded(dev, times, wide):
    x, index = np.arange(N, dtype=np.float32), np.random.default_rng(times).integers(-(1 << 24), 1 << 24, (2, 128)).astype(np.int32)
    i, out = np.arange(128), np.zeros((2, 128), np.float32)
    dev(sums_of_sums, (1,), x, index, out, N, times, wide)
    p, q = (v.astype(object) for v in (index[0], index[1] * 3 + 2 * i + N))
    first = p + q
    for _ in range(times):
        p, q = q, p + q
    assert_same(out, np.stack([x[(p & 63).astype(np.int64)], ((q - 2 * first - p) & 0xffff).astype(np.float32)]))


@tegula.jit
def by_counter(x, out, first, n):
    i = tl.arange(0, 256)
    acc = tl.zeros([256], tl.float32)
    for k in range(first, first + 3):
        p = i * k
        acc += tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0)
    tl.store(out + i, acc)


@WRAPS
def test_products_with_a_counter(dev):
    x = np.arange(N, dtype=np.float32)
    for first in (3, 1 << 30, (1 << 29) - 1, 5):
        out = np.zeros(256, np.float32)
        dev(by_counter, (1,), x, out, first, N)
        assert_same(out, sum(loaded(x, int32(np.arange(256) * k)) for k in range(first, first + 3)))


@tegula.jit
def stores(out, factor, n):
    i = tl.arange(0, 16)[:, None] + 0 * tl.arange(0, 16)[None, :]
    p = i * factor + tl.arange(0, 16)[None, :]
    tl.store(out + p, 1.0, mask=(p >= 0) & (p < n))


@WRAPS
def test_stores(dev):
    for factor in FACTORS:
        out, expected = np.zeros(N, np.float32), np.zeros(N, np.float32)
        dev(stores, (1,), out, factor, N)
        p = int32(np.arange(16)[:, None] * factor + np.arange(16)[None, :])
        expected[p[inside(p)]] = 1
        assert_same(out, expected)


@tegula.jit
def from_memory(x, index, out, stride, base, n):
    i, j = tl.arange(0, 16), tl.arange(0, 16)
    p = tl.load(index + i)[:, None] * stride + base + tl.load(index + 15 - i)[:, None] + j[None, :]
    tl.store(out + i[:, None] * 16 + j[None, :], tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0))


@WRAPS
def test_indices_from_memory(dev):
    x = np.arange(N, dtype=np.float32)
    index = int32(np.resize([1 << 30, -(1 << 30), 5, -3, (1 << 31) - 1, -(1 << 31), 1 << 29, 0x12345678], 16))
    for stride in (2, 4, 16, 1 << 30, 0x7FFFFFF1):
        for base in (0, -(1 << 30), (1 << 31) - 20):
            out = np.zeros((16, 16), np.float32)
            dev(from_memory, (1,), x, index, out, stride, base, N)
            rows = index.astype(np.int64)[:, None] * stride + base + index[::-1].astype(np.int64)[:, None]
            assert_same(out, loaded(x, int32(rows + np.arange(16)[None, :])))


@tegula.jit
def remainders(x, out, rows, stride, base, n):
    i, j = tl.arange(0, 16), tl.arange(0, 16)
    p = ((i % rows) * stride)[:, None] + base + j[None, :]
    tl.store(out + i[:, None] * 16 + j[None, :], tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0))


@WRAPS
def test_remainders_times_an_argument(dev):
    x = np.arange(N, dtype=np.float32)
    for rows in (16, 5):
        for stride, base in [(6, 0), (1 << 30, 1), (3 << 29, -(1 << 30)), ((1 << 31) - 1, 7)]:
            out = np.zeros((16, 16), np.float32)
            dev(remainders, (1,), x, out, rows, stride, base, N)
            assert_same(out, loaded(x, int32(np.arange(16)[:, None] % rows * stride + base + np.arange(16)[None, :])))


@tegula.jit
def remainders_twice(x, out, by, factor: tl.constexpr, n):
    i = tl.arange(0, 256)
    r, q = i % by, i // by
    p = r * factor + q
    tl.store(out + i, tl.load(x + r + q) + tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0))


@WRAPS
def test_remainders_by_two_scales(dev):
    """That one access may take a remainder for linear says nothing about another one, which multiplies it by more."""
    x, i = np.arange(300, dtype=np.float32), np.arange(256)
    for by in (37, 300):
        for factor in (3, 1 << 28, (1 << 29) + 1):
            out = np.zeros(256, np.float32)
            dev(remainders_twice, (1,), x, out, by, factor, N)
            assert_same(out, x[i % by + i // by] + loaded(x, int32(i % by * factor + i // by)))


@tegula.jit
def signed_remainders(x, out, base, by, n):
    i = tl.arange(0, 256)
    p = (i + base) % by
    tl.store(out + i, tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0))


@tegula.jit
def unsigned_remainders(x, out, base, by, n):
    i = tl.arange(0, 256)
    p = ((i + base).to(tl.uint32) % by.to(tl.uint32)).to(tl.int32)
    tl.store(out + i, tl.load(x + p, mask=(p >= 0) & (p < n), other=-1.0))


@WRAPS
def test_remainders_of_what_wraps_around(dev):
    """The last one of a vector is as far from the first one as if nothing had wrapped around: modulo 2^32."""
    x, i = np.arange(N, dtype=np.float32), np.arange(256)
    for base, by in [(0, 300), (-50, 37), ((1 << 31) - 100, -(1 << 31)), ((1 << 31) - 100, (1 << 31) - 1), (-(1 << 31), (1 << 31) - 1)]:
        out = np.zeros(256, np.float32)
        dev(signed_remainders, (1,), x, out, base, by, N)
        assert_same(out, loaded(x, int32(np.fmod(int32(i + base).astype(np.int64), by))))
    for base, by in [(0, 37), (-6, -5), (-4, -3), (-100, -90), ((1 << 31) - 100, -(1 << 31))]:
        out = np.zeros(256, np.float32)
        dev(unsigned_remainders, (1,), x, out, base, by, N)
        assert_same(out, loaded(x, int32(((i + base) % (1 << 32)) % (by % (1 << 32)))))


@tegula.jit
def product(a, b, out, stride, n):
    i, k = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    p = i * stride + k
    x = tl.load(a + p, mask=(p >= 0) & (p < n), other=0.0)
    y = tl.load(b + tl.arange(0, 16)[:, None] * 16 + k)
    tl.store(out + i * 16 + k, tl.dot(x, y))


@WRAPS
def test_operand_of_a_product(dev):
    a, b = (np.arange(N) % 7).astype(np.float32), (np.arange(256) % 5).astype(np.float32).reshape(16, 16)
    for stride in (6, 1 << 30, (1 << 30) + 3):
        out = np.zeros((16, 16), np.float32)
        dev(product, (1,), a, b, out, stride, N)
        p = int32(np.arange(16)[:, None] * stride + np.arange(16)[None, :])
        assert_same(out, np.where(inside(p), a[np.where(inside(p), p, 0)], 0) @ b)


def test_kernels_and_bound_launches_refuse_what_their_code_does_not_do():
    """They cannot take other code. One that was bound to a large factor has code for all of them."""
    x, out = np.arange(N, dtype=np.float32), np.zeros(256, np.float32)
    kernel = products[(1,)](x, out, 48, N, device="cpu")
    bound, large = (products.bind(x, out, factor, N, grid=(1,), device="cpu") for factor in (48, 1 << 30))
    for launch in (kernel[(1, 1, 1)], bound):
        launch(x, out, 64, N)
        assert_same(out, loaded(x, int32(np.arange(256) * 64)))
        with pytest.raises(ValueError, match="large strides"):
            launch(x, out, 1 << 30, N)
    for factor in (48, 1 << 30):
        large(x, out, factor, N)
        assert_same(out, loaded(x, int32(np.arange(256) * factor)))
