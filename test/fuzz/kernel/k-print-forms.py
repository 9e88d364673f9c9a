# compile: k_print_forms(out:*i32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_print_forms(out):
    print("scalar:", tl.program_id(0) + 5)
    tl.device_print("text only")
    r, c = tl.arange(0, 2)[:, None], tl.arange(0, 16)[None, :]
    tl.device_print("two", r * 16 + c, tl.program_id(1))
    tl.store(out, 1)
