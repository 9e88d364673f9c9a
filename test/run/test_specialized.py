"""Kernels whose copies a warp of its own starts (GPUs with TMA): loops in loops, one after the other, that do not run at all. §3.3, §1.8."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close, assert_same

pytestmark = pytest.mark.section("3.3 tensor descriptors")


def integers(shape, seed, t=np.float16):
    """Products and their sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(t)


@tegula.jit
def tiles(a, b, c, M, N, K, first, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b^T for the tiles from `first` on; what no tile covers stays."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    for tile in tl.range(first + tl.program_id(0), tl.cdiv(M, BM) * columns, PROGRAMS, warp_specialize=True):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(ad.load([m, k]), bd.load([n, k]).T, acc)
        cd.store([m, n], acc.to(cd.dtype))


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (200, 136, 80), (128, 328, 8), (448, 64, 256)])
@pytest.mark.parametrize("block, warps, stages", [((64, 64, 32), 4, 3), ((128, 64, 32), 8, 3), ((128, 128, 16), 8, 2), ((64, 32, 64), 4, 5), ((256, 64, 16), 16, 3)])
def test_tiles(dev, m, n, k, block, warps, stages):
    a, b = integers((m, k), 0), integers((n, k), 1)
    for programs, first in (1, 0), (5, 0), (2, 1):
        c = np.full((m, n), 7, np.float16)
        dev(tiles, (programs,), a, b, c, m, n, k, first, programs, *block, num_warps=warps, num_stages=stages)
        expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
        for tile in range(first):
            i, j = tile // -(-n // block[1]) * block[0], tile % -(-n // block[1]) * block[1]
            expected[i:i + block[0], j:j + block[1]] = 7
        assert_same(c, expected)


@tegula.jit
def sums(a, b, c, M, N, K, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Three loops: two one after the other with the same tiles (one of them inside another loop) and one with others. The last tile waits for none."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    wide = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, 2 * BK])
    ad2 = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, 2 * BK])
    acc = tl.zeros([BM, BN], tl.float32)
    for i in tl.range(0, steps, warp_specialize=True):
        for k in range(i * BK, K, BK):
            acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
        acc = acc - i
    for k in range(0, K - BK, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    for k in range(0, K, 2 * BK):
        acc += tl.dot(ad2.load([0, k]), wide.load([0, k]).T)
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@pytest.mark.parametrize("k", [0, 16, 64, 200])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("warps", [4, 8])
def test_loops_after_each_other(dev, k, steps, warps):
    bm, bn, bk = 16 * warps, 64, 32
    a, b = integers((bm, max(k, 8)), 2), integers((bn, max(k, 8)), 3)
    c = np.zeros((bm, bn), np.float32)
    part = lambda lo, hi: a[:, lo:hi].astype(np.float32) @ b[:, lo:hi].astype(np.float32).T
    if k == 0:
        # Descriptors of no columns are none; the loops do not run because of their bounds.
        k, a, b = 8, a * 0, b * 0
    expected = sum((part(i * bk, k) - i for i in range(steps)), np.zeros((bm, bn), np.float32)) + part(0, k) + part(0, max(0, -(-(k - bk) // bk) * bk))
    dev(sums, (1,), a, b, c, bm, bn, k, steps, bm, bn, bk, num_warps=warps)
    assert_same(c, expected)


@tegula.jit
def attend(q, k, v, out, N, start, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Attention of rows start .. start + BM to those before them and among themselves."""
    dq = tl.make_tensor_descriptor(q, [N, D], [D, 1], [BM, D])
    dk = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    tq = dq.load([start, 0])
    m_i, l_i, acc = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    rows, cols = start + tl.arange(0, BM), tl.arange(0, BN)
    for n in tl.range(0, start, BN, warp_specialize=True):
        s = tl.dot(tq, dk.load([n, 0]).T)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        p, alpha = tl.exp(s - m_new[:, None]), tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * alpha[:, None])
        m_i = m_new
    for n in tl.range(start, start + BM, BN, warp_specialize=True):
        s = tl.where(rows[:, None] >= (n + cols)[None, :], tl.dot(tq, dk.load([n, 0]).T), -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        p, alpha = tl.exp(s - m_new[:, None]), tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * alpha[:, None])
        m_i = m_new
    tl.store(out + tl.arange(0, BM)[:, None] * D + tl.arange(0, D)[None, :], acc / l_i[:, None])


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("bm, warps", [(64, 4), (128, 8)])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_attention(dev, depth, bm, warps, before):
    n, start = 512, before * bm
    g = np.random.default_rng(5)
    q, k, v = ((g.standard_normal((n, depth)) / depth**.25).astype(np.float16) for _ in range(3))
    out = np.zeros((bm, depth), np.float32)
    dev(attend, (1,), q, k, v, out, n, start, bm, 32, depth, num_warps=warps)
    s = q[start:start + bm].astype(np.float64) @ k.astype(np.float64).T
    s[np.arange(n)[None, :] > (start + np.arange(bm))[:, None]] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    assert_close(out, (p / p.sum(1, keepdims=True) @ v.astype(np.float64)).astype(np.float32), rtol=2e-2, atol=2e-3)


@tegula.jit
def paged(a, b, pages, c, M, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALIZE: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [K, BN], [BN, 1], [BK, BN])
    acc = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIALIZE):
        acc = tl.dot(ad.load([0, k]), bd.load([tl.load(pages + k // BK) * BK, 0]), acc)
    tl.store(c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)


@pytest.mark.parametrize("stages", [3, 13])
@pytest.mark.parametrize("specialize", ["never", True])
def test_tiles_beside_rings(dev, stages, specialize):
    """A load whose rows come from a table has a tile, but no ring; the rings leave room for it."""
    m, n, k, bk = 128, 256, 512, 64
    a, b = integers((m, k), 0), integers((k, n), 1)
    pages = np.random.default_rng(2).permutation(k // bk).astype(np.int32)
    c = np.zeros((m, n), np.float32)
    dev(paged, (1,), a, b, pages, c, m, k, m, n, bk, specialize, num_warps=8, num_stages=stages)
    rows = (pages[:, None] * bk + np.arange(bk)).reshape(-1)
    assert_same(c, a.astype(np.float32) @ b[rows].astype(np.float32))


@tegula.jit
def behind(a, b, c, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    start = cd.load([0, 0])
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([k, 0]), acc)
    tl.store(out + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc + start)


def test_tile_from_before_to_behind(dev):
    """Loaded in front of the loop, used behind it: the rings leave room for it."""
    m, n, k = 128, 256, 256
    a, b, c = integers((m, k), 0), integers((k, n), 1), integers((m, n), 2)
    out = np.zeros((m, n), np.float32)
    dev(behind, (1,), a, b, c, out, m, n, k, m, n, 64, num_warps=8, num_stages=3)
    assert_same(out, a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32))


# ------------------------------------------------------------------------------------------------ order of accesses around loops

@tegula.jit
def ping_pong(a, b, T, N: tl.constexpr):
    i = tl.arange(0, N)
    p, q = a, b
    for t in range(T):
        tl.store(q + i, tl.load(p + (i + 33) % N) + 1)
        p, q = q, p


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_pointers_that_change_places(dev, steps):
    a, b = np.arange(512, dtype=np.int32), np.zeros(512, np.int32)
    p, q = a.copy(), b.copy()
    for _ in range(steps):
        q[:] = np.roll(p, -33) + 1
        p, q = q, p
    dev(ping_pong, (1,), a, b, steps, 512)
    assert_same(a, q if steps % 2 else p)
    assert_same(b, p if steps % 2 else q)


@tegula.jit
def skipped(c, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    s = 0
    tl.store(c + i, i)
    for k in range(n):
        s += tl.sum(tl.load(c + (i + k) % N))
    tl.store(y + i, tl.load(c + (i + 65) % N) + s)


@pytest.mark.parametrize("n", [0, 2])
def test_loop_that_does_not_run(dev, n):
    c, y = np.zeros(512, np.int32), np.zeros(512, np.int32)
    dev(skipped, (1,), c, y, n, 512)
    assert_same(y, np.roll(np.arange(512, dtype=np.int32), -65) + np.int32(n * (511 * 512 // 2)))


@tegula.jit
def attend_by_pointers(q, k, v, out, lo, hi, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, d = tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + m[:, None] * D + d[None, :])
    top, total, acc = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for i in range(lo, hi, BN):
        n = i + tl.arange(0, BN)
        s = tl.dot(query, tl.load(k + n[None, :] * D + d[:, None]))
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - new[:, None]), tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v + n[:, None] * D + d[None, :]), acc * scale[:, None])
        top = new
    tl.store(out + m[:, None] * D + d[None, :], acc / tl.where(total > 0, total, 1)[:, None])


@pytest.mark.parametrize("lo, hi", [(0, 128), (32, 64), (64, 64), (96, 64)])
@pytest.mark.parametrize("warps", [4, 8])
def test_first_dot_ahead_by_pointers(dev, lo, hi, warps):
    """The first product of the next iteration starts early; the last one's next, and a loop that does not run, load nothing."""
    bm, bn, d, n = 128, 32, 64, 128
    g = np.random.default_rng(3)
    q = (g.standard_normal((bm, d)) / d**.25).astype(np.float16)
    # Exactly as long as what is read: one row more would be another array's.
    k, v = ((g.standard_normal((min(n, hi), d)) / d**.25).astype(np.float16) for _ in range(2))
    out = np.ones((bm, d), np.float32)
    dev(attend_by_pointers, (1,), q, k, v, out, lo, hi, bm, bn, d, num_warps=warps)
    s = q.astype(np.float64) @ k[lo:hi].astype(np.float64).T
    p = np.exp(s - s.max(1, keepdims=True)) if hi > lo else np.zeros((bm, 0))
    expected = p / p.sum(1, keepdims=True) @ v[lo:hi].astype(np.float64) if hi > lo else np.zeros((bm, d))
    assert_close(out, expected.astype(np.float32), rtol=2e-2, atol=2e-3)
