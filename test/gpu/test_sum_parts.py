"""Products that are added outside of the instruction (sums of fp8, scales of groups) go part by part where a thread has no registers for all of them beside its sums (SumParts.h)."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def product(a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SCALED: tl.constexpr, SUM: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K // BK):
        a = tl.load(a_ptr + m[:, None] * K + (i * BK + k)[None, :])
        b = tl.load(b_ptr + n[None, :] * K + (i * BK + k)[:, None])
        d = tl.dot(a, b, out_dtype=SUM).to(tl.float32)
        if SCALED:
            d = d * tl.load(sa_ptr + m * (K // BK) + i)[:, None] * tl.load(sb_ptr + n * (K // BK) + i)[None, :]
        acc += d
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


def made(dtype, BM, BN, BK, rounds, scaled, warps, stages):
    rng = np.random.default_rng(BM + BN + warps)
    N, K = 2 * BN, rounds * BK
    a, b = (rng.integers(-4, 5, (rows, K)).astype(dtype) for rows in (BM, N))
    sa, sb = (2.0 ** rng.integers(-2, 3, (rows, rounds)).astype(np.float32) for rows in (BM, N))
    c = np.zeros((BM, N), np.float32)
    kernel = product[(2,)](a, b, sa, sb, c, N, K, BM, BN, BK, scaled, tl.int32 if dtype == np.int8 else tl.float32, device="sim", num_warps=warps, num_stages=stages)
    wide = lambda x, s: x.astype(np.float32) * (np.repeat(s, BK, 1) if scaled else 1)
    np.testing.assert_array_equal(c, wide(a, sa) @ wide(b, sb).T)
    return kernel


FP8 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize("dtype, BM, BN, BK, scaled, warps, stages, parts", [
    (FP8, 128, 128, 64, False, 4, 3, 2),
    (FP8, 128, 256, 32, False, 8, 3, 2),   # 64 x 256 of a warpgroup: by halves of its columns
    (FP8, 64, 256, 64, True, 4, 3, 2),
    (FP8, 128, 128, 64, True, 4, 2, 2),
    (np.int8, 128, 128, 64, True, 4, 3, 2),
    (np.float16, 128, 128, 32, True, 4, 3, 2),
    (FP8, 256, 64, 64, True, 4, 3, 2),     # two instructions' tiles a part
    (FP8, 256, 64, 32, False, 4, 3, 2),
    (FP8, 512, 32, 64, False, 4, 3, 2),
    (FP8, 128, 128, 64, True, 8, 3, 1),    # 64 sums: there is room for as many products
])
def test_parts(dtype, BM, BN, BK, scaled, warps, stages, parts):
    kernel = made(dtype, BM, BN, BK, 4, scaled, warps, stages)
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    loop = ptx[:ptx.rindex("wgmma.wait_group")]
    columns = {int(n) for n in re.findall(r"wgmma\.mma_async\S*\.m64n(\d+)k", loop)}
    assert columns == {min(BN, 256 if parts == 1 else 128)}
    assert loop.count("wgmma.wait_group.sync.aligned 0") + 1 == parts
