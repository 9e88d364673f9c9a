# compile: batched(a:*fp32:16, b:*fp32:16, out:*fp32:16, B:1, M:16, N:16, K:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def batched(a, b, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    x = tl.reshape(tl.load(a + tl.arange(0, B * M * K)), B, M, K)
    y = tl.reshape(tl.load(b + tl.arange(0, B * K * N)), B, K, N)
    r = tl.dot(x, y, input_precision="ieee" if x.dtype == tl.float32 else None)
    tl.static_assert(r.shape == [B, M, N])
    tl.store(out + tl.arange(0, B * M * N), tl.ravel(r))
