# compile: e4b15_decode(x:*u8:16, out:*fp32:16, N:256)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def e4b15_decode(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.float8e4b15, bitcast=True).to(tl.float32))
