"""Descriptors that each program makes for a matrix of its own: what it adds to the base is a leading dimension of one tensor map (passes/LiftBases.h)."""
import numpy as np
import pytest

import tegula
import tegula.language as tl


@tegula.jit
def attend(q, k, v, out, sqb, sqh, sqm, skb, skh, skn, svb, svh, svn, sob, soh, som, H, M, N, scale, D: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FORM: tl.constexpr):
    """One block of rows of a head; FORM: how head and batch are found."""
    row = tl.program_id(0) * BM
    if FORM == "axes":
        head = tl.program_id(1)
        batch = tl.program_id(2)
    else:
        head = tl.program_id(1) % H
        batch = tl.program_id(1) // H
    if FORM == "wide":
        batch = batch.to(tl.int64)
    kv = head // GROUP
    dq = tl.make_tensor_descriptor(q + batch * sqb + head * sqh, [M, D], [sqm, 1], [BM, D])
    dk = tl.make_tensor_descriptor(k + (batch * skb + kv * skh), [N, D], [skn, 1], [BN, D])
    dv = tl.make_tensor_descriptor(v + kv * svh + batch * svb, [N, D], [svn, 1], [BN, D])
    do = tl.make_tensor_descriptor(out + head * soh + batch * sob, [M, D], [som, 1], [BM, D])
    x = dq.load([row, 0])
    best = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, N, BN):
        s = tl.dot(x, dk.load([n, 0]).T) * scale
        s = tl.where((n + tl.arange(0, BN))[None, :] < N, s, float("-inf"))
        now = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        fade = tl.exp2(best - now)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), dv.load([n, 0]), acc * fade[:, None])
        best = now
    do.store([row, 0], (acc / total[:, None]).to(tl.float16))


def attention(q, k, v, scale):
    s = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64) * scale * np.log(2)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v.astype(np.float64)


@pytest.mark.parametrize("form", ["axes", "quotient", "wide"])
@pytest.mark.parametrize("order", ["bhmd", "bmhd"])
@pytest.mark.parametrize("sizes", [(2, 4, 2, 96, 160, 64, 64, 32), (1, 2, 1, 70, 33, 32, 64, 64)])
def test_attention_by_descriptors_of_a_head(dev, form, order, sizes):
    """Heads and batches in any order in memory; rows and keys in part: what lies behind a head is the next one."""
    B, H, G, M, N, D, BM, BN = sizes
    rng = np.random.default_rng(M)

    def made(heads, rows):
        x = rng.standard_normal((B, heads, rows, D)).astype(np.float16) if order == "bhmd" else rng.standard_normal((B, rows, heads, D)).astype(np.float16)
        return x, x if order == "bhmd" else x.transpose(0, 2, 1, 3)

    (q, qs), (k, ks), (v, vs), (out, outs) = made(H, M), made(G, N), made(G, N), made(H, M)
    strides = [s // 2 for x in (qs, ks, vs, outs) for s in x.strides[:3]]
    grid = (-(-M // BM), H, B) if form == "axes" else (-(-M // BM), H * B)
    before = out.copy()
    dev(attend, grid, q, k, v, out, *strides, H, M, N, 0.2, D=D, GROUP=H // G, BM=BM, BN=BN, FORM=form, num_warps=4)
    want = attention(qs, np.repeat(ks, H // G, 1), np.repeat(vs, H // G, 1), 0.2)
    np.testing.assert_allclose(outs.astype(np.float64), want, rtol=2e-2, atol=4e-3)
    assert before.shape == out.shape


@tegula.jit
def rows(x, out, s0, s1, n, first, B: tl.constexpr, C: tl.constexpr):
    """Rows in front of a matrix and behind it are zeros; they are not those of the matrices beside it."""
    i = tl.program_id(0)
    d = tl.make_tensor_descriptor(x + i * s0, [n, C], [s1, 1], [B, C])
    o = tl.make_tensor_descriptor(out + i * (B * C), [B, C], [C, 1], [B, C])
    o.store([0, 0], tl.dot(d.load([first, 0]), d.load([first, 0]).T).to(x.dtype.element_ty))


@pytest.mark.parametrize("first", [-5, 0, 7])
def test_bounds_are_those_of_the_matrix(dev, first):
    P, n, C, B = 3, 12, 32, 32
    x = np.random.default_rng(first + 9).standard_normal((P, n, C)).astype(np.float16)
    out = np.zeros((P, B, B), np.float16)
    dev(rows, (P,), x, out, n * C, C, n, first, B=B, C=C, num_warps=4)
    for i in range(P):
        tile = np.zeros((B, C))
        for r in range(B):
            if 0 <= first + r < n:
                tile[r] = x[i, first + r]
        np.testing.assert_allclose(out[i], tile @ tile.T, rtol=1e-2, atol=2e-2)


@tegula.jit
def backwards(x, out, s0, n, far, B: tl.constexpr, C: tl.constexpr):
    """A base that may lie in front of the argument, and one whose number nobody knows, stay pointers."""
    i = tl.program_id(0)
    j = tl.load(far + i)
    d = tl.make_tensor_descriptor(x + (i - 1) * s0, [n, C], [C, 1], [B, C])
    e = tl.make_tensor_descriptor(x + j * s0, [n, C], [C, 1], [B, C])
    o = tl.make_tensor_descriptor(out + i * (B * B), [B, B], [B, 1], [B, B])
    o.store([0, 0], tl.dot(d.load([0, 0]), e.load([0, 0]).T))


def test_numbers_that_may_be_negative(dev):
    P, C, B = 3, 32, 32
    x = np.random.default_rng(1).standard_normal((P + 1, B, C)).astype(np.float16)
    far = np.array([1, -1, 0], np.int32)
    out = np.zeros((P, B, B), np.float32)
    dev(backwards, (P,), x[1:], out, B * C, B, far, B=B, C=C, num_warps=4)
    for i in range(P):
        a, b = x[i].astype(np.float64), x[1 + far[i]].astype(np.float64)
        np.testing.assert_allclose(out[i], a @ b.T, rtol=1e-2, atol=2e-2)


@tegula.jit
def gathered(x, out, sb, sh, n, H, B: tl.constexpr, C: tl.constexpr):
    """Programs add to the rows of their head: atomically, some of them beyond its end."""
    i = tl.program_id(0)
    d = tl.make_tensor_descriptor(x + i * (B * C), [B, C], [C, 1], [B, C])
    o = tl.make_tensor_descriptor(out + i % H * sh + tl.program_id(1) * sb, [n, C], [C, 1], [B, C])
    o.atomic_add([i // H * (B // 2), 0], d.load([0, 0]))


def test_sums_of_a_head(dev):
    P, H, B, C, n = 6, 2, 16, 32, 28
    x = np.random.default_rng(4).integers(-9, 9, (P, B, C)).astype(np.float32)
    out = np.zeros((2, H, n, C), np.float32)
    dev(gathered, (P, 2), x, out, H * n * C, n * C, n, H, B=B, C=C, num_warps=4)
    want = np.zeros((H, n + B, C))
    for i in range(P):
        want[i % H, i // H * (B // 2):][:B] += x[i]
    assert (out == want[None, :, :n]).all()
