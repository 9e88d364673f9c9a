# compile: gather_in_loop(x:*fp32:16, index:*i32:16, out:*fp32:16, M:i32, N:i32:16, L:i32, y:i32:16, ROWS:16, COLS:512, P:'zero')
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def gather_in_loop(x, index, out, M, N, L, y, ROWS: tl.constexpr, COLS: tl.constexpr, P: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, COLS], padding_option=P)
    r = tl.arange(0, ROWS)
    acc = tl.zeros([ROWS, COLS], out.dtype.element_ty)
    for i in range(0, L):
        acc += desc.gather(tl.load(index + i * ROWS + r), y)
    tl.store(out + r[:, None] * COLS + tl.arange(0, COLS)[None, :], acc)
