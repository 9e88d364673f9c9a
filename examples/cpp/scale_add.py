import triton
import triton.language as tl


@triton.jit
def scale_add(x, y, out, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    result = factor * tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, result, mask=mask)


@triton.jit
def row_sums(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
    tl.store(out + row, tl.sum(total, axis=0))
