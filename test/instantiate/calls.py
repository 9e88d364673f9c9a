# instantiate: defaults(x: *fp32, n: i32)
# instantiate: values(x: *fp32, n: i32)
# instantiate: records(x: *fp32, n: i32, t: (i32, *fp32))
# instantiate: real(x: *fp32, n: i32)
# instantiate: host(x: *fp32, n: i32)
# instantiate: text(x: *fp32, n: i32, NAME='abc')
from collections import namedtuple
from typing import NamedTuple

import triton
import triton.language as tl
from triton import cdiv as up

SCALE = tl.constexpr(3)
Pair = namedtuple("Pair", ["first", "second"])
f32 = tl.float32


class Op(NamedTuple):
    fn: object
    args: tuple = ()


@triton.jit
def add(a, b=2, *rest, c=1):
    total = a + b * c
    for i in tl.static_range(len(rest)):
        total += rest[i]
    return total


@triton.jit
def defaults(x, n):
    tl.store(x + add(n), 1.0)
    tl.store(x + add(n, c=3), 1.0)
    more = (5, n)
    tl.store(x + add(n, *more, c=SCALE), 1.0)


@triton.jit
def double(v):
    return v * 2


@triton.jit
def apply(op, v):
    return op.fn(v, *op.args)


@triton.jit
def scaled(v, k):
    return v * k


@triton.jit
def values(x, n):
    fns: tl.constexpr = (double, add)
    v = n
    for i in tl.static_range(2):
        v = fns[i](v)
    v = apply(Op(scaled, (3,)), v)
    v = Op(fn=double).fn(v)
    tl.store(x + v, 1.0)


@triton.jit
def records(x, n, t):
    p = Pair(n, second=2.0)
    q = Pair(p[0] + 1, p.second)
    count, ptr = t
    if n > 3:
        q = p
    s = [q.first, count] + [n] * 2
    tl.store(ptr + s[-1] + len(s), q.second)
    for i in range(n):
        q = Pair(q.first + 1, q.second)
    tl.store(x + q.first, q.second)
    tl.store(x, tl.zeros([4], f32).sum())


@triton.jit(noinline=True)
def slow(a, b, K: tl.constexpr):
    if a > b:
        return a, tl.arange(0, K)
    return b, tl.arange(0, K) * 2


@triton.jit
def real(x, n):
    a, r = slow(n, 3, 16)
    b, r2 = slow(a, 4, 16)
    tl.store(x + r + b, 1.0)
    tl.store(x + r2, 1.0)


@triton.constexpr_function
def log2(n):
    i, seen = 0, []
    while True:
        if n <= 1:
            break
        n //= 2
        i += 1
        seen.append(i)
    return sum(seen) - sum([k for k in seen if k != i]) if seen else 0


@triton.constexpr_function
def halves(shape):
    out = []
    for i, s in enumerate(shape):
        if 0 < s <= 4:
            continue
        out = out + [s // 2]
    return out


@triton.jit
def host(x, n):
    v = tl.zeros(halves([4, 16, 32]), tl.float32)
    tl.store(x + tl.arange(0, log2(1 << 5) + 3), 1.0)
    tl.store(x + up(17, 4) + up(n, triton.next_power_of_2(5)), tl.sum(v))


@triton.jit
def text(x, n, NAME: tl.constexpr):
    tl.static_print(f"{NAME!r} of {x.dtype} {n + 1 if False else 3} {NAME}")
    msg: tl.constexpr = f"v{NAME}"
    tl.static_assert(NAME == "abc", msg)
    tl.device_print(msg, n)
    print("n", n)
