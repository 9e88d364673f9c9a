# instantiate: grid(x: *fp32, n: i32)
# instantiate: blocks(x: *fp32, n: i32)
# instantiate: odd(x: *fp32, n: i32)
# strict: odd(x: *fp32, n: i32)
# instantiate: powers(x: *i32, n: i32)
import triton
import triton.language as tl


@triton.jit
def grid(x, n):
    a = tl.program_id(n)
    b = tl.program_id("x")
    c = tl.program_id(3)
    d = tl.num_programs(-1)


@triton.jit
def blocks(x, n):
    a = tl.arange(0, n)
    b = tl.arange(4, 4)
    c = tl.arange(0, 100)
    d = tl.arange(0, 4294967296)
    e = tl.full([4], tl.arange(0, 4), tl.int32)
    f = tl.full([4], 0, 32)
    g = tl.full([4], 0, n)


@triton.jit
def odd(x, n):
    i = tl.arange(0, 100)
    j = tl.full([4, 3], 0, tl.int32)
    tl.store(x + i, 1.0)


@triton.jit
def powers(x, n):
    i = tl.arange(0, 12)
    tl.device_print("i", i)
    tl.make_tensor_descriptor(x, [n], [1], [12])
    tl.sort(i)
