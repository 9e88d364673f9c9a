# instantiate: search(x: *i32, n: i32)
# instantiate: skip(x: *i32, n: i32)
# instantiate: pruned(x: *i32, n: i32, EARLY=False)
# instantiate: nested(x: *i32, n: i32)
# instantiate: forever(x: *i32, n: i32)
# instantiate: unrolled(x: *i32, n: i32)
# instantiate: cut(x: *i32, n: i32)
import triton
import triton.language as tl


@triton.jit
def search(x, n):
    for i in range(n):
        if tl.load(x + i) > 3:
            break
    else:
        i = -1
    tl.store(x, i)


@triton.jit
def skip(x, n):
    s = 0
    for i in range(n, 0, -2):
        v = tl.load(x + i)
        if v < 0:
            continue
        s += v
    tl.store(x, s)


@triton.jit
def pruned(x, n, EARLY: tl.constexpr):
    s = 0
    for i in tl.range(n, num_stages=2):
        s += tl.load(x + i)
        if EARLY:
            break
        if s > 100:
            s = 0
    tl.store(x, s)


@triton.jit
def first(x, n, limit):
    for i in range(n):
        for j in range(i):
            if tl.load(x + i + j) > limit:
                return i, tl.arange(0, 4)
            if j == 2:
                break
    return -1, tl.zeros([4], tl.int32)


@triton.jit
def nested(x, n):
    i, tile = first(x, n, 7)
    tl.store(x + i + tl.arange(0, 4), tile)


@triton.jit
def forever(x, n):
    i = 0
    while True:
        i += 1
        if i > n:
            break
        tl.store(x + i, i)


@triton.jit
def unrolled(x, n):
    for i in tl.static_range(6):
        if i == 1:
            continue
        if i == 3:
            break
        if n == i:
            break
        tl.store(x + i, 1)


@triton.jit
def cut(x, n):
    v = tl.load(x + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :])
    tl.store(x + tl.arange(0, 4), v[1, 4:])
    tl.store(x + tl.arange(0, 2)[:, None], v[::-2, n, None])
    tl.store(x, v[..., ::2][0, -1])
