"""Layer, RMS and group normalization, forward and backward."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def layer_norm_loops(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    """Three loops over a row: mean, variance, result."""
    row = tl.program_id(0)
    Y += row.to(tl.int64) * stride
    X += row.to(tl.int64) * stride
    _mean = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        _mean += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        _var += x * x
    rstd = 1 / tl.sqrt(tl.sum(_var, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + cols, ((x - mean) * rstd * w + b).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_block(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(B + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / N
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    tl.store(Y + row * stride + cols, (centred * rstd * w + b).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_dx(DX, DY, DW, DB, X, W, Mean, Rstd, stride, N, ROWS, ROWS_PER: tl.constexpr, BLOCK: tl.constexpr):
    """dx of ROWS_PER rows; their part of dw and db to a row of DW and DB, which a second kernel sums."""
    first = tl.program_id(0) * ROWS_PER
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for row in range(first, min(first + ROWS_PER, ROWS)):
        at = row.to(tl.int64) * stride + cols
        x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + at, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(Mean + row)
        rstd = tl.load(Rstd + row)
        xhat = tl.where(mask, (x - mean) * rstd, 0.0)
        wdy = w * dy
        c1 = tl.sum(xhat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        dx = (wdy - (xhat * c1 + c2)) * rstd
        tl.store(DX + at, dx.to(DX.dtype.element_ty), mask=mask)
        dw += dy * xhat
        db += dy
    tl.store(DW + tl.program_id(0) * N + cols, dw, mask=mask)
    tl.store(DB + tl.program_id(0) * N + cols, db, mask=mask)


@triton.jit
def sum_parts(DW, DB, FINAL_DW, FINAL_DB, M, N, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    dw = tl.zeros((BM, BN), dtype=tl.float32)
    db = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(DW + offs, mask=mask, other=0.0)
        db += tl.load(DB + offs, mask=mask, other=0.0)
    tl.store(FINAL_DW + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(FINAL_DB + cols, tl.sum(db, axis=0), mask=cols < N)


@triton.jit
def rms_norm_block(X, W, Y, Rstd, N, eps, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr, Res, Sum):
    """With RESIDUAL x + res is normalized, and stored too."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    if RESIDUAL:
        x += tl.load(Res + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Sum + row * N + cols, x.to(Sum.dtype.element_ty), mask=mask)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(Rstd + row, rstd)
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(Y + row * N + cols, (x * rstd * w).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_tile(X, W, Y, Rstd, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offs = rows[:, None] * N + cols[None, :]
    x = tl.load(X + offs, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / N + eps)
    tl.store(Rstd + rows, rstd, mask=rows < M)
    w = tl.load(W + cols, mask=cols < N, other=0.0)
    tl.store(Y + offs, (x * rstd[:, None] * w[None, :]).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_loops(X, W, Y, Rstd, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    square = tl.zeros([BLOCK], tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + row * N + cols, mask=cols < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        square += x * x
    rstd = 1 / tl.sqrt(tl.sum(square, 0) / N + eps)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(X + row * N + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(W + cols, mask=mask).to(tl.float32)
        tl.store(Y + row * N + cols, (x * rstd * w).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_dx(DY, X, W, Rstd, DX, DW, M, N, per_program, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for row in range(pid * per_program, min((pid + 1) * per_program, M)):
        at = row * N + cols
        dy = tl.load(DY + at, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(Rstd + row)
        m = dy * w
        dx = rstd * m + rstd * (-(1 / N) * rstd * rstd * tl.sum(m * x, axis=0) * x)
        dw += dy * (x * rstd)
        tl.store(DX + at, dx.to(DX.dtype.element_ty), mask=mask)
    tl.store(DW + pid * N + cols, dw, mask=mask)


@triton.jit
def group_norm(X, W, B, Y, Mean, Rstd, C, HW, G, eps, CPG: tl.constexpr, BLOCK: tl.constexpr):
    """One group of channels of one image (NCHW) in a program."""
    group = tl.program_id(0) % G
    base = tl.program_id(0).to(tl.int64) * CPG * HW
    size = CPG * HW
    total = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    for off in range(0, size, BLOCK):
        at = off + tl.arange(0, BLOCK)
        x = tl.load(X + base + at, mask=at < size, other=0.0).to(tl.float32)
        total += x
        square += x * x
    mean = tl.sum(total, 0) / size
    rstd = tl.rsqrt(tl.sum(square, 0) / size - mean * mean + eps)
    tl.store(Mean + tl.program_id(0), mean)
    tl.store(Rstd + tl.program_id(0), rstd)
    for c in range(CPG):
        w = tl.load(W + group * CPG + c).to(tl.float32)
        b = tl.load(B + group * CPG + c).to(tl.float32)
        for off in range(0, HW, BLOCK):
            at = off + tl.arange(0, BLOCK)
            x = tl.load(X + base + c * HW + at, mask=at < HW, other=0.0).to(tl.float32)
            tl.store(Y + base + c * HW + at, ((x - mean) * rstd * w + b).to(Y.dtype.element_ty), mask=at < HW)


@triton.jit
def group_norm_dx(DY, X, W, Mean, Rstd, DX, C, HW, G, CPG: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0) % G
    base = tl.program_id(0).to(tl.int64) * CPG * HW
    size = CPG * HW
    mean = tl.load(Mean + tl.program_id(0))
    rstd = tl.load(Rstd + tl.program_id(0))
    c1 = tl.zeros([BLOCK], tl.float32)
    c2 = tl.zeros([BLOCK], tl.float32)
    for off in range(0, size, BLOCK):
        at = off + tl.arange(0, BLOCK)
        mask = at < size
        w = tl.load(W + group * CPG + at // HW, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + base + at, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(X + base + at, mask=mask, other=0.0).to(tl.float32)
        c1 += tl.where(mask, w * dy * (x - mean) * rstd, 0.0)
        c2 += w * dy
    a = tl.sum(c1, 0) / size
    b = tl.sum(c2, 0) / size
    for off in range(0, size, BLOCK):
        at = off + tl.arange(0, BLOCK)
        mask = at < size
        w = tl.load(W + group * CPG + at // HW, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + base + at, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(X + base + at, mask=mask, other=0.0).to(tl.float32)
        xhat = (x - mean) * rstd
        tl.store(DX + base + at, ((w * dy - (xhat * a + b)) * rstd).to(DX.dtype.element_ty), mask=mask)


WARPS = configs("num_warps", 4, 8, 16, 32)
ROWS = shapes("rows cols", (32768, 1024), (16384, 4096), (8192, 16384), (4096, 32768), (1024, 131072), (512, 262144))
SMALL = shapes("rows cols", (11, 300))
LOOPS = configs("BLOCK num_warps", (128, 4), (1024, 4), (2048, 8), (4096, 8), (8192, 16))


def fits_block(s, c):
    return getattr(c, "ROWS", 1) * next_power_of_2(s.cols) <= 16384 * c.num_warps  # not more than 512 elements a thread


def norm_inputs(m, s, t):
    x, dy = m.normal((s.rows, s.cols), t), m.normal((s.rows, s.cols), t)
    return dict(x=x, dy=dy, res=m.normal((s.rows, s.cols), t), w=m.normal((s.cols,), t), b=m.normal((s.cols,), t), y=m.empty((s.rows, s.cols), t), total=m.empty((s.rows, s.cols), t),
                mean=m.empty((s.rows,), "fp32"), rstd=m.empty((s.rows,), "fp32"))


def moments(x, v):
    mean = x.sum(v, axis=1, keepdims=True) / v.shape[1]
    return mean, 1 / x.sqrt(x.sum((v - mean) ** 2, axis=1, keepdims=True) / v.shape[1] + 1e-5)


def layer_reference(x, a, s):
    mean, rstd = moments(x, a.x)
    return (a.x - mean) * rstd * a.w + a.b, mean[:, 0], rstd[:, 0]


layer = Entry("layer norm", inputs=norm_inputs, outputs=("y", "mean", "rstd"), reference=layer_reference, shapes=ROWS, small=SMALL, dtypes=("bf16", "fp32"), tolerance=2e-2,
              bytes=lambda s, e: 2 * s.rows * s.cols * e, library=lambda torch, a, s: torch.nn.functional.layer_norm(a.x, (s.cols,), a.w, a.b, 1e-5))


@layer.spelling("loops", LOOPS)
def _(a, s, c):
    return Launch(layer_norm_loops, (s.rows,), (a.x, a.y, a.w, a.b, a.mean, a.rstd, s.cols, s.cols, 1e-5), **vars(c))


@layer.spelling("one block", WARPS, fits_block)
def _(a, s, c):
    return Launch(layer_norm_block, (s.rows,), (a.x, a.y, a.w, a.b, a.mean, a.rstd, s.cols, s.cols, 1e-5), BLOCK=next_power_of_2(s.cols), **vars(c))


def rms_reference(x, v, w):
    rstd = 1 / x.sqrt(x.sum(v * v, axis=1, keepdims=True) / v.shape[1] + 1e-6)
    return v * rstd * w, rstd[:, 0]


rms = Entry("rms norm", inputs=norm_inputs, outputs=("y", "rstd"), reference=lambda x, a, s: rms_reference(x, a.x, a.w), shapes=ROWS, small=SMALL, dtypes=("bf16", "fp32"), tolerance=2e-2,
            bytes=lambda s, e: 2 * s.rows * s.cols * e)


@rms.spelling("one block", WARPS, fits_block)
def _(a, s, c):
    return Launch(rms_norm_block, (s.rows,), (a.x, a.w, a.y, a.rstd, s.cols, 1e-6), BLOCK=next_power_of_2(s.cols), RESIDUAL=False, Res=None, Sum=None, **vars(c))


@rms.spelling("tile of rows", configs("ROWS num_warps", (4, 4), (2, 4), (4, 8), (1, 8)), fits_block)
def _(a, s, c):
    return Launch(rms_norm_tile, (cdiv(s.rows, c.ROWS),), (a.x, a.w, a.y, a.rstd, s.rows, s.cols, 1e-6), BLOCK=next_power_of_2(s.cols), **vars(c))


@rms.spelling("loops, eviction policies", LOOPS)
def _(a, s, c):
    return Launch(rms_norm_loops, (s.rows,), (a.x, a.w, a.y, a.rstd, s.cols, 1e-6), **vars(c))


add_rms = Entry("add and rms norm", inputs=norm_inputs, outputs=("total", "y", "rstd"), reference=lambda x, a, s: (a.x + a.res, *rms_reference(x, a.x + a.res, a.w)), shapes=ROWS, small=SMALL,
                dtypes=("bf16", "fp32"), tolerance=2e-2, bytes=lambda s, e: 4 * s.rows * s.cols * e)


@add_rms.spelling("one block", WARPS, fits_block)
def _(a, s, c):
    return Launch(rms_norm_block, (s.rows,), (a.x, a.w, a.y, a.rstd, s.cols, 1e-6), BLOCK=next_power_of_2(s.cols), RESIDUAL=True, Res=a.res, Sum=a.total, **vars(c))


def grad_inputs(m, s, t):
    a = norm_inputs(m, s, t)
    return {**a, "mean": m.normal((s.rows,), "fp32", 0.1), "rstd": m.uniform((s.rows,), "fp32", 0.5, 1.5), "dx": m.empty((s.rows, s.cols), t), "dw": m.empty((s.cols,), "fp32"),
            "db": m.empty((s.cols,), "fp32"), "dw_parts": m.empty((s.rows, s.cols), "fp32"), "db_parts": m.empty((s.rows, s.cols), "fp32")}


def layer_grad_reference(x, a, s):
    xhat, wdy, rstd = (a.x - a.mean[:, None]) * a.rstd[:, None], a.w * a.dy, a.rstd[:, None]
    c1, c2 = (x.sum(v, axis=1, keepdims=True) / s.cols for v in (xhat * wdy, wdy))
    return (wdy - (xhat * c1 + c2)) * rstd, x.sum(a.dy * xhat, axis=0), x.sum(a.dy, axis=0)


layer_grad = Entry("layer norm backward", inputs=grad_inputs, outputs=("dx", "dw", "db"), reference=layer_grad_reference, shapes=ROWS[:2], small=SMALL, dtypes=("bf16", "fp32"), tolerance=2e-2,
                   bytes=lambda s, e: 3 * s.rows * s.cols * e)


@layer_grad.spelling("parts of dw, second kernel", configs("ROWS_PER num_warps", (4, 4), (32, 4), (64, 8), (128, 8)))
def _(a, s, c):
    parts = cdiv(s.rows, c.ROWS_PER)
    return [Launch(layer_norm_dx, (parts,), (a.dx, a.dy, a.dw_parts, a.db_parts, a.x, a.w, a.mean, a.rstd, s.cols, s.cols, s.rows), BLOCK=next_power_of_2(s.cols), **vars(c)),
            Launch(sum_parts, (cdiv(s.cols, 64),), (a.dw_parts, a.db_parts, a.dw, a.db, parts, s.cols), BM=32, BN=64, num_warps=4)]


def rms_grad_reference(x, a, s):
    rstd, m = a.rstd[:, None], a.dy * a.w
    dx = rstd * m - rstd**3 * a.x * x.sum(m * a.x, axis=1, keepdims=True) / s.cols
    return dx, x.sum(a.dy * a.x * rstd, axis=0)


rms_grad = Entry("rms norm backward", inputs=grad_inputs, outputs=("dx", "dw"), reference=rms_grad_reference, shapes=ROWS[:2], small=SMALL, dtypes=("bf16", "fp32"), tolerance=2e-2,
                 bytes=lambda s, e: 3 * s.rows * s.cols * e)


@rms_grad.spelling("rows of a program, second kernel", configs("PROGRAMS num_warps", (3, 4), (132, 8), (264, 4), (528, 8)))
def _(a, s, c):
    per = cdiv(s.rows, c.PROGRAMS)
    parts = cdiv(s.rows, per)
    return [Launch(rms_norm_dx, (parts,), (a.dy, a.x, a.w, a.rstd, a.dx, a.dw_parts, s.rows, s.cols, per), BLOCK=next_power_of_2(s.cols), num_warps=c.num_warps),
            Launch(sum_parts, (cdiv(s.cols, 64),), (a.dw_parts, a.dw_parts, a.dw, a.db, parts, s.cols), BM=32, BN=64, num_warps=4)]


def group_inputs(m, s, t):
    n = (s.B, s.C, s.HW)
    return dict(x=m.normal(n, t), dy=m.normal(n, t), w=m.normal((s.C,), t), b=m.normal((s.C,), t), y=m.empty(n, t), dx=m.empty(n, t), mean=m.empty((s.B * s.G,), "fp32"),
                rstd=m.empty((s.B * s.G,), "fp32"), given_mean=m.normal((s.B * s.G,), "fp32", 0.1), given_rstd=m.uniform((s.B * s.G,), "fp32", 0.5, 1.5))


def by_channel(x, v, s):
    """A vector of channels beside groups x (channels of a group * HW)."""
    wide = x.repeat(v, s.HW, 0).reshape(s.G, -1)
    return x.concatenate([wide] * s.B, axis=0)


def group_reference(x, a, s):
    v = a.x.reshape(s.B * s.G, -1)
    mean, rstd = moments(x, v)
    y = (v - mean) * rstd * by_channel(x, a.w, s) + by_channel(x, a.b, s)
    return y.reshape(s.B, s.C, s.HW), mean[:, 0], rstd[:, 0]


IMAGES = dict(inputs=group_inputs, shapes=shapes("B C HW G", (32, 512, 1024, 32), (16, 128, 16384, 32), (64, 1280, 64, 32)), small=shapes("B C HW G", (2, 6, 50, 3)), dtypes=("bf16", "fp32"),
              tolerance=2e-2)
BLOCKS = configs("BLOCK num_warps", (64, 4), (1024, 4), (2048, 8), (4096, 8))
groups = Entry("group norm", outputs=("y", "mean", "rstd"), reference=group_reference, bytes=lambda s, e: 2 * s.B * s.C * s.HW * e, **IMAGES)


@groups.spelling("loops", BLOCKS)
def _(a, s, c):
    return Launch(group_norm, (s.B * s.G,), (a.x, a.w, a.b, a.y, a.mean, a.rstd, s.C, s.HW, s.G, 1e-5), CPG=s.C // s.G, **vars(c))


def group_grad_reference(x, a, s):
    v, dy, mean, rstd = a.x.reshape(s.B * s.G, -1), a.dy.reshape(s.B * s.G, -1), a.given_mean[:, None], a.given_rstd[:, None]
    wdy, xhat = by_channel(x, a.w, s) * dy, (v - mean) * rstd
    c1, c2 = (x.sum(t, axis=1, keepdims=True) / v.shape[1] for t in (wdy * xhat, wdy))
    return ((wdy - (xhat * c1 + c2)) * rstd).reshape(s.B, s.C, s.HW)


group_grad = Entry("group norm backward", outputs=("dx",), reference=group_grad_reference, bytes=lambda s, e: 3 * s.B * s.C * s.HW * e, **IMAGES)


@group_grad.spelling("loops", BLOCKS)
def _(a, s, c):
    return Launch(group_norm_dx, (s.B * s.G,), (a.dy, a.x, a.w, a.given_mean, a.given_rstd, a.dx, s.C, s.HW, s.G), CPG=s.C // s.G, **vars(c))
