"""Rows in spellings of libraries for training: a divergence that is recomputed block by block, Welford's sums, a tile of short rows, SwiGLU of a constant number of columns."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def jensen_shannon(X, Y, LOSS, DX, cols, beta: tl.constexpr, BLOCK: tl.constexpr):
    """Of logarithms of probabilities: the loss of each element, and its gradient. Exponentials of differences to the block's maximum."""
    row = tl.program_id(0).to(tl.int64) * cols
    for first in range(0, cols, BLOCK):
        at = first + tl.arange(0, BLOCK)
        mask = at < cols
        x = tl.load(X + row + at, mask=mask, other=float("-inf")).to(tl.float32)
        y = tl.load(Y + row + at, mask=mask, other=float("-inf")).to(tl.float32)
        top = tl.maximum(tl.max(x, axis=0), tl.max(y, axis=0))
        scale = tl.exp(top)
        q = tl.exp(x - top) * scale
        p = tl.exp(y - top) * scale
        middle = tl.log(beta * p + (1 - beta) * q)
        gradient = (1 - beta) * q * (x - middle)
        tl.store(LOSS + row + at, beta * p * (y - middle) + gradient, mask=mask)
        tl.store(DX + row + at, gradient.to(DX.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_moments(X, Y, W, B, N, eps, BLOCK: tl.constexpr):
    """Running mean and squares of each place of a block (Welford), joined behind the loop; the last block alone has a mask."""
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    mean = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.int32)
    steps = tl.cdiv(N, BLOCK)
    for i in range(0, steps - 1):
        x = tl.load(X + row + i * BLOCK + at).to(tl.float32)
        moved = mean + (x - mean) / (i + 1)
        squares += (x - moved) * (x - mean)
        count += 1
        mean = moved
    last = (steps - 1) * BLOCK + at
    mask = last < N
    x = tl.load(X + row + last, mask=mask, other=0.0).to(tl.float32)
    moved = tl.where(mask, mean + (x - mean) / steps, mean)
    squares = tl.where(mask, squares + (x - moved) * (x - mean), squares)
    count += mask.to(tl.int32)
    center = tl.sum(moved * count, axis=0) / N
    rstd = tl.rsqrt(tl.sum(squares + count * (moved - center) * (moved - center), axis=0) / N + eps)
    for i in range(0, steps):
        cols = i * BLOCK + at
        mask = cols < N
        x = tl.load(X + row + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(B + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + row + cols, ((x - center) * rstd * w + b).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_tile(X, Y, W, B, M, N: tl.constexpr, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Several short rows in a program, their length a constant."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    mask = (r < M)[:, None] & (c < N)[None, :]
    at = r[:, None] * N + c[None, :]
    x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1) / N
    d = tl.where(mask, x - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(d * d, axis=1) / N + eps)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)
    b = tl.load(B + c, mask=c < N, other=0.0).to(tl.float32)
    tl.store(Y + at, (d * rstd[:, None] * w[None, :] + b[None, :]).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def swiglu_row(GATE, UP, OUT, stride, cols: tl.constexpr, BLOCK: tl.constexpr):
    """A row in one block, its length a constant."""
    row = tl.program_id(0).to(tl.int64) * stride
    at = tl.arange(0, BLOCK)
    mask = at < cols
    gate = tl.load(GATE + row + at, mask=mask, other=0).to(tl.float32)
    up = tl.load(UP + row + at, mask=mask, other=0)
    tl.store(OUT + row + at, (gate * tl.sigmoid(gate)).to(up.dtype) * up, mask=mask)


def divergence_inputs(m, s, t):
    # About 1 / cols each: what is far below is rounded away.
    return dict(x=m.uniform((s.rows, s.cols), t, -6.0, -4.0), y=m.uniform((s.rows, s.cols), t, -6.0, -4.0), loss=m.empty((s.rows, s.cols), "fp32"), dx=m.empty((s.rows, s.cols), t))


def divergence_reference(x, a, s):
    q, p = x.exp(a.x), x.exp(a.y)
    middle = x.log(0.5 * p + 0.5 * q)
    gradient = 0.5 * q * (a.x - middle)
    return 0.5 * p * (a.y - middle) + gradient, gradient


divergence = Entry("Jensen-Shannon divergence", inputs=divergence_inputs, outputs=("loss", "dx"), reference=divergence_reference, shapes=shapes("rows cols", (2048, 32000), (512, 128256)),
                   small=shapes("rows cols", (5, 300)), dtypes=("bf16", "fp32"), tolerance=2e-2, bytes=lambda s, e: s.rows * s.cols * (3 * e + 4))


@divergence.spelling("loops", configs("BLOCK num_warps", (128, 4), (1024, 4), (4096, 8), (16384, 16), (32768, 32)))
def _(a, s, c):
    return Launch(jensen_shannon, (s.rows,), (a.x, a.y, a.loss, a.dx, s.cols, 0.5), **vars(c))


def norm_inputs(m, s, t):
    return dict(x=m.normal((s.rows, s.cols), t), w=m.normal((s.cols,), t), b=m.normal((s.cols,), t), y=m.empty((s.rows, s.cols), t))


def norm_reference(x, a, s):
    mean = x.sum(a.x, axis=1, keepdims=True) / s.cols
    return ((a.x - mean) / x.sqrt(x.sum((a.x - mean) ** 2, axis=1, keepdims=True) / s.cols + 1e-5) * a.w + a.b,)


def norm_entry(name, *sizes):
    return Entry(name, inputs=norm_inputs, outputs=("y",), reference=norm_reference, shapes=shapes("rows cols", *sizes), small=shapes("rows cols", (11, 300)), dtypes=("bf16", "fp32"), tolerance=2e-2,
                 bytes=lambda s, e: 2 * s.rows * s.cols * e)


moments = norm_entry("layer norm by running moments", (8192, 16384), (4096, 32768))


@moments.spelling("loops", configs("BLOCK num_warps", (128, 4), (1024, 4), (4096, 8), (8192, 16), (16384, 32)))
def _(a, s, c):
    return Launch(layer_norm_moments, (s.rows,), (a.x, a.y, a.w, a.b, s.cols, 1e-5), **vars(c))


short = norm_entry("layer norm of short rows", (65536, 768), (65536, 1024))


@short.spelling("tile of rows", configs("ROWS num_warps", (4, 4), (1, 4), (2, 1), (8, 8), (16, 8)))
def _(a, s, c):
    return Launch(layer_norm_tile, (cdiv(s.rows, c.ROWS),), (a.x, a.y, a.w, a.b, s.rows, s.cols, 1e-5), BLOCK=next_power_of_2(s.cols), **vars(c))


gated = Entry("swiglu of constant columns", inputs=lambda m, s, t: dict(gate=m.normal((s.rows, s.cols), t), up=m.normal((s.rows, s.cols), t), out=m.empty((s.rows, s.cols), t)), outputs=("out",),
              reference=lambda x, a, s: (a.gate / (1 + x.exp(-a.gate)) * a.up,), shapes=shapes("rows cols", (8192, 11008), (8192, 14336)), small=shapes("rows cols", (7, 300)), dtypes=("bf16", "fp32"),
              tolerance=2e-2, bytes=lambda s, e: 3 * s.rows * s.cols * e)


@gated.spelling("one block", configs("num_warps", 8, 16, 32))
def _(a, s, c):
    return Launch(swiglu_row, (s.rows,), (a.gate, a.up, a.out, s.cols, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))
