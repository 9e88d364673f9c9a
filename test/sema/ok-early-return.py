# RUN: compile %s::k --sig 'x:*i32, n:i32' --emit tile
import triton
import triton.language as tl


@triton.jit
def pick(n):
    if n > 3:
        if n > 7:
            return 2
        n += 1
    else:
        return 5
    return n


@triton.jit
def k(x, n):
    tl.store(x, pick(n))
