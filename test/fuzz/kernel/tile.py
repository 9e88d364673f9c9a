# compile: tile(a:tensordesc<fp16[128, 32]>, b:tensordesc<fp16[32, 128]>, c:tensordesc<fp32[128, 128]>, K:i32, BM:128, BN:128, BK:32)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def tile(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Descriptors of the host."""
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([tl.program_id(0) * BM, k]), b.load([k, 0]), acc)
    c.store([tl.program_id(0) * BM, 0], acc)
