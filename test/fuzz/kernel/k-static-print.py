# compile: k_static_print(out:*i32:16, N:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_static_print(out, N: tl.constexpr):
    tl.static_print("N is", N, tl.float32)
    tl.static_print(f"twice: {N * 2}")
    x = tl.zeros([N], tl.int32)
    tl.static_print(x.shape[0], x.dtype, sep="/")
    tl.store(out, 1)
