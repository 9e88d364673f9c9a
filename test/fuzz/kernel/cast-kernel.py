# compile: cast_kernel(x:*i1:16, out:*i1:16, N:256, TO:int1, ROUNDING:None, BITCAST:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def cast_kernel(x, out, N: tl.constexpr, TO: tl.constexpr, ROUNDING: tl.constexpr, BITCAST: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i)
    r = v.to(TO, fp_downcast_rounding=ROUNDING, bitcast=BITCAST)
    tl.static_assert(r.dtype == TO)
    tl.static_assert(tl.cast(v, TO, ROUNDING, BITCAST).dtype == TO)
    tl.store(out + i, r)
