# compile: annotated_kernel(a:tensordesc<i32[8, 16]>, b:tensordesc<i32[8, 16]>, M:i32, B:8)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def annotated_kernel(a: tl.tensor_descriptor, b: tl.tensor_descriptor, M, B: tl.constexpr):
    for i in tl.range(0, M, B):
        b.store([i, 0], a.load([i, 0]) + a.shape[0] + a.strides[0].to(tl.int32))
