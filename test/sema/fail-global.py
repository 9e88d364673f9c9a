# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    tl.store(x, SIZE)


SIZE = 3
