# strict: assigns(x: *fp32, n: i32, NAME='a')
# instantiate: statements(x: *fp32, n: i32)
# strict: control(x: *fp32, n: i32)
# strict: expressions(x: *fp32, n: i32)
# instantiate: operators(x: *fp32, n: i32)
# strict: indices(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def assigns(x, n, NAME):
    a = b = n
    x[0] = 1.0
    x.field = 2
    c, d = 1, 2, 3
    c, d, k = 1, 2
    l = [i for i in (1, 2) if n > i]
    e, f = n
    g, *h = (1, 2, 3)
    name = "fast"
    fn = tl.load
    size: tl.constexpr = 16
    size: tl.constexpr = 32
    late: tl.constexpr
    late = n
    wide: tl.constexpr = n
    x[0]: tl.constexpr = 1
    x.field: tl.constexpr = 1


@triton.jit
def statements(x, n):
    try:
        tl.store(x, 1.0)
    except ValueError:
        pass
    with n:
        pass
    del n
    global g
    import math
    from math import pi
    raise ValueError("no")
    def nested(a):
        return a
    class C:
        pass
    match n:
        case 1:
            pass
    nested(n)


@triton.jit
def control(x, n):
    for i in range(n):
        if i > 3:
            break
        if i == 2:
            continue


@triton.jit
def expressions(x, n):
    f = lambda a: a
    d = {"a": 1}
    s = {1, 2}
    t = [i for i in n]
    u = [i for i in (1, 2) for j in (1, 2)]
    v = [i for i in (1, 2) if i > 1]
    w = n in (1, 2)
    y = (i for i in (1, 2))
    z = f"{n}"
    c = 3j
    e = b"bytes"
    big = 170141183460469231731687303715884105728


@triton.jit
def operators(x, n):
    a = 0 <= n < 16
    b = x + x
    c = tl.load(x) // 2.0
    d = n ** 2
    e = n @ n
    f = -(1, 2)
    g = n and x
    h = not n


@triton.jit
def indices(x, n):
    v = tl.load(x + tl.arange(0, 16))
    a = v[0:4]
    b = v[0]
    c = (1, 2)[n]
    d = (1, 2)[5]
    e = n.dtype[0]
    f = (1, 2)[::0]
    g = v[:, None][n]
