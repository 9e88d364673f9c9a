# compile: k_target(out:*i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_target(out):
    if tl.target_info.is_cuda():
        tl.store(out, 1)
    else:
        tl.store(out, 2)
    tl.static_assert(not tl.target_info.is_hip())
