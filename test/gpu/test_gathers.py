"""A producer whose threads copy (SpecializeWarps.h): attention by pointers, whose tiles no descriptor can name."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def attention(Q, K, V, Out, starts, scale, stride, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Sequences behind each other; where one begins is loaded."""
    begin = tl.load(starts + tl.program_id(1))
    length = tl.load(starts + tl.program_id(1) + 1) - begin
    first = tl.program_id(0) * BM
    rows = first + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(Q + (begin + rows)[:, None] * stride + d[None, :], mask=rows[:, None] < length, other=0.0)
    q = (q * scale).to(q.dtype)
    top = tl.full([BM], -1e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, length, BN):
        where = n + columns
        k = tl.load(K + (begin + where)[None, :] * stride + d[:, None], mask=where[None, :] < length, other=0.0)
        s = tl.where(where[None, :] < length, tl.dot(q, k), -1e30)
        if CAUSAL:
            s = tl.where(rows[:, None] >= where[None, :], s, -1e30)
        now = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        alpha = tl.exp2(top - now)
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(V + (begin + where)[:, None] * stride + d[None, :], mask=where[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = now
    tl.store(Out + (begin + rows)[:, None] * stride + d[None, :], (acc / total[:, None]).to(Out.dtype.element_ty), mask=rows[:, None] < length)


def compiled(D, BN, CAUSAL=False, warps=8):
    a = np.zeros((256, D), np.float16)
    starts = np.array([0, 256], np.int32)
    kernel = attention.warmup(a, a, a, np.zeros_like(a), starts, 0.1, D, 128, BN, D, CAUSAL, grid=(2, 1), device="sim", num_warps=warps, num_stages=2)
    return kernel.compile_for("sm_90a").stage("ptx")


@pytest.mark.parametrize("D,BN", [(128, 128), (128, 64), (256, 64)])
def test_path(D, BN):
    ptx = compiled(D, BN)
    # One thread says for each of its copies of an iteration that they are there; nobody waits for a group.
    assert ptx.count("cp.async.mbarrier.arrive.noinc") >= 1 and "setmaxnreg.dec.sync.aligned.u32 88" in ptx and "setmaxnreg.inc.sync.aligned.u32 208" in ptx
    producer, consumer = ptx.split("setmaxnreg.inc")
    assert "cp.async.cg" in producer and "wgmma" not in producer
    # Queries are stored to shared memory once, so no iteration meets: between the first product and the last one there is no barrier.
    products = consumer[consumer.index("wgmma.mma_async"):consumer.rindex("wgmma.mma_async")]
    assert not re.search(r"bar(rier)?\.sync", products)


def test_where_it_costs():
    """Exponentials take longer than products of 64 columns, under masks; two blocks of four warps are each other's producers."""
    assert "cp.async.mbarrier" not in compiled(64, 128, CAUSAL=True)
    assert "cp.async.mbarrier" not in compiled(64, 64)
    assert "cp.async.mbarrier" not in compiled(128, 64, warps=4)


@pytest.mark.parametrize("D,BN,CAUSAL", [(128, 128, False), (128, 64, True), (256, 64, False)])
def test_results(D, BN, CAUSAL):
    starts = np.array([0, 200, 200, 456, 457], np.int32)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((int(starts[-1]), D)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    attention[(2, len(starts) - 1)](q, k, v, out, starts, 1.4426950408889634 * D**-0.5, D, 128, BN, D, CAUSAL, device="sim", num_warps=8, num_stages=2)
    for a, b in zip(starts[:-1], starts[1:]):
        s = q[a:b].astype(np.float64) @ k[a:b].astype(np.float64).T * D**-0.5
        if CAUSAL:
            s = np.where(np.tri(b - a, dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True)) if b > a else s
        want = p @ v[a:b].astype(np.float64) / p.sum(1, keepdims=True)
        np.testing.assert_allclose(out[a:b].astype(np.float64), want, atol=6e-3)


@tegula.jit
def step(q, k, v, valid, top, total, acc):
    s = tl.where(valid, tl.dot(q, k), -1e30)
    now = tl.maximum(top, tl.max(s, 1))
    p = tl.exp2(s - now[:, None])
    alpha = tl.exp2(top - now)
    return now, total * alpha + tl.sum(p, 1), tl.dot(p.to(v.dtype), v, acc * alpha[:, None])


@tegula.jit
def paged(Q, K, V, Kc, Vc, Out, starts, prefixes, pages, scale, count, most, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, WAY: tl.constexpr):
    """A search for the sequence; programs beyond its end return; a prefix by pages if there is one; then new keys, transposed."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts + middle) // BM + middle <= tl.program_id(0):
            low = middle + 1
        else:
            high = middle
    sequence = low - 1
    begin = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - begin
    first = (tl.program_id(0) - begin // BM - sequence) * BM
    if first >= length:
        return
    rows = first + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(Q + (begin + rows)[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    q = (q * scale).to(q.dtype)
    top = tl.full([BM], -1e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    prefix = tl.load(prefixes + sequence)
    if WAY == 1:  # what a row holds decides: no scalar arithmetic
        prefix = tl.max(tl.where(tl.arange(0, 16) == 0, prefix, 0), 0)
    if prefix > 0:
        for n in range(0, prefix, BN):
            where = n + columns
            page = tl.load(pages + sequence * most + where // PAGE, mask=where < prefix, other=0)
            at = page * PAGE + where % PAGE
            k = tl.load(Kc + at[None, :] * D + d[:, None], mask=where[None, :] < prefix, other=0.0)
            v = tl.load(Vc + at[:, None] * D + d[None, :], mask=where[:, None] < prefix, other=0.0)
            top, total, acc = step(q, k, v, where[None, :] < prefix, top, total, acc)
    tl.debug_barrier()
    for n in range(0, tl.minimum(first + BM, length), BN):
        where = n + columns
        k = tl.load(K + (begin + where)[:, None] * D + d[None, :], mask=where[:, None] < length, other=0.0)
        v = tl.load(V + (begin + where)[:, None] * D + d[None, :], mask=where[:, None] < length, other=0.0)
        if WAY == 2:  # a product in a branch of the loop
            if n < 256:
                top, total, acc = step(q, tl.trans(k), v, rows[:, None] >= where[None, :], top, total, acc)
        else:
            top, total, acc = step(q, tl.trans(k), v, rows[:, None] >= where[None, :], top, total, acc)
    tl.store(Out + (begin + rows)[:, None] * D + d[None, :], (acc / total[:, None]).to(Out.dtype.element_ty), mask=rows[:, None] < length)


def pages_of(D, BN, way=0, run=False, warps=8, stage="ptx"):
    """Four sequences; the third has no new tokens, the second no prefix."""
    starts = np.array([0, 200, 330, 330, 331], np.int32)
    prefixes = np.array([70, 0, 40, 257], np.int32)
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((int(starts[-1]), D)).astype(np.float16) for _ in range(3))
    pages = rng.permutation(4 * 17).astype(np.int32).reshape(4, 17)
    kc, vc = (rng.standard_normal((pages.size * 16, D)).astype(np.float16) for _ in range(2))
    out = np.zeros_like(q)
    args = (q, k, v, kc, vc, out, starts, prefixes, pages, 1.4426950408889634 * D**-0.5, 4, 17, 128, BN, D, 16, way)
    grid = (int(starts[-1]) // 128 + 4,)
    if not run:
        return paged.warmup(*args, grid=grid, device="sim", num_warps=warps, num_stages=2).compile_for("sm_90a").stage(stage)
    paged[grid](*args, device="sim", num_warps=8, num_stages=2)
    for i, (a, b) in enumerate(zip(starts[:-1], starts[1:])):
        n = prefixes[i]
        at = (pages[i][np.arange(n) // 16] * 16 + np.arange(n) % 16).astype(int)
        keys, values = (np.concatenate([c[at], t[a:b]]).astype(np.float64) for c, t in ((kc, k), (vc, v)))
        s = q[a:b].astype(np.float64) @ keys.T * D**-0.5
        s = np.where(np.arange(b - a)[:, None] + n >= np.arange(n + b - a)[None, :], s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True)) if b > a else s
        np.testing.assert_allclose(out[a:b].astype(np.float64), p @ values / p.sum(1, keepdims=True), atol=6e-3)


@pytest.mark.parametrize("BN", [64, 128])
def test_branches(BN):
    """All threads go the same way: so does the producer, which searches and loads the pages itself, for keys and for values, and both loops share their stages."""
    ptx = pages_of(128, BN)
    assert ptx.count("cp.async.mbarrier.arrive.noinc") == 2 * (BN // 64) and ptx.count("mbarrier.init") <= 8  # of two stages keys and values have their own
    # What threads of the kernel would exchange, each of the producer's loads: pages for keys and for values, of which a thread copies one row in eight.
    pages = ptx[ptx.index("setmaxnreg.dec"):ptx.index("cp.async.cg")]
    assert pages.count("ld.global.b32") >= BN // 8 and not re.search(r"bar(rier)?\.sync", ptx[ptx.index("cp.async.cg"):ptx.index("cp.async.mbarrier")])


@pytest.mark.parametrize("warps,loops", [(4, 2), (8, 0)])
def test_dots_by_pages_run_ahead_without_a_producer(warps, loops):
    """Both loops carry scores then (RotateDots.h)."""
    assert len(re.findall(r" = for [^\n]*tensor<128x32xf32", pages_of(128, 32, warps=warps, stage="gpu"))) == loops


@pytest.mark.parametrize("way", [1, 2])
def test_branches_without(way):
    assert "cp.async.mbarrier" not in pages_of(128, 64, way)


@pytest.mark.parametrize("D,BN,way", [(128, 64, 0), (128, 128, 0), (128, 64, 1), (128, 64, 2)])
def test_results_of_branches(D, BN, way):
    pages_of(D, BN, way, run=True)
