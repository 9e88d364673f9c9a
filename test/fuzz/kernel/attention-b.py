# compile: attention(scale:fp32, lse:*fp32:16, H:i32, qd:*fp16:16, kd:*fp16:16, vd:*fp16:16, od:*fp16:16, N:i32:16, D:32, BM:64, BN:32, CAUSAL:False)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def as_descriptor(desc_or_pointer, shape, strides, block_shape):
    if isinstance(desc_or_pointer, tl.tensor_descriptor):
        return desc_or_pointer
    else:
        return tl.make_tensor_descriptor(desc_or_pointer, shape, strides, block_shape)
@triton.jit
def attention_span(acc, l, m, q, kd, vd, row, lo, hi, scale, base, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = row + tl.arange(0, BM)
    for start in tl.range(lo, hi, BN):
        k = kd.load([base + start, 0]).T
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] >= start + tl.arange(0, BN)[None, :], s, -1.0e6)
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(m - new)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(vd.dtype), vd.load([base + start, 0]), acc)
        l = l * alpha + tl.sum(p, 1)
        m = new
    return acc, l, m
@triton.jit
def attention(scale, lse, H, qd, kd, vd, od, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1)
    rows_in_all = H * N
    qd = as_descriptor(qd, [rows_in_all, D], [D, 1], [BM, D])
    kd = as_descriptor(kd, [rows_in_all, D], [D, 1], [BN, D])
    vd = as_descriptor(vd, [rows_in_all, D], [D, 1], [BN, D])
    od = as_descriptor(od, [rows_in_all, D], [D, 1], [BM, D])
    base, row = head * N, tl.program_id(0) * BM
    m = tl.zeros([BM], tl.float32) - float("inf")
    l = tl.zeros([BM], tl.float32) + 1.0
    acc = tl.zeros([BM, D], tl.float32)
    q = qd.load([base + row, 0])
    if CAUSAL:
        acc, l, m = attention_span(acc, l, m, q, kd, vd, row, 0, row, scale, base, False, BM, BN)
        acc, l, m = attention_span(acc, l, m, q, kd, vd, row, row, row + BM, scale, base, True, BM, BN)
    else:
        acc, l, m = attention_span(acc, l, m, q, kd, vd, row, 0, N, scale, base, False, BM, BN)
    tl.store(lse + base + row + tl.arange(0, BM), m + tl.math.log2(l))
    od.store([base + row, 0], (acc / l[:, None]).to(od.dtype))
