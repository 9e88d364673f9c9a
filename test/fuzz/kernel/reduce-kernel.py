# compile: reduce_kernel(x:*i32:16, y:*i32:16, M:i32, N:i32:16, stride:i32:16, shift:0, OP:'add', B0:8, B1:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def reduce_kernel(x, y, M, N, stride, shift: tl.constexpr, OP: tl.constexpr, B0: tl.constexpr, B1: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [B0, B1])
    b = tl.make_tensor_descriptor(y, [M, N], [stride, 1], [B0, B1])
    i, j = tl.program_id(0) * B0 - shift, tl.program_id(1) * B1 + shift
    v = a.load([i, j])
    if OP == "add":
        b.atomic_add([i, j], v)
    elif OP == "min":
        b.atomic_min([i, j], v)
    elif OP == "max":
        b.atomic_max([i, j], v)
    elif OP == "and":
        b.atomic_and([i, j], v)
    elif OP == "or":
        b.atomic_or([i, j], v)
    else:
        b.atomic_xor([i, j], v)
