# compile: k_returns(out:*i32:16, n:i32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def h_two(x):
    return x + 1, x * 2
@triton.jit
def h_early(x):
    if x > 5:
        return x * 10
    if x > 3:
        return x * 100
    return -x
@triton.jit
def h_constant(FLAG: tl.constexpr):
    if FLAG:
        return 16
    else:
        return 8
@triton.jit
def h_factorial(n: tl.constexpr):
    if n <= 1:
        return 1
    else:
        return n * h_factorial(n - 1)
@triton.jit
def h_nothing(out, v):
    tl.store(out + 5, v)
@triton.jit
def k_returns(out, n):
    a, b = h_two(n)
    tl.store(out, a + b)
    tl.store(out + 1, h_early(n))
    tl.store(out + 2, tl.sum(tl.arange(0, h_constant(True))))
    tl.store(out + 3, h_factorial(5))
    tl.store(out + 4, h_two(n)[1])
    h_nothing(out, n)
