# RUN: compile %s::k --sig 'x:*f32, n:i32' --emit tile
import triton
import triton.language as tl


@triton.jit
def f(n):
    return f(n + 1)


@triton.jit
def k(x, n):
    tl.store(x, f(n))
