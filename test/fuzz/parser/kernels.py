"""The kernels of the CPU benchmark: ordinary tile kernels, as a user would write them."""
import tegula
import tegula.language as tl


@tegula.jit
def empty0():
    pass


@tegula.jit
def empty19(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18):
    pass


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)
    b = tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, a + b, mask=mask)


@tegula.jit
def softmax(x, out, row_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    v = tl.load(x + row * row_stride + offsets, mask=mask, other=-float("inf"))
    v = v - tl.max(v, axis=0)
    e = tl.exp(v)
    tl.store(out + row * row_stride + offsets, e / tl.sum(e, axis=0), mask=mask)


@tegula.jit
def layer_norm(x, w, b, out, row_stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    v = tl.load(x + row * row_stride + offsets, mask=mask, other=0.0)
    mean = tl.sum(v, axis=0) / cols
    d = tl.where(mask, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / cols + eps)
    scale = tl.load(w + offsets, mask=mask)
    shift = tl.load(b + offsets, mask=mask)
    tl.store(out + row * row_stride + offsets, d * rstd * scale + shift, mask=mask)


@tegula.jit
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
    tl.store(c + rows[:, None] * stride_cm + cols[None, :] * stride_cn, acc,
             mask=(rows[:, None] < M) & (cols[None, :] < N))


@tegula.jit
def attention(q, k, v, out, scale, N, stride_h, stride_n,
              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * stride_h
    offs_m = start * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    tq = tl.load(q + base + offs_m[:, None] * stride_n + offs_d[None, :]) * (scale * 1.44269504)
    m_i = tl.full((BM,), -float("inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = (start + 1) * BM if CAUSAL else N
    for n in range(0, end, BN):
        tk = tl.load(k + base + (n + offs_n)[:, None] * stride_n + offs_d[None, :])
        s = tl.dot(tq, tl.trans(tk))
        if CAUSAL:
            s = tl.where(offs_m[:, None] >= (n + offs_n)[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        alpha = tl.exp2(m_i - m_new)
        p = tl.exp2(s - m_new[:, None])
        tv = tl.load(v + base + (n + offs_n)[:, None] * stride_n + offs_d[None, :])
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p, tv, acc * alpha[:, None])
        m_i = m_new
    tl.store(out + base + offs_m[:, None] * stride_n + offs_d[None, :], acc / l_i[:, None])
