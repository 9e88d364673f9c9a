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
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    mask = i < n
    w = tl.load(weight + i, mask=mask, other=0.0).to(tl.float32)  # which no kernel writes
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    value = residual(x, delta, row * n + i, mask, apart, ADD)
    scale = tl.rsqrt(tl.sum(value * value, 0) / n + eps)
    tl.store(out + row * n + i, (value * scale * w).to(out.dtype.element_ty), mask=mask)


@tegula.jit
def centred_row(value, mean, scale, weight, bias, at, mask):
    """weight * (value - mean) * scale + bias, of the row's elements `at`."""
    w = tl.load(weight + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(bias + at, mask=mask, other=0.0).to(tl.float32)
    return (value - mean) * scale * w + b


@tegula.jit
def layer_norm(x, delta, weight, bias, out, n, apart, eps, ADD: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr = True):
    """out = weight * (x - mean) / sqrt(variance + eps) + bias. WHOLE: BLOCK is n at least, and a row stays in registers. Without it BLOCK elements at a time are read, and their sum of squares around
    their own mean is made while they are in L1 and memory brings the next ones; parts are joined as Chan, Golub and LeVeque do (1979), so a large mean costs no digits."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    if WHOLE:
        mask = i < n
        value = residual(x, delta, row * n + i, mask, apart, ADD)
        mean = tl.sum(value, 0) / n
        centred = tl.where(mask, value - mean, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
        tl.store(out + row * n + i, centred_row(value, mean, scale, weight, bias, i, mask).to(out.dtype.element_ty), mask=mask)
    else:
        mean = 0.0
        squares = 0.0
        for begin in range(0, n, BLOCK):
            mask = begin + i < n
            value = residual(x, delta, row * n + begin + i, mask, apart, ADD)
            count = tl.minimum(n - begin, BLOCK).to(tl.float32)
            own = tl.sum(value, 0) / count
            centred = tl.where(mask, value - own, 0.0)
            away = own - mean
            squares += tl.sum(centred * centred, 0) + away * away * (begin * count / (begin + count))
            mean += away * (count / (begin + count))
        scale = tl.rsqrt(squares / n + eps)
        for begin in range(0, n, BLOCK):
            mask = begin + i < n
            value = tl.load(x + row * n + begin + i, mask=mask, other=0.0).to(tl.float32)
            tl.store(out + row * n + begin + i, centred_row(value, mean, scale, weight, bias, begin + i, mask).to(out.dtype.element_ty), mask=mask)


@tegula.jit
def gather_rows(rows, x, delta, out, n, apart, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[rows[i]]: the last rows of sequences, whose logits are wanted. x stays as it is."""
    at = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + at).to(tl.int64)
    value = summed(x, delta, row * n + i, i < n, apart, ADD)
    tl.store(out + at * n + i, value, mask=i < n)
