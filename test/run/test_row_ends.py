"""Rows that fill a part of their block: what is behind their end is neither read nor stored, and counts in reductions as often as it is there."""
import ctypes
import mmap

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import WRAPS, assert_close, assert_same, d, values

pytestmark = pytest.mark.section("3.7 reductions")

LENGTHS = [0, 1, 7, 16, 17, 63, 64, 65, 128, 129, 255, 256, 300, 448, 511, 512]


@tegula.jit
def k_reduce(x, out, n, B: tl.constexpr, HOW: tl.constexpr, OTHER: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=OTHER)
    if HOW == "sum":
        r = tl.sum(v, 0)
    elif HOW == "max":
        r = tl.max(v, 0)
    elif HOW == "xor":
        r = tl.xor_sum(v, 0)
    elif HOW == "shifted":  # is not zero behind the end
        r = tl.sum(v + 2, 0)
    elif HOW == "both":
        r = tl.sum(v, 0) + tl.max(v, 0)
    tl.store(out, r)


@pytest.mark.parametrize("t", ["float32", "float64", "int32", "int8", "float16"])
@pytest.mark.parametrize("how, other", [("sum", 0), ("sum", 3), ("max", -100), ("max", 100), ("xor", 0), ("xor", 5), ("shifted", 0), ("shifted", -2), ("both", 0)])
def test_reductions(dev, t, how, other):
    t = d(t)
    if how == "xor" and not t.is_int:
        pytest.skip("of integers only")
    for n in LENGTHS:
        x = values(t, 512, low=-2, high=2)
        out = np.zeros(1, np.float32 if t.bits < 32 else t.np)
        dev(k_reduce, (1, ), x, out, n, 512, how, other)
        v = np.full(512, other, np.float64)
        v[:n] = x[:n].astype(np.float64)
        if how == "xor":
            expected = np.bitwise_xor.reduce(v.astype(np.int64))
        else:
            expected = {"sum": v.sum(), "max": v.max(), "shifted": (v + 2).sum(), "both": v.sum() + v.max()}[how]
        assert abs(float(out[0]) - float(expected)) <= (0 if t.is_int else (1e-2 if t.bits == 16 else 1e-5) * (1024 + np.abs(v).sum())), (n, out, expected)


@tegula.jit
def k_scaled(x, out, n, scale, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(out, tl.sum(tl.load(x + o, mask=o < n, other=0.0) * scale, 0))


@pytest.mark.parametrize("n", [5, 64, 200, 256])
def test_zero_times_infinity_counts(dev, n):
    """Behind the end is 0 * scale, which is NaN for an infinite scale, if there is anything behind it."""
    x, out = np.ones(256, np.float32), np.zeros(1, np.float32)
    dev(k_scaled, (1, ), x, out, n, float("inf"), 256)
    assert np.isnan(out[0]) if n < 256 else np.isposinf(out[0])
    dev(k_scaled, (1, ), x, out, n, 2.0, 256)
    assert out[0] == 2 * n


@tegula.jit
def k_negative_zeros(x, out, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(out, tl.sum(tl.load(x + o, mask=o < n, other=0.0), 0))


@pytest.mark.parametrize("n", [1, 64, 130, 512])
def test_sum_of_negative_zeros(dev, n):
    """A zero behind the end makes +0 of them."""
    x, out = np.full(512, -0.0, np.float32), np.ones(1, np.float32)
    dev(k_negative_zeros, (1, ), x, out, n, 512)
    assert out[0] == 0 and np.signbit(out[0]) == (n == 512)


@tegula.jit
def k_softmax(x, y, whole, n, stride, B: tl.constexpr):
    o = tl.arange(0, B)
    row = tl.program_id(0)
    v = tl.load(x + row * stride + o, mask=o < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    p = e / tl.sum(e, 0)
    tl.store(y + row * stride + o, p, mask=o < n)
    tl.store(whole + row * B + o, e)


@pytest.mark.parametrize("n", LENGTHS[1:])
def test_what_is_kept_has_all_elements(dev, n):
    """The exponentials are kept between two loops and stored without a mask: those behind the end are zero."""
    x = values(d("float32"), 3 * 512, low=-3, high=3).reshape(3, 512)
    y, whole = np.full((3, 512), 7, np.float32), np.full((3, 512), 7, np.float32)
    dev(k_softmax, (3, ), x, y, whole, n, 512, 512)
    e = np.exp(x[:, :n] - x[:, :n].max(1, keepdims=True))
    assert_close(whole[:, :n], e, 1e-5)
    assert (whole[:, n:] == 0).all() and (y[:, n:] == 7).all()
    assert_close(y[:, :n], e / e.sum(1, keepdims=True), 1e-5)


@tegula.jit
def k_blocks(x, out, n, B: tl.constexpr, HOW: tl.constexpr):
    acc = tl.zeros([B], tl.float32)
    best = tl.full([B], -5.0, tl.float32)
    for s in range(0, n, B):
        o = s + tl.arange(0, B)
        v = tl.load(x + o, mask=o < n, other=HOW)
        acc += v
        best = tl.maximum(best, v)
    tl.store(out, tl.sum(acc, 0))
    tl.store(out + 1, tl.max(best, 0))


@pytest.mark.parametrize("other", [0.0, 1.5, -9.0])
@pytest.mark.parametrize("n", [3, 128, 200, 640, 700])
def test_accumulators_of_blocks(dev, n, other):
    x, out = values(d("float32"), 1024, low=-4, high=4), np.zeros(2, np.float32)
    dev(k_blocks, (1, ), x, out, n, 128, other)
    v = np.full(-(-n // 128) * 128, other, np.float32)
    v[:n] = x[:n]
    assert abs(out[0] - v.astype(np.float64).sum()) < 1e-2
    assert out[1] == max(v.max(), np.float32(-5))


@tegula.jit
def k_tile(x, rows, columns, y, m, n, stride, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    at = r[:, None] * stride + c[None, :]
    inside = (r[:, None] < m) & (c[None, :] < n)
    v = tl.load(x + at, mask=inside, other=0.0)
    tl.store(columns + c, tl.sum(v, 0))
    tl.store(rows + r, tl.sum(v, 1))
    tl.store(y + at, v + 1, mask=inside)


@pytest.mark.parametrize("m, n", [(0, 5), (1, 128), (13, 77), (16, 0), (32, 127), (31, 64), (32, 128), (17, 65)])
def test_tiles(dev, m, n):
    x, y = values(d("float32"), 32 * 128, low=-4, high=4).reshape(32, 128), np.full((32, 128), 7, np.float32)
    rows, columns = np.ones(32, np.float32), np.ones(128, np.float32)
    dev(k_tile, (1, ), x, rows, columns, y, m, n, 128, 32, 128)
    v = np.zeros((32, 128))
    v[:m, :n] = x[:m, :n]
    expected = np.full((32, 128), 7, np.float32)
    expected[:m, :n] = x[:m, :n] + 1
    assert_same(y, expected)
    assert np.abs(rows - v.sum(1)).max() < 1e-3 and np.abs(columns - v.sum(0)).max() < 1e-3


@tegula.jit
def k_window(x, y, out, lo, hi, first, B: tl.constexpr, UNSIGNED: tl.constexpr):
    o = first + tl.arange(0, B)
    if UNSIGNED:
        inside = o.to(tl.uint32, bitcast=True) < hi.to(tl.uint32, bitcast=True)
    else:
        inside = (o >= lo) & (o < hi)
    place = tl.arange(0, B)
    v = tl.load(x + place, mask=inside, other=0)
    tl.store(y + place, v + 1, mask=inside)
    tl.store(out, tl.sum(v, 0))


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("lo, hi, first", [(0, 40, 0), (30, 200, 0), (-5, 200, -64), (0, 300, 100), (0, -1, 0), (0, 100, -50), (250, 300, 0),
                                           *(pytest.param(*c, marks=WRAPS) for c in ((-(2**31), 100, 2**31 - 100), (-(2**31), -(2**31) + 60, 2**31 - 100), (0, 2**31 - 1, 2**31 - 100),
                                                                                      (-(2**31), -1, 2**31 - 200)))])
def test_bounds(dev, lo, hi, first, unsigned):
    """Windows, and positions that wrap around in 32 bits, which may come back below the bound."""
    B = 256
    x, y, out = values(d("int32"), B, low=-9, high=9), np.full(B, 7, np.int32), np.zeros(1, np.int32)
    dev(k_window, (1, ), x, y, out, lo, hi, first, B, unsigned)
    o = (np.int64(first) + np.arange(B) + 2**31) % 2**32 - 2**31
    inside = (o % 2**32) < (hi % 2**32) if unsigned else (o >= lo) & (o < hi)
    assert_same(y, np.where(inside, x + 1, 7).astype(np.int32))
    assert out[0] == x[inside].sum()


@pytest.mark.parametrize("n", [1, 9, 64, 777, 1000, 1023])
def test_nothing_behind_the_end_is_touched(dev, n):
    """The row ends with the memory that there is."""
    if dev.name != "cpu":
        pytest.skip("of the process's own memory")
    size = mmap.PAGESIZE
    room = mmap.mmap(-1, 2 * size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(size), 0) == 0
    row = np.frombuffer((ctypes.c_char * (4 * n)).from_address(address + size - 4 * n), np.float32)
    row[:] = 1
    out = np.zeros(1, np.float32)
    dev(k_negative_zeros, (1, ), row, out, n, 1024)
    libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(size), 3)
    assert out[0] == n


@tegula.jit
def k_beside(x, y, z, M, N, start, scale, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, OTHER: tl.constexpr, HOW: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    rows, columns = (start + r < M)[:, None], (c < N)[None, :]
    mask = rows if HOW == "rows" else columns if HOW == "columns" else rows & columns
    v = tl.load(x + r[:, None] * C + c[None, :], mask=mask, other=OTHER) * scale
    to = c if AXIS == 0 else r
    tl.store(y + to, tl.sum(v, AXIS))
    tl.store(z + to, tl.max(v, AXIS))


@pytest.mark.parametrize("how", ["rows", "columns", "both"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("other", [0, 2])
@pytest.mark.parametrize("t", ["float32", "int32"])
@pytest.mark.parametrize("R, C", [(16, 256), (64, 16), (4, 1024), (128, 64)])
@pytest.mark.parametrize("start", [0, pytest.param(2**31 - 3, marks=WRAPS)])
def test_masks_beside_the_axis(dev, how, axis, other, t, R, C, start):
    """The first index of a row may be close to where its type ends: what is beyond counts as below."""
    t = d(t)
    x = np.random.default_rng(R).integers(-3, 4, (R, C)).astype(t.np)
    scale = 2.0 if t.np == np.float32 else 2
    for M, N in ((0, 0), (1, C), (R, 1), (R // 2 + 1, C // 2 + 1), (R, C)):
        y, z = np.zeros((2, C if axis == 0 else R), t.np)
        row = (start + np.arange(R)).astype(np.uint32).astype(np.int32)
        limit = 2**31 - 1 if start else M
        rows, columns = (row < limit)[:, None], (np.arange(C) < N)[None, :]
        mask = {"rows": rows, "columns": columns, "both": rows & columns}[how]
        v = np.where(mask, x, other) * t.np(2)
        dev(k_beside, (1,), x, y, z, limit, N, start, scale, R, C, axis, other, how)
        assert_same(y, v.sum(axis).astype(t.np))
        assert_same(z, v.max(axis).astype(t.np))


@tegula.jit
def c_product(a, b):
    return a * b


@tegula.jit
def c_larger(a, b):
    return tl.maximum(a, b)


@tegula.jit
def k_scan(x, out, n, B: tl.constexpr, HOW: tl.constexpr, OTHER: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=OTHER)
    if HOW == "sum":
        r = tl.cumsum(v, 0)
    elif HOW == "product":
        r = tl.associative_scan(v, 0, c_product)
    else:
        r = tl.associative_scan(v, 0, c_larger)
    tl.store(out + o, r)


@pytest.mark.parametrize("t", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("how, other", [("sum", 0), ("sum", 3), ("product", 1), ("product", 2), ("product", 0), ("larger", -100), ("larger", 100)])
def test_scans_go_on_behind_the_end(dev, t, how, other):
    t = d(t)
    for n in LENGTHS:
        x, out = values(t, 512, low=-2, high=2), np.zeros(512, t.np)
        if how == "product":
            x = np.where(np.abs(x.astype(np.float64)) < 1, 1, np.sign(x)).astype(t.np)
        v = np.full(512, other, t.np)
        v[:n] = x[:n]
        with np.errstate(over="ignore", invalid="ignore"):
            expected = {"sum": lambda v: np.cumsum(v, dtype=t.np), "product": lambda v: np.cumprod(v, dtype=t.np), "larger": np.maximum.accumulate}[how](v)
        if how == "product" and other == 2 and not t.is_int:
            n = min(n, 500)
        dev(k_scan, (1, ), x, out, n, 512, how, other)
        if how == "product" and other == 2 and not t.is_int:
            assert_same(out[:n], expected[:n])
        elif t.is_int or how != "sum":
            assert_same(out, expected)
        else:
            assert np.abs(out - expected).max() <= 1e-4 * (1 + np.abs(v).sum())


@tegula.jit
def k_scan_tile(x, out, rows, columns, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr):
    r, c = tl.arange(0, A)[:, None], tl.arange(0, B)[None, :]
    v = tl.load(x + r * B + c, mask=(r < rows) & (c < columns), other=0)
    tl.store(out + r * B + c, tl.cumsum(v, AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("A, B", [(8, 128), (64, 32), (256, 8), (4, 512), (128, 4)])
def test_scans_of_tiles_go_on_behind_the_end(dev, A, B, axis):
    """Each row, or column, with what it has come to."""
    for rows in (0, 1, 3, A // 2 + 1, A - 1, A):
        for columns in (0, 1, B // 2, B // 2 + 1, B - 1, B):
            x, out = values(d("int32"), A * B, low=-9, high=9), np.zeros(A * B, np.int32)
            dev(k_scan_tile, (1, ), x, out, rows, columns, A, B, axis)
            v = x.reshape(A, B).copy()
            v[rows:], v[:, columns:] = 0, 0
            assert_same(out.reshape(A, B), np.cumsum(v, axis, dtype=np.int32))


@tegula.jit
def k_kept(x, w, out, y, rows, n, B: tl.constexpr, OTHER: tl.constexpr):
    o = tl.arange(0, B)
    on = o < n
    weight = tl.load(w + o, mask=on, other=OTHER)
    total = tl.zeros([B], tl.float32)
    for row in range(rows):
        v = tl.load(x + row * B + o, mask=on, other=OTHER)
        first = tl.sum(v * weight, 0) / 8
        second = tl.sum(weight + v, 0) / 4
        tl.store(y + row * B + o, v * first - second, mask=on)
        total += v * weight
        tl.store(out + 2 * row, first)
        tl.store(out + 2 * row + 1, second + tl.max(v * weight, 0))
    tl.store(out + 2 * rows + o, total)


@pytest.mark.parametrize("other", [0.0, 1.0, -3.0])
@pytest.mark.parametrize("infinite", [False, True])
def test_what_buffers_hold_ends_with_the_row(dev, other, infinite):
    """Sums of what was loaded before the loop, and of what is kept of its rounds, whose masks stand where it was loaded."""
    B, rows = 512, 3
    for n in LENGTHS:
        x, w = np.random.default_rng(n).integers(-4, 5, (rows, B)).astype(np.float32), np.random.default_rng(n + 1).integers(-4, 5, B).astype(np.float32)
        if infinite and n:
            w[n // 2] = np.inf
        out, y = np.zeros(2 * rows + B, np.float32), np.full((rows, B), 9, np.float32)
        dev(k_kept, (1, ), x, w, out, y, rows, n, B, other)
        v, weight = x.copy(), w.copy()
        v[:, n:], weight[n:] = other, other
        with np.errstate(invalid="ignore", over="ignore"):
            product = v * weight
            first, second = product.sum(1) / 8, (v + weight).sum(1) / 4
            wanted = np.stack([first, second + np.fmax.reduce(product, 1)], 1).ravel()
            stored = v * first[:, None] - second[:, None]
            stored[:, n:] = 9
            assert np.array_equal(out[:2 * rows], wanted, equal_nan=True), n
            assert np.array_equal(out[2 * rows:], product.sum(0), equal_nan=True), n
            assert np.array_equal(y, stored, equal_nan=True), n
