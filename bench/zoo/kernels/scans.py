"""Running sums and recurrences: along rows, of gates, chunked linear attention, selective state spaces."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def row_sums(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    c = tl.arange(0, BLOCK)
    mask = c < cols
    x = tl.load(x_ptr + row + c, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row + c, tl.cumsum(x, axis=0, reverse=REVERSE).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def row_sums_blocks(x_ptr, out_ptr, cols, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    """Block after block, with what came before."""
    row = tl.program_id(0).to(tl.int64) * cols
    before = 0.0
    blocks = tl.cdiv(cols, BLOCK)
    for i in range(0, blocks):
        if REVERSE:
            c = (blocks - 1 - i) * BLOCK + tl.arange(0, BLOCK)
        else:
            c = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + c, mask=c < cols, other=0.0).to(tl.float32)
        y = tl.cumsum(x, 0, reverse=REVERSE) + before
        tl.store(out_ptr + row + c, y.to(out_ptr.dtype.element_ty), mask=c < cols)
        before += tl.sum(x, 0)


@triton.jit
def column_sums(x_ptr, out_ptr, T, D, BT: tl.constexpr, BD: tl.constexpr):
    """Along the slow axis: a tile of columns, down the rows."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    base = tl.program_id(1).to(tl.int64) * T * D
    before = tl.zeros([BD], tl.float32)
    for start in range(0, T, BT):
        t = start + tl.arange(0, BT)
        mask = (t[:, None] < T) & (d[None, :] < D)
        x = tl.load(x_ptr + base + t[:, None] * D + d[None, :], mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + base + t[:, None] * D + d[None, :], (before[None, :] + tl.cumsum(x, axis=0)).to(out_ptr.dtype.element_ty), mask=mask)
        before += tl.sum(x, axis=0)


@triton.jit
def combine(a1, b1, a2, b2):
    """h = a * h + b, two steps as one."""
    return a1 * a2, a2 * b1 + b2


@triton.jit
def gated_scan(a_ptr, b_ptr, h_ptr, T, D, BT: tl.constexpr, BD: tl.constexpr):
    """h[t] = a[t] * h[t - 1] + b[t] by tl.associative_scan within blocks of time."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    base = tl.program_id(1).to(tl.int64) * T * D
    h = tl.zeros([BD], tl.float32)
    for start in range(0, T, BT):
        t = start + tl.arange(0, BT)
        at = base + t[:, None] * D + d[None, :]
        mask = (t[:, None] < T) & (d[None, :] < D)
        a = tl.load(a_ptr + at, mask=mask, other=1.0).to(tl.float32)
        b = tl.load(b_ptr + at, mask=mask, other=0.0).to(tl.float32)
        aa, bb = tl.associative_scan((a, b), 0, combine)
        out = aa * h[None, :] + bb
        tl.store(h_ptr + at, out.to(h_ptr.dtype.element_ty), mask=mask)
        h = tl.sum(tl.where((tl.arange(0, BT) == BT - 1)[:, None], out, 0.0), axis=0)


@triton.jit
def gated_steps(a_ptr, b_ptr, h_ptr, T, D, BD: tl.constexpr):
    """The same, one step after the other."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    at = tl.program_id(1).to(tl.int64) * T * D + d
    h = tl.zeros([BD], tl.float32)
    for _ in range(0, T):
        a = tl.load(a_ptr + at, mask=d < D, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + at, mask=d < D, other=0.0).to(tl.float32)
        h = a * h + b
        tl.store(h_ptr + at, h.to(h_ptr.dtype.element_ty), mask=d < D)
        at += D


@triton.jit
def linear_attention(Q, K, V, O, T, scale, BT: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr):
    """o = (q k^T masked) v + q S, S += k^T v, chunk after chunk; the state stays in registers."""
    head = tl.program_id(1).to(tl.int64)
    v0 = tl.program_id(0) * BV
    state = tl.zeros([DK, BV], tl.float32)
    steps = tl.arange(0, BT)
    for i in range(0, tl.cdiv(T, BT)):
        pq = tl.make_block_ptr(Q + head * T * DK, (T, DK), (DK, 1), (i * BT, 0), (BT, DK), (1, 0))
        pk = tl.make_block_ptr(K + head * T * DK, (DK, T), (1, DK), (0, i * BT), (DK, BT), (0, 1))
        pv = tl.make_block_ptr(V + head * T * DV, (T, DV), (DV, 1), (i * BT, v0), (BT, BV), (1, 0))
        po = tl.make_block_ptr(O + head * T * DV, (T, DV), (DV, 1), (i * BT, v0), (BT, BV), (1, 0))
        q = tl.load(pq, boundary_check=(0, 1))
        q = (q * scale).to(q.dtype)
        k = tl.load(pk, boundary_check=(0, 1))
        v = tl.load(pv, boundary_check=(0, 1))
        s = tl.dot(q, k)
        s = tl.where(steps[:, None] >= steps[None, :], s, 0)
        o = tl.dot(s.to(v.dtype), v)
        o += tl.dot(q, state.to(q.dtype))
        state += tl.dot(k, v)
        tl.store(po, o.to(O.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def chunk_states(K, V, G, S, T, BT: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """First of two kernels with decay: the state before each chunk. G holds running sums of log gates within a chunk."""
    head = tl.program_id(2).to(tl.int64)
    k0 = tl.program_id(0) * BK
    v0 = tl.program_id(1) * BV
    rk = k0 + tl.arange(0, BK)
    rv = v0 + tl.arange(0, BV)
    chunks = T // BT
    state = tl.zeros([BK, BV], tl.float32)
    for i in range(0, chunks):
        tl.store(S + (head * chunks + i) * DK * DV + rk[:, None] * DV + rv[None, :], state.to(S.dtype.element_ty))
        t = i * BT + tl.arange(0, BT)
        k = tl.load(K + head * T * DK + t[None, :] * DK + rk[:, None])
        v = tl.load(V + head * T * DV + t[:, None] * DV + rv[None, :])
        g = tl.load(G + head * T + t)
        last = tl.load(G + head * T + i * BT + BT - 1)
        v = (v * tl.exp(last - g)[:, None]).to(v.dtype)
        state = state * tl.exp(last) + tl.dot(k, v)


@triton.jit
def chunk_outputs(Q, K, V, G, S, O, T, scale, BT: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """Second: outputs of a chunk from its state and itself."""
    i = tl.program_id(1)
    head = tl.program_id(2).to(tl.int64)
    rv = tl.program_id(0) * BV + tl.arange(0, BV)
    chunks = T // BT
    t = i * BT + tl.arange(0, BT)
    o = tl.zeros([BT, BV], tl.float32)
    s = tl.zeros([BT, BT], tl.float32)
    for k0 in range(0, DK, BK):
        rk = k0 + tl.arange(0, BK)
        q = tl.load(Q + head * T * DK + t[:, None] * DK + rk[None, :])
        k = tl.load(K + head * T * DK + t[None, :] * DK + rk[:, None])
        h = tl.load(S + (head * chunks + i) * DK * DV + rk[:, None] * DV + rv[None, :])
        o += tl.dot(q, h)
        s += tl.dot(q, k)
    g = tl.load(G + head * T + t)
    o = o * tl.exp(g)[:, None]
    s = s * tl.exp(g[:, None] - g[None, :])
    s = tl.where(t[:, None] >= t[None, :], s, 0)
    v = tl.load(V + head * T * DV + t[:, None] * DV + rv[None, :])
    o = (o + tl.dot(s.to(v.dtype), v)) * scale
    tl.store(O + head * T * DV + t[:, None] * DV + rv[None, :], o.to(O.dtype.element_ty))


@triton.jit
def selective_scan(x_ptr, dt_ptr, A_ptr, B_ptr, C_ptr, D_ptr, y_ptr, T, DIM, N: tl.constexpr, BD: tl.constexpr):
    """A state of N numbers for each channel; dt, B and C depend on the input."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    batch = tl.program_id(1).to(tl.int64)
    n = tl.arange(0, N)
    mask = d < DIM
    A = tl.load(A_ptr + d[:, None] * N + n[None, :], mask=mask[:, None], other=0.0)
    skip = tl.load(D_ptr + d, mask=mask, other=0.0)
    h = tl.zeros([BD, N], tl.float32)
    for t in range(0, T):
        at = (batch * T + t) * DIM + d
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dt = tl.load(dt_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dt = tl.where(dt <= 20.0, tl.log(1.0 + tl.exp(dt)), dt)
        B = tl.load(B_ptr + (batch * T + t) * N + n).to(tl.float32)
        C = tl.load(C_ptr + (batch * T + t) * N + n).to(tl.float32)
        h = h * tl.exp(dt[:, None] * A) + (dt * x)[:, None] * B[None, :]
        y = tl.sum(h * C[None, :], axis=1) + skip * x
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


WARPS = configs("num_warps", 4, 8, 16, 32)
ROWS = shapes("rows cols", (32768, 1024), (8192, 8192), (2048, 32768))
SMALL = shapes("rows cols", (5, 300))


def sums_entry(name, reverse, reference):
    e = Entry(name, inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), out=m.empty((s.rows, s.cols), t)), outputs=("out",), reference=reference, shapes=ROWS, small=SMALL,
              dtypes=("bf16", "fp32"), bytes=lambda s, e: 2 * s.rows * s.cols * e, library=None if reverse else lambda torch, a, s: torch.cumsum(a.x, 1))

    @e.spelling("one block", WARPS)
    def _(a, s, c):
        return Launch(row_sums, (s.rows,), (a.x, a.out, s.cols), BLOCK=next_power_of_2(s.cols), REVERSE=reverse, **vars(c))

    @e.spelling("blocks", configs("BLOCK num_warps", (64, 2), (1024, 4), (2048, 4), (4096, 8)))
    def _(a, s, c):
        return Launch(row_sums_blocks, (s.rows,), (a.x, a.out, s.cols), REVERSE=reverse, **vars(c))
    return e


cumsum = sums_entry("cumsum of rows", False, lambda x, a, s: x.cumsum(a.x, axis=1))
reversed_cumsum = sums_entry("cumsum from the end", True, lambda x, a, s: x.sum(a.x, axis=1, keepdims=True) - x.cumsum(a.x, axis=1) + a.x)

TIME = shapes("B T D", (8, 4096, 2048), (64, 1024, 1024))
SMALL_TIME = shapes("B T D", (2, 50, 40))
columns = Entry("cumsum of columns", inputs=lambda m, s, t: dict(x=m.normal((s.B, s.T, s.D), t), out=m.empty((s.B, s.T, s.D), t)), outputs=("out",), reference=lambda x, a, s: x.cumsum(a.x, axis=1),
                shapes=TIME, small=SMALL_TIME, dtypes=("bf16", "fp32"), bytes=lambda s, e: 2 * s.B * s.T * s.D * e, library=lambda torch, a, s: torch.cumsum(a.x, 1))
PIECES = configs("BT BD num_warps", (16, 32, 4), (64, 64, 4), (32, 128, 4), (128, 32, 4), (64, 128, 8))


@columns.spelling("tiles", PIECES)
def _(a, s, c):
    return Launch(column_sums, (cdiv(s.D, c.BD), s.B), (a.x, a.out, s.T, s.D), **vars(c))


def recurrence(x, a, b):
    """Along axis 1, step by step."""
    h, out = 0, []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        out.append(h)
    return x.stack(out, axis=1)


gates = Entry("gated recurrence", inputs=lambda m, s, t: dict(a=m.uniform((s.B, s.T, s.D), t, 0.5, 0.99), b=m.normal((s.B, s.T, s.D), t), h=m.empty((s.B, s.T, s.D), t)), outputs=("h",),
              reference=lambda x, a, s: recurrence(x, a.a, a.b), shapes=TIME, small=SMALL_TIME, dtypes=("bf16", "fp32"), bytes=lambda s, e: 3 * s.B * s.T * s.D * e)


@gates.spelling("associative_scan", PIECES)
def _(a, s, c):
    return Launch(gated_scan, (cdiv(s.D, c.BD), s.B), (a.a, a.b, a.h, s.T, s.D), **vars(c))


@gates.spelling("step by step", configs("BD num_warps", (32, 1), (64, 1), (128, 2), (256, 4)))
def _(a, s, c):
    return Launch(gated_steps, (cdiv(s.D, c.BD), s.B), (a.a, a.b, a.h, s.T, s.D), **vars(c))


CHUNKED = shapes("H T DK DV", (64, 4096, 128, 128), (128, 2048, 64, 64))


def linear_inputs(m, s, t):
    return dict(q=m.normal((s.H, s.T, s.DK), t, 0.3), k=m.normal((s.H, s.T, s.DK), t, 0.3), v=m.normal((s.H, s.T, s.DV), t, 0.3), o=m.empty((s.H, s.T, s.DV), t))


def linear_reference(x, a, s):
    p = a.q @ x.swapaxes(a.k, 1, 2) * s.DK**-0.5
    return x.where((x.arange(s.T)[:, None] >= x.arange(s.T)[None, :])[None], p, 0.0) @ a.v


linear = Entry("linear attention", inputs=linear_inputs, outputs=("o",), reference=linear_reference, shapes=CHUNKED, small=shapes("H T DK DV", (2, 80, 32, 32)), dtypes=("bf16", "fp16"),
               flops=lambda s: 2 * s.H * s.T * (2 * s.DK * s.DV + 64 * (s.DK + s.DV)))


@linear.spelling("state in registers", configs("BT BV num_warps num_stages", (32, 32, 4, 2), (64, 64, 4, 2), (64, 32, 4, 3), (64, 64, 2, 1), (128, 64, 8, 2)), lambda s, c: c.BV <= s.DV)
def _(a, s, c):
    return Launch(linear_attention, (s.DV // c.BV, s.H), (a.q, a.k, a.v, a.o, s.T, s.DK**-0.5), DK=s.DK, DV=s.DV, **vars(c))


def decay_inputs(m, s, t):
    """Running sums of the gates start anew at every chunk of 64, which the kernels take for their BT."""
    a = linear_inputs(m, s, t)
    steps = m.uniform((s.H, s.T // 64, 64), "fp32", -0.1, -0.01)
    return {**a, "g": m.x.cumsum(steps, axis=2).reshape(s.H, s.T), "states": m.empty((s.H, s.T // 64, s.DK, s.DV), t)}


def decay_reference(x, a, s):
    ends = a.g.reshape(s.H, -1, 64)[:, :, -1]
    before = x.cumsum(ends, axis=1) - ends
    g = a.g + x.repeat(before, 64, 1)
    p = a.q @ x.swapaxes(a.k, 1, 2) * s.DK**-0.5
    mask = (x.arange(s.T)[:, None] >= x.arange(s.T)[None, :])[None]
    return (x.where(mask, p, 0.0) * x.exp(x.where(mask, g[:, :, None] - g[:, None, :], 0.0))) @ a.v


decay = Entry("linear attention with decay", inputs=decay_inputs, outputs=("o",), reference=decay_reference, shapes=CHUNKED, small=shapes("H T DK DV", (2, 128, 32, 32)), dtypes=("bf16", "fp16"),
              flops=lambda s: 2 * s.H * s.T * (2 * s.DK * s.DV + 64 * (s.DK + s.DV)))


@decay.spelling("states, then outputs", configs("BK BV num_warps num_stages", (32, 32, 4, 2), (64, 64, 4, 2), (64, 64, 8, 3), (32, 64, 2, 3), (64, 32, 4, 3)), lambda s, c: c.BK <= s.DK and c.BV <= s.DV)
def _(a, s, c):
    sizes = dict(BT=64, DK=s.DK, DV=s.DV, **vars(c))
    return [Launch(chunk_states, (s.DK // c.BK, s.DV // c.BV, s.H), (a.k, a.v, a.g, a.states, s.T), **sizes),
            Launch(chunk_outputs, (s.DV // c.BV, s.T // 64, s.H), (a.q, a.k, a.v, a.g, a.states, a.o, s.T, s.DK**-0.5), **sizes)]


def space_inputs(m, s, t):
    return dict(x=m.normal((s.B, s.T, s.DIM), t), dt=m.normal((s.B, s.T, s.DIM), t), A=m.uniform((s.DIM, s.N), "fp32", -2.0, -0.1), Bs=m.normal((s.B, s.T, s.N), t), C=m.normal((s.B, s.T, s.N), t),
                skip=m.normal((s.DIM,), "fp32"), y=m.empty((s.B, s.T, s.DIM), t))


def space_reference(x, a, s):
    dt = x.log(1 + x.exp(a.dt))
    decays = x.exp(dt[..., None] * a.A)
    h = recurrence(x, decays, (dt * a.x)[..., None] * a.Bs[:, :, None, :])
    return x.sum(h * a.C[:, :, None, :], axis=3) + a.skip * a.x


space = Entry("selective state space", inputs=space_inputs, outputs=("y",), reference=space_reference, shapes=shapes("B T DIM N", (8, 1024, 2048, 16), (32, 512, 1024, 16)),
              small=shapes("B T DIM N", (2, 20, 40, 16)), dtypes=("bf16", "fp32"), bytes=lambda s, e: 3 * s.B * s.T * s.DIM * e)


@space.spelling("step by step", configs("BD num_warps", (16, 1), (32, 1), (64, 2), (64, 4), (128, 4)))
def _(a, s, c):
    return Launch(selective_scan, (cdiv(s.DIM, c.BD), s.B), (a.x, a.dt, a.A, a.Bs, a.C, a.skip, a.y, s.T, s.DIM), N=s.N, **vars(c))
