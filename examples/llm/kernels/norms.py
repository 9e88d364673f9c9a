"""Normalizations of rows, with the residual connection fused: x += delta comes first, and x keeps the sum. ADD: how many deltas there are, `apart` elements from one to the next.

Rows lie `n` elements apart in x and delta. x is the residual stream in fp32; the output goes to a matmul and has that one's type.
"""
import tegula
import tegula.language as tl


@tegula.jit
def summed(x, delta, at, mask, apart, ADD: tl.constexpr):
    """x in fp32, with the deltas added in their order."""
    value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    for part in tl.static_range(ADD):
        value += tl.load(delta + part * apart + at, mask=mask, other=0.0).to(tl.float32)
    return value


@tegula.jit
def residual(x, delta, at, mask, apart, ADD: tl.constexpr):
    """The same; x keeps the sum."""
    value = summed(x, delta, at, mask, apart, ADD)
    if ADD > 0:
        tl.store(x + at, value.to(x.dtype.element_ty), mask=mask)
    return value


@tegula.jit
def rms_norm(x, delta, weight, out, n, apart, eps, ADD: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr = False):
    """out = weight * x / sqrt(mean(x^2) + eps); BLOCK is a power of two, n at least. EARLY as in gemv_fused (matmul.py)."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    mask = i < n
    value = residual(x, delta, row * n + i, mask, apart, ADD)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + eps)
    w = tl.load(weight + i, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * n + i, (value * scale * w).to(out.dtype.element_ty), mask=mask)


@tegula.jit
def layer_norm(x, delta, weight, bias, out, n, apart, eps, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """out = weight * (x - mean) / sqrt(variance + eps) + bias."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    mask = i < n
    value = residual(x, delta, row * n + i, mask, apart, ADD)
    mean = tl.sum(value, 0) / n
    centred = tl.where(mask, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    w = tl.load(weight + i, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(bias + i, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * n + i, (centred * scale * w + b).to(out.dtype.element_ty), mask=mask)


@tegula.jit
def gather_rows(rows, x, delta, out, n, apart, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[rows[i]]: the last rows of sequences, whose logits are wanted. x stays as it is."""
    at = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + at).to(tl.int64)
    value = summed(x, delta, row * n + i, i < n, apart, ADD)
    tl.store(out + at * n + i, value, mask=i < n)
