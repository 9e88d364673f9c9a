# compile: matmul(a:*fp16:16, b:*fp16:16, c:*fp16:16, M:i32:16, N:i32:16, K:i32:16, BM:128, BN:64, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    ap, bp = a + (m % M)[:, None] * K + k[None, :], b + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bp, k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK
        bp += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])
