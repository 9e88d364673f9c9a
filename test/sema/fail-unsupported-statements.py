# RUN: compile %s::k --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x):
    try:
        tl.store(x, 1.0)
    except ValueError:
        pass
    f = lambda a: a + 1
    d = {"a": 1}
    import math
    a = b = 3
    with open("f") as g:
        pass
