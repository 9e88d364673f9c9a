# instantiate: types(x: *fp32, n: i32, u: u32, b: i8)
# instantiate: unary(x: *fp32, n: i32, f: fp32)
# instantiate: numbers(x: *fp32, n: i32)
# instantiate: warnings(x: *i32, n: i32)
import triton
import triton.language as tl


@triton.jit
def types(x, n, u, b):
    tl.store(x, n % u)
    tl.store(x, b + 300)
    tl.store(x, u - (-1))
    tl.store(x, n & 0.5)
    tl.store(x, x < 1)
    tl.store(x, n ** 2)
    tl.store(x, tl.where(n > 0, x, 0))
    tl.store(x, tl.join(n, u))
    tl.store(x, tl.cat(tl.arange(0, 4), tl.zeros([4], tl.float32)))


@triton.jit
def unary(x, n, f):
    tl.store(x, -x)
    tl.store(x, ~f)
    tl.store(x, +f)
    tl.store(x, not n)
    tl.store(x, tl.abs(x))
    tl.store(x, n in (1, 2))
    tl.store(x, any((n, f)))


@triton.jit
def numbers(x, n):
    tl.store(x, "text")
    tl.store(x, 2 ** 64)
    tl.store(x, n + 2 ** 64)


@triton.jit
def warnings(x, n):
    tl.store(x, n << 32)
