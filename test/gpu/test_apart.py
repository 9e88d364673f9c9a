"""Accesses that have no element in common need no barrier between them (gpu/shared/ApartElements.h, ApartIterations.h)."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


def barriers(kernel):
    """In front of accesses to global memory, and all in the code."""
    gpu = kernel.compile_for("sm_90a").stage("gpu")
    return len(re.findall(r"shared_barrier\n\s*(?:%\S+ = load|store)", gpu))


@tegula.jit
def turned_heads(q_ptr, cos_ptr, sin_ptr, stride, HEADS: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr, APART: tl.constexpr):
    """Rotary embedding in place, four heads of a program one after the other."""
    row = tl.program_id(0)
    col = tl.arange(0, HALF)
    c, s = tl.load(cos_ptr + row * HALF + col), tl.load(sin_ptr + row * HALF + col)
    first = tl.program_id(1) * 4
    for head in range(first, min(first + 4, HEADS)):
        low = row * stride + head * D + col
        high = low + APART
        a, b = tl.load(q_ptr + low), tl.load(q_ptr + high)
        tl.store(q_ptr + low, a * c - b * s)
        tl.store(q_ptr + high, b * c + a * s)


@pytest.mark.parametrize("warps", [1, 2, 4])  # of two on copies of elements are in several threads
def test_halves(warps):
    rows, heads, d = 3, 8, 128
    rng = np.random.default_rng(1)
    q, c, s = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, heads, d), (rows, d // 2), (rows, d // 2)))
    a, b = q[..., :64].copy(), q[..., 64:].copy()
    kernel = turned_heads[(rows, heads // 4)](q, c, s, heads * d, heads, d, d // 2, d // 2, num_warps=warps, device="sim")
    c, s = c[:, None], s[:, None]
    np.testing.assert_allclose(q, np.concatenate([a * c - b * s, b * c + a * s], 2), rtol=1e-5, atol=1e-6)
    assert barriers(kernel) == 0
    # Heads that share elements, halves that do
    for wrong in ((heads, d - 1, d // 2, d // 2), (heads, d, d // 2, d // 2 - 1)):
        made = turned_heads.warmup(q, c, s, heads * d, *wrong, num_warps=warps, grid=(1, 1), device="sim")
        assert barriers(made) > 0


@tegula.jit
def columns(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, TURNED: tl.constexpr, MASKED: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    for start in range(0, N, BN):
        c = start + tl.arange(0, BN)[None, :]
        mask = (r < M) & (c < N) if MASKED else r < M
        at = c * N + r if TURNED else r * N + c
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask) + 1, mask)


def test_columns_of_rows():
    x = np.arange(20 * 40, dtype=np.float32).reshape(20, 40)
    out = np.zeros_like(x)
    kernel = columns[(3,)](x, out, 20, 40, 8, 16, False, True, num_warps=4, device="sim")
    assert np.array_equal(out, x + 1) and barriers(kernel) == 0
    made = lambda *how: columns.warmup(x, out, 20, 40, *how, num_warps=4, grid=(1,), device="sim")
    assert barriers(made(8, 16, False, False)) == 1  # columns beyond a row are those of the next one
    assert barriers(made(16, 16, True, True)) == 1  # the mask bounds columns, the address wants rows to be bounded


@tegula.jit
def columns_back(x_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """In place, the last columns first, and then some of the row before, which other threads have."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    for start in range(BN, -2 * BN, -BN):
        c = start + tl.arange(0, BN)[None, :]
        mask = (r < M) & (c < N)
        tl.store(x_ptr + r * N + c, tl.load(x_ptr + r * N + c, mask) + 1, mask)


def test_a_counter_that_goes_down_may_be_negative():
    kernel = columns_back.warmup(np.zeros((20, 40), np.float32), 20, 40, 8, 16, num_warps=4, grid=(1, ), device="sim")
    assert barriers(kernel) == 1


@tegula.jit
def kept(x_ptr, out_ptr, N: tl.constexpr, SUM: tl.constexpr):
    """Fewer elements than threads, in place."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x * 2)
    if SUM:
        tl.store(out_ptr, tl.sum(x))


def test_copies_without_use():
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    kernel = kept[(1,)](x, out, 64, False, num_warps=4, device="sim")
    assert np.array_equal(x, np.full(64, 2)) and barriers(kernel) == 0
    kernel = kept[(1,)](x, out, 64, True, num_warps=4, device="sim")
    assert out[0] == 128 and barriers(kernel) == 1  # a warp may sum what another one has stored already


@tegula.jit
def twice(x_ptr, out_ptr):
    at = tl.arange(0, 4)
    for i in tl.static_range(2):
        tl.store(out_ptr + i + at, tl.load(x_ptr + at))


def test_elements_of_other_ctas():
    """A CTA's part of a tile has nothing in common with its own part one element further on, but with the next CTA's."""
    x, out = np.arange(1, 5, dtype=np.float32), np.zeros(5, np.float32)
    twice[(1,)](x, out, num_ctas=4, device="sim")
    assert np.array_equal(out, [1, 1, 2, 3, 4])
