"""Tiles that asynchronous dots read along the contraction, where memory has them the other way round: words (TF32, B row-major) are loaded in blocks that threads turn (dealtInBlocks of layout/Constructors.h), bytes are
turned by matrix moves (dealtForTurns)."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.tools.tensor_descriptor import TensorDescriptor


@tegula.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, a_row, a_column, b_row, b_column, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * a_row + (i + k)[None, :] * a_column, mask=(rows[:, None] < M) & (i + k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + (i + k)[:, None] * b_row + columns[None, :] * b_column, mask=(columns[None, :] < N) & (i + k < K)[:, None], other=0.0)
        acc = tl.dot(a.to(tl.float32), b.to(tl.float32), acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


@tegula.jit
def of_bytes(a_ptr, b_ptr, c_ptr, M, N, K, a_row, a_column, b_row, b_column, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), SUM)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * a_row + (i + k)[None, :] * a_column, mask=(rows[:, None] < M) & (i + k < K)[None, :], other=0)
        b = tl.load(b_ptr + (i + k)[:, None] * b_row + columns[None, :] * b_column, mask=(columns[None, :] < N) & (i + k < K)[:, None], other=0)
        acc = tl.dot(a, b, acc, out_dtype=SUM)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


@tegula.jit
def once(a_ptr, b_ptr, c_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """No loop: through shared memory and not from a ring; B made of nibbles."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * BK + k[None, :])
    b = tl.load(b_ptr + k[:, None] * BN + n[None, :])
    tl.store(c_ptr + m[:, None] * BN + n[None, :], tl.dot(a, (b & 15) - 8, out_dtype=tl.int32))


@tegula.jit
def by_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc)


@tegula.jit
def of_transposes(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles that are loaded as memory has them, and turned by tl.trans."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        a = tl.load(a_ptr + (i + k)[:, None] * BM + m[None, :])
        b = tl.load(b_ptr + n[:, None] * K + (i + k)[None, :])
        acc = tl.dot(tl.trans(a), tl.trans(b), acc)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], acc)


def whole(rng, *shape):
    """Products of small numbers are exact in TF32."""
    return rng.integers(-8, 9, shape).astype(np.float32)


def strided(x, is_turned):
    """Of the same elements: (an array, its row step, its column step)."""
    y = np.ascontiguousarray(x.T) if is_turned else np.ascontiguousarray(x)
    return (y, 1, y.shape[1]) if is_turned else (y, y.shape[1], 1)


TILES = [(128, 128, 32, 8), (64, 64, 32, 4), (64, 128, 64, 4), (128, 64, 16, 8), (64, 32, 8, 4)]


@pytest.mark.parametrize("BM,BN,BK,warps", TILES)
@pytest.mark.parametrize("turns", ["nn", "nt", "tn", "tt"])
def test_products(BM, BN, BK, warps, turns):
    rng = np.random.default_rng(BM + BN + BK)
    M, N, K = BM + 8, BN + 24, 3 * BK + 8
    a, b = whole(rng, M, K), whole(rng, K, N)
    (pa, ar, ac), (pb, br, bc) = strided(a, turns[0] == "t"), strided(b, turns[1] == "t")
    c = np.zeros((M, N), np.float32)
    product[(2, 2)](pa, pb, c, M, N, K, ar, ac, br, bc, BM, BN, BK, device="sim", num_warps=warps)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("BM,BN,BK,warps", TILES)
def test_descriptors(BM, BN, BK, warps):
    rng = np.random.default_rng(BM + BN + BK)
    a, b, c = whole(rng, BM, 4 * BK), whole(rng, 4 * BK, 2 * BN), np.zeros((BM, 2 * BN), np.float32)
    by_descriptors[(1, 2)](TensorDescriptor(a, a.shape, [a.shape[1], 1], [BM, BK]), TensorDescriptor(b, b.shape, [b.shape[1], 1], [BK, BN]), TensorDescriptor(c, c.shape, [c.shape[1], 1], [BM, BN]), 4 * BK, BM, BN, BK, device="sim", num_warps=warps)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("BM,BN,BK,warps", TILES)
def test_transposes(BM, BN, BK, warps):
    rng = np.random.default_rng(BM + BN + BK)
    a, b, c = whole(rng, 2 * BK, BM), whole(rng, BN, 2 * BK), np.zeros((BM, BN), np.float32)
    of_transposes[(1,)](a, b, c, 2 * BK, BM, BN, BK, device="sim", num_warps=warps)
    np.testing.assert_array_equal(c, a.T @ b.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_path(dtype):
    """Each thread stores vectors of four words, and none word by word. (Were both of float16, they would stay so: WidenDots.h.)"""
    a, b = np.zeros((256, 256), np.float32), np.zeros((256, 256), dtype)
    kernel = product.warmup(a, b, np.zeros((256, 256), np.float32), 256, 256, 256, 256, 1, 256, 1, 128, 128, 32, grid=(2, 2), device="sim", num_warps=8, num_stages=3)
    loop = kernel.compile_for("sm_90a").stage("ptx")
    loop = loop[:loop.rindex("wgmma.wait_group")]
    assert "wgmma" in loop and len(re.findall(r"st\.shared\.v4\.[bf]32", loop)) >= 4
    assert not re.search(r"st\.shared\.[bf]32", loop)


@tegula.jit
def linear_attention(q_ptr, k_ptr, v_ptr, o_ptr, steps, D: tl.constexpr, BLOCK: tl.constexpr, E: tl.constexpr):
    """k is read along the contraction by one dot, across it by another one."""
    rows, d, e = tl.arange(0, BLOCK), tl.arange(0, D), tl.arange(0, E)
    state = tl.zeros((D, E), tl.float32)
    for i in range(steps):
        at = i * BLOCK + rows
        q = tl.load(q_ptr + at[:, None] * D + d[None, :]).to(tl.float32)
        k = tl.load(k_ptr + at[None, :] * D + d[:, None]).to(tl.float32)
        v = tl.load(v_ptr + at[:, None] * E + e[None, :]).to(tl.float32)
        scores = tl.where(rows[:, None] >= rows[None, :], tl.dot(q, k), 0)
        tl.store(o_ptr + at[:, None] * E + e[None, :], tl.dot(scores, v) + tl.dot(q, state))
        state += tl.dot(k, v)


@pytest.mark.parametrize("D,BLOCK,E,warps", [(128, 64, 32, 4), (64, 64, 64, 4), (64, 64, 16, 8)])
def test_read_both_ways(D, BLOCK, E, warps):
    rng = np.random.default_rng(D + E)
    q, k = (rng.integers(-1, 2, (3 * BLOCK, D)).astype(np.float16) for _ in range(2))
    v, o = rng.integers(-1, 2, (3 * BLOCK, E)).astype(np.float16), np.zeros((3 * BLOCK, E), np.float32)
    linear_attention[(1,)](q, k, v, o, 3, D, BLOCK, E, device="sim", num_warps=warps)
    np.testing.assert_array_equal(o, np.tril(q.astype(np.float32) @ k.T.astype(np.float32)) @ v.astype(np.float32))
    loop = linear_attention.warmup(q, k, v, o, 3, D, BLOCK, E, grid=(1,), device="sim", num_warps=warps).compile_for("sm_90a").stage("ptx")
    words = re.findall(r"st\.shared\.[bf]32", loop)
    assert len(words) <= D * E // (32 * warps), "only the state, which dots have computed, is stored word by word"


BYTE_TILES = [(16, 64, 32, 1, 3), (16, 256, 64, 4, 3), (32, 32, 128, 4, 4), (128, 128, 64, 8, 3), (64, 64, 32, 4, 3), (64, 16, 64, 4, 2), (128, 256, 64, 8, 3), (64, 32, 128, 4, 4), (32, 64, 128, 4, 3), (16, 64, 64, 2, 3), (64, 64, 64, 8, 1)]


@pytest.mark.parametrize("BM,BN,BK,warps,stages", BYTE_TILES)
@pytest.mark.parametrize("turns", ["nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.float8_e4m3fn])
def test_bytes(BM, BN, BK, warps, stages, turns, dtype):
    rng = np.random.default_rng(BM + BN + BK)
    M, N, K = BM + 16, BN + 16, 3 * BK + 16
    a, b = (rng.integers(-7, 8, shape).astype(dtype) for shape in ((M, K), (K, N)))
    (pa, ar, ac), (pb, br, bc) = strided(a, turns[0] == "t"), strided(b, turns[1] == "t")
    c = np.zeros((M, N), np.int32 if dtype is np.int8 else np.float32)
    of_bytes[(2, 2)](pa, pb, c, M, N, K, ar, ac, br, bc, BM, BN, BK, tl.int32 if dtype is np.int8 else tl.float32, device="sim", num_warps=warps, num_stages=stages)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("BM,BN,BK,warps", [(64, 64, 64, 4), (128, 32, 32, 8), (64, 128, 128, 8)])
def test_bytes_once(BM, BN, BK, warps):
    rng = np.random.default_rng(BM + BN + BK)
    a, b, c = rng.integers(-128, 128, (BM, BK), np.int8), rng.integers(-128, 128, (BK, BN), np.int8), np.zeros((BM, BN), np.int32)
    once[(1,)](a, b, c, BM, BN, BK, device="sim", num_warps=warps)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ ((b & 15) - 8).astype(np.int32))


@pytest.mark.parametrize("BM,BN,BK,warps", [(128, 128, 64, 8), (64, 64, 32, 4), (64, 256, 64, 4)])
def test_byte_descriptors(BM, BN, BK, warps):
    rng = np.random.default_rng(BM + BN + BK)
    a, b = (rng.integers(-7, 8, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((BM, 4 * BK), (4 * BK, 2 * BN)))
    c = np.zeros((BM, 2 * BN), np.float32)
    by_descriptors[(1, 2)](TensorDescriptor(a, a.shape, [a.shape[1], 1], [BM, BK]), TensorDescriptor(b, b.shape, [b.shape[1], 1], [BK, BN]), TensorDescriptor(c, c.shape, [c.shape[1], 1], [BM, BN]), 4 * BK, BM, BN, BK, device="sim", num_warps=warps)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("turns", ["nn", "tt"])
def test_path_of_bytes(turns):
    """Matrix moves and one selection of bytes for each word."""
    x = np.zeros((256, 256), np.int8)
    (_, ar, ac), (_, br, bc) = strided(x, turns[0] == "t"), strided(x, turns[1] == "t")
    kernel = of_bytes.warmup(x, x, np.zeros((256, 256), np.int32), 256, 256, 256, ar, ac, br, bc, 128, 128, 64, tl.int32, grid=(2, 2), device="sim", num_warps=8, num_stages=3)
    text = kernel.compile_for("sm_90a").stage("ptx")
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans", text)) >= 2 and len(re.findall(r"stmatrix\.sync\.aligned\.m8n8\.x4\.shared", text)) >= 2
    assert not re.search(r"st\.shared\.[bu]8", text)


@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.float8_e4m3fn])
def test_path_of_fragments(dtype):
    """Of few rows, for mma.sync: matrix moves and exchanges between lanes, no bytes one by one."""
    x = np.zeros((256, 256), dtype)
    integers = dtype is np.int8
    kernel = of_bytes.warmup(x, x, np.zeros((256, 256), np.int32 if integers else np.float32), 256, 256, 256, 256, 1, 256, 1, 16, 64, 128, tl.int32 if integers else tl.float32, grid=(16, 4), device="sim", num_warps=4, num_stages=3)
    text = kernel.compile_for("sm_90a").stage("ptx")
    assert re.search(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans", text) and "shfl" in text and not re.search(r"ld\.shared\.[bu]8", text)
