# compile: until(x:*i32:16, out:*i32:16, limit:i32, BLOCK:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def until(x, out, limit, BLOCK: tl.constexpr):
    """A loop whose end depends on what it computes."""
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    n = 0
    while tl.max(v, 0) < limit:
        v = v + v % 3 + 1
        n += 1
    tl.store(out + at, v)
    tl.store(out + BLOCK, n)
