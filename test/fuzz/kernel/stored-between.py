# compile: stored_between(a:*fp16:16, b:*fp16:16, c:*fp32:16, sums:*fp32:16, K:i32, BM:256, BN:64, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def stored_between(a, b, c, sums, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A plain store between two loops of a producer; what is computed for the second one takes a ring of its own."""
    ad = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    acc = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    tl.store(sums + tl.arange(0, BM), tl.sum(acc, 1))
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([0, k]), (bd.load([0, k]) * 2).to(tl.float16).T, acc)
    tl.store(c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)
