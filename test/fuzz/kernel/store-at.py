# compile: store_at(a:*fp16:16, b:*fp16:16, c:*fp16:16, M:i32, N:i32:16, stride:i32:16, i:0, j:0, BM:64, BN:64, BK:16)
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
def store_at(a, b, c, M, N, stride, i: tl.constexpr, j: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [stride, 1], [BM, BN])
    cd.store([i * 8, j * 16], product(a, b, c, M, N, i, j, BM, BN, BK).to(cd.dtype))
