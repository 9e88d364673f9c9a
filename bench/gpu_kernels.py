"""The kernels of the GPU benchmark: one source, given to both compilers (bench/gpu.py loads it once for each)."""
import triton
import triton.language as tl


@triton.jit
def empty0():
    pass


@triton.jit
def empty19(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, c0: tl.constexpr, c1: tl.constexpr, c2: tl.constexpr,
            c3: tl.constexpr, c4: tl.constexpr):
    pass


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    v = tl.load(x + row + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row + offsets, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm(x, w, b, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    v = tl.load(x + row + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / cols
    d = tl.where(mask, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / cols + eps)
    scale = tl.load(w + offsets, mask=mask).to(tl.float32)
    shift = tl.load(b + offsets, mask=mask).to(tl.float32)
    tl.store(out + row + offsets, (d * rstd * scale + shift).to(out.dtype.element_ty), mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
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
    a_ptrs = a + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        ta = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        tb = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(ta, tb, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    rows = pid_m * BM + tl.arange(0, BM)
    cols = pid_n * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc.to(c.dtype.element_ty),
             mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def matmul_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """a is M x K, b is N x K, both row-major; a program has one tile."""
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
    dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr):
    """a is M x K, b is N x K, both row-major, read and written by descriptors."""
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    grid_m = tl.cdiv(M, BM)
    grid_n = tl.cdiv(N, BN)
    width = GROUP * grid_n
    for tile in tl.range(tl.program_id(0), grid_m * grid_n, PROGRAMS, flatten=True):
        first = tile // width * GROUP
        size = min(grid_m - first, GROUP)
        m = (first + tile % width % size) * BM
        n = tile % width // size * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            acc = tl.dot(da.load([m, k * BK]), db.load([n, k * BK]).T, acc)
        dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def widened(x, scale, FORMAT: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr, G: tl.constexpr):
    """Rows of fp8, or of pairs of e2m1, with an e8m0 scale for each G elements, as bf16: dot_scaled's work written out."""
    if FORMAT == "e2m1":
        bits = tl.join(x << 4, x).reshape(ROWS, K).to(tl.uint16) << 8
        wide = ((bits & 0x8000) | ((bits >> 6) & 0x01C0)).to(tl.bfloat16, bitcast=True) * tl.full((1, ), 2.0**126, tl.bfloat16)
    else:
        wide = x.to(tl.bfloat16)
    s = (scale.to(tl.uint16) << 7).to(tl.bfloat16, bitcast=True)
    return tl.reshape(tl.reshape(wide, (ROWS, K // G, G)) * s[:, :, None], (ROWS, K))


@triton.jit
def matmul_mx(a, sa, b, sb, c, M, N, K, stride_a, stride_b, stride_sa, stride_sb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
              FORMAT: tl.constexpr, G: tl.constexpr, BY_HAND: tl.constexpr):
    """c = (a * sa) @ (b * sb).T: a M x K, b N x K fp8 or packed e2m1, sa and sb with a scale for each G elements of a row."""
    PACK: tl.constexpr = 2 if FORMAT == "e2m1" else 1
    pid = tl.program_id(0)
    grid_m = tl.cdiv(M, BM)
    grid_n = tl.cdiv(N, BN)
    width = GROUP * grid_n
    first = pid // width * GROUP
    size = min(grid_m - first, GROUP)
    rows = (first + pid % width % size) * BM + tl.arange(0, BM)
    cols = pid % width // size * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK // PACK)
    offs_g = tl.arange(0, BK // G)
    a_ptrs = a + rows[:, None] * stride_a + offs_k[None, :]
    b_ptrs = b + cols[:, None] * stride_b + offs_k[None, :]
    sa_ptrs = sa + rows[:, None] * stride_sa + offs_g[None, :]
    sb_ptrs = sb + cols[:, None] * stride_sb + offs_g[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a_ptrs)
        y = tl.load(b_ptrs)
        p = tl.load(sa_ptrs)
        q = tl.load(sb_ptrs)
        if BY_HAND:
            acc = tl.dot(widened(x, p, FORMAT, BM, BK, G), widened(y, q, FORMAT, BN, BK, G).T, acc)
        else:
            acc = tl.dot_scaled(x, p, FORMAT, y.T, q, FORMAT, acc)
        a_ptrs += BK // PACK
        b_ptrs += BK // PACK
        sa_ptrs += BK // G
        sb_ptrs += BK // G
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_w4(a, b, scale, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ unpack(b) * scale: a M x K bf16; b K/2 x N bytes, two 4-bit values in [-8, 8) along K in each; scale N."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = (pid_m * BM + tl.arange(0, BM)) % M
    offs_n = pid_n * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    offs_p = tl.arange(0, BK // 2)
    a_ptrs = a + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b + offs_p[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K // BK):
        packed = tl.load(b_ptrs)
        low = (packed << 4) >> 4
        high = packed >> 4
        both = tl.join(low.to(tl.bfloat16), high.to(tl.bfloat16)).permute(0, 2, 1).reshape(BK, BN)
        acc = tl.dot(tl.load(a_ptrs), both, acc)
        a_ptrs += BK
        b_ptrs += BK // 2 * N
    rows = pid_m * BM + tl.arange(0, BM)
    s = tl.load(scale + offs_n).to(tl.float32)
    tl.store(c + rows[:, None] * N + offs_n[None, :], (acc * s[None, :]).to(tl.bfloat16), mask=rows[:, None] < M)


@triton.jit
def attention(q, k, v, out, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Heads x N x D, contiguous, by descriptors over all heads together."""
    start = tl.program_id(0) * BM
    base = tl.program_id(1) * N
    rows = tl.num_programs(1) * N
    dq = tl.make_tensor_descriptor(q, [rows, D], [D, 1], [BM, D])
    dk = tl.make_tensor_descriptor(k, [rows, D], [D, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v, [rows, D], [D, 1], [BN, D])
    do = tl.make_tensor_descriptor(out, [rows, D], [D, 1], [BM, D])
    offs_m = start + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    tq = dq.load([base + start, 0])
    m_i = tl.full((BM,), -float("inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    qk_scale = scale * 1.4426950408889634
    # Below the diagonal nothing is masked.
    full = start if CAUSAL else N
    for n in range(0, full, BN):
        s = tl.dot(tq, dk.load([base + n, 0]).T)
        m_new = tl.maximum(m_i, tl.max(s, axis=1) * qk_scale)
        p = tl.exp2(s * qk_scale - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.bfloat16), dv.load([base + n, 0]), acc * alpha[:, None])
        m_i = m_new
    if CAUSAL:
        for n in range(start, start + BM, BN):
            s = tl.dot(tq, dk.load([base + n, 0]).T) * qk_scale
            s = tl.where(offs_m[:, None] >= (n + offs_n)[None, :], s, -float("inf"))
            m_new = tl.maximum(m_i, tl.max(s, axis=1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(m_i - m_new)
            l_i = l_i * alpha + tl.sum(p, axis=1)
            acc = tl.dot(p.to(tl.bfloat16), dv.load([base + n, 0]), acc * alpha[:, None])
            m_i = m_new
    do.store([base + start, 0], (acc / l_i[:, None]).to(tl.bfloat16))


@triton.jit
def attention_pointers(q, k, v, out, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """The same with pointers; one loop for all of it."""
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
        acc = tl.dot(p.to(tl.bfloat16), tl.load(v_ptrs), acc * alpha[:, None])
        m_i = m_new
        k_ptrs += BN * D
        v_ptrs += BN * D
    tl.store(out + base + offs_m[:, None] * D + offs_d[None, :], (acc / l_i[:, None]).to(tl.bfloat16))


@triton.jit
def gather_rows(x, index, out, M, COLS: tl.constexpr, ROWS: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, COLS], [COLS, 1], [1, COLS])
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(out + r.to(tl.int64)[:, None] * COLS + tl.arange(0, COLS)[None, :], desc.gather(tl.load(index + r), 0))


@triton.jit
def gather_rows_pointers(x, index, out, M, COLS: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    rows = tl.load(index + r).to(tl.int64)
    v = tl.load(x + rows[:, None] * COLS + c[None, :], mask=((rows >= 0) & (rows < M))[:, None], other=0.0)
    tl.store(out + r.to(tl.int64)[:, None] * COLS + c[None, :], v)


@triton.jit
def scatter_rows(x, index, out, M, COLS: tl.constexpr, ROWS: tl.constexpr):
    desc = tl.make_tensor_descriptor(out, [M, COLS], [COLS, 1], [1, COLS])
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    desc.scatter(tl.load(x + r.to(tl.int64)[:, None] * COLS + tl.arange(0, COLS)[None, :]), tl.load(index + r), 0)


@triton.jit
def scatter_rows_pointers(x, index, out, M, COLS: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    rows = tl.load(index + r).to(tl.int64)
    v = tl.load(x + r.to(tl.int64)[:, None] * COLS + c[None, :])
    tl.store(out + rows[:, None] * COLS + c[None, :], v, mask=((rows >= 0) & (rows < M))[:, None])
