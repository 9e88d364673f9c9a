# compile: k_constexpr_function(out:*i32:16, N:8)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@tegula.constexpr_function
def log2_of(n):
    r = 0
    while n > 1:
        n //= 2
        r += 1
    return r
@triton.jit
def k_constexpr_function(out, N: tl.constexpr):
    k: tl.constexpr = log2_of(N)
    tl.static_assert(k == 3)
    tl.store(out + tl.arange(0, 2**k), k)
