"""Rows whose offsets are computed in 64 bits: a thread computes the address of its first row, and has the others by additions."""
import re

import numpy as np
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
