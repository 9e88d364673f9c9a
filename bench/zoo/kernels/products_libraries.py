"""Products as compilers and libraries write them around the plain one: torch.compile's template, operands that are made or widened in the loop, a loss over the vocabulary, chunks of recurrences, experts of fp8."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def template(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B_TURNED: tl.constexpr, EVEN_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """As torch.compile writes it for shapes that are known: whole offsets computed in each iteration, promises about the rows."""
    pid = tl.program_id(0)
    grid_m = (M + BM - 1) // BM
    grid_n = (N + BN - 1) // BN
    width = 8 * grid_n
    group = pid // width
    size = min(grid_m - group * 8, 8)
    pid_m = group * 8 + pid % size
    pid_n = (pid % width) // size
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    am = tl.max_contiguous(tl.multiple_of(rm % M, BM), BM)
    bn = tl.max_contiguous(tl.multiple_of(rn % N, BN), BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        ak = ks[None, :] + i * BK
        bk = ks[:, None] + i * BK
        at_a = ak + K * am[:, None]
        if B_TURNED:
            at_b = bk + K * bn[None, :]
        else:
            at_b = bn[None, :] + N * bk
        if EVEN_K:
            a = tl.load(a_ptr + at_a)
            b = tl.load(b_ptr + at_b)
        else:
            a = tl.load(a_ptr + at_a, mask=ak < K, other=0.0)
            b = tl.load(b_ptr + at_b, mask=bk < K, other=0.0)
        acc += tl.dot(a, b, allow_tf32=True, out_dtype=tl.float32)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    m = rm[:, None]
    n = rn[None, :]
    tl.store(c_ptr + tl.broadcast_to(n + N * m, (BM, BN)), acc, (m < M) & (n < N))


def tiles(s, c):
    return cdiv(s.M, c.BM) * cdiv(s.N, c.BN)


PRODUCT = dict(outputs=("c",), flops=lambda s: 2 * s.M * s.N * s.K)
TEMPLATE_TILES = configs("BM BN BK num_warps num_stages", (64, 32, 32, 8, 5), (32, 32, 16, 2, 1), (32, 32, 128, 4, 2), (32, 64, 32, 8, 5), (64, 32, 128, 4, 5), (64, 64, 16, 4, 2), (64, 64, 32, 4, 2), (64, 64, 64, 8, 3), (64, 64, 128, 4, 5),
                         (64, 128, 32, 4, 3), (64, 128, 32, 8, 4), (64, 128, 64, 4, 3), (64, 128, 128, 4, 4), (128, 64, 32, 4, 3), (128, 64, 32, 8, 4), (128, 128, 32, 8, 2), (128, 128, 32, 4, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 5),
                         (128, 256, 128, 8, 3), (256, 128, 128, 8, 3), (128, 128, 128, 8, 3))

for turned in False, True:
    compiled = Entry("matmul of torch.compile" + (", B transposed" if turned else ""), inputs=lambda m, s, t, turned=turned: dict(a=m.normal((s.M, s.K), t), b=m.normal((s.N, s.K) if turned else (s.K, s.N), t), c=m.empty((s.M, s.N), t)),
                     reference=lambda x, a, s, turned=turned: a.a @ (x.swapaxes(a.b, 0, 1) if turned else a.b), shapes=shapes("M N K", (4096, 4096, 2048), (2000, 3000, 1000)), small=shapes("M N K", (72, 88, 80)), dtypes=("bf16",),
                     library=lambda torch, a, s, turned=turned: torch.mm(a.a, a.b.T if turned else a.b), **PRODUCT)
    globals()["compiled_turned" if turned else "compiled"] = compiled

    @compiled.spelling("template", TEMPLATE_TILES)
    def _(a, s, c, turned=turned):
        return Launch(template, (tiles(s, c),), (a.a, a.b, a.c), M=s.M, N=s.N, K=s.K, B_TURNED=turned, EVEN_K=s.K % c.BK == 0, **vars(c))


# ---- operands made in the loop

@triton.jit
def widened(a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights (N x K) in 8 bits, converted to the other operand's type where they are used; a scale for each channel behind the loop."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + (m % M)[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] + (n % N)[None, :] * K
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(a, b.to(a.dtype), acc)
        a_ptrs += BK
        b_ptrs += BK
    acc *= tl.load(scale_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def cast_inputs(m, s, t, of):
    return dict(a=m.normal((s.M, s.K), "bf16"), b=m.integers((s.N, s.K), -127, 128, "int8") if t == "int8" else m.normal((s.N, s.K), t), scale=m.uniform((s.N,), "fp32", 0.01, 0.1), c=m.empty((s.M, s.N), "bf16"))


wide = Entry("matmul of widened weights", inputs=lambda m, s, t: cast_inputs(m, s, t, None), reference=lambda x, a, s: a.a @ x.swapaxes(x.float(a.b), 0, 1) * a.scale[None, :], shapes=shapes("M N K", (4096, 4096, 4096), (64, 8192, 4096)),
             small=shapes("M N K", (72, 88, 80)), dtypes=("int8", "fp8e4"), **PRODUCT)


@wide.spelling("pointers", configs("BM BN BK num_warps num_stages", (16, 64, 128, 4, 4), (64, 64, 64, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 8, 3), (128, 128, 32, 4, 4), (128, 256, 64, 8, 3), (64, 64, 128, 4, 2)))
def _(a, s, c):
    return Launch(widened, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.a, a.b, a.scale, a.c, s.M, s.N, s.K), **vars(c))


@triton.jit
def gated_rows(gate_ptr, up_ptr, w_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The down projection of a gated MLP, which computes silu(gate) * up on its way."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        at = m[:, None] * K + k[None, :]
        inside = (m[:, None] < M) & (k[None, :] < K)
        gate = tl.load(gate_ptr + at, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + at, mask=inside, other=0.0)
        x = (gate * tl.sigmoid(gate)).to(up.dtype) * up
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc += tl.dot(x, w)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


down = Entry("matmul of gated rows", outputs=("out",), inputs=lambda m, s, t: dict(gate=m.normal((s.M, s.K), t), up=m.normal((s.M, s.K), t), w=m.normal((s.N, s.K), t, s.K**-0.5), out=m.empty((s.M, s.N), t)),
             reference=lambda x, a, s: (x.silu(a.gate) * a.up) @ x.swapaxes(a.w, 0, 1), shapes=shapes("M N K", (4096, 4096, 4096)), small=shapes("M N K", (72, 88, 80)), dtypes=("bf16",), flops=lambda s: 2 * s.M * s.N * s.K)


@down.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 8, 3), (128, 128, 32, 4, 3), (128, 64, 64, 4, 3), (128, 256, 64, 8, 2)))
def _(a, s, c):
    return Launch(gated_rows, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.gate, a.up, a.w, a.out, s.M, s.N, s.K), **vars(c))


@triton.jit
def normed_rows(x_ptr, gain_ptr, w_ptr, out_ptr, M, N, K, eps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """RMS norm in front of a product, in its loop: the sum of squares is known behind it, as the rows' scale."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x_ptrs = x_ptr + (m % M)[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    squares = tl.zeros((BM,), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(x_ptrs)
        wide = x.to(tl.float32)
        squares += tl.sum(wide * wide, 1)
        gain = tl.load(gain_ptr + i * BK + k)
        acc = tl.dot((wide * gain[None, :]).to(x.dtype), tl.load(w_ptrs), acc)
        x_ptrs += BK
        w_ptrs += BK * N
    acc *= tl.rsqrt(squares / K + eps)[:, None]
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


normed = Entry("matmul of normed rows", outputs=("out",), inputs=lambda m, s, t: dict(x=m.normal((s.M, s.K), t), gain=m.uniform((s.K,), "fp32", 0.5, 1.5), w=m.normal((s.K, s.N), t, s.K**-0.5), out=m.empty((s.M, s.N), t)),
               reference=lambda x, a, s: (a.x * a.gain) @ a.w * (x.sum(a.x * a.x, axis=1, keepdims=True) / s.K + 1e-6) ** -0.5, shapes=shapes("M N K", (4096, 4096, 4096)), small=shapes("M N K", (72, 88, 128)), dtypes=("bf16",),
               flops=lambda s: 2 * s.M * s.N * s.K)


@normed.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 8, 3), (128, 128, 32, 4, 3), (128, 64, 64, 4, 3)))
def _(a, s, c):
    return Launch(normed_rows, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.x, a.gain, a.w, a.out, s.M, s.N, s.K, 1e-6), **vars(c))


@triton.jit
def weight_gradient(x_ptr, dy_ptr, dw_ptr, T, M, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """x^T @ dy over all tokens: tiles of x as they lie, turned by tl.trans."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for t0 in range(0, T, BK):
        t = t0 + tl.arange(0, BK)
        x = tl.load(x_ptr + t[:, None] * M + m[None, :], mask=(t[:, None] < T) & (m[None, :] < M), other=0.0)
        dy = tl.load(dy_ptr + t[:, None] * N + n[None, :], mask=(t[:, None] < T) & (n[None, :] < N), other=0.0)
        acc += tl.dot(tl.trans(x), dy)
    tl.store(dw_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


gradient = Entry("matmul of weights' gradients", outputs=("dw",), inputs=lambda m, s, t: dict(x=m.normal((s.T, s.M), t), dy=m.normal((s.T, s.N), t), dw=m.empty((s.M, s.N), "fp32")), reference=lambda x, a, s: x.swapaxes(a.x, 0, 1) @ a.dy,
                 shapes=shapes("T M N", (8192, 4096, 4096), (5000, 2048, 3000)), small=shapes("T M N", (72, 88, 80)), dtypes=("bf16",), flops=lambda s: 2 * s.M * s.N * s.T)


@gradient.spelling("tl.trans", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (64, 128, 64, 4, 3), (128, 128, 64, 8, 3), (128, 128, 32, 4, 4), (128, 128, 64, 4, 3), (128, 256, 64, 8, 3), (128, 256, 32, 8, 4)))
def _(a, s, c):
    return Launch(weight_gradient, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.x, a.dy, a.dw, s.T, s.M, s.N), **vars(c))


# ---- behind the loop

@triton.jit
def vocabulary_lse(e_ptr, c_ptr, top_ptr, total_ptr, B, V, D, cap, BB: tl.constexpr, BV: tl.constexpr, BD: tl.constexpr, CAP: tl.constexpr):
    """Logits of a block of the vocabulary, of which only a maximum and a sum for each row leave the kernel."""
    pid = tl.program_id(0)
    num_b = tl.cdiv(B, BB)
    num_v = tl.cdiv(V, BV)
    width = 8 * num_v
    first = (pid // width) * 8
    size = min(num_b - first, 8)
    pid_b = first + pid % size
    pid_v = (pid % width) // size
    b = (pid_b * BB + tl.arange(0, BB)) % B
    v = (pid_v * BV + tl.arange(0, BV)) % V
    d = tl.arange(0, BD)
    e_ptrs = e_ptr + b[:, None] * D + d[None, :]
    c_ptrs = c_ptr + v[None, :] * D + d[:, None]
    logits = tl.zeros((BB, BV), tl.float32)
    for i in range(0, tl.cdiv(D, BD)):
        e = tl.load(e_ptrs, mask=d[None, :] < D - i * BD, other=0.0)
        c = tl.load(c_ptrs, mask=d[:, None] < D - i * BD, other=0.0)
        logits = tl.dot(e, c, logits)
        e_ptrs += BD
        c_ptrs += BD
    if CAP:
        z = 2.0 / (1.0 + tl.exp(-2.0 * logits / cap)) - 1.0
        logits = cap * z
    whole_v = pid_v * BV + tl.arange(0, BV)
    logits = tl.where(whole_v[None, :] < V, logits, -float("inf"))
    top = tl.max(logits, 1)
    total = tl.sum(tl.exp(logits - top[:, None]), 1)
    whole_b = pid_b * BB + tl.arange(0, BB)
    tl.store(top_ptr + pid_v * B + whole_b, top, mask=whole_b < B)
    tl.store(total_ptr + pid_v * B + whole_b, total, mask=whole_b < B)


@triton.jit
def join_lse(top_ptr, total_ptr, lse_ptr, B, PARTS, BB: tl.constexpr):
    b = tl.program_id(0) * BB + tl.arange(0, BB)
    top = tl.full((BB,), float("-inf"), tl.float32)
    total = tl.zeros((BB,), tl.float32)
    for i in range(PARTS):
        t = tl.load(top_ptr + i * B + b, mask=b < B, other=float("-inf"))
        new = tl.maximum(top, t)
        total = total * tl.exp(top - new) + tl.load(total_ptr + i * B + b, mask=b < B, other=0.0) * tl.exp(t - new)
        top = new
    tl.store(lse_ptr + b, top + tl.log(total), mask=b < B)


def lse_reference(x, a, s):
    z = a.e @ x.swapaxes(a.c, 0, 1)
    z = 30.0 * x.tanh(z / 30.0) if s.CAP else z
    top = x.amax(z, axis=1, keepdims=True)
    return (top + x.log(x.sum(x.exp(z - top), axis=1, keepdims=True)))[:, 0]


loss = Entry("log-sum-exp over a vocabulary", outputs=("lse",), inputs=lambda m, s, t: dict(e=m.normal((s.B, s.D), t, 0.2), c=m.normal((s.V, s.D), t, 0.2), top=m.empty((cdiv(s.V, 32), s.B)), total=m.empty((cdiv(s.V, 32), s.B)), lse=m.empty((s.B,))),
             reference=lse_reference, shapes=shapes("B V D CAP", (4096, 50257, 2048, False), (2048, 32000, 2304, True)), small=shapes("B V D CAP", (72, 100, 80, True)), dtypes=("bf16",), flops=lambda s: 2 * s.B * s.V * s.D)


@loss.spelling("pointers, then joined", configs("BB BV BD num_warps num_stages", (32, 64, 32, 4, 2), (128, 128, 32, 8, 4), (128, 128, 32, 4, 4), (128, 256, 32, 8, 4), (128, 256, 64, 8, 3), (256, 128, 32, 8, 4), (128, 128, 64, 8, 3), (64, 128, 64, 4, 3)))
def _(a, s, c):
    return [Launch(vocabulary_lse, (cdiv(s.B, c.BB) * cdiv(s.V, c.BV),), (a.e, a.c, a.top, a.total, s.B, s.V, s.D, 30.0), CAP=s.CAP, **vars(c)),
            Launch(join_lse, (cdiv(s.B, 32),), (a.top, a.total, a.lse, s.B, cdiv(s.V, c.BV)), BB=32)]


# ---- experts of fp8

@triton.jit
def experts_by_blocks(x_ptr, w_ptr, sx_ptr, sw_ptr, out_ptr, sorted_ids, expert_ids, valid, rows_in, N, K, TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """Tokens sorted by expert, fp8 by blocks: a scale for 128 elements of a token, and for 128 x 128 of a weight."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(valid, BM)
    num_n = tl.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    size = min(num_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    if pid_m * BM >= valid:
        return
    ids = tl.load(sorted_ids + pid_m * BM + tl.arange(0, BM)).to(tl.int64)
    token_mask = ids < rows_in
    expert = tl.load(expert_ids + pid_m * BM).to(tl.int64)
    n = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    x_ptrs = x_ptr + ids[:, None] // TOP_K * K + k[None, :]
    w_ptrs = w_ptr + expert * N * K + (k[:, None] + n[None, :] * K)
    scales = tl.cdiv(K, 128)
    sx_ptrs = sx_ptr + ids // TOP_K * scales
    sw_ptrs = sw_ptr + expert * tl.cdiv(N, 128) * scales + n // 128 * scales
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(x_ptrs, mask=token_mask[:, None] & (k[None, :] < K - i * BK), other=0.0)
        w = tl.load(w_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        at = i * BK // 128
        sx = tl.load(sx_ptrs + at, mask=token_mask, other=0.0)
        sw = tl.load(sw_ptrs + at)
        acc += tl.dot(x, w) * sx[:, None] * sw[None, :]
        x_ptrs += BK
        w_ptrs += BK
    at_n = pid_n * BN + tl.arange(0, BN)
    tl.store(out_ptr + ids[:, None] * N + at_n[None, :], acc.to(out_ptr.dtype.element_ty), mask=token_mask[:, None] & (at_n[None, :] < N))


def expert_inputs(m, s, t):
    rows, ids, of = s.T * s.TOP_K, [], []
    chosen = [[r for r in range(rows) if (r * 7 + r // 5) % s.E == e] for e in range(s.E)]
    expert_of = [0] * rows
    for e, mine in enumerate(chosen):
        padded = cdiv(len(mine), 128) * 128
        ids += mine + [rows] * (padded - len(mine))
        of += [e] * padded
        for r in mine:
            expert_of[r] = e
    kb = cdiv(s.K, 128)
    return dict(x=m.normal((s.T, s.K), t), w=m.normal((s.E, s.N, s.K), t), sx=m.uniform((s.T, kb), "fp32", 0.01, 0.1), sw=m.uniform((s.E, cdiv(s.N, 128), kb), "fp32", 0.01, 0.1), out=m.empty((rows, s.N), "bf16"), ids=m.array(ids), experts=m.array(of),
                row_expert=m.array(expert_of))


def expert_reference(x, a, s):
    tokens = x.repeat(a.x * x.repeat(a.sx, 128, 1)[:, :s.K], s.TOP_K, 0)
    weight = lambda e: a.w[e] * x.repeat(x.repeat(a.sw[e], 128, 0), 128, 1)[:s.N, :s.K]
    return sum(x.where((a.row_expert == e)[:, None], tokens @ x.swapaxes(weight(e), 0, 1), 0.0) for e in range(s.E))


experts = Entry("grouped matmul (experts of fp8)", outputs=("out",), inputs=expert_inputs, reference=expert_reference, shapes=shapes("T TOP_K E N K", (4096, 2, 8, 4096, 4096), (64, 8, 32, 2048, 4096)), small=shapes("T TOP_K E N K", (40, 2, 3, 144, 272)),
                dtypes=("fp8e4",), tolerance=0.05, flops=lambda s: 2 * s.T * s.TOP_K * s.N * s.K)


@experts.spelling("sorted rows", configs("BM BN BK GROUP num_warps num_stages", (16, 64, 128, 1, 4, 4), (64, 64, 128, 1, 4, 3), (64, 128, 128, 16, 4, 3), (128, 128, 128, 32, 8, 3), (128, 128, 128, 16, 4, 3), (128, 256, 128, 32, 8, 4), (32, 128, 128, 16, 4, 4)))
def _(a, s, c):
    valid = a.ids.shape[0]
    return Launch(experts_by_blocks, (cdiv(valid, c.BM) * cdiv(s.N, c.BN),), (a.x, a.w, a.sx, a.sw, a.out, a.ids, a.experts, valid, s.T * s.TOP_K, s.N, s.K), TOP_K=s.TOP_K, **vars(c))


# ---- chunks of recurrences

@triton.jit
def chunk_scan(cb_ptr, x_ptr, dt_ptr, da_ptr, c_ptr, states_ptr, skip_ptr, z_ptr, out_ptr, T, H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Mamba-2's output of a chunk: what the state before it gives, and a causal product with decays inside."""
    chunk = tl.program_id(1)
    head = tl.program_id(2)
    num_n = tl.cdiv(P, BN)
    pid_m = tl.program_id(0) // num_n
    pid_n = tl.program_id(0) % num_n
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    left = min(CHUNK, T - chunk * CHUNK)
    row = chunk * CHUNK
    da_ptr += head * T + row
    dt_ptr += head * T + row
    x_ptr += row * H * P + head * P
    cb_ptr += chunk * CHUNK * CHUNK
    da_m = tl.load(da_ptr + m, mask=m < left, other=0.0)
    s = tl.arange(0, N)
    c = tl.load(c_ptr + (row + m[:, None]) * N + s[None, :], mask=m[:, None] < left, other=0.0)
    before = tl.load(states_ptr + (chunk * H + head) * P * N + n[None, :] * N + s[:, None], mask=n[None, :] < P, other=0.0)
    acc = tl.dot(c, before.to(c.dtype)) * tl.exp(da_m)[:, None]
    k = tl.arange(0, BK)
    for k0 in range(0, min((pid_m + 1) * BM, left), BK):
        cb = tl.load(cb_ptr + m[:, None] * CHUNK + (k0 + k)[None, :], mask=(m[:, None] < CHUNK) & (k0 + k < CHUNK)[None, :], other=0.0).to(tl.float32)
        da_k = tl.load(da_ptr + k0 + k, mask=k0 + k < left, other=0.0)
        cb *= tl.exp(tl.minimum(da_m[:, None] - da_k[None, :], 0.0))
        cb *= tl.load(dt_ptr + k0 + k, mask=k0 + k < left, other=0.0)[None, :]
        cb = tl.where(m[:, None] >= k0 + k[None, :], cb, 0.0)
        x = tl.load(x_ptr + (k0 + k)[:, None] * (H * P) + n[None, :], mask=(k0 + k < left)[:, None] & (n[None, :] < P), other=0.0)
        acc += tl.dot(cb.to(x.dtype), x)
    inside = (m[:, None] < left) & (n[None, :] < P)
    at = m[:, None] * (H * P) + n[None, :]
    acc += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * tl.load(skip_ptr + head)
    z = tl.load(z_ptr + row * H * P + head * P + at, mask=inside, other=0.0).to(tl.float32)
    acc *= z * tl.sigmoid(z)
    tl.store(out_ptr + row * H * P + head * P + at, acc.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def chunk_state(x_ptr, b_ptr, dt_ptr, da_ptr, states_ptr, T, H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Mamba-2's contribution of a chunk to the state: x^T @ (b * decays to the chunk's end)."""
    chunk = tl.program_id(1)
    head = tl.program_id(2)
    num_n = tl.cdiv(N, BN)
    m = (tl.program_id(0) // num_n) * BM + tl.arange(0, BM)
    n = (tl.program_id(0) % num_n) * BN + tl.arange(0, BN)
    row = chunk * CHUNK
    left = min(CHUNK, T - row)
    k = tl.arange(0, BK)
    x_ptrs = x_ptr + row * H * P + head * P + m[:, None] + k[None, :] * (H * P)
    b_ptrs = b_ptr + row * N + n[None, :] + k[:, None] * N
    dt_ptrs = dt_ptr + head * T + row + k
    da_ptrs = da_ptr + head * T + row + k
    last = tl.load(da_ptr + head * T + row + left - 1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, left, BK):
        x = tl.load(x_ptrs, mask=(m[:, None] < P) & (k[None, :] < left - k0), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < left - k0) & (n[None, :] < N), other=0.0).to(tl.float32)
        da = tl.load(da_ptrs, mask=k < left - k0, other=0.0)
        dt = tl.load(dt_ptrs, mask=k < left - k0, other=0.0)
        b *= (tl.exp(tl.minimum(last - da, 0.0)) * dt)[:, None]
        acc += tl.dot(x, b.to(x.dtype))
        x_ptrs += BK * H * P
        b_ptrs += BK * N
        dt_ptrs += BK
        da_ptrs += BK
    tl.store(states_ptr + (chunk * H + head) * P * N + m[:, None] * N + n[None, :], acc.to(states_ptr.dtype.element_ty), mask=(m[:, None] < P) & (n[None, :] < N))


def chunk_inputs(m, s, t):
    """Sums of decays start anew in each chunk of 256."""
    steps = m.uniform((s.H, cdiv(s.T, s.C), s.C), "fp32", -0.02, -0.001)
    return dict(x=m.normal((s.T, s.H, s.P), t), z=m.normal((s.T, s.H, s.P), t), b=m.normal((s.T, s.N), t, 0.3), c=m.normal((s.T, s.N), t, 0.3), cb=m.normal((s.T // s.C, s.C, s.C), t), dt=m.uniform((s.H, s.T), "fp32", 0.01, 0.1),
                da=m.x.cumsum(steps, axis=2).reshape(s.H, -1)[:, :s.T], skip=m.uniform((s.H,), "fp32"), states=m.normal((s.T // s.C, s.H, s.P, s.N), t), out=m.empty((s.T, s.H, s.P), t), sums=m.empty((s.T // s.C, s.H, s.P, s.N), t))


def scan_reference(x, a, s):
    chunks = s.T // s.C
    da = a.da.reshape(s.H, chunks, s.C)
    mask = x.arange(s.C)[:, None] >= x.arange(s.C)[None, :]
    out = []
    for i in range(chunks):
        here = slice(i * s.C, (i + 1) * s.C)
        d = da[:, i]
        p = x.where(mask[None], x.exp(x.where(mask[None], d[:, :, None] - d[:, None, :], 0.0)) * a.cb[i][None] * a.dt[:, None, here], 0.0)
        xs = x.swapaxes(a.x[here], 0, 1)
        y = p @ xs + (a.c[here][None] @ x.swapaxes(a.states[i], 1, 2)) * x.exp(d)[:, :, None] + xs * a.skip[:, None, None]
        out.append(x.swapaxes(y, 0, 1) * x.silu(a.z[here]))
    return x.concatenate(out, axis=0)


def state_reference(x, a, s):
    chunks = s.T // s.C
    out = []
    for i in range(chunks):
        here = slice(i * s.C, (i + 1) * s.C)
        d = a.da[:, here]
        scale = x.exp(d[:, s.C - 1:] - d) * a.dt[:, here]
        out.append(x.swapaxes(x.swapaxes(a.x[here], 0, 1), 1, 2) @ (a.b[here][None] * scale[:, :, None]))
    return x.stack(out, axis=0)


CHUNKS = dict(inputs=chunk_inputs, shapes=shapes("T H P N C", (8192, 64, 64, 128, 256)), small=shapes("T H P N C", (64, 2, 32, 16, 32)), dtypes=("bf16",))
scan = Entry("Mamba-2's output of chunks", outputs=("out",), reference=scan_reference, flops=lambda s: 2 * s.T * s.H * s.P * (s.N + s.C // 2), **CHUNKS)
state = Entry("Mamba-2's states of chunks", outputs=("sums",), reference=state_reference, flops=lambda s: 2 * s.T * s.H * s.P * s.N, **CHUNKS)
SCAN_TILES = configs("BM BN BK num_warps num_stages", (32, 32, 32, 2, 5), (128, 64, 64, 4, 3), (64, 64, 32, 4, 4), (128, 64, 32, 4, 4), (32, 64, 32, 2, 5), (64, 64, 64, 4, 2), (128, 64, 32, 8, 3))


@scan.spelling("pointers", SCAN_TILES)
def _(a, s, c):
    return Launch(chunk_scan, (cdiv(s.C, c.BM) * cdiv(s.P, c.BN), s.T // s.C, s.H), (a.cb, a.x, a.dt, a.da, a.c, a.states, a.skip, a.z, a.out, s.T), H=s.H, P=s.P, N=s.N, CHUNK=s.C, **vars(c))


@state.spelling("pointers", SCAN_TILES)
def _(a, s, c):
    return Launch(chunk_state, (cdiv(s.P, c.BM) * cdiv(s.N, c.BN), s.T // s.C, s.H), (a.x, a.b, a.dt, a.da, a.sums, s.T), H=s.H, P=s.P, N=s.N, CHUNK=s.C, **vars(c))


@triton.jit
def delta_rows(k_ptr, v_ptr, beta_ptr, g_ptr, A_ptr, w_ptr, u_ptr, T, DK: tl.constexpr, DV: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """Two products of one small matrix a chunk, block by block: u = A @ (v beta), w = A @ (k beta exp(g))."""
    chunk = tl.program_id(0)
    head = tl.program_id(1)
    beta = tl.load(tl.make_block_ptr(beta_ptr + head * T, (T,), (1,), (chunk * BT,), (BT,), (0,)), boundary_check=(0,))
    A = tl.load(tl.make_block_ptr(A_ptr + head * T * BT, (T, BT), (BT, 1), (chunk * BT, 0), (BT, BT), (1, 0)), boundary_check=(0, 1))
    g = tl.exp(tl.load(tl.make_block_ptr(g_ptr + head * T, (T,), (1,), (chunk * BT,), (BT,), (0,)), boundary_check=(0,)))
    for i in range(tl.cdiv(DV, BV)):
        v = tl.load(tl.make_block_ptr(v_ptr + head * T * DV, (T, DV), (DV, 1), (chunk * BT, i * BV), (BT, BV), (1, 0)), boundary_check=(0, 1))
        u = tl.dot(A, (v * beta[:, None]).to(v.dtype), allow_tf32=False)
        tl.store(tl.make_block_ptr(u_ptr + head * T * DV, (T, DV), (DV, 1), (chunk * BT, i * BV), (BT, BV), (1, 0)), u.to(u_ptr.dtype.element_ty), boundary_check=(0, 1))
    for i in range(tl.cdiv(DK, BK)):
        k = tl.load(tl.make_block_ptr(k_ptr + head * T * DK, (T, DK), (DK, 1), (chunk * BT, i * BK), (BT, BK), (1, 0)), boundary_check=(0, 1))
        w = tl.dot(A, (k * beta[:, None] * g[:, None]).to(k.dtype))
        tl.store(tl.make_block_ptr(w_ptr + head * T * DK, (T, DK), (DK, 1), (chunk * BT, i * BK), (BT, BK), (1, 0)), w.to(w_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def delta_states(k_ptr, w_ptr, u_ptr, g_ptr, h_ptr, new_ptr, T, DV: tl.constexpr, BT: tl.constexpr, BV: tl.constexpr):
    """A gated delta rule's states, chunk by chunk, of keys of 128 as two states of 64 rows."""
    column = tl.program_id(0)
    head = tl.program_id(1)
    first = tl.zeros((64, BV), tl.float32)
    second = tl.zeros((64, BV), tl.float32)
    chunks = tl.cdiv(T, BT)
    h_ptr += head * chunks * 128 * DV
    for t in range(chunks):
        tl.store(tl.make_block_ptr(h_ptr + t * 128 * DV, (128, DV), (DV, 1), (0, column * BV), (64, BV), (1, 0)), first.to(h_ptr.dtype.element_ty), boundary_check=(0, 1))
        tl.store(tl.make_block_ptr(h_ptr + t * 128 * DV, (128, DV), (DV, 1), (64, column * BV), (64, BV), (1, 0)), second.to(h_ptr.dtype.element_ty), boundary_check=(0, 1))
        w = tl.load(tl.make_block_ptr(w_ptr + head * T * 128, (T, 128), (128, 1), (t * BT, 0), (BT, 64), (1, 0)), boundary_check=(0, 1))
        new = tl.dot(w, first.to(w.dtype))
        w = tl.load(tl.make_block_ptr(w_ptr + head * T * 128, (T, 128), (128, 1), (t * BT, 64), (BT, 64), (1, 0)), boundary_check=(0, 1))
        new += tl.dot(w, second.to(w.dtype))
        u = tl.load(tl.make_block_ptr(u_ptr + head * T * DV, (T, DV), (DV, 1), (t * BT, column * BV), (BT, BV), (1, 0)), boundary_check=(0, 1))
        new = u - new
        tl.store(tl.make_block_ptr(new_ptr + head * T * DV, (T, DV), (DV, 1), (t * BT, column * BV), (BT, BV), (1, 0)), new.to(new_ptr.dtype.element_ty), boundary_check=(0, 1))
        last = tl.load(g_ptr + head * T + min((t + 1) * BT, T) - 1)
        g = tl.load(tl.make_block_ptr(g_ptr + head * T, (T,), (1,), (t * BT,), (BT,), (0,)), boundary_check=(0,))
        new = new * tl.where(t * BT + tl.arange(0, BT) < T, tl.exp(last - g), 0.0)[:, None]
        first *= tl.exp(last)
        second *= tl.exp(last)
        new = new.to(k_ptr.dtype.element_ty)
        k = tl.load(tl.make_block_ptr(k_ptr + head * T * 128, (128, T), (1, 128), (0, t * BT), (64, BT), (0, 1)), boundary_check=(0, 1))
        first += tl.dot(k, new)
        k = tl.load(tl.make_block_ptr(k_ptr + head * T * 128, (128, T), (1, 128), (64, t * BT), (64, BT), (0, 1)), boundary_check=(0, 1))
        second += tl.dot(k, new)


def delta_inputs(m, s, t):
    steps = m.uniform((s.H, s.T // 64, 64), "fp32", -0.05, -0.001)
    return dict(k=m.normal((s.H, s.T, s.DK), t, 0.09), v=m.normal((s.H, s.T, s.DV), t), beta=m.uniform((s.H, s.T), "fp32"), g=m.x.cumsum(steps, axis=2).reshape(s.H, s.T), A=m.normal((s.H, s.T, 64), t, 0.2), w=m.normal((s.H, s.T, s.DK), t, 0.09),
                u=m.normal((s.H, s.T, s.DV), t), w_out=m.empty((s.H, s.T, s.DK), t), u_out=m.empty((s.H, s.T, s.DV), t), h=m.empty((s.H, s.T // 64, s.DK, s.DV), t), new=m.empty((s.H, s.T, s.DV), t))


def rows_reference(x, a, s):
    A = a.A.reshape(s.H, -1, 64, 64)
    split = lambda v: v.reshape(s.H, -1, 64, v.shape[-1])
    return (A @ split(a.k * (a.beta * x.exp(a.g))[..., None])).reshape(s.H, s.T, s.DK), (A @ split(a.v * a.beta[..., None])).reshape(s.H, s.T, s.DV)


def states_reference(x, a, s):
    h, hs, news = a.k[:, :1, :, None] * a.v[:, :1, None, :] * 0.0, [], []
    h = h[:, 0]
    for t in range(s.T // 64):
        here = slice(t * 64, (t + 1) * 64)
        hs.append(h)
        new = a.u[:, here] - a.w[:, here] @ h
        news.append(new)
        g = a.g[:, here]
        h = h * x.exp(g[:, 63])[:, None, None] + x.swapaxes(a.k[:, here], 1, 2) @ (new * x.exp(g[:, 63:] - g)[..., None])
    return x.stack(hs, axis=1), x.concatenate(news, axis=1)


DELTA = dict(inputs=delta_inputs, shapes=shapes("H T DK DV", (64, 4096, 128, 128)), small=shapes("H T DK DV", (2, 128, 128, 32)), dtypes=("bf16",))
prepared = Entry("delta rule, rows", outputs=("w_out", "u_out"), reference=rows_reference, flops=lambda s: 2 * s.H * s.T * 64 * (s.DK + s.DV), **DELTA)
carried = Entry("delta rule, states", outputs=("h", "new"), reference=states_reference, flops=lambda s: 4 * s.H * s.T * s.DK * s.DV, tolerance=0.04, **DELTA)


@prepared.spelling("block pointers", configs("BK BV num_warps num_stages", (32, 32, 2, 2), (64, 64, 4, 2), (64, 64, 2, 3), (64, 64, 8, 4), (128, 128, 4, 3)), lambda s, c: c.BV <= s.DV)
def _(a, s, c):
    return Launch(delta_rows, (s.T // 64, s.H), (a.k, a.v, a.beta, a.g, a.A, a.w_out, a.u_out, s.T), DK=s.DK, DV=s.DV, BT=64, **vars(c))


@carried.spelling("block pointers", configs("BV num_warps num_stages", (32, 2, 2), (32, 4, 2), (64, 4, 2), (32, 4, 4), (64, 4, 3), (64, 2, 3), (16, 2, 2)), lambda s, c: c.BV <= s.DV)
def _(a, s, c):
    return Launch(delta_states, (s.DV // c.BV, s.H), (a.k, a.w, a.u, a.g, a.h, a.new, s.T), DV=s.DV, BT=64, **vars(c))
