# compile: read_twice(out:*i64:16, n:i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def read_twice(out, n):
    a = cuda.globaltimer()
    for _ in range(n):
        tl.store(out + 2, tl.load(out + 2, volatile=True) + 1)
    b = cuda.globaltimer()
    tl.store(out, a)
    tl.store(out + 1, b)
