# compile: attention(q:*fp16:16, k:*fp16:16, v:*fp16:16, out:*fp32:16, N:i32:16, BM:128, BN:64, D:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def attention(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    top, total, acc = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for i in range(0, N, BN):
        s = tl.dot(x, tl.load(k + (i + n)[None, :] * D + d[:, None])) * 0.5
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - new[:, None]), tl.exp(top - new)
        m = N
        tl.static_assert(m.dtype == tl.bfloat16)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v + (i + n)[:, None] * D + d[None, :]), acc * scale[:, None])
        top = new
    tl.store(out + m[:, None] * D + d[None, :], acc / total[:, None])
