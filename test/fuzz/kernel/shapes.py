# compile: shapes(x:*i32:16, out:*i32:16, BLOCK:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def shapes(x, out, BLOCK: tl.constexpr):
    """Renaming of coordinates: pairs, transposition, reshape, gather."""
    v = tl.load(x + tl.arange(0, BLOCK)[:, None] * 8 + tl.arange(0, 8)[None, :])
    a, b = tl.split(v.reshape(BLOCK, 4, 2))
    w = tl.join(b, a).reshape(BLOCK, 8)
    w = tl.gather(w, tl.broadcast_to((7 - tl.arange(0, 8))[None, :], [BLOCK, 8]), axis=1)
    w = tl.trans(tl.trans(w) * 2 + tl.arange(0, BLOCK)[None, :])
    tl.store(out + tl.arange(0, BLOCK * 8), w.reshape(BLOCK * 8))
