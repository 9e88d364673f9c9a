"""Attention as servers run it: sequences of different lengths in one array, their ends known by loads only, keys in pages; programs beyond a sequence's end return."""
import triton
import triton.language as tl
from zoo.references import TILES, scores, weighted
from zoo.table import Entry, Launch, cdiv, shapes


@triton.jit
def prompt_blocks(Q, K, V, sm_scale, Start, Len, Out, stride_qt, stride_kt, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A program beyond the end runs no iteration: no branch; pointers begin at the sequence; exp."""
    batch = tl.program_id(0)
    head = tl.program_id(1)
    start_m = tl.program_id(2)
    length = tl.load(Len + batch)
    start = tl.load(Start + batch)
    block_start = BM * start_m
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    offs_m = start_m * BM + tl.arange(0, BM)
    q = tl.load(Q + (start + offs_m[:, None]) * stride_qt + head * D + offs_d[None, :], mask=offs_m[:, None] < length, other=0.0)
    k_ptrs = K + offs_n[None, :] * stride_kt + head // GROUP * D + offs_d[:, None]
    v_ptrs = V + offs_n[:, None] * stride_kt + head // GROUP * D + offs_d[None, :]
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    block_mask = tl.where(block_start < length, 1, 0)
    for start_n in range(0, block_mask * (start_m + 1) * BM, BN):
        start_n = tl.multiple_of(start_n, BN)
        k = tl.load(k_ptrs + (start + start_n) * stride_kt, mask=(start_n + offs_n[None, :]) < length, other=0.0)
        qk = tl.zeros([BM, BN], dtype=tl.float32)
        qk += tl.dot(q, k)
        qk *= sm_scale
        qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_ij[:, None])
        alpha = tl.exp(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs + (start + start_n) * stride_kt, mask=(start_n + offs_n[:, None]) < length, other=0.0)
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(Out + (start + offs_m[:, None]) * stride_qt + head * D + offs_d[None, :], acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < length)


@triton.jit
def some_blocks(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_k, start_m, actual, lo, hi, scale, BM: tl.constexpr, BN: tl.constexpr, MASKED: tl.constexpr):
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    for start_n in range(lo, hi, BN):
        if MASKED:
            k = tl.load(k_ptrs, mask=(start_n + offs_n)[None, :] < actual, other=0.0)
            v = tl.load(v_ptrs, mask=(start_n + offs_n)[:, None] < actual, other=0.0)
        else:
            k = tl.load(k_ptrs)
            v = tl.load(v_ptrs)
        qk = tl.zeros([BM, BN], dtype=tl.float32)
        if MASKED:
            if (start_n + BN == hi) and (actual % BN != 0):
                boundary = tl.full([BM], actual, dtype=tl.int32)
                qk = tl.where((start_n + offs_n[None, :]) < boundary[:, None], qk, float("-inf"))
            qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, float("-inf"))
        qk += tl.dot(q, k) * scale
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        acc = acc * alpha[:, None]
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        acc += tl.dot(p.to(v.dtype), v)
        k_ptrs += BN * stride_k
        v_ptrs += BN * stride_k
    return acc, l_i, m_i


@triton.jit
def returns_early(Q, K, V, Out, Lse, Starts, sm_scale, stride_qt, stride_kt, GROUP: tl.constexpr, H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Returns beyond the end; full blocks and masked ones, each under a condition; the log-sum-exp by head and token."""
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    batch = tl.program_id(2)
    begin = tl.load(Starts + batch)
    end = tl.load(Starts + batch + 1)
    length = end - begin
    if start_m * BM > length:
        return
    n_blocks = tl.cdiv(length, BN)
    n_blocks = min(n_blocks, tl.cdiv((start_m + 1) * BM, BN))
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    out_ptrs = Out + begin * stride_qt + head * D + offs_m[:, None] * stride_qt + offs_d[None, :]
    if n_blocks <= 0:
        tl.store(out_ptrs, tl.zeros([BM, D], dtype=Out.type.element_ty), mask=offs_m[:, None] < length)
        return
    q_ptrs = Q + begin * stride_qt + head * D + offs_m[:, None] * stride_qt + offs_d[None, :]
    k_ptrs = K + begin * stride_kt + head // GROUP * D + offs_d[:, None] + offs_n[None, :] * stride_kt
    v_ptrs = V + begin * stride_kt + head // GROUP * D + offs_n[:, None] * stride_kt + offs_d[None, :]
    m_i = tl.full([BM], float("-inf"), dtype=tl.float32)
    l_i = tl.full([BM], 1.0, dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    q = tl.load(q_ptrs, mask=offs_m[:, None] < length, other=0.0)
    masked = min(BM // BN + (1 if length % BN != 0 else 0), n_blocks)
    full = n_blocks - masked
    scale = sm_scale * 1.44269504089
    if full > 0:
        acc, l_i, m_i = some_blocks(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kt, start_m, length, 0, full * BN, scale, BM, BN, False)
    tl.debug_barrier()
    if masked > 0:
        k_ptrs += full * BN * stride_kt
        v_ptrs += full * BN * stride_kt
        acc, l_i, m_i = some_blocks(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kt, start_m, length, full * BN, n_blocks * BN, scale, BM, BN, True)
    acc = acc * (1 / l_i[:, None])
    tl.store(Lse + head * tl.load(Starts + tl.num_programs(2)) + begin + offs_m, m_i + tl.math.log2(l_i), mask=offs_m < length)
    tl.store(out_ptrs, acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < length)


@triton.jit
def chunk_of_sequence(q, k, v, o, starts, chunks, scale, T, H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """A list says which chunk of which sequence a program has; block pointers over the sequence; below the diagonal, then on it."""
    i_c, i_h = tl.program_id(0), tl.program_id(1)
    i_n, i_t = tl.load(chunks + i_c * 2).to(tl.int32), tl.load(chunks + i_c * 2 + 1).to(tl.int32)
    bos, eos = tl.load(starts + i_n).to(tl.int32), tl.load(starts + i_n + 1).to(tl.int32)
    T = eos - bos
    i_g = i_h // (H // HK)
    p_q = tl.make_block_ptr(q + (bos * H + i_h) * D, (T, D), (H * D, 1), (i_t * BM, 0), (BM, D), (1, 0))
    p_o = tl.make_block_ptr(o + (bos * H + i_h) * D, (T, D), (H * D, 1), (i_t * BM, 0), (BM, D), (1, 0))
    b_q = tl.load(p_q, boundary_check=(0, 1))
    b_o = tl.zeros([BM, D], dtype=tl.float32)
    b_m = tl.full([BM], float("-inf"), dtype=tl.float32)
    b_acc = tl.zeros([BM], dtype=tl.float32)
    o_q = i_t * BM + tl.arange(0, BM)
    for i_s in range(0, i_t * BM, BN):
        p_k = tl.make_block_ptr(k + (bos * HK + i_g) * D, (D, T), (1, HK * D), (0, i_s), (D, BN), (0, 1))
        p_v = tl.make_block_ptr(v + (bos * HK + i_g) * D, (T, D), (HK * D, 1), (i_s, 0), (BN, D), (1, 0))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        b_s = tl.dot(b_q, b_k) * scale * 1.4426950216
        b_m, b_mp = tl.maximum(b_m, tl.max(b_s, 1)), b_m
        b_r = tl.exp2(b_mp - b_m)
        b_p = tl.exp2(b_s - b_m[:, None])
        b_acc = b_acc * b_r + tl.sum(b_p, 1)
        b_o = b_o * b_r[:, None] + tl.dot(b_p.to(b_q.dtype), b_v)
    for i_s in range(i_t * BM, min((i_t + 1) * BM, T), BN):
        p_k = tl.make_block_ptr(k + (bos * HK + i_g) * D, (D, T), (1, HK * D), (0, i_s), (D, BN), (0, 1))
        p_v = tl.make_block_ptr(v + (bos * HK + i_g) * D, (T, D), (HK * D, 1), (i_s, 0), (BN, D), (1, 0))
        o_k = i_s + tl.arange(0, BN)
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        b_s = tl.dot(b_q, b_k) * scale * 1.4426950216
        b_s = tl.where((o_q[:, None] >= o_k[None, :]) & (o_k < T)[None, :], b_s, float("-inf"))
        b_m, b_mp = tl.maximum(b_m, tl.max(b_s, 1)), b_m
        b_r = tl.exp2(b_mp - b_m)
        b_p = tl.exp2(b_s - b_m[:, None])
        b_acc = b_acc * b_r + tl.sum(b_p, 1)
        b_o = b_o * b_r[:, None] + tl.dot(b_p.to(b_q.dtype), b_v)
    b_o = b_o / b_acc[:, None]
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def prefix_and_new(Q, Kn, Vn, Kc, Vc, Pages, Starts, Lens, sm_scale, Out, stride_qt, stride_kt, max_pages, GROUP: tl.constexpr, HK: tl.constexpr, PAGE: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr, D: tl.constexpr):
    """New tokens against a prefix in pages of a cache, then against each other; tl.trans of the new keys."""
    batch = tl.program_id(0)
    head = tl.program_id(1)
    start_m = tl.program_id(2)
    kv_head = head // GROUP
    total = tl.load(Lens + batch)
    begin = tl.load(Starts + batch)
    new = tl.load(Starts + batch + 1) - begin
    prefix = total - new
    if BM * start_m >= new:
        return
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    offs_m = start_m * BM + tl.arange(0, BM)
    q = tl.load(Q + (begin + offs_m[:, None]) * stride_qt + head * D + offs_d[None, :], mask=offs_m[:, None] < new, other=0.0)
    m_i = tl.full([BM], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    for start_n in range(0, prefix, BN):
        token = start_n + offs_n
        page = tl.load(Pages + batch * max_pages + token // PAGE, mask=token < prefix, other=0).to(tl.int64)
        off_k = page[None, :] * (PAGE * HK * D) + (token % PAGE)[None, :] * (HK * D) + kv_head * D + offs_d[:, None]
        off_v = page[:, None] * (PAGE * HK * D) + (token % PAGE)[:, None] * (HK * D) + kv_head * D + offs_d[None, :]
        k = tl.load(Kc + off_k, mask=token[None, :] < prefix, other=0.0)
        qk = tl.dot(q, k) * (sm_scale * 1.44269504)
        qk = tl.where(token[None, :] < prefix, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, axis=1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        acc = acc * alpha[:, None]
        v = tl.load(Vc + off_v, mask=token[:, None] < prefix, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc=acc)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        m_i = m_ij
    for start_n in range(0, min((start_m + 1) * BM, new), BN):
        token = start_n + offs_n
        k = tl.load(Kn + (begin + token[:, None]) * stride_kt + kv_head * D + offs_d[None, :], mask=token[:, None] < new, other=0.0)
        qk = tl.dot(q, tl.trans(k)) * (sm_scale * 1.44269504)
        qk = tl.where(offs_m[:, None] >= token[None, :], qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, axis=1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        acc = acc * alpha[:, None]
        v = tl.load(Vn + (begin + token[:, None]) * stride_kt + kv_head * D + offs_d[None, :], mask=token[:, None] < new, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc=acc)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(Out + (begin + offs_m[:, None]) * stride_qt + head * D + offs_d[None, :], acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < new)


@triton.jit
def extended(Q, Kn, Vn, Out, Kc, Vc, Starts, Ends, Indices, sm_scale, stride_qt, stride_kt, GROUP: tl.constexpr, HK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """The cache by an index for each token; a running maximum of finite values only; exp; the loop's pointers are computed anew."""
    seq = tl.program_id(0)
    head = tl.program_id(1)
    block_m = tl.program_id(2)
    kv_head = head // GROUP
    begin = tl.load(Starts + seq)
    new = tl.load(Starts + seq + 1) - begin
    first = tl.load(Ends + seq)
    prefix = tl.load(Ends + seq + 1) - first
    offs_d = tl.arange(0, D)
    offs_m = tl.arange(0, BM)
    mask_m = (block_m * BM + offs_m) < new
    q = tl.load(Q + (begin + block_m * BM + offs_m[:, None]) * stride_qt + head * D + offs_d[None, :], mask=mask_m[:, None], other=0.0)
    offs_n = tl.arange(0, BN)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    deno = tl.zeros([BM], dtype=tl.float32)
    e_max = tl.zeros([BM], dtype=tl.float32) - float("inf")
    for start_n in range(0, prefix, BN):
        start_n = tl.multiple_of(start_n, BN)
        mask_n = (start_n + offs_n) < prefix
        loc = tl.load(Indices + first + start_n + offs_n, mask=mask_n, other=0)
        k = tl.load(Kc + loc[None, :] * (HK * D) + kv_head * D + offs_d[:, None], mask=mask_n[None, :], other=0.0)
        qk = tl.dot(q.to(k.dtype), k)
        qk *= sm_scale
        qk = tl.where(mask_m[:, None] & mask_n[None, :], qk, float("-inf"))
        row_max = tl.max(qk, 1)
        row_max_fixed = tl.where(row_max == float("-inf"), -1e20, row_max)
        n_e_max = tl.maximum(row_max_fixed, e_max)
        re_scale = tl.exp(e_max - n_e_max)
        p = tl.exp(qk - n_e_max[:, None])
        deno = deno * re_scale + tl.sum(p, 1)
        v = tl.load(Vc + loc[:, None] * (HK * D) + kv_head * D + offs_d[None, :], mask=mask_n[:, None], other=0.0)
        p = p.to(v.dtype)
        acc = acc * re_scale[:, None] + tl.dot(p, v)
        e_max = n_e_max
    end = tl.minimum(new, (block_m + 1) * BM)
    for start_n in range(0, end, BN):
        start_n = tl.multiple_of(start_n, BN)
        mask_n = (start_n + offs_n) < end
        k = tl.load(Kn + (begin + start_n + offs_n[None, :]) * stride_kt + kv_head * D + offs_d[:, None], mask=mask_n[None, :], other=0.0)
        qk = tl.dot(q, k, out_dtype=tl.float32)
        qk *= sm_scale
        mask = (block_m * BM + offs_m[:, None]) >= (start_n + offs_n[None, :])
        mask &= mask_m[:, None] & mask_n[None, :]
        qk = tl.where(mask, qk, float("-inf"))
        row_max = tl.max(qk, 1)
        row_max_fixed = tl.where(row_max == float("-inf"), -1e20, row_max)
        n_e_max = tl.maximum(row_max_fixed, e_max)
        re_scale = tl.exp(e_max - n_e_max)
        p = tl.exp(qk - n_e_max[:, None])
        deno = deno * re_scale + tl.sum(p, 1)
        v = tl.load(Vn + (begin + start_n + offs_n[:, None]) * stride_kt + kv_head * D + offs_d[None, :], mask=mask_n[:, None], other=0.0)
        p = p.to(v.dtype)
        acc = acc * re_scale[:, None] + tl.dot(p, v)
        e_max = n_e_max
    tl.store(Out + (begin + block_m * BM + offs_m[:, None]) * stride_qt + head * D + offs_d[None, :], (acc / deno[:, None]).to(Out.dtype.element_ty), mask=mask_m[:, None])


@triton.jit
def sequence_of(Starts, target, count, BQ: tl.constexpr):
    left: tl.int32 = 0
    right = count
    while left < right:
        mid = (left + right) // 2
        if tl.load(Starts + mid) // BQ + mid <= target:
            left = mid + 1
        else:
            right = mid
    return left - 1


@triton.jit
def unified(Q, Kc, Vc, Out, Pages, Starts, Lens, sm_scale, stride_qt, max_pages, count, GROUP: tl.constexpr, HK: tl.constexpr, PAGE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            D: tl.constexpr):
    """Rows are tokens x heads of a group; a binary search finds the sequence; all keys through the pages."""
    BQ: tl.constexpr = BM // GROUP
    block = tl.program_id(0)
    kv_head = tl.program_id(1)
    seq = sequence_of(Starts, block, count, BQ)
    first_block = tl.load(Starts + seq) // BQ + seq
    local = block - first_block
    begin = tl.load(Starts + seq)
    new = tl.load(Starts + seq + 1) - begin
    if local * BQ >= new:
        return
    offs_m = tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, BN)
    position = local * BQ + offs_m // GROUP
    heads = kv_head * GROUP + offs_m % GROUP
    at = (begin + position) * stride_qt + heads * D
    mask_q = position < new
    q = tl.load(Q + at[:, None] + offs_d[None, :], mask=mask_q[:, None], other=0.0)
    M = tl.full([BM], float("-inf"), dtype=tl.float32)
    L = tl.full([BM], 1.0, dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    context = tl.load(Lens + seq) - new
    longest = context + local * BQ + (BM - 1) // GROUP + 1
    longest = tl.minimum(longest, context + new)
    tiles = (longest + BN - 1) // BN
    for j in range(0, tiles):
        token = j * BN + offs_n
        mask_n = token < longest
        page = tl.load(Pages + seq * max_pages + token // PAGE, mask=mask_n, other=0).to(tl.int64)
        k = tl.load(Kc + page[None, :] * (PAGE * HK * D) + kv_head * D + offs_d[:, None] + (token % PAGE)[None, :] * (HK * D), mask=mask_n[None, :], other=0.0)
        v = tl.load(Vc + page[:, None] * (PAGE * HK * D) + kv_head * D + offs_d[None, :] + (token % PAGE)[:, None] * (HK * D), mask=mask_n[:, None], other=0.0)
        S = tl.zeros(shape=(BM, BN), dtype=tl.float32)
        S += (sm_scale * 1.44269504) * tl.dot(q, k)
        S = tl.where(mask_q[:, None] & (token[None, :] < context + position[:, None] + 1), S, float("-inf"))
        m_j = tl.maximum(M, tl.max(S, axis=1))
        m_j = tl.where(m_j > float("-inf"), m_j, 0.0)
        P = tl.math.exp2(S - m_j[:, None])
        l_j = tl.sum(P, axis=1)
        alpha = tl.math.exp2(M - m_j)
        acc = acc * alpha[:, None]
        L = L * alpha + l_j
        M = m_j
        acc += tl.dot(P.to(v.dtype), v)
    acc = acc / L[:, None]
    tl.store(Out + at[:, None] + offs_d[None, :], acc.to(Out.dtype.element_ty), mask=mask_q[:, None])


def starts_of(counts):
    ends = [0]
    for n in counts:
        ends.append(ends[-1] + n)
    return ends


def new_tokens(s):
    return [s.N - (b * 37) % (s.N // 2) for b in range(s.B)]


def prefixes(s):
    return [s.PREFIX - (b * 53) % (s.PREFIX // 2) for b in range(s.B)]


def chunk_list(s, BM):
    return [x for b, n in enumerate(new_tokens(s)) for i in range(cdiv(n, BM)) for x in (b, i)]


def token_inputs(m, s, t):
    starts = starts_of(new_tokens(s))
    make = lambda heads: m.normal((starts[-1], heads, s.D), t)
    return dict(q=make(s.H), k=make(s.H // s.GROUP), v=make(s.H // s.GROUP), out=m.empty((starts[-1], s.H, s.D), t), lse=m.empty((s.H, starts[-1]), "fp32"), starts=m.array(starts),
                lens=m.array(new_tokens(s)), **{f"chunks{b}": m.array(chunk_list(s, b)) for b in (64, 128)})


def attended(x, s, q, k, v, prefix):
    """q: new x H x D; k, v: all tokens x heads of keys x D; the first `prefix` of them are seen by all."""
    q, k, v = (x.swapaxes(t, 0, 1) for t in (q, k, v))
    n, out = q.shape[1], []
    for h in range(s.H):
        p = scores(x, q[h], k[h // s.GROUP], s.D)
        mask = x.where(x.arange(n)[:, None] + prefix >= x.arange(n + prefix)[None, :], 0.0, -float("inf"))
        out.append(weighted(x, p + mask, v[h // s.GROUP])[0])
    return x.swapaxes(x.stack(out, axis=0), 0, 1)


def token_reference(x, a, s):
    starts = starts_of(new_tokens(s))
    return x.concatenate([attended(x, s, a.q[b:e], a.k[b:e], a.v[b:e], 0) for b, e in zip(starts, starts[1:])], axis=0)


def token_flops(s):
    return sum(2 * s.H * n * n * s.D for n in new_tokens(s))


sequences = Entry("attention of sequences", inputs=token_inputs, outputs=("out",), reference=token_reference, small=shapes("B H GROUP N D", (3, 4, 2, 90, 32)), dtypes=("bf16",), flops=token_flops,
                  shapes=shapes("B H GROUP N D", (8, 32, 4, 4096, 128), (16, 32, 8, 2048, 64)))


@sequences.spelling("no iterations beyond the end", TILES)
def _(a, s, c):
    return Launch(prompt_blocks, (s.B, s.H, cdiv(s.N, c.BM)), (a.q, a.k, a.v, s.D**-0.5, a.starts, a.lens, a.out, s.H * s.D, s.H // s.GROUP * s.D), GROUP=s.GROUP, D=s.D, **vars(c))


@sequences.spelling("returns, full and masked blocks", TILES)
def _(a, s, c):
    return Launch(returns_early, (cdiv(s.N, c.BM), s.H, s.B), (a.q, a.k, a.v, a.out, a.lse, a.starts, s.D**-0.5, s.H * s.D, s.H // s.GROUP * s.D), GROUP=s.GROUP, H=s.H, D=s.D, **vars(c))


@sequences.spelling("chunks of a list, block pointers", TILES)
def _(a, s, c):
    return Launch(chunk_of_sequence, (len(chunk_list(s, c.BM)) // 2, s.H), (a.q, a.k, a.v, a.out, a.starts, getattr(a, f"chunks{c.BM}"), s.D**-0.5, s.N), H=s.H, HK=s.H // s.GROUP, D=s.D, **vars(c))


def cache_inputs(m, s, t):
    new, old = new_tokens(s), prefixes(s)
    pages = cdiv(s.N + s.PREFIX, s.PAGE)
    made = token_inputs(m, s, t)
    cache = (s.B * pages, s.PAGE, s.H // s.GROUP, s.D)
    table = m.permutation(s.B * pages).reshape(s.B, pages)
    return dict(made, kc=m.normal(cache, t), vc=m.normal(cache, t), pages=table, totals=m.array([p + n for p, n in zip(old, new)]), ends=m.array(starts_of(old)),
                indices=m.permutation(s.B * pages * s.PAGE)[:sum(old)])


def rows_of(x, t, pages, n):
    return t[x.long(pages)].reshape(-1, *t.shape[2:])[:n]


def cache_reference(x, a, s, keys):
    """keys(x, a, s, b, begin, end): keys and values of sequence b."""
    starts = starts_of(new_tokens(s))
    return x.concatenate([attended(x, s, a.q[b:e], *keys(i, b, e), prefixes(s)[i]) for i, (b, e) in enumerate(zip(starts, starts[1:]))], axis=0)


def by_pages(x, a, s):
    return cache_reference(x, a, s, lambda i, b, e: tuple(x.concatenate([rows_of(x, c, a.pages[i], prefixes(s)[i]), t[b:e]], axis=0) for c, t in ((a.kc, a.k), (a.vc, a.v))))


def by_indices(x, a, s):
    ends = starts_of(prefixes(s))
    return cache_reference(x, a, s, lambda i, b, e: tuple(x.concatenate([c.reshape(-1, *c.shape[2:])[x.long(a.indices[ends[i]:ends[i + 1]])], t[b:e]], axis=0)
                                                          for c, t in ((a.kc, a.k), (a.vc, a.v))))


def by_cache_alone(x, a, s):
    return cache_reference(x, a, s, lambda i, b, e: tuple(rows_of(x, c, a.pages[i], prefixes(s)[i] + e - b) for c in (a.kc, a.vc)))


CACHED = dict(inputs=cache_inputs, outputs=("out",), dtypes=("bf16",), small=shapes("B H GROUP N D PREFIX PAGE", (3, 4, 2, 70, 32, 80, 16)),
              shapes=shapes("B H GROUP N D PREFIX PAGE", (8, 32, 4, 2048, 128, 4096, 16), (16, 32, 8, 1024, 64, 2048, 64)),
              flops=lambda s: sum(4 * s.H * s.D * (n * p + n * n / 2) for n, p in zip(new_tokens(s), prefixes(s))))
prefix = Entry("attention of a prefix in pages", reference=by_pages, **CACHED)
extend = Entry("attention of indexed tokens", reference=by_indices, **CACHED)
cached = Entry("attention of pages alone", reference=by_cache_alone, **CACHED)


@prefix.spelling("pages, then new tokens", TILES)
def _(a, s, c):
    return Launch(prefix_and_new, (s.B, s.H, cdiv(s.N, c.BM)), (a.q, a.k, a.v, a.kc, a.vc, a.pages, a.starts, a.totals, s.D**-0.5, a.out, s.H * s.D, s.H // s.GROUP * s.D, a.pages.shape[1]), GROUP=s.GROUP,
                  HK=s.H // s.GROUP, PAGE=s.PAGE, D=s.D, **vars(c))


@extend.spelling("indices, then new tokens", TILES)
def _(a, s, c):
    return Launch(extended, (s.B, s.H, cdiv(s.N, c.BM)), (a.q, a.k, a.v, a.out, a.kc, a.vc, a.starts, a.ends, a.indices, s.D**-0.5, s.H * s.D, s.H // s.GROUP * s.D), GROUP=s.GROUP,
                  HK=s.H // s.GROUP, D=s.D, **vars(c))


@cached.spelling("searched sequence, rows of a group", TILES)
def _(a, s, c):
    starts = starts_of(new_tokens(s))
    return Launch(unified, (starts[-1] // (c.BM // s.GROUP) + s.B, s.H // s.GROUP), (a.q, a.kc, a.vc, a.out, a.pages, a.starts, a.totals, s.D**-0.5, s.H * s.D, a.pages.shape[1], s.B), GROUP=s.GROUP,
                  HK=s.H // s.GROUP, PAGE=s.PAGE, D=s.D, **vars(c))
