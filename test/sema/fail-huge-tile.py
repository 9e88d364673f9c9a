# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    tl.store(x + tl.arange(0, 4194304), 0.0)
