# compile: k_fstring(out:*i32:16, N:4)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def k_fstring(out, N: tl.constexpr):
    name: tl.constexpr = f"n={N} {N + 1!r}"
    tl.static_assert(name == "n=4 5")
    tl.static_assert(N == 4, f"N is {N}")
    tl.store(out, 1)
