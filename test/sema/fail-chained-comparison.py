# RUN: compile %s::k --sig 'x:*f32, n:i32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, n):
    i = tl.arange(0, 16)
    tl.store(x + i, 1.0, mask=0 <= i < n)
