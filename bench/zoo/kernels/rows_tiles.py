"""Tiles of rows in spellings of compilers and of libraries for training: heads turned in place one after the other, moments of columns by Welford's method, softmax over tiles of rows, norms with a gate."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def rotary_heads(Q, COS, SIN, stride, HEADS: tl.constexpr, HALF: tl.constexpr):
    """In place: both halves of four heads of a row, one head after the other."""
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    cos = tl.load(COS + row * HALF + at)
    sin = tl.load(SIN + row * HALF + at)
    first = tl.program_id(1) * 4
    for head in range(first, min(first + 4, HEADS)):
        low = Q + row * stride + head * 2 * HALF + at
        high = low + HALF
        a = tl.load(low).to(cos.dtype)
        b = tl.load(high).to(cos.dtype)
        tl.store(low, a * cos - b * sin)
        tl.store(high, b * cos + a * sin)


@triton.jit
def joined(mean_a, squares_a, count_a, mean_b, squares_b, count_b):
    count = count_a + count_b
    share = tl.where(count == 0, 0.0, count_b / count)
    apart = mean_b - mean_a
    return mean_a + apart * share, squares_a + squares_b + apart * apart * count_a * share, count


@triton.jit
def column_moments(X, MEAN, VAR, rows, cols, XS: tl.constexpr, RS: tl.constexpr):
    """Mean and variance of columns; those of a program lie next to each other, rows are taken RS at a time."""
    x = tl.program_id(0) * XS + tl.arange(0, XS)[:, None]
    mean = tl.zeros([XS, RS], tl.float32)
    squares = tl.zeros([XS, RS], tl.float32)
    count = tl.zeros([XS, RS], tl.float32)
    for start in range(0, rows, RS):
        r = start + tl.arange(0, RS)[None, :]
        mask = (r < rows) & (x < cols)
        v = tl.load(X + r * cols + x, mask=mask, other=0.0).to(tl.float32)
        more = count + 1
        moved = mean + (v - mean) / more
        squares = tl.where(mask, squares + (v - mean) * (v - moved), squares)
        mean = tl.where(mask, moved, mean)
        count = tl.where(mask, more, count)
    mean, squares, count = tl.reduce((mean, squares, count), 1, joined)
    tl.store(MEAN + x, mean[:, None], mask=x < cols)
    tl.store(VAR + x, (squares / count)[:, None], mask=x < cols)


@triton.jit
def softmax_rows(X, OUT, rows, cols, XS: tl.constexpr, RS: tl.constexpr):
    """Several rows in a program, running maxima and sums of each place of a tile."""
    x = tl.program_id(0) * XS + tl.arange(0, XS)[:, None]
    top = tl.full([XS, RS], float("-inf"), tl.float32)
    total = tl.zeros([XS, RS], tl.float32)
    for start in range(0, cols, RS):
        r = start + tl.arange(0, RS)[None, :]
        mask = (r < cols) & (x < rows)
        v = tl.load(X + r + cols * x, mask=mask, other=0.0).to(tl.float32)
        new = tl.maximum(top, v)
        total = tl.where(mask, total * tl.exp(top - new) + tl.exp(v - new), total)
        top = tl.where(mask, new, top)
    all_top = tl.max(top, axis=1)[:, None]
    all_total = tl.sum(tl.where(top == float("-inf"), 0.0, total * tl.exp(top - all_top)), axis=1)[:, None]
    for start in range(0, cols, RS):
        r = start + tl.arange(0, RS)[None, :]
        mask = (r < cols) & (x < rows)
        v = tl.load(X + r + cols * x, mask=mask, other=0.0).to(tl.float32)
        tl.store(OUT + r + cols * x, tl.exp(v - all_top) / all_total, mask=mask)


@triton.jit
def gated_rms_norm(X, GATE, W, Y, RSTD, rows, eps, D: tl.constexpr, ROWS: tl.constexpr):
    """Heads of D columns, ROWS of them in a program; the gate is loaded behind the reduction."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, D)
    at = r[:, None] * D + c[None, :]
    mask = (r < rows)[:, None]
    x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=1) / D + eps)
    tl.store(RSTD + r, rstd, mask=r < rows)
    w = tl.load(W + c).to(tl.float32)
    y = x * rstd[:, None] * w[None, :]
    g = tl.load(GATE + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(Y + at, (y * g * tl.sigmoid(g)).to(Y.dtype.element_ty), mask=mask)


def rotary_inputs(m, s, t):
    return dict(q=m.normal((s.rows, s.heads, 2, s.half), t), cos=m.uniform((s.rows, s.half), t, -1.0, 1.0), sin=m.uniform((s.rows, s.half), t, -1.0, 1.0))


def rotary_reference(x, a, s):
    cos, sin = a.cos[:, None], a.sin[:, None]
    low, high = a.q[:, :, 0], a.q[:, :, 1]
    return (x.stack((low * cos - high * sin, high * cos + low * sin), 2),)


rotary = Entry("rotary of heads in turn", inputs=rotary_inputs, outputs=("q",), reference=rotary_reference, shapes=shapes("rows heads half", (16384, 32, 64), (16384, 16, 128)),
               small=shapes("rows heads half", (5, 8, 32)), dtypes=("bf16", "fp32"), tolerance=2e-2, restored=("q",), bytes=lambda s, e: 4 * s.rows * s.heads * s.half * e)


@rotary.spelling("in place", configs("num_warps", 1, 2, 4))
def _(a, s, c):
    return Launch(rotary_heads, (s.rows, cdiv(s.heads, 4)), (a.q, a.cos, a.sin, 2 * s.heads * s.half, s.heads, s.half), **vars(c))


def moments_reference(x, a, s):
    mean = x.sum(a.x, axis=0) / s.rows
    return mean, x.sum((a.x - mean) ** 2, axis=0) / s.rows


moments = Entry("moments of columns", inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), mean=m.empty((s.cols,), "fp32"), var=m.empty((s.cols,), "fp32")), outputs=("mean", "var"),
                reference=moments_reference, shapes=shapes("rows cols", (1024, 32768), (4096, 16384)), small=shapes("rows cols", (70, 100)), dtypes=("bf16", "fp32"), tolerance=2e-2,
                bytes=lambda s, e: s.rows * s.cols * e)


@moments.spelling("tiles of columns", configs("XS RS num_warps", (32, 16, 4), (16, 256, 16), (64, 64, 8), (8, 128, 8), (128, 8, 4)))
def _(a, s, c):
    return Launch(column_moments, (cdiv(s.cols, c.XS),), (a.x, a.mean, a.var, s.rows, s.cols), **vars(c))


tiles = Entry("softmax of tiles of rows", inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), out=m.empty((s.rows, s.cols), t)), outputs=("out",), reference=lambda x, a, s: (x.softmax(a.x),),
              shapes=shapes("rows cols", (32768, 2048), (8192, 8192)), small=shapes("rows cols", (11, 300)), dtypes=("bf16", "fp32"), tolerance=2e-2, bytes=lambda s, e: 2 * s.rows * s.cols * e)


@tiles.spelling("online", configs("XS RS num_warps", (2, 128, 4), (8, 256, 4), (1, 1024, 4), (4, 512, 8), (1, 2048, 16)))
def _(a, s, c):
    return Launch(softmax_rows, (cdiv(s.rows, c.XS),), (a.x, a.out, s.rows, s.cols), **vars(c))


def gated_inputs(m, s, t):
    return dict(x=m.normal((s.rows, s.d), t), gate=m.normal((s.rows, s.d), t), w=m.normal((s.d,), t), y=m.empty((s.rows, s.d), t), rstd=m.empty((s.rows,), "fp32"))


def gated_reference(x, a, s):
    rstd = 1 / x.sqrt(x.sum(a.x * a.x, axis=1) / s.d + 1e-5)
    return a.x * rstd[:, None] * a.w * x.silu(a.gate), rstd


gated = Entry("RMS norm with a gate", inputs=gated_inputs, outputs=("y", "rstd"), reference=gated_reference, shapes=shapes("rows d", (262144, 128), (262144, 64)), small=shapes("rows d", (37, 32)),
              dtypes=("bf16", "fp32"), tolerance=2e-2, bytes=lambda s, e: s.rows * (3 * s.d * e + 4))


@gated.spelling("tile of heads", configs("ROWS num_warps", (8, 1), (16, 4), (32, 4), (64, 8), (16, 2)))
def _(a, s, c):
    return Launch(gated_rms_norm, (cdiv(s.rows, c.ROWS),), (a.x, a.gate, a.w, a.y, a.rstd, s.rows, 1e-5, s.d), **vars(c))
