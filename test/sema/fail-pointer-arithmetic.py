# RUN: compile %s::k --sig 'x:*f32, y:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, y):
    tl.store(x + y, 1.0)
    tl.store(x + 0.5, 1.0)
