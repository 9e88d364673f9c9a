# compile: grid_copy(x:*fp16:16, y:*fp16:16, M:1, N:1, stride:i32:16, out_stride:i32:16, B0:1, B1:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def grid_copy(x, y, M, N, stride, out_stride, B0: tl.constexpr, B1: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [B0, B1])
    b = tl.make_tensor_descriptor(y, [M, N], [out_stride, 1], [B0, B1])
    i, j = tl.program_id(0) * B0, tl.program_id(1) * B1
    tl.store_tensor_descriptor(b, [i, j], tl.load_tensor_descriptor(a, [i, j]))
