# compile: k_numbers(out:*fp32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_numbers(out):
    tl.store(out, libdevice.atan2(1.0, 2.0))
    tl.store(out + 1, libdevice.pow(2.0, 10))
    tl.store(out + 2, libdevice.fast_powf(triton.language.load(out + 7) + 3.0, 2.0))
