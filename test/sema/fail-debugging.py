# RUN: compile %s::kernel --sig 'x:*f32' --emit tile
import triton
import triton.language as tl


def show(x):
    print(x)


@triton.jit
def kernel(x):
    v = tl.load(x)
    breakpoint()
    print(v)
    show(v)
