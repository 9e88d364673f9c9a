# compile: turned(a:tensordesc<fp32[16]>, b:tensordesc<fp32[16]>, START:0, ADD:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def turned(a, b, START: tl.constexpr, ADD: tl.constexpr):
    """The block of a at START in every dimension with its dimensions reversed, stored to b there."""
    RANK: tl.constexpr = len(a.block_shape)
    all: tl.constexpr = (START, START, START, START, START)
    order: tl.constexpr = (4, 3, 2, 1, 0)
    x = a.load(all[:RANK])
    if RANK == 1:
        y = tl.cumsum(x, 0)
    else:
        y = x.permute(order[5 - RANK:])
    if ADD:
        b.atomic_add(all[:RANK], y)
    else:
        b.store(all[:RANK], y)
