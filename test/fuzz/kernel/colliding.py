# compile: colliding(x:*i32:16, OP:'add', N:128, T:int32)
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
def colliding(x, OP: tl.constexpr, N: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    rmw(OP, x + i % 4, i.to(T), None, None, None)
