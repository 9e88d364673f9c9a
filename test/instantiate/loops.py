# instantiate: carried(x: *fp32, n: i32)
# instantiate: nested(x: *fp32, n: i32)
# instantiate: static(x: *fp32, n: i32, K=3)
# instantiate: bounds(x: *fp32, n: i64, u: u32)
# instantiate: spin(lock: *i32, x: *fp32, n: i32)
# instantiate: tuples(x: *fp32, n: i32)
# instantiate: one(x: *fp32, n=1, BLOCK=16)
import triton
import triton.language as tl


@triton.jit
def carried(x, n):
    acc = tl.zeros((16,), dtype=tl.float32)
    count = 0
    for i in range(0, n, 4):
        acc += tl.load(x + i + tl.arange(0, 16))
        count = count + 1
        t = count * 2
    tl.store(x + tl.arange(0, 16), acc)
    tl.store(x + count, 1.0)


@triton.jit
def nested(x, n):
    s = 0.0
    for i in tl.range(n, num_stages=3, loop_unroll_factor=2):
        for j in range(i, n):
            if j > 3:
                s += tl.load(x + j)
            else:
                s = 0.0
    tl.store(x, s)


@triton.jit
def static(x, n, K: tl.constexpr):
    v = tl.load(x)
    for i in tl.static_range(K, 0, -1):
        v = tl.reshape(tl.join(v, v), [2 ** (K - i + 1)])
        last: tl.constexpr
        if i == 1:
            last = i
    tl.store(x + tl.arange(0, 8), v + last)


@triton.jit
def bounds(x, n, u):
    for i in range(n):
        tl.store(x + i, 1.0)
    for i in range(10, 0, -2):
        tl.store(x + i, 2.0)
    for i in range(0, u):
        tl.store(x + i, 3.0)


@triton.jit
def spin(lock, x, n):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = 0
    while i < n:
        tl.store(x + i, 1.0)
        i += 1
    tl.atomic_xchg(lock, 0)


@triton.jit
def tuples(x, n):
    pair = (1, 2.0)
    k = 0
    for i in range(n):
        pair = (pair[0] + i, pair[1] * 2.0)
        if (k := i * 2) > 8:
            k = 0
    tl.store(x + pair[0] + k, pair[1])


@triton.jit
def one(x, n, BLOCK: tl.constexpr):
    # n == 1 arrived as a compile-time value; assigning it in a loop makes it an ordinary number, BLOCK stays what it is.
    for i in range(4):
        for j in range(3):
            n = n * 2
            if BLOCK == 0:
                BLOCK = 3
    tl.store(x + n + tl.arange(0, BLOCK), 1.0)
