"""Tiles that cannot be loaded by vectors beside ones that can (ElementUses.h, runBeside): large ones lie as their neighbours do."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def correlate(x, y, out, n, shift, R: tl.constexpr, C: tl.constexpr):
    where = tl.arange(0, R)[:, None] * n + tl.arange(0, C)[None, :]
    tl.store(out + tl.arange(0, R), tl.sum(tl.load(x + where) * tl.load(y + where + shift), axis=1))


def compiled(rows, shift):
    x, out = np.zeros((rows, 128), np.float32), np.zeros(rows, np.float32)
    return correlate.warmup(x, np.zeros(rows * 128 + 16, np.float32), out, 128, shift, rows, 128, grid=(1,), device="sim").compile_for("sm_90a").stage("gpu")


# Two tiles of 64 registers each, of which one crosses shared memory, are both held at the barrier.
@pytest.mark.parametrize("rows", [64, 128])
def test_large_tiles_do_not_cross_shared_memory(rows):
    text = compiled(rows, 3)
    assert text.count(" load ") == 2 and not re.search(rf"convert .*tensor<{rows}x128xf32", text)
    assert "vec = 4" in text  # of the one that has vectors


def test_small_tiles_are_coalesced_each():
    assert re.search(r"convert .*tensor<16x128xf32", compiled(16, 3))


@tegula.jit
def taps(x, w, out, n, R: tl.constexpr, C: tl.constexpr, TAPS: tl.constexpr):
    rows, columns = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    total = tl.zeros((R, C), tl.float32)
    for k in tl.static_range(TAPS):
        total += tl.load(w + rows * TAPS + k) * tl.load(x + rows * n + columns + k)
    tl.store(out + rows * C + columns, total)


# Each of the shifted tiles is small, but all that cross shared memory are held at once.
def test_several_shifted_tiles_do_not_cross_shared_memory():
    x, w, out = np.zeros((64, 128), np.float32), np.zeros((64, 7), np.float32), np.zeros((64, 64), np.float32)
    text = taps.warmup(x, w, out, 128, 64, 64, 7, grid=(1,), device="sim").compile_for("sm_90a").stage("gpu")
    assert not re.search(r"convert .*tensor<64x64xf32", text)


# One address for the consecutive elements of a thread, each of which is loaded alone.
def test_neighbours_share_an_address():
    x, w, out = np.zeros((64, 128), np.float32), np.zeros((64, 7), np.float32), np.zeros((64, 64), np.float32)
    ptx = taps.warmup(x, w, out, 128, 64, 64, 7, grid=(1,), device="sim").compile_for("sm_90a").asm["ptx"]
    x, shift, out = np.zeros((64, 128), np.float32), 3, np.zeros(64, np.float32)
    shifted = correlate.warmup(x, np.zeros(64 * 128 + 16, np.float32), out, 128, shift, 64, 128, grid=(1,), device="sim").compile_for("sm_90a").asm["ptx"]
    for text in (ptx, shifted):
        assert len(re.findall(r"ld\.global\.\w+\s.*\[%rd\d+\+12\]", text)) >= 16


def test_result_of_taps():
    rng = np.random.default_rng(3)
    x, w, out = rng.standard_normal((64, 128), np.float32), rng.standard_normal((64, 7), np.float32), np.zeros((64, 64), np.float32)
    taps[(1,)](x, w, out, 128, 64, 64, 7, device="sim")
    np.testing.assert_allclose(out, sum(w[:, k, None] * x[:, k:k + 64] for k in range(7)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows,shift", [(64, 3), (64, 16), (16, 5)])
def test_result(rows, shift):
    rng = np.random.default_rng(rows + shift)
    x, y, out = rng.standard_normal((rows, 128), np.float32), rng.standard_normal(rows * 128 + 16).astype(np.float32), np.zeros(rows, np.float32)
    correlate[(1,)](x, y, out, 128, shift, rows, 128, device="sim")
    np.testing.assert_allclose(out, (x * y[shift:shift + rows * 128].reshape(rows, 128)).sum(1), rtol=1e-4, atol=1e-4)


@tegula.jit
def product(x, y, out, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    total = tl.zeros((M, N), out.dtype.element_ty)
    for k in range(0, n, K):
        isIn = k + inner < n
        a = tl.load(x + rows * n + (k + inner)[None, :], mask=isIn[None, :], other=0)
        total = tl.dot(a, tl.load(y + (k + inner)[:, None] * N + columns, mask=isIn[:, None], other=0), total)
    tl.store(out + rows * N + columns, total)


# Rows of an odd length are loaded element by element, and stored to the tile of a product by words.
@pytest.mark.parametrize("dtype, total, word", [(np.float16, np.float32, 2), (np.int8, np.int32, 4)])
def test_products_of_odd_rows_store_words(dtype, total, word):
    n = 77
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((64, n), (n, 64)))
    out = np.zeros((64, 64), total)
    kernel = product[(1,)](x, y, out, n, 64, 64, 32 * word // 2, num_warps=4, device="sim")
    assert np.array_equal(out, x.astype(total) @ y.astype(total))
    ptx = kernel.compile_for("sm_90a").asm["ptx"]
    assert not re.search(r"st\.shared\.\w*(b8|u8|b16|u16)\b", ptx)
