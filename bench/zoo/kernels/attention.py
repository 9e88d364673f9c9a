"""Attention forward: one online-softmax loop in the spellings it is published in, and its variants; paged decode with split KV."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.references import by_head, causal_mask, scores, sdpa, weighted
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def inner_blocks(acc, l_i, m_i, q, k_block, v_block, start_m, qk_scale, lo, hi, offs_m, offs_n, BN: tl.constexpr, MASKED: tl.constexpr):
    k_block = tl.advance(k_block, (0, lo))
    v_block = tl.advance(v_block, (lo, 0))
    for start_n in range(lo, hi, BN):
        start_n = tl.multiple_of(start_n, BN)
        k = tl.load(k_block)
        qk = tl.dot(q, k)
        if MASKED:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = tl.load(v_block)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
        v_block = tl.advance(v_block, (BN, 0))
        k_block = tl.advance(k_block, (0, BN))
    return acc, l_i, m_i


@triton.jit
def attention_block_pointers(Q, K, V, Out, Lse, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Two loops: below the diagonal without a mask, on it with one. The log-sum-exp is stored for the backward pass."""
    start_m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    offset = head * N * D
    q_block = tl.make_block_ptr(Q + offset, (N, D), (D, 1), (start_m * BM, 0), (BM, D), (1, 0))
    k_block = tl.make_block_ptr(K + offset, (D, N), (1, D), (0, 0), (D, BN), (0, 1))
    v_block = tl.make_block_ptr(V + offset, (N, D), (D, 1), (0, 0), (BN, D), (1, 0))
    o_block = tl.make_block_ptr(Out + offset, (N, D), (D, 1), (start_m * BM, 0), (BM, D), (1, 0))
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = tl.load(q_block)
    if CAUSAL:
        acc, l_i, m_i = inner_blocks(acc, l_i, m_i, q, k_block, v_block, start_m, qk_scale, 0, start_m * BM, offs_m, offs_n, BN, False)
        acc, l_i, m_i = inner_blocks(acc, l_i, m_i, q, k_block, v_block, start_m, qk_scale, tl.multiple_of(start_m * BM, BM), (start_m + 1) * BM, offs_m, offs_n, BN, True)
    else:
        acc, l_i, m_i = inner_blocks(acc, l_i, m_i, q, k_block, v_block, start_m, qk_scale, 0, N, offs_m, offs_n, BN, False)
    m_i += tl.math.log2(l_i)
    tl.store(Lse + head * N + offs_m, m_i)
    tl.store(o_block, (acc / l_i[:, None]).to(Out.type.element_ty))


@triton.jit
def inner_descriptors(acc, l_i, m_i, q, k_desc, v_desc, base, qk_scale, lo, hi, offs_m, offs_n, BN: tl.constexpr, MASKED: tl.constexpr, SPECIALIZE: tl.constexpr):
    for start_n in tl.range(lo, hi, BN, warp_specialize=SPECIALIZE):
        start_n = tl.multiple_of(start_n, BN)
        k = k_desc.load([base + start_n, 0]).T
        qk = tl.dot(q, k)
        if MASKED:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([base + start_n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
    return acc, l_i, m_i


@triton.jit
def attention_host_descriptors(q_desc, k_desc, v_desc, o_desc, Lse, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
                               SPECIALIZE: tl.constexpr):
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    base = head * N
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = q_desc.load([base + start_m * BM, 0])
    if CAUSAL:
        acc, l_i, m_i = inner_descriptors(acc, l_i, m_i, q, k_desc, v_desc, base, qk_scale, 0, start_m * BM, offs_m, offs_n, BN, False, SPECIALIZE)
        acc, l_i, m_i = inner_descriptors(acc, l_i, m_i, q, k_desc, v_desc, base, qk_scale, start_m * BM, (start_m + 1) * BM, offs_m, offs_n, BN, True, SPECIALIZE)
    else:
        acc, l_i, m_i = inner_descriptors(acc, l_i, m_i, q, k_desc, v_desc, base, qk_scale, 0, N, offs_m, offs_n, BN, False, SPECIALIZE)
    tl.store(Lse + head * N + offs_m, m_i + tl.math.log2(l_i))
    acc = acc / l_i[:, None]
    o_desc.store([base + start_m * BM, 0], acc.to(o_desc.dtype))


@triton.jit
def attention_kernel_descriptors(Q, K, V, Out, sm_scale, rows, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Descriptors made in the kernel; the mask in every iteration; tl.trans."""
    q_desc = tl.make_tensor_descriptor(Q, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    k_desc = tl.make_tensor_descriptor(K, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    v_desc = tl.make_tensor_descriptor(V, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    o_desc = tl.make_tensor_descriptor(Out, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    start_m = tl.program_id(0)
    base = tl.program_id(1) * N
    offs_m = start_m * BM + tl.arange(0, BM)
    q = q_desc.load([base + start_m * BM, 0])
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    hi = (start_m + 1) * BM if CAUSAL else N
    for start_n in range(0, hi, BN):
        k = k_desc.load([base + start_n, 0])
        s = tl.dot(q, tl.trans(k)) * (sm_scale * 1.44269504)
        if CAUSAL:
            s = tl.where(offs_m[:, None] >= start_n + tl.arange(0, BN)[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc *= alpha[:, None]
        acc += tl.dot(p.to(q.dtype), v_desc.load([base + start_n, 0]))
        m_i = m_new
    o_desc.store([base + start_m * BM, 0], (acc / l_i[:, None]).to(q.dtype))


@triton.jit
def attention_pointers(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, M, N, GQA: tl.constexpr, WINDOW: tl.constexpr, BIAS: tl.constexpr, ALIBI: tl.constexpr, bias_ptr, slopes_ptr,
                       BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr):
    """Pointers with strides and masks; K is read transposed; D may be no power of two (96 in a tile of 128); grouped heads; a window; a bias; slopes."""
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    q_base = Q + head.to(tl.int64) * stride_h
    kv_base = (head // GQA).to(tl.int64) * stride_h
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D_PAD)
    q_ptrs = q_base + offs_m[:, None] * stride_n + offs_d[None, :]
    k_ptrs = K + kv_base + offs_n[None, :] * stride_n + offs_d[:, None]
    v_ptrs = V + kv_base + offs_n[:, None] * stride_n + offs_d[None, :]
    if EVEN and D == D_PAD:
        q = tl.load(q_ptrs)
    else:
        q = tl.load(q_ptrs, mask=(offs_m[:, None] < M) & (offs_d[None, :] < D), other=0.0)
    q = (q * (sm_scale * 1.44269504)).to(q.dtype)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D_PAD], tl.float32)
    if ALIBI:
        slope = tl.load(slopes_ptr + head) * 1.44269504
    lo = 0
    hi = N
    if CAUSAL:
        hi = min((start_m + 1) * BM, N)
    if WINDOW > 0:
        lo = max(0, (start_m * BM - WINDOW) // BN * BN)
    for start_n in tl.range(lo, hi, BN, num_stages=STAGES):
        cols = start_n + offs_n
        if EVEN and D == D_PAD:
            k = tl.load(k_ptrs + start_n * stride_n)
        else:
            k = tl.load(k_ptrs + start_n * stride_n, mask=(cols[None, :] < N) & (offs_d[:, None] < D), other=0.0)
        s = tl.dot(q, k)
        if BIAS:
            b = tl.load(bias_ptr + offs_m[:, None] * N + cols[None, :], mask=(offs_m[:, None] < M) & (cols[None, :] < N), other=0.0)
            s += b * 1.44269504
        if ALIBI:
            s += slope * (cols[None, :] - offs_m[:, None]).to(tl.float32)
        if not EVEN:
            s = tl.where(cols[None, :] < N, s, float("-inf"))
        if CAUSAL:
            s = tl.where(offs_m[:, None] >= cols[None, :], s, float("-inf"))
        if WINDOW > 0:
            s = tl.where(offs_m[:, None] - cols[None, :] <= WINDOW, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        if WINDOW > 0:
            m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        else:
            m_safe = m_new
        p = tl.exp2(s - m_safe[:, None])
        alpha = tl.exp2(m_i - m_safe)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if EVEN and D == D_PAD:
            v = tl.load(v_ptrs + start_n * stride_n)
        else:
            v = tl.load(v_ptrs + start_n * stride_n, mask=(cols[:, None] < N) & (offs_d[None, :] < D), other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    tl.store(Lse + head * M + offs_m, m_i + tl.log2(l_i), mask=offs_m < M)
    out = acc / l_i[:, None]
    tl.store(Out + head.to(tl.int64) * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], out.to(Out.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_d[None, :] < D))


@triton.jit
def attention_varlen(Q, K, V, Out, starts, sm_scale, H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Sequences of different lengths one after the other (tokens x heads x D); causal."""
    batch = tl.program_id(2)
    head = tl.program_id(1)
    begin = tl.load(starts + batch)
    length = tl.load(starts + batch + 1) - begin
    start_m = tl.program_id(0) * BM
    if start_m >= length:
        return
    offs_m = start_m + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    base = begin.to(tl.int64) * H * D + head * D
    q = tl.load(Q + base + offs_m[:, None] * (H * D) + offs_d[None, :], mask=offs_m[:, None] < length, other=0.0)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start_n in range(0, tl.minimum(start_m + BM, length), BN):
        cols = start_n + offs_n
        k = tl.load(K + base + cols[:, None] * (H * D) + offs_d[None, :], mask=cols[:, None] < length, other=0.0)
        s = tl.dot(q, tl.trans(k)) * (sm_scale * 1.44269504)
        s = tl.where((offs_m[:, None] >= cols[None, :]) & (cols[None, :] < length), s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + base + cols[:, None] * (H * D) + offs_d[None, :], mask=cols[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    tl.store(Out + base + offs_m[:, None] * (H * D) + offs_d[None, :], (acc / l_i[:, None]).to(Out.dtype.element_ty), mask=offs_m[:, None] < length)


TILES = configs("BM BN num_warps num_stages", (64, 32, 4, 3), (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3), (128, 128, 8, 3), (128, 32, 4, 4), (64, 128, 4, 2))
SHAPES = shapes("H N D", (64, 4096, 128), (128, 4096, 64), (16, 16384, 128), (32, 4096, 256))


def inputs(m, s, t):
    q, k, v = (m.normal((s.H, s.N, s.D), t) for _ in range(3))
    return dict(q=q, k=k, v=v, out=m.empty((s.H, s.N, s.D), t), lse=m.empty((s.H, s.N), "fp32"))


def forward_entry(name, causal):
    def reference(x, a, s):
        def one(h):
            p = scores(x, a.q[h], a.k[h], s.D)
            return weighted(x, p + causal_mask(x, s, s.N) if causal else p, a.v[h])
        return by_head(x, s.H, one)
    e = Entry(name, inputs=inputs, outputs=("out", "lse"), reference=reference, shapes=SHAPES, small=shapes("H N D", (2, 128, 64)), dtypes=("bf16", "fp16"),
              flops=lambda s: (2 if causal else 4) * s.H * s.N * s.N * s.D, library=lambda torch, a, s: sdpa(torch, a, s, is_causal=causal), sustained=True)

    whole = lambda s, c: not causal or c.BM % c.BN == 0  # the two loops meet at a multiple of BN

    @e.spelling("block pointers, two loops", TILES, whole)
    def _(a, s, c):
        return Launch(attention_block_pointers, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, s.N), D=s.D, CAUSAL=causal, **vars(c))

    def described(a, s, c, specialize):
        flat = lambda t, rows: TensorDescriptor(t.reshape(s.H * s.N, s.D), [s.H * s.N, s.D], [s.D, 1], [rows, s.D])
        return Launch(attention_host_descriptors, (s.N // c.BM, s.H), (flat(a.q, c.BM), flat(a.k, c.BN), flat(a.v, c.BN), flat(a.out, c.BM), a.lse, s.D**-0.5, s.N), D=s.D,
                      CAUSAL=causal, SPECIALIZE=specialize, **vars(c))

    @e.spelling("host descriptors, k.T", TILES, whole)
    def _(a, s, c):
        return described(a, s, c, False)

    @e.spelling("host descriptors, warp_specialize", TILES[:5], whole)
    def _(a, s, c):
        return described(a, s, c, True)

    @e.spelling("pointers, K transposed, scale folded", configs("BM BN num_warps STAGES", (64, 32, 4, 3), (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3)))
    def _(a, s, c):
        return Launch(attention_pointers, (cdiv(s.N, c.BM), s.H), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, s.N * s.D, s.D, s.N, s.N), GQA=1, WINDOW=0, BIAS=False, ALIBI=False,
                      bias_ptr=None, slopes_ptr=None, D=s.D, D_PAD=s.D, CAUSAL=causal, EVEN=True, **vars(c))
    return e


attention = forward_entry("attention", False)
attention_causal = forward_entry("attention causal", True)
bare = Entry("attention without log-sum-exp", inputs=inputs, outputs=("out",), reference=lambda x, a, s: attention_causal.reference(x, a, s)[0], shapes=SHAPES[:2], small=shapes("H N D", (2, 128, 64)),
             dtypes=("bf16",), flops=lambda s: 2 * s.H * s.N * s.N * s.D, library=lambda torch, a, s: sdpa(torch, a, s, is_causal=True))


@bare.spelling("descriptors in the kernel, tl.trans", TILES)
def _(a, s, c):
    return Launch(attention_kernel_descriptors, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, s.D**-0.5, s.H * s.N, s.N), D=s.D, CAUSAL=True, **vars(c))


LOOPS = configs("BM BN num_warps STAGES", (32, 32, 4, 2), (128, 64, 8, 3), (64, 64, 4, 3), (128, 128, 8, 2))


def variant(name, shape_list, small, flops, reference, extra=lambda m, s, t: {}, d_pad=lambda s: s.D, **flags):
    """An entry of attention_pointers with flags; lengths need not divide."""
    def variant_inputs(m, s, t):
        kv = s.H // getattr(s, "GQA", 1)
        return dict(q=m.normal((s.H, s.N, s.D), t), k=m.normal((kv, s.N, s.D), t), v=m.normal((kv, s.N, s.D), t), out=m.empty((s.H, s.N, s.D), t), lse=m.empty((s.H, s.N), "fp32"),
                    **extra(m, s, t))

    def whole(x, a, s):
        def one(h):
            g = h // getattr(s, "GQA", 1)
            return weighted(x, reference(x, a, s, h, scores(x, a.q[h], a.k[g], s.D)), a.v[g])
        return by_head(x, s.H, one)
    e = Entry(name, inputs=variant_inputs, outputs=("out", "lse"), reference=whole, shapes=shape_list, small=small, dtypes=("bf16", "fp16"), flops=flops)

    @e.spelling("pointers", LOOPS)
    def _(a, s, c):
        options = dict(GQA=getattr(s, "GQA", 1), WINDOW=getattr(s, "WINDOW", 0), BIAS=False, ALIBI=False, CAUSAL=True, **vars(c))
        options.update(flags)
        return Launch(attention_pointers, (cdiv(s.N, c.BM), s.H), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, s.N * s.D, s.D, s.N, s.N), bias_ptr=getattr(a, "bias", None),
                      slopes_ptr=getattr(a, "slopes", None), D=s.D, D_PAD=d_pad(s), EVEN=s.N % c.BM == 0 and s.N % c.BN == 0, **options)
    return e


def causal_flops(s):
    return 2 * s.H * s.N * s.N * s.D


grouped_heads = variant("attention of grouped heads", shapes("H GQA N D", (64, 8, 4096, 128), (32, 4, 8192, 64)), shapes("H GQA N D", (4, 2, 72, 32)), causal_flops,
                        lambda x, a, s, h, p: p + causal_mask(x, s, s.N))
head96 = variant("attention of 96", shapes("H N D", (64, 4096, 96), (64, 1024, 96)), shapes("H N D", (2, 72, 24)), causal_flops, lambda x, a, s, h, p: p + causal_mask(x, s, s.N),
                 d_pad=lambda s: 32 if s.D == 24 else 128)
window = variant("attention of a window", shapes("H N D WINDOW", (64, 8192, 128, 1024), (32, 16384, 64, 512)), shapes("H N D WINDOW", (2, 136, 32, 20)),
                 lambda s: 4 * s.H * s.N * s.WINDOW * s.D,
                 lambda x, a, s, h, p: p + causal_mask(x, s, s.N) + x.where(x.arange(s.N)[:, None] - x.arange(s.N)[None, :] <= s.WINDOW, 0.0, -float("inf")))
biased = variant("attention with a bias", shapes("H N D", (64, 2048, 64), (32, 4096, 128)), shapes("H N D", (2, 72, 32)), lambda s: 4 * s.H * s.N * s.N * s.D,
                 lambda x, a, s, h, p: p + a.bias, lambda m, s, t: dict(bias=m.normal((s.N, s.N), t)), CAUSAL=False, BIAS=True)
alibi = variant("attention with slopes (ALiBi)", shapes("H N D", (64, 4096, 128), (64, 2048, 64)), shapes("H N D", (2, 72, 32)), causal_flops,
                lambda x, a, s, h, p: p + causal_mask(x, s, s.N) + a.slopes[h] * (x.arange(s.N)[None, :] - x.arange(s.N)[:, None]),
                lambda m, s, t: dict(slopes=m.uniform((s.H,), "fp32", 0.01, 0.5)), ALIBI=True)


def lengths(s):
    return [s.N - (b * 37) % (s.N // 2) for b in range(s.B)]


def varlen_inputs(m, s, t):
    ends = [0]
    for n in lengths(s):
        ends.append(ends[-1] + n)
    make = lambda: m.normal((ends[-1], s.H, s.D), t)
    return dict(q=make(), k=make(), v=make(), out=m.empty((ends[-1], s.H, s.D), t), starts=m.array(ends))


def varlen_reference(x, a, s):
    parts, at = [], 0
    for n in lengths(s):
        q, k, v = (x.swapaxes(t[at:at + n], 0, 1) for t in (a.q, a.k, a.v))
        heads = [weighted(x, scores(x, q[h], k[h], s.D) + causal_mask(x, s, n), v[h])[0] for h in range(s.H)]
        parts.append(x.swapaxes(x.stack(heads, axis=0), 0, 1))
        at += n
    return x.concatenate(parts, axis=0)


varlen = Entry("attention of variable lengths", inputs=varlen_inputs, outputs=("out",), reference=varlen_reference, shapes=shapes("B H N D", (8, 16, 4096, 128), (32, 16, 1024, 64)),
               small=shapes("B H N D", (3, 2, 90, 32)), dtypes=("bf16", "fp16"), flops=lambda s: sum(2 * s.H * n * n * s.D for n in lengths(s)))


@varlen.spelling("pointers", configs("BM BN num_warps num_stages", (32, 32, 4, 2), (128, 64, 8, 3), (64, 64, 4, 3), (128, 128, 8, 2)))
def _(a, s, c):
    return Launch(attention_varlen, (cdiv(s.N, c.BM), s.H, s.B), (a.q, a.k, a.v, a.out, a.starts, s.D**-0.5), H=s.H, D=s.D, **vars(c))
