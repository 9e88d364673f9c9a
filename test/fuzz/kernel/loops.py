# compile: loops(a:*fp16:16, b:*fp16:16, c:*fp32:16, M:i32:16, N:i32:16, K:16, steps:i32:16, BM:256, BN:64, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def loops(a, b, c, M, N, K, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Producers: loops one after the other with the same tiles, one inside another, the last with others if K is long."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    acc = tl.zeros([BM, BN], tl.float32)
    for i in tl.range(0, steps, warp_specialize=True):
        for k in range(i * BK, K, BK):
            acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
        acc = acc - i
    if steps == 1:
        tl.store(c + tl.arange(0, BN), tl.sum(acc, 0))  # is overwritten
    for k in range(0, K - BK, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    if K > 100:
        wide = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, 2 * BK])
        ad2 = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, 2 * BK])
        for k in range(0, K, 2 * BK):
            acc += tl.dot(ad2.load([0, k]), wide.load([0, k]).T)
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(c + m[:, None] * BN + n[None, :], acc)
