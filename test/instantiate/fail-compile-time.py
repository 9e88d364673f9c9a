# instantiate: host(x: *fp32, n: i32)
# instantiate: iterates(x: *fp32, n: i32)
# instantiate: endless(x: *fp32, n: i32)
# instantiate: asserts(x: *fp32, n: i32)
# instantiate: containers(x: *fp32, n: i32)
# instantiate: generators(x: *fp32, n: i32)
# instantiate: decorated(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.constexpr_function
def half(v):
    return v // 2


@triton.constexpr_function
def bad(v):
    assert v > 10, "v must be large"
    return v


@triton.constexpr_function
def iterating(v):
    for i in v:
        pass
    return v


@triton.constexpr_function
def raising(v):
    if v > 0:
        raise ValueError("positive")
    return abs("a")


@triton.jit
def device(v):
    return v


@triton.constexpr_function
def calls_device(v):
    return device(v)


@triton.constexpr_function
def loop():
    i = 0
    while True:
        i += 1


@triton.jit
def host(x, n):
    half(n)
    bad(3)
    raising(1)
    raising(-1)
    calls_device(1)


@triton.jit
def iterates(x, n):
    iterating(5)


@triton.jit
def endless(x, n):
    loop()


@triton.jit
def asserts(x, n):
    tl.static_assert(1 > 2, "one is not more")
    tl.static_assert(n > 2)
    assert n > 2, "fine"


@triton.constexpr_function
def looks_up(v):
    return {"fp16": 2, "fp32": 4}[v]


@triton.constexpr_function
def shares(v):
    items = [v]
    other = items
    items.append(v)
    return other


@triton.jit
def containers(x, n):
    looks_up("fp64")
    shares(1)


@triton.constexpr_function
def first():
    it = iter((1, 2))
    return next(it)


@triton.jit
def generators(x, n):
    first()


@triton.constexpr_function
def decorates(v):
    @memoized
    def inner():
        return v
    return inner


@triton.jit
def decorated(x, n):
    decorates(1)
