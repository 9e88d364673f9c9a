# compile: gram(x:*fp16:16, out:*fp32:16, M:64, K:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def gram(x, out, M: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    x = tl.load(x + m[:, None] * K + tl.arange(0, K)[None, :])
    tl.store(out + m[:, None] * M + m[None, :], tl.dot(x, x.T))
