# compile: values_kernel(x:*fp32:16, y:*fp32:16, out:*fp32:16, M:i32, N:i32, stride:i32:16, flip:i32:16, B:128)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def make_row(base, i, N, stride, B: tl.constexpr):
    return tl.make_tensor_descriptor(base + i * stride, [N], [1], [B])
@triton.jit
def read(where, offsets):
    if isinstance(where, tl.tensor_descriptor):
        return where.load(offsets)
    else:
        return where + offsets[0]
@triton.jit
def values_kernel(x, y, out, M, N, stride, flip, B: tl.constexpr):
    # Loop-carried, rebuilt each time; chosen by a branch; from a helper; in a tuple.
    desc = make_row(x, 0, N, stride, B)
    acc = tl.zeros([B], tl.float32)
    for i in range(M):
        acc += read(desc, [0])
        desc = make_row(x, i + 1, N, stride, B)
    if flip:
        source = make_row(x, 1, N, stride, B)
    else:
        source = make_row(y, 2, N, stride, B)
    pair = (source, make_row(y, 0, N, stride, B))
    acc += pair[0].load([0]) * 2 + read(pair[1], [4])
    o = make_row(out, 0, N, stride, B)
    tl.static_assert(o.dtype == tl.float32 and o.block_shape[0] == B and len(o.shape) == 1 and o.block_type.shape[0] == B)
    tl.static_assert(isinstance(o, tl.tensor_descriptor) and not isinstance(acc, tl.tensor_descriptor))
    o.store([0], acc + tl.where(o.shape[0] == N, 1.0, 0.0) + read(3, (4,)))
