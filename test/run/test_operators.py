"""§2.4 operators on tensors, §2.5 broadcasting."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, FLOATS, INTS, NO_FP8, apply, assert_same, assert_ulp, d, values

operators = pytest.mark.section("2.4 operators")
broadcasting = pytest.mark.section("2.5 broadcasting")


@tegula.jit
def f_add(a, b):
    return a + b


@tegula.jit
def f_sub(a, b):
    return a - b


@tegula.jit
def f_mul(a, b):
    return a * b


@tegula.jit
def f_div(a, b):
    return a / b


@tegula.jit
def f_floordiv(a, b):
    return a // b


@tegula.jit
def f_mod(a, b):
    return a % b


@tegula.jit
def f_and(a, b):
    return a & b


@tegula.jit
def f_or(a, b):
    return a | b


@tegula.jit
def f_xor(a, b):
    return a ^ b


@tegula.jit
def f_shl(a, b):
    return a << b


@tegula.jit
def f_shr(a, b):
    return a >> b


@tegula.jit
def f_lt(a, b):
    return a < b


@tegula.jit
def f_le(a, b):
    return a <= b


@tegula.jit
def f_gt(a, b):
    return a > b


@tegula.jit
def f_ge(a, b):
    return a >= b


@tegula.jit
def f_eq(a, b):
    return a == b


@tegula.jit
def f_ne(a, b):
    return a != b


@tegula.jit
def f_neg(a):
    return -a


@tegula.jit
def f_invert(a):
    return ~a


@tegula.jit
def f_not(a):
    return not a


@tegula.jit
def f_logical_and(a, b):
    return a.logical_and(b)


@tegula.jit
def f_logical_or(a, b):
    return a.logical_or(b)


def trunc_div(x, y):
    """C's division: toward zero."""
    q = np.abs(x.astype(object)) // np.abs(y.astype(object))
    return np.where((x < 0) != (y < 0), -q, q).astype(x.dtype)


def trunc_mod(x, y):
    return np.fmod(x, y)


def wide(f):
    """16-bit floats: in float32, then one rounding."""
    def g(x, y):
        if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
            return f(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
        return f(x, y)

    return g


def int_division(x, y):
    return x.astype(np.float32) / y.astype(np.float32)


def non_zero(v):
    return np.where(v == 0, v.dtype.type(3), v).astype(v.dtype)


def rows():
    numbers = [t for t in NO_FP8 if t.kind != "b"]
    for name, fn, ref in [("+", f_add, wide(np.add)), ("-", f_sub, wide(np.subtract)), ("*", f_mul, wide(np.multiply))]:
        for t in numbers:
            yield name, fn, ref, t, t.np, {}
    for t in FLOATS:
        small = t.bits == 16
        yield "/", f_div, (lambda x, y: x.astype(np.float32) / y.astype(np.float32)) if small else np.divide, t, (
            np.float32 if small else t.np), {}
        yield "%", f_mod, (lambda x, y: np.fmod(x.astype(np.float32), y.astype(np.float32))) if small else np.fmod, t, \
            (np.float32 if small else t.np), {}
    for t in INTS:
        yield "/", f_div, int_division, t, np.float32, {"y": non_zero}
        yield "//", f_floordiv, trunc_div, t, t.np, {"y": non_zero}
        yield "%", f_mod, trunc_mod, t, t.np, {"y": non_zero}
        shift = lambda v, bits=t.bits: np.abs(v.astype(np.int64) % bits).astype(v.dtype)
        yield "<<", f_shl, np.left_shift, t, t.np, {"y": shift}
        yield ">>", f_shr, np.right_shift, t, t.np, {"y": shift}
    for name, fn, ref in [("&", f_and, np.bitwise_and), ("|", f_or, np.bitwise_or), ("^", f_xor, np.bitwise_xor)]:
        for t in INTS + [d("int1")]:
            yield name, fn, ref, t, t.np, {}
    for name, fn, ref in [("<", f_lt, np.less), ("<=", f_le, np.less_equal), (">", f_gt, np.greater),
                          (">=", f_ge, np.greater_equal), ("==", f_eq, np.equal), ("!=", f_ne, np.not_equal)]:
        for t in NO_FP8:
            yield name, fn, ref, t, np.bool_, {"special": True}
    for name, fn, ref in [("logical_and", f_logical_and, np.logical_and), ("logical_or", f_logical_or, np.logical_or)]:
        yield name, fn, ref, d("int1"), np.bool_, {}


@operators
@pytest.mark.parametrize("name, fn, ref, t, out, how", list(rows()), ids=lambda v: str(v)
                         if not callable(v) and not isinstance(v, dict) else "")
def test_binary(dev, name, fn, ref, t, out, how):
    n = 64
    special = t.kind == "f" and name not in ("/",)
    x, y = values(t, n, (name, 0), special=special), values(t, n, (name, 1), special=False)
    if how.get("special") and t.kind == "f":
        y = values(t, n, (name, 1), special=True)[::-1].copy()
    y[n // 2:n // 2 + 8] = x[n // 2:n // 2 + 8]
    y = how["y"](y) if "y" in how else y
    if t.is_int and t.kind == "i" and name in ("//", "%"):
        # INT_MIN // -1 has no value.
        y[(x == np.iinfo(t.np).min) & (y == -1)] = 3
    with np.errstate(all="ignore"):
        got, expected = apply(dev, fn, [x, y], (n,), out), ref(x, y)
        if name == "/" and dev.name.startswith("cuda") and got.dtype != np.float64:
            # GPUs divide float32 to 2 ulp, as the language allows for `/` (tl.div_rn is exact).
            assert_ulp(got, expected.astype(np.float64), 2)
        else:
            assert_same(got, expected)


@operators
@pytest.mark.parametrize("t", [t for t in NO_FP8 if t.kind != "b"], ids=str)
def test_negate(dev, t):
    x = values(t, 64, special=True)
    with np.errstate(all="ignore"):
        assert_same(apply(dev, f_neg, [x], (64,), t.np), np.negative(x))


@operators
@pytest.mark.parametrize("t", INTS + [d("int1")], ids=str)
def test_invert(dev, t):
    x = values(t, 64)
    assert_same(apply(dev, f_invert, [x], (64,), t.np), np.invert(x))


@operators
def test_not(dev):
    for v in (True, False):
        assert apply(dev, f_not, [np.array(v)], (), np.bool_) == (not v)


@tegula.jit
def f_numbers(x):
    # Numbers on either side of each operator.
    return (1 + x) - (x - 2) * 3 + (10 - x) // 4 + x % 5 + (7 & x) + (x | 8) + (x ^ 3) + (x << 2) + (1 <<
                                                                                                     (x & 7)) + (x >> 1)


@operators
def test_numbers_on_either_side(dev):
    x = np.arange(64, dtype=np.int32) * 7
    q = np.trunc((10 - x) / 4).astype(np.int32)
    e = (1 + x) - (x - 2) * 3 + q + x % 5 + (7 & x) + (x | 8) + (x ^ 3) + (x << 2) + (1 << (x & 7)) + (x >> 1)
    assert_same(apply(dev, f_numbers, [x], (64,), np.int32), e.astype(np.int32))


@tegula.jit
def f_reflected(x):
    return (3 < x).to(tl.int32) + (3 >= x).to(tl.int32) * 2 + (5 == x).to(tl.int32) * 4 + (5 != x).to(tl.int32) * 8


@operators
def test_reflected_comparison(dev):
    x = np.arange(16, dtype=np.int32)
    e = (3 < x) + (3 >= x) * 2 + (5 == x) * 4 + (5 != x) * 8
    assert_same(apply(dev, f_reflected, [x], (16,), np.int32), e.astype(np.int32))


@tegula.jit
def pointer_kernel(x, out, OFFSET: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + 5
    p = p + i
    p = 3 + p
    p = p - 8
    q = x + i.to(tl.int64)
    r = x + i.to(tl.uint8)
    s = x + (N - 1) + (-i)
    tl.store(out + i, tl.load(p) + tl.load(q) + tl.load(r) + tl.load(s) * OFFSET)


@operators
@pytest.mark.parametrize("t", [d("int32"), d("int8"), d("float64")], ids=str)
def test_pointer_arithmetic(dev, t):
    x = values(t, 64, low=0, high=20)
    out = np.zeros(64, t.np)
    dev(pointer_kernel, (1,), x, out, 2, 64)
    assert_same(out, (x * 3 + x[::-1] * 2).astype(t.np))


@tegula.jit
def k_ptr_plus_ptr(x):
    tl.store(x + x, 0)


@tegula.jit
def k_ptr_plus_float(x):
    tl.store(x + 1.0, 0)


@tegula.jit
def k_ptr_neg(x):
    tl.store(-x, 0)


@tegula.jit
def k_float_floordiv(x):
    tl.store(x, tl.load(x) // 2.0)


@tegula.jit
def k_power(x):
    tl.store(x, tl.load(x)**2)


@tegula.jit
def k_invert_float(x):
    tl.store(x, ~tl.load(x))


@tegula.jit
def k_not_int(x):
    tl.store(x, not tl.program_id(0))


@tegula.jit
def k_unary_plus(x):
    tl.store(x, +tl.load(x))


@operators
@pytest.mark.parametrize("kernel", [
    k_ptr_plus_ptr, k_ptr_plus_float, k_ptr_neg, k_float_floordiv, k_power, k_invert_float, k_not_int,
    k_unary_plus
], ids=lambda k: k.__name__)
def test_errors(dev, kernel):
    with pytest.raises(CompileError):
        dev(kernel, (1,), np.zeros(4, np.float32))


# §2.5 ----------------------------------------------------------------------------------------------------------------


@tegula.jit
def f_broadcast_first(a, b):
    x, y = tl.broadcast(a, b)
    return x - y


@tegula.jit
def f_broadcast_to(a, *shape):
    return tl.broadcast_to(a, *shape)


@tegula.jit
def f_broadcast_to_list(a, shape):
    return a.broadcast_to(shape)


SHAPES = [((), (8,)), ((8,), ()), ((), ()), ((8,), (8,)), ((1,), (8,)), ((8,), (4, 8)), ((4, 8), (8,)),
          ((4, 1), (8,)), ((4, 1), (1, 8)), ((2, 1, 8), (4, 1)), ((1, 1, 1), (2, 4, 8)), ((8,), (2, 4, 8)),
          ((2, 4, 8), (2, 1, 1)), ((1,), (1, 1)), ((4, 8), (4, 8)), ((), (2, 2, 2))]


@broadcasting
@pytest.mark.parametrize("sa, sb", SHAPES, ids=str)
@pytest.mark.parametrize("fn", [f_sub, f_broadcast_first], ids=["minus", "broadcast"])
def test_broadcast(dev, sa, sb, fn):
    x = np.arange(int(np.prod(sa)), dtype=np.int32).reshape(sa) * 100
    y = np.arange(int(np.prod(sb)), dtype=np.int32).reshape(sb)
    e = np.subtract(x, y).astype(np.int32)
    assert_same(apply(dev, fn, [x, y], e.shape, np.int32), e)


@broadcasting
@pytest.mark.parametrize("sa, sb", [((8,), (4,)), ((4, 8), (4, 4)), ((4, 8), (4,)), ((2, 4, 8), (2, 4))], ids=str)
def test_incompatible(dev, sa, sb):
    with pytest.raises(CompileError, match="[Ii]ncompatible"):
        apply(dev, f_add, [np.zeros(sa, np.int32), np.zeros(sb, np.int32)], sa, np.int32)


@broadcasting
@pytest.mark.parametrize("sa, out", [((), (4, 8)), ((1,), (8,)), ((4, 1), (4, 8)), ((1, 8), (4, 8)), ((4, 8), (4, 8)),
                                     ((1, 1, 1), (2, 2, 4))], ids=str)
@pytest.mark.parametrize("as_list", [False, True])
def test_broadcast_to(dev, sa, out, as_list):
    x = np.arange(int(np.prod(sa)), dtype=np.int32).reshape(sa)
    r = apply(dev, f_broadcast_to_list if as_list else f_broadcast_to, [x], out, np.int32, [out] if as_list else out)
    assert_same(r, np.broadcast_to(x, out))


@broadcasting
@pytest.mark.parametrize("sa, out", [((8,), (4, 8)), ((4, 8), (8,)), ((2, 8), (4, 8))], ids=str)
def test_broadcast_to_error(dev, sa, out):
    with pytest.raises(CompileError):
        apply(dev, f_broadcast_to, [np.zeros(sa, np.int32)], out, np.int32, out)


@tegula.jit
def halves(out, START: tl.constexpr, D: tl.constexpr):
    i = tl.arange(0, 1024)
    tl.store(out + i, (tl.full([1024], START, tl.int64) + i) // D)


@pytest.mark.parametrize("start", [2**40 - 1, 2**40, 2**41 - 1, 3 * 2**40 + 4, 2**62 + 2, -2**63 + 1])
@pytest.mark.parametrize("divisor", [2, 3, 8])
def test_quotients_of_large_numbers(dev, start, divisor):
    """What divides a constant of more than 40 bits: neighbours have one quotient only from a multiple on."""
    out = np.zeros(1024, np.int64)
    dev(halves, (1,), out, start, divisor)
    assert_same(out, np.array([int(abs(n) // divisor) * (1 if n >= 0 else -1) for n in range(start, start + 1024)], np.int64))


@tegula.jit
def wide_quotients(x, y, q, r, N: tl.constexpr, ONE: tl.constexpr):
    o = tl.arange(0, N)
    a, b = tl.load(x + o), tl.load(y) if ONE else tl.load(y + o)
    tl.store(q + o, a // b)
    tl.store(r + o, a % b)


@pytest.mark.parametrize("one", [True, False], ids=["one", "each"])
@pytest.mark.parametrize("kind", ["small", "large", "some", "last", "negative"])
@pytest.mark.parametrize("t", ["int64", "uint64"])
def test_quotients_of_64_bits(dev, t, kind, one):
    """GPUs divide 32 bits where all numbers of a thread fit: none, all or some of them do."""
    n, rng = 512, np.random.default_rng(5)
    x, y = rng.integers(0, 2**32, n, dtype=np.uint64), rng.integers(1, 2**32, n, dtype=np.uint64)
    x[:4], y[:4] = [0, 2**32 - 1, 2**32 - 1, 2**31], [1, 1, 2**32 - 1, 2**31]
    if kind == "large":
        x, y = x << np.uint64(28), y << np.uint64(5)
    elif kind == "some":
        x[::3] <<= np.uint64(30)
        y[::5] += np.uint64(2**32)
    elif kind == "last":
        x[-1] = 2**32
    x, y = x.astype(t), y.astype(t)
    if kind == "negative":
        x[::2] = -x[::2]  # of unsigned numbers: large ones
        y[1::7] = -y[1::7]
    q, r = np.zeros(n, t), np.zeros(n, t)
    dev(wide_quotients, (1, ), x, y, q, r, n, one)
    pairs = [(int(a), int(y[0] if one else b)) for a, b in zip(x, y)]
    want = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    assert_same(q, np.array(want, t))
    assert_same(r, np.array([a - b * c for (a, b), c in zip(pairs, want)], t))


@tegula.jit
def quotients(x, y, quotient, rest, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(quotient + i, a // b)
    tl.store(rest + i, a % b)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("seed", range(4))
def test_quotients_of_all_lengths(dev, dtype, seed):
    """Numbers of all lengths, powers of two and what stands beside them, multiples and what stands beside those."""
    rng, n, info = np.random.default_rng(seed), 1024, np.iinfo(dtype)

    def number():
        bits = int(rng.integers(1, 64))
        n = int(rng.integers(0, 2**62)) >> max(0, 62 - bits) if rng.random() < 0.6 else (1 << bits) + int(rng.integers(-2, 3))
        return min(max(-n if info.min < 0 and rng.random() < 0.4 else n, info.min), info.max)
    y = [number() or 1 for _ in range(n)]
    x = [number() for _ in range(n)]
    for k in range(0, n, 2):
        most = info.max // abs(y[k])
        x[k] = min(max(abs(y[k]) * int(rng.integers(0, min(most, 2**62) + 1)) + int(rng.integers(-1, 2)), info.min), info.max)
    y[0], x[0], y[1], x[1] = 1, info.max, info.max, info.max
    cut = lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    quotient, rest = np.zeros(n, dtype), np.zeros(n, dtype)
    dev(quotients, (1,), np.array(x, dtype), np.array(y, dtype), quotient, rest, n)
    assert_same(quotient, np.array([cut(a, b) for a, b in zip(x, y)], dtype))
    assert_same(rest, np.array([a - cut(a, b) * b for a, b in zip(x, y)], dtype))


@tegula.jit
def far_shifts(x, y, left, right, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(left + i, a << b)
    tl.store(right + i, a >> b)
    for k in range(N):  # of scalars too
        tl.store(left + N + k, tl.load(x + k) << tl.load(y + k))
        tl.store(right + N + k, tl.load(x + k) >> tl.load(y + k))
    tl.store(right + 2 * N + i, a >> 64 if a.dtype.primitive_bitwidth == 64 else a >> 33)


@operators
@pytest.mark.parametrize("t", INTS, ids=str)
def test_shifts_by_the_width_and_more_leave_the_sign(dev, t):
    n, amounts = 16, [0, 1, t.bits - 1, t.bits, t.bits + 1, 2 * t.bits - 1, 100, -1]
    x, y = values(t, n, 0), np.array(amounts * 2).astype(t.np)
    left, right = np.zeros(2 * n, t.np), np.zeros(3 * n, t.np)
    dev(far_shifts, (1,), x, y, left, right, n)
    by = y.view(f"u{t.bits // 8}").astype(object)
    exact = x.astype(object)
    l = np.array([int(a) << int(b) if b < t.bits else 0 for a, b in zip(exact, by)], object)
    r = np.array([int(a) >> int(b) for a, b in zip(exact, by)], object)
    assert_same(left, np.tile((l & (2**t.bits - 1)).astype(f"u{t.bits // 8}").view(t.np), 2))
    assert_same(right, np.concatenate([r, r, exact >> (64 if t.bits == 64 else 33)]).astype(t.np))


@tegula.jit
def named_operators(x_ptr, f_ptr, bits_ptr, quotient_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(bits_ptr + i, x.__lshift__(4).to(tl.int8).__rshift__(4).__add__(x.__rsub__(7)).__and__(x.__invert__().__or__(9)).__xor__(i.__mul__(3)).__neg__())
    f = tl.load(f_ptr + i)
    tl.store(quotient_ptr + i, tl.where(f.__lt__(2.0), f.__rtruediv__(1.0), f.__truediv__(3.0)).__sub__(i.__ge__(5).__eq__(0).to(tl.float32)))


@operators
def test_named_operators(dev):
    """Operators are methods, too: published int4 kernels sign-extend a nibble by x.__lshift__(4).to(tl.int8).__rshift__(4)."""
    n = 32
    x = np.arange(n, dtype=np.int8) * 7 - 100
    f = np.linspace(1, 4, n, dtype=np.float32)
    bits, quotient = np.zeros(n, np.int32), np.zeros(n, np.float32)
    dev(named_operators, (1,), x, f, bits, quotient, n)
    i = np.arange(n, dtype=np.int32)
    low = (x << 4).astype(np.int8) >> 4
    np.testing.assert_array_equal(bits, -((((low + (7 - x)).astype(np.int8) & (~x | 9)).astype(np.int32)) ^ (i * 3)))
    want = np.where(f < 2, 1 / f, f / np.float32(3)) - (i < 5).astype(np.float32)
    np.testing.assert_allclose(quotient, want, rtol=1e-6)


@tegula.jit
def wide_equality(positions_ptr, labels_ptr, out_ptr, N: tl.constexpr, M: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(positions_ptr + i)
    labels = tl.load(labels_ptr + tl.arange(0, M))
    for k in tl.static_range(M):
        label = tl.load(labels_ptr + k)
        tl.store(out_ptr + k * N + i, (x == label).to(tl.int32) + 2 * (label != x).to(tl.int32))
    at = M * N + tl.arange(0, M)[:, None] * N + i[None, :]
    tl.store(out_ptr + at, (x[None, :] == labels[:, None]).to(tl.int32) + 2 * (labels[:, None] != x.to(tl.int64)[None, :]).to(tl.int32))
    tl.store(out_ptr + 2 * M * N + i, (x.to(tl.int64) == tl.flip(x).to(tl.int64)).to(tl.int32) + 2 * (x.to(tl.int64) == 4294967299).to(tl.int32))


@operators
@pytest.mark.parametrize("t", [np.int8, np.uint8, np.int32, np.uint32], ids=str)
@pytest.mark.parametrize("wide", [np.int64, np.uint64], ids=str)
def test_equality_with_a_label_of_64_bits(dev, t, wide):
    """A label whose low bits are a position is not that position, whatever is in the bits above."""
    info = np.iinfo(t)
    x = np.array([info.min, info.max, 0, 1, 3, 5, info.min + 1, info.max - 1], t)
    far = [1 << 32, (1 << 32) + 3, 1 << 40, 1 << 31, (1 << 31) - 1, 255, 128, 3, 0]
    near = [info.min, info.max, -1, -(1 << 32), -(1 << 31), 3 - (1 << 32), -128]
    labels = np.array([v & (2**64 - 1) for v in (far + near)], np.uint64).view(wide)
    n, m = len(x), len(labels)
    out = np.zeros((2 * m + 1, n), np.int32)
    dev(wide_equality, (1,), x, labels, out, n, m)
    # Both sides become the type of the wider one, in which a negative number is a large one if it has no sign.
    equal = x.astype(np.int64).astype(wide)[None, :] == labels[:, None]
    want = np.where(equal, 1, 2)
    np.testing.assert_array_equal(out[:m], want)
    np.testing.assert_array_equal(out[m:2 * m], want)
    np.testing.assert_array_equal(out[2 * m], x == x[::-1])


@tegula.jit
def k_products_without_a_lane(x, y, out, stride):
    i, j, k = tl.arange(0, 2)[:, None, None], tl.arange(0, 2)[None, :, None], tl.arange(0, 4)[None, None, :]
    v = tl.interleave(tl.zeros([2, 2, 2], tl.int32), tl.load(x + tl.zeros([2, 2, 2], tl.int32)))
    for p in tl.static_range(4):  # each is without other elements
        at = i + (2 * p - 1), j + p, k + p
        v *= tl.load(y + at[0] * 37 + at[1] * 6 + at[2], (at[0] >= 0) & (at[0] < 6) & (at[1] < 6) & (at[2] < 5), other=0)
    tl.store(out + i * stride + j * 4 + k, v)


def test_products_of_which_masks_leave_nothing(dev):
    """LLVM 19 may give a product of two operands without lanes in common an undefined value: it stored half of this one."""
    out = np.full((2, 2, 4), 7, np.int32)
    dev(k_products_without_a_lane, (1, ), np.ones(1, np.int32), np.ones(256, np.int32), out, 8)
    assert_same(out, np.zeros_like(out))
