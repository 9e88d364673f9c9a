# compile: add_wide(x:*fp16:16, v:*fp16:16, old:*fp16:16, n:i32:16, N:1024, SEM:'relaxed', OLD:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def add_wide(x, v, old, n, N: tl.constexpr, SEM: tl.constexpr, OLD: tl.constexpr):
    i = tl.arange(0, N)
    r = tl.atomic_add(x + i, tl.load(v + i), i < n, SEM)
    if OLD:
        tl.store(old + i, r, mask=i < n)
