"""Addresses made of quotients and remainders: on CPUs rows that do not wrap around, and quotients that are one number for all lanes, are no gathers."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d, values

pytestmark = pytest.mark.section("3.3 memory")


@tegula.jit
def k_by_each(x, by, out, B: tl.constexpr, REMAINDER: tl.constexpr):
    o = tl.arange(0, B)
    n = tl.load(by + o)
    at = o % n if REMAINDER else o // n
    tl.store(out + o, tl.load(x + at))


@pytest.mark.parametrize("remainder", [False, True])
def test_divisors_that_differ(dev, remainder):
    """The first and the last of a vector say nothing of those in between."""
    x, by, out = np.arange(64, dtype=np.float32), np.full(64, 1000, np.int32), np.zeros(64, np.float32)
    by[[5, 23, 40]] = 3, 7, 1
    dev(k_by_each, (1, ), x, by, out, 64, remainder)
    o = np.arange(64)
    assert_same(out, x[o % by if remainder else o // by])


@tegula.jit
def k_by_one(x, out, n, count, B: tl.constexpr, REMAINDER: tl.constexpr, UNSIGNED: tl.constexpr):
    for s in range(0, count, B):
        o = s + tl.arange(0, B)
        v = tl.load(x + o)
        by = n
        if UNSIGNED:
            v, by = v.to(tl.uint32, bitcast=True), n.to(tl.uint32, bitcast=True)
        tl.store(out + o, (v % by if REMAINDER else v // by).to(tl.int32, bitcast=True))


@pytest.mark.parametrize("remainder", [False, True])
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("n", [2, 3, 7, -7, 10, 641, 65535, 65536, 2**30 + 1, 2**31 - 1, -(2**31), -3])
def test_numbers_by_one_divisor(dev, n, unsigned, remainder):
    """Multiples of the divisor, their neighbours and the ends of the range: CPUs multiply by a reciprocal (divideByOneNumber)."""
    rng = np.random.default_rng(abs(n) % 1000)
    near = (rng.integers(-(2**31) // abs(n), 2**31 // abs(n) + 1, 150)[:, None] * abs(n) + np.array([-1, 0, 1])).ravel()
    x = np.concatenate([near, rng.integers(-(2**31), 2**31, 54), [0, 1, -1, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, n]])
    x = ((x + 2**31) % 2**32 - 2**31).astype(np.int32)
    assert x.size == 512
    out = np.zeros(512, np.int32)
    dev(k_by_one, (1, ), x, out, n, 512, 128, remainder, unsigned)
    a, b = (x.astype(np.int64) % 2**32, n % 2**32) if unsigned else (x.astype(np.int64), n)
    q = abs(a) // abs(b) * np.sign(a) * np.sign(b)
    assert_same(out, ((a - q * b if remainder else q) % 2**32).astype(np.uint32).view(np.int32))


@tegula.jit
def k_quotient(x, out, first, n, count, B: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, B)
    o = first + i
    if HOW == "signed":
        at = o // n
    elif HOW == "unsigned":
        at = (o.to(tl.uint32, bitcast=True) // n.to(tl.uint32, bitcast=True)).to(tl.int32, bitcast=True)
    elif HOW == "constant":
        at = o // 48
    elif HOW == "shift":
        at = o >> 5
    elif HOW == "twice":
        at = (o * 3 + 1) // n + i
    else:
        at = o // n * 2 + o % n
    tl.store(out + i, tl.load(x + 64 + at, mask=i < count, other=-1.0) + tl.load(x + 65 + at, mask=i < count, other=-1.0), mask=i < count + 3)


@pytest.mark.parametrize("how", ["signed", "unsigned", "constant", "shift", "twice", "both"])
@pytest.mark.parametrize("first, n, count", [(0, 784, 256), (0, 784, 200), (700, 784, 256), (0, 7, 256), (0, 64, 130), (3, 64, 256), (0, 2, 60), (-200, 300, 256), (-100, 50, 250), (0, 100000, 256)])
def test_quotients(dev, how, first, n, count):
    if how == "unsigned" and first < 0:
        pytest.skip("far away")
    x, out = values(d("float32"), 1024, low=-9, high=9), np.full(256, 7, np.float32)
    i = np.arange(256)
    o = first + i
    towards_zero = lambda a, b: np.fix(a / b).astype(np.int64)
    at = {"signed": towards_zero(o, n), "unsigned": towards_zero(o, n), "constant": towards_zero(o, 48), "shift": o >> 5, "twice": towards_zero(o * 3 + 1, n) + i,
          "both": towards_zero(o, n) * 2 + np.fmod(o, n)}[how]
    if at[:count].min() < -64 or at[:count].max() > 900:
        pytest.skip("beyond the tensor")
    dev(k_quotient, (1, ), x, out, first, n, count, 256, how)
    clipped = np.clip(64 + at, 0, 1022)
    expected = np.where(i < count, x[clipped] + x[clipped + 1], np.where(i < count + 3, -2, 7)).astype(np.float32)
    assert_same(out, expected)


@tegula.jit
def k_far(x, out, first, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + 4 + (first + i) // n))


def test_dividends_that_wrap_around(dev):
    """From the largest integer to the smallest one: quotients 0 at both ends, and 1 in between."""
    x, out = np.arange(8, dtype=np.float32), np.zeros(16, np.float32)
    dev(k_far, (1, ), x, out, 2**31 - 4, 2**31 - 1, 16)
    o = (np.int64(2**31 - 4) + np.arange(16) + 2**31) % 2**32 - 2**31
    assert_same(out, x[4 + np.fix(o / (2**31 - 1)).astype(np.int64)])


@tegula.jit
def k_image(x, w, out, C, S, R: tl.constexpr, B: tl.constexpr):
    r, o = tl.arange(0, R)[:, None], tl.arange(0, B)[None, :]
    inside = o < C * S
    at = r * C * S + o
    tl.store(out + at, tl.load(x + at, mask=inside) * tl.load(w + o // S, mask=inside) + tl.load(w + r + o // S % C, mask=inside), mask=inside)


@pytest.mark.parametrize("C, S", [(3, 49), (8, 16), (2, 100), (1, 5), (16, 16)])
def test_channels_of_images(dev, C, S):
    x, w, out = values(d("float32"), 4 * C * S, low=-4, high=4), values(d("float32"), 32, low=-4, high=4), np.zeros(4 * C * S, np.float32)
    dev(k_image, (1, ), x, w, out, C, S, 4, 256)
    o, r = np.arange(C * S)[None, :], np.arange(4)[:, None]
    assert np.abs(out.reshape(4, -1) - (x.reshape(4, -1) * w[o // S] + w[r + o // S % C])).max() < 1e-5


@tegula.jit
def k_two_channels(x, out, count, C, S, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    at = o // S * C * S + o % S
    v = tl.load(x + at, mask=o < count) + 1
    tl.store(out + at, v, mask=o < count)
    tl.store(out + at + S, v, mask=o < count)


@pytest.mark.parametrize("C, S, B", [(3, 64, 64), (2, 1961, 64), (3, 100, 256), (3, 1024, 1024)])
def test_two_channels_from_one_quotient(dev, C, S, B):
    """The second store reads the quotient from a buffer, which the first one's nest fills: nothing may be asked of it before a trip."""
    x, out = np.arange(2 * C * S, dtype=np.float32), np.zeros(2 * C * S, np.float32)
    dev(k_two_channels, (tegula.cdiv(2 * S, B), ), x, out, 2 * S, C, S, B)
    x, out = x.reshape(2, C, S), out.reshape(2, C, S)
    assert_same(out[:, 0], x[:, 0] + 1)
    assert_same(out[:, 1], x[:, 0] + 1)


@tegula.jit
def k_permute(x, out, P, Q, R, D, count, B: tl.constexpr, TO: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    at, p, q, r = o % D, o // (D * R * Q), o // (D * R) % Q, o // D % R
    turned = ((p * R + r) * Q + q) * D + at
    if TO:
        tl.store(out + turned, tl.load(x + o, mask=o < count), mask=o < count)
    else:
        tl.store(out + o, tl.load(x + turned, mask=o < count), mask=o < count)


@pytest.mark.parametrize("to", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int16", "int8", "int64"])
@pytest.mark.parametrize("P, Q, R, D", [(2, 3, 5, 64), (1, 4, 3, 128), (2, 3, 4, 32), (3, 2, 5, 16), (2, 5, 3, 1), (2, 2, 3, 100), (1, 2, 2, 300), (4, 7, 3, 8)])
def test_axes_in_another_order(dev, P, Q, R, D, dtype, to):
    """Numbers that follow from several quotients are one for a trip, for each of its vectors, or for none."""
    count = P * Q * R * D
    x, out = values(d(dtype), count, low=-99, high=99), np.zeros(count + 16, d(dtype).np)
    dev(k_permute, (tegula.cdiv(count, 256), ), x, out, P, Q, R, D, count, 256, to)
    # The kernel's q and r are the places of an array of P, Q, R, D; the other one is of P, R, Q, D.
    turned = x.reshape(P, Q, R, D).transpose(0, 2, 1, 3) if to else x.reshape(P, R, Q, D).transpose(0, 2, 1, 3)
    assert_same(out[:count], np.ascontiguousarray(turned).ravel())
    assert (out[count:] == 0).all()


@tegula.jit
def k_repeat(x, y, out, first, n, count, B: tl.constexpr):
    i = tl.arange(0, B)
    o = first + i
    tl.store(out + i, tl.load(x + i, mask=i < count) + tl.load(y + 512 + o % n, mask=i < count), mask=i < count)


@pytest.mark.parametrize("first, n, count", [(0, 1000, 512), (0, 512, 512), (0, 511, 512), (3, 64, 500), (0, 1, 512), (-300, 200, 512), (-64, 512, 512), (-512, 400, 512), (5, 7, 130), (0, 128, 512)])
def test_rows_that_are_repeated(dev, first, n, count):
    x, y, out = values(d("float32"), 512, low=-9, high=9), values(d("float32"), 2048, low=-9, high=9), np.full(512, 3, np.float32)
    dev(k_repeat, (1, ), x, y, out, first, n, count, 512)
    want = out.copy()
    want[:count] = (x + y[512 + np.fmod(first + np.arange(512), n)])[:count]
    assert_same(out, np.where(np.arange(512) < count, want, 3).astype(np.float32))


@tegula.jit
def blocks_of_rows(index, x, out, row, stride, BLOCKS: tl.constexpr, SIZE: tl.constexpr):
    """A row of blocks that lie anywhere: each block's index stands for all of its elements."""
    at = tl.load(index + tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS))
    each = tl.reshape(tl.broadcast_to(at[:, None], (BLOCKS, SIZE)), (BLOCKS * SIZE, ))
    offsets = each * stride + row * SIZE + tl.arange(0, BLOCKS * SIZE) % SIZE
    v = tl.load(x + offsets, mask=each != -1, other=0)
    tl.store(out + tl.program_id(0) * BLOCKS * SIZE + tl.arange(0, BLOCKS * SIZE), v)
    tl.store(x + offsets, v + 1, mask=each != -1)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
@pytest.mark.parametrize("rows", [3, 16])
def test_blocks_by_index(dev, size, rows):
    n, blocks = 2, 16
    rng = np.random.default_rng(size)
    index = rng.permutation(40)[:n * blocks].astype(np.int32).reshape(n, blocks)
    index[rng.random(index.shape) < 0.3] = -1
    x = rng.standard_normal((40, rows, size)).astype(np.float32)
    out, want = np.empty((n, blocks, size), np.float32), np.where(index[..., None] < 0, 0, x[index, 2])
    after = x.copy()
    after[index[index >= 0], 2] += 1
    dev(blocks_of_rows, (n, ), index, x, out, 2, rows * size, blocks, size)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(x, after)
