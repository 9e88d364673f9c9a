"""Attention of other kinds, as different people spell it: listed blocks, grouped heads by descriptors of three axes, scores of two dots, 8 bits, two tiles of queries, packed arrays."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.references import TILES, attention_inputs as inputs, by_head, causal_mask, entry, scores, weighted
from zoo.table import Launch, cdiv, configs, shapes


@triton.jit
def blocks_of_lists(Q, K, V, Out, Lse, Count, Index, sm_scale, stride_h, stride_n, N, MAX: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, SOFTCAP: tl.constexpr):
    """Blocks of keys that a list names, each masked by a function of the indices, with a soft cap; as generated for block masks."""
    q_start = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = q_start * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = head.to(tl.int64) * stride_h
    q = tl.load(Q + base + offs_m[:, None] * stride_n + d[None, :])
    count = tl.load(Count + q_start)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    for at in range(0, count):
        block = tl.load(Index + q_start * MAX + at)
        offs_n = block * BN + tl.arange(0, BN)
        k = tl.load(K + base + offs_n[None, :] * stride_n + d[:, None])
        qk = tl.dot(q, k, input_precision="ieee")
        qk *= sm_scale
        if SOFTCAP:
            qk = 20.0 * (1 - 2 / (tl.exp(qk * 0.1) + 1))
        scores = tl.where(offs_m[:, None] >= offs_n[None, :], qk, float("-inf"))
        scores *= 1.44269504
        m_ij = tl.maximum(m_i, tl.max(scores, 1))
        masked_out_rows = (m_ij == float("-inf"))
        m_ij_masked = tl.where(masked_out_rows, 0, m_ij)
        alpha = tl.math.exp2(m_i - m_ij_masked)
        p = tl.math.exp2(scores - m_ij_masked[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + base + offs_n[:, None] * stride_n + d[None, :])
        acc = tl.dot(p.to(Q.dtype.element_ty), v, acc, input_precision="ieee")
        m_i = m_ij
    l_i = tl.where(l_i == 0.0, 1, l_i)
    acc = acc / l_i[:, None]
    tl.store(Lse + head * N + offs_m, m_i + tl.math.log2(l_i))
    tl.store(Out + base + offs_m[:, None] * stride_n + d[None, :], acc.to(Out.dtype.element_ty))


@triton.jit
def four_axes(desc_q, desc_k, desc_v, Out, Lse, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr):
    """Descriptors of three axes, reshaped; grouped heads; tokens before heads; not causal; both loads at the top of a while loop."""
    start = tl.program_id(0) * BM
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    q = tl.reshape(desc_q.load([start, head, 0]), [BM, D])
    m = tl.full([BM], float("-inf"), tl.float32)
    l = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale = sm_scale * 1.44269504
    n = 0
    for n in range(0, N, BN):
        k = desc_k.load([n, head // GROUP, 0]).reshape(BN, D)
        v = desc_v.load([n, head // GROUP, 0]).reshape(BN, D)
        s = tl.dot(q, k.trans())
        mm = tl.maximum(m, tl.max(s, axis=-1))
        p = tl.exp2((s - mm[:, None]) * scale)
        a = tl.exp2((m - mm) * scale)
        acc *= a[:, None]
        l = tl.fma(l, a, tl.sum(p, axis=-1))
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = mm
    rows = start + tl.arange(0, BM)
    tl.store(Lse + head * N + rows, m * scale + tl.log2(l))
    tl.store(Out + rows[:, None] * (heads * D) + head * D + tl.arange(0, D)[None, :], (acc / l[:, None]).to(Out.dtype.element_ty))


@triton.jit
def two_parts(Q, K, V, Out, sm_scale, stride_q, stride_k, stride_v, stride_o, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, ROPE: tl.constexpr, DV: tl.constexpr):
    """Scores of two dots (a part with positions, a part without); other columns of values than of keys; causal."""
    pid = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = pid * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    offs_r = D + tl.arange(0, ROPE)
    offs_v = tl.arange(0, DV)
    Q += head * N * stride_q
    K += head * N * stride_k
    V += head * N * stride_v
    q = tl.load(Q + offs_m[:, None] * stride_q + offs_d[None, :], mask=offs_m[:, None] < N, other=0.0)
    qr = tl.load(Q + offs_m[:, None] * stride_q + offs_r[None, :], mask=offs_m[:, None] < N, other=0.0)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, DV], tl.float32)
    for start_n in range(0, tl.minimum((pid + 1) * BM, N), BN):
        offs_n = start_n + tl.arange(0, BN)
        k = tl.load(K + offs_n[None, :] * stride_k + offs_d[:, None], mask=offs_n[None, :] < N, other=0.0)
        qk = tl.dot(q, k)
        kr = tl.load(K + offs_n[None, :] * stride_k + offs_r[:, None], mask=offs_n[None, :] < N, other=0.0)
        qk += tl.dot(qr, kr)
        qk *= sm_scale
        qk = tl.where((offs_n[None, :] < N) & (offs_m[:, None] >= offs_n[None, :]), qk, float("-inf"))
        v = tl.load(V + offs_n[:, None] * stride_v + offs_v[None, :], mask=offs_n[:, None] < N, other=0.0)
        n_e_max = tl.maximum(tl.max(qk, 1), m_i)
        re_scale = tl.exp(m_i - n_e_max)
        p = tl.exp(qk - n_e_max[:, None])
        acc *= re_scale[:, None]
        p = p.to(v.dtype)
        acc += tl.dot(p, v)
        l_i = l_i * re_scale + tl.sum(p, 1)
        m_i = n_e_max
    tl.store(Out + head * N * stride_o + offs_m[:, None] * stride_o + offs_v[None, :], (acc / l_i[:, None]).to(Out.dtype.element_ty), mask=offs_m[:, None] < N)


@triton.jit
def eight_bits(Q, K, V, Out, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Queries, keys and values of 8 bits; values lie transposed, D x N."""
    q_desc = tl.make_tensor_descriptor(Q, [tl.num_programs(1) * N, D], [D, 1], [BM, D])
    k_desc = tl.make_tensor_descriptor(K, [tl.num_programs(1) * N, D], [D, 1], [BN, D])
    v_desc = tl.make_tensor_descriptor(V, [tl.num_programs(1) * D, N], [N, 1], [D, BN])
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    q = q_desc.load([head * N + start_m * BM, 0])
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32) + 1.0
    acc = tl.zeros([BM, D], tl.float32)
    qk_scale = sm_scale * 1.44269504
    for start_n in tl.range(0, N, BN):
        k = k_desc.load([head * N + start_n, 0]).T
        qk = tl.dot(q, k)
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([head * D, start_n]).T
        acc = tl.dot(p.to(v.dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
    acc = acc / l_i[:, None]
    offs = (start_m * BM + tl.arange(0, BM))[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(Out + head * N * D + offs, acc.to(Out.dtype.element_ty))


@triton.jit
def int8_scores(Q, K, V, Qs, Ks, Out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Scores of int8 with a scale for each block, products with values in fp16 accumulators of float32; a loop-carried pointer to the scales."""
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_k = tl.arange(0, D)
    base = head.to(tl.int64) * N * D
    q_ptrs = Q + base + offs_m[:, None] * D + offs_k[None, :]
    k_ptrs = K + base + offs_n[None, :] * D + offs_k[:, None]
    v_ptrs = V + base + offs_n[:, None] * D + offs_k[None, :]
    k_scale_ptr = Ks + head * tl.cdiv(N, BN)
    q_scale = tl.load(Qs + head * tl.cdiv(N, BM) + start_m)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    q = tl.load(q_ptrs, mask=offs_m[:, None] < N)
    for start_n in range(0, N, BN):
        start_n = tl.multiple_of(start_n, BN)
        k_mask = offs_n[None, :] < (N - start_n)
        k = tl.load(k_ptrs, mask=k_mask)
        k_scale = tl.load(k_scale_ptr)
        qk = tl.dot(q, k).to(tl.float32) * q_scale * k_scale
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        qk = qk - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs, mask=offs_n[:, None] < (N - start_n))
        p = p.to(tl.float16)
        acc += tl.dot(p, v, out_dtype=tl.float16)
        m_i = m_ij
        k_ptrs += BN * D
        k_scale_ptr += 1
        v_ptrs += BN * D
    acc = acc / l_i[:, None]
    tl.store(Out + base + offs_m[:, None] * D + offs_k[None, :], acc.to(Out.type.element_ty), mask=offs_m[:, None] < N)


@triton.jit
def two_tiles(Q, K, V, Out, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Two tiles of queries in a program, so that one's softmax may run beside the other's dots; descriptors; not causal."""
    y = tl.num_programs(1) * N
    dq = tl.make_tensor_descriptor(Q, [y, D], [D, 1], [BM, D])
    dk = tl.make_tensor_descriptor(K, [y, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(V, [y, D], [D, 1], [BN, D])
    do = tl.make_tensor_descriptor(Out, [y, D], [D, 1], [BM, D])
    base = tl.program_id(1) * N
    row = base + tl.program_id(0) * 2 * BM
    q0 = dq.load([row, 0])
    q1 = dq.load([row + BM, 0])
    m0 = tl.full([BM], float("-inf"), tl.float32)
    m1 = tl.full([BM], float("-inf"), tl.float32)
    l0 = tl.zeros([BM], tl.float32)
    l1 = tl.zeros([BM], tl.float32)
    o0 = tl.zeros([BM, D], tl.float32)
    o1 = tl.zeros([BM, D], tl.float32)
    scale = sm_scale * 1.44269504
    for n in range(base, base + N, BN):
        k = dk.load([n, 0])
        s0 = tl.dot(q0, k.T)
        s1 = tl.dot(q1, k.T)
        v = dv.load([n, 0])
        t0 = tl.maximum(m0, tl.max(s0, 1) * scale)
        p0 = tl.exp2(s0 * scale - t0[:, None])
        a0 = tl.exp2(m0 - t0)
        o0 = tl.dot(p0.to(v.dtype), v, o0 * a0[:, None])
        l0 = l0 * a0 + tl.sum(p0, 1)
        t1 = tl.maximum(m1, tl.max(s1, 1) * scale)
        p1 = tl.exp2(s1 * scale - t1[:, None])
        a1 = tl.exp2(m1 - t1)
        o1 = tl.dot(p1.to(v.dtype), v, o1 * a1[:, None])
        l1 = l1 * a1 + tl.sum(p1, 1)
        m0 = t0
        m1 = t1
    do.store([row, 0], (o0 / l0[:, None]).to(Q.dtype.element_ty))
    do.store([row + BM, 0], (o1 / l1[:, None]).to(Q.dtype.element_ty))


@triton.jit
def packed_qkv(QKV, Out, sm_scale, N, H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Queries, keys and values in one array, tokens x 3 x heads x D; a while loop."""
    pid = tl.program_id(0)
    head = tl.program_id(1)
    row: tl.constexpr = 3 * H * D
    m = pid * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(QKV + m[:, None] * row + head * D + d[None, :])
    acc = tl.zeros([BM, D], tl.float32)
    mx = tl.full([BM], -1e30, tl.float32)
    den = tl.zeros([BM], tl.float32)
    end = (pid + 1) * BM if CAUSAL else N
    start = 0
    while start < end:
        n = start + tl.arange(0, BN)
        k = tl.load(QKV + H * D + n[:, None] * row + head * D + d[None, :])
        s = tl.dot(q, k.T) * sm_scale
        if CAUSAL:
            s = tl.where(m[:, None] < n[None, :], -1e30, s)
        new = tl.maximum(mx, tl.max(s, 1))
        e = tl.exp(s - new[:, None])
        old = tl.exp(mx - new)
        den = den * old + tl.sum(e, 1)
        v = tl.load(QKV + 2 * H * D + n[:, None] * row + head * D + d[None, :])
        acc = acc * old[:, None]
        acc += tl.dot(e.to(v.dtype), v)
        mx = new
        start += BN
    tl.store(Out + m[:, None] * (H * D) + head * D + d[None, :], (acc / den[:, None]).to(Out.dtype.element_ty))


def lists(s, c):
    """For each block of rows how many blocks of keys, and which: all up to the diagonal."""
    n, most = s.N // c.BM, s.N // c.BN
    counts = [cdiv((i + 1) * c.BM, c.BN) for i in range(n)]
    return most, counts, [j if j < counts[i] else 0 for i in range(n) for j in range(most)]


def listed(name, softcap):
    def capped(x, a, s):
        def one(h):
            p = scores(x, a.q[h], a.k[h], s.D)
            return weighted(x, (20 * x.tanh(p / 20) if softcap else p) + causal_mask(x, s, s.N), a.v[h])
        return by_head(x, s.H, one)

    def list_inputs(m, s, t):
        more = {}
        for c in TILES:
            if s.N % c.BM == 0 and (c.BM, c.BN) not in more:
                _, counts, index = lists(s, c)
                more[f"count{c.BM}_{c.BN}"], more[f"index{c.BM}_{c.BN}"] = m.array(counts), m.array(index)
        return dict(inputs(m, s, t), **more)
    e = entry(name, True, inputs=list_inputs, reference=capped, **(dict(library=None) if softcap else {}))

    @e.spelling("pointers", TILES)
    def _(a, s, c):
        return Launch(blocks_of_lists, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, a.lse, getattr(a, f"count{c.BM}_{c.BN}"), getattr(a, f"index{c.BM}_{c.BN}"), s.D**-0.5, s.N * s.D, s.D, s.N),
                      MAX=s.N // c.BN, D=s.D, SOFTCAP=softcap, **vars(c))
    return e


block_lists = listed("attention of listed blocks", False)
block_lists_capped = listed("attention of listed blocks, capped", True)


def token_inputs(m, s, t):
    return dict(q=m.normal((s.N, s.H, s.D), t), k=m.normal((s.N, s.H // s.GROUP, s.D), t), v=m.normal((s.N, s.H // s.GROUP, s.D), t), out=m.empty((s.N, s.H, s.D), t),
                lse=m.empty((s.H, s.N), "fp32"))


def token_reference(x, a, s):
    q, k, v = (x.swapaxes(t, 0, 1) for t in (a.q, a.k, a.v))
    out, lse = by_head(x, s.H, lambda h: weighted(x, scores(x, q[h], k[h // s.GROUP], s.D), v[h // s.GROUP]))
    return x.swapaxes(out, 0, 1), lse


tokens = entry("attention of tokens x heads", False, inputs=token_inputs, reference=token_reference, shapes=shapes("H GROUP N D", (64, 8, 4096, 128), (128, 4, 4096, 64)),
               small=shapes("H GROUP N D", (4, 2, 128, 64)), library=None)


@tokens.spelling("descriptors of three axes", TILES)
def _(a, s, c):
    described = lambda t, rows: TensorDescriptor(t, list(t.shape), [t.shape[1] * s.D, s.D, 1], [rows, 1, s.D])
    return Launch(four_axes, (s.N // c.BM, s.H), (described(a.q, c.BM), described(a.k, c.BN), described(a.v, c.BN), a.out, a.lse, s.D**-0.5, s.N), D=s.D, GROUP=s.GROUP, **vars(c))


def part_inputs(m, s, t):
    make = lambda d: m.normal((s.H, s.N, d), t)
    return dict(q=make(s.D + s.ROPE), k=make(s.D + s.ROPE), v=make(s.D), out=m.empty((s.H, s.N, s.D), t))


def part_reference(x, a, s):
    return by_head(x, s.H, lambda h: weighted(x, scores(x, a.q[h], a.k[h], s.D + s.ROPE) + causal_mask(x, s, s.N), a.v[h])[:1])


parts = entry("attention of two parts", True, 1, inputs=part_inputs, reference=part_reference, shapes=shapes("H N D ROPE", (64, 4096, 128, 64)), small=shapes("H N D ROPE", (2, 100, 64, 32)),
              library=None, flops=lambda s: s.H * s.N * s.N * (2 * s.D + s.ROPE))


@parts.spelling("pointers", TILES)
def _(a, s, c):
    return Launch(two_parts, (cdiv(s.N, c.BM), s.H), (a.q, a.k, a.v, a.out, (s.D + s.ROPE)**-0.5, s.D + s.ROPE, s.D + s.ROPE, s.D, s.D, s.N), D=s.D, ROPE=s.ROPE, DV=s.D, **vars(c))


def byte_inputs(m, s, t):
    return dict(q=m.normal((s.H, s.N, s.D), t), k=m.normal((s.H, s.N, s.D), t), v=m.normal((s.H, s.D, s.N), t), out=m.empty((s.H, s.N, s.D), "fp16"))


bytes8 = entry("attention of fp8", False, 1, inputs=byte_inputs, dtypes=("fp8e5",), library=None, tolerance=0.2,
               reference=lambda x, a, s: by_head(x, s.H, lambda h: weighted(x, scores(x, a.q[h], a.k[h], s.D), x.swapaxes(a.v[h], 0, 1))[:1]))


@bytes8.spelling("descriptors in the kernel, values transposed", TILES)
def _(a, s, c):
    return Launch(eight_bits, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, s.D**-0.5, s.N), D=s.D, **vars(c))


def int8_inputs(m, s, t):
    ints = lambda: m.integers((s.H, s.N, s.D), -40, 40, "int8")
    n = s.N // 32
    return dict(q=ints(), k=ints(), v=m.normal((s.H, s.N, s.D), t), qs=m.uniform((s.H * n,), "fp32", 0.0004, 0.0004), ks=m.uniform((s.H * n,), "fp32", 1.0, 1.0), out=m.empty((s.H, s.N, s.D), t))


def int8_reference(x, a, s):
    wide = lambda t: x.float(t)
    return by_head(x, s.H, lambda h: weighted(x, wide(a.q[h]) @ x.swapaxes(wide(a.k[h]), 0, 1) * (0.0004 / 1.4426950408889634), wide(a.v[h]))[:1])


int8 = entry("attention of int8 scores", False, 1, inputs=int8_inputs, reference=int8_reference, dtypes=("fp16",), library=None)


@int8.spelling("pointers", TILES)
def _(a, s, c):
    return Launch(int8_scores, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.qs, a.ks, a.out, s.N), D=s.D, **vars(c))


pairs = entry("attention of two tiles", False, 1)


@pairs.spelling("descriptors in the kernel", configs("BM BN num_warps num_stages", (64, 32, 4, 2), (64, 128, 8, 2), (64, 64, 4, 3), (128, 64, 8, 3)), lambda s, c: s.N % (2 * c.BM) == 0)
def _(a, s, c):
    return Launch(two_tiles, (s.N // c.BM // 2, s.H), (a.q, a.k, a.v, a.out, s.D**-0.5, s.N), D=s.D, **vars(c))


def packed_inputs(m, s, t):
    return dict(qkv=m.normal((s.N, 3, s.H, s.D), t), out=m.empty((s.N, s.H, s.D), t))


def packed_reference(x, a, s):
    out = by_head(x, s.H, lambda h: weighted(x, scores(x, a.qkv[:, 0, h], a.qkv[:, 1, h], s.D) + causal_mask(x, s, s.N), a.qkv[:, 2, h])[:1])[0]
    return x.swapaxes(out, 0, 1)


packed = entry("attention of packed arrays", True, 1, inputs=packed_inputs, reference=packed_reference, library=None)


@packed.spelling("pointers, while", TILES)
def _(a, s, c):
    return Launch(packed_qkv, (s.N // c.BM, s.H), (a.qkv, a.out, s.D**-0.5, s.N), H=s.H, D=s.D, CAUSAL=True, **vars(c))
