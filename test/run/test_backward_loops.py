"""Loops that count down are pipelined as those that count up are. §3.3, §3.5."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close, assert_same

pytestmark = pytest.mark.section("1.8 for")


def integers(shape, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


@tegula.jit
def product(a, b, c, N, K, hi, lo, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STEP: tl.constexpr, COPY: tl.constexpr):
    """c = a b^T over the columns hi, hi - STEP, ... > lo and the BK - 1 behind each; a has rows of `stride` elements."""
    m = tl.program_id(0) * BM
    ad = tl.make_tensor_descriptor(a, [2 * BM, K], [stride, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    rows, columns, depth = m + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(hi, lo, -STEP):
        if COPY == "tma":
            acc = tl.dot(ad.load([m, k]), bd.load([0, k]).T, acc)
        else:
            inside = k + depth < K
            x = tl.load(a + rows[:, None] * stride + (k + depth)[None, :], inside[None, :], 0)
            acc = tl.dot(x, tl.load(b + columns[None, :] * K + (k + depth)[:, None], inside[:, None], 0), acc)
    tl.store(c + rows[:, None] * N + columns[None, :], acc)


# Rings by TMA and by cp.async; rows at odd addresses, which are loaded an iteration ahead to registers.
@pytest.mark.parametrize("copy, odd", [("tma", 0), ("cp.async", 0), ("registers", 1)])
@pytest.mark.parametrize("hi, lo, step", [(192, -64, 64), (192, 0, 64), (0, -1, 64), (0, 0, 64), (64, 128, 64), (208, -16, 32)])
@pytest.mark.parametrize("warps, stages", [(4, 3), (4, 1), (8, 4)])
def test_product(dev, copy, odd, hi, lo, step, warps, stages):
    bm, bn, bk, k = 64, 64, 64, 256
    a, b = integers((2 * bm, k + odd), hi + 1), integers((bn, k), step)
    c = np.zeros((2 * bm, bn), np.float32)
    dev(product, (2,), a, b, c, bn, k, hi, lo, k + odd, bm, bn, bk, step, copy, num_warps=warps, num_stages=stages)
    columns = [i for at in range(hi, lo, -step) for i in range(at, min(at + bk, k))]
    assert_same(c, a[:, columns].astype(np.float32) @ b[:, columns].astype(np.float32).T)


@tegula.jit
def tiles(a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b, the last tile first."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    steps, wide = tl.cdiv(K, BK), tl.cdiv(N, BN)
    for tile in range(tl.cdiv(M, BM) * wide - 1 - tl.program_id(0), -1, -PROGRAMS):
        m, n = tile // wide * BM, tile % wide * BN
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(steps - 1, -1, -1):
            acc = tl.dot(ad.load([m, k * BK]), bd.load([k * BK, n]), acc)
        cd.store([m, n], acc)


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (200, 136, 80), (128, 328, 8)])
@pytest.mark.parametrize("block, warps, stages", [((64, 64, 32), 4, 3), ((128, 64, 32), 8, 3), ((64, 32, 64), 2, 3)])
def test_tiles(dev, m, n, k, block, warps, stages):
    a, b = integers((m, k), 1), integers((k, n), 2)
    c = np.zeros((m, n), np.float32)
    dev(tiles, (3,), a, b, c, m, n, k, 3, *block, num_warps=warps, num_stages=stages)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32))


@tegula.jit
def attention(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, TMA: tl.constexpr):
    start = tl.program_id(0) * BM
    rows, columns, depth = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    kd = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    vd = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    x = tl.load(q + rows[:, None] * D + depth[None, :])
    most, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in tl.range(N - BN, -1, -BN):
        y = kd.load([n, 0]).T if TMA else tl.load(k + (n + columns)[None, :] * D + depth[:, None])
        s = tl.dot(x, y)
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        scale = tl.exp2(most - now)
        total = total * scale + tl.sum(p, 1)
        z = vd.load([n, 0]) if TMA else tl.load(v + (n + columns)[:, None] * D + depth[None, :])
        acc = tl.dot(p.to(tl.float16), z, acc * scale[:, None])
        most = now
    tl.store(out + rows[:, None] * D + depth[None, :], (acc / total[:, None]).to(tl.float16))


# With a producer's warps and without; the first dot runs an iteration ahead.
@pytest.mark.parametrize("tma", [False, True])
@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("bm, warps", [(64, 4), (128, 8)])
def test_attention(dev, tma, iterations, bm, warps):
    bn, d = 64, 64
    n = iterations * bn
    rng = np.random.default_rng(n)
    q, k, v = ((rng.standard_normal((r, d)) / d**0.25).astype(np.float16) for r in (2 * bm, n, n))
    out = np.zeros((2 * bm, d), np.float16)
    dev(attention, (2,), q, k, v, out, n, bm, bn, d, tma, num_warps=warps, num_stages=3)
    s = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(s - s.max(1, keepdims=True))
    assert_close(out, (p / p.sum(1, keepdims=True)) @ v.astype(np.float64), rtol=1e-2, atol=2e-3)


@tegula.jit
def late(q, k, v, out, N, ROWS, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, FIRST: tl.constexpr, SCALED: tl.constexpr, DOWN: tl.constexpr):
    """Dots of which the second is late by an iteration. The first `FIRST` columns count for no row below D."""
    rows, columns, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    kd = tl.make_tensor_descriptor(k, [ROWS, D], [D, 1], [BN, D])
    vd = tl.make_tensor_descriptor(v, [ROWS, D], [D, 1], [BN, D])
    x = tl.load(q + rows[:, None] * D + depth[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for i in tl.range(N - BN, -1, -BN) if DOWN else tl.range(0, N, BN):
        s = tl.where((i + columns >= FIRST)[None, :] | (rows >= D)[:, None], tl.dot(x, kd.load([i, 0]).T), -float("inf"))
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        acc = tl.dot(p.to(tl.float16), vd.load([i, 0]), acc * tl.exp2(most - now)[:, None] if SCALED else acc)
        most = now
    tl.store(out + rows[:, None] * D + depth[None, :], acc)


# The first iteration's late dot multiplies zeroes by a tile of any numbers, and nothing of that remains; what the first scale makes of zero does (NaN, where nothing was seen yet).
@pytest.mark.parametrize("down, scaled", [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
@pytest.mark.parametrize("infinite", [False, True])
def test_late_dots(dev, down, scaled, iterations, infinite):
    bm, bn, d, first = 128, 64, 64, 64
    n = iterations * bn
    rng = np.random.default_rng(n)
    q, k, v = ((rng.standard_normal((r, d)) / 2).astype(np.float16) for r in (bm, max(n, bn), max(n, bn)))
    if infinite:
        v[3, 5], v[-1, 7] = np.inf, -np.inf
    out = np.full((bm, d), 3, np.float32)
    dev(late, (1,), q, k, v, out, n, len(v), bm, bn, d, first, scaled, down, num_warps=8, num_stages=3)
    want, most = np.zeros((bm, d)), np.full(bm, -np.inf)
    with np.errstate(invalid="ignore"):
        for i in range(n - bn, -1, -bn) if down else range(0, n, bn):
            s = np.where((np.arange(i, i + bn) >= first)[None, :] | (np.arange(bm) >= d)[:, None], q.astype(float) @ k[i:i + bn].astype(float).T, -np.inf)
            now = np.maximum(most, s.max(1))
            p = np.exp2(s - now[:, None])
            want = (want * np.exp2(most - now)[:, None] if scaled else want) + p @ v[i:i + bn].astype(float)
            most = now
    assert_close(out, want, rtol=1e-2, atol=4e-3)
