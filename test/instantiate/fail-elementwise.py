# instantiate: functions(x: *fp32, h: fp16, f: fp32, d: fp64, n: i32)
# instantiate: hints(x: *fp32, n: i32)
# instantiate: warnings(x: *fp32, n: i32)
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def functions(x, h, f, d, n):
    a = tl.exp(h)
    b = tl.sqrt_rn(d)
    c = tl.umulhi(h, h)
    e = tl.fdiv(d, 2.0, approx=True)
    g = tl.fdiv(h, f, ieee_rounding=True, approx=True)
    i = tl.fdiv(n, n)
    j = tl.fma(n, n, n)
    k = tl.div_rn(d, d)
    l = tl.maximum(f, f, propagate_nan=True)
    m = tl.abs(x)
    o = n.sqrt()
    p = libdevice.popc(f)


@triton.jit
def hints(x, n):
    v = tl.arange(0, 8)
    a = tl.multiple_of(v, n)
    b = tl.multiple_of(v, 0)
    c = tl.max_contiguous(v, [1, 2])
    d = tl.max_constancy(n, [1, 2])


@triton.jit
def warnings(x, n):
    v = tl.arange(0, 8)
    tl.store(x + v, tl.where(v, 1.0, 2.0))
    tl.store(x + v, max(v, n))
