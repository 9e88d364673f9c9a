# instantiate: rmw(x: *fp32, h: *fp16, s: *i16, i: *i32, k: *ki32, n: i32)
# instantiate: cas(i: *i32, w: *i64, b: *i8, n: i32)
import triton
import triton.language as tl


@triton.jit
def rmw(x, h, s, i, k, n):
    tl.atomic_max(h, 1.0)
    tl.atomic_and(x, 1)
    tl.atomic_add(s, 1)
    tl.atomic_add(k, 1)
    tl.atomic_add(n, 1)
    tl.atomic_add(i, 1, sem="weak")
    tl.atomic_add(i, 1, scope="world")
    tl.atomic_add(i, tl.arange(0, 8))
    tl.atomic_add(i + tl.arange(0, 8), 1, mask=n)


@triton.jit
def cas(i, w, b, n):
    tl.atomic_cas(w, 0, 1)
    tl.atomic_cas(b, 0, 1)
    tl.atomic_cas(i + tl.arange(0, 8), 0, 1)
    tl.atomic_cas(i, 0, 1, sem=1)
