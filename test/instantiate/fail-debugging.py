# instantiate: messages(x: *fp32, n: i32)
# instantiate: failed(x: *fp32, n: i32)
# instantiate: unknown(x: *fp32, n: i32)
# instantiate: in_loop(x: *fp32, n: i32)
# instantiate: ranges(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def messages(x, n):
    tl.device_print("größe", n)
    tl.device_print(n)
    tl.device_print("shape", (1, 2))
    tl.device_assert(n > 0, n)
    tl.assume(tl.arange(0, 8) > n)


@triton.jit
def failed(x, n):
    tl.static_assert(False, "why")


@triton.jit
def in_loop(x, n):
    total = 0
    for i in range(n):
        tl.static_print("once")
        tl.static_assert(False, "also when the body is evaluated again")
        total += tl.load(x + i)


@triton.jit
def unknown(x, n):
    tl.static_assert(n > 0)


@triton.jit
def ranges(x, n):
    for i in tl.static_range(n):
        pass
    for i in range(0, 8, 0):
        pass
    for i in range(tl.arange(0, 8)):
        pass
    for i in range(0, 0.5):
        pass
    for i in tl.range(0, n, num_stages=n):
        pass
