# instantiate: bad(x: *fp32, i: *i32, n: i32)
import triton
import triton.language as tl


@triton.jit
def block(a):
    return a + tl.arange(0, 4)


@triton.jit
def both(a, b):
    return a, b


@triton.jit
def mixed(a, b):
    return a, b.to(tl.float64)


@triton.jit
def three(a, b):
    return a, b, a


@triton.jit
def nothing(a):
    a + 1


@triton.jit
def prints(p):
    if p.to(tl.int64) > 5:
        tl.device_print("p", p)
    return p


@triton.jit
def sums(a):
    return a + tl.sum(tl.arange(0, 4))


@triton.jit
def bad(x, i, n):
    v = tl.load(x + tl.arange(0, 8))
    tl.map_elementwise(block, v)
    tl.map_elementwise(both, v)
    tl.map_elementwise(nothing, v)
    tl.map_elementwise(both, v, pack=4)
    tl.map_elementwise(both, v, pack=3)
    tl.map_elementwise(both, v, pack=n)
    tl.map_elementwise(mixed, v, pack=2)
    tl.map_elementwise(three, v, pack=2)
    tl.map_elementwise(both)
    tl.map_elementwise(both, v, tl.arange(0, 4))
    tl.map_elementwise(5, v)
    tl.map_elementwise(prints, i + tl.arange(0, 4))
    tl.map_elementwise(sums, v)
    tl.map_elementwise(block, n)
