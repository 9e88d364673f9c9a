# compile: over_pages(q:*fp16:16, kv:*fp16:16, table:*i32:16, out:*fp32:16, M:i32:16, L:1, MODE:'rows', BM:64, BN:32, D:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def over_pages(q, kv, table, out, M, L, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, c = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + c[None, :])
    acc = tl.zeros([BM, D], tl.float32)
    for i in range(0, L):
        if MODE == "rows":        # an index for each row
            y = tl.make_tensor_descriptor(kv, [M, D], [D, 1], [1, D]).gather(tl.load(table + i * BN + n), 0)
        elif MODE == "page":      # one for all of them
            y = tl.make_tensor_descriptor(kv, [M, D], [D, 1], [BN, D]).load([tl.load(table + i * BN) * 8, 0])
        else:                     # by pointers; the index of the index
            at = tl.load(table + tl.load(table + i * BN) % L * BN + n)
            y = tl.load(kv + at[:, None] * D + c[None, :], mask=((at >= 0) & (at < M))[:, None], other=0)
        acc = tl.dot(tl.dot(x, y.T).to(x.dtype), y, acc)
    tl.store(out + m[:, None] * D + c[None, :], acc)
