# RUN: compile %s::k --sig 'x:*f16' -c N=32 --emit tile
import triton
import triton.language as tl


@triton.jit
def scale(v, N: tl.constexpr):
    return tl.exp(v) + tl.arange(0, N)


@triton.jit
def k(x, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(x + o, scale(tl.load(x + o), N))
