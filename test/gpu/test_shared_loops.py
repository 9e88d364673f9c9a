"""Loops over the blocks of a long row, whose iterations the CTAs of a cluster share (gpu/parts/ShareLoops.h): rows that one multiprocessor has no room for."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from test_held_rows import KIB, cross_entropy, layer_norm, rows, softmax


def expected_softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)


def launched(kernel, *args, **options):
    """Many programs, of which the first two have rows."""
    return kernel[(2000,)](*args, device="sim", **options)


def alone(kernel, *args, **options):
    """The same in one CTA; not a kernel of test_held_rows.py, which looks at what its first launch has chosen."""
    k = launched(kernel, *args, clusters=False, num_stages=2, **options)
    assert k.metadata.cluster_ctas == 1
    return k


@pytest.mark.parametrize("n, block, warps, ctas, kib", [
    (65536, 4096, 8, 4, 64),
    (65008, 4096, 8, 4, 64),       # the last block is not whole
    (36880, 2048, 8, 4, 40),       # one CTA has an iteration less
    (1 << 17, 8192, 16, 8, 64),
    (1 << 18, 4096, 16, 16, 64),
])
def test_softmax(n, block, warps, ctas, kib):
    x, out = rows(n, np.float32)
    k = launched(softmax, x, out, n, n, block, num_warps=warps)
    assert k.metadata.cluster_ctas == ctas and k.metadata.shared >= kib * KIB
    np.testing.assert_allclose(out, expected_softmax(x), rtol=2e-5)


def test_parts_without_numbers():
    """All blocks of one CTA, of several, and of all are -inf, at the beginning, at the end, and everywhere."""
    n, block, ctas = 65536, 4096, 4
    for dead in [{1}, {0}, {1, 3}, {0, 1, 2}, {0, 1, 2, 3}]:
        x, out = rows(n, np.float32)
        x[0].reshape(-1, block)[[i for i in range(n // block) if i % ctas in dead]] = -np.inf
        x[1, : n // 2] = -np.inf
        k = launched(softmax, x, out, n, n, block, num_warps=8)
        assert k.metadata.cluster_ctas == ctas
        np.testing.assert_allclose(out, expected_softmax(x), rtol=2e-5)


@pytest.mark.parametrize("least", [np.finfo(np.float32).min, -np.inf, np.nan, np.inf])
def test_rows_of_one_value(least):
    """The least number is one as others: a row of it is uniform."""
    n = 65536
    x, out = np.full((2, n), least, np.float32), np.zeros((2, n), np.float32)
    x[1, 70] = 1.5
    launched(softmax, x, out, n, n, 4096, num_warps=8)
    other = np.zeros_like(out)
    alone(softmax, x, other, n, n, 4096, num_warps=8)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(other))
    np.testing.assert_allclose(out, other, rtol=2e-5)


@pytest.mark.parametrize("n", [65536, 65008])
def test_three_loops(n):
    x, out = rows(n, np.float32)
    w, b = (np.random.default_rng(seed).normal(size=n).astype(np.float32) for seed in (1, 2))
    k = launched(layer_norm, x, w, b, out, n, 4096, num_warps=8)
    assert k.metadata.cluster_ctas == 4
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    np.testing.assert_allclose(out, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [65536, 65008])
def test_in_place(n):
    """CTAs meet between the loop that reads the row and that which changes it, as the label may be in another CTA's block."""
    x, _ = rows(n, np.float32)
    wide, loss = x.astype(np.float64), np.zeros(2, np.float32)
    k = launched(cross_entropy, x, loss, np.array([5000, -1]), n, 4096, num_warps=8)
    assert k.metadata.cluster_ctas == 4
    p = np.exp(wide[0] - wide[0].max())
    p /= p.sum()
    assert np.isclose(loss[0], -np.log(p[5000]), rtol=1e-5)
    p[5000] -= 1
    np.testing.assert_allclose(x, [p, np.zeros(n)], rtol=2e-4, atol=1e-9)


@tegula.jit
def online_by_elements(x, out, n, R: tl.constexpr, BLOCK: tl.constexpr):
    """Several rows of a program; the maximum and the sum by rows, the exponentials of 2, with a pointer that moves."""
    if tl.program_id(0) >= 1:
        return
    row = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * n
    top, total = tl.full([R], -float("inf"), tl.float32), tl.zeros([R], tl.float32)
    most = tl.full([R, BLOCK], -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row + at, at < n, other=-float("inf"))
        now = tl.maximum(top, tl.max(v, 1))
        total = total * tl.exp2((top - now) * 1.5) + tl.sum(tl.exp2((v - now[:, None]) * 1.5), 1)
        most = tl.maximum(most, v)
        top = now
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row + at, at < n, other=-float("inf"))
        tl.store(out + row + at, tl.exp2((v - tl.max(most, 1)[:, None]) * 1.5) / total[:, None], at < n)


def test_rows_of_a_program():
    n = 40000
    x, out = rows(n, np.float32)
    k = launched(online_by_elements, x, out, n, 2, 2048, num_warps=8)
    assert k.metadata.cluster_ctas > 1
    np.testing.assert_allclose(out, expected_softmax(x * (1.5 * np.log(2.0))), rtol=2e-5)


@tegula.jit
def guarded(x, out, n, BLOCK: tl.constexpr):
    """What is subtracted is 0 while there is no number; blocks are counted."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    top, total = -float("inf"), 0.0
    for i in range(0, tl.cdiv(n, BLOCK)):
        at = i * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-float("inf"))
        now = tl.maximum(top, tl.max(v, 0))
        safe = tl.where(now == -float("inf"), 0.0, now)
        total = total * tl.exp(top - safe) + tl.sum(tl.exp(v - safe), 0)
        top = now
    for i in range(0, tl.cdiv(n, BLOCK)):
        at = i * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-float("inf"))
        tl.store(out + tl.program_id(0) * n + at, tl.exp(v - top) / total, at < n)


@tegula.jit
def nan_or_larger(a, b):
    return tl.where((a > b) | (a != a), a, b)


@tegula.jit
def masked(x, out, n, BLOCK: tl.constexpr):
    """By elements, with NaN, elements behind the end left as they are; what is -inf alone is counted."""
    if tl.program_id(0) >= 2:
        return
    row = tl.program_id(0) * n + tl.arange(0, 1)[:, None]
    tops, totals = tl.full([1, BLOCK], -float("inf"), tl.float32), tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row + at, at < n, other=0.0)
        now = nan_or_larger(tops, v)
        fall = tl.where(now == -float("inf"), 1.0, tl.exp(tops - now))
        totals = tl.where(at < n, totals * fall + tl.where(now == -float("inf"), 1.0, tl.exp(v - now)), totals)
        tops = tl.where(at < n, now, tops)
    top = tl.reduce(tops, 1, nan_or_larger)[:, None]
    total = tl.sum(totals * tl.exp(tl.where(top == -float("inf"), 0, tops - top)), 1)[:, None]
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row + at, at < n, other=0.0)
        tl.store(out + row + at, tl.exp(v - top) / total, at < n)


@tegula.jit
def maximum_first(x, out, n, BLOCK: tl.constexpr):
    """The maximum of a block and of those before in one reduction."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    top, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        top = tl.max(tl.maximum(tl.load(x + at, at < n, other=-float("inf")), top))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.where(at < n, tl.exp(tl.load(x + at, at < n, other=0.0) - top), 0.0))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * n + at, tl.exp(tl.load(x + at, at < n, other=0.0) - top) / total, at < n)


def same_as_alone(kernel, x, block, ctas):
    out, other = np.full_like(x, 7), np.full_like(x, 7)
    assert launched(kernel, x, out, x.shape[1], block, num_warps=8).metadata.cluster_ctas == ctas
    alone(kernel, x, other, x.shape[1], block, num_warps=8)
    np.testing.assert_allclose(out, other, rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize("kernel", [guarded, masked, maximum_first])
@pytest.mark.parametrize("n", [65536, 36880])
def test_spellings(kernel, n):
    x, out = rows(n, np.float32)
    assert launched(kernel, x, out, n, 2048, num_warps=8).metadata.cluster_ctas == 4
    np.testing.assert_allclose(out, expected_softmax(x), rtol=2e-5)


@pytest.mark.parametrize("kernel", [guarded, masked, maximum_first])
def test_spellings_without_numbers(kernel):
    """Parts, and rows, of -inf and with NaN give what one CTA makes of them."""
    n, block = 36880, 2048
    x = np.resize(rows(n, np.float32)[0], (2, n))
    part = np.arange(n) // block % 4
    dead = np.where((part == 1) | (part == 2), -np.inf, x)
    late = np.where(np.arange(n) < 4 * block, -np.inf, x)
    late[:, block + 7] = np.nan
    for v in (dead, np.full_like(x, -np.inf), late, np.where(np.arange(n) == n - 3, np.nan, x)):
        same_as_alone(kernel, v.astype(np.float32), block, 4)


@tegula.jit
def entropy_gradient(x, out, n, BLOCK: tl.constexpr):
    """Two sums relative to one maximum, of which one has weights."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    top, total, weighted = -float("inf"), 0.0, 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-1e30)
        now = tl.maximum(top, tl.max(v, 0))
        p = tl.exp(v - now)
        fall = tl.exp(top - now)
        total = total * fall + tl.sum(p, 0)
        weighted = weighted * fall + tl.sum(p * v, 0)
        top = now
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-1e30)
        tl.store(out + tl.program_id(0) * n + at, tl.exp(v - top) / total * (weighted / total - v), at < n)


def test_weighted_sums():
    n = 36880
    x, out = rows(n, np.float32)
    assert launched(entropy_gradient, x, out, n, 2048, num_warps=8).metadata.cluster_ctas == 4
    p, wide = expected_softmax(x), x.astype(np.float64)
    np.testing.assert_allclose(out, p * ((p * wide).sum(1, keepdims=True) - wide), rtol=1e-4, atol=1e-9)
    same_as_alone(entropy_gradient, np.full((2, n), -np.inf, np.float32), 2048, 4)


@tegula.jit
def joined(mean, m2, weight, other_mean, other_m2, other_weight):
    delta = other_mean - mean
    both = weight + other_weight
    part = tl.where(both == 0.0, 0.0, other_weight / both)
    return mean + delta * part, m2 + other_m2 + delta * delta * weight * part, both


@tegula.jit
def running_moments(x, out, n, BLOCK: tl.constexpr, WRONG: tl.constexpr = False):
    """By elements, joined behind the loop; the first iteration has a way of its own."""
    if tl.program_id(0) >= 2:
        return
    row = tl.program_id(0) * n + tl.arange(0, 1)[:, None]
    mean, m2, weight = tl.zeros([1, BLOCK], tl.float32), tl.zeros([1, BLOCK], tl.float32), tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + row + at, at < n, other=0.0)
        if start == 0:
            now, squares, more = v, tl.zeros_like(m2), tl.full(weight.shape, 1, weight.dtype)
        else:
            delta = v - mean
            more = weight + 1
            now = mean + delta / more
            squares = m2 + delta * (v - (mean if WRONG else now))
        mean, m2, weight = tl.where(at < n, now, mean), tl.where(at < n, squares, m2), tl.where(at < n, more, weight)
    mean, m2, weight = tl.reduce((mean, m2, weight), 1, joined)
    scale = 1 / tl.sqrt(m2[:, None] / weight[:, None] + 1e-5)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        tl.store(out + row + at, (tl.load(x + row + at, at < n, other=0.0) - mean[:, None]) * scale, at < n)


@pytest.mark.parametrize("n", [65536, 36880])
def test_running_moments(n):
    x, out = rows(n, np.float32)
    x += 3
    assert launched(running_moments, x, out, n, 2048, num_warps=8).metadata.cluster_ctas == 4
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    np.testing.assert_allclose(out, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5), rtol=1e-4, atol=1e-4)


def test_what_only_looks_like_moments():
    x, out = rows(36880, np.float32)
    assert launched(running_moments, x, out, 36880, 2048, True, num_warps=8).metadata.cluster_ctas == 1


@tegula.jit
def left_out(x, out, n, BLOCK: tl.constexpr, LEAST: tl.constexpr):
    """Exponentials of what is left out are 0: of elements that count as the least number, or behind half a guard."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    top, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        w = tl.load(x + at, at < n, other=-5.0)
        now = tl.maximum(top, tl.max(tl.where(w > -4.0, w, -3.4028234663852886e38 if LEAST else -float("inf")), 0))
        fall = tl.exp(top - now) if LEAST else tl.where(now == -float("inf"), 1.0, tl.exp(top - now))
        total = total * fall + tl.sum(tl.where(w > -4.0, tl.exp(w - now), 0.0), 0)
        top = now
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * n + at, tl.where(at % 2 == 0, top, total) + 0 * tl.load(x + at, at < n, other=0.0), at < n)


@tegula.jit
def by_lanes(x, out, n, BLOCK: tl.constexpr, FLOOR: tl.constexpr):
    """Sums by elements are scaled by more than one number, or not at all."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    tops, totals = tl.full([BLOCK], -1e30, tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-1e30)
        now = tl.maximum(tops, v)
        totals = totals * tl.exp(tops - now) + tl.exp(v - now)
        tops = now
    top = tl.max(tops, 0)
    total = tl.sum(totals * tl.exp(tops - tl.maximum(tops, 0.0) if FLOOR else tl.where(top > 1.0, 0.0, tops - top)), 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * n + at, total + 0 * tl.load(x + at, at < n, other=0.0), at < n)


@tegula.jit
def other_axis(x, out, n, BLOCK: tl.constexpr, SUMS: tl.constexpr):
    """What is reduced along one axis counts along the other in the next iteration."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    r = tl.arange(0, 32)
    top, total = tl.full([32], -1e30, tl.float32), tl.zeros([32], tl.float32)
    for start in range(0, n, 1024):
        at = start + r[:, None] * 32 + r[None, :]
        v = tl.load(x + at, at < n, other=-1e30)
        if SUMS:
            now = tl.maximum(top, tl.max(v, 1))
            total = total * tl.exp(top - now) + tl.sum(tl.exp(v - now[:, None]), 0)
            top = now
        else:
            top = tl.max(tl.maximum(v, top[None, :]), 1)
    for start in range(0, n, 1024):
        at = start + r[:, None] * 32 + r[None, :]
        tl.store(out + tl.program_id(0) * n + at, (total if SUMS else top)[:, None] + 0 * tl.load(x + at, at < n, other=0.0), at < n)


@pytest.mark.parametrize("kernel", [left_out, by_lanes, other_axis])
@pytest.mark.parametrize("which", [False, True])
def test_what_only_looks_like_them(kernel, which):
    n, block = 36880, 2048
    x = np.resize(rows(n, np.float32)[0], (2, n))
    x[1] = -7 if kernel is left_out else x[1]
    out, other = np.full_like(x, 7), np.full_like(x, 7)
    launched(kernel, x, out, n, block, which, num_warps=8)
    alone(kernel, x, other, n, block, which, num_warps=8)
    np.testing.assert_allclose(out, other, rtol=2e-5)


@tegula.jit
def in_two_loops(out, m, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for start in range(0, m, BLOCK):
        tl.store(out + start + at, tl.full((BLOCK,), 1.0, tl.float32))
    for start in range(m, n, BLOCK):
        tl.store(out + start + at, tl.full((BLOCK,), 2.0, tl.float32))


@pytest.mark.parametrize("m", [100, 128, 512])
def test_a_loop_that_begins_inside_of_a_step(m):
    """Both loops store some elements, by other threads."""
    out, expected = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    in_two_loops[(1,)](out, m, 2048, 512, device="sim", num_warps=4)
    expected[:512] = 1
    expected[m : m + -(-(2048 - m) // 512) * 512] = 2
    np.testing.assert_array_equal(out, expected)


@tegula.jit
def block_pointers(x, out, n, BLOCK: tl.constexpr):
    """Blocks that move behind the iterations that are held go on in those that are not."""
    if tl.program_id(0) >= 2:
        return
    row = tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    block = tl.make_block_ptr(x + row, (n,), (1,), (0,), (BLOCK,), (0,))
    tops = tl.full([BLOCK], -float("inf"), tl.float32)
    for i in range(0, tl.cdiv(n, BLOCK)):
        tops = tl.maximum(tops, tl.where(i * BLOCK + at < n, tl.load(block, boundary_check=(0,)), -float("inf")))
        block = tl.advance(block, (BLOCK,))
    top = tl.max(tops, 0)
    block, to = tl.make_block_ptr(x + row, (n,), (1,), (0,), (BLOCK,), (0,)), tl.make_block_ptr(out + row, (n,), (1,), (0,), (BLOCK,), (0,))
    for i in range(0, tl.cdiv(n, BLOCK)):
        tl.store(to, tl.exp(tl.load(block, boundary_check=(0,)) - top), boundary_check=(0,))
        block, to = tl.advance(block, (BLOCK,)), tl.advance(to, (BLOCK,))


@pytest.mark.filterwarnings("ignore:make_block_ptr")
@pytest.mark.parametrize("n", [65536, 36880])
def test_block_pointers(n):
    x, out = rows(n, np.float32)
    assert launched(block_pointers, x, out, n, 2048, num_warps=8).metadata.cluster_ctas == 4
    np.testing.assert_allclose(out, np.exp(x - x.max(1, keepdims=True)), rtol=2e-5)


@tegula.jit
def decaying(x, out, n, BLOCK: tl.constexpr):
    """What an iteration adds is scaled by all later ones: their order counts."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    total = 0.0
    for start in range(0, n, BLOCK):
        total = total * 0.5 + tl.sum(tl.load(x + start + tl.arange(0, BLOCK)), 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * n + at, tl.load(x + at) + total)


@tegula.jit
def unlike(x, out, n, BLOCK: tl.constexpr):
    """The sum is not of exponentials relative to the maximum: each is relative to that of its own time."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    top, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        v = tl.load(x + start + tl.arange(0, BLOCK))
        now = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - now) + tl.sum(v, 0)
        top = now
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * n + at, tl.load(x + at) - top + total)


@tegula.jit
def read_back(x, out, n, BLOCK: tl.constexpr):
    """The third loop reads what the second one has stored, from the block before."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        sums += tl.load(x + start + tl.arange(0, BLOCK))
    total = tl.sum(sums, 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) + total)
    again = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        again += tl.load(out + start + tl.arange(0, BLOCK))
    tl.store(out, tl.sum(again, 0))


@tegula.jit
def sums_of_sums(x, out, n, BLOCK: tl.constexpr):
    """Both only add to what they are, but one of them adds the other as it is by then."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    sums, total = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        sums += tl.load(x + start + tl.arange(0, BLOCK))
        total += sums
    all = tl.sum(total, 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0) * n + at, tl.load(x + at) + all)


@pytest.mark.parametrize("kernel", [decaying, unlike, read_back, sums_of_sums])
def test_what_one_cta_does(kernel):
    n = 65536
    x, out = rows(n, np.float32)
    assert launched(kernel, x, out, n, 4096, num_warps=8).metadata.cluster_ctas == 1
    other = np.zeros_like(out)
    alone(kernel, x, other, n, 4096, num_warps=8)
    np.testing.assert_array_equal(out, other)


@tegula.jit
def summed_in_the_next_loop(x, out, n, BLOCK: tl.constexpr):
    acc, total = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, split=2):
        acc += tl.load(x + start + tl.arange(0, BLOCK))
    for start in tl.range(0, n, BLOCK, split=2):
        v = tl.load(x + start + tl.arange(0, BLOCK))
        if start >= 2 * BLOCK:
            v = v * tl.sum(acc)
        total += v
    tl.store(out + tl.arange(0, BLOCK), total)


@pytest.mark.parametrize("blocks", [3, 4, 5])
def test_reduction_in_a_later_split_loop(blocks):
    """CTAs exchange nothing in a loop that not all run equally often."""
    x, out = np.random.default_rng(blocks).integers(-3, 4, size=256 * blocks).astype(np.float32), np.zeros(256, np.float32)
    summed_in_the_next_loop[(1,)](x, out, x.size, 256, device="sim", num_warps=4, num_ctas=2)
    parts = x.astype(np.float64).reshape(blocks, 256)
    np.testing.assert_allclose(out, parts[:2].sum(0) + parts[2:].sum(0) * x.sum(), rtol=1e-5)
