"""Softmax and what is built on it, over rows: in one block, and in loops over rows that no block holds."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, configs, next_power_of_2, shapes


@triton.jit
def softmax_block(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, LOG: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    x = tl.load(x_ptr + row + offs, mask=mask, other=-float("inf")).to(tl.float32)
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    if LOG:
        y = x - tl.log(tl.sum(e, axis=0))
    else:
        y = e / tl.sum(e, axis=0)
    tl.store(out_ptr + row + offs, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_persistent(x_ptr, out_ptr, rows, cols, stride_x, stride_out, BLOCK: tl.constexpr, STAGES: tl.constexpr, LOG: tl.constexpr):
    """A program takes every n-th row; the loads of the next rows are under way meanwhile."""
    step = tl.num_programs(0)
    for row in tl.range(tl.program_id(0), rows, step, num_stages=STAGES):
        offs = tl.arange(0, BLOCK)
        mask = offs < cols
        x = tl.load(x_ptr + row.to(tl.int64) * stride_x + offs, mask=mask, other=-float("inf")).to(tl.float32)
        x = x - tl.max(x, axis=0)
        e = tl.exp(x)
        if LOG:
            y = x - tl.log(tl.sum(e, axis=0))
        else:
            y = e / tl.sum(e, axis=0)
        tl.store(out_ptr + row.to(tl.int64) * stride_out + offs, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_online(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, LOG: tl.constexpr):
    """Two passes: the maximum and the sum together, then the result."""
    base = tl.program_id(0).to(tl.int64) * cols
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    d = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + offs, mask=offs < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, x)
        safe = tl.where(new == -float("inf"), 0.0, new)
        d = d * tl.exp(m - safe) + tl.exp(x - safe)
        m = new
    top = tl.max(m, axis=0)
    total = tl.sum(d * tl.exp(m - top), axis=0)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + offs, mask=offs < cols, other=0.0).to(tl.float32)
        if LOG:
            y = x - top - tl.log(total)
        else:
            y = tl.exp(x - top) / total
        tl.store(out_ptr + base + offs, y.to(out_ptr.dtype.element_ty), mask=offs < cols)


@triton.jit
def softmax_rows_of_tile(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr, LOG: tl.constexpr):
    """Several short rows in one program."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    offs = r[:, None] * cols + c[None, :]
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + offs, mask=mask, other=-float("inf")).to(tl.float32)
    x = x - tl.max(tl.where(mask, x, -1e30), axis=1)[:, None]
    e = tl.exp(x)
    total = tl.sum(e, axis=1)[:, None]
    if LOG:
        y = x - tl.log(total)
    else:
        y = e / total
    tl.store(out_ptr + offs, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_backward(y_ptr, dy_ptr, dx_ptr, cols, BLOCK: tl.constexpr, LOG: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    y = tl.load(y_ptr + row * cols + offs, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * cols + offs, mask=mask, other=0.0).to(tl.float32)
    if LOG:
        dx = dy - tl.exp(y) * tl.sum(dy, axis=0)
    else:
        dx = y * (dy - tl.sum(y * dy, axis=0))
    tl.store(dx_ptr + row * cols + offs, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def cross_entropy_forward(logits_ptr, labels_ptr, loss_ptr, lse_ptr, cols, stride, smoothing, BLOCK: tl.constexpr):
    """One block per row; the log-sum-exp is stored for the backward pass."""
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    label = tl.load(labels_ptr + row)
    x = tl.load(logits_ptr + row * stride + offs, mask=mask, other=-float("inf")).to(tl.float32)
    top = tl.max(x, axis=0)
    lse = tl.log(tl.sum(tl.exp(x - top), axis=0)) + top
    tl.store(lse_ptr + row, lse)
    if label < 0:
        loss = 0.0
    else:
        hit = tl.load(logits_ptr + row * stride + label).to(tl.float32)
        mean = tl.sum(tl.where(mask, x, 0.0), axis=0) / cols
        loss = lse - (1 - smoothing) * hit - smoothing * mean
    tl.store(loss_ptr + row, loss)


@triton.jit
def cross_entropy_online(logits_ptr, labels_ptr, loss_ptr, lse_ptr, cols, stride, smoothing, BLOCK: tl.constexpr):
    """128k columns and more, block after block, with scalars for the running maximum and sum."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels_ptr + row)
    base = logits_ptr + row * stride
    m = float("-inf")
    d = 0.0
    total = 0.0
    for i in range(0, cols, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        mask = offs < cols
        x = tl.load(base + offs, mask=mask, other=float("-inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new))
        total += tl.sum(tl.where(mask, x, 0.0))
        m = new
    lse = m + tl.log(d)
    tl.store(lse_ptr + row, lse)
    hit = tl.load(base + tl.maximum(label, 0)).to(tl.float32)
    loss = tl.where(label < 0, 0.0, lse - (1 - smoothing) * hit - smoothing * total / cols)
    tl.store(loss_ptr + row, loss)


@triton.jit
def cross_entropy_backward(logits_ptr, labels_ptr, lse_ptr, dloss_ptr, dx_ptr, cols, stride, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < cols
    label = tl.load(labels_ptr + row)
    dloss = tl.where(label < 0, 0.0, tl.load(dloss_ptr + row))
    x = tl.load(logits_ptr + row * stride + offs, mask=mask, other=0.0).to(tl.float32)
    p = tl.exp(x - tl.load(lse_ptr + row))
    p -= smoothing / cols
    p = tl.where(offs == label, p - (1 - smoothing), p)
    tl.store(dx_ptr + row * stride + offs, (dloss * p).to(dx_ptr.dtype.element_ty), mask=mask)


WARPS = configs("num_warps", 4, 8, 16, 32)
ROWS = shapes("rows cols", (32768, 1024), (16384, 8192), (4096, 32768), (1024, 131072), (512, 262144))
SHORT = shapes("rows cols", (32768, 1024), (16384, 4096), (8192, 16384))


def fits_block(s, c):
    return next_power_of_2(s.cols) <= 16384 * c.num_warps  # not more than 512 elements a thread


def softmax_entry(name, log, reference, library):
    e = Entry(name, inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), out=m.empty((s.rows, s.cols), t)), outputs=("out",), reference=reference,
              shapes=ROWS, small=shapes("rows cols", (13, 300)), dtypes=("bf16", "fp32"), bytes=lambda s, e: 2 * s.rows * s.cols * e, library=library)

    @e.spelling("one block", WARPS, fits_block)
    def _(a, s, c):
        return Launch(softmax_block, (s.rows,), (a.x, a.out, s.cols), BLOCK=next_power_of_2(s.cols), LOG=log, **vars(c))

    @e.spelling("persistent rows", configs("num_warps STAGES PROGRAMS", (4, 2, 528), (8, 2, 264), (8, 4, 264), (16, 2, 132)), fits_block)
    def _(a, s, c):
        programs = min(c.PROGRAMS, s.rows)
        return Launch(softmax_persistent, (programs,), (a.x, a.out, s.rows, s.cols, s.cols, s.cols), BLOCK=next_power_of_2(s.cols), LOG=log, STAGES=c.STAGES, num_warps=c.num_warps)

    @e.spelling("online", configs("BLOCK num_warps", (128, 4), (1024, 4), (4096, 8), (8192, 16), (16384, 16)))
    def _(a, s, c):
        return Launch(softmax_online, (s.rows,), (a.x, a.out, s.cols), LOG=log, **vars(c))

    @e.spelling("tile of rows", configs("ROWS num_warps", (4, 4), (2, 8), (8, 8), (1, 4)), lambda s, c: c.ROWS * next_power_of_2(s.cols) <= 8192 * c.num_warps)
    def _(a, s, c):
        return Launch(softmax_rows_of_tile, ((s.rows + c.ROWS - 1) // c.ROWS,), (a.x, a.out, s.rows, s.cols), BLOCK=next_power_of_2(s.cols), LOG=log, **vars(c))
    return e


softmax = softmax_entry("softmax", False, lambda x, a, s: x.softmax(a.x), lambda torch, a, s: torch.softmax(a.x, 1))


def log_softmax_reference(x, a, s):
    v = a.x - x.amax(a.x, axis=1, keepdims=True)
    return v - x.log(x.sum(x.exp(v), axis=1, keepdims=True))


log_softmax = softmax_entry("log softmax", True, log_softmax_reference, lambda torch, a, s: torch.log_softmax(a.x, 1))


def backward_entry(name, log, reference):
    def inputs(m, s, t):
        return dict(y=m.uniform((s.rows, s.cols), t, -8.0, -6.0) if log else m.uniform((s.rows, s.cols), t), dy=m.normal((s.rows, s.cols), t), dx=m.empty((s.rows, s.cols), t))
    e = Entry(name, inputs=inputs, outputs=("dx",), reference=reference, shapes=SHORT, small=shapes("rows cols", (7, 300)), dtypes=("bf16", "fp32"),
              bytes=lambda s, e: 3 * s.rows * s.cols * e)

    @e.spelling("one block", WARPS)
    def _(a, s, c):
        return Launch(softmax_backward, (s.rows,), (a.y, a.dy, a.dx, s.cols), BLOCK=next_power_of_2(s.cols), LOG=log, **vars(c))
    return e


softmax_grad = backward_entry("softmax backward", False, lambda x, a, s: a.y * (a.dy - x.sum(a.y * a.dy, axis=1, keepdims=True)))
log_softmax_grad = backward_entry("log softmax backward", True, lambda x, a, s: a.dy - x.exp(a.y) * x.sum(a.dy, axis=1, keepdims=True))

VOCABULARY = shapes("rows cols", (4096, 32000), (2048, 128256), (8192, 50257), (512, 262144))


def loss_inputs(m, s, t):
    return dict(x=m.normal((s.rows, s.cols), t), labels=m.integers((s.rows,), -1, s.cols, "int64"), loss=m.empty((s.rows,), "fp32"), lse=m.empty((s.rows,), "fp32"),
                dloss=m.normal((s.rows,), "fp32"), dx=m.empty((s.rows, s.cols), t))


def lse_of(x, v):
    top = x.amax(v, axis=1, keepdims=True)
    return (top + x.log(x.sum(x.exp(v - top), axis=1, keepdims=True)))[:, 0]


def hit_of(x, a, s):
    rows = x.arange(s.rows)
    return a.x[rows, x.where(a.labels < 0, 0, a.labels)]


def loss_reference(x, a, s):
    lse = lse_of(x, a.x)
    loss = lse - 0.9 * hit_of(x, a, s) - 0.1 * x.sum(a.x, axis=1) / s.cols
    return x.where(a.labels < 0, 0.0, loss), lse


loss = Entry("cross entropy", inputs=loss_inputs, outputs=("loss", "lse"), reference=loss_reference, shapes=VOCABULARY, small=shapes("rows cols", (9, 300)),
             dtypes=("bf16", "fp32"), bytes=lambda s, e: s.rows * s.cols * e)


@loss.spelling("one block", WARPS, fits_block)
def _(a, s, c):
    return Launch(cross_entropy_forward, (s.rows,), (a.x, a.labels, a.loss, a.lse, s.cols, s.cols, 0.1), BLOCK=next_power_of_2(s.cols), **vars(c))


@loss.spelling("online", configs("BLOCK num_warps", (128, 4), (4096, 8), (16384, 16), (32768, 32)))
def _(a, s, c):
    return Launch(cross_entropy_online, (s.rows,), (a.x, a.labels, a.loss, a.lse, s.cols, s.cols, 0.1), **vars(c))


def loss_grad_inputs(m, s, t):
    a = loss_inputs(m, s, t)
    return {**a, "lse": m.uniform((s.rows,), "fp32", 5.0, 6.0)}


def loss_grad_reference(x, a, s):
    p = x.exp(a.x - a.lse[:, None]) - 0.1 / s.cols
    p = p - x.where(x.arange(s.cols)[None, :] == a.labels[:, None], 0.9, 0.0)
    return x.where(a.labels < 0, 0.0, a.dloss)[:, None] * p


loss_grad = Entry("cross entropy backward", inputs=loss_grad_inputs, outputs=("dx",), reference=loss_grad_reference, shapes=VOCABULARY, small=shapes("rows cols", (9, 300)),
                  dtypes=("bf16", "fp32"), bytes=lambda s, e: 2 * s.rows * s.cols * e)


@loss_grad.spelling("blocks of columns", configs("BLOCK num_warps", (128, 4), (1024, 4), (4096, 8), (8192, 8)))
def _(a, s, c):
    return Launch(cross_entropy_backward, (s.rows, (s.cols + c.BLOCK - 1) // c.BLOCK), (a.x, a.labels, a.lse, a.dloss, a.dx, s.cols, s.cols, 0.1), **vars(c))
