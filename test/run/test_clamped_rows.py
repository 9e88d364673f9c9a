"""Offsets that are clamped by a selection, `where(i < n, i, 0)`: CPUs read tiles that end inside of the bound as if they were not (src/targets/cpu/plan/Lin.h, wrapped())."""
import numpy as np
import pytest

import tegula
import tegula.language as tl

pytestmark = pytest.mark.section("3.4 memory")


@tegula.jit
def clamped(x, out, start, n, B: tl.constexpr, FORM: tl.constexpr):
    j = tl.arange(0, B)
    i = start + j
    if FORM == "below":
        i = tl.where(i < n, i, 0)
    elif FORM == "above":
        i = tl.where(n > i, i, 0)
    elif FORM == "five":
        i = tl.where(i < n, i, 5)
    else:
        i = tl.where(i <= n, i, 0)
    there = (i >= -64) & (i < 192)
    tl.store(out + j, tl.load(x + 64 + i, mask=there, other=-1.0))


@pytest.mark.parametrize("form", ["below", "above", "five", "other"])
@pytest.mark.parametrize("start, n", [(0, 1000), (0, 64), (0, 63), (0, 1), (0, 0), (0, -5), (3, 67), (3, 66), (3, 4), (3, 3), (3, 2), (-63, 100), (-63, 1), (-63, 0), (-63, -3), (-63, -62), (-63, -63), (-64, 1), (-10, 5),
                                      (-10, -5), (-10, 60), (2**31 - 40, 2**31 - 1), (2**31 - 40, 2**31 - 60), (2**31 - 40, 10), (2**31 - 1, 2**31 - 1), (2**31 - 1, 0), (2**31 - 64, 5), (100, 7), (-2**31, 3), (-2**31, -2**31)])
def test_clamped_offsets(dev, form, start, n):
    """The first beyond the bound is each element of a tile; numbers wrap around in it; bounds are negative."""
    b = 64
    x = np.arange(256, dtype=np.float32)
    out = np.zeros(b, np.float32)
    dev(clamped, (1,), x, out, start, n, B=b, FORM=form)
    i = (start + np.arange(b, dtype=np.int64) + 2**31) % 2**32 - 2**31
    i = np.where(i <= n if form == "other" else i < n, i, 5 if form == "five" else 0)
    there = (i >= -64) & (i < 192)
    assert np.array_equal(out, np.where(there, x[np.where(there, 64 + i, 0)], -1))


@tegula.jit
def product(a, b, c, M, N, K, am, ak, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    rows = tl.where(m < M, m, 0)
    cols = tl.where(n < N, n, 0)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        d = k + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * am + d[None, :] * ak, mask=d[None, :] < K, other=0.0)
        y = tl.load(b + d[:, None] * N + cols[None, :], mask=d[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape, tile", [((128, 128, 96), (64, 64, 32)), ((70, 33, 90), (16, 16, 16)), ((65, 129, 64), (64, 64, 64)), ((1, 200, 33), (16, 128, 32))])
def test_products_of_clamped_rows(dev, shape, tile, transposed):
    """As in persistent products; small integers, so that every order of the sums gives the same bits."""
    (M, N, K), (BM, BN, BK) = shape, tile
    rng = np.random.default_rng(M)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((M, K), (K, N)))
    c = np.zeros((M, N), np.float32)
    left = np.ascontiguousarray(a.T) if transposed else a
    dev(product, (-(-M // BM), -(-N // BN)), left, b, c, M, N, K, *((1, M) if transposed else (K, 1)), BM=BM, BN=BN, BK=BK)
    assert np.array_equal(c, a @ b)
