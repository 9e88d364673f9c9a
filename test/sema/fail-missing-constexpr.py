# RUN: compile %s::k --sig 'x:*f32, n:i32, BLOCK:i32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, n, BLOCK):
    offs = tl.arange(0, BLOCK)
    tl.store(x + offs, 0.0, mask=offs < n)
