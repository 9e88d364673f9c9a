"""Loops whose tiles come through rings of every size: few slots, copies that overwrite what the last iteration read, more iterations ahead than there
are. §3.3, §3.5, §1.8."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close, assert_same

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr):
    """c = a b^T, whole tiles."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    rows, columns, depth = m + tl.arange(0, BM), n + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        if TMA:
            acc = tl.dot(ad.load([m, k]), bd.load([n, k]).T, acc)
        else:
            x = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
            acc = tl.dot(x, tl.load(b + columns[None, :] * K + (k + depth)[:, None]), acc)
    tl.store(c + rows[:, None] * N + columns[None, :], acc)


@pytest.mark.parametrize("tma", [False, True])
@pytest.mark.parametrize("k", [64, 192, 448])
@pytest.mark.parametrize("block, warps", [((64, 64, 64), 4), ((128, 128, 64), 4), ((128, 64, 64), 8), ((128, 128, 128), 8)])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_product(dev, tma, k, block, warps, stages):
    m, n, k = 2 * block[0], block[1], -(-k // block[2]) * block[2]
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    dev(product, (2, 1), a, b, c, m, n, k, *block, tma, num_warps=warps, num_stages=stages)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32).T)


@tegula.jit
def product_of_made(gate, up, bias, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr):
    """c = a b^T, a made in the loop of two tiles and a row, of one tile (of 32 bits; by a descriptor), or of one that lies the other way round."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    if KIND == "described":
        described = tl.make_tensor_descriptor(gate, [M, K], [K, 1], [BM, BK])
    for i in range(0, K, BK):
        inside = (m[:, None] < M) & (i + k[None, :] < K)
        w = tl.load(b + n[None, :] * K + (i + k)[:, None], mask=(i + k)[:, None] < K, other=0)
        if KIND == "columns":
            x = tl.maximum(tl.load(gate + (i + k)[None, :] * M + m[:, None], mask=inside, other=0), 0)
        elif KIND == "described":
            x = tl.maximum(described.load([tl.program_id(0) * BM, i]), 0)
        else:
            x = tl.load(gate + m[:, None] * K + (i + k)[None, :], mask=inside, other=0)
            if KIND == "two":
                x = x * x + tl.load(up + m[:, None] * K + (i + k)[None, :], mask=inside, other=0) * tl.load(bias + i + k, mask=i + k < K, other=0)[None, :]
            else:
                x = tl.where(x > 0, x, 2 * x).to(w.dtype)
        acc = tl.dot(x, w, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


# Asynchronous dots take what is made from registers where the warps of one share no rows (the last block).
@pytest.mark.parametrize("kind", ["two", "one", "words", "described", "columns"])
@pytest.mark.parametrize("k", [64, 200, 448])
@pytest.mark.parametrize("block, warps, stages", [((64, 64, 64), 4, 3), ((128, 128, 64), 8, 3), ((128, 64, 32), 4, 4), ((64, 128, 64), 4, 2), ((64, 128, 64), 8, 3)])
def test_made_in_the_loop(dev, kind, k, block, warps, stages):
    rows, n = 2 * block[0] - 8, block[1]
    rng = np.random.default_rng(k)
    a, up, b = (rng.integers(-3, 4, (size, k)).astype(np.float16) for size in (rows, rows, n))
    bias = rng.integers(-3, 4, k).astype(np.float16)
    c = np.zeros((rows, n), np.float32)
    dev(product_of_made, (2, 1), a.T.copy() if kind == "columns" else a.astype(np.float32) if kind == "words" else a, up, bias, b, c, rows, n, k, *block, kind, num_warps=warps, num_stages=stages)
    made = {"two": a * a + up * bias, "one": np.where(a > 0, a, 2 * a)}.get("one" if kind == "words" else kind, np.maximum(a, 0))
    assert_same(c, made.astype(np.float32) @ b.astype(np.float32).T)


@tegula.jit
def product_by_boxes(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b, tiles that take several copies by TMA, which warps share."""
    m = tl.program_id(0) * BM
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([m, k]), bd.load([k, 0]), acc)
    tl.store(c + (m + tl.arange(0, BM))[:, None] * N + tl.arange(0, BN)[None, :], acc)


# Boxes of the two tiles, with rows and columns that lie outside of the tensors: 1 and 4; 2 and 1; 8 and 2; 4 and 16 (two of 256 rows in each column of boxes).
@pytest.mark.parametrize("block", [(64, 256, 32), (64, 64, 128), (64, 128, 512), (16, 512, 256)])
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_warps_share_boxes(dev, block, warps, stages):
    m, n, k = 2 * block[0] - 8, block[1], 2 * block[2] + 16
    if 2 * block[2] * (block[0] + block[1]) > 200000 // stages or (stages > 1 and block[2] > 128):
        pytest.skip("more shared memory than there is")
    rng = np.random.default_rng(k)
    a, b = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(-3, 4, (k, n)).astype(np.float16)
    c = np.zeros((2 * block[0], n), np.float32)
    dev(product_by_boxes, (2, 1), a, b, c, m, n, k, *block, num_warps=warps, num_stages=stages)
    assert_same(c[:m], a.astype(np.float32) @ b.astype(np.float32))


@tegula.jit
def constant_depth(a, b, c, tiles, K: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """c = a b^T, as many iterations as constants say, for one tile after the other."""
    columns, depth = tl.arange(0, BM), tl.arange(0, BK)
    for i in range(tiles):
        rows = i * BM + columns
        acc = tl.zeros([BM, BM], tl.float32)
        for k in range(0, K, BK):
            x = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
            acc = tl.dot(x, tl.load(b + columns[None, :] * K + (k + depth)[:, None]), acc)
        tl.store(c + rows[:, None] * BM + columns[None, :], acc)


@pytest.mark.parametrize("k", [64, 128, 192, 320])
@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("warps", [4, 8])
def test_no_more_slots_than_iterations(dev, k, stages, warps):
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (3 * 64, 64))
    c = np.zeros((3 * 64, 64), np.float32)
    dev(constant_depth, (1,), a, b, c, 3, k, 64, 64, num_warps=warps, num_stages=stages)
    assert_same(c, a.astype(np.float32) @ b.astype(np.float32).T)


@tegula.jit
def attention(q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, TMA: tl.constexpr, WARPS: tl.constexpr):
    start = tl.program_id(0) * BM
    rows, columns, depth = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    kd = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    vd = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    x = tl.load(q + rows[:, None] * D + depth[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=WARPS):
        if TMA:
            s = tl.dot(x, kd.load([n, 0]).T)
        else:
            s = tl.dot(x, tl.load(k + (n + columns)[None, :] * D + depth[:, None]))
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        scale = tl.exp2(most - now)
        total = total * scale + tl.sum(p, 1)
        acc *= scale[:, None]
        if TMA:
            y = vd.load([n, 0])
        else:
            y = tl.load(v + (n + columns)[:, None] * D + depth[None, :])
        acc = tl.dot(p.to(tl.float16), y, acc)
        most = now
    tl.store(out + rows[:, None] * D + depth[None, :], (acc / total[:, None]).to(tl.float16))


# Two blocks on an SM; rings that fit only without a slot for running wgmmas; no first dot ahead, as registers are short; two stages.
@pytest.mark.parametrize("tma, own", [(False, False), (True, "never"), (True, True)])
@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("block, warps, stages", [((64, 64, 128), 4, 3), ((64, 64, 128), 4, 2), ((128, 128, 128), 8, 2), ((128, 64, 256), 8, 2)])
def test_attention(dev, tma, own, iterations, block, warps, stages):
    bm, bn, d = block
    n = iterations * bn
    rng = np.random.default_rng(n)
    q, k, v = ((rng.standard_normal((r, d)) / d**0.25).astype(np.float16) for r in (2 * bm, n, n))
    out = np.zeros((2 * bm, d), np.float16)
    dev(attention, (2,), q, k, v, out, n, *block, tma, own, num_warps=warps, num_stages=stages)
    s = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(s - s.max(1, keepdims=True))
    assert_close(out, p / p.sum(1, keepdims=True) @ v.astype(np.float64), rtol=2e-2, atol=2e-3)


@tegula.jit
def chunks(q, k, v, out, sums, T, BT: tl.constexpr, D: tl.constexpr, HOW: tl.constexpr):
    """Each iteration stores a block of rows, and the state so far."""
    i, d = tl.arange(0, BT), tl.arange(0, D)
    state = tl.zeros([D, D], tl.float32)
    for t in range(0, T, BT):
        rows = (t + i)[:, None] * D + d[None, :]
        if HOW == "before":
            tl.store(sums + t // BT * D * D + d[:, None] * D + d[None, :], state)
        if HOW == "blocks":
            x = tl.load(tl.make_block_ptr(q, (T, D), (D, 1), (t, 0), (BT, D), (1, 0)), boundary_check=(0,))
            y = tl.load(tl.make_block_ptr(k, (D, T), (1, D), (0, t), (D, BT), (0, 1)), boundary_check=(1,))
            z = tl.load(tl.make_block_ptr(v, (T, D), (D, 1), (t, 0), (BT, D), (1, 0)), boundary_check=(0,))
        else:
            x, z = tl.load(q + rows), tl.load(v + rows)
            y = tl.load(k + (t + i)[None, :] * D + d[:, None])
        s = tl.where(i[:, None] >= i[None, :], tl.dot(x, y), 0)
        o = tl.dot(x, state.to(x.dtype), tl.dot(s.to(x.dtype), z))
        state += tl.dot(y, z)
        if HOW == "adds":
            tl.atomic_add(out + rows, o)
        else:
            tl.store(out + rows, o)
        if HOW != "before":
            tl.store(sums + t // BT * D * D + d[:, None] * D + d[None, :], state)


# What an iteration stores is not what a later one loads, so loads go ahead of it.
@pytest.mark.parametrize("how", ["after", "before", "blocks", "adds"])
@pytest.mark.parametrize("bt, d, warps, stages", [(64, 64, 4, 2), (128, 64, 8, 2), (64, 32, 4, 3), (32, 32, 4, 3)])
def test_loops_that_store(dev, how, bt, d, warps, stages):
    n = 5 * bt
    rng = np.random.default_rng(bt + d)
    q, k, v = (rng.integers(-1, 2, (n, d)).astype(np.float16) for _ in range(3))
    out, sums = np.zeros((n, d), np.float32), np.zeros((5, d, d), np.float32)
    dev(chunks, (1,), q, k, v, out, sums, n, bt, d, how, num_warps=warps, num_stages=stages)
    state = np.zeros((d, d), np.float32)
    for t in range(5):
        x, y, z = (a[t * bt:][:bt].astype(np.float32) for a in (q, k, v))
        if how == "before":
            assert_same(sums[t], state)
        s = np.tril(x @ y.T).astype(np.float16).astype(np.float32)
        assert_same(out[t * bt:][:bt], s @ z + x @ state.astype(np.float16).astype(np.float32))
        state = state + y.T @ z
        if how != "before":
            assert_same(sums[t], state)


@tegula.jit
def feeds_itself(a, w, N, BM: tl.constexpr, D: tl.constexpr):
    """Loads what the iteration before has stored."""
    i, d = tl.arange(0, BM), tl.arange(0, D)
    x = tl.load(w + d[:, None] * D + d[None, :])
    for n in range(N):
        rows = (n * BM + i)[:, None] * D + d[None, :]
        tl.store(a + rows + BM * D, tl.dot(tl.load(a + rows), x).to(tl.float16))


@pytest.mark.parametrize("stages", [2, 3])
def test_a_loop_that_loads_what_it_stored(dev, stages):
    a, w = np.zeros((6, 64, 64), np.float16), np.eye(64, dtype=np.float16)[::-1].copy()
    a[0] = np.arange(64 * 64).reshape(64, 64) % 101
    dev(feeds_itself, (1,), a, w, 5, 64, 64, num_stages=stages)
    for n in range(5):
        assert_same(a[n + 1], a[n] @ w)


@tegula.jit
def rounded_product(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b, rounded to bfloat16 where it is multiplied; every thread rounds what it copied itself."""
    m, n, depth = tl.arange(0, BM), tl.arange(0, BN) % N, tl.arange(0, BK)
    pa, pb = a + m[:, None] * K + depth[None, :], b + depth[:, None] * N + n[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=depth[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=depth[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x.to(tl.bfloat16), y.to(tl.bfloat16), acc)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + tl.arange(0, BN)[None, :], acc, mask=tl.arange(0, BN)[None, :] < N)


@pytest.mark.parametrize("n, k", [(60, 24), (60, 64), (61, 131)])
@pytest.mark.parametrize("block, warps, stages", [((64, 64, 32), 4, 3), ((64, 64, 64), 8, 2)])
def test_own_copies_are_read_by_the_warp(dev, n, k, block, warps, stages):
    """No barrier stands between the wait for the copies and the loads, and ldmatrix gives lanes what others of their warp copied."""
    rng = np.random.default_rng(n + k)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((block[0], k), (k, n)))
    c = np.zeros((block[0], n), np.float32)
    dev(rounded_product, (1, ), a, b, c, n, k, *block, num_warps=warps, num_stages=stages)
    assert_same(c, a @ b)


@tegula.jit
def scaled_rows(a, b, scales, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a (b * scales)^T, a scale for each row of b and BK of k: a stride apart, two bytes each."""
    m, n, depth = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k + depth)[None, :])
        scale = tl.load(scales + n * (K // BK) + k // BK)
        y = tl.load(b + n[:, None] * K + (k + depth)[None, :]) * scale[:, None]
        acc += tl.dot(x, tl.trans(y))
    tl.store(c + m[:, None] * BN + n[None, :], acc)


# Loaded some iterations ahead into registers that take turns: the body stands as often in the loop, which ends behind any of its copies.
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("block, warps, stages", [((16, 32, 64), 4, 2), ((16, 32, 64), 4, 4), ((16, 64, 32), 2, 3), ((64, 64, 64), 4, 3)])
def test_scales_ahead_in_registers(dev, steps, block, warps, stages):
    m, n, k = block[0], block[1], steps * block[2]
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, max(k, 1))).astype(np.float16) for rows in (m, n))
    scales = rng.integers(1, 4, (n, max(steps, 1))).astype(np.float16)
    c = np.full((m, n), 7, np.float32)
    dev(scaled_rows, (1,), a, b, scales, c, n, k, *block, num_warps=warps, num_stages=stages)
    wide = b[:, :k].astype(np.float32) * np.repeat(scales[:, :steps], block[2], 1)
    assert_same(c, a[:, :k].astype(np.float32) @ wide.T)


@tegula.jit
def centred(x, out, rows, D, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Rows of a program minus their largest element."""
    d = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * D + d, mask=d < D, other=-1e9)
        tl.store(out + row * D + d, v - tl.max(v, 0), mask=d < D)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 9, 16])
@pytest.mark.parametrize("block, warps, stages", [(256, 4, 2), (1024, 4, 4), (512, 8, 3)])
def test_rows_ahead_in_registers(dev, rows, block, warps, stages):
    x = np.random.default_rng(rows).integers(-99, 99, (rows, block - 7)).astype(np.float32)
    out = np.zeros_like(x)
    dev(centred, (2,), x, out, rows, block - 7, block, stages, num_warps=warps)
    assert_same(out, x - x.max(1, keepdims=True))
