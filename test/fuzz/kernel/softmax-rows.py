# compile: softmax_rows(x:*fp32:16, out:*fp32:16, rows:i32, n:i32, R:16, BLOCK:128)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def softmax_rows(x, out, rows, n, R: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, BLOCK)
    mask = (row < rows)[:, None] & (at < n)[None, :]
    where = row[:, None] * n + at[None, :]
    v = tl.load(x + where, mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(out + where, e / tl.sum(e, 1)[:, None], mask)
