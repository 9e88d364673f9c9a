# compile: transposed_operand(a:*fp16:16, b:*fp16:16, out:*fp32:16, M:64, N:128, K:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def transposed_operand(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + n[:, None] * K + k[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(x, tl.trans(y), input_precision="ieee"))
