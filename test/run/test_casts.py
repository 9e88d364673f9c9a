"""§2.6 casts: every pair of types, bit for bit."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import ALL, CompileError, D, SPECIAL, assert_same, bits, d, rng, values

pytestmark = pytest.mark.section("2.6 casts")


@tegula.jit
def cast_kernel(x, out, N: tl.constexpr, TO: tl.constexpr, ROUNDING: tl.constexpr, BITCAST: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i)
    r = v.to(TO, fp_downcast_rounding=ROUNDING, bitcast=BITCAST)
    tl.static_assert(r.dtype == TO)
    tl.static_assert(tl.cast(v, TO, ROUNDING, BITCAST).dtype == TO)
    tl.store(out + i, r)


N = 256


def run(dev, x, to, rounding=None, bitcast=False, np_type=None):
    out = np.zeros(x.size, np_type or d(to).np)
    dev(cast_kernel, (x.size // N,), x, out, N, getattr(tl, to), rounding, bitcast)
    return out


def inputs(a: D):
    """Every value of types up to 16 bits; for wider ones edges and many magnitudes."""
    if a.kind == "b":
        return np.arange(N) % 2 == 1
    if a.bits == 8:
        return np.arange(256, dtype=np.uint8).view(a.np)
    if a.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(a.np)
    n = 4096
    g = rng("casts", a.name)
    if a.is_int:
        v = values(a, n, "casts")
        v[n // 2:] >>= g.integers(0, a.bits - 1, n - n // 2).astype(a.np)
        return v
    v = g.standard_normal(n) * 10.0**g.integers(-30, 30, n)
    v[:n // 2] = g.standard_normal(n // 2) * 2.0**g.integers(-18, 18, n // 2)
    # Halfway points and neighbours of every fp8 and of many fp16/bf16 values: where rounding is decided.
    ties = []
    for t in ("float8e5", "float8e4nv", "float8e4b8", "float8e5b16"):
        f = np.arange(256, dtype=np.uint8).view(d(t).np).astype(np.float64)
        f = np.unique(f[np.isfinite(f)])
        ties += list((f[1:] + f[:-1]) / 2) + list(f)
    h = np.sort(g.integers(0, 0x7c00, 200).astype(np.uint16)).view(np.float16).astype(np.float64)
    ties += list(h * (1 + 2.0**-11)) + list(-h * (1 + 2.0**-11))
    ties = np.array(ties)
    v[:len(ties)] = ties[:n]
    v[len(ties):len(ties) + len(SPECIAL)] = SPECIAL
    with np.errstate(all="ignore"):
        return v.astype(np.float32).astype(a.np)


def to_fp8(x, b: D):
    """Nearest even with saturation to the largest finite value; NaN stays."""
    top = float(ml_dtypes.finfo(b.np).max)
    wide = x.astype(np.float32)
    return np.where(np.isnan(wide), wide, np.clip(wide, -top, top)).astype(b.np)


def expected(x, a: D, b: D):
    """The reference, and where the language defines the result."""
    everywhere = np.ones(x.shape, bool)
    with np.errstate(all="ignore"):
        if b.kind == "b":
            return (x.astype(np.float64) != 0 if a.kind == "f" else x != 0), everywhere
        if a.kind == "f" and b.is_int:
            wide = x.astype(np.float64)
            info = np.iinfo(b.np)
            # info.max may not be a double: compare with the power of two above it.
            inside = (wide > float(info.min) - 1) & (wide < float(info.max) +
                                                     (0 if b.bits == 64 else 1)) & ~np.isnan(wide)
            r = np.zeros(x.shape, b.np)
            r[inside] = np.trunc(wide[inside]).astype(b.np)
            # Beyond the range of 32 and 64-bit integers: the nearest one; NaN gives 0. For narrower ones it is not
            # defined.
            if b.bits >= 32:
                r[wide >= float(info.max)] = info.max
                r[wide <= float(info.min)] = info.min
                return r, everywhere
            return r, inside
        if b.is_fp8:
            return to_fp8(x, b), everywhere
        if a.is_int and b.kind == "f" and b.bits == 16:
            # Through float32 or at once: where that is not the same, either.
            r = x.astype(np.float32).astype(b.np)
            return r, r == x.astype(np.float64).astype(b.np) if a.bits < 64 else np.abs(x.astype(np.float64)) < 2**24
        if a.is_fp8 or b.np in (ml_dtypes.bfloat16,):
            return x.astype(np.float32).astype(b.np), everywhere
        return x.astype(b.np), everywhere


PAIRS = [(a, b) for a in ALL for b in ALL if not (a.is_int and b.is_fp8)]


@pytest.mark.parametrize("a, b", PAIRS, ids=lambda t: t.name)
def test_cast(dev, a, b):
    x = inputs(a)
    e, defined = expected(x, a, b)
    if a.kind == "f" and b.name in ("float8e4b8", "float8e5b16"):
        # These have no -0 and no infinity; what infinities become is not written down.
        defined = defined & ~np.isinf(x.astype(np.float32))
    if a.is_fp8 and b.is_fp8 and a.name == b.name:
        e = x
    assert_same(run(dev, x, b.name), e, defined)


@pytest.mark.parametrize("a", [d("int8"), d("int32"), d("uint8"), d("int64")], ids=str)
@pytest.mark.parametrize("b", ["float8e5", "float8e4nv"])
def test_int_to_fp8(dev, a, b):
    x = values(a, N, "to fp8", low=0 if a.kind == "u" else -100, high=100)
    assert_same(run(dev, x, b), to_fp8(x, d(b)))


def rtz(x, b: D):
    """Toward zero, from float32/float64: round to nearest, then one step back where that went away from zero."""
    with np.errstate(all="ignore"):
        r = x.astype(b.np)
        away = (np.abs(r.astype(np.float64)) > np.abs(x.astype(np.float64))) & ~np.isnan(x)
        raw = bits(r).copy()
        raw[away] -= 1
        return raw.view(b.np)


@pytest.mark.parametrize("a, b", [("float32", "float16"), ("float32", "bfloat16"), ("float64", "float32")])
def test_rounding_toward_zero(dev, a, b):
    x = inputs(d(a))
    assert_same(run(dev, x, b, "rtz"), rtz(x, d(b)))


@pytest.mark.parametrize("a, b", [("float32", "float16"), ("float32", "bfloat16"), ("float64", "float16"),
                                  ("float64", "float32")])
def test_rounding_to_nearest_by_name(dev, a, b):
    x = inputs(d(a))
    with np.errstate(all="ignore"):
        assert_same(run(dev, x, b, "rtne"), x.astype(d(b).np))


@pytest.mark.parametrize("a, b, rounding, text", [("float16", "float32", "rtne", "truncating"),
                                                  ("int32", "float32", "rtz", "truncating"),
                                                  ("float32", "float16", "up", "."),
                                                  ("float32", "int32", "rtz", "truncating")])
def test_bad_rounding(dev, a, b, rounding, text):
    with pytest.raises(CompileError, match=text):
        run(dev, np.zeros(N, d(a).np), b, rounding)


BITCASTS = [(a, b) for a in ALL for b in ALL if a.bits == b.bits and a.kind != "b" and b.kind != "b"]


@pytest.mark.parametrize("a, b", BITCASTS, ids=lambda t: t.name)
def test_bitcast(dev, a, b):
    x = inputs(a)
    assert np.array_equal(bits(run(dev, x, b.name, bitcast=True)), bits(x))


@pytest.mark.parametrize("a, b", [("float32", "int64"), ("int8", "int16"), ("float64", "float32"),
                                  ("float8e5", "float16")])
def test_bad_bitcast(dev, a, b):
    with pytest.raises(CompileError, match="[Cc]annot bitcast"):
        run(dev, np.zeros(N, d(a).np), b, bitcast=True)


@tegula.jit
def e4b15_decode(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.float8e4b15, bitcast=True).to(tl.float32))


@tegula.jit
def e4b15_encode(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.float8e4b15).to(tl.uint8, bitcast=True))


def e4b15_values():
    """Sign, 4 exponent bits of bias 15, 3 mantissa bits; every code is a number."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    v = np.where(exponent == 0, mantissa / 8 * 2.0**-14, (1 + mantissa / 8) * 2.0**(exponent - 15.0))
    return np.where(code & 128, -v, v).astype(np.float32)


def test_e4b15_decode(dev):
    out = np.zeros(256, np.float32)
    dev(e4b15_decode, (1,), np.arange(256, dtype=np.uint8), out, 256)
    assert_same(out, e4b15_values())


def test_e4b15_encode_inverts_decode(dev):
    out = np.zeros(256, np.uint8)
    dev(e4b15_encode, (1,), e4b15_values(), out, 256)
    same = np.arange(256, dtype=np.uint8)
    # The largest codes may be given up to saturation at 1.75.
    assert np.array_equal(out[:0x7f], same[:0x7f]) and np.array_equal(out[128:0xff], same[128:0xff])


@tegula.jit
def literal_cast(out):
    tl.store(out, tl.cast(3.7, tl.int32))
    tl.store(out + 1, tl.cast(5, tl.int64).to(tl.int32))
    p = out + 2
    address = p.to(tl.int64)
    tl.store(address.to(tl.pointer_type(tl.int32)), 42)
    tl.store(out + 3, p.to(tl.int1).to(tl.int32))


def test_literals_and_pointers(dev):
    out = np.zeros(4, np.int32)
    dev(literal_cast, (1,), out)
    assert out.tolist() == [3, 5, 42, 1]


@tegula.jit
def bad_pointer_cast(out):
    tl.store(out, out.to(tl.int32))


def test_pointer_to_int32(dev):
    with pytest.raises(CompileError):
        dev(bad_pointer_cast, (1,), np.zeros(1, np.int32))


@tegula.jit
def implicit_store_cast(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i))


@pytest.mark.parametrize("a, b", [("float32", "int32"), ("float32", "float16"), ("int32", "float32"),
                                  ("float64", "bfloat16"), ("int64", "int8"), ("float32", "float8e4nv"),
                                  ("int32", "int1")])
def test_store_casts(dev, a, b):
    x = values(d(a), 64, "store", low=0, high=100)
    out = np.zeros(64, d(b).np)
    dev(implicit_store_cast, (1,), x, out, 64)
    e, _ = expected(x, d(a), d(b))
    assert_same(out, e)


@tegula.jit
def constant_of_code(out, CODE: tl.constexpr, T: tl.constexpr):
    tl.store(out + tl.arange(0, 16), tl.full([16], CODE, tl.int8).to(T, bitcast=True))


@pytest.mark.parametrize("fp8", ["float8e5", "float8e4nv", "float8e4b8", "float8e5b16"])
@pytest.mark.parametrize("code", [0, -128, 0x78, 0x7B, 0x7C, 0x7D, 0x7E, 0x7F, -4, -1])
def test_bitcast_of_a_constant(dev, fp8, code):
    """Infinities and NaNs among them."""
    out = np.zeros(16, d(fp8).np)
    dev(constant_of_code, (1,), out, code, getattr(tl, fp8))
    assert np.array_equal(bits(out), np.full(16, code, np.int8).view(np.uint8))


@tegula.jit
def byte_sums(x, y, total, difference, less, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(total + i, a + b)
    tl.store(difference + i, a - b)
    tl.store(less + i, (a & 15) - 8)


@pytest.mark.parametrize("t", [d("int8"), d("uint8")], ids=str)
def test_sums_of_bytes(dev, t):
    # All pairs, four to a word: no carry leaves a byte.
    x, y = (np.ascontiguousarray(v).view(t.np) for v in (np.repeat(np.arange(256, dtype=np.uint8), 256), np.tile(np.arange(256, dtype=np.uint8), 256)))
    out = [np.zeros(65536, t.np) for _ in range(3)]
    dev(byte_sums, (32,), x, y, *out, 2048)
    with np.errstate(over="ignore"):
        for got, want in zip(out, (x + y, x - y, (x & t.np(15)) - t.np(8))):
            assert np.array_equal(got, want)


@tegula.jit
def nibbles_apart(x, out, M: tl.constexpr, N: tl.constexpr, HIGH_FIRST: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    packed = tl.load(x + r * N + c)
    low, high = (packed & 0xF).to(tl.int8) - 8, (packed >> 4).to(tl.int8) - 8
    pairs = tl.join(high, low) if HIGH_FIRST else tl.join(low, high)
    to = tl.arange(0, 2 * N)[None, :]
    tl.store(out + r * 2 * N + to, tl.reshape(pairs, (M, 2 * N)).to(out.dtype.element_ty))


@pytest.mark.parametrize("t", [d("float16"), d("bfloat16"), d("float32"), d("int8")], ids=str)
@pytest.mark.parametrize("high_first", [False, True])
@pytest.mark.parametrize("m, n", [(16, 16), (64, 32), (8, 256)])
def test_nibbles_apart(dev, t, high_first, m, n):
    # Bytes of two words, taken in turns, become floats.
    x = np.arange(m * n).astype(np.uint8)
    out = np.zeros((m, 2 * n), t.np)
    dev(nibbles_apart, (1,), x, out, m, n, high_first)
    parts = [(x & 15).astype(np.int8) - 8, (x >> 4).astype(np.int8) - 8]
    assert np.array_equal(out.astype(np.float32), np.stack(parts[::-1] if high_first else parts, axis=1).reshape(m, 2 * n))
