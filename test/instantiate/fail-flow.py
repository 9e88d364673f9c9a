# instantiate: arms(x: *fp32, n: i32)
# instantiate: static_arms(x: *fp32, n: i32)
# instantiate: none_arm(x: *fp32, n: i32)
# instantiate: loop_type(x: *fp32, n: i32)
# instantiate: loop_shape(x: *fp32, n: i32)
# instantiate: loop_none(x: *fp32, n: i32)
# instantiate: loop_constexpr(x: *fp32, n: i32, K=3)
# strict: return_in_loop(x: *fp32, n: i32)
# instantiate: returns(x: *fp32, n: i32)
# instantiate: tail(x: *fp32, n: i32, FLAG=True)
# strict: not_a_range(x: *fp32, n: i32)
# strict: loop_forms(x: *fp32, n: i32)
# instantiate: forever(x: *fp32, n: i32)
# instantiate: conditions(x: *fp32, n: i32, MODE='fast')
# instantiate: kernel_result(x: *fp32, n: i32)
# instantiate: block_condition(x: *fp32, n: i32)
# instantiate: range_options(x: *fp32, n: i32)
# instantiate: specialize_sometimes(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def arms(x, n):
    v = tl.load(x)
    if n > 0:
        v = tl.load(x).to(tl.float16)
    tl.store(x, v)


@triton.jit
def static_arms(x, n):
    if n > 0:
        size: tl.constexpr = 16
    else:
        size: tl.constexpr = 32
    tl.store(x + tl.arange(0, size), 1.0)


@triton.jit
def none_arm(x, n):
    v = None
    if n > 0:
        v = tl.load(x)
    tl.store(x, v)


@triton.jit
def loop_type(x, n):
    acc = 0
    for i in range(n):
        acc += tl.load(x + i)
    tl.store(x, acc)


@triton.jit
def loop_shape(x, n):
    acc = 0.0
    for i in range(n):
        acc = acc + tl.load(x + tl.arange(0, 16))
    tl.store(x + tl.arange(0, 16), acc)


@triton.jit
def loop_none(x, n):
    best = None
    for i in range(n):
        v = tl.load(x + i)
        best = v if best is None else tl.maximum(best, v)
    tl.store(x, best)


@triton.jit
def loop_constexpr(x, n, K: tl.constexpr):
    for i in range(n):
        K = K * 2
    tl.store(x, K)


@triton.jit
def return_in_loop(x, n):
    for i in range(n):
        if tl.load(x + i) > 0:
            return
    while n > 0:
        return


@triton.jit
def either(n):
    if n > 0:
        return 1.0
    return n


@triton.jit
def pair(n):
    if n > 0:
        return 1, 2
    return 1


@triton.jit
def returns(x, n):
    tl.store(x, either(n))
    tl.store(x, pair(n))


@triton.jit
def choose(v, FLAG: tl.constexpr):
    # Without an else the rest is compiled as well.
    if FLAG:
        return v
    return v.to(tl.float16)


@triton.jit
def tail(x, n, FLAG: tl.constexpr):
    tl.store(x, choose(tl.load(x), FLAG))


@triton.jit
def not_a_range(x, n):
    for v in [1, 2, 3]:
        tl.store(x, v)
    for i, j in range(3):
        tl.store(x, i)
    for i in range(0.5):
        tl.store(x, i)


@triton.jit
def loop_forms(x, n):
    for i in range(n):
        tl.store(x, i)
    else:
        tl.store(x, 0)
    while n > 0:
        n -= 1
    else:
        tl.store(x, 0)


@triton.jit
def forever(x, n):
    while True:
        tl.store(x, n)


@triton.jit
def conditions(x, n, MODE: tl.constexpr):
    if MODE:
        tl.store(x, 1.0)
    v = 1.0 if (1, 2) else 2.0
    w = 1.0 if n > 0 else 1
    u = (1, 2) if n > 0 else (1, 2)


@triton.jit
def kernel_result(x, n):
    return n


@triton.jit
def block_condition(x, n):
    if tl.load(x + tl.arange(0, 4)) > 0:
        tl.store(x, 1.0)
    if tl.load(x + tl.arange(0, 1)) > 0 and n > 0:
        tl.store(x, 2.0)


@triton.jit
def range_options(x, n):
    for i in range(0, n, step=2, num_stages=3, warp_specialize=True):
        tl.store(x + i, 1.0)


@triton.jit
def specialize_sometimes(x, n):
    for i in tl.range(0, n, warp_specialize="sometimes"):
        tl.store(x + i, 1.0)
