"""The kernels that bench/tune_model.py sweeps: ordinary ones of all kinds, each with the constants that a tuner chooses."""
import tegula
import tegula.language as tl


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@tegula.jit
def softmax(x, out, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    at = r.to(tl.int64)[:, None] * cols + c[None, :]
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + at, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(out + at, (e / tl.sum(e, axis=1)[:, None]).to(out.dtype.element_ty), mask=mask)


@tegula.jit
def layer_norm(x, w, b, out, cols, eps, BLOCK: tl.constexpr):
    """Three passes over a row, BLOCK columns at a time."""
    row = tl.program_id(0).to(tl.int64) * cols
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + c, mask=c < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        d = tl.where(c < cols, tl.load(x + row + c, mask=c < cols, other=0.0).to(tl.float32) - mean, 0.0)
        total += d * d
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / cols + eps)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row + c, mask=c < cols, other=0.0).to(tl.float32)
        scale = tl.load(w + c, mask=c < cols).to(tl.float32)
        shift = tl.load(b + c, mask=c < cols).to(tl.float32)
        tl.store(out + row + c, ((v - mean) * rstd * scale + shift).to(out.dtype.element_ty), mask=c < cols)


@tegula.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """Row-major, programs in groups of GROUP rows of tiles. fp32 is multiplied as it is."""
    pid = tl.program_id(0)
    grid_m = tl.cdiv(M, BM)
    grid_n = tl.cdiv(N, BN)
    width = GROUP * grid_n
    first = pid // width * GROUP
    size = min(grid_m - first, GROUP)
    pid_m = first + pid % width % size
    pid_n = pid % width // size
    offs_m = (pid_m * BM + tl.arange(0, BM)) % M
    offs_n = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        ta = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        tb = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(ta, tb, acc, input_precision="ieee")
        a_ptrs += BK
        b_ptrs += BK * N
    rows = pid_m * BM + tl.arange(0, BM)
    cols = pid_n * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


@tegula.jit
def matmul_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """a is M x K, b is N x K."""
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(1) * BM
    n = tl.program_id(0) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(da.load([m, k * BK]), db.load([n, k * BK]).T, acc)
    dc.store([m, n], acc.to(c.dtype.element_ty))


@tegula.jit
def matmul_int8(a, b, scale, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """b is int8, K x N, with a scale for each column."""
    offs_m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    offs_n = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K // BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs).to(a.dtype.element_ty), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    s = tl.load(scale + offs_n)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + cols[None, :], (acc * s[None, :]).to(c.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


@tegula.jit
def matmul_split(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    """SPLIT programs share a tile of c and add their parts up."""
    offs_m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    offs_n = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    offs_k = tl.program_id(2) * BK + tl.arange(0, BK)
    a_ptrs = a + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K // (BK * SPLIT)):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK * SPLIT
        b_ptrs += BK * SPLIT * N
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    at = c + rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    if SPLIT == 1:
        tl.store(at, acc, mask=mask)
    else:
        tl.atomic_add(at, acc, mask=mask)


@tegula.jit
def attention(q, k, v, out, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Heads x N x D, contiguous, by pointers."""
    start = tl.program_id(0) * BM
    base = tl.program_id(1).to(tl.int64) * N * D
    offs_m = start + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    tq = tl.load(q + base + offs_m[:, None] * D + offs_d[None, :])
    k_ptrs = k + base + offs_n[None, :] * D + offs_d[:, None]
    v_ptrs = v + base + offs_n[:, None] * D + offs_d[None, :]
    m_i = tl.full((BM,), -float("inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    qk_scale = scale * 1.4426950408889634
    end = start + BM if CAUSAL else N
    for n in range(0, end, BN):
        s = tl.dot(tq, tl.load(k_ptrs)) * qk_scale
        if CAUSAL:
            s = tl.where(offs_m[:, None] >= (n + offs_n)[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v_ptrs), acc * alpha[:, None])
        m_i = m_new
        k_ptrs += BN * D
        v_ptrs += BN * D
    tl.store(out + base + offs_m[:, None] * D + offs_d[None, :], (acc / l_i[:, None]).to(out.dtype.element_ty))


@tegula.jit
def attention_descriptors(q, k, v, out, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0) * BM
    base = tl.program_id(1) * N
    rows = tl.num_programs(1) * N
    dq = tl.make_tensor_descriptor(q, [rows, D], [D, 1], [BM, D])
    dk = tl.make_tensor_descriptor(k, [rows, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [rows, D], [D, 1], [BN, D])
    do = tl.make_tensor_descriptor(out, [rows, D], [D, 1], [BM, D])
    tq = dq.load([base + start, 0])
    m_i = tl.full((BM,), -float("inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    qk_scale = scale * 1.4426950408889634
    for n in range(0, N, BN):
        s = tl.dot(tq, dk.load([base + n, 0]).T)
        m_new = tl.maximum(m_i, tl.max(s, axis=1) * qk_scale)
        p = tl.exp2(s * qk_scale - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype.element_ty), dv.load([base + n, 0]), acc * alpha[:, None])
        m_i = m_new
    do.store([base + start, 0], (acc / l_i[:, None]).to(out.dtype.element_ty))


@tegula.jit
def column_sum(x, out, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BR, BC), tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        total += tl.load(x + r[:, None] * cols + c[None, :], mask=(r < rows)[:, None] & (c < cols)[None, :], other=0.0)
    tl.store(out + c, tl.sum(total, axis=0), mask=c < cols)


@tegula.jit
def transpose(x, out, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=(r < rows)[:, None] & (c < cols)[None, :])
    tl.store(out + c[:, None] * rows + r[None, :], v.T, mask=(c < cols)[:, None] & (r < rows)[None, :])


@tegula.jit
def gelu_dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    v = tl.load(x + offsets, mask=mask).to(tl.float32)
    v = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    keep = tl.rand(seed, offsets) > p
    tl.store(out + offsets, tl.where(keep, v / (1 - p), 0.0).to(out.dtype.element_ty), mask=mask)


# Not looked at when constants were fitted.

@tegula.jit
def rms_norm(x, w, out, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    at = r[:, None] * cols + c[None, :]
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(v * v, axis=1) / cols + eps)
    scale = tl.load(w + c, mask=c < cols).to(tl.float32)
    tl.store(out + at, (v * rstd[:, None] * scale[None, :]).to(out.dtype.element_ty), mask=mask)


@tegula.jit
def matvec(a, x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, N, BN):
        c = start + tl.arange(0, BN)
        t = tl.load(a + r[:, None] * N + c[None, :], mask=(r < M)[:, None] & (c < N)[None, :], other=0.0).to(tl.float32)
        total += t * tl.load(x + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    tl.store(y + r, tl.sum(total, axis=1), mask=r < M)


@tegula.jit
def matmul_silu(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """silu(a @ b), b N x K; tiles in rows, no groups."""
    offs_m = (tl.program_id(1) * BM + tl.arange(0, BM)) % M
    offs_n = (tl.program_id(0) * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ta = tl.load(a + offs_m[:, None] * K + (k + offs_k)[None, :])
        tb = tl.load(b + offs_n[None, :] * K + (k + offs_k)[:, None])
        acc = tl.dot(ta, tb, acc)
    acc = acc * (1 / (1 + tl.exp(-acc)))
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))
