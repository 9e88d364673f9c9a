# compile: tiles_by_pointers(a:*fp16:16, b:*fp16:16, c:*fp32:16, sums:*fp32:16, M:i32, N:i32, K:i32, PROGRAMS:1, BM:128, BN:64, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def tiles_by_pointers(a, b, c, sums, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """What the tiles of a program store has to keep its order: sums of a column are those of the last tile."""
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, PROGRAMS):
        m, n = tile // columns * BM + tl.arange(0, BM), tile % columns * BN + tl.arange(0, BN)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(ad.load([tile // columns * BM, k]), bd.load([tile % columns * BN, k]).T, acc)
        tl.store(c + m[:, None] * N + n[None, :], acc, (m < M)[:, None] & (n < N)[None, :])
        tl.store(sums + n, tl.sum(acc, 0), n < N)
