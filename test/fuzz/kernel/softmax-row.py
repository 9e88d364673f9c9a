# compile: softmax_row(x:*fp32:16, out:*fp32:16, n:i32, BLOCK:1024)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def softmax_row(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, e / tl.sum(e, 0), at < n)
