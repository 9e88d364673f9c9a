"""§3.4 integers wrap: results beyond the range of their type, where they are used in a wider one or joined with other operations."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import WRAPS, assert_same

pytestmark = pytest.mark.section("3.4 arithmetic")


def edges(dtype, n):
    info = np.iinfo(dtype)
    return np.resize(np.array([info.min, info.min + 1, -1, 0, 1, info.max], dtype), n)


@tegula.jit
def widen(x, absolute, negated, is_negative, shifted):
    i = tl.arange(0, 8)
    a = tl.abs(tl.load(x + i))
    tl.store(absolute + i, a.to(tl.int64))
    tl.store(negated + i, (-tl.load(x + i)).to(tl.int64))
    tl.store(is_negative + i, (a < 0).to(tl.int8))
    tl.store(shifted + i, (a >> 3).to(tl.int64))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_magnitude_and_negation_of_the_smallest_value(dev, dtype):
    x = edges(dtype, 8)
    absolute, negated, shifted, is_negative = *(np.zeros(8, np.int64) for _ in range(3)), np.zeros(8, np.int8)
    dev(widen, (1,), x, absolute, negated, is_negative, shifted)
    assert_same(absolute, np.abs(x).astype(np.int64))
    assert_same(negated, (-x).astype(np.int64))
    assert_same(is_negative, (np.abs(x) < 0).astype(np.int8))
    assert_same(shifted, (np.abs(x) >> 3).astype(np.int64))


@tegula.jit
def abs_times(x, out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.abs(tl.load(x + i)) * tl.full([8], 1, tl.int32))


def test_magnitude_of_int16_as_an_int32_factor(dev):
    x, out = edges("int16", 8), np.zeros(8, np.int32)
    dev(abs_times, (1,), x, out)
    assert_same(out, np.abs(x).astype(np.int32))


@tegula.jit
def high_minus(x, y, z, out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.umulhi(tl.load(x + i), tl.load(y + i)) - tl.load(z + i).to(tl.int64))


@tegula.jit
def high_of_high(x, out):
    i = tl.arange(0, 16)
    small = tl.umulhi(i, tl.where(tl.load(x + i), 0, 1)) + 1
    tl.store(out + tl.arange(0, 4)[:, None] * 16 + i[None, :], tl.umulhi(small[None, :], tl.arange(0, 4)[:, None]))


def test_high_product_known_to_be_zero(dev):
    out = np.full(64, 77, np.int32)
    dev(high_of_high, (1,), np.arange(16) % 3 == 0, out)
    assert not out.any()


@tegula.jit
def high_sum(x, y, out, rounds):
    i = tl.arange(0, 8)
    total = tl.load(x + i)
    high = total
    for _ in tl.static_range(4):
        total = total + tl.umulhi(high, tl.load(y + i))
    while rounds > 0:
        rounds -= 1
        total += tl.umulhi(high, high)
    tl.store(out + i, total)


def high(x, y):
    bits = 8 * x.itemsize
    mask = (1 << bits) - 1
    return np.array([((int(a) & mask) * (int(b) & mask)) >> bits for a, b in zip(x, y)], np.uint64).astype(f"uint{bits}").view(x.dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_high_product_and_additions(dev, dtype):
    x, y, z = edges(dtype, 8), np.full(8, 3, dtype), np.zeros(8, np.float64)
    wide, out = np.zeros(8, np.int64), np.zeros(8, dtype)
    dev(high_minus, (1,), x, y, z, wide)
    unsigned = high(x, y).view(f"u{dtype}")
    assert_same(wide, (high(x, y) if dtype == "int64" else unsigned).astype(np.int64))
    dev(high_sum, (1,), x, y, out, 4)
    four = np.array(4, dtype)
    assert_same(out, x + high(x, y) * four + high(x, x) * four)


@tegula.jit
def smaller(a, b):
    return a if a < b else b


@tegula.jit
def larger(a, b):
    return a if a > b else b


@tegula.jit
def extremes(x, low, up, N: tl.constexpr):
    i = tl.arange(0, N)[:, None, None]
    t = tl.load(x + i + tl.full([1, 4, 8], 0, tl.int32))
    j = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(low + j, tl.reduce(-t, 0, smaller))
    tl.store(up + j, tl.reduce(-t, 0, larger))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_extremes_of_negated_values(dev, dtype):
    x = np.array([3, -8, 7, 2, 8, -1, 5, 0, 6, -3, 1, 4, -2, -7, -5, -6], dtype) + np.array(1, dtype)
    low, up = np.zeros(32, dtype), np.zeros(32, dtype)
    dev(extremes, (1,), x, low, up, 16)
    assert_same(low, np.full(32, (-x).min(), dtype))
    assert_same(up, np.full(32, (-x).max(), dtype))


@tegula.jit
def k_high_times_constant(x, out, n, C: tl.constexpr):
    i = n
    while i > 0:
        i = i - 1
        tl.store(out, tl.umulhi(tl.load(x), n) * C)


@pytest.mark.parametrize("x, n, c", [(539, 3, 3), (-2, 3, 3), (2**31 - 1, 7, 5), (-1, 2, 3)])
def test_high_half_of_a_product_times_a_constant(dev, x, n, c):
    out = np.zeros(1, np.int32)
    dev(k_high_times_constant, (1, ), np.array([x], np.int32), out, n, c)
    assert out[0] == ((x % 2**32) * n >> 32) * c


@tegula.jit
def k_between(x, out, first, low, high, R: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    at = first + tl.arange(0, R)[:, None] * 3 + tl.arange(0, C)[None, :]
    if HOW == "from":
        mask = at >= low
    elif HOW == "beyond":
        mask = (low < at) & (at < high)
    else:
        mask = (low <= at.to(tl.int64)) & (at < high)
    tl.store(out + i, tl.load(x + i, mask=mask, other=0.0) + 1.0)


@pytest.mark.parametrize("how", ["from", "beyond", "wide"])
@pytest.mark.parametrize("first, low, high", [(0, 0, 500), (-1, 0, 64), (-70, 0, 1000), (-1000, 0, 5), pytest.param(2**31 - 40, 0, 2**31 - 1, marks=WRAPS), (2**31 - 256 - 45, 7, 2**31 - 1), (2**31 - 256 - 46, 7, 2**31 - 1), (5, -2**31, 2**31 - 1)])
def test_lower_bounds_of_indices(dev, how, first, low, high):
    """Rows that begin inside of their lower bound stay there, unless they wrap around."""
    x = np.arange(16 * 256, dtype=np.float32).reshape(16, 256) + 1
    out = np.zeros_like(x)
    dev(k_between, (1,), x.reshape(-1), out.reshape(-1), first, low, high, 16, 256, how)
    with np.errstate(over="ignore"):
        at = np.int32(first) + np.arange(16, dtype=np.int32)[:, None] * np.int32(3) + np.arange(256, dtype=np.int32)
    mask = (at > low if how == "beyond" else at >= low) & ((at < high) | (how == "from"))
    assert_same(out, np.where(mask, x, 0) + np.float32(1))
