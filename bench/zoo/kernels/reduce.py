"""Reductions along each axis and of everything."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def sum_last(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros([BLOCK], tl.float32)
    for off in range(0, cols, BLOCK):
        c = off + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


@triton.jit
def sum_last_tile(x_ptr, out_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    acc = tl.zeros([BR, BC], tl.float32)
    for off in range(0, cols, BC):
        c = off + tl.arange(0, BC)
        acc += tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0).to(tl.float32)
    tl.store(out_ptr + r, tl.sum(acc, axis=1), mask=r < rows)


@triton.jit
def sum_first(x_ptr, out_ptr, rows, cols, PER: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """Down the columns; PER rows a program, added by atomics."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    first = tl.program_id(1) * PER
    acc = tl.zeros([BR, BC], tl.float32)
    for off in range(0, PER, BR):
        r = first + off + tl.arange(0, BR)
        acc += tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + c, tl.sum(acc, axis=0), mask=c < cols)


@triton.jit
def sum_middle(x_ptr, out_ptr, R, C, BR: tl.constexpr, BC: tl.constexpr):
    """The middle axis of three."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    base = tl.program_id(1).to(tl.int64) * R * C
    acc = tl.zeros([BC], tl.float32)
    for off in range(0, R, BR):
        r = off + tl.arange(0, BR)
        x = tl.load(x_ptr + base + r[:, None] * C + c[None, :], mask=(r[:, None] < R) & (c[None, :] < C), other=0.0).to(tl.float32)
        acc += tl.sum(x, axis=0)
    tl.store(out_ptr + tl.program_id(1) * C + c, acc, mask=c < C)


@triton.jit
def sum_all(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr, tl.sum(acc, axis=0))


@triton.jit
def arg_max(x_ptr, value_ptr, index_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-float("inf")).to(tl.float32)
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index)


@triton.jit
def welford_combine(mean1, m21, n1, mean2, m22, n2):
    n = n1 + n2
    delta = mean2 - mean1
    share = tl.where(n == 0.0, 0.0, n2 / n)
    return mean1 + delta * share, m21 + m22 + delta * delta * n1 * share, n


@triton.jit
def variance(x_ptr, mean_ptr, var_ptr, cols, BLOCK: tl.constexpr):
    """Welford's numbers by tl.reduce."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
    mean, m2, n = tl.reduce((x, tl.zeros([BLOCK], tl.float32), mask.to(tl.float32)), 0, welford_combine)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / n)


WARPS = configs("num_warps", 4, 8, 16, 32)
TWO = ("bf16", "fp32")
ROWS = shapes("rows cols", (65536, 1024), (8192, 16384), (256, 262144))
SMALL = shapes("rows cols", (11, 300))


def inputs(m, s, t):
    return dict(x=m.normal((s.rows, s.cols), t), out=m.empty((s.rows,), "fp32"), value=m.empty((s.rows,), "fp32"), index=m.empty((s.rows,), "int32"), columns=m.zeros((s.cols,), "fp32"))


def read(s, e):
    return s.rows * s.cols * e


last = Entry("sum of rows", inputs=inputs, outputs=("out",), reference=lambda x, a, s: x.sum(a.x, axis=1), shapes=ROWS, small=SMALL, dtypes=TWO, bytes=read, library=lambda torch, a, s: torch.sum(a.x, 1))


@last.spelling("a row a program", configs("BLOCK num_warps", (128, 4), (1024, 4), (4096, 8), (8192, 16)))
def _(a, s, c):
    return Launch(sum_last, (s.rows,), (a.x, a.out, s.cols), **vars(c))


@last.spelling("tiles", configs("BR BC num_warps", (4, 64, 4), (16, 256, 4), (8, 512, 4), (4, 1024, 8), (32, 128, 8)))
def _(a, s, c):
    return Launch(sum_last_tile, (cdiv(s.rows, c.BR),), (a.x, a.out, s.rows, s.cols), **vars(c))


first = Entry("sum of columns", inputs=inputs, outputs=("columns",), zeroed=("columns",), reference=lambda x, a, s: x.sum(a.x, axis=0), shapes=ROWS, small=SMALL, dtypes=TWO, bytes=read,
              library=lambda torch, a, s: torch.sum(a.x, 0))


@first.spelling("atomics", configs("PER BR BC num_warps", (8, 4, 64, 4), (256, 16, 128, 4), (256, 32, 64, 4), (512, 8, 512, 8), (128, 16, 256, 8)))
def _(a, s, c):
    return Launch(sum_first, (cdiv(s.cols, c.BC), cdiv(s.rows, c.PER)), (a.x, a.columns, s.rows, s.cols), **vars(c))


middle = Entry("sum of the middle axis", inputs=lambda m, s, t: dict(x=m.normal((s.B, s.R, s.C), t), out=m.empty((s.B, s.C), "fp32")), outputs=("out",), reference=lambda x, a, s: x.sum(a.x, axis=1),
               shapes=shapes("B R C", (64, 2048, 1024), (512, 512, 512)), small=shapes("B R C", (2, 50, 40)), dtypes=TWO, bytes=lambda s, e: s.B * s.R * s.C * e)


@middle.spelling("tiles", configs("BR BC num_warps", (16, 32, 4), (64, 64, 4), (32, 128, 4), (16, 256, 4), (128, 32, 8)))
def _(a, s, c):
    return Launch(sum_middle, (cdiv(s.C, c.BC), s.B), (a.x, a.out, s.R, s.C), **vars(c))


everything = Entry("sum of all", inputs=lambda m, s, t: dict(x=m.uniform((s.n,), t), out=m.zeros((1,), "fp32")), outputs=("out",), zeroed=("out",), reference=lambda x, a, s: x.sum(a.x).reshape(1),
                   shapes=shapes("n", 1 << 26, 1 << 28), small=shapes("n", 3000), dtypes=TWO, bytes=lambda s, e: s.n * e, library=lambda torch, a, s: torch.sum(a.x))


@everything.spelling("atomics", configs("BLOCK PROGRAMS num_warps", (256, 4, 4), (1024, 1056, 4), (4096, 528, 8), (8192, 264, 8)))
def _(a, s, c):
    return Launch(sum_all, (c.PROGRAMS,), (a.x, a.out, s.n), BLOCK=c.BLOCK, num_warps=c.num_warps)


FIT = shapes("rows cols", (65536, 1024), (8192, 16384))
maximum = Entry("max with index", inputs=inputs, outputs=("value", "index"), reference=lambda x, a, s: (x.amax(a.x, axis=1), x.argmax(a.x, axis=1)), shapes=FIT, small=SMALL, dtypes=("fp32",), bytes=read)


@maximum.spelling("one block", WARPS)
def _(a, s, c):
    return Launch(arg_max, (s.rows,), (a.x, a.value, a.index, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))


def variance_reference(x, a, s):
    mean = x.sum(a.x, axis=1) / s.cols
    return mean, x.sum((a.x - mean[:, None]) ** 2, axis=1) / s.cols


spread = Entry("mean and variance (Welford)", inputs=inputs, outputs=("out", "value"), reference=variance_reference, shapes=FIT, small=SMALL, dtypes=TWO, bytes=read)


@spread.spelling("tl.reduce", WARPS)
def _(a, s, c):
    return Launch(variance, (s.rows,), (a.x, a.out, a.value, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))
