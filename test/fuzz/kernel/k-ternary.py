# compile: k_ternary(out:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_ternary(out, n):
    a = 1 if n > 3 else 2
    b = tl.arange(0, 4) if n > 3 else tl.zeros([4], tl.int32)
    tl.store(out, a)
    tl.store(out + 1, tl.sum(b))
    tl.store(out + 2, 7) if n == 5 else tl.store(out + 3, 8)
    c = undefined if out is None else 9
    tl.store(out + 4, c)
