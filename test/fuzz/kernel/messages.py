# compile: messages(x:*i32:16, out:*i32:16, BLOCK:8, PRINT:True)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def messages(x, out, BLOCK: tl.constexpr, PRINT: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    if PRINT:
        tl.device_print("v", v)
    tl.device_print("at", at)
    tl.device_print("program", tl.program_id(0))
    tl.device_assert(v < 9, "too large")
    tl.store(out + at, v)
