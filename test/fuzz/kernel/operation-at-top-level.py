# compile: k(x:*i32)
import triton
import triton.language as tl

pid = tl.program_id(0)


@triton.jit
def k(x):
    tl.store(x, pid)
