# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def kernel(x):
    tl.store(x, 1.0)
