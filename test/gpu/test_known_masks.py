"""Masks of loops between bounds that are known guard nothing, and are not computed (passes/FoldComparisons.h)."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def row_sums(x, out, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for j in range(0, N, B):
        k = (j + i).to(tl.int64)
        acc += tl.load(x + tl.program_id(0) * N + k, mask=(k < N) & (i < B), other=1.0)
    tl.store(out + tl.program_id(0), tl.sum(acc, 0))


def compiled(n):
    return row_sums.warmup(np.zeros((4, n), np.float32), np.zeros(4, np.float32), n, 256, grid=(4,), device="sim", num_warps=2)


@pytest.mark.parametrize("n, masks", [(4096, False), (4000, True)])
def test_whole_rows_have_no_masks(n, masks):
    kernel = compiled(n)
    assert ("cmpi" in kernel.stage("tile")) == masks
    if not masks:
        assert not re.search(r"@%p\d+ ld\.global", kernel.compile_for("sm_90a").stage("ptx"))


@pytest.mark.parametrize("n", [4096, 4000, 256, 255, 257])
def test_what_they_sum(n):
    x = np.random.default_rng(n).standard_normal((4, n), dtype=np.float32)
    out = np.empty(4, np.float32)
    row_sums[(4,)](x, out, n, 256, device="sim", num_warps=2)
    pad = -n % 256
    np.testing.assert_allclose(out, x.sum(1, dtype=np.float64) + pad, rtol=1e-4, atol=1e-3)


@tegula.jit
def edges(out, N: tl.constexpr):
    """Comparisons at the ends of ranges: counters that start below zero, quotients, remainders, narrow types, sums that leave their type."""
    i = tl.arange(0, 16)
    n = 0
    for j in range(-3, 14, 4):
        n += tl.sum(((j + i) < 28).to(tl.int32), 0) + 100 * tl.sum(((j + i) <= 28).to(tl.int32), 0) + 10000 * tl.sum(((j + i) >= -3).to(tl.int32), 0)
    tl.store(out, n)
    narrow = (i + 120).to(tl.int8)
    tl.store(out + 1, tl.sum((narrow > 100).to(tl.int32), 0) + 100 * tl.sum((narrow + narrow < 0).to(tl.int32), 0))
    tl.store(out + 2, tl.sum((i // 4 < 4).to(tl.int32), 0) + 100 * tl.sum((i % 4 < 3).to(tl.int32), 0) + 10000 * tl.sum((i % 20 != 16).to(tl.int32), 0))
    big = i + 2147483640
    tl.store(out + 3, tl.sum((big > 0).to(tl.int32), 0))
    m = 0
    for j in range(5, 5):
        m += 1
    for j in range(0, N):
        m += tl.sum((j * i < N * 15).to(tl.int32), 0) + 100 * tl.sum((i - j > -N).to(tl.int32), 0)
    tl.store(out + 4, m)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_the_ends_of_ranges(device):
    out = np.zeros(5, np.int32)
    edges[(1,)](out, 7, device=device)
    i = np.arange(16)
    n = sum((j + i < 28).sum() + 100 * (j + i <= 28).sum() + 10000 * (j + i >= -3).sum() for j in range(-3, 14, 4))
    narrow = (i + 120).astype(np.int8)
    with np.errstate(over="ignore"):
        twice = (narrow + narrow) < 0
        big = (i.astype(np.int32) + np.int32(2147483640)) > 0
    want = [n, (narrow > 100).sum() + 100 * twice.sum(), 16 + 1200 + 160000, big.sum(), sum((j * i < 105).sum() + 100 * (i - j > -7).sum() for j in range(7))]
    assert out.tolist() == [int(w) for w in want]
