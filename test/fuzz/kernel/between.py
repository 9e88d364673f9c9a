# compile: between(a:*fp16:16, b:*fp16:16, c:*fp16:16, extra:*fp32:16, K:i32, BM:256, BN:64, BK:32, WHAT:'copied')
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def between(a, b, c, extra, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WHAT: tl.constexpr):
    """CTAs have to meet between, or inside, loops that a producer would serve. `extra`: zeros, and a copy of c."""
    ad = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [BM, BN], [BN, 1], [BM, BN])
    n = K
    if WHAT == "while":
        while n > 0:
            n -= 7
    acc = tl.zeros([BM, BN], tl.float32)
    for i in tl.range(0, 2, warp_specialize=True):
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
        if WHAT == "copied":  # to what is stored
            acc += cd.load([0, 0]).to(tl.float32)
        elif WHAT == "view":  # the same memory as another tensor
            tl.make_tensor_descriptor(c, [BM // 2, 2 * BN], [2 * BN, 1], [BM, BN]).store([0, 0], acc.to(tl.float16))
        elif WHAT == "while":
            acc += tl.load(extra + tl.arange(0, BN))[None, :] * n
        elif WHAT == "assume":
            tl.assume(i < 2)
        cd.store([0, 0], acc.to(tl.float16))
    if K > 40:
        if WHAT == "sums":
            acc += tl.sum(acc, 0)[None, :] * 0
        elif WHAT == "branch":
            tl.store(extra + tl.arange(0, BM), tl.sum(acc, 1))
            acc += tl.load(extra + tl.arange(0, BM))[:, None] * 0
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([0, k]), bd.load([0, k]).T, acc)
    tl.store(extra + 256 + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc)
