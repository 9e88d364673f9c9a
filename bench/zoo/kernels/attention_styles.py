"""Attention forward in more styles: orders of statements, places of scales and masks, grids, offsets in 64 bits."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.references import TILES, entry
from zoo.table import Launch, shapes


@triton.jit
def head_first(Q, K, V, Out, Lse, sm_scale, sqz, sqh, sqm, skz, skh, skn, svz, svh, svn, soz, soh, som, H, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, STAGES: tl.constexpr):
    """Heads in axis 0, 64-bit offsets of a batch and a head, stages on the loop, exp, the mask by where behind the scale."""
    off_hz = tl.program_id(0)
    start_m = tl.program_id(1)
    z = off_hz // H
    h = off_hz % H
    q_off = z.to(tl.int64) * sqz + h.to(tl.int64) * sqh
    k_off = z.to(tl.int64) * skz + h.to(tl.int64) * skh
    v_off = z.to(tl.int64) * svz + h.to(tl.int64) * svh
    offs_m = start_m * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, BN)
    q = tl.load(Q + q_off + offs_m[:, None] * sqm + offs_d[None, :])
    m_i = tl.full([BM], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    hi = N
    if CAUSAL:
        hi = (start_m + 1) * BM
    for start_n in tl.range(0, hi, BN, num_stages=STAGES):
        cols = start_n + offs_n
        k = tl.load(K + k_off + cols[None, :] * skn + offs_d[:, None])
        qk = tl.dot(q, k) * sm_scale
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= cols[None, :], qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(qk - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + v_off + cols[:, None] * svn + offs_d[None, :])
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
    acc = acc / l_i[:, None]
    tl.store(Lse + off_hz * N + offs_m, (m_i + tl.log(l_i)) * 1.44269504)
    tl.store(Out + z.to(tl.int64) * soz + h.to(tl.int64) * soh + offs_m[:, None] * som + offs_d[None, :], acc.to(Out.dtype.element_ty))


@triton.jit
def loop(acc, l_i, m_i, q, kd, vd, row, lo, hi, offs_m, BN: tl.constexpr, MASK: tl.constexpr):
    """Queries carry the scale; raw maxima."""
    for n in range(lo, hi, BN):
        k = kd.load([row + n, 0])
        v = vd.load([row + n, 0])
        s = tl.dot(q, k.T)
        if MASK:
            s = tl.where(offs_m[:, None] >= (n + tl.arange(0, BN))[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        m_i = m_new
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(q.dtype), v, acc)
    return acc, l_i, m_i


@triton.jit
def long_first(qd, kd, vd, od, Lse, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """A grid of one axis, the longest tiles first, scaled queries, both loads at the top; full blocks and then the diagonal."""
    blocks = N // BM
    head = tl.program_id(0) // blocks
    m = tl.program_id(0) % blocks
    if CAUSAL:
        m = blocks - 1 - m
    row = head * N
    offs_m = m * BM + tl.arange(0, BM)
    q = qd.load([row + m * BM, 0])
    q = (q * (sm_scale * 1.44269504)).to(q.dtype)
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    if CAUSAL:
        acc, l_i, m_i = loop(acc, l_i, m_i, q, kd, vd, row, 0, m * BM, offs_m, BN, False)
        acc, l_i, m_i = loop(acc, l_i, m_i, q, kd, vd, row, m * BM, m * BM + BM, offs_m, BN, True)
    else:
        acc, l_i, m_i = loop(acc, l_i, m_i, q, kd, vd, row, 0, N, offs_m, BN, False)
    od.store([row + m * BM, 0], (acc / l_i[:, None]).to(od.dtype))
    tl.store(Lse + row + offs_m, m_i + tl.log2(l_i))


@triton.jit
def diagonal_first(qd, kd, vd, od, Lse, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """From the last block of keys down, so blocks with a mask come first; differences of raw scores are scaled."""
    m = tl.program_id(0)
    head = tl.program_id(1)
    row = head * N
    offs_m = m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    q = qd.load([row + m * BM, 0])
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale = sm_scale * 1.44269504
    last = tl.cdiv(m * BM + BM, BN) if CAUSAL else tl.cdiv(N, BN)
    full = m * BM // BN if CAUSAL else tl.cdiv(N, BN)
    for i in range(0, last - full):
        n = (last - 1 - i) * BN
        k = kd.load([row + n, 0])
        s = tl.dot(q, tl.trans(k))
        s += tl.where(offs_m[:, None] >= (n + offs_n)[None, :], 0.0, -1.0e30)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp2((m_i - m_new) * scale)
        p = tl.exp2((s - m_new[:, None]) * scale)
        acc *= alpha[:, None]
        v = vd.load([row + n, 0])
        acc += tl.dot(p.to(v.dtype), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    for j in range(0, full):
        n = (full - 1 - j) * BN
        k = kd.load([row + n, 0])
        s = tl.dot(q, tl.trans(k))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp2((m_i - m_new) * scale)
        p = tl.exp2((s - m_new[:, None]) * scale)
        acc *= alpha[:, None]
        v = vd.load([row + n, 0])
        acc += tl.dot(p.to(v.dtype), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    od.store([row + m * BM, 0], (acc * (1.0 / l_i)[:, None]).to(od.dtype))
    tl.store(Lse + row + offs_m, m_i * scale + tl.log2(l_i))


@triton.jit
def block_pointers_checked(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Block pointers with checked rows, 16-bit sums of weights, accumulators scaled in front of the maximum's update; heads in axis 2."""
    m = tl.program_id(0)
    head = tl.program_id(2)
    base = head.to(tl.int64) * stride_h
    qp = tl.make_block_ptr(Q + base, shape=(N, D), strides=(stride_n, 1), offsets=(m * BM, 0), block_shape=(BM, D), order=(1, 0))
    kp = tl.make_block_ptr(K + base, shape=(D, N), strides=(1, stride_n), offsets=(0, 0), block_shape=(D, BN), order=(0, 1))
    vp = tl.make_block_ptr(V + base, shape=(N, D), strides=(stride_n, 1), offsets=(0, 0), block_shape=(BN, D), order=(1, 0))
    op = tl.make_block_ptr(Out + base, shape=(N, D), strides=(stride_n, 1), offsets=(m * BM, 0), block_shape=(BM, D), order=(1, 0))
    offs_m = m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    m_i = tl.zeros((BM,), tl.float32) - float("inf")
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    scale = sm_scale * 1.44269504
    q = tl.load(qp, boundary_check=(0,), padding_option="zero")
    end = tl.minimum((m + 1) * BM, N) if CAUSAL else N
    for n in range(0, end, BN):
        k = tl.load(kp, boundary_check=(1,), padding_option="zero")
        s = tl.zeros((BM, BN), tl.float32)
        s = tl.dot(q, k, s) * scale
        if CAUSAL:
            s = tl.where(offs_m[:, None] >= n + offs_n[None, :], s, -1.0e6)
        m_j = tl.max(s, 1)
        m_new = tl.maximum(m_i, m_j)
        alpha = tl.math.exp2(m_i - m_new)
        acc = acc * alpha[:, None]
        p = tl.math.exp2(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
        v = tl.load(vp, boundary_check=(0,), padding_option="zero")
        acc += tl.dot(p.to(V.type.element_ty), v, out_dtype=tl.float32)
        kp = tl.advance(kp, (0, BN))
        vp = tl.advance(vp, (BN, 0))
    acc = acc / l_i[:, None]
    tl.store(Lse + head * N + offs_m, m_i + tl.math.log2(l_i), mask=offs_m < N)
    tl.store(op, acc.to(Out.type.element_ty), boundary_check=(0,))


@triton.jit
def four_axes(qd, kd, vd, od, Lse, sm_scale, H, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Descriptors of four axes; blocks of keys counted; one loop whose mask is added in each iteration."""
    m = tl.program_id(0)
    h = tl.program_id(1)
    z = tl.program_id(2)
    q = qd.load([z, h, m * BM, 0]).reshape([BM, D])
    offs_m = m * BM + tl.arange(0, BM)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.full([BM], 1.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale = sm_scale * 1.44269504
    for j in tl.range(0, tl.cdiv((m + 1) * BM, BN) if CAUSAL else N // BN):
        k = kd.load([z, h, j * BN, 0]).reshape([BN, D])
        s = tl.dot(q, k.T) * scale
        if CAUSAL:
            s += tl.where(offs_m[:, None] >= j * BN + tl.arange(0, BN)[None, :], 0, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.math.exp2(m_i - m_new)
        s -= m_new[:, None]
        p = tl.math.exp2(s)
        l_new = tl.sum(p, 1)
        acc = tl.dot(p.to(qd.dtype), vd.load([z, h, j * BN, 0]).reshape([BN, D]), acc * alpha[:, None])
        l_i = tl.fma(l_i, alpha, l_new)
        m_i = m_new
    m_i += tl.math.log2(l_i)
    tl.store(Lse + (z * H + h) * N + offs_m, m_i)
    od.store([z, h, m * BM, 0], (acc / l_i[:, None]).to(od.dtype).reshape([1, 1, BM, D]))


@triton.jit
def own_descriptors(Q, K, V, Out, Lse, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Descriptors of one head each, made in the kernel from 64-bit bases; two loops written out."""
    m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    qd = tl.make_tensor_descriptor(Q + head * stride_h, shape=[N, D], strides=[stride_n, 1], block_shape=[BM, D])
    kd = tl.make_tensor_descriptor(K + head * stride_h, shape=[N, D], strides=[stride_n, 1], block_shape=[BN, D])
    vd = tl.make_tensor_descriptor(V + head * stride_h, shape=[N, D], strides=[stride_n, 1], block_shape=[BN, D])
    od = tl.make_tensor_descriptor(Out + head * stride_h, shape=[N, D], strides=[stride_n, 1], block_shape=[BM, D])
    offs_m = m * BM + tl.arange(0, BM)
    q = qd.load([m * BM, 0])
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale = sm_scale * 1.44269504
    full = m * BM if CAUSAL else N
    for n in tl.range(0, full, BN):
        s = tl.dot(q, kd.load([n, 0]).T)
        m_new = tl.maximum(m_i, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(Q.dtype.element_ty), vd.load([n, 0]), acc * alpha[:, None])
        m_i = m_new
    if CAUSAL:
        for n in tl.range(full, full + BM, BN):
            s = tl.dot(q, kd.load([n, 0]).T)
            s = tl.where(offs_m[:, None] >= (n + tl.arange(0, BN))[None, :], s * scale, float("-inf"))
            m_new = tl.maximum(m_i, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(m_i - m_new)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = tl.dot(p.to(Q.dtype.element_ty), vd.load([n, 0]), acc * alpha[:, None])
            m_i = m_new
    tl.store(Lse + head * N + offs_m, m_i + tl.log2(l_i))
    od.store([m * BM, 0], (acc / l_i[:, None]).to(Q.dtype.element_ty))


@triton.jit
def turned(qd, kd, vd, od, Lse, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Scores of keys by queries, reduced along axis 0; the output turned at the end."""
    m = tl.program_id(0)
    row = tl.program_id(1) * N
    offs_m = m * BM + tl.arange(0, BM)
    q = qd.load([row + m * BM, 0])
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([D, BM], tl.float32)
    scale = sm_scale * 1.44269504
    for n in range(0, (m + 1) * BM if CAUSAL else N, BN):
        k = kd.load([row + n, 0])
        s = tl.dot(k, q.T) * scale
        if CAUSAL:
            s = tl.where(offs_m[None, :] >= (n + tl.arange(0, BN))[:, None], s, -1.0e6)
        m_new = tl.maximum(m_i, tl.max(s, 0))
        p = tl.exp2(s - m_new[None, :])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 0)
        v = vd.load([row + n, 0])
        acc = acc * alpha[None, :]
        acc = tl.dot(v.T, p.to(v.dtype), acc)
        m_i = m_new
    tl.store(Lse + row + offs_m, m_i + tl.log2(l_i))
    od.store([row + m * BM, 0], tl.trans(acc / l_i[None, :]).to(od.dtype))


@triton.jit
def tiles_in_turn(qd, kd, vd, od, Lse, sm_scale, H, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Programs as many as the machine holds go over tiles; the inner function of the tutorial."""
    blocks = N // BM
    for tile in tl.range(tl.program_id(0), blocks * H, tl.num_programs(0)):
        head = tile // blocks
        m = blocks - 1 - tile % blocks if CAUSAL else tile % blocks
        row = head * N
        offs_m = m * BM + tl.arange(0, BM)
        q = qd.load([row + m * BM, 0])
        q = (q.to(tl.float32) * (sm_scale * 1.44269504)).to(q.dtype)
        m_i = tl.full([BM], -float("inf"), tl.float32)
        l_i = tl.full([BM], 0.0, tl.float32)
        acc = tl.zeros([BM, D], tl.float32)
        acc, l_i, m_i = loop(acc, l_i, m_i, q, kd, vd, row, 0, m * BM if CAUSAL else N, offs_m, BN, False)
        if CAUSAL:
            acc, l_i, m_i = loop(acc, l_i, m_i, q, kd, vd, row, m * BM, m * BM + BM, offs_m, BN, True)
        od.store([row + m * BM, 0], (acc / l_i[:, None]).to(od.dtype))
        tl.store(Lse + row + offs_m, m_i + tl.log2(l_i))


@triton.jit
def pointers_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, lo, hi, offs_m, offs_n, scale, N, BN: tl.constexpr, STAGE: tl.constexpr):
    k_ptrs += lo * stride_kn
    v_ptrs += lo * stride_vn
    for n in range(lo, hi, BN):
        n = tl.multiple_of(n, BN)
        v = tl.load(v_ptrs)
        k = tl.load(k_ptrs)
        s = tl.dot(q, tl.trans(k)) * scale
        if STAGE == 2:
            s = s + tl.where(offs_m[:, None] < n + offs_n[None, :], -1.0e6, 0.0)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        s = s - m_new[:, None]
        p = tl.exp2(s)
        l_new = tl.sum(p, 1)
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + l_new
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_new
        k_ptrs += BN * stride_kn
        v_ptrs += BN * stride_vn
    return acc, l_i, m_i


@triton.jit
def pointers_by_stage(Q, K, V, Out, Lse, sm_scale, stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn, stride_vz, stride_vh, stride_vn, stride_oz, stride_oh, stride_om,
                      H, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, STAGE: tl.constexpr):
    """Pointers with all strides, an inner function by stage, keys by rows, both loads at the top."""
    m = tl.program_id(0)
    z = tl.program_id(1) // H
    h = tl.program_id(1) % H
    offs_m = m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    q = tl.load(Q + z * stride_qz + h * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :])
    k_ptrs = K + z * stride_kz + h * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = V + z * stride_vz + h * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale = sm_scale * 1.44269504
    if STAGE & 1:
        acc, l_i, m_i = pointers_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, 0, N if STAGE == 1 else m * BM, offs_m, offs_n, scale, N, BN, 1)
    if STAGE & 2:
        acc, l_i, m_i = pointers_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, m * BM, (m + 1) * BM, offs_m, offs_n, scale, N, BN, 2)
    acc = acc / l_i[:, None]
    tl.store(Lse + (z * H + h) * N + offs_m, m_i + tl.log2(l_i))
    tl.store(Out + z * stride_oz + h * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :], acc.to(Out.dtype.element_ty))


plain = entry("attention in styles", False, shapes=shapes("H N D", (64, 4096, 128)))
causal = entry("attention in styles, causal", True, shapes=shapes("H N D", (64, 4096, 128), (128, 1024, 128)))


def flat(t, s, rows):
    return TensorDescriptor(t.reshape(s.H * s.N, s.D), [s.H * s.N, s.D], [s.D, 1], [rows, s.D])


def described(t, s, rows):
    return TensorDescriptor(t[None], [1, s.H, s.N, s.D], [s.H * s.N * s.D, s.N * s.D, s.D, 1], [1, 1, rows, s.D])


for e, is_causal in (plain, False), (causal, True):
    def add(e=e, is_causal=is_causal):
        whole = lambda s, c: not is_causal or c.BM % c.BN == 0
        four = lambda s: (s.H * s.N * s.D, s.N * s.D, s.D)
        e.spelling("heads first, exp, stages of the loop", TILES)(lambda a, s, c: Launch(head_first, (s.H, s.N // c.BM), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, *four(s) * 4, s.H, s.N), D=s.D, CAUSAL=is_causal, STAGES=c.num_stages,
                                                                                         BM=c.BM, BN=c.BN, num_warps=c.num_warps))
        e.spelling("pointers by stage", TILES, whole)(lambda a, s, c: Launch(pointers_by_stage, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, *four(s) * 4, s.H, s.N), D=s.D, STAGE=3 if is_causal else 1, **vars(c)))
        four_descs = lambda a, s, c, f: (f(a.q, s, c.BM), f(a.k, s, c.BN), f(a.v, s, c.BN), f(a.out, s, c.BM), a.lse, s.D**-0.5)
        e.spelling("long tiles first", TILES, whole)(lambda a, s, c: Launch(long_first, (s.N // c.BM * s.H,), (*four_descs(a, s, c, flat), s.N), D=s.D, CAUSAL=is_causal, **vars(c)))
        e.spelling("diagonal first", TILES, whole)(lambda a, s, c: Launch(diagonal_first, (s.N // c.BM, s.H), (*four_descs(a, s, c, flat), s.N), D=s.D, CAUSAL=is_causal, **vars(c)))
        e.spelling("turned", TILES)(lambda a, s, c: Launch(turned, (s.N // c.BM, s.H), (*four_descs(a, s, c, flat), s.N), D=s.D, CAUSAL=is_causal, **vars(c)))
        e.spelling("four axes, blocks counted", TILES)(lambda a, s, c: Launch(four_axes, (s.N // c.BM, s.H, 1), (*four_descs(a, s, c, described), s.H, s.N), D=s.D, CAUSAL=is_causal, **vars(c)))
        e.spelling("tiles in turn", TILES, whole)(lambda a, s, c: Launch(tiles_in_turn, (min(132, s.N // c.BM * s.H),), (*four_descs(a, s, c, flat), s.H, s.N), D=s.D, CAUSAL=is_causal, **vars(c)))
        plainly = lambda a, s: (a.q, a.k, a.v, a.out, a.lse, s.D**-0.5, s.N * s.D, s.D, s.N)
        e.spelling("block pointers, checked", TILES)(lambda a, s, c: Launch(block_pointers_checked, (s.N // c.BM, 1, s.H), plainly(a, s), D=s.D, CAUSAL=is_causal, **vars(c)))
        e.spelling("descriptors of a head", TILES, whole)(lambda a, s, c: Launch(own_descriptors, (s.N // c.BM, s.H), plainly(a, s), D=s.D, CAUSAL=is_causal, **vars(c)))
    add()
