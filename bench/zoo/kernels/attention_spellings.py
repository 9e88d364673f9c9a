"""Attention forward as different people spell it: what is loaded how, where the scale and the masks stand, in which order sums and accumulators are scaled."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.references import TILES, entry
from zoo.table import Launch


@triton.jit
def stage_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, STAGE: tl.constexpr, offs_m: tl.constexpr,
                offs_n: tl.constexpr, N: tl.constexpr, SPLIT: tl.constexpr):
    if STAGE == 1:
        lo, hi = 0, start_m * BM
    elif STAGE == 2:
        lo, hi = start_m * BM, (start_m + 1) * BM
        lo = tl.multiple_of(lo, BM)
    else:
        lo, hi = 0, N
    offsetk = offset_y + lo
    offsetv = offset_y + lo
    for start_n in tl.range(lo, hi, BN):
        start_n = tl.multiple_of(start_n, BN)
        k = desc_k.load([offsetk, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
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
        if SPLIT:
            rows: tl.constexpr = acc.shape[0]
            cols: tl.constexpr = acc.shape[1]
            acc0, acc1 = acc.reshape([rows, 2, cols // 2]).permute(0, 2, 1).split()
            acc0 = acc0 * alpha[:, None]
            acc1 = acc1 * alpha[:, None]
            acc = tl.join(acc0, acc1).permute(0, 2, 1).reshape([rows, cols])
        else:
            acc = acc * alpha[:, None]
        v = desc_v.load([offsetv, 0])
        p = p.to(v.dtype)
        acc = tl.dot(p, v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        offsetk += BN
        offsetv += BN
    return acc, l_i, m_i


@triton.jit
def made(x, shape, strides, block: tl.constexpr):
    if isinstance(x, tl.tensor_descriptor):
        return x
    else:
        return tl.make_tensor_descriptor(x, shape, strides, block)


@triton.jit
def stages(sm_scale, M, Z, H, desc_q, desc_k, desc_v, desc_o, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGE: tl.constexpr, SPLIT: tl.constexpr):
    """Two loops chosen by bits of STAGE; descriptors that come from the host or are made here; offsets that the loop adds to."""
    tl.static_assert(BN <= D)
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    y_dim = Z * H * N
    desc_q = made(desc_q, [y_dim, D], [D, 1], [BM, D])
    desc_v = made(desc_v, [y_dim, D], [D, 1], [BN, D])
    desc_k = made(desc_k, [y_dim, D], [D, 1], [BN, D])
    desc_o = made(desc_o, [y_dim, D], [D, 1], [BM, D])
    offset_y = off_z * (N * H) + off_h * N
    qo_offset_y = offset_y + start_m * BM
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = desc_q.load([qo_offset_y, 0])
    if STAGE & 1:
        acc, l_i, m_i = stage_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, BM, BN, D, 4 - STAGE, offs_m, offs_n, N, SPLIT)
    if STAGE & 2:
        acc, l_i, m_i = stage_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale, BM, BN, D, 2, offs_m, offs_n, N, SPLIT)
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_hz * N + offs_m, m_i)
    desc_o.store([qo_offset_y, 0], acc.to(tl.bfloat16 if desc_o.dtype == tl.bfloat16 else tl.float16))


@triton.jit
def lse_of_blocks(Q, K, V, Bias, Out, Lse, softmax_scale, stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_bm, stride_oh, stride_om, seqlen_q, seqlen_k,
                  BIAS_TYPE: tl.constexpr, CAUSAL: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_D: tl.constexpr, headdim: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr,
                  BN: tl.constexpr):
    """Keeps log-sum-exp in place of the sum; a bias of rows or of the matrix; every access in an even and an uneven form; the dot added to zeros."""
    start_m = tl.program_id(0)
    off_h = tl.program_id(1)
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, BD)
    q_ptrs = Q + off_h * stride_qh + (offs_m[:, None] * stride_qm + offs_d[None, :])
    k_ptrs = K + off_h * stride_kh + (offs_n[:, None] * stride_kn + offs_d[None, :])
    v_ptrs = V + off_h * stride_vh + (offs_n[:, None] * stride_vn + offs_d[None, :])
    if BIAS_TYPE == "vector":
        b_ptrs = Bias + offs_n
    elif BIAS_TYPE == "matrix":
        b_ptrs = Bias + (offs_m[:, None] * stride_bm + offs_n[None, :])
    lse_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    acc_o = tl.zeros([BM, BD], dtype=tl.float32)
    if EVEN_M & EVEN_N:
        if EVEN_D:
            q = tl.load(q_ptrs)
        else:
            q = tl.load(q_ptrs, mask=offs_d[None, :] < headdim, other=0.0)
    else:
        if EVEN_D:
            q = tl.load(q_ptrs, mask=offs_m[:, None] < seqlen_q, other=0.0)
        else:
            q = tl.load(q_ptrs, mask=(offs_m[:, None] < seqlen_q) & (offs_d[None, :] < headdim), other=0.0)
    end_n = seqlen_k if not CAUSAL else tl.minimum((start_m + 1) * BM, seqlen_k)
    for start_n in range(0, end_n, BN):
        start_n = tl.multiple_of(start_n, BN)
        if EVEN_N & EVEN_M:
            if EVEN_D:
                k = tl.load(k_ptrs + start_n * stride_kn)
            else:
                k = tl.load(k_ptrs + start_n * stride_kn, mask=offs_d[None, :] < headdim, other=0.0)
        else:
            if EVEN_D:
                k = tl.load(k_ptrs + start_n * stride_kn, mask=(start_n + offs_n)[:, None] < seqlen_k, other=0.0)
            else:
                k = tl.load(k_ptrs + start_n * stride_kn, mask=((start_n + offs_n)[:, None] < seqlen_k) & (offs_d[None, :] < headdim), other=0.0)
        qk = tl.zeros([BM, BN], dtype=tl.float32)
        qk += tl.dot(q, tl.trans(k))
        if not EVEN_N:
            qk += tl.where((start_n + offs_n)[None, :] < seqlen_k, 0, float("-inf"))
        if CAUSAL:
            qk += tl.where(offs_m[:, None] >= (start_n + offs_n)[None, :], 0, float("-inf"))
        if BIAS_TYPE != "none":
            if BIAS_TYPE == "vector":
                if EVEN_N:
                    bias = tl.load(b_ptrs + start_n).to(tl.float32)
                else:
                    bias = tl.load(b_ptrs + start_n, mask=(start_n + offs_n) < seqlen_k, other=0.0).to(tl.float32)
                bias = bias[None, :]
            elif BIAS_TYPE == "matrix":
                if EVEN_M & EVEN_N:
                    bias = tl.load(b_ptrs + start_n).to(tl.float32)
                else:
                    bias = tl.load(b_ptrs + start_n, mask=(offs_m[:, None] < seqlen_q) & ((start_n + offs_n)[None, :] < seqlen_k), other=0.0).to(tl.float32)
            qk = qk * softmax_scale + bias
            m_ij = tl.maximum(tl.max(qk, 1), lse_i)
            p = tl.exp(qk - m_ij[:, None])
        else:
            m_ij = tl.maximum(tl.max(qk, 1) * softmax_scale, lse_i)
            p = tl.exp(qk * softmax_scale - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        acc_o_scale = tl.exp(m_i - m_ij)
        acc_o = acc_o * acc_o_scale[:, None]
        if EVEN_N & EVEN_M:
            if EVEN_D:
                v = tl.load(v_ptrs + start_n * stride_vn)
            else:
                v = tl.load(v_ptrs + start_n * stride_vn, mask=offs_d[None, :] < headdim, other=0.0)
        else:
            if EVEN_D:
                v = tl.load(v_ptrs + start_n * stride_vn, mask=(start_n + offs_n)[:, None] < seqlen_k, other=0.0)
            else:
                v = tl.load(v_ptrs + start_n * stride_vn, mask=((start_n + offs_n)[:, None] < seqlen_k) & (offs_d[None, :] < headdim), other=0.0)
        p = p.to(v.dtype)
        acc_o += tl.dot(p, v)
        m_i = m_ij
        l_i_new = tl.exp(lse_i - m_ij) + l_ij
        lse_i = m_ij + tl.log(l_i_new)
    o_scale = tl.exp(m_i - lse_i)
    acc_o = acc_o * o_scale[:, None]
    offs_m = start_m * BM + tl.arange(0, BM)
    tl.store(Lse + off_h * seqlen_q + offs_m, lse_i * 1.44269504, mask=offs_m < seqlen_q)
    out_ptrs = Out + off_h * stride_oh + (offs_m[:, None] * stride_om + offs_d[None, :])
    if EVEN_D:
        tl.store(out_ptrs, acc_o, mask=offs_m[:, None] < seqlen_q)
    else:
        tl.store(out_ptrs, acc_o, mask=(offs_m[:, None] < seqlen_q) & (offs_d[None, :] < headdim))


@triton.jit
def advanced(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Pointers that the loop advances; K as rows, transposed for the dot; the scale behind it; exp; scaled accumulators given to the dot."""
    pid = tl.program_id(0)
    head = tl.program_id(1)
    rows = pid * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(Q + head * stride_h + rows[:, None] * stride_n + d[None, :], mask=rows[:, None] < N, other=0.0)
    k_ptr = K + head * stride_h + cols[:, None] * stride_n + d[None, :]
    v_ptr = V + head * stride_h + cols[:, None] * stride_n + d[None, :]
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    end = N
    if CAUSAL:
        end = tl.minimum(N, (pid + 1) * BM)
    for start in range(0, end, BN):
        k = tl.load(k_ptr, mask=(start + cols)[:, None] < N, other=0.0)
        v = tl.load(v_ptr, mask=(start + cols)[:, None] < N, other=0.0)
        s = tl.dot(q, tl.trans(k))
        s *= sm_scale
        valid = (start + cols)[None, :] < N
        if CAUSAL:
            valid = valid & (rows[:, None] >= (start + cols)[None, :])
        s = tl.where(valid, s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new_top[:, None])
        scale = tl.exp(top - new_top)
        total = total * scale + tl.sum(p, axis=1)
        o = tl.dot(p.to(v.dtype), v, acc=o * scale[:, None])
        top = new_top
        k_ptr += BN * stride_n
        v_ptr += BN * stride_n
    o /= total[:, None]
    tl.store(Lse + head * N + rows, (top + tl.log(total)) * 1.44269504, mask=rows < N)
    tl.store(Out + head * stride_h + rows[:, None] * stride_n + d[None, :], o.to(Out.dtype.element_ty), mask=rows[:, None] < N)


@triton.jit
def normalised(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Accumulators divided in every iteration, as the first version of the algorithm does; K read transposed."""
    pid = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = pid * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    off_k = head * stride_h + offs_n[None, :] * stride_n + offs_d[:, None]
    off_v = head * stride_h + offs_n[:, None] * stride_n + offs_d[None, :]
    k_ptrs = K + off_k
    v_ptrs = V + off_v
    m_prev = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_prev = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    q = tl.load(Q + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :])
    for start_n in range(0, (pid + 1) * BM if CAUSAL else N, BN):
        k = tl.load(k_ptrs)
        qk = tl.zeros([BM, BN], dtype=tl.float32)
        qk += tl.dot(q, k)
        qk *= sm_scale
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, float("-inf"))
        m_curr = tl.maximum(tl.max(qk, 1), m_prev)
        l_prev *= tl.exp(m_prev - m_curr)
        p = tl.exp(qk - m_curr[:, None])
        l_curr = tl.sum(p, 1) + l_prev
        l_rcp = 1. / l_curr
        p *= l_rcp[:, None]
        acc *= (l_prev * l_rcp)[:, None]
        p = p.to(Q.dtype.element_ty)
        v = tl.load(v_ptrs)
        acc += tl.dot(p, v)
        l_prev = l_curr
        m_prev = m_curr
        k_ptrs += BN * stride_n
        v_ptrs += BN * stride_n
    tl.store(Lse + head * N + offs_m, (m_prev + tl.log(l_prev)) * 1.44269504)
    tl.store(Out + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], acc.to(Out.dtype.element_ty))


@triton.jit
def steps(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_n, start_m, N, lo, hi, qk_scale, OFFS_M: tl.constexpr, OFFS_N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
          MASK_STEPS: tl.constexpr):
    for start_n in range(lo, hi, BN):
        if MASK_STEPS:
            k = tl.load(k_ptrs, mask=(start_n + OFFS_N)[None, :] < N, other=0.0)
        else:
            k = tl.load(k_ptrs)
        qk = tl.zeros([BM, BN], dtype=tl.float32)
        if MASK_STEPS:
            size_n = start_n + OFFS_N[None, :]
            mask = size_n < N
            qk = tl.where(mask, qk, float("-inf"))
        if CAUSAL:
            qk = tl.where(OFFS_M[:, None] >= (start_n + OFFS_N)[None, :], qk, float("-inf"))
        qk += tl.dot(q, k)
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        acc = acc * alpha[:, None]
        if MASK_STEPS:
            v = tl.load(v_ptrs, mask=(start_n + OFFS_N)[:, None] < N, other=0.0)
        else:
            v = tl.load(v_ptrs)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        acc += tl.dot(p.to(v.dtype), v)
        k_ptrs += BN * stride_n
        v_ptrs += BN * stride_n
    return acc, l_i, m_i


@triton.jit
def full_and_masked(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Full blocks, then those with masks; the scores' accumulator starts as the mask."""
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    n_blocks = tl.cdiv(N, BN)
    if CAUSAL:
        n_blocks = min(n_blocks, tl.cdiv((start_m + 1) * BM, BN))
    n_extra = N % BN
    if CAUSAL:
        masked = BM // BN + (1 if n_extra != 0 else 0)
    else:
        masked = 1 if n_extra != 0 else 0
    masked = min(masked, n_blocks)
    full = n_blocks - masked
    k_ptrs = K + head * stride_h + offs_d[:, None] + offs_n[None, :] * stride_n
    v_ptrs = V + head * stride_h + offs_n[:, None] * stride_n + offs_d[None, :]
    q = tl.load(Q + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], mask=offs_m[:, None] < N, other=0.0)
    m_i = tl.full([BM], float("-inf"), dtype=tl.float32)
    l_i = tl.full([BM], 1.0, dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    if full > 0:
        acc, l_i, m_i = steps(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_n, start_m, N, 0, full * BN, qk_scale, offs_m, offs_n, BM, BN, False, False)
    tl.debug_barrier()
    if masked > 0:
        k_ptrs += full * BN * stride_n
        v_ptrs += full * BN * stride_n
        acc, l_i, m_i = steps(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_n, start_m, N, full * BN, n_blocks * BN, qk_scale, offs_m, offs_n, BM, BN, CAUSAL, True)
    acc = acc * (1 / l_i)[:, None]
    tl.store(Lse + head * N + offs_m, m_i + tl.math.log2(l_i), mask=offs_m < N)
    tl.store(Out + head * stride_h + offs_m[:, None] * stride_n + offs_d[None, :], acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < N)


@triton.jit
def scaled_queries(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """A counter of blocks; a block of scores is masked only if it has to be; the sum is kept before the maximum is subtracted; a guard for empty rows."""
    tile_m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    q_idx = tile_m * BM + tl.arange(0, BM)
    dims = tl.arange(0, D)
    q = tl.load(Q + head * stride_h + q_idx[:, None] * stride_n + dims[None, :])
    q = (q.to(tl.float32) * (sm_scale * 1.4426950408889634)).to(Q.dtype.element_ty)
    running_max = tl.full([BM], value=float("-inf"), dtype=tl.float32)
    running_sum = tl.zeros([BM], dtype=tl.float32)
    output = tl.zeros([BM, D], dtype=tl.float32)
    blocks = tl.cdiv((tile_m + 1) * BM, BN) if CAUSAL else tl.cdiv(N, BN)
    for block in range(0, blocks):
        kv_idx = block * BN + tl.arange(0, BN)
        k = tl.load(K + head * stride_h + kv_idx[:, None] * stride_n + dims[None, :])
        v = tl.load(V + head * stride_h + kv_idx[:, None] * stride_n + dims[None, :])
        logits = tl.dot(q, k.T, input_precision="tf32")
        if CAUSAL:
            if block * BN + BN > tile_m * BM:
                logits = tl.where(q_idx[:, None] >= kv_idx[None, :], logits, float("-inf"))
        block_max = tl.max(logits, 1)
        new_max = tl.maximum(running_max, block_max)
        safe = tl.where(new_max == float("-inf"), 0.0, new_max)
        correction = tl.math.exp2(running_max - safe)
        weights = tl.math.exp2(logits - safe[:, None])
        running_sum = running_sum * correction + tl.sum(weights, 1)
        output = output * correction[:, None] + tl.dot(weights.to(V.dtype.element_ty), v)
        running_max = new_max
    output = output / tl.where(running_sum == 0.0, 1.0, running_sum)[:, None]
    tl.store(Lse + head * N + q_idx, running_max + tl.math.log2(running_sum))
    tl.store(Out + head * stride_h + q_idx[:, None] * stride_n + dims[None, :], output.to(Out.dtype.element_ty))


plain = entry("attention spelled", False)
causal = entry("attention spelled causal", True)


def flat(t, s, rows):
    return TensorDescriptor(t.reshape(s.H * s.N, s.D), [s.H * s.N, s.D], [s.D, 1], [rows, s.D])


for e, is_causal in (plain, False), (causal, True):
    def add(e=e, is_causal=is_causal):
        whole = lambda s, c: not is_causal or c.BM % c.BN == 0
        stage = 3 if is_causal else 1

        def staged(a, s, c, split, host):
            arrays = [flat(t, s, rows) if host else t for t, rows in ((a.q, c.BM), (a.k, c.BN), (a.v, c.BN), (a.out, c.BM))]
            return Launch(stages, (s.N // c.BM, s.H), (s.D**-0.5, a.lse, 1, s.H, *arrays, s.N), D=s.D, STAGE=stage, SPLIT=split, **vars(c))
        fits = lambda s, c: whole(s, c) and c.BN <= s.D
        e.spelling("stages, host descriptors", TILES, fits)(lambda a, s, c: staged(a, s, c, False, True))
        e.spelling("stages, descriptors in the kernel", TILES, fits)(lambda a, s, c: staged(a, s, c, False, False))
        e.spelling("stages, accumulators in halves", TILES, fits)(lambda a, s, c: staged(a, s, c, True, True))

        def by_pointers(kernel):
            return lambda a, s, c: Launch(kernel, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, s.N * s.D, s.D, s.N), D=s.D, CAUSAL=is_causal, **vars(c))
        for text, kernel in (("pointers advanced, exp", advanced), ("normalised in the loop", normalised), ("full blocks and masked ones", full_and_masked),
                             ("queries scaled, masks in a branch", scaled_queries)):
            e.spelling(text, TILES, whole)(by_pointers(kernel))

        def blocks(a, s, c, even):
            return Launch(lse_of_blocks, (s.N // c.BM, s.H), (a.q, a.k, a.v, None, a.out, a.lse, s.D**-0.5, s.N * s.D, s.D, s.N * s.D, s.D, s.N * s.D, s.D, 0, s.N * s.D, s.D, s.N, s.N),
                          BIAS_TYPE="none", CAUSAL=is_causal, EVEN_M=even, EVEN_N=even, EVEN_D=True, headdim=s.D, BD=s.D, **vars(c))
        e.spelling("log-sum-exp in the loop, even", TILES)(lambda a, s, c: blocks(a, s, c, True))
        e.spelling("log-sum-exp in the loop, uneven", TILES)(lambda a, s, c: blocks(a, s, c, False))
    add()
