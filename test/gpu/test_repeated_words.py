"""Words that neighbours share (`k // 8`) are loaded once (NarrowLoads.h), however the quotient is spelled."""
import re

import numpy as np
import pytest

import tegula
import tegula.language as tl


@tegula.jit
def gptq(a_ptr, b_ptr, scales_ptr, zeros_ptr, c_ptr, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Eight weights along k in a word, pointers that move; the zeros of all columns are loaded as a tile, too."""
    m, n, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + (k[:, None] // 8) * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        scale = tl.load(scales_ptr + ((k0 + k) // G)[:, None] * N + n[None, :])
        zero = tl.load(zeros_ptr + (k0 + k[:, None]) // G * (N // 8) + n[None, :] // 8)
        w = ((b >> (k % 8 * 4)[:, None]) & 15) - ((zero >> (n % 8 * 4)[None, :]) & 15)
        acc = tl.dot(a, w.to(a.dtype) * scale, acc)
        a_ptrs += BK
        b_ptrs += BK // 8 * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@tegula.jit
def rows_of_words(a_ptr, b_ptr, scales_ptr, zeros_ptr, c_ptr, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The words of a column lie in a row (N x K / 8), turned behind the load; shifts for quotients, a table for the values."""
    m, n = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.cdiv(K, BK)):
        k = i * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(b_ptr + n[:, None] * (K >> 3) + (k >> 3)[None, :], mask=k[None, :] < K, other=0)
        z = tl.load(zeros_ptr + (i * BK // G) * (N // 8) + n // 8)
        scale = tl.load(scales_ptr + (i * BK // G) * N + n)
        w = ((b >> ((k & 7) << 2)[None, :]) & 15) - ((z >> (n % 8 * 4)) & 15)[:, None]
        acc += tl.dot(a, tl.trans(w.to(a.dtype) * scale[:, None]))
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


def weights(rng, N, K, G):
    codes, zeros = rng.integers(0, 16, (K, N), dtype=np.uint32), rng.integers(0, 16, (K // G, N), dtype=np.uint32)
    scales = rng.integers(1, 4, (K // G, N)).astype(np.float16)
    words = sum(codes[i::8] << np.uint32(4 * i) for i in range(8)).view(np.int32)
    zero_words = sum(zeros[:, i::8] << np.uint32(4 * i) for i in range(8)).view(np.int32)
    return words, scales, zero_words, (codes.astype(np.float32) - np.repeat(zeros, G, 0).astype(np.float32)) * np.repeat(scales, G, 0)


@pytest.mark.parametrize("kernel", [gptq, rows_of_words])
@pytest.mark.parametrize("BM,BN,BK,G,warps", [(16, 64, 64, 32, 4), (64, 64, 64, 64, 4), (16, 32, 128, 64, 2), (128, 128, 32, 32, 8)])
def test_words_of_neighbours_are_loaded_once(kernel, BM, BN, BK, G, warps):
    rng = np.random.default_rng(BN + BK)
    G = G if kernel is gptq else max(G, BK)
    N, K = 2 * BN, 3 * BK if BK % G == 0 else 4 * BK
    words, scales, zeros, w = weights(rng, N, K, G)
    words = words if kernel is gptq else np.ascontiguousarray(words.T)
    a, c = rng.integers(-3, 4, (BM, K)).astype(np.float16), np.zeros((BM, N), np.float32)
    kernel[(2,)](a, words, scales, zeros, c, N, K, G, BM, BN, BK, device="sim", num_warps=warps, num_stages=3)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ w)
    text = kernel.warmup(a, words, scales, zeros, c, N, K, G, BM, BN, BK, grid=(2,), device="sim", num_warps=warps, num_stages=3).compile_for("sm_90a").stage("gpu")
    rows, columns = (BK // 8, BN) if kernel is gptq else (BN, BK // 8)
    assert f"shared<{rows}x{columns}xi32" in text
    assert not re.search(rf"load [^\n]*tensor<({BK}x{BN}|{BN}x{BK})xi32", text)


@tegula.jit
def by_table(a_ptr, b_ptr, table_ptr, c_ptr, N, K, LAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two codes in a byte, whose values a table has."""
    m, n, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, LAST, BK):
        a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :])
        code = tl.load(b_ptr + n[None, :] * (K // 2) + ((k0 + k) // 2)[:, None], mask=(k0 + k)[:, None] < LAST, other=0)
        code = (code >> ((k % 2) * 4).to(tl.uint8)[:, None]) & 15
        acc = tl.dot(a, tl.load(table_ptr + code.to(tl.int32)).to(a.dtype), acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("last,narrow", [(192, True), (161, False)])
def test_bytes_of_codes_are_vectors_unless_a_mask_parts_them(last, narrow):
    rng = np.random.default_rng(last)
    N, K = 128, 192
    codes, table = rng.integers(0, 16, (N, K), dtype=np.uint8), rng.integers(-8, 9, 16).astype(np.float32)
    a, c = rng.integers(-3, 4, (16, K)).astype(np.float16), np.zeros((16, N), np.float32)
    b = codes[:, ::2] | codes[:, 1::2] << 4
    args = (a, b, table, c, N, K, last, 16, 64, 64)
    by_table[(2,)](*args, device="sim", num_warps=4, num_stages=3)
    codes[:, last:] = 0
    np.testing.assert_array_equal(c, a.astype(np.float32) @ table[codes].T)
    text = by_table.warmup(*args, grid=(2,), device="sim", num_warps=4, num_stages=3).compile_for("sm_90a").stage("gpu")
    assert (re.search(r"load [^\n]*\{vec = 8\} : tensor<32x64xi8", text) is not None) == narrow
