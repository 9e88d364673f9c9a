"""§3.5 dot_scaled: formats, packings, groups of 16 and 32, absent scales, NaN scales, batches, a loop over K."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_same, rng

pytestmark = pytest.mark.section("3.5 dot_scaled")
ELEMENTS = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16
}


@tegula.jit
def k_scaled(a, sa, b, sb, c, out, AF: tl.constexpr, BF: tl.constexpr, B: tl.constexpr, AR: tl.constexpr,
             AC: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             GROUPS: tl.constexpr, A_K: tl.constexpr, B_K: tl.constexpr, FAST: tl.constexpr):
    x = tl.load(a + tl.arange(0, AR)[:, None] * AC + tl.arange(0, AC)[None, :])
    y = tl.load(b + tl.arange(0, BR)[:, None] * BC + tl.arange(0, BC)[None, :])
    g = tl.arange(0, GROUPS)[None, :]
    p = None if sa is None else tl.load(sa + tl.arange(0, M)[:, None] * GROUPS + g)
    q = None if sb is None else tl.load(sb + tl.arange(0, N)[:, None] * GROUPS + g)
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    acc = None if c is None else tl.load(c + at)
    r = tl.dot_scaled(x, p, AF, y, q, BF, acc, FAST, lhs_k_pack=A_K, rhs_k_pack=B_K)
    tl.static_assert(r.dtype == tl.float32)
    tl.static_assert(r.shape == [M, N])
    tl.store(out + at, r)


def elements(name, g, rows, columns):
    """Numbers of a format that add up without rounding: few bits, a narrow range."""
    choice = np.array([-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4], np.float32)
    return g.choice(choice, (rows, columns)).astype(ELEMENTS[name])


def packed(x, axis):
    """Pairs of e2m1 along an axis in bytes; other formats as they are."""
    if x.dtype != ml_dtypes.float4_e2m1fn:
        return x
    bits = np.moveaxis(x.view(np.uint8) & 15, axis, 0)
    return np.ascontiguousarray(np.moveaxis(bits[0::2] | bits[1::2] << 4, 0, axis))


def scales(kind, g, rows, groups):
    if kind in ("e8m0", "signed e8m0"):
        bits = g.integers(125, 131, (rows, groups)).astype(np.uint8)
        return bits.view(np.int8) if kind == "signed e8m0" else bits, np.exp2(bits.astype(np.float32) - 127)
    if kind == "e4m3":
        s = g.choice(np.array([0.5, 1, 1.5, 2, 3], np.float32), (rows, groups)).astype(ml_dtypes.float8_e4m3fn)
        return s, s.astype(np.float32)
    return None, np.ones((rows, groups), np.float32)


def run(dev, af, bf, m, n, k, left, right, group=32, a_k=True, b_k=True, acc=False, bits=False, change=None, fast=False):
    g = rng("dot_scaled", af, bf, m, n, k, str(left), str(right), group, a_k, b_k)
    a, b = elements(af, g, m, k), elements(bf, g, k, n)
    groups = k // group
    (sa, fa), (sb, fb) = scales(left, g, m, groups), scales(right, g, n, groups)
    if change:
        change(a, sa, fa, b, sb, fb)
    c = g.integers(-8, 8, (m, n)).astype(np.float32) if acc else None
    pa, pb = packed(a, 1 if a_k else 0), packed(b, 0 if b_k else 1)
    if bits:
        pa, pb = (p.view(np.uint16 if p.itemsize == 2 else np.uint8) for p in (pa, pb))
    out = np.zeros((m, n), np.float32)
    flat = lambda x: None if x is None else np.ascontiguousarray(x).reshape(-1)
    dev(k_scaled, (1,), flat(pa), flat(sa), flat(pb), flat(sb), flat(c), out.reshape(-1), af, bf, 1, *pa.shape, *pb.shape,
        m, n, groups, a_k, b_k, fast)
    wide = lambda x: x.astype(np.float32).astype(np.float64)
    x = wide(a) * np.repeat(fa.astype(np.float64), group, 1)
    y = wide(b) * np.repeat(fb.astype(np.float64), group, 1).T
    with np.errstate(invalid="ignore", over="ignore"):
        return out, (x @ y + (0 if c is None else c)).astype(np.float32)


@pytest.mark.parametrize("bf", ELEMENTS)
@pytest.mark.parametrize("af", ELEMENTS)
def test_formats(dev, af, bf):
    narrow = ("e2m1", "e4m3", "e5m2")
    assert_same(*run(dev, af, bf, 32, 16, 64, "e8m0" if af in narrow else None, "e8m0" if bf in narrow else None))


@pytest.mark.parametrize("left, right", [("e8m0", None), (None, "e8m0"), (None, None), ("e8m0", "e8m0")])
@pytest.mark.parametrize("group", [16, 32])
@pytest.mark.parametrize("af, bf", [("e2m1", "e4m3"), ("e5m2", "e2m1"), ("fp16", "fp16"), ("fp16", "e4m3"),
                                    ("bf16", "e2m1")])
def test_scales(dev, af, bf, group, left, right):
    assert_same(*run(dev, af, bf, 16, 32, 128, left, right, group, acc=True))


@pytest.mark.parametrize("a_k, b_k", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("m, n, k", [(32, 32, 64), (16, 64, 32), (128, 16, 128)])
def test_packed_along_rows_and_columns(dev, m, n, k, a_k, b_k):
    assert_same(*run(dev, "e2m1", "e2m1", m, n, k, "e8m0", "e8m0", a_k=a_k, b_k=b_k))


def test_fp8_scales_of_groups_of_16(dev):
    assert_same(*run(dev, "e2m1", "e2m1", 32, 32, 128, "e4m3", "e4m3", 16))


@pytest.mark.parametrize("left, right", [("signed e8m0", "e8m0"), (None, "signed e8m0")])
def test_scales_as_signed_bytes(dev, left, right):
    assert_same(*run(dev, "e4m3", "e2m1", 16, 16, 64, left, right))


@pytest.mark.parametrize("af", ["e4m3", "e5m2", "bf16", "fp16"])
def test_elements_as_bits(dev, af):
    assert_same(*run(dev, af, "e5m2", 16, 16, 32, None, "e8m0", bits=True))


def test_every_e2m1_number(dev):

    def all_of_them(a, sa, fa, b, sb, fb):
        a[:] = np.tile(np.arange(16, dtype=np.uint8), 64).reshape(32, 32).view(ml_dtypes.float4_e2m1fn)
        b[:] = np.eye(32).astype(b.dtype)

    out, expected = run(dev, "e2m1", "e4m3", 32, 32, 32, None, None, change=all_of_them)
    assert_same(out, expected)
    assert set(np.abs(out).reshape(-1)) == {0, 0.5, 1, 1.5, 2, 3, 4, 6}


@pytest.mark.parametrize("af", ["e2m1", "e4m3", "e5m2"])
def test_bits_of_fp16_are_kept(dev, af):
    """Also beside operands with scales, and where float16 does not hold the scale itself."""

    def fine(a, sa, fa, b, sb, fb):
        a[:] = np.eye(32).astype(np.float32).astype(a.dtype) * np.array(0.5, a.dtype)
        sa[:], fa[:] = 127 + 16, 2.0**16
        b[:] = 1 + np.arange(32 * 16).reshape(32, 16) / 1024

    assert_same(*run(dev, af, "fp16", 32, 16, 32, "e8m0", None, change=fine))


def test_scales_at_the_ends(dev):

    def ends(a, sa, fa, b, sb, fb):
        a[:], b[:] = 1, 1
        sb[:], fb[:] = 127, 1
        for row, bits in enumerate((0, 1, 254, 255)):
            sa[row], fa[row] = bits, np.nan if bits == 255 else 2.0**(bits - 127)
        sa[4:], fa[4:] = 127, 1

    out, expected = run(dev, "e4m3", "e4m3", 16, 16, 32, "e8m0", "e8m0", change=ends)
    assert np.isnan(out[3]).all()
    assert_same(out[4:], expected[4:])
    # 32 * 2**127 is beyond float32, 32 * 2**-126 is not subnormal.
    assert np.isinf(out[2]).all() and (out[1] == expected[1]).all()


@tegula.jit
def k_batch(a, sa, b, sb, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, G: tl.constexpr):
    i, m, n = tl.arange(0, B)[:, None, None], tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, :, None]
    x = tl.load(a + (i * M + m) * (K // 2) + tl.arange(0, K // 2)[None, None, :])
    y = tl.load(b + (i * K + tl.arange(0, K)[None, :, None]) * N + tl.arange(0, N)[None, None, :])
    g = tl.arange(0, G)[None, None, :]
    r = tl.dot_scaled(x, tl.load(sa + (i * M + m) * G + g), "e2m1", y, tl.load(sb + (i * N + n) * G + g), "e5m2")
    tl.store(out + (i * M + m) * N + tl.arange(0, N)[None, None, :], r)


def test_batch(dev):
    B, m, n, k, group = 4, 16, 16, 64, 32
    g = rng("dot_scaled batch")
    a, b = elements("e2m1", g, B * m, k), elements("e5m2", g, B * k, n)
    (sa, fa), (sb, fb) = scales("e8m0", g, B * m, k // group), scales("e8m0", g, B * n, k // group)
    out = np.zeros((B, m, n), np.float32)
    dev(k_batch, (1,), packed(a, 1).reshape(-1), sa.reshape(-1), b.reshape(-1), sb.reshape(-1), out.reshape(-1), B, m, n, k,
        k // group)
    x = a.astype(np.float32).reshape(B, m, k) * np.repeat(fa, group, 1).reshape(B, m, k)
    y = b.astype(np.float32).reshape(B, k, n) * np.repeat(fb, group, 1).reshape(B, n, k).transpose(0, 2, 1)
    assert_same(out, (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32))


@tegula.jit
def k_loop(a, sa, b, sb, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    g = tl.arange(0, BK // 32)
    acc = tl.zeros((M, N), tl.float32)
    for at in tl.range(0, K, BK, num_stages=STAGES):
        x = tl.load(a + m[:, None] * K + at + k[None, :])
        y = tl.load(b + (at // 2 + tl.arange(0, BK // 2))[:, None] * N + n[None, :])
        p = tl.load(sa + m[:, None] * (K // 32) + at // 32 + g[None, :])
        q = tl.load(sb + n[:, None] * (K // 32) + at // 32 + g[None, :])
        acc = tl.dot_scaled(x, p, "e4m3", y, q, "e2m1", acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("m, n, bk", [(64, 64, 64), (128, 32, 128)])
def test_loop(dev, m, n, bk, stages):
    k = 256
    g = rng("dot_scaled loop")
    a, b = elements("e4m3", g, m, k), elements("e2m1", g, k, n)
    (sa, fa), (sb, fb) = scales("e8m0", g, m, k // 32), scales("e8m0", g, n, k // 32)
    out = np.zeros((m, n), np.float32)
    dev(k_loop, (1,), a.reshape(-1), sa.reshape(-1), packed(b, 0).reshape(-1), sb.reshape(-1), out.reshape(-1), k, m, n, bk,
        stages)
    x = a.astype(np.float64) * np.repeat(fa, 32, 1)
    y = b.astype(np.float32).astype(np.float64) * np.repeat(fb, 32, 1).T
    assert_same(out, (x @ y).astype(np.float32))


@tegula.jit
def k_wrong(a, s, out, WHAT: tl.constexpr):
    r = tl.arange(0, 32)
    x = tl.load(a + r[:, None] * 32 + r[None, :])
    one = tl.load(s + r[:, None] + tl.arange(0, 1)[None, :])
    two = tl.load(s + r[:, None] * 2 + tl.arange(0, 2)[None, :])
    four = tl.load(s + r[:, None] * 4 + tl.arange(0, 4)[None, :])
    if WHAT == "format":
        r = tl.dot_scaled(x, one, "e3m2", x, one, "e4m3")
    elif WHAT == "factor":
        r = tl.dot_scaled(x, four, "e4m3", x, four, "e4m3")
    elif WHAT == "factors":
        r = tl.dot_scaled(x, two, "e4m3", x, one, "e4m3")
    elif WHAT == "packing":
        r = tl.dot_scaled(x, one, "e4m3", x, one, "e4m3", lhs_k_pack=False)
    else:
        r = tl.dot_scaled(x, one, "bf16", x, one, "e4m3")
    tl.store(out + r, r)


@pytest.mark.parametrize("what, text", [("format", "NYI: lhs_format e3m2"), ("factor", "scale factor must be 16 or 32. Got 8"),
                                        ("factors", r"Operands must have the same scale factor; \(lhs: 16 vs rhs: 32\)"),
                                        ("packing", "only e2m1 is packed"), ("dtype", "come as bf16 or uint16")])
def test_mistakes(dev, what, text):
    with pytest.raises(CompileError, match=text):
        dev(k_wrong, (1,), np.zeros(1024, np.uint8), np.zeros(128, np.uint8), np.zeros(1, np.float32), what)
