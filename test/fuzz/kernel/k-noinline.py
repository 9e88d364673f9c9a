# compile: k_noinline(out:*i32:16, x:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit(noinline=True)
def n_power(x, n):
    r = 1
    for _ in range(n):
        r = r * x
    return r
@triton.jit(noinline=True)
def n_block(p, N: tl.constexpr):
    return tl.load(p + tl.arange(0, N))
@triton.jit
def k_noinline(out, x, n):
    tl.store(out, n_power(n, 3) + n_power(2, n))
    tl.store(out + 1, tl.sum(n_block(x, 8)))
