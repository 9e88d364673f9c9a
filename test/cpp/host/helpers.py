import triton
import triton.language as tl


@triton.jit
def gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def spread(x):
    return tl.max(x, 0), tl.min(x, 0)


@triton.jit
def apply(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, swish(tl.load(x + i, mask=i < n), 1.0), mask=i < n)
    add_one(out, n, BLOCK)


@triton.jit
def centre(x, out, BLOCK: tl.constexpr):
    hi, lo = middle(tl.load(x + tl.arange(0, BLOCK)))
    tl.store(out, hi + lo)
