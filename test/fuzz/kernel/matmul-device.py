# compile: matmul_device(a:*fp16:16, b:*fp16:16, c:*fp16:16, M:i32:16, N:i32:16, K:i32:16, BM:32, BN:32, BK:32, TRANS:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def matmul_device(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANS: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    if TRANS:
        bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    else:
        bd = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        x = ad.load([m, k])
        if TRANS:
            y = bd.load([n, k]).T
        else:
            y = bd.load([k, n])
        acc = tl.dot(x, y, acc)
    cd.store([m, n], acc.to(c.dtype.element_ty))
