# compile: phases(x:*i32:16, y:*i32:16, n:i32:16, steps:*i32:16, BLOCK:128)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def phases(x, y, n, steps, BLOCK: tl.constexpr):
    """Every step reads what other CTAs wrote in the step before; the number of steps comes from memory."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    other = tl.program_id(0) * BLOCK + (tl.arange(0, BLOCK) + BLOCK // 2 + 1) % BLOCK
    count = tl.load(steps + tl.program_id(0))
    for i in range(count):
        v = tl.load(x + other)
        tl.debug_barrier()
        tl.store(x + at, v + 1)
        if i % 2 == 1:
            tl.store(y + tl.program_id(0), i)
    tl.store(steps + tl.program_id(0), -count)
