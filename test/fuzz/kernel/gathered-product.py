# compile: gathered_product(x:*fp16:16, w:*fp16:16, index:*i32:16, to:*i32:16, out:*fp32:16, M:i32, COUNT:i32:16, N:i32:16, K:i32:16, BM:64, BN:64, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def gathered_product(x, w, index, to, out, M, COUNT, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    xd = tl.make_tensor_descriptor(x, [M, K], [K, 1], [1, BK])
    wd = tl.make_tensor_descriptor(w, [K, N], [N, 1], [BK, BN])
    od = tl.make_tensor_descriptor(out, [COUNT, N], [N, 1], [1, BN])
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN
    rows = tl.load(index + r)
    acc = tl.zeros([BM, BN], tl.float32)
    if K == BK:
        acc = tl.dot(xd.gather(rows, 0), wd.load([0, n]), acc)
    else:
        for k in range(0, K, BK):
            acc = tl.dot(xd.gather(rows, k), wd.load([k, n]), acc)
    od.scatter(acc.to(od.dtype), tl.load(to + r), n)
