# compile: literal_cast(out:*i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def literal_cast(out):
    tl.store(out, tl.cast(3.7, tl.int32))
    tl.store(out + 1, tl.cast(5, tl.int64).to(tl.int32))
    p = out + 2
    address = p.to(tl.int64)
    tl.store(address.to(tl.pointer_type(tl.int32)), 42)
    tl.store(out + 3, p.to(tl.int1).to(tl.int32))
