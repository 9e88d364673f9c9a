# instantiate: grid(x: *fp32, n: i32)
# instantiate: blocks(x: *fp32, n: i32)
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
