# compile: cas_literals(x:*i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def cas_literals(x):
    tl.store(x + 1, tl.atomic_cas(x, 0, 7))
    tl.store(x + 2, tl.atomic_cas(x, 0, 8))
