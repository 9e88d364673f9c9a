# RUN: compile %s::k --strict --sig 'x:*f32' -c BLOCK=100 --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)
