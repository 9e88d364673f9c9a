# compile: k_function_values(out:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def h_add(x, y):
    return x + y
@triton.jit
def h_mul(x, y):
    return x * y
@triton.jit
def h_apply(fn, x, y):
    return fn(x, y)
@triton.jit
def k_function_values(out, n, FN: tl.constexpr = h_add):
    fns = (h_add, h_mul)
    tl.store(out, FN(n, 3))
    tl.store(out + 1, h_apply(FN, n, 4))
    for i in tl.static_range(2):
        tl.store(out + 2 + i, fns[i](n, 5))
