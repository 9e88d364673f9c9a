"""§3.5 dot, dot_scaled in loops whose operands are loaded in fewer bits than the dot multiplies: scaled by groups along K, widened by the library or
by hand. Loops long enough that every slot of the rings is used again, tiles that leave rings one slot, two and more. All numbers are exact."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, rng
from test_dot_scaled import packed

pytestmark = pytest.mark.section("3.5 dot")
ELEMENTS = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}


@tegula.jit
def scaled(a, sa, b, sb, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, AF: tl.constexpr,
           BF: tl.constexpr, G: tl.constexpr, HOW: tl.constexpr):
    # a [M, K], b [N, K] or, packed or not, [K, N] (HOW "rows"); scales [M, K/G] and [N, K/G].
    PA: tl.constexpr = 2 if AF == "e2m1" else 1
    PB: tl.constexpr = 2 if BF == "e2m1" else 1
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    g = tl.arange(0, BK // G)
    pa = a + m[:, None] * (K // PA) + tl.arange(0, BK // PA)[None, :]
    kb = tl.arange(0, BK // PB)[:, None]
    pb = b + (kb * N + n[None, :] if HOW == "rows" else n[None, :] * (K // PB) + kb)
    if HOW == "descriptors":
        da = tl.make_tensor_descriptor(a, [M, K // PA], [K // PA, 1], [BM, BK // PA])
        db = tl.make_tensor_descriptor(b, [N, K // PB], [K // PB, 1], [BN, BK // PB])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        if HOW == "descriptors":
            x, y = da.load([tl.program_id(0) * BM, k // PA]), db.load([tl.program_id(1) * BN, k // PB]).T
        else:
            x, y = tl.load(pa), tl.load(pb)
        p = None if sa is None else tl.load(sa + m[:, None] * (K // G) + k // G + g[None, :])
        q = None if sb is None else tl.load(sb + n[:, None] * (K // G) + k // G + g[None, :])
        acc = tl.dot_scaled(x, p, AF, y, q, BF, acc)
        pa += BK // PA
        pb += BK // PB * N if HOW == "rows" else BK // PB
    tl.store(out + m[:, None] * N + n[None, :], acc)


def elements(name, g, rows, columns):
    choice = np.array([-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3], np.float32)
    return g.choice(choice, (rows, columns)).astype(ELEMENTS[name])


def scales(kind, g, rows, groups):
    if kind == "e8m0":
        bits = g.integers(126, 129, (rows, groups)).astype(np.uint8)
        return bits, np.exp2(bits.astype(np.float32) - 127)
    if kind == "e4m3":
        s = g.choice(np.array([0.5, 1, 1.5, 2], np.float32), (rows, groups)).astype(ml_dtypes.float8_e4m3fn)
        return s, s.astype(np.float32)
    return None, np.ones((rows, groups), np.float32)


# The tiles and stages of the first rows: computed operands with three slots, with two (266,240 bytes with three), with one.
@pytest.mark.parametrize("af, bf, tile, warps, stages, left, right, group, how", [
    ("e4m3", "e4m3", (64, 64, 64), 4, 3, "e8m0", "e8m0", 32, "columns"),
    ("e4m3", "e5m2", (128, 128, 128), 4, 3, "e8m0", "e8m0", 32, "columns"),
    ("e4m3", "e4m3", (128, 256, 128), 8, 2, "e8m0", "e8m0", 32, "columns"),
    ("e5m2", "bf16", (128, 128, 128), 8, 3, "e8m0", None, 32, "columns"),
    ("bf16", "e4m3", (128, 128, 128), 8, 2, None, "e8m0", 32, "rows"),
    ("e2m1", "e2m1", (128, 128, 128), 4, 4, "e8m0", "e8m0", 32, "columns"),
    ("e2m1", "e2m1", (64, 128, 64), 8, 2, "e4m3", "e4m3", 16, "columns"),
    ("bf16", "e2m1", (64, 64, 128), 4, 3, None, "e8m0", 32, "rows"),
    ("e4m3", "e2m1", (128, 64, 64), 4, 3, "e8m0", "e8m0", 32, "columns"),
    ("e4m3", "e4m3", (128, 64, 128), 4, 3, "e8m0", "e8m0", 32, "descriptors"),
    ("e2m1", "e2m1", (64, 64, 128), 8, 4, "e8m0", "e8m0", 16, "descriptors"),
    ("e4m3", "e4m3", (32, 64, 64), 4, 3, "e8m0", "e8m0", 32, "columns"),
])
def test_scaled(dev, af, bf, tile, warps, stages, left, right, group, how):
    bm, bn, bk = tile
    m, n, k = 2 * bm, bn, 7 * bk if bm < 128 else 5 * bk
    g = rng("widened", af, bf, *tile, how)
    a, b = elements(af, g, m, k), elements(bf, g, n, k)
    (sa, fa), (sb, fb) = scales(left, g, m, k // group), scales(right, g, n, k // group)
    stored = packed(np.ascontiguousarray(b.T), 0) if how == "rows" else packed(b, 1)
    out = np.zeros((m, n), np.float32)
    dev(scaled, (2, 1), packed(a, 1), sa, stored, sb, out, m, n, k, *tile, af, bf, group, how, num_warps=warps, num_stages=stages)
    wide = lambda x, f: x.astype(np.float32) * np.repeat(f, group, 1)
    assert_same(out, wide(a, fa) @ wide(b, fb).T)


@tegula.jit
def dequantized(a, w, s, z, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr,
                ZERO: tl.constexpr):
    # Weights of 8 or 4 bits [K / PACK, N] with a scale, and a number to subtract, for each G rows of a column; as published kernels do it.
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    PACK: tl.constexpr = 8 // BITS
    pa = a + m[:, None] * K + k[None, :]
    pw = w + tl.arange(0, BK // PACK)[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(pa, mask=m[:, None] < M, other=0.0)
        q = tl.load(pw)
        scale = tl.load(s + at // G * N + n)
        if BITS == 4:
            q = tl.join((q << 4) >> 4, q >> 4).permute(0, 2, 1).reshape(BK, BN)
        y = q.to(x.dtype)
        if ZERO:
            y -= tl.load(z + at // G * N + n)[None, :]
        acc = tl.dot(x, y * scale[None, :], acc)
        pa += BK
        pw += BK // PACK * N
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("t, m, tile, warps, stages, group, zero", [
    ("bfloat16", 100, (64, 128, 64), 4, 3, 64, False),
    ("float16", 128, (128, 128, 64), 8, 4, 128, True),
    ("bfloat16", 128, (128, 256, 64), 8, 3, 64, False),
    ("float16", 16, (16, 64, 128), 4, 4, 128, True),
])
def test_weights_of_few_bits(dev, t, m, tile, warps, stages, group, zero, bits):
    bm, bn, bk = tile
    n, k = bn, 6 * bk
    if group < bk:
        group = bk
    t = np.dtype(getattr(ml_dtypes, t, t))
    g = rng("dequantized", str(t), m, *tile, bits)
    a = g.integers(-2, 3, (m, k)).astype(t)
    q = g.integers(-8, 8, (k, n)).astype(np.int8)
    s = np.exp2(g.integers(-1, 3, (k // group, n))).astype(t)
    z = g.integers(-3, 4, (k // group, n)).astype(t)
    stored = q if bits == 8 else (q[0::2] & 15) | (q[1::2] << 4)
    out = np.zeros((m, n), np.float32)
    dev(dequantized, (-(-m // bm), 1), a, stored, s, z, out, m, n, k, *tile, group, bits, zero, num_warps=warps, num_stages=stages)
    wide = lambda x: np.repeat(x.astype(np.float32), group, 0)
    assert_same(out, a.astype(np.float32) @ ((q - (wide(z) if zero else 0)) * wide(s)))


@tegula.jit
def blocks(a, b, sa, sb, out, M, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # fp8 with a scale for each row of a and block of K, and each block of b: sums are scaled, not operands.
    m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    n, k = tl.arange(0, BN), tl.arange(0, BK)
    steps = tl.cdiv(K, BK)
    pa, pb = a + m[:, None] * K + k[None, :], b + n[None, :] * K + k[:, None]
    psa, psb = sa + m * steps, sb + (n // BK) * steps
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(steps):
        x = tl.load(pa, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - i * BK, other=0.0)
        acc += tl.dot(x, y) * tl.load(psa)[:, None] * tl.load(psb)[None, :]
        pa += BK
        pb += BK
        psa += 1
        psb += 1
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(out + rows[:, None] * N + n[None, :], acc, mask=rows[:, None] < M)


@pytest.mark.parametrize("m, tile, warps, stages", [(100, (64, 128, 128), 4, 3), (256, (128, 128, 128), 8, 2), (48, (32, 64, 64), 4, 4)])
def test_scales_of_blocks(dev, m, tile, warps, stages):
    bm, bn, bk = tile
    steps, n = 5, bn
    k = steps * bk
    g = rng("blocks", m, *tile)
    a, b = elements("e4m3", g, m, k), elements("e4m3", g, n, k)
    sa = np.exp2(g.integers(-2, 3, (m, steps))).astype(np.float32)
    sb = np.exp2(g.integers(-2, 3, (-(-n // bk), steps))).astype(np.float32)
    out = np.zeros((m, n), np.float32)
    dev(blocks, (-(-m // bm),), a, b, sa, sb, out, m, n, k, *tile, num_warps=warps, num_stages=stages)
    x = a.astype(np.float32) * np.repeat(sa, bk, 1)
    y = b.astype(np.float32) * np.repeat(np.repeat(sb, bk, 1), min(n, bk), 0)[:n]
    assert_same(out, x @ y.T)


@tegula.jit
def eight_in_a_word(a, b, out, scales, zeros, groups, K, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BY_INDEX: tl.constexpr, G: tl.constexpr):
    # 4-bit weights, eight along K in an int32, with scales and packed zeros of groups: by an index for each row of b, or one group an iteration.
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + (k[:, None] // 8) * N + n[None, :]
    shift, zero_shift = (k % 8) * 4, (n % 8) * 4
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        if BY_INDEX:
            g = tl.load(groups + i + k)[:, None]
        else:
            g = i // G
        s = tl.load(scales + g * N + n[None, :])
        z = ((tl.load(zeros + g * (N // 8) + n[None, :] // 8) >> zero_shift[None, :]) & 15) + 1
        q = (tl.load(pb) >> shift[:, None]) & 15
        acc += tl.dot(tl.load(pa), ((q - z) * s).to(tl.float16))
        pa += BK
        pb += BK // 8 * N
    tl.store(out + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("by_index", [False, True])
@pytest.mark.parametrize("tile, warps, stages", [((64, 128, 64), 4, 3), ((128, 64, 64), 8, 2), ((16, 64, 32), 4, 4)])
def test_eight_weights_in_a_word(dev, tile, warps, stages, by_index):
    bm, bn, bk = tile
    k, n, group = 6 * bk, bn, 2 * bk
    g = rng("eight", *tile, by_index)
    a = g.integers(-2, 3, (bm, k)).astype(np.float16)
    q, z = g.integers(0, 16, (k, n)), g.integers(0, 15, (k // group, n))
    s = np.exp2(g.integers(-1, 2, (k // group, n))).astype(np.float16)
    of_row = g.permutation(np.arange(k) // group) if by_index else np.arange(k) // group
    words = lambda x, axis: np.ascontiguousarray(sum(np.take(x, range(i, x.shape[axis], 8), axis).astype(np.uint32) << np.uint32(4 * i) for i in range(8))).view(np.int32)
    out = np.zeros((bm, n), np.float32)
    dev(eight_in_a_word, (1,), a, words(q, 0), out, s, words(z, 1), of_row.astype(np.int32), k, n, *tile, by_index, group, num_warps=warps, num_stages=stages)
    w = (q - (z[of_row] + 1)) * s[of_row].astype(np.float32)
    assert_same(out, a.astype(np.float32) @ w.astype(np.float32))


@tegula.jit
def blocked_scales(a, sa, b, sb, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PACK: tl.constexpr, FORMAT: tl.constexpr,
                   SPECIAL: tl.constexpr):
    # Scales as hardware with such instructions wants them: 128 x 4 of them in 2 x 256 bytes, by descriptors of rank five.
    VEC: tl.constexpr = 32
    RM: tl.constexpr = BM // 128
    RN: tl.constexpr = BN // 128
    RK: tl.constexpr = BK // VEC // 4
    da = tl.make_tensor_descriptor(a, [M, K // PACK], [K // PACK, 1], [BM, BK // PACK])
    db = tl.make_tensor_descriptor(b, [N, K // PACK], [K // PACK, 1], [BN, BK // PACK])
    ds = tl.make_tensor_descriptor(sa, [1, M // 128, K // VEC // 4, 2, 256], [M * (K // VEC), K // VEC * 128, 512, 256, 1], [1, RM, RK, 2, 256])
    dt = tl.make_tensor_descriptor(sb, [1, N // 128, K // VEC // 4, 2, 256], [N * (K // VEC), K // VEC * 128, 512, 256, 1], [1, RN, RK, 2, 256])
    i, j = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K // BK, warp_specialize=SPECIAL):
        x, y = da.load([i * BM, k * (BK // PACK)]), db.load([j * BN, k * (BK // PACK)])
        s = ds.load([0, i * RM, k * RK, 0, 0]).reshape(RM, RK, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // VEC)
        t = dt.load([0, j * RN, k * RK, 0, 0]).reshape(RN, RK, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // VEC)
        acc = tl.dot_scaled(x, s, FORMAT, y.T, t, FORMAT, acc)
    tl.store(out + (i * BM + tl.arange(0, BM))[:, None] * N + j * BN + tl.arange(0, BN)[None, :], acc)


@pytest.mark.parametrize("special", ["never", True])
@pytest.mark.parametrize("fmt, tile, warps, stages", [("e4m3", (128, 128, 128), 8, 3), ("e2m1", (128, 128, 128), 4, 3), ("e5m2", (128, 256, 128), 8, 2)])
def test_blocked_scales(dev, fmt, tile, warps, stages, special):
    bm, bn, bk = tile
    m, n, k = bm, bn, 5 * bk
    g = rng("blocked", fmt, *tile)
    a, b = elements(fmt, g, m, k), elements(fmt, g, n, k)
    (sa, fa), (sb, fb) = scales("e8m0", g, m, k // 32), scales("e8m0", g, n, k // 32)
    blocked = lambda s: np.ascontiguousarray(s.reshape(-1, 4, 32, k // 128, 4).transpose(0, 3, 2, 1, 4))
    out = np.zeros((m, n), np.float32)
    dev(blocked_scales, (1, 1), packed(a, 1), blocked(sa), packed(b, 1), blocked(sb), out, m, n, k, *tile, 2 if fmt == "e2m1" else 1, fmt, special,
        num_warps=warps, num_stages=stages)
    wide = lambda x, f: x.astype(np.float32) * np.repeat(f, 32, 1)
    assert_same(out, wide(a, fa) @ wide(b, fb).T)
