# compile: gather_columns(x:*fp32:16, index:*i32:16, out:*fp32:16, M:i32, N:505, S:528, ROWS:16, COLS:512)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def gather_columns(x, index, out, M, N: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, N], [S, 1], [1, COLS])
    r = tl.arange(0, ROWS)
    tl.store(out + r[:, None] * COLS + tl.arange(0, COLS)[None, :], desc.gather(tl.load(index + r), 0))
