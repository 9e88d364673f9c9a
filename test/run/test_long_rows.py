"""Rows that one block of threads has no room for: the compiler may share a program among the blocks of a cluster (`clusters`, which is on), which send each other partial results. §3 options of a launch."""
import os
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close

pytestmark = pytest.mark.section("launch options")


@tegula.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, e / tl.sum(e, 0), at < n)


@tegula.jit
def layer_norm(x, w, b, out, mean, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=0.0)
    m = tl.sum(v, 0) / n
    centred = tl.where(at < n, v - m, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    tl.store(mean + row, m)
    tl.store(out + row * n + at, centred * scale * tl.load(w + at, at < n) + tl.load(b + at, at < n), at < n)


@tegula.jit
def cross_entropy(x, labels, loss, n, BLOCK: tl.constexpr):
    """The gradient takes the place of the logits."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    v = tl.load(x + row * n + at, at < n, other=-float("inf"))
    top = tl.max(v, 0)
    e = tl.exp(v - top)
    total = tl.sum(e, 0)
    if label >= 0:
        tl.store(loss + row, tl.log(total) + top - tl.load(x + row * n + label))
    else:
        tl.store(loss + row, 0.0)
    tl.store(x + row * n + at, tl.where(at == label, e / total - 1, e / total), at < n)


@tegula.jit
def rms_norm(x, w, out, rstd, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / n + 1e-5)
    tl.store(rstd + row, scale)
    tl.store(out + row * n + at, v * scale * tl.load(w + at, at < n, other=0.0), at < n)


@tegula.jit
def log_softmax(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=-float("inf")).to(tl.float32)
    v -= tl.max(v, 0)
    tl.store(out + row * n + at, v - tl.log(tl.sum(tl.exp(v), 0)), at < n)


@tegula.jit
def extremes(x, out, where, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a tile: partial results are tensors. argmax has two at once; int8 and bool travel as words, float64 as double words."""
    rows, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    v = tl.load(x + rows[:, None] * n + at[None, :], at[None, :] < n, other=-float("inf"))
    tl.store(where + rows, tl.argmax(v, 1))
    small = tl.max((v > 1).to(tl.int8), 1)
    top = tl.max(v.to(tl.float64), 1)
    any_low = tl.reduce((v < -2) & (at < n)[None, :], 1, either)
    centred = tl.where((at < n)[None, :], v - top.to(tl.float32)[:, None], 0.0)
    tl.store(out + rows, tl.sum(centred, 1) + small + any_low)


@tegula.jit
def either(a, b):
    return a | b


@tegula.jit
def branches(x, out, n, low, BLOCK: tl.constexpr):
    """An exchange that only one side of a branch has, and one behind."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=0.0)
    if row > low:
        scale = tl.sum(v, 0)
    else:
        scale = 1.0
    tl.store(out + row * n + at, v * scale + tl.max(v, 0), at < n)


def ctas_of(kernel):
    """Of the cluster, where it is the compiler's choice."""
    if os.environ.get("TEGULA_TEST_CTAS", "1") != "1":
        return None
    return kernel.metadata.cluster_ctas if "sim" in kernel.metadata.target_name or kernel.metadata.target_name.startswith("sm_") else None


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((3, n)).astype(np.float32)


def expected_softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# Rows of which two leave room on a multiprocessor stay in one block; the last one would be read again in loops.
@pytest.mark.parametrize("n, warps, ctas", [(300, 4, 1), (16384, 16, 1), (32768, 8, 4), (32768, 32, 2), (50000, 16, 4), (131072, 32, 8), (100000, 16, 8)])
def test_softmax(dev, n, warps, ctas):
    x = rows(n)
    out = np.zeros_like(x)
    kernel = dev(softmax, (3,), x, out, n, tegula.next_power_of_2(n), num_warps=warps)
    assert_close(out, expected_softmax(x).astype(np.float32), rtol=1e-5)
    if kernel is not None and (found := ctas_of(kernel)) is not None:
        assert found == ctas


def test_switched_off(dev):
    x = rows(131072)
    out = np.zeros_like(x)
    kernel = dev(softmax, (3,), x, out, 131072, 131072, num_warps=32, clusters=False)
    assert_close(out, expected_softmax(x).astype(np.float32), rtol=1e-5)
    assert kernel is None or ctas_of(kernel) in (None, 1)


# What an author asks for stays.
def test_given_size(dev):
    x = rows(131072)
    out = np.zeros_like(x)
    kernel = dev(softmax, (3,), x, out, 131072, 131072, num_warps=32, num_ctas=2)
    assert_close(out, expected_softmax(x).astype(np.float32), rtol=1e-5)
    assert kernel is None or ctas_of(kernel) in (None, 2)


@tegula.jit
def softmax_of_planes(x, out, rows, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    start = ((tl.program_id(2) * 2 + tl.program_id(1)) * rows + tl.program_id(0)) * n
    v = tl.load(x + start + at, at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + start + at, e / tl.sum(e, 0), at < n)


# A grid of three axes, none of them a multiple of the cluster.
def test_grids(dev):
    x = np.random.default_rng(3).standard_normal((3, 2, 5, 33000)).astype(np.float32)
    out = np.zeros_like(x)
    dev(softmax_of_planes, (5, 2, 3), x, out, 5, 33000, 65536, num_warps=8)
    assert_close(out.reshape(30, -1), expected_softmax(x.reshape(30, -1)).astype(np.float32), rtol=1e-5)


@pytest.mark.parametrize("n, warps", [(30001, 4), (65536, 16), (100000, 32)])
def test_layer_norm(dev, n, warps):
    x, w, b = rows(n), rows(n, 1)[0], rows(n, 2)[0]
    out, mean = np.zeros_like(x), np.zeros(3, np.float32)
    dev(layer_norm, (3,), x, w, b, out, mean, n, tegula.next_power_of_2(n), num_warps=warps)
    wide = x.astype(np.float64)
    m = wide.mean(1, keepdims=True)
    want = (wide - m) / np.sqrt(((wide - m) ** 2).mean(1, keepdims=True) + 1e-5) * w + b
    assert_close(mean, m[:, 0].astype(np.float32), rtol=1e-4, atol=1e-5)
    assert_close(out, want.astype(np.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n, warps", [(30001, 4), (65536, 16), (128256, 32)])
def test_cross_entropy_in_place(dev, n, warps):
    x, labels, loss = rows(n), np.array([5, -1, n - 1]), np.zeros(3, np.float32)
    wide = x.astype(np.float64)
    p = expected_softmax(x)
    dev(cross_entropy, (3,), x, labels, loss, n, tegula.next_power_of_2(n), num_warps=warps)
    want = np.array([0 if l < 0 else np.log(np.exp(r).sum()) - r[l] for r, l in zip(wide, labels)])
    for row, l in zip(p, labels):
        if l >= 0:
            row[l] -= 1
    assert_close(loss, want.astype(np.float32), rtol=1e-5)
    assert_close(x, p.astype(np.float32), rtol=1e-4, atol=1e-7)


# Forced: every kernel of rows in clusters of each size, in the simulator with its own threads for each.
@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize("n, warps", [(1000, 1), (777, 4)])
def test_forced(dev, ctas, n, warps):
    x, w = rows(n), rows(n, 1)[0]
    options = dict(num_warps=warps, clusters=ctas)
    block = tegula.next_power_of_2(n)
    wide = x.astype(np.float64)
    out, rstd = np.zeros_like(x), np.zeros(3, np.float32)
    kernel = dev(rms_norm, (3,), x, w, out, rstd, n, block, **options)
    scale = 1 / np.sqrt((wide ** 2).mean(1, keepdims=True) + 1e-5)
    assert_close(rstd, scale[:, 0].astype(np.float32), rtol=1e-5)
    assert_close(out, (wide * scale * w).astype(np.float32), rtol=1e-4, atol=1e-5)
    if kernel is not None and (found := ctas_of(kernel)) is not None:
        assert found == ctas
    dev(log_softmax, (3,), x, out, n, block, **options)
    assert_close(out, np.log(expected_softmax(x)).astype(np.float32), rtol=1e-5, atol=1e-5)
    dev(softmax, (3,), x, out, n, block, **options)
    assert_close(out, expected_softmax(x).astype(np.float32), rtol=1e-5)
    dev(branches, (3,), x, out, n, 1, block, **options)
    want = wide * np.where(np.arange(3) > 1, wide.sum(1), 1.0)[:, None] + wide.max(1, keepdims=True)
    assert_close(out, want.astype(np.float32), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("ctas", [2, 8])
@pytest.mark.parametrize("rows_", [1, 2, 4])
def test_forced_tiles(dev, ctas, rows_):
    x = np.random.default_rng(2).standard_normal((4, 500)).astype(np.float32)
    out, where = np.zeros(4, np.float32), np.zeros(4, np.int32)
    dev(extremes, (4 // rows_,), x, out, where, 500, rows_, 512, num_warps=2, clusters=ctas)
    wide = x.astype(np.float64)
    assert (where == x.argmax(1)).all()
    want = (wide - wide.max(1, keepdims=True)).sum(1) + (x > 1).any(1) + (x < -2).any(1)
    assert_close(out, want.astype(np.float32), rtol=1e-4, atol=1e-3)


# The sizes that clusters are for, in both types.
@pytest.mark.parametrize("n, warps, ctas", [(32768, 8, 2), (65536, 8, 4), (131072, 16, 8), (262144, 32, 8)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sizes(dev, n, warps, ctas, dtype):
    import ml_dtypes
    t = np.float32 if dtype == "float32" else ml_dtypes.bfloat16
    x = rows(n)[:1].astype(t)
    out = np.zeros(x.shape, np.float32)
    dev(log_softmax, (1,), x, out, n, n, num_warps=warps, clusters=ctas)
    assert_close(out, np.log(expected_softmax(x.astype(np.float32))).astype(np.float32), rtol=1e-5, atol=1e-5)
