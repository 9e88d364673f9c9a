# compile: sizes(out:*i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def sizes(out):
    W: tl.constexpr = cuda.num_warps()
    tl.static_assert(cuda.num_threads() == W * 32)
    tl.store(out + tl.arange(0, W), cuda.num_threads())
