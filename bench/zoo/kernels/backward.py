"""Attention backward: delta, then dq by rows of queries and dk, dv by rows of keys; in one kernel and in two."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, configs, shapes


@triton.jit
def delta_kernel(O, DO, Delta, N, BM: tl.constexpr, D: tl.constexpr):
    off_m = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    off_d = tl.arange(0, D)
    at = head.to(tl.int64) * N * D + off_m[:, None] * D + off_d[None, :]
    o = tl.load(O + at)
    do = tl.load(DO + at).to(tl.float32)
    tl.store(Delta + head * N + off_m, tl.sum(o * do, axis=1))


@triton.jit
def key_side(dk, dv, Q, k, v, DO, M, Delta, offs_n, start_m, steps, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, MASK: tl.constexpr):
    """Goes down the queries; all products are of transposed tiles."""
    offs_m = start_m + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    qt_ptrs = Q + offs_m[None, :] * D + offs_d[:, None]
    do_ptrs = DO + offs_m[:, None] * D + offs_d[None, :]
    curr_m = start_m
    for _ in range(steps):
        qT = tl.load(qt_ptrs)
        offs_m = curr_m + tl.arange(0, BM)
        m = tl.load(M + offs_m)
        qkT = tl.dot(k, qT)
        pT = tl.math.exp2(qkT - m[None, :])
        if MASK:
            pT = tl.where(offs_m[None, :] >= offs_n[:, None], pT, 0.0)
        do = tl.load(do_ptrs)
        dv += tl.dot(pT.to(do.dtype), do)
        Di = tl.load(Delta + offs_m)
        dpT = tl.dot(v, tl.trans(do)).to(tl.float32)
        dsT = pT * (dpT - Di[None, :])
        dk += tl.dot(dsT.to(qT.dtype), tl.trans(qT))
        curr_m += BM
        qt_ptrs += BM * D
        do_ptrs += BM * D
    return dk, dv


@triton.jit
def query_side(dq, q, K, V, do, m, Di, offs_m, start_n, steps, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, MASK: tl.constexpr):
    offs_d = tl.arange(0, D)
    offs_n = start_n + tl.arange(0, BN)
    kT_ptrs = K + offs_n[None, :] * D + offs_d[:, None]
    vT_ptrs = V + offs_n[None, :] * D + offs_d[:, None]
    curr_n = start_n
    for _ in range(steps):
        kT = tl.load(kT_ptrs)
        vT = tl.load(vT_ptrs)
        p = tl.math.exp2(tl.dot(q, kT) - m)
        if MASK:
            p = tl.where(offs_m[:, None] >= (curr_n + tl.arange(0, BN))[None, :], p, 0.0)
        dp = tl.dot(do, vT).to(tl.float32)
        ds = (p * (dp - Di[:, None])).to(kT.dtype)
        dq += tl.dot(ds, tl.trans(kT))
        curr_n += BN
        kT_ptrs += BN * D
        vT_ptrs += BN * D
    return dq


@triton.jit
def whole_backward(Q, K, V, DO, DQ, DK, DV, M, Delta, sm_scale, N, BM1: tl.constexpr, BN1: tl.constexpr, D: tl.constexpr):
    """Causal; BN1 keys against queries of BM1 each, then as many queries against keys. K holds k * scale * log2(e), so that scores are exponents of 2."""
    pid = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * N * D
    Q += base
    K += base
    V += base
    DO += base
    M += tl.program_id(1) * N
    Delta += tl.program_id(1) * N
    offs_d = tl.arange(0, D)
    start = pid * BN1
    offs = start + tl.arange(0, BN1)
    k = tl.load(K + offs[:, None] * D + offs_d[None, :])
    v = tl.load(V + offs[:, None] * D + offs_d[None, :])
    dk = tl.zeros([BN1, D], tl.float32)
    dv = tl.zeros([BN1, D], tl.float32)
    dk, dv = key_side(dk, dv, Q, k, v, DO, M, Delta, offs, start, BN1 // BM1, BM1, BN1, D, True)
    dk, dv = key_side(dk, dv, Q, k, v, DO, M, Delta, offs, start + BN1, (N - start - BN1) // BM1, BM1, BN1, D, False)
    tl.store(DV + base + offs[:, None] * D + offs_d[None, :], dv.to(DV.dtype.element_ty))
    tl.store(DK + base + offs[:, None] * D + offs_d[None, :], (dk * sm_scale).to(DK.dtype.element_ty))
    q = tl.load(Q + offs[:, None] * D + offs_d[None, :])
    do = tl.load(DO + offs[:, None] * D + offs_d[None, :])
    m = tl.load(M + offs)[:, None]
    Di = tl.load(Delta + offs)
    dq = tl.zeros([BN1, D], tl.float32)
    dq = query_side(dq, q, K, V, do, m, Di, offs, start, BN1 // BM1, BN1, BM1, D, True)
    dq = query_side(dq, q, K, V, do, m, Di, offs, 0, start // BM1, BN1, BM1, D, False)
    tl.store(DQ + base + offs[:, None] * D + offs_d[None, :], (dq * 0.6931471824645996).to(DQ.dtype.element_ty))


@triton.jit
def dkdv_kernel(Q, K, V, DO, DK, DV, Lse, Delta, sm_scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Block pointers; the scores are computed anew, q @ k.T, and turned where a product wants them."""
    start_n = tl.program_id(0) * BN
    head = tl.program_id(1)
    base = head.to(tl.int64) * N * D
    pk = tl.make_block_ptr(K + base, (N, D), (D, 1), (start_n, 0), (BN, D), (1, 0))
    pv = tl.make_block_ptr(V + base, (N, D), (D, 1), (start_n, 0), (BN, D), (1, 0))
    k = tl.load(pk)
    v = tl.load(pv)
    offs_n = start_n + tl.arange(0, BN)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    lo = start_n // BM * BM if CAUSAL else 0
    pq = tl.make_block_ptr(Q + base, (N, D), (D, 1), (lo, 0), (BM, D), (1, 0))
    pdo = tl.make_block_ptr(DO + base, (N, D), (D, 1), (lo, 0), (BM, D), (1, 0))
    for start_m in range(lo, N, BM):
        offs_m = start_m + tl.arange(0, BM)
        q = tl.load(pq)
        do = tl.load(pdo)
        s = tl.dot(q, tl.trans(k)) * (sm_scale * 1.44269504)
        p = tl.exp2(s - tl.load(Lse + head * N + offs_m)[:, None])
        if CAUSAL:
            p = tl.where(offs_m[:, None] >= offs_n[None, :], p, 0.0)
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        dp = tl.dot(do, tl.trans(v))
        ds = p * (dp - tl.load(Delta + head * N + offs_m)[:, None]) * sm_scale
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
        pq = tl.advance(pq, (BM, 0))
        pdo = tl.advance(pdo, (BM, 0))
    tl.store(tl.make_block_ptr(DK + base, (N, D), (D, 1), (start_n, 0), (BN, D), (1, 0)), dk.to(DK.dtype.element_ty))
    tl.store(tl.make_block_ptr(DV + base, (N, D), (D, 1), (start_n, 0), (BN, D), (1, 0)), dv.to(DV.dtype.element_ty))


@triton.jit
def dq_kernel(Q, K, V, DO, DQ, Lse, Delta, sm_scale, rows, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Descriptors made in the kernel."""
    start_m = tl.program_id(0) * BM
    head = tl.program_id(1)
    base = head * N
    k_desc = tl.make_tensor_descriptor(K, [rows, D], [D, 1], [BN, D])
    v_desc = tl.make_tensor_descriptor(V, [rows, D], [D, 1], [BN, D])
    q_desc = tl.make_tensor_descriptor(Q, [rows, D], [D, 1], [BM, D])
    do_desc = tl.make_tensor_descriptor(DO, [rows, D], [D, 1], [BM, D])
    dq_desc = tl.make_tensor_descriptor(DQ, [rows, D], [D, 1], [BM, D])
    q = q_desc.load([base + start_m, 0])
    do = do_desc.load([base + start_m, 0])
    offs_m = start_m + tl.arange(0, BM)
    lse = tl.load(Lse + base + offs_m)
    delta = tl.load(Delta + base + offs_m)
    dq = tl.zeros([BM, D], tl.float32)
    hi = start_m + BM if CAUSAL else N
    for start_n in range(0, hi, BN):
        k = k_desc.load([base + start_n, 0])
        v = v_desc.load([base + start_n, 0])
        p = tl.exp2(tl.dot(q, k.T) * (sm_scale * 1.44269504) - lse[:, None])
        if CAUSAL:
            p = tl.where(offs_m[:, None] >= start_n + tl.arange(0, BN)[None, :], p, 0.0)
        ds = p * (tl.dot(do, v.T) - delta[:, None]) * sm_scale
        dq = tl.dot(ds.to(k.dtype), k, dq)
    dq_desc.store([base + start_m, 0], dq.to(dq_desc.dtype))


def inputs(m, s, t):
    n = (s.H, s.N, s.D)
    q, k, v, do = m.normal(n, t), m.normal(n, t), m.normal(n, t), m.normal(n, t)
    return dict(q=q, k=k, v=v, do=do, o=m.normal(n, t, 0.1), lse=m.uniform((s.H, s.N), "fp32", 9.0, 12.0), delta=m.empty((s.H, s.N), "fp32"),
                scaled=m.cast(m.wide(k) * (s.D**-0.5 * 1.4426950408889634), t),
                dq=m.empty(n, t), dk=m.empty(n, t), dv=m.empty(n, t))


def gradients(x, a, s, causal):
    """With o and the log-sum-exp as they are given, whether or not they are those of q, k and v."""
    dq, dk, dv = [], [], []
    for h in range(s.H):
        p = x.exp(0.6931471805599453 * (a.q[h] @ x.swapaxes(a.k[h], 0, 1) * (s.D**-0.5 * 1.4426950408889634) - a.lse[h][:, None]))
        if causal:
            p = x.where(x.arange(s.N)[:, None] >= x.arange(s.N)[None, :], p, 0.0)
        delta = x.sum(a.o[h] * a.do[h], axis=1, keepdims=True)
        ds = p * (a.do[h] @ x.swapaxes(a.v[h], 0, 1) - delta) * s.D**-0.5
        dq.append(ds @ a.k[h])
        dk.append(x.swapaxes(ds, 0, 1) @ a.q[h])
        dv.append(x.swapaxes(p, 0, 1) @ a.do[h])
    return tuple(x.stack(v, axis=0) for v in (dq, dk, dv))


COMMON = dict(inputs=inputs, small=shapes("H N D", (2, 128, 32)), dtypes=("bf16", "fp16"), sustained=True)
LONG = shapes("H N D", (64, 4096, 128), (64, 4096, 64), (256, 1024, 64))


def delta_launch(a, s):
    return Launch(delta_kernel, (s.N // 64, s.H), (a.o, a.do, a.delta, s.N), BM=64, D=s.D, num_warps=4)


whole = Entry("attention backward", outputs=("dq", "dk", "dv"), reference=lambda x, a, s: gradients(x, a, s, True), shapes=LONG, flops=lambda s: 5 * s.H * s.N * s.N * s.D, **COMMON)


@whole.spelling("one kernel, transposed tiles", configs("BM1 BN1 num_warps num_stages", (32, 64, 4, 3), (32, 128, 4, 5), (64, 128, 8, 3), (32, 128, 8, 3)))
def _(a, s, c):
    return [delta_launch(a, s), Launch(whole_backward, (s.N // c.BN1, s.H), (a.q, a.scaled, a.v, a.do, a.dq, a.dk, a.dv, a.lse, a.delta, s.D**-0.5, s.N), D=s.D, **vars(c))]


def halves(causal):
    flops = 0.5 if causal else 1
    name = "attention backward" + (" causal" if causal else "")
    tiles = configs("BM BN num_warps num_stages", (32, 32, 4, 2), (64, 128, 8, 2), (64, 64, 4, 2), (128, 64, 8, 2), (64, 128, 8, 3))
    dkdv = Entry(name + " dk dv", outputs=("dk", "dv"), reference=lambda x, a, s: gradients(x, a, s, causal)[1:], shapes=LONG, flops=lambda s: flops * 8 * s.H * s.N * s.N * s.D, **COMMON)
    dq = Entry(name + " dq", outputs=("dq",), reference=lambda x, a, s: gradients(x, a, s, causal)[0], shapes=LONG, flops=lambda s: flops * 6 * s.H * s.N * s.N * s.D, **COMMON)

    @dkdv.spelling("block pointers", tiles)
    def _(a, s, c):
        return [delta_launch(a, s), Launch(dkdv_kernel, (s.N // c.BN, s.H), (a.q, a.k, a.v, a.do, a.dk, a.dv, a.lse, a.delta, s.D**-0.5, s.N), D=s.D, CAUSAL=causal, **vars(c))]

    @dq.spelling("descriptors in the kernel", tiles)
    def _(a, s, c):
        return [delta_launch(a, s), Launch(dq_kernel, (s.N // c.BM, s.H), (a.q, a.k, a.v, a.do, a.dq, a.lse, a.delta, s.D**-0.5, s.H * s.N, s.N), D=s.D, CAUSAL=causal, **vars(c))]
    return dkdv, dq


dkdv, dq = halves(False)
dkdv_causal, dq_causal = halves(True)
