# RUN: compile %s::k --sig 'x:*f32, n:i32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, n):
    if n > 0:
        v = tl.load(x)
    tl.store(x, v)
