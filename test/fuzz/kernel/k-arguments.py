# compile: k_arguments(out:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def h_default(x, a=2, b: tl.constexpr = 3, *rest):
    r = x * a + b
    for i in tl.static_range(len(rest)):
        r += rest[i] * 100
    return r
@triton.jit
def k_arguments(out, n):
    t = (n, 5)
    tl.store(out, h_default(n))
    tl.store(out + 1, h_default(n, 4))
    tl.store(out + 2, h_default(b=n, x=n))
    tl.store(out + 3, h_default(*t))
    tl.store(out + 4, h_default(n, 1, 1, 1, n))
