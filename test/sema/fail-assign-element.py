# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    v = tl.zeros((16,), tl.float32)
    v[0] = 1.0
    tl.store(x + tl.arange(0, 16), v)
