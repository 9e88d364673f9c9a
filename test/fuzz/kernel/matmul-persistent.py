# compile: matmul_persistent(a:*fp16:16, b:*fp16:16, c:*fp16:16, M:i32, N:i32, K:i32, PROGRAMS:3, BM:32, BN:64, BK:32, HALVES:1, FLAT:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def tile_of(tile, grid_m, grid_n, GROUP: tl.constexpr):
    in_group = GROUP * grid_n
    first = tile // in_group * GROUP
    rows = min(grid_m - first, GROUP)
    return first + tile % in_group % rows, tile % in_group // rows
@triton.jit
def matmul_persistent(a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HALVES: tl.constexpr,
                      FLAT: tl.constexpr):
    if isinstance(a, tl.tensor_descriptor):
        ad, bd, cd = a, b, c
    else:
        ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
        cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN // HALVES])
    grid_m, grid_n, steps = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.cdiv(K, BK)
    done = tl.program_id(0) - PROGRAMS
    for tile in tl.range(tl.program_id(0), grid_m * grid_n, PROGRAMS, flatten=FLAT):
        i, j = tile_of(tile, grid_m, grid_n, 2)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(steps):
            x, y = ad.load([i * BM, k * BK]), bd.load([j * BN, k * BK])
            acc = tl.dot(x, y.T, acc)
        done += PROGRAMS
        i, j = tile_of(done, grid_m, grid_n, 2)
        if HALVES == 2:
            parts = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(parts)
            cd.store([i * BM, j * BN], left.to(cd.dtype))
            cd.store([i * BM, j * BN + BN // 2], right.to(cd.dtype))
        else:
            cd.store([i * BM, j * BN], acc.to(cd.dtype))
