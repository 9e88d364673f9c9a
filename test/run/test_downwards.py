"""Tiles whose elements lie downwards in memory: rows from their end, by loads and by stores, under masks that end within a vector."""
import numpy as np
import pytest

import tegula.language as tl
from tegula import jit


@jit
def flip(x, y, M, N, STORE: tl.constexpr, OTHER: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    for i in range(0, N, C):
        c = i + tl.arange(0, C)
        mask = (r[:, None] < M) & (c[None, :] < N) & (c[None, :] != 3)
        up = r[:, None] * N + c[None, :]
        down = r[:, None] * N + (N - 1 - c)[None, :]
        v = tl.load(x + (up if STORE else down), mask=mask, other=OTHER)
        tl.store(y + (down if STORE else up), v, mask=(r[:, None] < M) & (c[None, :] < N))


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16, np.float64])
@pytest.mark.parametrize("m, n, rows, columns", [(1, 100, 1, 32), (5, 37, 2, 64), (3, 128, 4, 16), (2, 1000, 1, 256), (7, 5, 4, 4)])
def test_rows_from_their_end(dev, store, dtype, m, n, rows, columns):
    rng = np.random.default_rng(n)
    x = rng.integers(-99, 99, (m, n)).astype(dtype)
    y = np.zeros_like(x)
    dev(flip, (-(-m // rows),), x, y, m, n, STORE=store, OTHER=7, R=rows, C=columns)
    want = x[:, ::-1].copy()
    want[:, n - 1 - 3 if store else 3] = 7
    assert (y == want).all()
