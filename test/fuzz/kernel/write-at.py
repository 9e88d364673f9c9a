# compile: write_at(a:*fp16:16, b:*fp16:16, c:*fp16:16, M:i32, N:i32:16, stride:i32:16, i:i32, j:i32:16, BM:64, BN:64, BK:16, ADD:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def product(a, b, c, M, N, i, j, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile that lives where a dot leaves it, so that it is stored by TMA where there is TMA; a is [BM, BK], b [BN, BK]."""
    ad, bd = tl.make_tensor_descriptor(a, [BM, BK], [BK, 1], [BM, BK]), tl.make_tensor_descriptor(b, [BN, BK], [BK, 1], [BN, BK])
    return tl.dot(ad.load([0, 0]), bd.load([0, 0]).T)
@triton.jit
def write_at(a, b, c, M, N, stride, i, j, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ADD: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [stride, 1], [BM, BN])
    tile = product(a, b, c, M, N, i, j, BM, BN, BK).to(cd.dtype)
    if ADD:
        cd.atomic_add([i, j * 16], tile)
        cd.atomic_max([i - 3, j * 16], (tile * 2 + i).to(cd.dtype))
    else:
        cd.store([i, j * 16], tile)
        cd.store([i - 3, j * 16], (tile * 2 + i).to(cd.dtype))
