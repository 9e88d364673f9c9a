# RUN: compile %s::k --sig 'x:*f32, n:i32' --strict --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, n):
    for i in range(n):
        if tl.load(x + i) > 0:
            return
    tl.store(x, 1.0)
