# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    a = tl.arange(0, 64)
    b = tl.arange(0, 32)
    tl.store(x + a, a + b)
