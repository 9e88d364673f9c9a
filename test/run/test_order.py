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
