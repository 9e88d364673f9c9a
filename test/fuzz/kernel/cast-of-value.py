# compile: cast_of_value(x:*fp32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def cast_of_value(x):
    tl.atomic_add(x + tl.arange(0, 4), 1)
    tl.atomic_add(x + tl.arange(0, 4), tl.arange(0, 4))
