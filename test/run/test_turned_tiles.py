"""Tiles that lie in memory along their first dimension: CPUs compile such kernels with rows and columns exchanged (src/targets/cpu/rewrite/TurnTiles.h)."""
import numpy as np
import pytest

import tegula
import tegula.language as tl

pytestmark = pytest.mark.section("3.4 memory")


@tegula.jit
def greater(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@tegula.jit
def by_columns(x, w, total, least, most, place, running, turned, picked, M, N, B: tl.constexpr, R: tl.constexpr):
    """x is [N][M]; a tile is [B columns of memory, R rows of memory]."""
    i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    inside = i < M
    acc = tl.full([B, R], 0, tl.float32)
    low = tl.full([B, R], float("inf"), tl.float32)
    best = tl.full([B, R], float("-inf"), tl.float32)
    at = tl.full([B, R], 2147483647, tl.int32)
    before = tl.zeros([B, 1], tl.float32)
    for s in range(0, N, R):
        r = s + tl.arange(0, R)[None, :]
        on = inside & (r < N)
        v = tl.load(x + i + M * r, on, other=0.0) * tl.load(w + r, r < N, other=0.0)
        acc = tl.where(on, acc + v, acc)
        low = tl.where(on, tl.minimum(low, v), low)
        take = on & (v > best)
        best = tl.where(take, v, best)
        at = tl.where(take, r, at)
        sums = tl.cumsum(v, 1) + before
        before += tl.sum(v, 1, keep_dims=True)
        tl.store(running + i + M * r, sums, on)
    j = tl.reshape(i, [B])
    tl.store(total + i, tl.sum(acc, 1)[:, None], inside)
    tl.store(least + j, tl.min(low, axis=1), j < M)
    b, k = tl.reduce((best, at), 1, greater)
    tl.store(most + j, b, j < M)
    tl.store(place + i, k[:, None], inside)
    r = tl.arange(0, R)
    first = tl.load(x + i + M * r[None, :], inside & (r[None, :] < N), other=0.0)
    tl.store(turned + r[:, None] * M + tl.trans(i), tl.trans(first) + tl.sum(first, 0)[:, None], tl.trans(inside) & (r[:, None] < N))
    back = tl.gather(first, tl.broadcast_to(R - 1 - r[None, :], [B, R]), 1)
    tl.store(picked + i + M * r[None, :], back, inside & (r[None, :] < N))


@pytest.mark.parametrize("M, N, B, R", [(70, 45, 32, 16), (64, 64, 64, 16), (9, 130, 8, 64), (33, 5, 2, 8), (100, 40, 16, 4)])
def test_everything_on_tiles_by_columns(dev, M, N, B, R):
    """Small integers: every order of the sums gives the same bits."""
    rng = np.random.default_rng(M)
    x = rng.integers(-9, 10, (N, M)).astype(np.float32)
    w = rng.integers(1, 4, N).astype(np.float32)
    total, least, most = (np.zeros(M, np.float32) for _ in range(3))
    place = np.zeros(M, np.int32)
    running, turned, picked = (np.zeros((N, M), np.float32) for _ in range(3))
    dev(by_columns, (-(-M // B),), x, w, total, least, most, place, running, turned, picked, M, N, B=B, R=R)
    v = x * w[:, None]
    assert np.array_equal(total, v.sum(0)) and np.array_equal(least, v.min(0)) and np.array_equal(most, v.max(0)) and np.array_equal(place, v.argmax(0))
    assert np.array_equal(running, np.cumsum(v, 0))
    n = min(N, R)
    padded = np.zeros((R, -(-M // B) * B), np.float32)
    padded[:n, :M] = x[:n]
    of_program = np.repeat(padded.reshape(R, -1, B).sum(2), B, 1)
    assert np.array_equal(turned[:n], (padded + of_program)[:n, :M])
    assert np.array_equal(picked[:n], padded[::-1][:n, :M])
