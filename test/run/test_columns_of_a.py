"""Products whose left operand lies transposed in memory: CPUs pack it column by column (src/targets/cpu/plan/ColumnsOfA.h)."""
import numpy as np
import pytest

import tegula
import tegula.language as tl
from harness import d

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def product(a, b, c, M, N, K, am, ak, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FORM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        d = k + tl.arange(0, BK)
        if FORM == "wraps":
            x = tl.load(a + (m % M)[:, None] * am + d[None, :] * ak, mask=d[None, :] < K, other=0.0)
            y = tl.load(b + d[:, None] * bk + (n % N)[None, :] * bn, mask=d[:, None] < K, other=0.0)
        elif FORM == "trans":
            x = tl.trans(tl.load(a + m[None, :] * am + d[:, None] * ak, mask=(m[None, :] < M) & (d[:, None] < K), other=0.0))
            y = tl.load(b + d[:, None] * bk + n[None, :] * bn, mask=(d[:, None] < K) & (n[None, :] < N), other=0.0)
        else:
            x = tl.load(a + m[:, None] * am + d[None, :] * ak, mask=(m[:, None] < M) & (d[None, :] < K), other=0.0)
            y = tl.load(b + d[:, None] * bk + n[None, :] * bn, mask=(d[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("form", ["masks", "wraps", "trans"])
@pytest.mark.parametrize("t", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tile, shape", [((16, 16, 16), (70, 33, 90)), ((64, 64, 64), (257, 64, 17)), ((32, 128, 32), (128, 128, 256)), ((128, 16, 128), (130, 33, 300))])
def test_transposed_left_operand(dev, form, t, tile, shape):
    """Small integers: every order of the sums gives the same bits. Rows of A lie further apart than they are long, and what is between them is no zero."""
    M, N, K = shape
    BM, BN, BK = tile
    rng = np.random.default_rng(M + BM)
    np_t = d(t).np
    a = np.full((K, M + 3), 99).astype(np_t)
    a[:, :M] = rng.integers(-4, 5, (K, M)).astype(np_t)
    b = rng.integers(-4, 5, (K, N)).astype(np_t)
    c = np.zeros((M, N), np.float32)
    dev(product, (-(-M // BM), -(-N // BN)), a, b, c, M, N, K, 1, M + 3, N, 1, BM=BM, BN=BN, BK=BK, FORM=form)
    assert np.array_equal(c, a[:, :M].astype(np.float64).T @ b.astype(np.float64))
