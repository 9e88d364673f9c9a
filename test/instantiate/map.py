# instantiate: mapped(x: *i32)
import triton
import triton.language as tl


@triton.jit
def branches(a, b):
    if a > b:
        return a * 2
    else:
        return b


@triton.jit
def loops(a):
    n = 0
    while a > 1:
        a = a // 2
        n += 1
    return n


@triton.jit
def pairs(a, b):
    return b, a


@triton.jit
def mapped(x):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    tl.store(x + i, tl.map_elementwise(branches, v, i))
    tl.store(x + i, tl.map_elementwise(loops, v))
    tl.store(x + i, tl.map_elementwise(pairs, v, pack=2)[0])
