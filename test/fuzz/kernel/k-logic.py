# compile: k_logic(out:*i32:16, a:i32, b:i32, NONE:None, FLAG:True)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_logic(out, a, b, NONE, FLAG: tl.constexpr):
    x = a > 0
    y = b > 0
    tl.store(out, (x and y).to(tl.int32))
    tl.store(out + 1, (x or y).to(tl.int32))
    tl.store(out + 2, (not x).to(tl.int32))
    if NONE is not None and NONE.anything > 3:
        tl.store(out + 3, 1)
    if FLAG and x:
        tl.store(out + 4, 1)
    if FLAG or undefined_name:
        tl.store(out + 5, 1)
    z: tl.constexpr = FLAG and 5 or 6
    tl.store(out + 6, z)
