# What no launch could run is refused before its code is made.
# RUN: compile %s::attention --sig 'x:*f16:16, y:*f16:16, out:*f16:16' -t sm_90a --emit ptx
import triton
import triton.language as tl


@triton.jit
def attention(x, y, out):
    m, n, k = tl.arange(0, 128), tl.arange(0, 4096), tl.arange(0, 64)
    s = tl.dot(tl.load(x + m[:, None] * 64 + k[None, :]), tl.load(y + n[None, :] * 64 + k[:, None]))
    p = tl.exp2(s - tl.max(s, 1)[:, None]).to(tl.float16)
    v = tl.load(y + n[:, None] * 64 + k[None, :])
    tl.store(out + m[:, None] * 64 + k[None, :], tl.dot(p, v).to(tl.float16))
