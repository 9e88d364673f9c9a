"""Loops whose tiles come through rings of every size: few slots, copies that overwrite what the last iteration read, more iterations ahead than there
are. §3.3, §3.5, §1.8."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close, assert_same

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr):
    """c = a b^T, whole tiles."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    rows, columns, depth = m + tl.arange(0, BM), n + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        if TMA:
            acc = tl.dot(ad.load([m, k]), bd.load([n, k]).T, acc)
        else:
            x = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
            acc = tl.dot(x, tl.load(b + columns[None, :] * K + (k + depth)[:, None]), acc)
    tl.store(c + rows[:, None] * N + columns[None, :], acc)


@pytest.mark.parametrize("tma", [False, True])
@pytest.mark.parametrize("k", [64, 192, 448])
@pytest.mark.parametrize("block, warps", [((64, 64, 64), 4), ((128, 128, 64), 4), ((128, 64, 64), 8)])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_product(dev, tma, k, block, warps, stages):
    m, n = 2 * block[0], block[1]
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    dev(product, (2, 1), a, b, c, m, n, k, *block, tma, num_warps=warps, num_stages=stages)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32).T)


@tegula.jit
def attention(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, TMA: tl.constexpr, WARPS: tl.constexpr):
    start = tl.program_id(0) * BM
    rows, columns, depth = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    kd = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    vd = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    x = tl.load(q + rows[:, None] * D + depth[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=WARPS):
        if TMA:
            s = tl.dot(x, kd.load([n, 0]).T)
        else:
            s = tl.dot(x, tl.load(k + (n + columns)[None, :] * D + depth[:, None]))
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        scale = tl.exp2(most - now)
        total = total * scale + tl.sum(p, 1)
        acc *= scale[:, None]
        if TMA:
            y = vd.load([n, 0])
        else:
            y = tl.load(v + (n + columns)[:, None] * D + depth[None, :])
        acc = tl.dot(p.to(tl.float16), y, acc)
        most = now
    tl.store(out + rows[:, None] * D + depth[None, :], (acc / total[:, None]).to(tl.float16))


# Two blocks on an SM; rings that fit only without a slot for running wgmmas; no first dot ahead, as registers are short; two stages.
@pytest.mark.parametrize("tma, own", [(False, False), (True, "never"), (True, True)])
@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("block, warps, stages", [((64, 64, 128), 4, 3), ((64, 64, 128), 4, 2), ((128, 128, 128), 8, 2), ((128, 64, 256), 8, 2)])
def test_attention(dev, tma, own, iterations, block, warps, stages):
    bm, bn, d = block
    n = iterations * bn
    rng = np.random.default_rng(n)
    q, k, v = ((rng.standard_normal((r, d)) / d**0.25).astype(np.float16) for r in (2 * bm, n, n))
    out = np.zeros((2 * bm, d), np.float16)
    dev(attention, (2,), q, k, v, out, n, *block, tma, own, num_warps=warps, num_stages=stages)
    s = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(s - s.max(1, keepdims=True))
    assert_close(out, p / p.sum(1, keepdims=True) @ v.astype(np.float64), rtol=2e-2, atol=2e-3)
