# compile: flat_operands(a:*fp16:16, b:*fp16:16, c:*fp32:16, B:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def flat_operands(a, b, c, B: tl.constexpr):
    x = tl.make_tensor_descriptor(a, [B * B], [1], [B * B]).load([0]).reshape(B, B)
    y = tl.make_tensor_descriptor(b, [B // 4, B * 4], [B * 4, 1], [B // 4, B * 4]).load([0, 0]).reshape(B, B)
    tl.make_tensor_descriptor(c, [B, B], [B, 1], [B, B]).store([0, 0], tl.dot(x, y))
