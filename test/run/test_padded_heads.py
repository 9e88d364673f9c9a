"""Heads whose width is a constant below the tile's: loops of dots end at it, the last panel may be half of one (FunctionEmitter::whatCounts, PanelDot::narrow)."""
import numpy as np
import pytest

import tegula
import tegula.language as tl
from harness import d

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def scores_times_values(q, k, v, out, N, rows, W: tl.constexpr, TILE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    w = tl.arange(0, TILE)
    x = tl.load(q + m[:, None] * W + w[None, :], mask=(m[:, None] < rows) & (w[None, :] < W), other=0.0)
    acc = tl.zeros((BM, TILE), tl.float32)
    for n in range(0, N, BN):
        c = n + tl.arange(0, BN)
        inside = (c[:, None] < N) & (w[None, :] < W)
        s = tl.dot(x, tl.trans(tl.load(k + c[:, None] * W + w[None, :], mask=inside, other=0.0)), input_precision="ieee")
        y = tl.load(v + c[:, None] * W + w[None, :], mask=inside, other=0.0)
        acc = tl.dot(s.to(y.dtype), y, acc, input_precision="ieee")
    tl.store(out + m[:, None] * W + w[None, :], acc, mask=(m[:, None] < rows) & (w[None, :] < W))


@pytest.mark.parametrize("t", ["float32", "bfloat16"])
@pytest.mark.parametrize("width, tile", [(1, 16), (3, 64), (40, 64), (33, 128), (65, 128), (80, 128), (96, 128), (97, 128), (127, 128), (160, 256)])
def test_padded_heads(dev, t, width, tile):
    """Small integers: every order of the sums gives the same bits. What lies behind a row is the next one."""
    rows, n, bm, bn = 70, 90, 64, 32
    rng = np.random.default_rng(width)
    q, k, v = (rng.integers(-1, 2, (r, width)).astype(d(t).np) for r in (rows, n, n))
    out = np.full((rows, width), 7, np.float32)
    dev(scores_times_values, (2,), q, k, v, out, n, rows, W=width, TILE=tile, BM=bm, BN=bn)
    assert np.array_equal(out, q.astype(np.float64) @ k.astype(np.float64).T @ v.astype(np.float64))
