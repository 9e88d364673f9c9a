# compile: k_walrus(out:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_walrus(out, n):
    if (m := n * 2) > 5:
        tl.store(out, m)
    tl.store(out + 1, m)
    tl.store(out + 2, (q := n + 1) * q)
