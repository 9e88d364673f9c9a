"""Decoding: one query a sequence against a cache of pages, in parts of the keys that a second kernel joins; and gemv."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def decode_part(Q, K, V, pages, lengths, part_out, part_lse, sm_scale, max_pages, HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, SPLITS: tl.constexpr,
                BN: tl.constexpr, BH: tl.constexpr):
    """Keys of one part of a sequence for the query heads of one KV head; a page holds PAGE tokens of all KV heads."""
    batch = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    GROUP: tl.constexpr = HQ // HK
    length = tl.load(lengths + batch)
    per_split = tl.cdiv(tl.cdiv(length, SPLITS), BN) * BN
    begin = split * per_split
    end = tl.minimum(begin + per_split, length)
    heads = kv_head * GROUP + tl.arange(0, BH)
    head_mask = tl.arange(0, BH) < GROUP
    d = tl.arange(0, D)
    q = tl.load(Q + batch * HQ * D + heads[:, None] * D + d[None, :], mask=head_mask[:, None], other=0.0)
    m_i = tl.full([BH], float("-inf"), tl.float32)
    l_i = tl.zeros([BH], tl.float32)
    acc = tl.zeros([BH, D], tl.float32)
    for start in range(begin, end, BN):
        n = start + tl.arange(0, BN)
        live = n < end
        page = tl.load(pages + batch * max_pages + n // PAGE, mask=live, other=0).to(tl.int64)
        row = (page * PAGE + n % PAGE) * HK + kv_head
        k = tl.load(K + row[None, :] * D + d[:, None], mask=live[None, :], other=0.0)
        s = tl.dot(q, k) * (sm_scale * 1.44269504)
        s = tl.where(live[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + row[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
    if end > begin:
        out = acc / l_i[:, None]
        lse = m_i + tl.log2(l_i)
    else:
        out = acc
        lse = m_i
    at = (batch * HQ + heads) * SPLITS + split
    tl.store(part_out + at[:, None] * D + d[None, :], out, mask=head_mask[:, None])
    tl.store(part_lse + at, lse, mask=head_mask)


@triton.jit
def decode_join(part_out, part_lse, Out, SPLITS: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    lse = tl.load(part_lse + row * SPLITS + s)
    top = tl.max(lse, 0)
    w = tl.exp2(lse - top)
    parts = tl.load(part_out + (row * SPLITS + s)[:, None] * D + d[None, :])
    out = tl.sum(parts * w[:, None], 0) / tl.sum(w, 0)
    tl.store(Out + row * D + d, out.to(Out.dtype.element_ty))


@triton.jit
def gemv(w_ptr, x_ptr, y_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
    """y = w @ x, w N x K: a tile of rows at a time, summed once at the end."""
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BN, BK), tl.float32)
    for k in range(0, K, BK):
        mask = k + rk < K
        x = tl.load(x_ptr + k + rk, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + rn[:, None].to(tl.int64) * K + (k + rk)[None, :], mask=(rn[:, None] < N) & mask[None, :], other=0.0).to(tl.float32)
        acc += w * x[None, :]
    tl.store(y_ptr + rn, tl.sum(acc, axis=1).to(y_ptr.dtype.element_ty), mask=rn < N)


def lengths_of(s):
    return [max(1, s.N - (b * 61) % max(1, s.N // 2)) for b in range(s.B)]


def inputs(m, s, t):
    pages = cdiv(s.N, s.PAGE)
    cache = (s.B * pages, s.PAGE, s.HK, s.D)
    splits = 16
    return dict(q=m.normal((s.B, s.HQ, s.D), t), k=m.normal(cache, t), v=m.normal(cache, t), pages=m.permutation(s.B * pages).reshape(s.B, pages), lengths=m.array(lengths_of(s)),
                part_out=m.empty((s.B, s.HQ, splits, s.D), "fp32"), part_lse=m.empty((s.B, s.HQ, splits), "fp32"), out=m.empty((s.B, s.HQ, s.D), t))


def reference(x, a, s):
    group, out = s.HQ // s.HK, []
    for b, n in enumerate(lengths_of(s)):
        k, v = (x.swapaxes(t[x.long(a.pages[b])].reshape(-1, s.HK, s.D)[:n], 0, 1) for t in (a.k, a.v))
        q = a.q[b].reshape(s.HK, group, s.D)
        out.append((x.softmax(q @ x.swapaxes(k, 1, 2) * s.D**-0.5) @ v).reshape(s.HQ, s.D))
    return x.stack(out, axis=0)


paged = Entry("paged decode", inputs=inputs, outputs=("out",), reference=reference, small=shapes("B HQ HK N D PAGE", (3, 4, 2, 100, 32, 16)), dtypes=("bf16", "fp16"),
              shapes=shapes("B HQ HK N D PAGE", (64, 32, 8, 4096, 128, 16), (1, 32, 8, 32768, 128, 64), (16, 64, 8, 8192, 128, 16)),
              bytes=lambda s, e: 2 * e * sum(lengths_of(s)) * s.HK * s.D)


@paged.spelling("split KV, joined by a second kernel", configs("BN SPLITS num_warps num_stages", (16, 2, 4, 2), (64, 8, 4, 3), (32, 16, 4, 4), (128, 4, 8, 2), (64, 1, 4, 3)))
def _(a, s, c):
    group = max(16, next_power_of_2(s.HQ // s.HK))
    return [Launch(decode_part, (s.B, s.HK, c.SPLITS), (a.q, a.k, a.v, a.pages, a.lengths, a.part_out, a.part_lse, s.D**-0.5, a.pages.shape[1]), HQ=s.HQ, HK=s.HK, D=s.D, PAGE=s.PAGE,
                   BH=group, **vars(c)),
            Launch(decode_join, (s.B * s.HQ,), (a.part_out, a.part_lse, a.out), SPLITS=c.SPLITS, D=s.D, num_warps=4)]


vector = Entry("matrix times vector", inputs=lambda m, s, t: dict(w=m.normal((s.N, s.K), t), x=m.normal((s.K,), t), y=m.empty((s.N,), t)), outputs=("y",), reference=lambda x, a, s: a.w @ a.x,
               shapes=shapes("N K", (8192, 8192), (128256, 4096), (4096, 14336)), small=shapes("N K", (44, 200)), dtypes=("bf16", "fp32"), bytes=lambda s, e: s.N * s.K * e,
               library=lambda torch, a, s: torch.mv(a.w, a.x))


@vector.spelling("rows", configs("BN BK num_warps", (16, 64, 4), (1, 2048, 4), (4, 1024, 4), (16, 256, 4), (8, 1024, 8), (32, 128, 4)))
def _(a, s, c):
    return Launch(gemv, (cdiv(s.N, c.BN),), (a.w, a.x, a.y, s.N, s.K), **vars(c))
