# compile: k_hints(out:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_hints(out, n):
    i = tl.arange(0, 8)
    j = tl.multiple_of(i * 8, [8])
    k = tl.max_contiguous(i, [8])
    m = tl.max_constancy(i // 4, [4])
    tl.multiple_of(n, 2)
    tl.assume(n >= 0)
    tl.debug_barrier()
    tl.store(out + i, j + k + m + n)
