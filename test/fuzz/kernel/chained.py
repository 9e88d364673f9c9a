# compile: chained(x:*i32:16, y:*i32:16, n:i32, BLOCK:512)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def chained(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cuda.gdc_wait()
    v = tl.load(x + i, mask=i < n)
    cuda.gdc_launch_dependents()
    tl.store(y + i, v * 2 + 1, mask=i < n)
