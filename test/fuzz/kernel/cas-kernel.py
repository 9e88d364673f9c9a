# compile: cas_kernel(x:*i32:16, cmp:*i32:16, val:*i32:16, old:*i32:16, N:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def cas_kernel(x, cmp, val, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_cas(x + i, tl.load(cmp + i), tl.load(val + i)))
