"""One buffer for two arguments: what a program reads, it reads before it writes, whichever argument it writes through (LANGUAGE: loads and stores of a program are in order)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from conftest import CTAS
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
@pytest.mark.skipif(CTAS > 1, reason="CTAs of a cluster do not wait for each other between accesses through two arguments (docs/differences.md)")
def test_transposed(dev, dtype):
    x = data(dtype, 32, 32)
    before, other = x.copy(), np.zeros_like(x)
    dev(transposed_and_as_it_is, (1,), x, x, other, B=32)
    assert (x == before.T).all() and (other == before).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.skipif(CTAS > 1, reason="CTAs of a cluster do not wait for each other between accesses through two arguments (docs/differences.md)")
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
