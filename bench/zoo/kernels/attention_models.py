"""Attention as models want it: sinks and windows, latent keys, pair biases, dropout, trees of drafts, 8 bits with scales, two softmaxes, keys stored by columns, heads of 80 and 192 columns."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.references import TILES, attention_inputs, by_head, ends, entry, scores, weighted
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def sinks_and_windows(Q, K, V, Sinks, sm_scale, M, Out, Z, H, N_Q, N_KV, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BANDWIDTH: tl.constexpr):
    """Host descriptors of four axes; a learned logit joins each head's softmax; rows see BANDWIDTH keys; the last queries belong to the last keys."""
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    sink = tl.load(Sinks + off_h).to(tl.float32) if Sinks is not None else 0.0
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    start_q = N_KV - N_Q
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) + sink
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    q = Q.load([off_z, off_h, start_m * BLOCK_M, 0]).reshape([BLOCK_M, HEAD_DIM])
    if BANDWIDTH:
        lo, hi = tl.maximum(0, start_q + start_m * BLOCK_M - BANDWIDTH), start_q + (start_m + 1) * BLOCK_M
    else:
        lo, hi = 0, start_q + (start_m + 1) * BLOCK_M
    lo = lo // BLOCK_N * BLOCK_N
    for start_n in range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        mask = (start_n + offs_n)[None, :] > (start_q + offs_m)[:, None]
        if BANDWIDTH:
            too_old = (start_n + offs_n[None, :]) < (start_q + offs_m[:, None] - BANDWIDTH + 1)
            mask = mask | too_old
        k = K.load([off_z, off_h, start_n, 0]).reshape([BLOCK_N, HEAD_DIM]).T
        qk = tl.dot(q, k, allow_tf32=False)
        qk = qk * sm_scale + tl.where(mask, -1.0e6, 0.0)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        qk -= m_ij[:, None]
        p = tl.math.exp(qk)
        alpha = tl.math.exp(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = V.load([off_z, off_h, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
        p = p.to(v.dtype)
        acc = tl.dot(p, v, acc, allow_tf32=False)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
    sink = tl.math.exp(sink - m_i)
    z = l_i + sink
    acc = acc / z[:, None]
    m_i += tl.math.log(l_i)
    tl.store(M + off_hz * N_Q + offs_m, m_i)
    Out.store([off_z, off_h, start_m * BLOCK_M, 0], acc.to(Out.dtype)[None, None, :, :])


@triton.jit
def latent_decode(Q, KV, Index, Start, Part, Lse, sm_scale, stride_qb, stride_qh, stride_kv, heads, SPLITS: tl.constexpr, BH: tl.constexpr, BN: tl.constexpr, LATENT: tl.constexpr, ROPE: tl.constexpr):
    """One token a sequence; all heads share keys of LATENT + ROPE columns, whose first LATENT are the values as well; the token's keys lie where an index says."""
    seq = tl.program_id(0)
    block = tl.program_id(1)
    split = tl.program_id(2)
    offs_h = block * BH + tl.arange(0, BH)
    offs_c = tl.arange(0, LATENT)
    offs_r = LATENT + tl.arange(0, ROPE)
    mask_h = offs_h < heads
    first = tl.load(Start + seq)
    length = tl.load(Start + seq + 1) - first
    per_split = tl.cdiv(length, SPLITS)
    lo = per_split * split
    hi = tl.minimum(lo + per_split, length)
    q = tl.load(Q + seq * stride_qb + offs_h[:, None] * stride_qh + offs_c[None, :], mask=mask_h[:, None], other=0.0)
    q_pe = tl.load(Q + seq * stride_qb + offs_h[:, None] * stride_qh + offs_r[None, :], mask=mask_h[:, None], other=0.0)
    e_max = tl.zeros([BH], dtype=tl.float32) - float("inf")
    e_sum = tl.zeros([BH], dtype=tl.float32)
    acc = tl.zeros([BH, LATENT], dtype=tl.float32)
    if hi > lo:
        for start_n in range(lo, hi, BN):
            offs_n = start_n + tl.arange(0, BN)
            at = tl.load(Index + first + offs_n, mask=offs_n < hi, other=0)
            k = tl.load(KV + at[None, :] * stride_kv + offs_c[:, None], mask=offs_n[None, :] < hi, other=0.0)
            qk = tl.dot(q, k.to(q.dtype))
            k_pe = tl.load(KV + at[None, :] * stride_kv + offs_r[:, None], mask=offs_n[None, :] < hi, other=0.0)
            qk += tl.dot(q_pe, k_pe.to(q_pe.dtype))
            qk *= sm_scale
            qk = tl.where(mask_h[:, None] & (offs_n[None, :] < hi), qk, float("-inf"))
            v = tl.trans(k)
            n_e_max = tl.maximum(tl.max(qk, 1), e_max)
            re_scale = tl.exp(e_max - n_e_max)
            p = tl.exp(qk - n_e_max[:, None])
            acc *= re_scale[:, None]
            acc += tl.dot(p.to(v.dtype), v)
            e_sum = e_sum * re_scale + tl.sum(p, 1)
            e_max = n_e_max
        at = (seq * heads + offs_h) * SPLITS + split
        tl.store(Part + at[:, None] * LATENT + offs_c[None, :], acc / e_sum[:, None], mask=mask_h[:, None])
        tl.store(Lse + at, e_max + tl.log(e_sum), mask=mask_h)


@triton.jit
def latent_join(Part, Lse, Start, Out, SPLITS: tl.constexpr, LATENT: tl.constexpr):
    at = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    offs = tl.arange(0, LATENT)
    length = tl.load(Start + tl.program_id(0) + 1) - tl.load(Start + tl.program_id(0))
    e_sum = 0.0
    e_max = -float("inf")
    acc = tl.zeros([LATENT], dtype=tl.float32)
    per_split = tl.cdiv(length, SPLITS)
    for split in range(0, SPLITS):
        if split * per_split < length:
            tv = tl.load(Part + (at * SPLITS + split) * LATENT + offs)
            logic = tl.load(Lse + at * SPLITS + split)
            n_e_max = tl.maximum(logic, e_max)
            old_scale = tl.exp(e_max - n_e_max)
            acc *= old_scale
            new = tl.exp(logic - n_e_max)
            acc += new * tv
            e_sum = e_sum * old_scale + new
            e_max = n_e_max
    tl.store(Out + at * LATENT + offs, (acc / e_sum).to(Out.dtype.element_ty))


@triton.jit
def pair_bias(Q, K, V, Pair, Mask, Out, sm_scale, stride_b, stride_n, stride_h, N, H, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, INF: tl.constexpr, EVEN: tl.constexpr):
    """Rows of a matrix of residues: a bias of each pair that all rows share, a mask of keys; tokens before heads; heads of 32 columns."""
    start_m = tl.program_id(0)
    head = tl.program_id(1) % H
    row = tl.program_id(1) // H
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    q_ptrs = Q + row * stride_b + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :]
    k_ptrs = K + row * stride_b + head * stride_h + tl.arange(0, BN)[None, :] * stride_n + offs_d[:, None]
    v_ptrs = V + row * stride_b + head * stride_h + tl.arange(0, BN)[:, None] * stride_n + offs_d[None, :]
    pair_ptrs = Pair + head * N * N + offs_m[:, None] * N + tl.arange(0, BN)[None, :]
    mask_ptrs = Mask + row * N + tl.arange(0, BN)
    q = tl.load(q_ptrs) if EVEN else tl.load(q_ptrs, mask=offs_m[:, None] < N, other=0.0)
    q = (q * sm_scale).to(q.dtype)
    m_i = tl.full([BM], value=-float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start_n in range(0, N, BN):
        offs_n = start_n + tl.arange(0, BN)
        valid = offs_n < N
        k = tl.load(k_ptrs) if EVEN else tl.load(k_ptrs, mask=valid[None, :], other=0.0)
        if EVEN:
            bias = tl.load(pair_ptrs)
        else:
            bias = tl.load(pair_ptrs, mask=(offs_m[:, None] < N) & valid[None, :], other=0.0)
        keep = tl.load(mask_ptrs, mask=valid, other=0)
        s = bias.to(tl.float32)
        s += tl.dot(q, k)
        s = tl.where(keep[None, :] != 0, s, -INF)
        s = tl.where(valid[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptrs) if EVEN else tl.load(v_ptrs, mask=valid[:, None], other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
        k_ptrs += BN * stride_n
        v_ptrs += BN * stride_n
        pair_ptrs += BN
        mask_ptrs += BN
    acc = acc / l_i[:, None]
    tl.store(Out + row * stride_b + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < N)


@triton.jit
def relative_bias(Q, K, V, Table, Out, Lse, sm_scale, N_Q, N_KV, far, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, DP: tl.constexpr):
    """A bias by the distance of query and key, looked up in a row for each head; lengths of queries and keys differ; D columns in a tile of DP."""
    pid = tl.program_id(0)
    head = tl.program_id(1)
    Q += head.to(tl.int64) * N_Q * D
    K += head.to(tl.int64) * N_KV * D
    V += head.to(tl.int64) * N_KV * D
    Out += head.to(tl.int64) * N_Q * D
    offs_m = pid * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, DP)
    mask_d = offs_d < D
    q = tl.load(Q + offs_m[:, None] * D + offs_d[None, :], mask=(offs_m[:, None] < N_Q) & mask_d[None, :], other=0.0)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, DP], dtype=tl.float32)
    for start_n in range(0, tl.cdiv(N_KV, BN) * BN, BN):
        offs_n = start_n + tl.arange(0, BN)
        k = tl.load(K + offs_n[:, None] * D + offs_d[None, :], mask=(offs_n[:, None] < N_KV) & mask_d[None, :], other=0.0)
        distance = tl.minimum(tl.maximum(offs_n[None, :] - offs_m[:, None], -far), far) + far
        bias = tl.load(Table + head * (2 * far + 1) + distance)
        qk = tl.dot(q, tl.trans(k)) * sm_scale + bias
        qk = tl.where(offs_n[None, :] < N_KV, qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, axis=1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        v = tl.load(V + offs_n[:, None] * D + offs_d[None, :], mask=(offs_n[:, None] < N_KV) & mask_d[None, :], other=0.0)
        l_i = alpha * l_i + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    tl.store(Lse + head * N_Q + offs_m, (m_i + tl.log(l_i)) * 1.44269504, mask=offs_m < N_Q)
    tl.store(Out + offs_m[:, None] * D + offs_d[None, :], (acc / l_i[:, None]).to(Out.dtype.element_ty), mask=(offs_m[:, None] < N_Q) & mask_d[None, :])


@triton.jit
def dropped(Q, K, V, Out, Lse, sm_scale, p_drop, seed, stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    """Causal, with dropout by Philox numbers of the place in the matrix of scores; all strides are arguments."""
    start_m = tl.program_id(0)
    off_h = tl.program_id(1)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q_ptrs = Q + off_h * stride_qh + (offs_m[:, None] * stride_qm + offs_d[None, :])
    k_ptrs = K + off_h * stride_kh + (offs_n[:, None] * stride_kn + offs_d[None, :])
    v_ptrs = V + off_h * stride_vh + (offs_n[:, None] * stride_vn + offs_d[None, :])
    lse_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    acc_o = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    q = tl.load(q_ptrs)
    end_n = tl.minimum((start_m + 1) * BLOCK_M, N)
    for start_n in range(0, end_n, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = tl.load(k_ptrs + start_n * stride_kn)
        qk = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        qk += tl.dot(q, tl.trans(k))
        qk += tl.where(offs_m[:, None] >= (start_n + offs_n)[None, :], 0, float("-inf"))
        m_ij = tl.maximum(tl.max(qk, 1) * sm_scale, lse_i)
        p = tl.exp(qk * sm_scale - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        acc_o_scale = tl.exp(m_i - m_ij)
        acc_o = acc_o * acc_o_scale[:, None]
        at = (off_h * N + offs_m)[:, None] * N + (start_n + offs_n)[None, :]
        keep = tl.rand(seed, at) > p_drop
        p = tl.where(keep, p, 0.0)
        v = tl.load(v_ptrs + start_n * stride_vn)
        acc_o += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
        l_i_new = tl.exp(lse_i - m_ij) + l_ij
        lse_i = m_ij + tl.log(l_i_new)
    acc_o = acc_o * tl.exp(m_i - lse_i)[:, None] / (1 - p_drop)
    tl.store(Lse + off_h * N + offs_m, lse_i * 1.44269504)
    tl.store(Out + off_h * stride_oh + (offs_m[:, None] * stride_om + offs_d[None, :]), acc_o.to(Out.dtype.element_ty))


@triton.jit
def draft_tree(Q, K, V, Tree, Out, sm_scale, stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, context, drafts, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Draft tokens of a tree behind a common context: first the context without masks, then the drafts, which see their ancestors; the heads of a group share a tile."""
    seq = tl.program_id(0)
    kv_head = tl.program_id(1)
    rows = tl.program_id(2) * BM + tl.arange(0, BM)
    token = rows // GROUP
    head = kv_head * GROUP + rows % GROUP
    offs_d = tl.arange(0, D)
    live = token < drafts
    q = tl.load(Q + seq * stride_qb + head[:, None] * stride_qh + token[:, None] * stride_qm + offs_d[None, :], mask=live[:, None], other=0.0)
    scale = sm_scale * 1.44269504
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    K += seq * stride_kb + kv_head * stride_kh
    V += seq * stride_kb + kv_head * stride_kh
    for start_n in tl.range(0, context, BN):
        offs_n = start_n + tl.arange(0, BN)
        k = tl.load(K + offs_n[None, :] * stride_kn + offs_d[:, None], mask=offs_n[None, :] < context, other=0.0)
        s = tl.where(offs_n[None, :] < context, tl.dot(q, k) * scale, -float("inf"))
        m_ij = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_ij[:, None])
        alpha = tl.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + offs_n[:, None] * stride_kn + offs_d[None, :], mask=offs_n[:, None] < context, other=0.0)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
    for start_n in tl.range(0, drafts, BN):
        offs_n = start_n + tl.arange(0, BN)
        valid = offs_n < drafts
        k = tl.load(K + (context + offs_n)[None, :] * stride_kn + offs_d[:, None], mask=valid[None, :], other=0.0)
        sees = tl.load(Tree + seq * drafts * drafts + token[:, None] * drafts + offs_n[None, :], mask=live[:, None] & valid[None, :], other=0)
        s = tl.where(sees != 0, tl.dot(q, k) * scale, -float("inf"))
        m_ij = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_ij[:, None])
        alpha = tl.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + (context + offs_n)[:, None] * stride_kn + offs_d[None, :], mask=valid[:, None], other=0.0)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
    tl.store(Out + seq * stride_qb + head[:, None] * stride_qh + token[:, None] * stride_qm + offs_d[None, :], (acc / l_i[:, None]).to(Out.dtype.element_ty), mask=live[:, None])


@triton.jit
def scaled_eight_bits(Q, K, V, QScale, KScale, VScale, Out, N, H, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """fp8 with a scale for each block of queries and of keys, and for each column of values; block pointers."""
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    base = head.to(tl.int64) * N * D
    q_ptr = tl.make_block_ptr(Q + base, (N, D), (D, 1), (start_m * BM, 0), (BM, D), (1, 0))
    k_ptr = tl.make_block_ptr(K + base, (D, N), (1, D), (0, 0), (D, BN), (0, 1))
    v_ptr = tl.make_block_ptr(V + base, (N, D), (1, N), (0, 0), (BN, D), (0, 1))
    q = tl.load(q_ptr)
    q_scale = tl.load(QScale + head * tl.cdiv(N, BM) + start_m)
    k_scale_ptr = KScale + head * tl.cdiv(N, BN)
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.full([BM], 1.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start_n in range(0, N, BN):
        k = tl.load(k_ptr)
        k_scale = tl.load(k_scale_ptr)
        qk = tl.dot(q, k) * (q_scale * k_scale)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        qk = qk - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr)
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
        k_ptr = tl.advance(k_ptr, (0, BN))
        v_ptr = tl.advance(v_ptr, (BN, 0))
        k_scale_ptr += 1
    acc = acc / l_i[:, None] * tl.load(VScale + head * D + tl.arange(0, D))[None, :]
    tl.store(tl.make_block_ptr(Out + base, (N, D), (D, 1), (start_m * BM, 0), (BM, D), (1, 0)), acc.to(Out.dtype.element_ty))


@triton.jit
def two_softmaxes(Q1, Q2, K1, K2, V, Out, lam, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, DV: tl.constexpr):
    """The difference of two attentions over the same values: four dots an iteration; causal."""
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    offs_v = tl.arange(0, DV)
    at_q = head * N * D + offs_m[:, None] * D + offs_d[None, :]
    q1 = tl.load(Q1 + at_q)
    q2 = tl.load(Q2 + at_q)
    m1 = tl.full([BM], -float("inf"), tl.float32)
    m2 = tl.full([BM], -float("inf"), tl.float32)
    l1 = tl.zeros([BM], tl.float32)
    l2 = tl.zeros([BM], tl.float32)
    acc1 = tl.zeros([BM, DV], tl.float32)
    acc2 = tl.zeros([BM, DV], tl.float32)
    scale = sm_scale * 1.44269504
    for start_n in range(0, (start_m + 1) * BM, BN):
        cols = start_n + offs_n
        at_k = head * N * D + cols[None, :] * D + offs_d[:, None]
        k1 = tl.load(K1 + at_k)
        k2 = tl.load(K2 + at_k)
        v = tl.load(V + head * N * DV + cols[:, None] * DV + offs_v[None, :])
        sees = offs_m[:, None] >= cols[None, :]
        s1 = tl.where(sees, tl.dot(q1, k1) * scale, -float("inf"))
        s2 = tl.where(sees, tl.dot(q2, k2) * scale, -float("inf"))
        n1 = tl.maximum(m1, tl.max(s1, 1))
        n2 = tl.maximum(m2, tl.max(s2, 1))
        p1 = tl.exp2(s1 - n1[:, None])
        p2 = tl.exp2(s2 - n2[:, None])
        a1 = tl.exp2(m1 - n1)
        a2 = tl.exp2(m2 - n2)
        l1 = l1 * a1 + tl.sum(p1, 1)
        l2 = l2 * a2 + tl.sum(p2, 1)
        acc1 = tl.dot(p1.to(v.dtype), v, acc1 * a1[:, None])
        acc2 = tl.dot(p2.to(v.dtype), v, acc2 * a2[:, None])
        m1 = n1
        m2 = n2
    out = acc1 / l1[:, None] - lam * (acc2 / l2[:, None])
    tl.store(Out + head * N * DV + offs_m[:, None] * DV + offs_v[None, :], out.to(Out.dtype.element_ty))


@triton.jit
def keys_by_columns(q_desc, k_desc, v_desc, o_desc, Lse, sm_scale, N_Q, N_KV, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, SOFTCAP: tl.constexpr):
    """Keys stored D x N, as caches keep them; scores capped by a tanh; the result leaves by a descriptor; queries and keys of other lengths."""
    start_m = tl.program_id(0) * BM
    head = tl.program_id(1)
    q = q_desc.load([head * N_Q + start_m, 0])
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start_n in tl.range(0, N_KV, BN):
        k = k_desc.load([head * D, start_n])
        qk = tl.dot(q, k) * sm_scale
        if SOFTCAP:
            x = qk / 30.0
            qk = 30.0 * (2 * tl.sigmoid(2 * x) - 1)
        qk = qk * 1.44269504
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([head * N_KV + start_n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    tl.store(Lse + head * N_Q + start_m + tl.arange(0, BM), m_i + tl.math.log2(l_i))
    o_desc.store([head * N_Q + start_m, 0], (acc / l_i[:, None]).to(o_desc.dtype))


@triton.jit
def continued(Q, K, V, Acc, Max, Sum, sm_scale, N, first_q, first_k, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr):
    """A chunk of keys of a ring of devices: the state of the softmax comes from memory and goes back there; keys in an inner loop of unrolled parts."""
    start_m = tl.program_id(0) * BM
    head = tl.program_id(1)
    offs_m = start_m + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    base = head.to(tl.int64) * N * D
    q = tl.load(Q + base + offs_m[:, None] * D + offs_d[None, :])
    m_i = tl.load(Max + head * N + offs_m)
    l_i = tl.load(Sum + head * N + offs_m)
    acc = tl.load(Acc + base + offs_m[:, None] * D + offs_d[None, :])
    rows = first_q + offs_m
    hi = tl.minimum(N, tl.maximum(0, first_q + start_m + BM - first_k))
    start_n = 0
    while start_n < hi:
        for part in tl.static_range(CHUNK):
            offs_n = start_n + part * BN + tl.arange(0, BN)
            k = tl.load(K + base + offs_n[:, None] * D + offs_d[None, :])
            v = tl.load(V + base + offs_n[:, None] * D + offs_d[None, :])
            s = tl.dot(q, k.T) * (sm_scale * 1.44269504)
            s = tl.where(rows[:, None] >= (first_k + offs_n)[None, :], s, -1.0e30)
            m_ij = tl.maximum(m_i, tl.max(s, 1))
            p = tl.exp2(s - m_ij[:, None])
            alpha = tl.exp2(m_i - m_ij)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
            m_i = m_ij
        start_n += CHUNK * BN
    tl.store(Max + head * N + offs_m, m_i)
    tl.store(Sum + head * N + offs_m, l_i)
    tl.store(Acc + base + offs_m[:, None] * D + offs_d[None, :], acc)


@triton.jit
def by_counter(q_desc, k_desc, v_desc, o_desc, Counter, sm_scale, H, N, tiles, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Programs as many as the machine holds take causal tiles from a counter, the longest first; full blocks, then those on the diagonal."""
    tile = tl.atomic_add(Counter, 1)
    qk_scale = sm_scale * 1.44269504
    while tile < tiles:
        head = tile % H
        start_m = (tiles // H - 1 - tile // H) * BM
        q = q_desc.load([head * N + start_m, 0])
        offs_m = start_m + tl.arange(0, BM)
        m_i = tl.full([BM], -float("inf"), tl.float32)
        l_i = tl.full([BM], 1.0, tl.float32)
        acc = tl.zeros([BM, D], tl.float32)
        for start_n in tl.range(0, start_m // BN * BN, BN):
            k = k_desc.load([head * N + start_n, 0]).T
            qk = tl.dot(q, k)
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            p = tl.math.exp2(qk * qk_scale - m_ij[:, None])
            alpha = tl.math.exp2(m_i - m_ij)
            acc = acc * alpha[:, None]
            v = v_desc.load([head * N + start_n, 0])
            l_ij = tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype), v, acc)
            l_i = l_i * alpha + l_ij
            m_i = m_ij
        for start_n in tl.range(start_m // BN * BN, start_m + BM, BN):
            k = k_desc.load([head * N + start_n, 0]).T
            qk = tl.dot(q, k)
            qk = qk * qk_scale + tl.where(offs_m[:, None] >= start_n + tl.arange(0, BN)[None, :], 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            p = tl.math.exp2(qk - m_ij[:, None])
            alpha = tl.math.exp2(m_i - m_ij)
            acc = acc * alpha[:, None]
            v = v_desc.load([head * N + start_n, 0])
            l_ij = tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype), v, acc)
            l_i = l_i * alpha + l_ij
            m_i = m_ij
        o_desc.store([head * N + start_m, 0], (acc / l_i[:, None]).to(o_desc.dtype))
        tile = tl.atomic_add(Counter, 1)


def shared(m, s, t, keys=None):
    keys = keys or s.N
    return dict(q=m.normal((s.H, s.N, s.D), t), k=m.normal((s.H, keys, s.D), t), v=m.normal((s.H, keys, s.D), t), out=m.empty((s.H, s.N, s.D), t), lse=m.empty((s.H, s.N), "fp32"))


def with_sink(x, p, v, sink):
    top = x.where(x.amax(p, axis=-1, keepdims=True) > sink, x.amax(p, axis=-1, keepdims=True), sink)
    e = x.exp(p - top)
    return ((e / (x.sum(e, axis=-1, keepdims=True) + x.exp(sink - top))) @ v,)


def sink_inputs(m, s, t):
    return dict(shared(m, s, t, s.KEYS), sinks=m.normal((s.H,), "fp32"))


def sink_entry(name, window, flops):
    e = entry(name, True, 1, inputs=sink_inputs, reference=lambda x, a, s: by_head(x, s.H, lambda h: with_sink(x, scores(x, a.q[h], a.k[h], s.D) + ends(x, s.N, s.KEYS, window and s.WINDOW), a.v[h], a.sinks[h])),
              shapes=shapes("H N KEYS D WINDOW", (64, 4096, 4096, 64, 128), (64, 2048, 6144, 128, 1024)), small=shapes("H N KEYS D WINDOW", (2, 128, 192, 64, 40)), library=None, flops=flops)

    @e.spelling("host descriptors of four axes", TILES)
    def _(a, s, c):
        described = lambda t, rows: TensorDescriptor(t[None], [1, *t.shape], [t.shape[0] * t.shape[1] * s.D, t.shape[1] * s.D, s.D, 1], [1, 1, rows, s.D])
        return Launch(sinks_and_windows, (s.N // c.BM, s.H), (described(a.q, c.BM), described(a.k, c.BN), described(a.v, c.BN), a.sinks, s.D**-0.5, a.lse, described(a.out, c.BM), 1, s.H, s.N, s.KEYS),
                      HEAD_DIM=s.D, BLOCK_M=c.BM, BLOCK_N=c.BN, BANDWIDTH=s.WINDOW if window else 0, num_warps=c.num_warps, num_stages=c.num_stages)
    return e


sink = sink_entry("attention with sinks", False, lambda s: 4 * s.H * s.D * (s.N * (s.KEYS - s.N) + s.N * s.N // 2))
sink_window = sink_entry("attention with sinks in a window", True, lambda s: 4 * s.H * s.D * s.N * s.WINDOW)


def latent_inputs(m, s, t):
    import numpy
    lengths = [s.N - (s.N * i // (2 * s.B)) for i in range(s.B)]
    return dict(q=m.normal((s.B, s.H, s.C + s.R), t), kv=m.normal((s.B * s.N, s.C + s.R), t), index=m.permutation(s.B * s.N), start=m.array([0, *numpy.cumsum(lengths).tolist()]),
                out=m.empty((s.B, s.H, s.C), t), part=m.empty((s.B, s.H, 32, s.C), "fp32"), parts=m.empty((s.B, s.H, 32), "fp32"))


def latent_reference(x, a, s):
    out = []
    for b in range(s.B):
        rows = a.kv[x.long(a.index[int(a.start[b]):int(a.start[b + 1])])]
        out.append(weighted(x, scores(x, a.q[b], rows, s.C + s.R), rows[:, :s.C])[0])
    return (x.stack(out, axis=0),)


latent = Entry("decode of latent keys", inputs=latent_inputs, outputs=("out",), reference=latent_reference, dtypes=("bf16",), shapes=shapes("B H N C R", (64, 16, 4096, 512, 64), (32, 128, 4096, 512, 64)),
               small=shapes("B H N C R", (2, 20, 90, 64, 32)), bytes=lambda s, e: s.B * s.N * 3 // 4 * (s.C + s.R) * e)


@latent.spelling("split KV, values are keys", configs("BN SPLITS num_warps num_stages", (32, 8, 4, 2), (16, 8, 4, 2), (32, 4, 8, 2), (64, 4, 8, 1)))
def _(a, s, c):
    return [Launch(latent_decode, (s.B, cdiv(s.H, 16), c.SPLITS), (a.q, a.kv, a.index, a.start, a.part, a.parts, (s.C + s.R)**-0.5, s.H * (s.C + s.R), s.C + s.R, s.C + s.R, s.H), BH=16, LATENT=s.C, ROPE=s.R, **vars(c)),
            Launch(latent_join, (s.B, s.H), (a.part, a.parts, a.start, a.out), SPLITS=c.SPLITS, LATENT=s.C, num_warps=4)]


def pair_inputs(m, s, t):
    n = (s.B, s.N, s.H, s.D)
    return dict(q=m.normal(n, t), k=m.normal(n, t), v=m.normal(n, t), pair=m.normal((s.H, s.N, s.N), t), mask=m.integers((s.B, s.N), 0, 4), out=m.empty(n, t))


def pair_reference(x, a, s):
    def row(b):
        keep = x.where(a.mask[b] != 0, 0.0, -1e9)[None, :]
        return x.stack([weighted(x, scores(x, a.q[b][:, h], a.k[b][:, h], s.D) + a.pair[h] + keep, a.v[b][:, h])[0] for h in range(s.H)], axis=1)
    return (x.stack([row(b) for b in range(s.B)], axis=0),)


pairs = Entry("attention of residue pairs", inputs=pair_inputs, outputs=("out",), reference=pair_reference, dtypes=("bf16",), shapes=shapes("B N H D", (512, 512, 4, 32), (384, 768, 8, 32)),
              small=shapes("B N H D", (3, 100, 2, 32)), flops=lambda s: 4 * s.B * s.H * s.N * s.N * s.D)


@pairs.spelling("pointers", configs("BM BN num_warps num_stages", (64, 32, 4, 2), (64, 64, 4, 3), (128, 64, 8, 2), (128, 128, 8, 2), (64, 128, 4, 2)))
def _(a, s, c):
    return Launch(pair_bias, (cdiv(s.N, c.BM), s.B * s.H), (a.q, a.k, a.v, a.pair, a.mask, a.out, s.D**-0.5, s.N * s.H * s.D, s.H * s.D, s.D, s.N, s.H), D=s.D, INF=1e9, EVEN=s.N % 128 == 0, **vars(c))


def relative_inputs(m, s, t):
    return dict(shared(m, s, t, s.KEYS), table=m.normal((s.H, 2 * s.FAR + 1), "fp32"))


def relative_reference(x, a, s):
    distance = x.arange(s.KEYS)[None, :] - x.arange(s.N)[:, None]
    at = x.long(x.clip(distance, -s.FAR, s.FAR) + s.FAR)
    return by_head(x, s.H, lambda h: weighted(x, scores(x, a.q[h], a.k[h], s.D) + a.table[h][at], a.v[h]))


relative = entry("attention with biases by distance", False, inputs=relative_inputs, reference=relative_reference, shapes=shapes("H N KEYS D FAR", (128, 2048, 1500, 64, 128), (64, 2048, 3000, 80, 64)),
                 small=shapes("H N KEYS D FAR", (2, 70, 100, 48, 20)), library=None, flops=lambda s: 4 * s.H * s.N * s.KEYS * s.D)


@relative.spelling("pointers", TILES)
def _(a, s, c):
    return Launch(relative_bias, (cdiv(s.N, c.BM), s.H), (a.q, a.k, a.v, a.table, a.out, a.lse, s.D**-0.5, s.N, s.KEYS, s.FAR), D=s.D, DP=next_power_of_2(s.D), **vars(c))


def undropped(x, a, s):
    return by_head(x, s.H, lambda h: weighted(x, scores(x, a.q[h], a.k[h], s.D) + ends(x, s.N, s.N), a.v[h]))


# A reference does not know which numbers Philox gives: the kernel runs with p = 0, which it does not know.
drop = entry("attention with dropout", True, reference=undropped, library=None)


@drop.spelling("pointers", TILES)
def _(a, s, c):
    strides = (s.N * s.D, s.D) * 4
    return Launch(dropped, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, -1.0e-30, 1234567, *strides, s.N), BLOCK_M=c.BM, BLOCK_N=c.BN, D=s.D, num_warps=c.num_warps, num_stages=c.num_stages)


def tree_inputs(m, s, t):
    keys = s.CONTEXT + s.DRAFTS
    parents = [[(7 * b + 3 * i) % i if i else 0 for i in range(s.DRAFTS)] for b in range(s.B)]
    tree = [[[0] * s.DRAFTS for _ in range(s.DRAFTS)] for _ in range(s.B)]
    for b in range(s.B):
        for i in range(s.DRAFTS):
            tree[b][i] = list(tree[b][parents[b][i]]) if i else tree[b][i]
            tree[b][i][i] = 1
    return dict(q=m.normal((s.B, s.H, s.DRAFTS, s.D), t), k=m.normal((s.B, s.H // s.GROUP, keys, s.D), t), v=m.normal((s.B, s.H // s.GROUP, keys, s.D), t), tree=m.array(tree, "int8"),
                out=m.empty((s.B, s.H, s.DRAFTS, s.D), t))


def tree_reference(x, a, s):
    out = []
    for b in range(s.B):
        mask = x.where(a.tree[b] != 0, 0.0, -float("inf"))
        heads = []
        for h in range(s.H):
            p = scores(x, a.q[b, h], a.k[b, h // s.GROUP], s.D)
            heads.append(weighted(x, x.concatenate([p[:, :s.CONTEXT], p[:, s.CONTEXT:] + mask], axis=1), a.v[b, h // s.GROUP])[0])
        out.append(x.stack(heads, axis=0))
    return (x.stack(out, axis=0),)


tree = Entry("attention of draft trees", inputs=tree_inputs, outputs=("out",), reference=tree_reference, dtypes=("bf16",), shapes=shapes("B H GROUP DRAFTS CONTEXT D", (32, 32, 4, 64, 8000, 128), (64, 32, 8, 16, 4096, 128)),
             small=shapes("B H GROUP DRAFTS CONTEXT D", (2, 4, 2, 20, 90, 64)), flops=lambda s: 4 * s.B * s.H * s.DRAFTS * (s.CONTEXT + s.DRAFTS) * s.D)


@tree.spelling("pointers, heads of a group in a tile", configs("BM BN num_warps num_stages", (16, 64, 4, 3), (64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (64, 128, 4, 2)))
def _(a, s, c):
    keys = s.CONTEXT + s.DRAFTS
    return Launch(draft_tree, (s.B, s.H // s.GROUP, cdiv(s.DRAFTS * s.GROUP, c.BM)), (a.q, a.k, a.v, a.tree, a.out, s.D**-0.5, s.H * s.DRAFTS * s.D, s.DRAFTS * s.D, s.D, s.H // s.GROUP * keys * s.D, keys * s.D, s.D, s.CONTEXT, s.DRAFTS),
                  GROUP=s.GROUP, D=s.D, **vars(c))


def scaled_inputs(m, s, t):
    made = dict(q=m.normal((s.H, s.N, s.D), t), k=m.normal((s.H, s.N, s.D), t), v=m.normal((s.H, s.D, s.N), t), out=m.empty((s.H, s.N, s.D), "bf16"), vs=m.uniform((s.H, s.D), "fp32", 0.5, 1.5))
    for b in (32, 64, 128):  # of a block its place in a longer row: all sizes of blocks then agree
        made[f"qs{b}"] = m.zeros((s.H, cdiv(s.N, b)), "fp32") + s.D**-0.5 * 1.4426950408889634
        made[f"ks{b}"] = m.zeros((s.H, cdiv(s.N, b)), "fp32") + 0.75
    return made


eight = entry("attention of fp8 with scales", False, 1, inputs=scaled_inputs, dtypes=("fp8e4",), library=None, tolerance=8e-2,
              reference=lambda x, a, s: by_head(x, s.H, lambda h: (weighted(x, 0.75 * scores(x, a.q[h], a.k[h], s.D), x.swapaxes(a.v[h], 0, 1))[0] * a.vs[h][None, :],)))


@eight.spelling("block pointers", TILES)
def _(a, s, c):
    return Launch(scaled_eight_bits, (s.N // c.BM, s.H), (a.q, a.k, a.v, getattr(a, f"qs{c.BM}"), getattr(a, f"ks{c.BN}"), a.vs, a.out, s.N, s.H), D=s.D, **vars(c))


def two_inputs(m, s, t):
    make = lambda d: m.normal((s.H, s.N, d), t)
    return dict(q=make(s.D), q2=make(s.D), k=make(s.D), k2=make(s.D), v=make(2 * s.D), out=make(2 * s.D))


def two_reference(x, a, s):
    part = lambda q, k, h: weighted(x, scores(x, q[h], k[h], s.D) + ends(x, s.N, s.N), a.v[h])[0]
    return by_head(x, s.H, lambda h: (part(a.q, a.k, h) - 0.4 * part(a.q2, a.k2, h),))


twice = entry("attention of two softmaxes", True, 1, inputs=two_inputs, reference=two_reference, shapes=shapes("H N D", (64, 4096, 64)), small=shapes("H N D", (2, 128, 32)), library=None,
              flops=lambda s: 6 * s.H * s.N * s.N * s.D)


@twice.spelling("pointers", configs("BM BN num_warps num_stages", (64, 32, 4, 2), (64, 64, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3)))
def _(a, s, c):
    return Launch(two_softmaxes, (s.N // c.BM, s.H), (a.q, a.q2, a.k, a.k2, a.v, a.out, 0.4, s.D**-0.5, s.N), D=s.D, DV=2 * s.D, **vars(c))


def column_inputs(m, s, t):
    made = shared(m, s, t, s.KEYS)
    return dict(made, kt=m.normal((s.H, s.D, s.KEYS), t))


def column_entry(name, softcap):
    cap = lambda x, p: 30 * x.tanh(p / 30) if softcap else p
    e = entry(name, False, inputs=column_inputs, reference=lambda x, a, s: by_head(x, s.H, lambda h: weighted(x, cap(x, scores(x, a.q[h], x.swapaxes(a.kt[h], 0, 1), s.D)), a.v[h])),
              shapes=shapes("H N KEYS D", (64, 4096, 2048, 128), (128, 2048, 4096, 64)), small=shapes("H N KEYS D", (2, 128, 256, 64)), library=None, flops=lambda s: 4 * s.H * s.N * s.KEYS * s.D)

    @e.spelling("host descriptors", TILES)
    def _(a, s, c):
        described = lambda t, rows, cols: TensorDescriptor(t.reshape(-1, t.shape[-1]), [t.shape[0] * t.shape[1], t.shape[2]], [t.shape[2], 1], [rows, cols])
        return Launch(keys_by_columns, (s.N // c.BM, s.H), (described(a.q, c.BM, s.D), described(a.kt, s.D, c.BN), described(a.v, c.BN, s.D), described(a.out, c.BM, s.D), a.lse, s.D**-0.5, s.N, s.KEYS), D=s.D, SOFTCAP=softcap, **vars(c))
    return e


columns = column_entry("attention of keys by columns", False)
columns_capped = column_entry("attention of keys by columns, capped", True)


def ring_inputs(m, s, t):
    made = shared(m, s, t)
    return dict(q=made["q"], k=made["k"], v=made["v"], acc=m.normal((s.H, s.N, s.D), "fp32"), top=m.normal((s.H, s.N), "fp32"), total=m.uniform((s.H, s.N), "fp32", 1.0, 2.0))


def ring_reference(x, a, s):
    def one(h):
        p = (scores(x, a.q[h], a.k[h], s.D) + ends(x, s.N, s.N)) * 1.4426950408889634
        top = x.amax(p, axis=-1)
        top = x.where(top > a.top[h], top, a.top[h])
        e, old = x.exp(0.6931471805599453 * (p - top[:, None])), x.exp(0.6931471805599453 * (a.top[h] - top))
        return a.acc[h] * old[:, None] + e @ a.v[h], top, a.total[h] * old + x.sum(e, axis=-1)
    return by_head(x, s.H, one)


ring = Entry("attention of a ring's chunk", inputs=ring_inputs, outputs=("acc", "top", "total"), restored=("acc", "top", "total"), reference=ring_reference, dtypes=("bf16",), shapes=shapes("H N D", (64, 4096, 128)),
             small=shapes("H N D", (2, 128, 64)), flops=lambda s: 2 * s.H * s.N * s.N * s.D, tolerance=2e-2)


@ring.spelling("pointers, while, unrolled", configs("BM BN num_warps num_stages CHUNK", (64, 32, 4, 2, 2), (64, 64, 4, 3, 1), (128, 64, 8, 3, 1), (128, 64, 8, 2, 2)))
def _(a, s, c):
    return Launch(continued, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.acc, a.top, a.total, s.D**-0.5, s.N, 0, 0), D=s.D, **vars(c))


counted = entry("attention by a counter of tiles", True, 1, inputs=lambda m, s, t: dict(attention_inputs(m, s, t), counter=m.zeros((1,), "int32")), counters=("counter",))


@counted.spelling("host descriptors", TILES, lambda s, c: s.N % c.BM == 0)
def _(a, s, c):
    described = lambda t, rows: TensorDescriptor(t.reshape(-1, s.D), [s.H * s.N, s.D], [s.D, 1], [rows, s.D])
    programs = min(132 * 2, s.N // c.BM * s.H)
    return Launch(by_counter, (programs,), (described(a.q, c.BM), described(a.k, c.BN), described(a.v, c.BN), described(a.out, c.BM), a.counter, s.D**-0.5, s.H, s.N, s.N // c.BM * s.H), D=s.D, **vars(c))
