"""Which instruction computes a product, and how many blocks its kernel asks for."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + n[None, :] * K + (i + k)[:, None]), acc)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


def ptx(tile, warps, stages):
    x, c = np.zeros((128, 512), ml_dtypes.bfloat16), np.zeros((128, 128), np.float32)
    return product.warmup(x, x, c, 512, *tile, num_warps=warps, num_stages=stages, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")


@pytest.mark.parametrize("tile, warps, columns", [((64, 32, 64), 8, 16), ((64, 64, 64), 16, 16), ((64, 64, 64), 8, 32), ((64, 32, 32), 8, 0), ((64, 16, 64), 8, 0)])
def test_warpgroups_share_the_columns_of_few_rows(tile, warps, columns):
    """Down to 16 each (`columns`; 0: mma.sync), where a row of products is long enough to hide what the first one takes."""
    found = set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16", ptx(tile, warps, 3)))
    assert found == ({str(columns)} if columns else set())


@pytest.mark.parametrize("tile, warps, columns", [((64, 32, 64), 8, 16), ((64, 64, 64), 16, 16)])
def test_narrow_products_are_right(tile, warps, columns):
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-3, 4, (rows, 256)).astype(ml_dtypes.bfloat16) for rows in tile[:2])
    c = np.zeros(tile[:2], np.float32)
    product[(1,)](a, b, c, 256, *tile, num_warps=warps, num_stages=3, device="sim")
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("tile, stages, blocks", [((32, 64, 32), 2, 8), ((32, 64, 64), 4, 0), ((64, 64, 64), 2, 0)])
def test_loops_of_few_stages_ask_for_blocks(tile, stages, blocks):
    """32 warps on a multiprocessor, where shared memory has room for them: by mma.sync, not by wgmma (whose rings have chosen)."""
    found = re.findall(r"\.minnctapersm (\d+)", ptx(tile, 4, stages))
    assert found == ([str(blocks)] if blocks else []) or (tile[0] == 64 and blocks == 0)
