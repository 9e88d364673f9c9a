"""Tables that several gathers read, and gathers in loops (shared/ShareTables.h)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl

pytestmark = pytest.mark.section("4.4 gathers of one table")


@tegula.jit
def k_states(x, table, out, STEPS: tl.constexpr, N: tl.constexpr, T: tl.constexpr):
    """Each look-up gives where the next one looks."""
    i = tl.arange(0, N)
    t = tl.load(table + tl.arange(0, T))
    v = tl.load(x + i)
    state = tl.zeros([N], tl.int32)
    total = tl.zeros([N], tl.int32)
    for step in tl.static_range(STEPS):
        found = tl.gather(t, (state + ((v >> step) & 3)) % T, 0).to(tl.int32)
        state = found & 0x7C
        total += found << step
    tl.store(out + i, total)


@tegula.jit
def k_loop(x, table, out, n, N: tl.constexpr, T: tl.constexpr):
    """In a loop, and behind it; the loop may not run at all."""
    i = tl.arange(0, N)
    t = tl.load(table + tl.arange(0, T))
    v = tl.load(x + i) % T
    for _ in range(n):
        v = tl.gather(t, v, 0).to(tl.int32) % T
    tl.store(out + i, v + tl.gather(t, tl.sum(v, 0) % T + tl.zeros([N], tl.int32), 0).to(tl.int32))


@tegula.jit
def k_changing(x, table, out, n, N: tl.constexpr, T: tl.constexpr):
    """The table of the next iteration comes from two gathers of this one, and reductions want shared memory in between."""
    i = tl.arange(0, N)
    t = tl.load(table + tl.arange(0, T)).to(tl.int32)
    v = tl.load(x + i) % T
    for _ in range(n):
        a = tl.gather(t, v, 0)
        top = tl.max(a, 0)
        b = tl.gather(t, (a + top) % T, 0)
        v = (a + b) % T
        t = tl.flip(t, 0) + tl.sum(b, 0) % 5
    tl.store(out + i, v)


@tegula.jit
def k_branches(x, table, out, N: tl.constexpr, T: tl.constexpr):
    """Only one way reads the table first."""
    i = tl.arange(0, N)
    t = tl.load(table + tl.arange(0, T)).to(tl.int32)
    v = tl.load(x + tl.program_id(0) * N + i)
    if tl.sum(v, 0) % 2 == 0:
        v = tl.gather(t, v % T, 0) + tl.max(v, 0)
    else:
        v = v + 1
    tl.store(out + tl.program_id(0) * N + i, tl.gather(t, v % T, 0) - v)


@tegula.jit
def k_axes(x, index, out, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Rows or columns of a tile, twice."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    t = tl.load(x + at)
    i = tl.load(index + at)
    tl.store(out + at, tl.gather(t, i, AXIS) * 4 + tl.gather(t, i ^ 1, AXIS))


def looked_up(x, table, steps, T):
    state, total = np.zeros_like(x), np.zeros_like(x)
    for step in range(steps):
        found = table[(state + (x >> step & 3)) % T].astype(np.int32)
        state = found & 0x7C
        total += found << step
    return total


@pytest.mark.parametrize("N,T,dtype,warps", [(256, 128, np.int16, 4), (128, 512, np.int8, 4), (1024, 64, np.int32, 8), (64, 32, np.uint8, 1), (32, 128, np.int64, 2)])
def test_states(dev, N, T, dtype, warps):
    rng = np.random.default_rng(N + T)
    x, table = rng.integers(0, 1 << 20, N, np.int32), rng.integers(0, 120, T).astype(dtype)
    out = np.zeros(N, np.int32)
    dev(k_states, (1, ), x, table, out, 7, N, T, num_warps=warps)
    np.testing.assert_array_equal(out, looked_up(x, table, 7, T))


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("N,T,warps", [(256, 64, 4), (32, 256, 2)])
def test_loop(dev, n, N, T, warps):
    rng = np.random.default_rng(n)
    x, table = rng.integers(0, 1 << 10, N, np.int32), rng.integers(0, 1 << 10, T, np.int32)
    out = np.zeros(N, np.int32)
    dev(k_loop, (1, ), x, table, out, n, N, T, num_warps=warps)
    v = x % T
    for _ in range(n):
        v = table[v] % T
    np.testing.assert_array_equal(out, v + table[v.sum() % T])


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("N,T,warps", [(256, 64, 4), (64, 128, 2)])
def test_changing(dev, n, N, T, warps):
    rng = np.random.default_rng(n)
    x, table = rng.integers(0, 1 << 10, N, np.int32), rng.integers(0, 1 << 6, T).astype(np.int16)
    out = np.zeros(N, np.int32)
    dev(k_changing, (1, ), x, table, out, n, N, T, num_warps=warps)
    v, t = x % T, table.astype(np.int32)
    for _ in range(n):
        a = t[v]
        b = t[(a + a.max()) % T]
        v, t = (a + b) % T, t[::-1] + b.sum() % 5
    np.testing.assert_array_equal(out, v)


def test_branches(dev):
    rng = np.random.default_rng(3)
    N, T, programs = 128, 64, 6
    x, table = rng.integers(0, 1 << 10, (programs, N), np.int32), rng.integers(0, 1 << 10, T).astype(np.int16)
    out = np.zeros_like(x)
    dev(k_branches, (programs, ), x, table, out, N, T)
    t = table.astype(np.int32)
    v = np.where(x.sum(1, keepdims=True) % 2 == 0, t[x % T] + x.max(1, keepdims=True), x + 1)
    np.testing.assert_array_equal(out, t[v % T] - v)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("M,N", [(16, 32), (64, 8)])
def test_axes(dev, axis, M, N):
    rng = np.random.default_rng(axis)
    x, index = rng.standard_normal((M, N)).astype(np.float32), rng.integers(0, (M, N)[axis], (M, N), np.int32)
    out = np.zeros_like(x)
    dev(k_axes, (1, ), x, index, out, axis, M, N)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index, axis) * 4 + np.take_along_axis(x, index ^ 1, axis))
