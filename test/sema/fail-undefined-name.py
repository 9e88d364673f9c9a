# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    offsets = tl.arange(0, 16)
    tl.store(out + offsets, 1.0)
    tl.store(x + offset, 1.0)
