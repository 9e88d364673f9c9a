# RUN: compile %s::k --sig 'a:*fp16, b:*bf16, c:*f32' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(a, b, c):
    i = tl.arange(0, 16)
    p = i[:, None] * 16 + i[None, :]
    tl.store(c + p, tl.dot(tl.load(a + p), tl.load(b + p)))
