# check: strict
import os
import triton
import triton.language as tl

SIZE = 16


def plain(v):
    return v


@triton.jit
def k(x, n):
    for i in range(n):
        if i > SIZE:
            break
        if i > 2:
            return
    a = b = 1
    x[0] = 1 < n < 2
    tl.store(x, misspelt)
    tl.store(x, tl.lod(x), maks=None)
    tl.store(x, plain(os.environ))
    try:
        pass
    finally:
        pass
    f = lambda v: v


@triton.jit
def fine(x, n):
    tl.store(x, tl.sum(tl.load(x + tl.arange(0, 16)), axis=0) if n > 0 else 0.0)
