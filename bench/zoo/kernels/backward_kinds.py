"""Attention backward as different people spell it: heads of a group in a loop, five dots in one loop with atomics, host descriptors, strides as arguments, windows and caps."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from zoo.references import ends
from zoo.table import Entry, Launch, cdiv, configs, shapes


@triton.jit
def keys_of_groups(Q, K, V, DO, DK, DV, Lse, Delta, sm_scale, stride_qh, stride_qm, stride_qd, stride_kh, stride_kn, stride_kd, N, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """dk and dv of a block of keys: all heads of its group, blocks of queries on the diagonal, then whole ones; as generated for programmable masks."""
    start_n = tl.program_id(0) * BN
    kv_head = tl.program_id(1)
    offs_n = start_n + tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    at_k = kv_head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :] * stride_kd
    k = tl.load(K + at_k)
    v = tl.load(V + at_k)
    scale = sm_scale * 1.44269504
    for g in range(0, GROUP):
        head = kv_head * GROUP + g
        q_head = Q + head * stride_qh
        do_head = DO + head * stride_qh
        lse_head = Lse + head * N
        delta_head = Delta + head * N
        offs_m = start_n + tl.arange(0, BM)
        qT_ptrs = q_head + offs_m[None, :] * stride_qm + offs_d[:, None] * stride_qd
        do_ptrs = do_head + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
        for start_m in range(start_n, N, BM):
            rows = start_m + tl.arange(0, BM)
            qT = tl.load(qT_ptrs)
            lse = tl.load(lse_head + rows)
            lse = tl.where(lse == -float("inf"), 0.0, lse)
            qkT = tl.dot(k, qT, input_precision="tf32")
            qkT *= scale
            pT = tl.math.exp2(qkT - lse[None, :])
            pT = tl.where(rows[None, :] >= offs_n[:, None], pT, 0.0)
            do = tl.load(do_ptrs)
            dv += tl.dot(pT.to(do.dtype), do, input_precision="tf32")
            delta = tl.load(delta_head + rows)
            dpT = tl.dot(v, tl.trans(do), input_precision="tf32")
            dsT = pT * (dpT - delta[None, :])
            dk += tl.dot(dsT.to(qT.dtype), tl.trans(qT), input_precision="tf32")
            qT_ptrs += BM * stride_qm
            do_ptrs += BM * stride_qm
    dk *= sm_scale
    tl.store(DV + at_k, dv.to(DV.dtype.element_ty))
    tl.store(DK + at_k, dk.to(DK.dtype.element_ty))


@triton.jit
def in_one_loop(Q, K, V, DO, DQ, DK, DV, Lse, Delta, sm_scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """A block of keys goes down the queries: five dots, dq by atomic additions in float32."""
    start_n = tl.program_id(0)
    head = tl.program_id(1)
    begin_m = 0 if not CAUSAL else (start_n * BN) // BM * BM
    offs_n = start_n * BN + tl.arange(0, BN)
    offs_m = tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    base = head * stride_h
    q_ptrs = Q + base + ((begin_m + offs_m)[:, None] * stride_n + offs_d[None, :])
    k_ptrs = K + base + (offs_n[:, None] * stride_n + offs_d[None, :])
    v_ptrs = V + base + (offs_n[:, None] * stride_n + offs_d[None, :])
    do_ptrs = DO + base + ((begin_m + offs_m)[:, None] * stride_n + offs_d[None, :])
    dq_ptrs = DQ + base + ((begin_m + offs_m)[:, None] * stride_n + offs_d[None, :])
    dv = tl.zeros([BN, D], dtype=tl.float32)
    dk = tl.zeros([BN, D], dtype=tl.float32)
    k = tl.load(k_ptrs)
    v = tl.load(v_ptrs)
    for start_m in range(begin_m, N, BM):
        start_m = tl.multiple_of(start_m, BM)
        now = start_m + offs_m
        q = tl.load(q_ptrs)
        qk = tl.dot(q, tl.trans(k))
        if CAUSAL:
            qk = tl.where(now[:, None] >= offs_n[None, :], qk, float("-inf"))
        lse_i = tl.load(Lse + head * N + now)
        p = tl.exp2(qk * (sm_scale * 1.44269504) - lse_i[:, None])
        do = tl.load(do_ptrs)
        dv += tl.dot(tl.trans(p.to(do.dtype)), do)
        dp = tl.dot(do, tl.trans(v))
        Di = tl.load(Delta + head * N + now)
        ds = (p * (dp - Di[:, None]) * sm_scale).to(q.dtype)
        dk += tl.dot(tl.trans(ds), q)
        dq = tl.dot(ds, k)
        tl.atomic_add(dq_ptrs, dq, sem="relaxed")
        dq_ptrs += BM * stride_n
        q_ptrs += BM * stride_n
        do_ptrs += BM * stride_n
    tl.store(DV + base + (offs_n[:, None] * stride_n + offs_d[None, :]), dv.to(DV.dtype.element_ty))
    tl.store(DK + base + (offs_n[:, None] * stride_n + offs_d[None, :]), dk.to(DK.dtype.element_ty))


@triton.jit
def keys_by_descriptors(q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, Lse, Delta, sm_scale, N, WINDOW, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAP: tl.constexpr):
    """dk and dv by host descriptors; queries within a window behind the keys; a cap by tanh and its derivative."""
    start_n = tl.program_id(0) * BN
    base = tl.program_id(1) * N
    k = k_desc.load([base + start_n, 0])
    v = v_desc.load([base + start_n, 0])
    offs_n = start_n + tl.arange(0, BN)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    hi = tl.minimum(N, (start_n + BN + WINDOW + BM - 1) // BM * BM)
    for start_m in tl.range(start_n // BM * BM, hi, BM):
        offs_m = start_m + tl.arange(0, BM)
        q = q_desc.load([base + start_m, 0])
        do = do_desc.load([base + start_m, 0])
        lse = tl.load(Lse + base + offs_m)
        delta = tl.load(Delta + base + offs_m)
        sT = tl.dot(k, q.T) * sm_scale
        if CAP:
            t = 2 * tl.sigmoid(2 * sT / CAP) - 1
            sT = CAP * t
        pT = tl.exp2(sT * 1.44269504 - lse[None, :])
        distance = offs_m[None, :] - offs_n[:, None]
        pT = tl.where((distance >= 0) & (distance < WINDOW), pT, 0.0)
        dpT = tl.dot(v, do.T)
        dv = tl.dot(pT.to(do.dtype), do, dv)
        dsT = pT * (dpT - delta[None, :])
        if CAP:
            dsT *= 1 - t * t
        dk = tl.dot(dsT.to(q.dtype), q, dk)
    dk_desc.store([base + start_n, 0], (dk * sm_scale).to(dk_desc.dtype))
    dv_desc.store([base + start_n, 0], dv.to(dv_desc.dtype))


@triton.jit
def queries_by_strides(Q, K, V, DO, DQ, Lse, Delta, sm_scale, stride_qh, stride_qm, stride_kh, stride_kn, N_Q, N_KV, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, EVEN: tl.constexpr):
    """dq by pointers with masks; queries and keys of other lengths; keys and values read transposed."""
    start_m = tl.program_id(0) * BM
    head = tl.program_id(1)
    offs_m = start_m + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, BN)
    Q += head * stride_qh
    DO += head * stride_qh
    K += head * stride_kh
    V += head * stride_kh
    rows = offs_m[:, None] < N_Q
    q = tl.load(Q + offs_m[:, None] * stride_qm + offs_d[None, :], mask=rows, other=0.0)
    do = tl.load(DO + offs_m[:, None] * stride_qm + offs_d[None, :], mask=rows, other=0.0)
    lse = tl.load(Lse + head * N_Q + offs_m, mask=offs_m < N_Q, other=float("inf"))
    delta = tl.load(Delta + head * N_Q + offs_m, mask=offs_m < N_Q, other=0.0)
    dq = tl.zeros([BM, D], tl.float32)
    kT_ptrs = K + offs_n[None, :] * stride_kn + offs_d[:, None]
    vT_ptrs = V + offs_n[None, :] * stride_kn + offs_d[:, None]
    for start_n in range(0, N_KV, BN):
        if EVEN:
            kT = tl.load(kT_ptrs)
            vT = tl.load(vT_ptrs)
        else:
            kT = tl.load(kT_ptrs, mask=(start_n + offs_n)[None, :] < N_KV, other=0.0)
            vT = tl.load(vT_ptrs, mask=(start_n + offs_n)[None, :] < N_KV, other=0.0)
        qk = tl.dot(q, kT)
        p = tl.exp2(qk * (sm_scale * 1.44269504) - lse[:, None])
        if not EVEN:
            p = tl.where((start_n + offs_n)[None, :] < N_KV, p, 0.0)
        dp = tl.dot(do, vT).to(tl.float32)
        ds = p * (dp - delta[:, None])
        ds = ds.to(kT.dtype)
        dq += tl.dot(ds, tl.trans(kT))
        kT_ptrs += BN * stride_kn
        vT_ptrs += BN * stride_kn
    dq = dq * sm_scale
    tl.store(DQ + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :], dq.to(DQ.dtype.element_ty), mask=rows)


def inputs(group=False, keys=False):
    def made(m, s, t):
        n, kv = (s.H, s.N, s.D), (s.H // s.GROUP if group else s.H, s.KEYS if keys else s.N, s.D)
        return dict(q=m.normal(n, t), k=m.normal(kv, t), v=m.normal(kv, t), do=m.normal(n, t), lse=m.uniform((s.H, s.N), "fp32", 9.0, 12.0), delta=m.normal((s.H, s.N), "fp32"), dq=m.empty(n, t), dk=m.empty(kv, t),
                    dv=m.empty(kv, t), sums=m.zeros(n, "fp32"))
    return made


def gradients(x, a, s, mask=lambda x, s: 0.0, group=1, cap=0):
    """With delta and the log-sum-exp as they are given, whether or not they are those of q, k and v. dk and dv are sums over a group's heads."""
    dq, dk, dv = [], [], []
    for h in range(s.H):
        k, v = a.k[h // group], a.v[h // group]
        p = a.q[h] @ x.swapaxes(k, 0, 1) * s.D**-0.5
        t = x.tanh(p / cap) if cap else 0.0
        p = x.exp(0.6931471805599453 * ((cap * t if cap else p) * 1.4426950408889634 - a.lse[h][:, None]) + mask(x, s))
        ds = p * (a.do[h] @ x.swapaxes(v, 0, 1) - a.delta[h][:, None]) * (1 - t * t if cap else 1.0) * s.D**-0.5
        dq.append(ds @ k)
        dk.append(x.swapaxes(ds, 0, 1) @ a.q[h])
        dv.append(x.swapaxes(p, 0, 1) @ a.do[h])
    joined = lambda v: [sum(v[i + 1:i + group], v[i]) for i in range(0, s.H, group)]
    return x.stack(dq, axis=0), x.stack(joined(dk), axis=0), x.stack(joined(dv), axis=0)


def causal(x, s):
    return ends(x, s.N, s.N)


COMMON = dict(dtypes=("bf16",))
TILES = configs("BM BN num_warps num_stages", (32, 64, 4, 2), (64, 64, 4, 2), (64, 128, 8, 2), (128, 64, 8, 2), (64, 64, 8, 3))
LONG = shapes("H N D", (64, 4096, 128), (64, 4096, 64))
SMALL = shapes("H N D", (2, 128, 32))

groups = Entry("attention backward of groups dk dv", inputs=inputs(group=True), outputs=("dk", "dv"), reference=lambda x, a, s: gradients(x, a, s, causal, s.GROUP)[1:], shapes=shapes("H GROUP N D", (64, 8, 4096, 128), (64, 4, 4096, 64)),
               small=shapes("H GROUP N D", (4, 2, 128, 32)), flops=lambda s: 4 * s.H * s.N * s.N * s.D, **COMMON)


@groups.spelling("pointers, all strides", TILES, lambda s, c: c.BN % c.BM == 0)
def _(a, s, c):
    return Launch(keys_of_groups, (s.N // c.BN, s.H // s.GROUP), (a.q, a.k, a.v, a.do, a.dk, a.dv, a.lse, a.delta, s.D**-0.5, s.N * s.D, s.D, 1, s.N * s.D, s.D, 1, s.N), GROUP=s.GROUP, D=s.D, **vars(c))


atomics = Entry("attention backward in one loop", inputs=inputs(), outputs=("sums", "dk", "dv"), reference=lambda x, a, s: gradients(x, a, s, causal), shapes=LONG, small=SMALL, zeroed=("sums",), flops=lambda s: 5 * s.H * s.N * s.N * s.D,
                tolerance=2e-2, **COMMON)


@atomics.spelling("pointers, atomics", TILES)
def _(a, s, c):
    return Launch(in_one_loop, (s.N // c.BN, s.H), (a.q, a.k, a.v, a.do, a.sums, a.dk, a.dv, a.lse, a.delta, s.D**-0.5, s.N * s.D, s.D, s.N), D=s.D, CAUSAL=True, **vars(c))


def windowed(name, cap):
    e = Entry(name, inputs=inputs(), outputs=("dk", "dv"), reference=lambda x, a, s: gradients(x, a, s, lambda x, s: ends(x, s.N, s.N, s.WINDOW), cap=cap)[1:], shapes=shapes("H N D WINDOW", (64, 4096, 128, 1024), (64, 4096, 64, 4096)),
              small=shapes("H N D WINDOW", (2, 128, 32, 70)), flops=lambda s: 8 * s.H * s.N * s.D * (s.WINDOW if s.WINDOW < s.N else s.N // 2), **COMMON)

    @e.spelling("host descriptors", TILES)
    def _(a, s, c):
        described = lambda t, rows: TensorDescriptor(t.reshape(-1, s.D), [s.H * s.N, s.D], [s.D, 1], [rows, s.D])
        return Launch(keys_by_descriptors, (s.N // c.BN, s.H), (described(a.q, c.BM), described(a.k, c.BN), described(a.v, c.BN), described(a.do, c.BM), described(a.dk, c.BN), described(a.dv, c.BN), a.lse, a.delta, s.D**-0.5, s.N, s.WINDOW),
                      D=s.D, CAP=cap, **vars(c))
    return e


window = windowed("attention backward of a window dk dv", 0)
window_capped = windowed("attention backward of a window dk dv, capped", 20)

cross = Entry("attention backward of other lengths dq", inputs=inputs(keys=True), outputs=("dq",), reference=lambda x, a, s: gradients(x, a, s)[:1], shapes=shapes("H N KEYS D", (64, 4096, 3000, 128), (64, 4096, 4096, 64)),
              small=shapes("H N KEYS D", (2, 100, 70, 32)), flops=lambda s: 6 * s.H * s.N * s.KEYS * s.D, **COMMON)


@cross.spelling("pointers, keys transposed", configs("BM BN num_warps num_stages", (64, 32, 4, 2), (64, 64, 4, 2), (128, 64, 8, 2), (128, 128, 8, 2), (128, 64, 8, 3)))
def _(a, s, c):
    return Launch(queries_by_strides, (cdiv(s.N, c.BM), s.H), (a.q, a.k, a.v, a.do, a.dq, a.lse, a.delta, s.D**-0.5, s.N * s.D, s.D, s.KEYS * s.D, s.D, s.N, s.KEYS), D=s.D, EVEN=s.KEYS % 128 == 0, **vars(c))
