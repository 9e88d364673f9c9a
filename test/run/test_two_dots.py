"""Loops with two dots, the second computed from the first one's result (gpu/loops/StaggerDots.h): loops that do not run, run once, count down, follow each other. §3.5."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def attention(q, k, v, out, seen, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, TMA: tl.constexpr, DOWN: tl.constexpr):
    """Scores are scaled by 1/8. `seen`: what each row's sum ends with."""
    start, base, rows = tl.program_id(0) * BM, tl.program_id(1) * N, tl.num_programs(1) * N
    at_m, at_n, at_d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    dk = tl.make_tensor_descriptor(k, [rows, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [rows, D], [D, 1], [BN, D])
    tq = tl.load(q + (base + start + at_m)[:, None] * D + at_d[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for stage in tl.static_range(2 if CAUSAL else 1):
        lo = start if stage else 0
        hi = start + BM if stage else start if CAUSAL else N
        for n in range(hi - BN, lo - BN, -BN) if DOWN else range(lo, hi, BN):
            if TMA:
                s = tl.dot(tq, dk.load([base + n, 0]).T) * 0.125
            else:
                s = tl.dot(tq, tl.load(k + (base + n + at_n)[None, :] * D + at_d[:, None])) * 0.125
            if stage:
                s = tl.where((start + at_m)[:, None] >= (n + at_n)[None, :], s, -1e30)
            now = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - now[:, None])
            alpha = tl.exp(m - now)
            total = total * alpha + tl.sum(p, 1)
            acc *= alpha[:, None]
            if TMA:
                acc = tl.dot(p.to(tl.float16), dv.load([base + n, 0]), acc)
            else:
                acc = tl.dot(p.to(tl.float16), tl.load(v + (base + n + at_n)[:, None] * D + at_d[None, :]), acc)
            m = now
    tl.store(out + (base + start + at_m)[:, None] * D + at_d[None, :], acc / total[:, None])
    tl.store(seen + base + start + at_m, total)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("tma", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", [(64, 32, 64, 4, 2), (64, 64, 64, 4, 3), (128, 64, 64, 8, 3), (128, 128, 64, 8, 2)])
def test_attention(dev, tile, causal, tma, down):
    bm, bn, d, warps, stages = tile
    heads, n = 2, 3 * bm
    rng = np.random.default_rng(n)
    q, k, v = (rng.standard_normal((heads, n, d)).astype(np.float16) for _ in range(3))
    out, seen = np.zeros((heads, n, d), np.float32), np.zeros((heads, n), np.float32)
    dev(attention, (n // bm, heads), q, k, v, out, seen, n, bm, bn, d, causal, tma, down, num_warps=warps, num_stages=stages)
    s = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1) * 0.125
    if causal:
        s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    assert_close(seen, p.sum(-1), 1e-3, 1e-3)
    assert_close(out, p @ v.astype(np.float32) / p.sum(-1, keepdims=True), 5e-3, 5e-3)


@tegula.jit
def shown(q, k, v, out, tile, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A branch reads the tile of the second dot in front of it; `tile` is that of the third iteration."""
    at_m, at_n, at_d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    dk = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    tq = tl.load(q + at_m[:, None] * D + at_d[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, N, BN):
        tv = dv.load([n, 0])
        s = tl.dot(tq, dk.load([n, 0]).T)
        if n == 2 * BN:
            tl.store(tile + at_n[:, None] * D + at_d[None, :], tv)
        acc = tl.dot(s.to(tl.float16), tv, acc)
    tl.store(out + at_m[:, None] * D + at_d[None, :], acc)


@pytest.mark.parametrize("bm, warps", [(64, 8), (128, 4)])
def test_a_branch_reads_the_tile_of_the_second_dot(dev, bm, warps):
    """Two stages of 64 x 256: the values would have barriers of their own, which the second dot alone waits for."""
    bn, d, n = 64, 256, 4 * 64
    rng = np.random.default_rng(7)
    q, k, v = (rng.integers(-1, 2, (rows, d)).astype(np.float16) for rows in (bm, n, n))
    out, tile = np.zeros((bm, d), np.float32), np.zeros((bn, d), np.float16)
    dev(shown, (1,), q, k, v, out, tile, n, bm, bn, d, num_warps=warps, num_stages=2)
    s = q.astype(np.float32) @ k.astype(np.float32).T
    assert_close(tile, v[2 * bn:3 * bn], 0, 0)
    assert_close(out, s @ v.astype(np.float32), 1e-3, 1e-3)
