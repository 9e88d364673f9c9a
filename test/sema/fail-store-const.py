# RUN: compile %s::k --sig 'x:*kf32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    tl.store(x, 1.0)
