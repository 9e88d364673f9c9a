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
