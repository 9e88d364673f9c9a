# compile: matmul_batched(ad:tensordesc<fp16[1, 32, 16]>, bd:tensordesc<fp16[1, 32, 16]>, cd:tensordesc<fp32[1, 32, 32]>, K:i32, BM:32, BN:32, BK:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def matmul_batched(ad, bd, cd, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    z, m, n = tl.program_id(0), tl.program_id(1) * BM, tl.program_id(2) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        x = ad.load([z, m, k]).reshape(BM, BK)  # rank-reducing
        y = bd.load([z, n, k]).reshape(BN, BK)
        acc = tl.dot(x, y.T, acc)
    cd.store([z, m, n], acc.reshape(1, BM, BN).to(cd.dtype))
