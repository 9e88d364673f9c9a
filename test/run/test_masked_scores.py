"""Scores of a loop's dot under masks that hold for whole tiles in most iterations (gpu/masks/SkipMasks.h): diagonals, lengths, windows, numbers that wrap. §3.5."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def masked_sums(q, k, out, first, length, window, steps, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, HOW: tl.constexpr):
    """out[i, j] = sum over tiles n of the scores of row i with column BN n + j, where the masks hold, else -1. `first`: number of the first row; of the first column with HOW "wraps"."""
    at_m, at_n, at_d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    rows = tl.program_id(0) * BM + at_m
    tq = tl.load(q + rows[:, None] * D + at_d[None, :])
    acc = tl.zeros((BM, BN), tl.float32)
    for n in range(0, steps * BN, BN):
        s = tl.dot(tq, tl.load(k + (n + at_n)[None, :] * D + at_d[:, None]))
        cols = n + at_n
        if HOW == "wraps":
            s = tl.where((first + cols)[None, :] >= (rows - 20)[:, None], s, -1.0)
        elif HOW == "below":
            s = tl.where((first + rows)[:, None] > cols[None, :], s, -1.0)
        else:
            s = tl.where((first + rows)[:, None] >= cols[None, :], s, -1.0)
        if HOW == "length":
            s = tl.where(cols[None, :] < length, s, -1.0)
        if HOW == "window":
            s = tl.where(((first + rows)[:, None] - cols[None, :] <= window) & (cols < length)[None, :], s, -1.0)
        acc += s
    tl.store(out + rows[:, None] * BN + at_n[None, :], acc)


# First rows on and beside the borders between tiles, so that one more would and one less would not be masked.
@pytest.mark.parametrize("warps, bm", [(4, 64), (8, 128)])
@pytest.mark.parametrize("how, first, length, window", [("causal", 63, 0, 0), ("causal", 62, 0, 0), ("causal", 0, 0, 0), ("causal", -300, 0, 0), ("below", 63, 0, 0), ("below", 64, 0, 0), ("length", 500, 127, 0),
                                                        ("length", 500, 128, 0), ("length", 90, 300, 0), ("window", 200, 300, 127), ("window", 200, 255, 128), ("window", 400, 400, 40),
                                                        ("wraps", 2**31 - 1, 0, 0), ("wraps", 2**31 - 129, 0, 0), ("wraps", 2**31 - 320, 0, 0), ("wraps", -2**31, 0, 0)])
def test_masked_sums(dev, how, first, length, window, warps, bm):
    bn, d, steps = 64, 32, 5
    m = 2 * bm
    rng = np.random.default_rng(bm)
    q, k = (rng.integers(-2, 3, (n, d)).astype(np.float16) for n in (m, steps * bn))
    out = np.zeros((m, bn), np.float32)
    dev(masked_sums, (2,), q, k, out, first, length, window, steps, bm, bn, d, how, num_warps=warps, num_stages=2)
    s = q.astype(np.float32) @ k.astype(np.float32).T
    rows, cols = np.arange(m)[:, None], np.arange(steps * bn)[None, :]
    if how == "wraps":
        keep = (first + cols + 2**31) % 2**32 - 2**31 >= rows - 20
    else:
        keep = first + rows > cols if how == "below" else first + rows >= cols
    if how in ("length", "window"):
        keep = keep & (cols < length)
    if how == "window":
        keep = keep & (first + rows - cols <= window)
    assert_close(out, np.where(keep, s, -1).reshape(m, steps, bn).sum(1), 0, 0)


@tegula.jit
def masked_twice(q, k, out, seen, steps, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """A branch reads what the first of two masks gave; `seen` is that of the tile n = 1."""
    at_m, at_n, at_d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    tq = tl.load(q + at_m[:, None] * D + at_d[None, :])
    acc = tl.zeros((BM, BN), tl.float32)
    for n in range(0, steps):
        cols = n * BN + at_n
        s = tl.dot(tq, tl.load(k + cols[None, :] * D + at_d[:, None]))
        first = tl.where((100 + at_m)[:, None] >= cols[None, :], s, -1.0)
        second = tl.where((at_m + 20)[:, None] <= cols[None, :], first, -2.0)
        if n == 1:
            tl.store(seen + at_m[:, None] * BN + at_n[None, :], first)
        acc += second
    tl.store(out + at_m[:, None] * BN + at_n[None, :], acc)


def test_a_branch_reads_masked_scores(dev):
    bm, bn, d, steps = 64, 64, 32, 4
    rng = np.random.default_rng(3)
    q, k = (rng.integers(-2, 3, (n, d)).astype(np.float16) for n in (bm, steps * bn))
    out, seen = (np.zeros((bm, bn), np.float32) for _ in range(2))
    dev(masked_twice, (1,), q, k, out, seen, steps, bm, bn, d, num_warps=4, num_stages=2)
    s = q.astype(np.float32) @ k.astype(np.float32).T
    rows, cols = np.arange(bm)[:, None], np.arange(steps * bn)[None, :]
    first = np.where(100 + rows >= cols, s, -1)
    assert_close(seen, first[:, bn:2 * bn], 0, 0)
    assert_close(out, np.where(rows + 20 <= cols, first, -2).reshape(bm, steps, bn).sum(1), 0, 0)
