"""§3.5 dot: operands that several dots of a loop read in different ways, tiles wider than they are high, dots by multiply-adds of many sizes. Inputs are small
integers, so that every product and sum is exact in every order and results are compared bit by bit."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d

pytestmark = pytest.mark.section("3.5 dot")


def integers(shape, most, t, seed=0):
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(d(t).np)


@tegula.jit
def backward(q, k, v, do, dk, dv, dq, T, BT: tl.constexpr, K: tl.constexpr, CAUSAL: tl.constexpr, WITH_DQ: tl.constexpr):
    """Of attention: each of q and do is read by one dot as it is and by another one transposed."""
    o_k, o_d = tl.arange(0, BT), tl.arange(0, K)
    b_k = tl.load(k + o_k[:, None] * K + o_d[None, :])
    b_v = tl.load(v + o_k[:, None] * K + o_d[None, :])
    b_dk = tl.zeros([BT, K], dtype=tl.float32)
    b_dv = tl.zeros([BT, K], dtype=tl.float32)
    for i in range(0, T, BT):
        o_q = i + tl.arange(0, BT)
        m_q = o_q < T
        b_q = tl.load(q + o_q[:, None] * K + o_d[None, :], mask=m_q[:, None], other=0.0)
        b_do = tl.load(do + o_q[:, None] * K + o_d[None, :], mask=m_q[:, None], other=0.0)
        b_s = tl.dot(b_k, tl.trans(b_q))
        seen = m_q[None, :]
        if CAUSAL:
            seen = seen & (o_k[:, None] <= o_q[None, :])
        b_p = tl.where(seen, b_s, 0)
        b_dv += tl.dot(b_p.to(b_do.dtype), b_do)
        b_dp = tl.dot(b_v, tl.trans(b_do))
        b_ds = (b_p * b_dp).to(b_q.dtype)
        b_dk += tl.dot(b_ds, b_q)
        if WITH_DQ:
            tl.store(dq + o_q[:, None] * K + o_d[None, :], tl.dot(tl.trans(b_ds), b_k), mask=m_q[:, None])
    tl.store(dk + o_k[:, None] * K + o_d[None, :], b_dk)
    tl.store(dv + o_k[:, None] * K + o_d[None, :], b_dv)


def tf32(x):
    """What the tensor cores see of a float32."""
    return (x.view(np.uint32) & np.uint32(0xffffe000)).view(np.float32)


@pytest.mark.parametrize("t, tile, stages, warps, causal, with_dq", [
    ("float32", (64, 64), 1, 4, False, False),
    ("float32", (64, 64), 3, 4, False, False),
    ("float32", (64, 64), 3, 8, True, True),
    ("float32", (64, 32), 2, 4, True, False),
    ("float32", (32, 64), 3, 4, False, True),
    ("float32", (32, 32), 4, 1, True, False),
    ("float32", (16, 32), 2, 2, False, False),
    ("float16", (64, 64), 3, 4, True, True),
    ("float16", (64, 32), 4, 4, False, False),
    ("float16", (32, 64), 2, 2, True, False),
    ("bfloat16", (64, 64), 2, 8, False, True),
    ("bfloat16", (64, 128), 2, 4, True, False),
    ("bfloat16", (16, 16), 3, 1, False, False),
])
def test_backward_of_attention(dev, t, tile, stages, warps, causal, with_dq):
    (bt, width), steps = tile, 2
    length = bt * steps
    q, do = (integers((length, width), 1, t, s) for s in (1, 2))
    k, v = (integers((bt, width), 1, t, s) for s in (3, 4))
    dk, dv, dq = np.zeros((bt, width), np.float32), np.zeros((bt, width), np.float32), np.zeros((length, width), np.float32)
    dev(backward, (1,), q, k, v, do, dk, dv, dq, length, bt, width, causal, with_dq, num_stages=stages, num_warps=warps)
    wide = lambda x: x.astype(np.float32)
    narrow = lambda x: tf32(x) if t == "float32" and dev.name != "cpu" else wide(x.astype(d(t).np))
    p = wide(k) @ wide(q).T
    if causal:
        p = np.where(np.arange(bt)[:, None] <= np.arange(length)[None, :], p, np.float32(0))
    ds = narrow(p * (wide(v) @ wide(do).T))
    assert_same(dv, narrow(p) @ wide(do))
    assert_same(dk, ds @ wide(q))
    if with_dq:
        assert_same(dq, ds.T @ wide(k))


@tegula.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr, A_BY_COLUMNS: tl.constexpr,
           B_BY_COLUMNS: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    rows = BM * tl.num_programs(0)
    acc = tl.zeros((BM, BN), ACC)
    for i in range(0, K, BK):
        x = tl.load(a + (k[None, :] + i) * rows + m[:, None] if A_BY_COLUMNS else a + m[:, None] * K + k[None, :] + i)
        y = tl.load(b + n[None, :] * K + k[:, None] + i if B_BY_COLUMNS else b + (k[:, None] + i) * N + n[None, :])
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=ACC)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def check_matmul(dev, t, tile, stages, warps, precision=None, by_columns=(False, False), steps=2, programs=1):
    bm, bn, bk = tile
    acc = {"int8": "int32", "float64": "float64"}.get(t, "float32")
    a, b = integers((bm * programs, bk * steps), 2, t, 5), integers((bk * steps, bn), 2, t, 6)
    c = np.zeros((bm * programs, bn), d(acc).np)
    order = lambda x, by: np.ascontiguousarray(x.T) if by else x
    dev(matmul, (programs,), order(a, by_columns[0]), order(b, by_columns[1]), c, bn, bk * steps, bm, bn, bk, getattr(tl, acc), precision, *by_columns,
        num_stages=stages, num_warps=warps)
    assert_same(c, (a.astype(np.float64) @ b.astype(np.float64)).astype(c.dtype))


@pytest.mark.parametrize("t, tile, stages, warps", [
    ("float32", (64, 512, 32), 2, 4),
    ("float32", (64, 512, 32), 1, 4),
    ("float32", (64, 512, 16), 3, 8),
    ("float32", (16, 512, 32), 2, 2),
    ("float32", (512, 64, 32), 2, 4),
    ("float16", (64, 512, 32), 2, 4),
    ("float16", (64, 1024, 16), 2, 4),
    ("bfloat16", (16, 1024, 32), 3, 2),
    ("int8", (64, 512, 64), 2, 4),
    ("float8e5", (64, 1024, 32), 2, 4),
])
def test_wide_tiles(dev, t, tile, stages, warps):
    """Threads then hold more elements across the rows of B than in the vectors that are loaded."""
    check_matmul(dev, t, tile, stages, warps)


@pytest.mark.parametrize("t, tile, warps, by_columns", [
    ("float32", (64, 64, 32), 4, (False, False)),
    ("float32", (64, 64, 32), 4, (True, True)),
    ("float32", (128, 64, 16), 8, (True, False)),
    ("float32", (32, 128, 64), 2, (False, True)),
    ("float32", (16, 16, 256), 1, (False, False)),
    ("float32", (128, 256, 8), 8, (False, False)),
    ("float64", (64, 64, 16), 4, (False, False)),
    ("float64", (32, 32, 64), 4, (True, True)),
    ("int8", (8, 64, 128), 1, (False, False)),
    ("float16", (8, 64, 128), 1, (False, True)),
    ("bfloat16", (4, 128, 64), 2, (False, False)),
    ("float16", (64, 4, 64), 1, (True, False)),
    ("float8e5", (8, 32, 128), 1, (False, False)),
])
def test_multiply_adds(dev, t, tile, warps, by_columns):
    """Without tensor cores: no type of theirs, or too small for them. With one stage, and with copies ahead."""
    for stages in (1, 3):
        check_matmul(dev, t, tile, stages, warps, "ieee", by_columns, programs=2)


@tegula.jit
def batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, m, n, k = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(c + i * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(x, y, input_precision="ieee"))


@pytest.mark.parametrize("shape", [(4, 16, 32, 64), (2, 64, 16, 32), (8, 8, 8, 128)])
def test_multiply_adds_of_batches(dev, shape):
    n, rows, columns, depth = shape
    a, b = integers((n, rows, depth), 2, "float32", 7), integers((n, depth, columns), 2, "float32", 8)
    c = np.zeros((n, rows, columns), np.float32)
    dev(batched, (1,), a, b, c, n, rows, columns, depth)
    assert_same(c, a @ b)


@tegula.jit
def chained(a, b, c, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * K + k[None, :])
    for _ in range(2):
        x = tl.dot(x, y, input_precision="ieee") - x
    tl.store(c + m[:, None] * K + k[None, :], tl.dot(x, tl.trans(x), input_precision="ieee") if M == K else x)


@pytest.mark.parametrize("m, k", [(32, 64), (64, 64)])
def test_multiply_adds_of_results(dev, m, k):
    """Operands that are computed in the loop."""
    a, b = integers((m, k), 1, "float32", 9), integers((k, k), 1, "float32", 10)
    c = np.zeros((m, k), np.float32)
    dev(chained, (1,), a, b, c, m, k)
    x = a
    for _ in range(2):
        x = x @ b - x
    assert_same(c, x @ x.T if m == k else x)
