# compile: k_print(out:*i32:16, x:*i32:16, N:4, HEX:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_print(out, x, N: tl.constexpr, HEX: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_print("value", v, hex=HEX)
    tl.store(out, 1)
