"""What dots on CPUs keep of their operands for later programs."""
import concurrent.futures

import numpy as np
import pytest

import tegula
import tegula.language as tl


@tegula.jit
def matmul(a, b, c, M, N, K, sk, sn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, FORM: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    down = tl.cdiv(M, BM)
    group = pid // (GROUP * across)
    rows = tl.minimum(down - group * GROUP, GROUP)
    i = group * GROUP + pid % (GROUP * across) % rows
    j = pid % (GROUP * across) // rows
    m = i * BM + tl.arange(0, BM)
    n = j * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        d = k + tl.arange(0, BK)
        if FORM == "modulo":
            x = tl.load(a + (m % M)[:, None] * K + d[None, :], mask=d[None, :] < K, other=0.0)
            y = tl.load(b + d[:, None] * sk + (n % N)[None, :] * sn, mask=d[:, None] < K, other=0.0)
        else:
            x = tl.load(a + m[:, None] * K + d[None, :], mask=(m[:, None] < M) & (d[None, :] < K), other=0.0)
            y = tl.load(b + d[:, None] * sk + n[None, :] * sn, mask=(d[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("form", ["modulo", "masks"])
@pytest.mark.parametrize("tile", [(32, 32, 32), (64, 64, 64), (64, 128, 128), (128, 256, 64)])
@pytest.mark.parametrize("shape", [(256, 256, 256), (300, 257, 190), (513, 96, 1000), (64, 700, 33)])
def test_kept_tiles_are_those_of_the_operand(dev, form, tile, shape):
    """Columns and k in part, both orders of B's elements; the next launch finds other numbers in the same memory."""
    M, N, K = shape
    BM, BN, BK = tile
    if not dev.name.startswith("cpu"):
        pytest.skip("CPUs alone keep tiles")
    rng = np.random.default_rng(M + N + K)
    grid = (-(-M // BM) * -(-N // BN),)
    for transposed in (False, True):
        b = np.empty((N, K) if transposed else (K, N), np.float32)
        c = np.empty((M, N), np.float32)
        for _ in range(2):
            a = rng.standard_normal((M, K), dtype=np.float32)
            b[:] = rng.standard_normal(b.shape, dtype=np.float32)
            b.flat[5] = np.inf
            dev(matmul, grid, a, b, c, M, N, K, *((1, K) if transposed else (N, 1)), BM=BM, BN=BN, BK=BK, GROUP=8, FORM=form)
            with np.errstate(invalid="ignore"):
                want = a.astype(np.float64) @ (b.T if transposed else b).astype(np.float64)
            np.testing.assert_allclose(c, want, rtol=2e-4, atol=2e-3)


def test_launches_beside_one_another_keep_their_own(dev):
    """Threads take turns at the programs of several launches, in pieces, with other operands in the same memory the next time."""
    M, N, K, tile = 300, 200, 257, dict(BM=32, BN=64, BK=64)
    if not dev.name.startswith("cpu"):
        pytest.skip("CPUs alone keep tiles")
    grid = (-(-M // 32) * -(-N // 64),)

    def work(seed):
        rng = np.random.default_rng(seed)
        b, c = np.empty((K, N), np.float32), np.empty((M, N), np.float32)
        worst = 0.0
        for i in range(12):
            a = rng.standard_normal((M, K), dtype=np.float32)
            b[:] = rng.standard_normal(b.shape, dtype=np.float32)
            dev(matmul, grid, a, b, c, M, N, K, N, 1, **tile, GROUP=8, FORM="masks", num_threads=1 + i % 3)
            worst = max(worst, float(np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max()))
        return worst

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert max(pool.map(work, range(8))) < 2e-3


@tegula.jit
def two_products(a, b, x, y, n, K, B: tl.constexpr):
    """Two dots in one loop and one behind it, each with tiles of its own; the rows of `a` decide what is multiplied."""
    i = tl.program_id(0)
    m = i * B + tl.arange(0, B)
    d = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    other = tl.zeros((B, B), tl.float32)
    for k in range(0, K * (1 + i % 2), B):
        s = tl.load(a + m[:, None] * (2 * K) + (k + d)[None, :])
        acc += tl.dot(s, tl.load(b + (k + d)[:, None] * B + d[None, :]), input_precision="ieee")
        if i % 3 == 0:
            other += tl.dot(s, tl.load(b + (k + d)[None, :] * B + d[:, None]), input_precision="ieee")
    other += tl.dot(acc, tl.load(b + d[:, None] * B + d[None, :]), input_precision="ieee")
    tl.store(x + m[:, None] * B + d[None, :], acc)
    tl.store(y + m[:, None] * B + d[None, :], other)


def test_dots_that_some_programs_skip(dev):
    B, K, n = 64, 192, 7
    rng = np.random.default_rng(5)
    a = rng.standard_normal((n * B, 2 * K), dtype=np.float32)
    b = rng.standard_normal((2 * K, B), dtype=np.float32)
    x, y = np.empty((n * B, B), np.float32), np.empty((n * B, B), np.float32)
    dev(two_products, (n,), a, b, x, y, n, K, B=B)
    for i in range(n):
        rows, depth = slice(i * B, (i + 1) * B), K * (1 + i % 2)
        s, w = a[rows, :depth].astype(np.float64), b[:depth].astype(np.float64)
        acc, other = s @ w, np.zeros((B, B))
        if i % 3 == 0:
            for k in range(0, depth, B):
                other += s[:, k:k + B] @ w[k:k + B].T
        np.testing.assert_allclose(x[rows], acc, rtol=2e-4, atol=2e-3)
        np.testing.assert_allclose(y[rows], other + acc @ w[:B], rtol=2e-4, atol=2e-2)


@tegula.jit
def in_place(b, n, B: tl.constexpr):
    """Each program multiplies what the one before it has stored: nothing may be kept."""
    d = tl.arange(0, B)
    at = d[:, None] * B + d[None, :]
    for i in range(n):
        acc = tl.dot(tl.load(b + at), tl.load(b + at), input_precision="ieee")
        tl.store(b + at, acc * 0.125)
        tl.debug_barrier()


def test_what_a_kernel_writes_is_not_kept(dev):
    B = 64
    b = np.random.default_rng(1).standard_normal((B, B)).astype(np.float32)
    want = b.astype(np.float64)
    for _ in range(3):
        want = want @ want * 0.125
    dev(in_place, (1,), b, 3, B=B)
    np.testing.assert_allclose(b, want, rtol=1e-3, atol=1e-3)


@tegula.jit
def states(q, k, v, out, last, T, D: tl.constexpr, E: tl.constexpr, B: tl.constexpr):
    """Linear attention by chunks: the right operand is what the loop carries; behind the loop, what it left, by which another product is multiplied."""
    rows = tl.arange(0, B)
    d = tl.arange(0, D)
    e = tl.program_id(1) * E + tl.arange(0, E)
    i = tl.program_id(0)
    width = tl.num_programs(1) * E
    kv = tl.zeros((D, E), tl.float32)
    for t in range(0, T - i * B, B):
        x = tl.load(k + (t + rows)[None, :] * D + d[:, None])
        y = tl.load(v + (t + rows)[:, None] * width + e[None, :])
        z = tl.load(q + (t + rows)[:, None] * D + d[None, :])
        tl.store(out + (i * T + t + rows)[:, None] * width + e[None, :], tl.dot(z, kv, input_precision="ieee"))
        kv += tl.dot(x, y, input_precision="ieee")
    if i % 2 == 1:
        kv = tl.load(v + d[:, None] * width + e[None, :]) * i
    tl.store(last + (i * B + rows)[:, None] * width + e[None, :], tl.dot(tl.load(q + rows[:, None] * D + d[None, :]), kv, input_precision="ieee"))


@pytest.mark.parametrize("tile", [(16, 16, 64), (64, 32, 64), (128, 64, 32)])
def test_a_right_operand_that_a_loop_carries_is_not_kept(dev, tile):
    D, E, B = tile
    T, n = 4 * B, 3
    rng = np.random.default_rng(D)
    q, k, v = (rng.standard_normal((T, x), dtype=np.float32) for x in (D, D, 2 * E))
    out, last = np.zeros((n, T, 2 * E), np.float32), np.empty((n, B, 2 * E), np.float32)
    dev(states, (n, 2), q, k, v, out, last, T, D=D, E=E, B=B)
    a, b, c = (x.astype(np.float64) for x in (q, k, v))
    before = (a @ b.T * (np.arange(T)[:, None] // B > np.arange(T)[None] // B)) @ c
    for i in range(n):
        stop = T - i * B
        np.testing.assert_allclose(out[i, :stop], before[:stop], rtol=2e-4, atol=2e-3 * D)
        state = c[:D] * i if i % 2 else b[:stop].T @ c[:stop]
        np.testing.assert_allclose(last[i], a[:B] @ state, rtol=2e-4, atol=2e-3 * D)


@tegula.jit
def left_packed(a, rows, b, c, M, N, K, sm, sk, S, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FORM: tl.constexpr):
    """Left operands that cannot be read where they lie: by columns, rows that are looked up, k in turns with other programs, cut to tf32."""
    across, down = tl.cdiv(N, BN), tl.cdiv(M, BM)
    group = tl.program_id(0) // (G * across)
    size = tl.minimum(down - group * G, G)
    i = group * G + tl.program_id(0) % (G * across) % size
    j = tl.program_id(0) % (G * across) // size
    m, n = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    source = m
    if FORM == "rows":
        source = tl.load(rows + m, mask=m < M, other=0)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(1) * BK, K, BK * S):
        d = k + tl.arange(0, BK)
        x = tl.load(a + source[:, None] * sm + d[None, :] * sk, mask=(m[:, None] < M) & (d[None, :] < K), other=0.0)
        y = tl.load(b + d[:, None] * N + n[None, :], mask=(d[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="tf32" if FORM == "tf32" else "ieee")
    at, inside = c + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N)
    if FORM == "split":
        tl.atomic_add(at, acc, mask=inside)
    else:
        tl.store(at, acc, mask=inside)


@pytest.mark.parametrize("form", ["columns", "rows", "split", "tf32"])
@pytest.mark.parametrize("tile, group", [((16, 16, 16), 3), ((32, 64, 32), 8), ((64, 32, 128), 1), ((128, 64, 32), 2)], ids=str)
@pytest.mark.parametrize("shape", [(256, 256, 256), (150, 333, 300), (513, 96, 1100), (70, 700, 33)], ids=str)
def test_kept_tiles_of_the_left_operand(dev, form, tile, group, shape):
    """Rows come back after those of their group, more of them than are kept and fewer; the next launch finds other numbers in the same memory."""
    M, N, K = shape
    BM, BN, BK = tile
    if not dev.name.startswith("cpu"):
        pytest.skip("CPUs alone keep tiles")
    rng = np.random.default_rng(M + N + K)
    a, b, parts = np.empty((K, M) if form == "columns" else (M, K), np.float32), np.empty((K, N), np.float32), 3 if form == "split" else 1
    rows = rng.integers(0, M, M, dtype=np.int32)
    for _ in range(2):
        a[:], b[:] = rng.integers(-4, 5, a.shape), rng.integers(-4, 5, b.shape)
        c = np.zeros((M, N), np.float32)
        strides = (1, M) if form == "columns" else (K, 1)
        dev(left_packed, (-(-M // BM) * -(-N // BN), parts), a, rows, b, c, M, N, K, *strides, parts, group, BM, BN, BK, form)
        x = a.T if form == "columns" else a[rows] if form == "rows" else a
        np.testing.assert_array_equal(c, x @ b)
