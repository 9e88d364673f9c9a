"""§3.7 reductions that loops add up: where only the loop's end sees the result, threads combine once, after it (gpu/loops/DelayReductions.h); everywhere else in each iteration.

Inputs are whole numbers whose sums are exact, so results have to be the same bits in any order.
"""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, d, rng

pytestmark = pytest.mark.section("3.7 reductions")


@tegula.jit
def c_add(a, b):
    return a + b


@tegula.jit
def c_mul(a, b):
    return a * b


@tegula.jit
def c_and(a, b):
    return a & b


@tegula.jit
def c_or(a, b):
    return a | b


@tegula.jit
def c_xor(a, b):
    return a ^ b


@tegula.jit
def c_min(a, b):
    return tl.minimum(a, b)


@tegula.jit
def c_max(a, b):
    return tl.maximum(a, b)


@tegula.jit
def c_nan_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@tegula.jit
def c_nan_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


OPERATIONS = {c_add: np.add, c_mul: np.multiply, c_and: np.bitwise_and, c_or: np.bitwise_or, c_xor: np.bitwise_xor, c_min: np.fmin, c_max: np.fmax, c_nan_min: np.minimum, c_nan_max: np.maximum}


@tegula.jit
def rows_into(x, start, out, n, C: tl.constexpr, BR: tl.constexpr, F: tl.constexpr):
    """out[c] = start[c] F x[0, c] F ... of n rows."""
    r, c = tl.arange(0, BR), tl.arange(0, C)
    acc = tl.load(start + c)
    for i in range(0, n, BR):
        acc = F(acc, tl.reduce(tl.load(x + (i + r)[:, None] * C + c[None, :]), 0, F))
    tl.store(out + c, acc)


@tegula.jit
def columns_into(x, start, out, n, R: tl.constexpr, BC: tl.constexpr, F: tl.constexpr):
    """The same of columns."""
    r, c = tl.arange(0, R), tl.arange(0, BC)
    acc = tl.load(start + r)
    for i in range(0, n, BC):
        acc = F(tl.reduce(tl.load(x + r[:, None] * n + (i + c)[None, :]), 1, F), acc)
    tl.store(out + r, acc)


def numbers(t, shape, *key):
    g = rng(*key)
    if t.kind == "f":
        return g.integers(-8, 9, shape).astype(t.np)
    info = np.iinfo(t.np)
    return g.integers(info.min, info.max, shape, dtype=t.np, endpoint=True)


def expected(f, start, x, axis):
    with np.errstate(all="ignore"):
        return OPERATIONS[f](start, OPERATIONS[f].reduce(x, axis=axis)).astype(x.dtype)


CASES = [(f, t) for f in (c_add, c_min, c_max, c_nan_min, c_nan_max) for t in ("float32", "float16")] + [(c_add, "float64"), (c_add, "bfloat16")] + \
        [(f, t) for f in (c_add, c_mul, c_and, c_or, c_xor) for t in ("int32", "uint8")] + [(f, t) for f in (c_min, c_max) for t in ("int32", "uint32", "int64", "int8")]


@pytest.mark.parametrize("f, t", CASES, ids=lambda v: v if isinstance(v, str) else v.__name__)
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_operations(dev, f, t, along):
    t = d(t)
    kept, block, n = 16, 32, 96
    start = numbers(t, kept, "start", f.__name__, t)
    if along == "rows":
        x = numbers(t, (n, kept), f.__name__, t)
    else:
        x = numbers(t, (kept, n), f.__name__, t)
    if t.name in ("bfloat16", "float16") and f is c_add:
        x, start = (x / np.array(4, t.np)).astype(t.np), np.zeros_like(start)  # sums of 96 stay exact
        x = np.clip(np.round(x.astype(np.float32)), -1, 1).astype(t.np)
    out = np.empty_like(start)
    dev(rows_into if along == "rows" else columns_into, (1,), x, start, out, n, kept, block, f)
    assert_same(out, expected(f, start, x, 0 if along == "rows" else 1))


# Registers, lanes and warps share the axis in all ways: vectors of columns, several rows a thread, fewer elements than threads.
@pytest.mark.parametrize("kept, block, warps", [(1, 256, 4), (1, 2048, 2), (4, 8, 4), (8, 64, 1), (32, 16, 4), (64, 64, 4), (256, 16, 8), (512, 2, 4), (2, 2048, 4)])
@pytest.mark.parametrize("along", ["rows", "columns"])
@pytest.mark.parametrize("t", ["float32", "int8"])
def test_tiles(dev, kept, block, warps, along, t):
    t, n = d(t), 3 * block
    x = numbers(t, (n, kept) if along == "rows" else (kept, n), kept, block, t)
    start = numbers(t, kept, "start", kept, block, t)
    out = np.empty_like(start)
    dev(rows_into if along == "rows" else columns_into, (1,), x, start, out, n, kept, block, c_add, num_warps=warps)
    assert_same(out, expected(c_add, start, x, 0 if along == "rows" else 1))


@pytest.mark.parametrize("f", [c_add, c_min, c_max, c_nan_min, c_nan_max], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 32])
def test_special_values(dev, f, n):
    """Not even the sign of a zero depends on when threads combine; without an iteration the start is the result."""
    start = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -0.0, np.nan], np.float32)
    x = np.zeros((32, 8), np.float32)
    x[:, :6] = -0.0
    x[:, 6:] = np.nan
    out = np.empty_like(start)
    dev(rows_into, (1,), x, start, out, n, 8, 16, f)
    zeros = {c_add: [0.0, -0.0], c_min: [-0.0, -0.0], c_nan_min: [-0.0, -0.0], c_max: [0.0, -0.0], c_nan_max: [0.0, -0.0]}
    assert_same(out, np.concatenate([np.array(zeros[f], np.float32), expected(f, start, x, 0)[2:]]) if n else start)


@tegula.jit
def forms(x, out, R, C, BR: tl.constexpr, BC: tl.constexpr):
    r, c = tl.arange(0, BR), tl.arange(0, BC)
    total = 0.0
    kept = tl.zeros([1, BC], tl.float32)
    twice = tl.zeros([BC], tl.float32)
    mixed = tl.full([BC], 1.0, tl.float32)
    everywhere = tl.zeros([BR, BC], tl.float32)
    seen = tl.zeros([BC], tl.float32)
    some = tl.zeros([BC], tl.float32)
    chosen = tl.zeros([BC], tl.float32)
    largest = float("-inf")
    steps = tl.zeros([BC], tl.float32)
    for i in range(0, R, BR):
        inner = 0.0
        for j in range(0, C, BC):
            t = tl.load(x + (i + r)[:, None] * C + (j + c)[None, :], mask=((i + r) < R)[:, None] & ((j + c) < C)[None, :], other=0.0)
            total += tl.sum(t)
            inner += tl.sum(tl.sum(t, 1), 0)
            kept += tl.sum(t, 0, keep_dims=True)
            twice = twice + tl.sum(t, 0) + tl.sum(t * t, 0)
            mixed = (mixed + c) + tl.sum(t, 0)
            everywhere += tl.sum(t, 0)[None, :]
            seen += tl.sum(t, 0)
            steps += seen
            if i > 0:
                some += tl.sum(t, 0)
            s = tl.sum(t, 0)
            chosen += tl.where(s > 0, s, 0.0)
            largest = tl.maximum(largest, tl.max(t))
        total += inner
    tl.store(out, total)
    tl.store(out + 1, largest)
    tl.store(out + 2 + tl.arange(0, 1)[:, None] + c[None, :], kept)
    tl.store(out + 2 + BC + c, twice)
    tl.store(out + 2 + 2 * BC + c, mixed)
    tl.store(out + 2 + 3 * BC + c, tl.sum(everywhere, 0))
    tl.store(out + 2 + 4 * BC + c, steps)
    tl.store(out + 2 + 5 * BC + c, some)
    tl.store(out + 2 + 6 * BC + c, chosen)


@pytest.mark.parametrize("BR, BC, warps", [(16, 32, 4), (4, 64, 2), (32, 4, 4)])
def test_forms(dev, BR, BC, warps):
    """Sums of sums, with other terms, in views, that the loop looks at, in branches, in loops of loops."""
    R, C = 2 * BR + 3, 2 * BC
    x = numbers(d("float32"), (R, C), "forms", BR)
    out = np.empty(2 + 7 * BC, np.float32)
    dev(forms, (1,), x, out, R, C, BR, BC, num_warps=warps)
    tiles = [[np.pad(x[i:i + BR], ((0, max(0, BR - (R - i))), (0, 0)))[:, j:j + BC] for j in range(0, C, BC)] for i in range(0, R, BR)]
    flat = [t for row in tiles for t in row]
    sums = [t.sum(0) for t in flat]
    zero = np.zeros(BC, np.float32)
    seen, steps = zero, zero
    for s in sums:
        seen = seen + s
        steps = steps + seen
    want = np.concatenate([[2 * x.sum(), max(t.max() for t in flat)], sum(sums), sum(sums) + sum((t * t).sum(0) for t in flat), 1 + len(flat) * np.arange(BC) + sum(sums), BR * sum(sums), steps,
                           sum((t.sum(0) for row in tiles[1:] for t in row), zero), sum(np.maximum(s, 0) for s in sums)]).astype(np.float32)
    assert_same(out, want)


@tegula.jit
def scaled_sums(x, start, out, n, R: tl.constexpr, BC: tl.constexpr, KEEP: tl.constexpr):
    """Sums of rows that each block halves where it has a new maximum (as the first one has), and of everything."""
    r, c = tl.arange(0, R), tl.arange(0, BC)
    most = tl.full([R], -1000.0, tl.float32)
    rows = tl.load(start + r)
    if KEEP:
        rows = rows[:, None]
    ones = tl.full([R], 1.0, tl.float32)
    whole = tl.load(start)
    for i in range(0, n, BC):
        t = tl.load(x + r[:, None] * n + (i + c)[None, :])
        larger = tl.maximum(most, tl.max(t, 1))
        scale = tl.exp2(tl.maximum(most, -1.0) - tl.maximum(tl.maximum(most, -1.0), tl.minimum(larger, 0.0)))
        rows = rows * (scale[:, None] if KEEP else scale) + tl.sum(t, 1, keep_dims=KEEP)
        ones = (ones + tl.sum(t, 1)) * scale + 1.0
        whole = (tl.sum(tl.sum(t, 1), 0) + whole) * 0.5
        most = larger
    tl.store(out + r, tl.sum(rows, 1) if KEEP else rows)
    tl.store(out + R + r, ones)
    tl.store(out + 2 * R, whole)


@pytest.mark.parametrize("R, BC, warps", [(4, 8, 4), (16, 32, 4), (64, 16, 4), (2, 128, 1), (8, 64, 8)])
@pytest.mark.parametrize("blocks", [0, 1, 4])
@pytest.mark.parametrize("keep", [False, True])
def test_scaled(dev, R, BC, warps, blocks, keep):
    """Sums that the loop scales by what is at most 1: exact here, whenever threads combine."""
    n = blocks * BC
    x = numbers(d("float32"), (R, n), "scaled", R, BC)
    start = np.resize(np.array([3.0, -0.0, 1.0 if n else 1e-44, -8.0], np.float32), R)
    out = np.empty(2 * R + 1, np.float32)
    dev(scaled_sums, (1,), x if n else np.zeros(1, np.float32), start, out, n, R, BC, keep, num_warps=warps)
    rows, ones, whole, most = start.copy(), np.ones(R, np.float32), start[0], np.full(R, -1000, np.float32)
    for i in range(0, n, BC):
        t = x[:, i:i + BC]
        larger = np.maximum(most, t.max(1))
        old = np.maximum(most, -1)
        scale = np.exp2(old - np.maximum(old, np.minimum(larger, 0))).astype(np.float32)
        rows = rows * scale + t.sum(1)
        ones = (ones + t.sum(1)) * scale + 1
        whole = (t.sum() + whole) * np.float32(0.5)
        most = larger
    assert_same(out, np.concatenate([rows, ones, [whole]]).astype(np.float32))


@pytest.mark.parametrize("start", [np.nan, np.inf, -np.inf])
def test_scaled_special_values(dev, start):
    """A start that is no number stays what it is, and no zero meets infinity."""
    x, out = np.ones((4, 16), np.float32), np.empty(9, np.float32)
    dev(scaled_sums, (1,), x, np.full(4, start, np.float32), out, 16, 4, 8, False)
    assert_same(out[[0, 1, 2, 3, 8]], np.full(5, start, np.float32))
