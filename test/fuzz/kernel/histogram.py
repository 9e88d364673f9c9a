# compile: histogram(x:*i32:16, out:*i32:16, n:i32, BLOCK:1024)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.arange(0, 16), tl.histogram(tl.load(x + at, at < n, other=0), 16, mask=at < n))
