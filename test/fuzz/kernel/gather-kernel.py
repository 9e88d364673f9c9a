# compile: gather_kernel(x:*i8:16, index:*i16:16, out:*i8:16, M:i32, N:i32, stride:i32:16, y:i32:16, ROWS:16, COLS:64, P:'zero')
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def gather_kernel(x, index, out, M, N, stride, y, ROWS: tl.constexpr, COLS: tl.constexpr, P: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [stride, 1], [1, COLS], padding_option=P)
    rows = tl.load(index + tl.arange(0, ROWS))
    v = desc.gather(rows, y)
    tl.static_assert(v.shape[0] == ROWS and v.shape[1] == COLS)
    tl.store(out + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :], v)
