# compile: dot_kernel(a:*fp32:16, b:*fp32:16, c:*fp32:16, out:*fp32:16, M:16, N:16, K:16, ACC:False, PRECISION:'ieee', TF32:None, OUT:None, RESULT:float32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def dot_kernel(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr,
               PRECISION: tl.constexpr, TF32: tl.constexpr, OUT: tl.constexpr, RESULT: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    if ACC:
        r = tl.dot(x, y, tl.load(c + m[:, None] * N + n[None, :]), input_precision=PRECISION, allow_tf32=TF32,
                   out_dtype=OUT)
    else:
        r = tl.dot(x, y, input_precision=PRECISION, allow_tf32=TF32, out_dtype=OUT)
    tl.static_assert(r.dtype == RESULT)
    tl.static_assert(r.shape == [M, N])
    tl.store(out + m[:, None] * N + n[None, :], r)
