# compile: batched_4d(a:*fp32:16, b:*fp32:16, out:*fp32:16)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def batched_4d(a, b, out):
    x = tl.reshape(tl.load(a + tl.arange(0, 1024)), 2, 2, 16, 16)
    y = tl.reshape(tl.load(b + tl.arange(0, 1024)), 2, 2, 16, 16)
    tl.store(out + tl.arange(0, 1024), tl.ravel(tl.dot(x, y, input_precision="ieee")))
