# RUN: compile %s::k --sig 'x:*f32' --strict --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    v = tl.load(x + tl.arange(0, 16))
    tl.store(x + tl.arange(0, 4), v[0:4])
