"""Rows whose offsets are computed in 64 bits: a thread computes the address of its first row, and has the others by additions."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def column_sums(x, out, N, D, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SUB: tl.constexpr):
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros([COLUMNS], dtype=tl.float32)
    for sub in range(0, ROWS, SUB):
        n = (tl.program_id(0) * ROWS + sub + tl.arange(0, SUB)).to(tl.int64)
        rows = x + n[:, None] * stride.to(tl.int64) + d[None, :]
        acc += tl.sum(tl.load(rows, mask=(n < N)[:, None] & (d < D)[None, :], other=0.0), axis=0)
    tl.atomic_add(out + d, acc, mask=d < D)


def arguments(rows, columns):
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) % 1024, np.zeros(columns, np.float32)


def test_rows_step_from_the_first():
    x, out = arguments(500, 192)
    kernel = column_sums.warmup(x, out, 496, 192, 192, 128, 128, 64, grid=(4, 2), device="sim", num_warps=4).compile_for("sm_90a")
    ptx = kernel.stage("ptx")
    # 16 rows of a thread; their masks are compared in 32 bits.
    assert len(re.findall(r"ld\.global.*v4", ptx)) == 16 and len(re.findall(r"mul\.(?:lo|wide)\.s(?:64|32)|mad\.(?:lo|wide)\.s(?:64|32)", ptx)) < 16
    assert not re.search(r"setp\.\w+\.s64", ptx)


def test_what_they_load():
    x, out = arguments(500, 192)
    column_sums[(4, 2)](x, out, 497, 191, 192, 128, 128, 64, device="sim", num_warps=4)
    want = x[:497].sum(0, dtype=np.float64)
    assert (out[:191] == want[:191]).all() and out[191] == 0


@tegula.jit
def product(a, b, c, M, N, K, stride_am, stride_bk, stride_cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_block = tl.make_block_ptr(a, (M, K), (stride_am, 1), (tl.program_id(0) * BM, 0), (BM, BK), (1, 0))
    b_block = tl.make_block_ptr(b, (K, N), (stride_bk, 1), (0, tl.program_id(1) * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(tl.load(a_block, boundary_check=(0, 1)), tl.load(b_block, boundary_check=(0, 1)))
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    c_block = tl.make_block_ptr(c, (M, N), (stride_cm, 1), (tl.program_id(0) * BM, tl.program_id(1) * BN), (BM, BN), (1, 0))
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))


def test_rows_of_a_pipelined_loop_are_not_computed_in_it():
    """Rows stand in registers, and one offset moves them: multiples of a stride in the loop are products, which the assembler puts between the wgmmas (0.86-0.93 of the speed)."""
    a = np.zeros((512, 512), np.float16)
    kernel = product.warmup(a, a, a, 512, 512, 512, 512, 512, 512, 128, 256, 64, grid=(4, 2), device="sim", num_warps=8, num_stages=3).compile_for("sm_90a")
    before, loop = kernel.stage("ptx").split("wgmma.fence", 1)
    loop = loop.split("wgmma.wait_group", 1)[0]
    assert loop.count("cp.async.cg") == 12
    multiples = set(re.findall(r"(?:mul\.wide\.s32|shl\.b64|mul\.lo\.s64)\s+(%rd\d+)", before))
    # The carried offset of b is moved on by one of them.
    assert sum("add.s64" in line and bool(multiples & set(re.findall(r"%rd\d+", line))) for line in loop.splitlines()) == 1


@tegula.jit
def scaled(x, out, cols, stride, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * stride
    y = tl.exp(tl.load(x + row + at, mask=at < cols, other=0.0).to(tl.float32)) * 0.5
    tl.store(out + row + at, y.to(out.dtype.element_ty), mask=at < cols)


def scaled_ptx(block, warps, columns):
    x = np.zeros((4, columns), np.float32)
    return scaled.warmup(x, np.zeros_like(x), columns, columns, block, grid=(4, 2), device="sim", num_warps=warps).compile_for("sm_90a").stage("ptx")


# Vectors along a line: one product, the other addresses are that one and a number.
@pytest.mark.parametrize("block, warps", [(4096, 4), (2048, 4), (8192, 8)])
def test_vectors_of_a_line_are_offsets_of_the_access(block, warps):
    ptx = scaled_ptx(block, warps, 16384)
    assert len(re.findall(r"ld\.global\.v4", ptx)) == len(re.findall(r"st\.global\.v4", ptx)) == block // 128 // warps
    assert len(re.findall(r"mul\.wide", ptx)) <= 3  # row, place, and the place of the row in the output


# A thread has seven predicates: more masks of vectors than six are not kept from the loads to the stores, but compared again.
@pytest.mark.parametrize("block, warps, columns, renewed", [(4096, 4, 16384, True), (8192, 4, 16384, True), (2048, 4, 16384, False), (4096, 8, 16384, False), (1024, 4, 16383, False)])
def test_masks_of_many_stores_are_their_own(block, warps, columns, renewed):
    ptx = scaled_ptx(block, warps, columns)
    masks = re.findall(r"@(%p\d+) (ld|st)\.global", ptx)
    loads, stores = ({p for p, what in masks if what == w} for w in ("ld", "st"))
    assert len(loads) == len(stores) == block // (128 if columns % 2 == 0 else 32) // warps
    assert (loads & stores == set()) == renewed and (loads == stores) != renewed and ("%nctaid.x" in ptx) == renewed


@tegula.jit
def products_of_shifted(x, y, out, H, W, C, stride_c, dy, dx, BH: tl.constexpr, BW: tl.constexpr, BC: tl.constexpr):
    """out[h, w] = sum over c of x[c, h, w] * y[c, h + dy, w + dx], 0 beyond the image: rows whose beginnings no power of two divides."""
    h = tl.program_id(0) * BH + tl.arange(0, BH)
    w = tl.program_id(1) * BW + tl.arange(0, BW)
    acc = tl.zeros((BH, BW), tl.float32)
    for first in range(0, C, BC):
        c = first + tl.arange(0, BC)
        inside = (h < H)[:, None, None] & (w < W)[None, :, None] & (c < C)[None, None, :]
        a = tl.load(x + c[None, None, :] * stride_c + h[:, None, None] * W + w[None, :, None], mask=inside, other=0.0)
        h2, w2 = h + dy, w + dx
        there = ((h2 >= 0) & (h2 < H))[:, None, None] & ((w2 >= 0) & (w2 < W))[None, :, None] & (c < C)[None, None, :]
        acc += tl.sum(a * tl.load(y + c[None, None, :] * stride_c + h2[:, None, None] * W + w2[None, :, None], mask=there, other=0.0), axis=2)
    tl.store(out + h[:, None] * W + w[None, :], acc, mask=(h < H)[:, None] & (w < W)[None, :])


def test_elements_of_a_row_are_offsets_of_the_access():
    h, w, c = 24, 32, 70
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-3, 4, (c, h, w)).astype(np.float32) for _ in range(2))
    out = np.zeros((h, w), np.float32)
    sizes = h, w, c, h * w, -2, 3, 16, 16, 64
    products_of_shifted[(2, 2)](x, y, out, *sizes, device="sim")
    want = np.zeros((h, w), np.float32)
    want[2:, :-3] = (x[:, 2:, :-3] * y[:, :-2, 3:]).sum(0)
    assert (out == want).all()
    ptx = products_of_shifted.warmup(x, y, out, *sizes, grid=(2, 2), device="sim").compile_for("sm_90a").stage("ptx")
    # Four elements of a row in a thread: one address, which the assembler takes with three numbers, too.
    assert len(re.findall(r"ld\.global\.b32", ptx)) == 128
    numbers = re.findall(r"add\.s64\s+%rd\d+, %rd\d+, (\d+);", ptx)
    assert all(numbers.count(n) >= 32 for n in ("4", "8", "12")) and len(re.findall(r"mul\.wide", ptx)) < 32
