# instantiate: merge(x: *fp32, n: i32)
# instantiate: early(x: *fp32, n: i32)
# instantiate: flagged(x: *fp32, n: i32)
# instantiate: pruned(x: *fp32, n: i32, MODE=1, other=None)
# instantiate: ternaries(x: *fp32, n: i32)
# instantiate: helper_returns(x: *fp32, n: i32)
# instantiate: shortcut(x: *fp32, n: i32, p=None)
import triton
import triton.language as tl


@triton.jit
def merge(x, n):
    a = 1
    if n > 3:
        a = 2
        b = 1.0
    elif n:
        b = 2.0
    else:
        a = n
        b = 3.0
    tl.store(x + a, b)


@triton.jit
def early(x, n):
    if n == 0:
        return
    tl.store(x, 1.0)
    if n == 1:
        tl.store(x + 1, 1.0)
        return
    else:
        tl.store(x + 2, 1.0)
    tl.store(x + 3, 1.0)


@triton.jit
def flagged(x, n):
    # Both arms may go on: what follows is guarded by a flag.
    if n > 0:
        if n > 5:
            return
        tl.store(x, 1.0)
    else:
        tl.store(x + 1, 1.0)
    tl.store(x + 2, 1.0)


@triton.jit
def pruned(x, n, MODE: tl.constexpr, other):
    if MODE == 0:
        undefined_here()
    elif MODE == 1 and other is None:
        tl.store(x, 1.0)
    else:
        tl.store(other.nothing, 2.0)
    v = 5.0 if MODE else other.nothing
    tl.store(x + 1, v)


@triton.jit
def ternaries(x, n):
    v = 1.0 if n > 0 else 2.0
    tl.store(x, v) if n > 1 else tl.store(x + 1, v)


@triton.jit
def clamp(v, low):
    if v < low:
        return low
    return v


@triton.jit
def pick(n, MODE: tl.constexpr):
    if MODE:
        return 1
    else:
        return n, n


@triton.jit
def maybe(n):
    if n > 0:
        if n > 5:
            return 1
    elif n < -5:
        return n
    n += 1
    if n == 7:
        return 3
    return 4


@triton.jit
def helper_returns(x, n):
    tl.store(x + clamp(n, 3), 1.0)
    a, b = pick(n, False)
    c: tl.constexpr = pick(n, True)
    tl.store(x + a + b + tl.arange(0, c + 1), 2.0)
    tl.store(x + maybe(n), 3.0)


@triton.jit
def shortcut(x, n, p):
    if p is not None and p.shape[0] > 2:
        tl.store(x, 1.0)
    if n > 1 and n < 5 or n == 9:
        tl.store(x, 2.0)
    if hasattr(x, "y") or not hasattr(x, "dtype"):
        tl.store(x, 3.0)
