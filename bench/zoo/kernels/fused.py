"""Matrix products with an epilogue in the same kernel, batched and grouped ones, and those that share one tile's K among programs."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def gelu(x):
    """By the tanh approximation, tanh by exp as before libdevice was common."""
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + (1 - 2 / (tl.exp(2 * inner) + 1)))


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def matmul_epilogue(a_ptr, b_ptr, bias_ptr, residual_ptr, c_ptr, M, N, K, ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
                    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """a is M x K, b is N x K (a linear layer's weight)."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    size = min(num_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + (rm % M)[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + (rn % N)[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K, 0, -BK):
        a = tl.load(a_ptrs, mask=rk[None, :] < k, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < k, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK
        b_ptrs += BK
    if HAS_BIAS:
        acc += tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == "gelu":
        acc = gelu(acc)
    elif ACTIVATION == "silu":
        acc = silu(acc)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    if HAS_RESIDUAL:
        acc += tl.load(residual_ptr + rm[:, None] * N + rn[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_epilogue_desc(a_desc, b_desc, residual_desc, c_desc, bias_ptr, M, N, K, ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
                         BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), tl.trans(b_desc.load([n, k])), acc)
    if HAS_BIAS:
        rn = n + tl.arange(0, BN)
        acc = acc + tl.load(bias_ptr + rn, mask=rn < N, other=0.0)[None, :]
    if ACTIVATION == "gelu":
        acc = gelu(acc)
    if HAS_RESIDUAL:
        acc = acc + residual_desc.load([m, n])
    c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def swiglu_matmul(x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K, stride_xm, stride_w, stride_om, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """silu(x @ gate.T) * (x @ up.T): two products of one operand."""
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    gate_acc = tl.zeros((BM, BN), tl.float32)
    up_acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + rk
        x = tl.load(x_ptr + rm[:, None] * stride_xm + kk[None, :], mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        offs = rn[None, :] * stride_w + kk[:, None]
        mask = (rn[None, :] < N) & (kk[:, None] < K)
        gate_acc = tl.dot(x, tl.load(gate_ptr + offs, mask=mask, other=0.0), gate_acc)
        up_acc = tl.dot(x, tl.load(up_ptr + offs, mask=mask, other=0.0), up_acc)
    out = silu(gate_acc) * up_acc
    tl.store(out_ptr + rm[:, None] * stride_om + rn[None, :], out.to(out_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def batched_matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_ab, stride_bb, stride_cb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + batch * stride_ab + rm[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + batch * stride_bb + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(rm[:, None] < M) & (rk[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(rk[:, None] < K - k * BK) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + batch * stride_cb + rm[:, None] * N + rn[None, :], acc.to(c_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def batched_block_pointers(a_ptr, b_ptr, c_ptr, M, N, K, stride_ab, stride_bb, stride_cb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    pa = tl.make_block_ptr(a_ptr + batch * stride_ab, (M, K), (K, 1), (m, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b_ptr + batch * stride_bb, (K, N), (N, 1), (0, n), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(tl.load(pa, boundary_check=(0, 1)), tl.load(pb, boundary_check=(0, 1)))
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c_ptr + batch * stride_cb, (M, N), (N, 1), (m, n), (BM, BN), (1, 0))
    tl.store(pc, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def experts(x_ptr, w_ptr, out_ptr, sorted_ids, expert_ids, weights_ptr, valid, N, K, TOP_K: tl.constexpr, SCALE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, GROUP: tl.constexpr):
    """A mixture of experts: rows of tokens sorted by expert, padded to whole tiles; each tile reads one expert's weight (N x K)."""
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BN)
    num_m = tl.cdiv(valid, BM)
    group = pid // (GROUP * num_n)
    size = min(num_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * num_n)) % size
    pid_n = (pid % (GROUP * num_n)) // size
    if pid_m * BM >= valid:
        return
    rows = tl.load(sorted_ids + pid_m * BM + tl.arange(0, BM)).to(tl.int64)
    token_mask = rows >= 0
    expert = tl.load(expert_ids + pid_m * BM).to(tl.int64)
    rn = (pid_n * BN + tl.arange(0, BN)).to(tl.int64) % N
    rk = tl.arange(0, BK)
    x_ptrs = x_ptr + (rows[:, None] // TOP_K) * K + rk[None, :]
    w_ptrs = w_ptr + expert * N * K + rn[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(x_ptrs, mask=token_mask[:, None] & (rk[None, :] < K - k * BK), other=0.0)
        w = tl.load(w_ptrs, mask=rk[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(x, w)
        x_ptrs += BK
        w_ptrs += BK
    if SCALE:
        acc = acc * tl.load(weights_ptr + rows, mask=token_mask, other=0.0)[:, None]
    cols = pid_n * BN + tl.arange(0, BN)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc.to(out_ptr.dtype.element_ty), mask=token_mask[:, None] & (cols[None, :] < N))


@triton.jit
def grouped_persistent(x_ptr, w_ptr, out_ptr, offsets_ptr, GROUPS, N, K, SMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program walks over the groups and takes every SMS-th tile of them; group g owns rows offsets[g] .. offsets[g + 1]."""
    tile = tl.program_id(0)
    last_end = 0
    num_n = tl.cdiv(N, BN)
    for g in range(GROUPS):
        begin = tl.load(offsets_ptr + g)
        rows = tl.load(offsets_ptr + g + 1) - begin
        tiles = tl.cdiv(rows, BM) * num_n
        while tile >= last_end and tile < last_end + tiles:
            inside = tile - last_end
            rm = (inside // num_n) * BM + tl.arange(0, BM)
            rn = (inside % num_n) * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            x_ptrs = x_ptr + (begin + rm)[:, None] * K + rk[None, :]
            w_ptrs = w_ptr + g.to(tl.int64) * N * K + rn[None, :] * K + rk[:, None]
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                x = tl.load(x_ptrs, mask=(rm[:, None] < rows) & (k + rk[None, :] < K), other=0.0)
                w = tl.load(w_ptrs, mask=(rn[None, :] < N) & (k + rk[:, None] < K), other=0.0)
                acc = tl.dot(x, w, acc)
                x_ptrs += BK
                w_ptrs += BK
            tl.store(out_ptr + (begin + rm)[:, None] * N + rn[None, :], acc.to(out_ptr.dtype.element_ty), mask=(rm[:, None] < rows) & (rn[None, :] < N))
            tile += SMS
        last_end += tiles


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Every SPLIT-th block of K in a program of its own, summed by atomics."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    pid_k = tl.program_id(2)
    rk = pid_k * BK + tl.arange(0, BK)
    a_ptrs = a_ptr + (rm % M)[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + rk[:, None] * N + (rn % N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK * SPLIT)):
        left = K - k * (BK * SPLIT)
        a = tl.load(a_ptrs, mask=rk[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < left, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * SPLIT
        b_ptrs += BK * SPLIT * N
    c_ptrs = c_ptr + rm[:, None] * N + rn[None, :]
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    if SPLIT == 1:
        tl.store(c_ptrs, acc, mask=mask)
    else:
        tl.atomic_add(c_ptrs, acc, mask=mask, sem="relaxed")


@triton.jit
def stream_k(a_ptr, b_ptr, c_ptr, M, N, K, per_program, total, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """All iterations of all tiles dealt out evenly: a program may end one tile, do others and begin one; parts of tiles are added by atomics."""
    num_n = tl.cdiv(N, BN)
    k_tiles = tl.cdiv(K, BK)
    now = tl.program_id(0) * per_program
    end = min(now + per_program, total)
    while now < end:
        tile = now // k_tiles
        first_k = now % k_tiles
        count = min(k_tiles - first_k, end - now)
        rm = (tile // num_n) * BM + tl.arange(0, BM)
        rn = (tile % num_n) * BN + tl.arange(0, BN)
        rk = first_k * BK + tl.arange(0, BK)
        a_ptrs = a_ptr + (rm % M)[:, None] * K + rk[None, :]
        b_ptrs = b_ptr + rk[:, None] * N + (rn % N)[None, :]
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(0, count):
            a = tl.load(a_ptrs, mask=rk[None, :] + i * BK < K, other=0.0)
            b = tl.load(b_ptrs, mask=rk[:, None] + i * BK < K, other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += BK
            b_ptrs += BK * N
        mask = (rm[:, None] < M) & (rn[None, :] < N)
        tl.atomic_add(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=mask)
        now += count


def layer_inputs(m, s, t):
    return dict(x=m.normal((s.M, s.K), t), w=m.normal((s.N, s.K), t, s.K**-0.5), v=m.normal((s.N, s.K), t, s.K**-0.5), bias=m.normal((s.N,), t), residual=m.normal((s.M, s.N), t),
                c=m.empty((s.M, s.N), t))


TILES = configs("BM BN BK GROUP num_warps num_stages", (64, 64, 32, 8, 4, 3), (128, 128, 64, 8, 8, 3), (128, 256, 64, 8, 8, 3), (128, 128, 64, 8, 4, 4), (64, 128, 64, 8, 4, 4))
PLAIN = configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4))
LAYER = dict(inputs=layer_inputs, outputs=("c",), small=shapes("M N K", (72, 88, 80)), dtypes=("bf16", "fp16"), flops=lambda s: 2 * s.M * s.N * s.K, sustained=True)
LAYERS = shapes("M N K", (8192, 8192, 2048), (4096, 14336, 4096))


def wt(x, w):
    return x.swapaxes(w, 0, 1)


def epilogues(entry, activation, bias, residual):
    flags = dict(ACTIVATION=activation, HAS_BIAS=bias, HAS_RESIDUAL=residual)

    @entry.spelling("pointers, K counts down", TILES)
    def _(a, s, c):
        return Launch(matmul_epilogue, (cdiv(s.M, c.BM) * cdiv(s.N, c.BN),), (a.x, a.w, a.bias, a.residual, a.c, s.M, s.N, s.K), **flags, **vars(c))

    @entry.spelling("host descriptors, tl.trans", PLAIN)
    def _(a, s, c):
        wide = lambda t: TensorDescriptor(t, [s.M, s.N], [s.N, 1], [c.BM, c.BN])
        return Launch(matmul_epilogue_desc, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)),
                      (TensorDescriptor(a.x, [s.M, s.K], [s.K, 1], [c.BM, c.BK]), TensorDescriptor(a.w, [s.N, s.K], [s.K, 1], [c.BN, c.BK]), wide(a.residual), wide(a.c),
                       a.bias, s.M, s.N, s.K), **flags, **vars(c))


bias_gelu = Entry("matmul bias gelu", reference=lambda x, a, s: x.gelu(a.x @ wt(x, a.w) + a.bias), shapes=LAYERS, **LAYER)
epilogues(bias_gelu, "gelu", True, False)
residual = Entry("matmul bias residual", reference=lambda x, a, s: a.x @ wt(x, a.w) + a.bias + a.residual, shapes=LAYERS, **LAYER)
epilogues(residual, "", True, True)

swiglu = Entry("matmul swiglu", reference=lambda x, a, s: x.silu(a.x @ wt(x, a.w)) * (a.x @ wt(x, a.v)), shapes=LAYERS, **{**LAYER, "flops": lambda s: 4 * s.M * s.N * s.K})


@swiglu.spelling("pointers", configs("BM BN BK num_warps num_stages", (64, 64, 32, 4, 3), (128, 128, 64, 8, 3), (128, 64, 64, 8, 4), (64, 128, 64, 4, 3)))
def _(a, s, c):
    return Launch(swiglu_matmul, (cdiv(s.N, c.BN), cdiv(s.M, c.BM)), (a.x, a.w, a.v, a.c, s.M, s.N, s.K, s.K, s.K, s.N), **vars(c))


batched = Entry("batched matmul", outputs=("c",), inputs=lambda m, s, t: dict(a=m.normal((s.B, s.M, s.K), t), b=m.normal((s.B, s.K, s.N), t), c=m.empty((s.B, s.M, s.N), t)),
                reference=lambda x, a, s: a.a @ a.b, shapes=shapes("B M N K", (64, 1024, 1024, 512), (512, 256, 256, 128), (16, 2048, 2048, 2048)), small=shapes("B M N K", (3, 72, 40, 48)),
                dtypes=("bf16", "fp16"), flops=lambda s: 2 * s.B * s.M * s.N * s.K, sustained=True, library=lambda torch, a, s: torch.bmm(a.a, a.b))
for name, kernel in ("pointers", batched_matmul), ("block pointers", batched_block_pointers):
    @batched.spelling(name, PLAIN)
    def _(a, s, c, kernel=kernel):
        return Launch(kernel, (cdiv(s.M, c.BM), cdiv(s.N, c.BN), s.B), (a.a, a.b, a.c, s.M, s.N, s.K, s.M * s.K, s.K * s.N, s.M * s.N), **vars(c))


def expert_inputs(m, s, t):
    """Rows of expert e are padded to a multiple of 128; a padding row is -1. Tokens go round the experts, a few more to the first ones."""
    rows, ids, experts_of = s.T * s.TOP_K, [], []
    chosen = [[] for _ in range(s.E)]
    for r in range(rows):
        chosen[(r * 7 + r // 5) % s.E if r % 3 else r % max(1, s.E // 2)].append(r)
    for e, mine in enumerate(chosen):
        padded = cdiv(len(mine), 128) * 128
        ids += mine + [-1] * (padded - len(mine))
        experts_of += [e] * padded
    expert_of_row = [0] * rows
    for e, mine in enumerate(chosen):
        for r in mine:
            expert_of_row[r] = e
    return dict(x=m.normal((s.T, s.K), t), w=m.normal((s.E, s.N, s.K), t, s.K**-0.5), out=m.empty((rows, s.N), t), ids=m.array(ids), experts=m.array(experts_of),
                weights=m.uniform((rows,), "fp32"), row_expert=m.array(expert_of_row))


def expert_reference(x, a, s):
    tokens = x.repeat(a.x, s.TOP_K, 0)
    out = sum(x.where((a.row_expert == e)[:, None], tokens @ wt(x, a.w[e]), 0.0) for e in range(s.E))
    return out * a.weights[:, None]


moe = Entry("grouped matmul (experts)", outputs=("out",), inputs=expert_inputs, reference=expert_reference,
            shapes=shapes("T TOP_K E N K", (4096, 2, 8, 14336, 4096), (8192, 8, 64, 1408, 2048), (256, 2, 8, 4096, 14336)),
            small=shapes("T TOP_K E N K", (40, 2, 3, 72, 48)), dtypes=("bf16", "fp16"), flops=lambda s: 2 * s.T * s.TOP_K * s.N * s.K)


@moe.spelling("sorted rows", configs("BM BN BK GROUP num_warps num_stages", (64, 64, 32, 8, 4, 3), (128, 128, 64, 8, 8, 3), (128, 256, 64, 8, 8, 3), (64, 128, 64, 8, 4, 4)))
def _(a, s, c):
    valid = a.ids.shape[0]
    return Launch(experts, (cdiv(valid, c.BM) * cdiv(s.N, c.BN),), (a.x, a.w, a.out, a.ids, a.experts, a.weights, valid, s.N, s.K), TOP_K=s.TOP_K, SCALE=True, **vars(c))


def group_inputs(m, s, t):
    sizes = [s.ROWS // 2 + (g * 37) % s.ROWS for g in range(s.G)]
    ends = [0]
    for n in sizes:
        ends.append(ends[-1] + n)
    of_row = [g for g, n in enumerate(sizes) for _ in range(n)]
    return dict(x=m.normal((ends[-1], s.K), t), w=m.normal((s.G, s.N, s.K), t, s.K**-0.5), out=m.empty((ends[-1], s.N), t), offsets=m.array(ends), of_row=m.array(of_row))


grouped = Entry("grouped matmul (offsets)", outputs=("out",), inputs=group_inputs,
                reference=lambda x, a, s: sum(x.where((a.of_row == g)[:, None], a.x @ wt(x, a.w[g]), 0.0) for g in range(s.G)),
                shapes=shapes("G ROWS N K", (8, 2048, 4096, 4096), (32, 512, 2048, 2048)), small=shapes("G ROWS N K", (3, 40, 72, 48)), dtypes=("bf16",),
                flops=lambda s: 2 * sum(s.ROWS // 2 + (g * 37) % s.ROWS for g in range(s.G)) * s.N * s.K)


@grouped.spelling("persistent while", configs("BM BN BK num_warps num_stages", (32, 64, 32, 4, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (64, 128, 64, 4, 4)))
def _(a, s, c):
    return Launch(grouped_persistent, (132,), (a.x, a.w, a.out, a.offsets, s.G, s.N, s.K), SMS=132, **vars(c))


def sum_inputs(m, s, t):
    return dict(a=m.normal((s.M, s.K), t), b=m.normal((s.K, s.N), t), c=m.zeros((s.M, s.N), "fp32"))


SUMS = dict(outputs=("c",), zeroed=("c",), inputs=sum_inputs, reference=lambda x, a, s: a.a @ a.b, dtypes=("bf16", "fp16"), flops=lambda s: 2 * s.M * s.N * s.K,
            shapes=shapes("M N K", (16, 4096, 16384), (512, 512, 65536), (1536, 1408, 8192)), small=shapes("M N K", (40, 72, 208)), tolerance=2e-3,
            library=lambda torch, a, s: torch.mm(a.a, a.b))
splitting = Entry("matmul split-K", **SUMS)


@splitting.spelling("atomics", configs("BM BN BK SPLIT num_warps num_stages", (32, 64, 32, 4, 4, 3), (16, 128, 64, 8, 4, 4), (64, 64, 64, 4, 4, 4), (128, 128, 64, 4, 8, 3), (128, 128, 64, 1, 8, 3)))
def _(a, s, c):
    return Launch(split_k, (cdiv(s.M, c.BM), cdiv(s.N, c.BN), c.SPLIT), (a.a, a.b, a.c, s.M, s.N, s.K), **vars(c))


streaming = Entry("matmul stream-K", **SUMS)


@streaming.spelling("atomics", configs("BM BN BK num_warps num_stages", (32, 64, 32, 4, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (64, 128, 64, 4, 4)))
def _(a, s, c):
    total = cdiv(s.M, c.BM) * cdiv(s.N, c.BN) * cdiv(s.K, c.BK)
    programs = min(132, total)
    return Launch(stream_k, (programs,), (a.a, a.b, a.c, s.M, s.N, s.K, cdiv(total, programs), total), **vars(c))
