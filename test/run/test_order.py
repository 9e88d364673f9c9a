"""§3.3 what a tile reads from memory it reads where it is loaded: scalars taken out of tiles, barriers, stores over what was loaded."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same

pytestmark = pytest.mark.section("3.3 memory")


@tegula.jit
def k_split_then_store(x, out):
    p, q = tl.split(tl.load(x + tl.arange(0, 2)))
    tl.store(x + tl.arange(0, 2), 0)
    tl.store(out, p + q)


@tegula.jit
def k_split_of_used(x, out):
    v = tl.load(x + tl.arange(0, 2))
    p, q = tl.split(v)
    tl.store(x + tl.arange(0, 2), v + 1)
    tl.store(out, p + q)


@tegula.jit
def k_split_barrier(x, out):
    v = tl.load(x + tl.arange(0, 2))
    p, q = tl.split(v)
    tl.debug_barrier()
    tl.store(out + tl.arange(0, 2), v)
    tl.store(out, p + q)


@tegula.jit
def k_split_after_store(x, out):
    """The scalars come from tiles that were loaded before the store, and are taken out after it."""
    v = tl.load(x + tl.arange(0, 2))
    tl.store(x + tl.arange(0, 2), v * 0)
    p, q = tl.split(v)
    tl.store(out, p + q)


@tegula.jit
def k_split_of_stored(x, out):
    """A load behind the store sees what was stored."""
    tl.store(x + tl.arange(0, 2), tl.load(x + tl.arange(0, 2)) * 3)
    p, q = tl.split(tl.load(x + tl.arange(0, 2)))
    tl.store(out, (p + q) // 3)


@tegula.jit
def k_split_of_reduced(x, out):
    """The tile of two is the result of a reduction that other reductions join."""
    v = tl.load(x + tl.arange(0, 2)[:, None] + tl.arange(0, 8)[None, :] * 0)
    s = tl.max(v, 1)
    p, q = tl.split(s)
    tl.store(x + tl.arange(0, 2), tl.sum(v, 1))
    tl.store(out, p + q)


@tegula.jit
def k_split_of_scanned(x, out):
    v = tl.cumsum(tl.load(x + tl.arange(0, 2)), 0)
    p, q = tl.split(v)
    tl.store(x + tl.arange(0, 2), v)
    tl.store(out, q + p * 0)


@tegula.jit
def k_split_of_dear(x, out):
    """Dear enough for a buffer: a division that two others need."""
    v = tl.load(x + tl.arange(0, 2)) * 7 // 7
    p, q = tl.split(v)
    tl.store(x + tl.arange(0, 2), v)
    tl.store(out + 1 + tl.arange(0, 2), tl.flip(v, 0))
    tl.store(out, p + q)


@tegula.jit
def k_split_of_joined(x, out):
    a = tl.load(x)
    b = tl.load(x + 1)
    p, q = tl.split(tl.join(b, a))
    tl.store(x, p)
    tl.store(x + 1, q)
    tl.store(out, p + q)


@tegula.jit
def k_split_of_four(x, out):
    v = tl.load(x + (tl.arange(0, 4) & 1))
    p, q = tl.split(tl.reshape(v, [2, 2]))
    a, b = tl.split(q)
    c, d = tl.split(p)
    tl.store(x + tl.arange(0, 2), p * 5 + q)
    tl.store(out, a * 2 - c + b * 0 + d * 0)


@tegula.jit
def k_item(x, out):
    """Tiles of one element."""
    v = tl.load(x + tl.arange(0, 1))
    w = tl.load(x + 1 + tl.arange(0, 1))
    tl.store(x + tl.arange(0, 1), v + w)
    tl.debug_barrier()
    tl.store(out, v.item() + w.item())


@tegula.jit
def k_branch(x, out):
    """A scalar of a tile decides a branch and bounds a loop."""
    v = tl.load(x + tl.arange(0, 2))
    p, q = tl.split(v)
    tl.store(x + tl.arange(0, 2), v * 0)
    s = p * 0
    for i in range(q):
        s += 1
    if p > 0:
        s += p
    tl.store(out, s)


@tegula.jit
def k_in_loop(x, out):
    """Scalars of a carried tile that is updated in place."""
    c = tl.load(x + tl.arange(0, 2))
    s = tl.sum(c, 0) * 0
    n = 3
    while n > 0:
        p, q = tl.split(c)
        c = tl.flip(c, 0)
        s += p
        n -= 1
    a, b = tl.split(c)
    tl.store(out, s - a + b * 0)


KERNELS = [k_split_then_store, k_split_of_used, k_split_barrier, k_split_after_store, k_split_of_stored, k_split_of_reduced, k_split_of_scanned,
           k_split_of_dear, k_split_of_joined, k_item, k_branch]


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("t", ["int16", "int32", "int64"])
def test_scalars_of_a_tile(dev, k, t):
    """Every kernel leaves x[0] + x[1] in out[0]; several launches, as what scratch memory held before must not matter."""
    for i in range(3):
        x = np.array([i + 1, 10], t)
        out = np.zeros(4, t)
        dev(k, (1,), x, out)
        assert out[0] == i + 11


@pytest.mark.parametrize("t", ["int32", "float32"])
def test_scalars_of_four(dev, t):
    for i in range(3):
        x = np.array([i + 1, 10], t)
        out = np.zeros(4, t)
        dev(k_split_of_four, (1,), x, out)
        assert out[0] == 20 - (i + 1)
        assert_same(x, np.array([5 * (i + 1) + 10] * 2, t))


@pytest.mark.parametrize("t", ["int32", "float32"])
def test_scalars_of_a_carried_tile(dev, t):
    for i in range(3):
        x = np.array([i + 1, 10], t)
        out = np.zeros(4, t)
        dev(k_in_loop, (1,), x, out)
        assert out[0] == (i + 1) + 10 + (i + 1) - 10


# Stores over what was loaded, where a place of the tile needs what other places hold, on some of its ways only ------------------------


@tegula.jit
def rows(x, stride, N: tl.constexpr):
    return x + tl.arange(0, N)[:, None] * stride + tl.arange(0, N)[None, :]


@tegula.jit
def k_sum_with_turned(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.store(p, tl.trans(v) + v)


@tegula.jit
def k_turned_on_one_arm(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    odd = (tl.arange(0, N)[:, None] + tl.arange(0, N)[None, :]) & 1
    tl.store(p, tl.where(odd == 1, v, tl.trans(v) + 1))


@tegula.jit
def k_under_turned_mask(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.store(p, v + 1, mask=tl.trans(v) > 40)


@tegula.jit
def k_with_turned_around(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.store(p, v - tl.flip(v, 0))


@tegula.jit
def k_masked_and_turned(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p, mask=tl.arange(0, N)[None, :] < N - 3, other=7)
    tl.store(p, v + tl.trans(v), mask=tl.arange(0, N)[:, None] < N - 1)


@tegula.jit
def k_other_of_a_load(x, stride, N: tl.constexpr):
    """What a masked load of other elements falls back to is turned."""
    p = rows(x, stride, N)
    v = tl.load(p)
    w = tl.load(p + N * stride, mask=v > 40, other=tl.trans(v))
    tl.store(p, v + w)


@tegula.jit
def k_index_of_a_load(x, stride, N: tl.constexpr):
    """A gather behind the tile, by the tile and by the turned tile."""
    p = rows(x, stride, N)
    v = tl.load(p)
    i = v.to(tl.int32) & 3
    tl.store(p, v + tl.load(x + N * stride + i) + tl.load(x + N * stride + tl.trans(i)))


@tegula.jit
def k_with_gathered(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.store(p, v + tl.gather(v, tl.zeros([N, N], tl.int32) + (N - 1 - tl.arange(0, N)[None, :]), 1))


@tegula.jit
def k_with_scanned(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.store(p, v + tl.cumsum(tl.trans(v), 0))


@tegula.jit
def k_with_reduced(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.store(p, v - tl.max(v, 0)[None, :] + tl.min(v, 1)[None, :])


@tegula.jit
def k_halves_exchanged(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v, w = tl.load(p), tl.load(p + N * stride)
    tl.store(p, tl.trans(w) + v)
    tl.store(p + N * stride, v)


@tegula.jit
def k_rounds(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    for _ in range(3):
        v = tl.load(p)
        tl.store(p, v + tl.trans(v) * 2)


@tegula.jit
def k_added_atomically(x, stride, N: tl.constexpr):
    p = rows(x, stride, N)
    v = tl.load(p)
    tl.atomic_add(p, tl.trans(v))


def turned_over(v, below, n):
    """(what each kernel leaves where the tile v lies, and where the one below it lies), by name."""
    odd = (np.arange(n)[:, None] + np.arange(n)[None, :]) & 1
    inside = np.arange(n) < n - 3
    m = np.where(inside[None, :], v, v.dtype.type(7))
    i = v.astype(np.int32) & 3
    r = v
    for _ in range(3):
        r = r + r.T * 2
    return {
        "k_sum_with_turned": (v + v.T, below),
        "k_turned_on_one_arm": (np.where(odd, v, v.T + 1), below),
        "k_under_turned_mask": (np.where(v.T > 40, v + 1, v), below),
        "k_with_turned_around": (v - v[::-1], below),
        "k_masked_and_turned": (np.where(np.arange(n)[:, None] < n - 1, m + m.T, v), below),
        "k_other_of_a_load": (v + np.where(v > 40, below, v.T), below),
        "k_index_of_a_load": (v + below[0][i] + below[0][i.T], below),
        "k_with_gathered": (v + v[:, ::-1], below),
        "k_with_scanned": (v + np.cumsum(v.T, 0, dtype=v.dtype), below),
        "k_with_reduced": (v - v.max(0)[None, :] + v.min(1)[None, :], below),
        "k_halves_exchanged": (below.T + v, v),
        "k_rounds": (r, below),
        "k_added_atomically": (v + v.T, below),
    }


IN_PLACE = [k_sum_with_turned, k_turned_on_one_arm, k_under_turned_mask, k_with_turned_around, k_masked_and_turned, k_other_of_a_load,
            k_index_of_a_load, k_with_gathered, k_with_scanned, k_with_reduced, k_halves_exchanged, k_rounds, k_added_atomically]


@pytest.mark.parametrize("k", IN_PLACE, ids=lambda k: k.__name__)
@pytest.mark.parametrize("t", ["int32", "float32", "int64"])
@pytest.mark.parametrize("n", [4, 32])
def test_in_place(dev, k, t, n):
    stride = n + 5
    x = np.random.default_rng(n).integers(0, 100, (2 * n, stride)).astype(t)
    expected = x.copy()
    top, bottom = turned_over(x[:n, :n], x[n:, :n], n)[k.__name__]
    expected[:n, :n], expected[n:, :n] = top, bottom
    dev(k, (1,), x, stride, N=n)
    assert_same(x, expected)


@tegula.jit
def k_four_dimensions(x, s0, s1, s2):
    """Strides that are known at run time only."""
    i, j = tl.arange(0, 2)[:, None, None, None] * s0, tl.arange(0, 4)[None, :, None, None] * s1
    k, l = tl.arange(0, 2)[None, None, :, None] * s2, tl.arange(0, 4)[None, None, None, :]
    p = x + ((i + j + k + l) ^ 3)
    for _ in range(2):
        v = tl.load(p)
        tl.store(p, tl.permute(v, [2, 1, 0, 3]) + v)


def test_in_place_of_four_dimensions(dev):
    x = np.arange(64, dtype=np.float32)
    dev(k_four_dimensions, (1,), x, 32, 8, 4)
    v = np.arange(64, dtype=np.float32)[np.arange(64) ^ 3].reshape(2, 4, 2, 4)
    for _ in range(2):
        v = v + v.transpose(2, 1, 0, 3)
    assert_same(x, v.reshape(64)[np.arange(64) ^ 3])


# One buffer through pointers to elements of two sizes, and two that take turns.
@tegula.jit
def k_bytes_of_words(x, n):
    word, byte = tl.arange(0, 16), tl.arange(0, 64)
    bytes_ = x.to(tl.pointer_type(tl.int8))
    for k in range(n):
        tl.store(x + word, tl.load(x + word) * 5 + k)
        tl.store(bytes_ + byte, tl.load(bytes_ + (byte ^ 3)))


def test_words_and_their_bytes(dev):
    x = np.arange(16, dtype=np.int32) * 12345
    expected = x.copy()
    for k in range(4):
        expected = (expected * 5 + k).view(np.int8)[np.arange(64) ^ 3].view(np.int32)
    dev(k_bytes_of_words, (1,), x, 4)
    assert_same(x, expected)


@tegula.jit
def k_taking_turns(a, b, n):
    i = tl.arange(0, 16)
    p, q = a, b
    for _ in range(n):
        tl.store(q + i, tl.load(p + (i + 1) % 16) + 1)
        p, q = q, p


@pytest.mark.parametrize("n", [0, 3, 4])
def test_buffers_that_take_turns(dev, n):
    buffers = [np.arange(16, dtype=np.int32) ** 2, np.zeros(16, np.int32)]
    expected = [b.copy() for b in buffers]
    for k in range(n):
        expected[(k + 1) % 2] = np.roll(expected[k % 2], -1) + 1
    dev(k_taking_turns, (1,), *buffers, n)
    for actual, right in zip(buffers, expected):
        assert_same(actual, right)


@tegula.jit
def k_exchanges(x):
    """Neighbours exchanged in pairs, those from even places and those from odd ones by turns."""
    i = tl.arange(0, 8)
    for k in range(16):
        left = x + 2 * i + k % 2
        mask = 2 * i + k % 2 + 1 < 16
        a, b = tl.load(left, mask=mask), tl.load(left + 1, mask=mask)
        tl.store(left, tl.minimum(a, b), mask=mask)
        tl.store(left + 1, tl.maximum(a, b), mask=mask)


def test_sorting_by_exchanges_in_memory(dev):
    x = (np.arange(16, dtype=np.int32) * 7 + 3) % 16
    dev(k_exchanges, (1,), x)
    assert_same(x, np.arange(16, dtype=np.int32))
