# compile: k_decay(out:*i32:16, N:4)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_decay(out, N: tl.constexpr):
    n: tl.constexpr = N * 2
    tl.store(out + tl.arange(0, n), 1)
    t = (N, 3.5)
    tl.static_assert(t[1].dtype == tl.float32)
    m = N
    tl.static_assert(m.dtype == tl.int32)
