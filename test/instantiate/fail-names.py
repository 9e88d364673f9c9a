# instantiate: misspelt(x: *fp32, n: i32)
# instantiate: later(x: *fp32, n: i32)
# instantiate: one_arm(x: *fp32, n: i32)
# instantiate: in_loop(x: *fp32, n: i32)
# instantiate: global_int(x: *fp32)
# instantiate: attributes(x: *fp32, n=1)
# instantiate: host_only(x: *fp32, n: i32)
# instantiate: after_loop(x: *fp32, n: i32)
# instantiate: calls_a_library(x: *fp32)
import numpy as np
import triton
import triton.language as tl

SIZE = 16
ANNOTATED: tl.constexpr = 4


def plain(v):
    return v


@triton.jit
def misspelt(x, n):
    offsets = tl.arange(0, 16)
    tl.store(x + ofsets, 1.0, mask=offsets < N)
    tl.store(y + ofsets, 1.0)
    tl.store(x, exp2(n))
    tl.store(x, exp(1.0))


@triton.jit
def later(x, n):
    tl.store(x + total, 1.0)
    total = n


@triton.jit
def one_arm(x, n):
    if n > 0:
        v = 1.0
    tl.store(x, v)
    tl.store(x, v)


@triton.jit
def in_loop(x, n):
    for i in range(n):
        last = i
    tl.store(x, last)


@triton.jit
def global_int(x):
    tl.store(x + tl.arange(0, SIZE), ANNOTATED)


@triton.jit
def attributes(x, n):
    tl.store(x, tl.lod(x))
    tl.store(x, n.to(tl.float32))
    tl.store(x, x.foo)
    tl.store(x, tl.float31)
    tl.store(x, x.shape[0])


@triton.jit
def host_only(x, n):
    tl.store(x, np.sqrt(n))
    tl.store(x, plain(n))
    tl.store(x, triton.autotune(n))
    tl.store(x, tl.tanh(1.0))
    tl.store(x, tl.libdevice.tanh(1.0))
    tl.store(x, tl.math.asinh(1.0))
    l = [n]
    l.append(n)
    tl.store(x, x[n])
    tl.store(x + 1.5, tl.arange(0, 4.0))


@triton.jit
def after_loop(x, n):
    for i in range(n):
        tl.store(x + i, 0.0)
    tl.store(x + i, 1.0)
    undefined


@triton.jit
def calls_a_library(x):
    tl.store(x, tl.core.extern_elementwise("libdevice", "", [tl.load(x)], (), is_pure=True))
