# instantiate: rmw(x: *fp32, h: *fp16, s: *i16, i: *i32, k: *ki32, n: i32)
# instantiate: cas(i: *i32, w: *i64, b: *i8, n: i32)
# instantiate: plain(x: *fp32, i: *i32, b: *i8, k: *ki32, n: i32)
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


@triton.jit
def plain(x, i, b, k, n):
    tl.atomic_load(i, sem="release")
    tl.atomic_store(i, 1, sem="acq_rel")
    tl.atomic_load(i, scope="world")
    tl.atomic_store(k, 1)
    tl.atomic_load(n)
    tl.atomic_poll(b, 1)
    tl.atomic_poll(x, 1)
    tl.atomic_poll(i, 1, sem="release")
    tl.atomic_poll(i, 1, timeout_ns=-1)
    tl.atomic_poll(i, 1, timeout_ns=1.5)
    tl.atomic_poll(i, 1, timeout_ns=tl.arange(0, 4))
    tl.atomic_poll(i, tl.arange(0, 4))
