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


@tegula.jit
def two_products(x, w, down, out, low_out, K, R: tl.constexpr):
    """x @ w and x @ down, of R columns."""
    m, n, k, r = tl.arange(0, 32), tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, R)
    acc, low = tl.zeros((32, 128), tl.float32), tl.zeros((32, R), tl.float32)
    for i in range(0, K, 64):
        a = tl.load(x + m[:, None] * K + (i + k)[None, :])
        acc = tl.dot(a, tl.load(w + (i + k)[:, None] * 128 + n[None, :]), acc)
        low = tl.dot(a, tl.load(down + (i + k)[:, None] * R + r[None, :]), low)
    tl.store(out + m[:, None] * 128 + n[None, :], acc)
    tl.store(low_out + m[:, None] * R + r[None, :], low)


@pytest.mark.parametrize("columns, fragments", [(64, [8, 8, 4]), (16, [8, 8, 4, 2])])
def test_products_of_one_operand_read_it_once(columns, fragments):
    """Four matrices each: of A, of w, of the other B, where its warps share the rows as those of the first product do; of 16 columns there are too few for that, and A's rows are read once more."""
    generator = np.random.default_rng(2)
    x, w, down = (generator.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in [(32, 256), (256, 128), (256, columns)])
    out, low = np.zeros((32, 128), np.float32), np.zeros((32, columns), np.float32)
    args, options = (x, w, down, out, low, 256, columns), {"num_warps": 4, "num_stages": 3, "device": "sim"}
    two_products[(1,)](*args, **options)
    assert np.array_equal(out, x.astype(np.float32) @ w.astype(np.float32)) and np.array_equal(low, x.astype(np.float32) @ down.astype(np.float32))
    text = two_products.warmup(*args, grid=(1,), **options).compile_for("sm_90a").stage("ptx")
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4", text)) == sum(fragments)


@tegula.jit
def adapted(x, w, down, up, out, K, R: tl.constexpr):
    """x @ w + (x @ down) @ up."""
    m, n, k, r = tl.arange(0, 32), tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, R)
    acc, low = tl.zeros((32, 128), tl.float32), tl.zeros((32, R), tl.float32)
    for i in range(0, K, 64):
        a = tl.load(x + m[:, None] * K + (i + k)[None, :])
        acc = tl.dot(a, tl.load(w + (i + k)[:, None] * 128 + n[None, :]), acc)
        low = tl.dot(a, tl.load(down + (i + k)[:, None] * R + r[None, :]), low)
    acc += tl.dot(low.to(up.dtype.element_ty), tl.load(up + r[:, None] * 128 + n[None, :]))
    tl.store(out + m[:, None] * 128 + n[None, :], acc)


def test_loops_of_several_products_ask_for_sixteen_warps():
    """One product alone takes no more registers than those have; the assembler gives two of mma.sync 166, for the 128 of four blocks. A product behind the loop that adds to its sum changes nothing about that."""
    x, w, down, up = (np.zeros(shape, ml_dtypes.bfloat16) for shape in [(32, 256), (256, 128), (256, 16), (16, 128)])
    text = adapted.warmup(x, w, down, up, np.zeros((32, 128), np.float32), 256, 16, grid=(4096,), num_warps=4, num_stages=3, device="sim").compile_for("sm_90a").stage("ptx")
    assert re.findall(r"\.minnctapersm (\d+)", text) == ["4"]
    assert not re.findall(r"\.minnctapersm", ptx((32, 128, 64), 4, 3))
