# compile: add(x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32, BLOCK:1024)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask, other=1.0), mask)
