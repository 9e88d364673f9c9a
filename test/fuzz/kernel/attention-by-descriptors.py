# compile: attention_by_descriptors(q:*fp16:16, k:*fp16:16, v:*fp16:16, out:*fp16:16, N:i32:16, BM:256, BN:64, D:64)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def attention_by_descriptors(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    dq, dk = tl.make_tensor_descriptor(q, [N, D], [D, 1], [BM, D]), tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    dv, do = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D]), tl.make_tensor_descriptor(out, [N, D], [D, 1], [BM, D])
    start = tl.program_id(0) * BM
    x = dq.load([start, 0])
    top, total, acc = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for n in range(0, N, BN):
        s = tl.dot(x, dk.load([n, 0]).T) * 0.5
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - new[:, None]), tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * scale[:, None])
        top = new
    do.store([start, 0], (acc / total[:, None]).to(tl.float16))
