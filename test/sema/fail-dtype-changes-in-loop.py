# RUN: compile %s::k --sig 'x:*f32, n:i32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, n):
    acc = 0
    for i in range(n):
        acc += tl.load(x + i)
    tl.store(x, acc)
