# compile: scalar_atomics(x:*i32:16, out:*i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def scalar_atomics(x, out):
    pid = tl.program_id(0)
    tl.store(out + pid, tl.atomic_add(x, 1))
    tl.atomic_max(x + 1, pid)
    x.atomic_add(3)
