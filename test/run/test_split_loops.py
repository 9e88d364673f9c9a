"""tl.range(..., split=n): the iterations of a loop are shared by the CTAs of a cluster, and its sums put together behind it."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same

pytestmark = pytest.mark.section("1.3 tl.range")


@tegula.jit
def k_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, split=SPLIT):
        x = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] + k < K), other=0.0)
        y = tl.load(pb, mask=(rk[:, None] + k < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@tegula.jit
def k_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), split=SPLIT, warp_specialize=True):
        acc += tl.dot(da.load([m, k * BK]), db.load([k * BK, n]))
    dc.store([m, n], acc)


# Fewer iterations than parts, a rest of K, no iteration at all.
@pytest.mark.parametrize("split", [1, 2, 8, 16, "auto"])
@pytest.mark.parametrize("m, n, k, blocks", [(16, 128, 500, (16, 64, 32)), (16, 64, 64, (16, 64, 32)), (16, 64, 0, (16, 64, 32)), (130, 136, 520, (128, 128, 64))])
def test_matmul(split, m, n, k, blocks):
    check(k_matmul, split, m, n, k, blocks)


@pytest.mark.parametrize("split", [2, 4, "auto"])
@pytest.mark.parametrize("m, n, k, blocks", [(16, 128, 512, (16, 64, 64)), (136, 128, 328, (128, 128, 64))])
def test_descriptors(split, m, n, k, blocks):
    check(k_descriptors, split, m, n, k, blocks)


def check(kernel, split, m, n, k, blocks):
    rng = np.random.default_rng(k)
    a, b = rng.integers(-4, 5, (m, k)).astype(np.float16), rng.integers(-4, 5, (k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    bm, bn, bk = blocks
    kernel[(tegula.cdiv(m, bm), tegula.cdiv(n, bn))](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk, SPLIT=split)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32))


@tegula.jit
def k_several(x, y, out, n, m, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """A sum that starts from what was loaded, a maximum, a scalar, a counter and a pointer, all used behind the loop."""
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    bias = tl.load(y + cols)
    acc, best, total, count = bias, tl.full((BLOCK, ), -1000, tl.int32), 7, 3
    p = x + pid * m * n + cols
    for i in tl.range(0, m, split=SPLIT):
        v = tl.load(p) + i
        if tl.sum(v) % 2 == 0:
            acc += v * bias
        else:
            acc -= v
        best = tl.maximum(best, v)
        total += tl.sum(v)
        count += 5
        p += n
    o = out + pid * 4 * BLOCK + cols
    tl.store(o, acc)
    tl.store(o + BLOCK, best)
    tl.store(o + 2 * BLOCK, total + cols)
    tl.store(o + 3 * BLOCK, count + tl.load(p))


@pytest.mark.parametrize("split", [2, 8, "auto"])
@pytest.mark.parametrize("m", [0, 1, 3, 13, 40])
@pytest.mark.parametrize("block", [16, 128])
def test_several_carried_values(split, m, block):
    n = 130
    rng = np.random.default_rng(m)
    x, y = rng.integers(-9, 9, 2 * (m + 2) * n).astype(np.int32), rng.integers(-3, 3, block).astype(np.int32)
    want = []
    for g in range(2):
        rows = [x[(g * m + i) * n:][:block] + i for i in range(m)]
        acc = y.copy()
        for v in rows:
            acc = acc + v * y if v.sum() % 2 == 0 else acc - v
        best = np.max([np.full(block, -1000), *rows], axis=0)
        want += [acc, best, 7 + sum(v.sum() for v in rows) + np.arange(block), 3 + 5 * m + x[(g * m + m) * n:][:block]]
    out = np.zeros(8 * block, np.int32)
    k_several[(2, )](x, y, out, n, m, BLOCK=block, SPLIT=split)
    assert_same(out, np.concatenate(want).astype(np.int32))


@tegula.jit
def k_between(x, out, n, m, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """Pointers and counters are read between their steps, and behind them."""
    cols = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.int32)
    p = x + cols
    q = x + cols
    a = 5
    for i in tl.range(0, m, split=SPLIT):
        acc += tl.load(p) * a
        p += n
        acc -= tl.load(p)
        p += 3
        q += n
        a += 2
        acc += tl.load(p) * a + tl.load(q)
        a += 1
    tl.store(out + cols, acc)
    tl.store(out + BLOCK + cols, tl.load(p) + 10 * a + tl.load(q))


@pytest.mark.parametrize("split", [2, 8, "auto"])
@pytest.mark.parametrize("m", [0, 1, 7, 21])
def test_values_between_steps(split, m):
    n, block = 130, 64
    x = np.random.default_rng(m).integers(-9, 9, (m + 2) * (n + 3) + block).astype(np.int32)
    acc, p, q, a = np.zeros(block, np.int32), 0, 0, 5
    for _ in range(m):
        acc += x[p:][:block] * a - x[p + n:][:block]
        p += n + 3
        q += n
        acc += x[p:][:block] * (a + 2) + x[q:][:block]
        a += 3
    out = np.zeros(2 * block, np.int32)
    k_between[(1, )](x, out, n, m, BLOCK=block, SPLIT=split)
    assert_same(out, np.concatenate([acc, x[p:][:block] + 10 * a + x[q:][:block]]).astype(np.int32))


@tegula.jit
def k_backwards(x, out, m, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """A loop inside, steps down, and a second loop that reads the sum of the first."""
    cols = tl.arange(0, BLOCK)
    a, b = tl.zeros((BLOCK, ), tl.int32), tl.zeros((BLOCK, ), tl.int32)
    for i in tl.range(m, 2, -3, split=SPLIT):
        for j in range(0, 2):
            a += tl.load(x + cols + i + j)
        b = b ^ (cols * i)
    s = tl.sum(a)
    for i in tl.range(0, m, split=SPLIT):
        a += s * tl.load(x + cols + i)
    tl.store(out + cols, a)
    tl.store(out + BLOCK + cols, b)


@pytest.mark.parametrize("split", [2, 4, 16])
@pytest.mark.parametrize("m", [0, 3, 8, 41])
def test_backwards_and_twice(split, m):
    block = 64
    x = np.random.default_rng(m).integers(-9, 9, 200).astype(np.int32)
    a, b, cols = np.zeros(block, np.int32), np.zeros(block, np.int32), np.arange(block, dtype=np.int32)
    for i in range(m, 2, -3):
        a += x[i:][:block] + x[i + 1:][:block]
        b ^= cols * np.int32(i)
    s = a.sum()
    for i in range(m):
        a += (s * x[i:][:block]).astype(np.int32)
    out = np.zeros(2 * block, np.int32)
    k_backwards[(1, )](x, out, m, BLOCK=block, SPLIT=split)
    assert_same(out, np.concatenate([a, b]))


def test_the_grid_says_how_many():
    a, b, c = np.ones((16, 512), np.float16), np.ones((512, 64), np.float16), np.zeros((16, 64), np.float32)
    launch = lambda programs, split: k_matmul[(programs, )](a, b, c, 16, 64, 512, BM=16, BN=64, BK=64, SPLIT=split, device="sim").info()["cluster_ctas"]
    assert [launch(n, "auto") for n in (1, 16, 17, 33, 66, 67)] == [8, 8, 4, 4, 2, 1]
    assert [launch(n, 4) for n in (1, 67)] == [4, 4]
    assert (c == 512).all()
