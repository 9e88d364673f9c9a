# compile: rmw_kernel(x:*i32:16, v:*i32:16, old:*i32:16, n:i32:16, OP:'add', N:64, SEM:None, SCOPE:None)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def rmw(OP: tl.constexpr, p, v, mask, SEM: tl.constexpr, SCOPE: tl.constexpr):
    if OP == "add":
        return tl.atomic_add(p, v, mask, SEM, SCOPE)
    elif OP == "max":
        return tl.atomic_max(p, v, mask, SEM, SCOPE)
    elif OP == "min":
        return tl.atomic_min(p, v, mask, SEM, SCOPE)
    elif OP == "and":
        return tl.atomic_and(p, v, mask, SEM, SCOPE)
    elif OP == "or":
        return tl.atomic_or(p, v, mask, SEM, SCOPE)
    elif OP == "xor":
        return tl.atomic_xor(p, v, mask, SEM, SCOPE)
    else:
        return tl.atomic_xchg(p, v, mask, SEM, SCOPE)
@triton.jit
def rmw_kernel(x, v, old, n, OP: tl.constexpr, N: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    i = tl.arange(0, N)
    r = rmw(OP, x + i, tl.load(v + i), i < n, SEM, SCOPE)
    tl.static_assert(r.dtype == x.dtype.element_ty)
    tl.store(old + i, r, mask=i < n)
