# compile: order(x:*i32:16, sums:*i32:16, sorted_:*i32:16, last:*i32:16, BLOCK:256)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def order(x, sums, sorted_, last, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(v, 0))
    tl.store(sorted_ + at, tl.sort(v))
    tl.store(last + tl.program_id(0), tl.argmax(v, 0))
