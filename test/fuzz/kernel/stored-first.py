# compile: stored_first(a:*fp16:16, b:*fp16:16, c:*fp32:16, K:i32:16, M:16, N:32, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def stored_first(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """The loop's loads, which start ahead of it, see what was stored before."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    for i in range(0, K, BK):
        x = tl.load(a + (i + k)[:, None] + m[None, :] * K)
        tl.store(a + (i + k)[:, None] + m[None, :] * K, x + x)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(tl.load(a + m[:, None] * K + (i + k)[None, :]), tl.load(b + (i + k)[:, None] * N + n[None, :]), acc)
    tl.store(a + m[:, None] * K + k[None, :], tl.zeros((M, BK), tl.float16))
    tl.store(c + m[:, None] * N + n[None, :], acc)
