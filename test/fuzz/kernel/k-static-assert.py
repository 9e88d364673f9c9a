# compile: k_static_assert(out:*i32:16, N:3)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_static_assert(out, N: tl.constexpr):
    tl.static_assert(N == 3, "N must be three")
    tl.store(out, 1)
