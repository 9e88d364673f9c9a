# check:
# instantiate: outside(x: *fp32, n: i32)
# instantiate: carried(x: *fp32, n: i32)
# instantiate: forms(x: *fp32, n: i32, K=3)
# instantiate: constants(x: *fp32, n: i32, K=3)
# instantiate: unrolled(x: *fp32, n: i32)
# instantiate: forever(x: *fp32, n: i32, K=0)
# instantiate: found(x: *fp32, n: i32)
# instantiate: indices(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def outside(x, n):
    if n > 0:
        break
    for i in range(n):
        pass
    else:
        continue


@triton.jit
def carried(x, n):
    v = tl.load(x)
    for i in range(n):
        if i == 3:
            v = i
            break
        if i == 4:
            v = tl.load(x + tl.arange(0, 16))
            continue
        v += 1
    tl.store(x, v)


@triton.jit
def forms(x, n, K: tl.constexpr):
    mode = None
    for i in range(n):
        if i > 1:
            mode = n
            continue
        if i > 2:
            K = 5
            break


@triton.jit
def constants(x, n, K: tl.constexpr):
    for i in range(n):
        if i > 2:
            K = 5
            break


@triton.jit
def unrolled(x, n):
    for i in tl.static_range(4):
        if n == i:
            v = 1.5
            break
        v = n
    tl.store(x, v)


@triton.jit
def forever(x, n, K: tl.constexpr):
    while True:
        if K:
            break
        tl.store(x, 1.0)


@triton.jit
def found(x, n):
    for i in range(n):
        if i > 2:
            where = i
            break
    tl.store(x + where, 1.0)


@triton.jit
def indices(x, n):
    v = tl.load(x + tl.arange(0, 16))
    a = v[0:n]
    b = v[::0]
    c = v[3:0]
    d = v[4:4]
    e = v[16]
    f = v[..., ...]
    g = v[0, 1]
    h = v[tl.arange(0, 16)]
    i = v[v > 0]
    j = v["a"]
    v[0:4] = a
