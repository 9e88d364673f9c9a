# compile: k_assert(out:*i32:16, x:*i32:16, N:4)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_assert(out, x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_assert(v < 100, "too large")
    assert tl.max(v, 0) != 50, "fifty"
    tl.device_assert(v > 0, "masked", mask=v != 0)
    tl.store(out, 1)
