# instantiate: reductions(x: *fp32, n: i32)
# instantiate: lookups(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def less(a, b):
    return a < b


@triton.jit
def pair(a, b):
    return a, b


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def reductions(x, n):
    v = tl.zeros([8], tl.float32)
    a = tl.reduce(v, 0, less)
    b = tl.reduce(v, 0, pair)
    c = tl.reduce((v, tl.zeros([4], tl.float32)), 0, add)
    d = tl.reduce(n, 0, add)
    e = tl.associative_scan(n, 0, add)
    f = tl.reduce(v, 1, add)
    g = tl.reduce((), 0, add)
    h = tl.sum(v, axis=n)


@triton.jit
def lookups(x, n):
    v = tl.zeros([8], tl.float32)
    m = tl.arange(0, 8).reshape([2, 4])
    a = tl.histogram(v, 8)
    b = tl.histogram(m, 8)
    c = tl.histogram(tl.arange(0, 8), n)
    d = tl.histogram(tl.arange(0, 8), 8, mask=v)
    e = tl.histogram(tl.arange(0, 8), 8, mask=tl.arange(0, 16) < n)
    f = tl.gather(v, v, 0)
    g = tl.gather(v, m, 0)
    h = tl.gather(m, tl.zeros([4, 4], tl.int32), 1)
