# instantiate: shapes(x: *fp16, n: i32)
# tree: small(x: *fp16, n: i32, FLAG=True)
import triton
import triton.language as tl
import math


@triton.jit
def shapes(x, n):
    v = tl.load(x + tl.arange(0, 16)[:, None] * 8 + tl.arange(0, 8)[None, :])
    w = v.T.to(tl.float32)
    rows: tl.constexpr = w.shape[0]
    s = tl.sum(w, axis=1) * math.sqrt(2.0) + tl.max(w, 1) + w.shape[-1]
    tl.store(x + tl.arange(0, rows), s.to(x.dtype.element_ty))
    part: tl.constexpr = [d * 2 for d in w.shape[1:]]
    tl.store(x + tl.arange(0, part[0]), tl.full(part, 1.0, tl.float16))
    tl.store(x, tl.softmax(s).sum() if tl.constexpr(True) else None)
    hash = tl.rand(n, tl.arange(0, 8))
    tl.store(x + tl.arange(0, 8), tl.sort(hash).to(tl.float16))


@triton.jit
def small(x, n, FLAG: tl.constexpr):
    if FLAG:
        k = n * 2
    else:
        k = undefined
    for i in range(k):
        tl.store(x + i, i + 1.0)
