# RUN: compile %s::k --sig 'x:*f32:16, y:*f32:16, out:*f32:16, n:i32' -c BLOCK=128 --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)
