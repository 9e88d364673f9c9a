"""Flat positions, whose addresses go by quotients and remainders: CPUs go from end of row to end of row (src/targets/cpu/emit/EmitRuns.cpp)."""
import numpy as np
import pytest

import tegula
import tegula.language as tl

pytestmark = pytest.mark.section("3.4 memory")


def divided(x, n):
    """C's quotient and remainder."""
    q = np.abs(x) // np.abs(n) * (np.sign(x) * np.sign(n))
    return q, x - q * n


@tegula.jit
def rows(x, out, start, total, W, S, H, B: tl.constexpr, CONST: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    on = i < total
    w = CONST if CONST else W
    p = start + i
    c, r = p % w, p // w
    g = (p // (w * H)) * 3 + r % H
    there = (c >= -64) & (c < 300) & (g >= -40) & (g < 900)
    v = tl.load(x + 20000 + c + S * g, mask=on & there, other=-1)
    tl.store(out + i, v + c * 10000 + r, mask=on)


@pytest.mark.parametrize("element", [np.int32, np.int64])
@pytest.mark.parametrize("w, h, start, total", [(56, 7, 0, 5000), (58, 3, 0, 4097), (64, 12, 0, 4096), (300, 1, 5, 3000), (17, 4, 3, 1000), (16, 5, 0, 900), (5, 7, 0, 700), (1, 9, 0, 600), (33, 2, -100, 600),
                                                (200, 3, -5, 1000), (57, 2, 2**31 - 2200, 2048), (40, 3, 2**31 - 500, 1000), (128, 1 << 20, 0, 2000), (-7, 3, 0, 300),
                                                # w * h wraps around to 404, no multiple of 300, and to less than zero
                                                (300, 14316559, 0, 2500), (96, 1 << 26, 0, 1000)])
@pytest.mark.parametrize("const", [False, True])
def test_rows_of_flat_positions(dev, element, w, h, start, total, const):
    """Rows that are longer and shorter than vectors, of one element; numbers begin below zero, and wrap around in 32 bits; divisors of the launch and constants."""
    if const and w <= 0:
        pytest.skip("no divisor")
    b, s = 1024, 21
    x = np.arange(60000, dtype=element)
    out = np.full(total + 8, 77, element)
    dev(rows, (-(-total // b),), x, out, start, total, w, s, h, B=b, CONST=w if const else 0)
    p = (start + np.arange(total, dtype=np.int64) + 2**31) % 2**32 - 2**31
    r, c = divided(p, w)
    wh = (w * h + 2**31) % 2**32 - 2**31
    g = divided(p, wh)[0] * 3 + divided(r, h)[1]
    there = (c >= -64) & (c < 300) & (g >= -40) & (g < 900)
    want = np.where(there, x[np.where(there, 20000 + c + s * g, 0)], -1) + c * 10000 + r
    assert np.array_equal(out[:total], want.astype(element)) and (out[total:] == 77).all()


@tegula.jit
def patches(x, out, total, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    on = i < total
    x0, x1, x2, x3, x4 = i % W, (i // W) % H, (i // (W * H)) % K, (i // (W * H * K)) % K, i // (W * H * K * K)
    y, z = x1 + x3 - 1, x0 + x2 - 1
    m = (y >= 0) & (y < H) & (z >= 0) & (z < W)
    tl.store(out + i, tl.load(x + z + W * y + W * H * x4, m & on, other=0.0), on)


@pytest.mark.parametrize("element", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("c, h, w", [(3, 9, 31), (2, 20, 56), (1, 40, 16), (2, 5, 7), (1, 3, 130)])
def test_patches_of_images(dev, element, c, h, w):
    k = 3
    x = np.random.default_rng(w).integers(1, 100, (c, h, w)).astype(element)
    out = np.zeros((c, k, k, h, w), element)
    dev(patches, (-(-out.size // 512),), x, out, out.size, C=c, H=h, W=w, K=k, B=512)
    padded = np.zeros((c, h + 2, w + 2), element)
    padded[:, 1:-1, 1:-1] = x
    want = np.stack([np.stack([padded[:, a:a + h, b:b + w] for b in range(k)], 1) for a in range(k)], 1)
    assert np.array_equal(out, want)


@tegula.jit
def scattered_rows(x, out, total, W, S, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < total)
    tl.store(out + (i % W) + S * (i // W), v, mask=i < total)


@tegula.jit
def sums_of_rows(x, out, total, W, S, B: tl.constexpr):
    i = tl.arange(0, B)
    total_ = 0.0
    most = float("-inf")
    for s in range(0, total, B):
        p = s + i
        v = tl.load(x + (p % W) + S * (p // W), mask=p < total, other=0.0)
        total_ += tl.sum(v * ((p // W) + 1))
        most = tl.maximum(most, tl.max(v))
    tl.store(out, total_)
    tl.store(out + 1, most)


@pytest.mark.parametrize("w, n", [(31, 40), (64, 30), (100, 11), (3, 300), (700, 3)])
def test_stores_and_sums_by_rows(dev, w, n):
    s = w + 9
    rng = np.random.default_rng(w)
    flat = rng.integers(0, 5, w * n).astype(np.float32)
    out = np.full((n, s), -1, np.float32)
    dev(scattered_rows, (-(-flat.size // 256),), flat, out, flat.size, w, s, B=256)
    assert np.array_equal(out[:, :w].ravel(), flat) and (out[:, w:] == -1).all()
    result = np.zeros(2, np.float32)
    dev(sums_of_rows, (1,), out, result, flat.size, w, s, B=512)
    assert result[0] == (flat.reshape(n, w) * (np.arange(n)[:, None] + 1)).sum() and result[1] == flat.max()


@tegula.jit
def least_of_rows(x, out, W: tl.constexpr, B: tl.constexpr):
    one, _ = tl.min(tl.full([B], 1.0, tl.float32), 0, return_indices=True)
    least, at = tl.min(tl.load(x + tl.arange(0, B) % W), 0, return_indices=True)
    tl.store(out, one)
    tl.store(out + 1, least)
    tl.store(out + 2, at)


@pytest.mark.parametrize("w, block", [(16, 64), (64, 512), (24, 256)])
def test_reductions_without_a_neutral_element_by_rows(dev, w, block):
    x, out = np.arange(w, dtype=np.float32)[::-1] + 3, np.zeros(3, np.float32)
    dev(least_of_rows, (1,), np.ascontiguousarray(x), out, W=w, B=block)
    assert out.tolist() == [1, 3, w - 1]


@tegula.jit
def rows_or_one(flags, x, out, R: tl.constexpr, C: tl.constexpr, W: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    at = i * C + j
    one = tl.load(x + tl.full([R, C], 0, tl.int32), mask=tl.load(flags + at % W) != 0, other=0)
    tl.store(out + at, one | tl.load(x + j))


@pytest.mark.parametrize("rows, columns, w", [(16, 16, 32), (16, 16, 40), (8, 8, 33), (64, 4, 48)])
def test_rows_that_do_not_change_stay_in_front_of_the_loop(dev, rows, columns, w):
    """What all vectors load alike is loaded before they are, also where a row ends in a vector, which is done twice then."""
    rng = np.random.default_rng(w)
    flags, x, out = rng.integers(0, 2, 64).astype(np.int8), rng.integers(0, 99, columns).astype(np.int16), np.full(rows * columns, -1, np.int16)
    dev(rows_or_one, (1,), flags, x, out, R=rows, C=columns, W=w)
    at = np.arange(rows * columns)
    assert np.array_equal(out, np.where(flags[at % w] != 0, x[0], 0) | x[at % columns])
