# instantiate: default(x: *fp32, n: i32)
# instantiate: wrong(x: *fp32, n: i32)
# instantiate: helpers(x: *fp32, n: i32)
# instantiate: forever(x: *fp32, n: i32)
# instantiate: explosion(x: *fp32, n: i32)
# instantiate: noinlined(x: *fp32, n: i32)
# instantiate: inner(x: *fp32, n: i32)
# instantiate: library(x: *fp32, n: i32)
# instantiate: unused(x: *fp32, n: i32)
# instantiate: nested(x: *fp32, n: i32)
# instantiate: unbound(x: *fp32)
from collections import namedtuple
import triton
import triton.language as tl

Pair = namedtuple("Pair", "a b")


@triton.jit
def add(a, b=1, *, scale=1):
    return (a + b) * scale


@triton.jit
def wrong(x, n):
    v = tl.load(x, masks=None)
    tl.store(x)
    tl.store(x, 1.0, pointer=x)
    tl.arange(0, 16, 32, 64)
    n(3)
    tl.float32(n)
    (1, 2)(3)
    tl.load(*n)
    tl.load(**n)
    Pair(1)
    tl.store(x, Pair(1, c=2))


@triton.jit
def helpers(x, n):
    add()
    add(n, 1, 2)
    add(n, scael=2)
    add(n, a=2)


@triton.jit
def runaway(n):
    return runaway(n + 1)


@triton.jit
def forever(x, n):
    tl.store(x, runaway(n))


@triton.jit
def twice(n):
    return twice(n) + twice(n)


@triton.jit
def explosion(x, n):
    tl.store(x, twice(n))


@triton.jit(noinline=True)
def scalar_only(v):
    return v


@triton.jit(noinline=True)
def itself(v):
    return itself(v)


@triton.jit
def noinlined(x, n):
    scalar_only(tl.arange(0, 16))
    itself(n)


@triton.jit
def exponential(v):
    return tl.exp(v)


@triton.jit
def middle(v):
    return exponential(v) + 1


@triton.jit
def inner(x, n):
    tl.store(x, middle(n))


@triton.jit
def library(x, n):
    v = tl.load(x + tl.arange(0, 16))
    tl.store(x, tl.argmax(v, 3))
    tl.store(x, tl.xor_sum(v, 0))


@triton.must_use_result("store it")
@triton.jit
def precious(n):
    return n + 1


@triton.jit
def unused(x, n):
    precious(n)


@triton.jit
def odd(a, b=open("file")):
    return a


@triton.jit
def default(x, n):
    tl.store(x, odd(n, 1))
    tl.store(x, odd(n))


@triton.jit
def branches(x, n, DEPTH: tl.constexpr):
    if n > DEPTH:
        if n != DEPTH * 2:
            tl.store(x, DEPTH)
            if DEPTH > 0:
                branches(x, n, DEPTH - 1)


@triton.jit
def nested(x, n):
    branches(x, n, 190)


@triton.jit
def unbound(x, n):
    tl.store(x, n)
