"""One buffer for two arguments: what a program reads, it reads before it writes, whichever argument it writes through (LANGUAGE: loads and stores of a program are in order)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.language.extra import libdevice

TYPES = [np.float32, np.int32, np.float16]


def data(dtype, *shape, seed=1):
    return (np.random.default_rng(seed).standard_normal(shape) * 10).astype(dtype)


@tegula.jit
def exchange(a, b, to_a, to_b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(a + i, i < n), tl.load(b + i, i < n)
    tl.store(to_b + i, x, i < n)
    tl.store(to_a + i, y, i < n)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("block", [32, 256])
def test_exchange(dev, dtype, block):
    a, b = data(dtype, 1000), data(dtype, 1000, seed=2)
    before = a.copy(), b.copy()
    dev(exchange, (tegula.cdiv(1000, block),), a, b, a, b, 1000, BLOCK=block)
    assert (a == before[1]).all() and (b == before[0]).all()


@tegula.jit
def rotate(x, cos, sin, out, HALF: tl.constexpr):
    i = tl.arange(0, HALF)
    row = tl.program_id(0) * 2 * HALF
    x1, x2 = tl.load(x + row + i), tl.load(x + row + HALF + i)
    c, s = tl.load(cos + i), tl.load(sin + i)
    tl.store(out + row + i, x1 * c - x2 * s)
    tl.store(out + row + HALF + i, x2 * c + x1 * s)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rotary(dev, dtype):
    x, c, s = data(dtype, 8, 128), data(dtype, 64, seed=2), data(dtype, 64, seed=3)
    apart = np.zeros_like(x)
    dev(rotate, (8,), x, c, s, apart, HALF=64)
    dev(rotate, (8,), x, c, s, x, HALF=64)
    assert (x == apart).all()


@tegula.jit
def scaled_and_shifted(x, out, other, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, 0)
    tl.store(out + i, v * 2, i < n)
    tl.store(other + i, v + tl.max(v, 0), i < n)


@tegula.jit
def transposed_and_as_it_is(x, out, other, B: tl.constexpr):
    i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    v = tl.load(x + i)
    tl.store(out + i, tl.trans(v))
    tl.store(other + i, v)


@tegula.jit
def flipped(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.flip(tl.load(x + i), 0))


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_stored_twice_is_read_once(dev, dtype):
    x = data(dtype, 1000)
    before, other = x.copy(), np.zeros_like(x)
    dev(scaled_and_shifted, (1,), x, x, other, 1000, BLOCK=1024)
    assert (x == before * dtype(2)).all() and (other == before + max(before.max(), dtype(0))).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_transposed(dev, dtype):
    x = data(dtype, 32, 32)
    before, other = x.copy(), np.zeros_like(x)
    dev(transposed_and_as_it_is, (1,), x, x, other, B=32)
    assert (x == before.T).all() and (other == before).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_flipped(dev, dtype):
    x = data(dtype, 1024)
    before = x.copy()
    dev(flipped, (4,), x, x, BLOCK=256)
    assert (x.reshape(4, 256) == before.reshape(4, 256)[:, ::-1]).all()


@tegula.jit
def adam(parameter, mean, gradient, square, step, parameter_out, mean_out, square_out, n, BLOCK: tl.constexpr):
    """As torch.compile writes it for Adam: the expression is long enough to be cut, and the moments are stored before the parameter."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, m = tl.load(parameter + i, i < n), tl.load(mean + i, i < n)
    g, v = tl.load(gradient + i, i < n), tl.load(square + i, i < n)
    t = tl.broadcast_to(tl.load(step), [BLOCK]) + 1.0
    m = m + (g - m) * 0.1
    v = tl.fma(g * g, tl.full([1], 0.001, tl.float32), v * 0.999)
    correction = tl.sqrt_rn(1.0 - libdevice.pow(tl.full([1], 0.999, tl.float32), t))
    size = -(1.0 / (1.0 - libdevice.pow(tl.full([1], 0.9, tl.float32), t)) * 0.01)
    p = p + m / (tl.sqrt_rn(v) / (correction * size) + (1.0 / size) * 1e-8)
    tl.store(mean_out + i, m, i < n)
    tl.store(square_out + i, v, i < n)
    tl.store(parameter_out + i, p, i < n)


def test_adam(dev):
    p, m, g, v = (data(np.float32, 900, seed=s) for s in range(4))
    v, step = abs(v), np.zeros(1, np.float32)
    apart = [np.zeros_like(p) for _ in range(3)]
    dev(adam, (4,), p, m, g, v, step, *apart, 900, BLOCK=256)
    dev(adam, (4,), p, m, g, v, step, p, m, v, 900, BLOCK=256)
    for found, expected in zip((p, m, v), apart):
        assert (found == expected).all()


@tegula.jit
def transposed(x, out, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(out + j * B + i, tl.load(x + i * B + j))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [16, 64])
def test_transposed_to_other_places(dev, dtype, size):
    x = data(dtype, size, size)
    before, out = x.copy(), np.zeros_like(x)
    dev(transposed, (1,), x, out, B=size)
    assert (out == before.T).all() and (x == before).all()
    dev(transposed, (1,), x, x, B=size)
    assert (x == before.T).all()


@tegula.jit
def total_beside(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out, tl.sum(v, 0))
    tl.store(out + 1 + i, v + 1)


def test_an_element_beside_a_row(dev):
    x = np.arange(65, dtype=np.int32)
    expected = np.concatenate([[x[:64].sum()], x[:64] + 1])
    dev(total_beside, (1,), x, x, BLOCK=64)
    assert (x == expected).all()


@tegula.jit
def running_sums(x, out, n, ROW: tl.constexpr):
    """Each round reads what the round before wrote, through the other argument."""
    i = tl.arange(0, ROW)
    for row in range(1, n):
        tl.store(out + row * ROW + i, tl.load(x + (row - 1) * ROW + i) + tl.load(x + row * ROW + i))


@pytest.mark.parametrize("stages", [1, 3])
def test_a_loop_reads_what_it_wrote(dev, stages):
    x = np.arange(20 * 128, dtype=np.int32).reshape(20, 128)
    expected = np.cumsum(x, 0)
    dev(running_sums, (1,), x, x, 20, ROW=128, num_stages=stages)
    assert (x == expected).all()


@tegula.jit
def rotated(a, b, c, BLOCK: tl.constexpr):
    """Three arguments, any of which may be one buffer."""
    i = tl.arange(0, BLOCK)
    x, y, z = tl.load(a + i), tl.load(b + i), tl.load(c + BLOCK - 1 - i)
    tl.store(a + BLOCK - 1 - i, y + z)
    tl.store(b + i, tl.load(a + i) + x)
    tl.store(c + i, tl.load(b + BLOCK - 1 - i))


@pytest.mark.parametrize("same", ["abc", "aab", "aba", "abb", "aaa"])
def test_any_two_of_three(dev, same):
    buffers = {n: data(np.int32, 128, seed=ord(n)) for n in "abc"}
    expected = {n: v.copy() for n, v in buffers.items()}
    a, b, c = (expected[n] for n in same)
    x, y, z = a.copy(), b.copy(), c[::-1].copy()
    a[::-1] = y + z
    b[:] = a + x
    c[:] = b[::-1].copy()
    dev(rotated, (1,), *(buffers[n] for n in same), BLOCK=128)
    for n in "abc":
        assert (buffers[n] == expected[n]).all(), n
