"""§3.7 combine functions: literals, branches and several values in them, on every shape that a reduction or scan takes."""
import fractions
import functools

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import apply, assert_close, assert_same, d, rng, values

pytestmark = pytest.mark.section("3.7 reductions")


@tegula.jit
def c_saturate(a, b):
    return tl.where(a + b >= 200, 200, a + b)


@tegula.jit
def c_byte(a, b):
    return (a + b) & 0xff


@tegula.jit
def c_count(a, b):
    return a + b + 1


@tegula.jit
def c_branch(a, b):
    if b > a:
        r = b
    else:
        r = a
    if r > 90:
        r = r * 0 + 100
    return r


@tegula.jit
def c_literal_arms(a, b):
    """Zero if either is; which arm is taken is known lane by lane, both arms are literals."""
    s = a * b
    if s == 0:
        r = 0
    else:
        r = 1
    return s * 0 + r


@tegula.jit
def c_first(a, b):
    return a


@tegula.jit
def c_literal(a, b):
    return a * 0 + 7


@tegula.jit
def c_gcd(a, b):
    """How often the loop runs differs from lane to lane. It does not end for what is no element (negative numbers)."""
    while b != 0:
        if b < 0:
            b -= 0
        else:
            a, b = b, a % b
    return a


@tegula.jit
def c_steps(a, b):
    """a + b, by counting."""
    for i in range(b):
        if i >= 0:
            a += 1
    return a


@tegula.jit(noinline=True)
def h_add(a, b):
    return a + b


@tegula.jit
def c_called(a, b):
    return h_add(a, b) & 0x7f


def py(f):
    """The combine function of one value on numpy arrays."""
    return {
        c_saturate: lambda a, b: np.where(a + b >= 200, 200, a + b),
        c_byte: lambda a, b: (a + b) & 0xff,
        c_count: lambda a, b: a + b + 1,
        c_branch: lambda a, b: np.where(np.maximum(a, b) > 90, 100, np.maximum(a, b)),
        c_literal_arms: lambda a, b: np.where(a * b == 0, 0, 1),
        c_literal: lambda a, b: a * 0 + 7,
        c_gcd: np.gcd,
        c_steps: lambda a, b: a + b,
        c_called: lambda a, b: (a + b) & 0x7f,
    }[f]


ONE = [c_saturate, c_byte, c_count, c_branch, c_literal_arms, c_literal]
LOOPS = [c_gcd, c_steps, c_called]


@tegula.jit
def k_reduce(x, out, f: tl.constexpr, N: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, N)), 0, f))


@pytest.mark.parametrize("f", ONE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [1, 2, 4, 16, 32, 256])
@pytest.mark.parametrize("t", ["int32", "int64", "float32", "float64"])
def test_reduce_to_a_scalar(dev, f, n, t):
    if t.startswith("float") and f is c_byte:
        f = c_count
    x = np.random.default_rng(n).integers(0, 95 if f is c_branch else 9, n).astype(t)
    out = np.zeros(1, t)
    dev(k_reduce, (1,), x, out, f, n)
    assert_same(out, np.array([functools.reduce(py(f), x)], t))


@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [1, 2, 32, 256])
@pytest.mark.parametrize("t", ["int8", "int32", "int64"])
def test_reduce_by_a_loop(dev, f, n, t):
    x = np.random.default_rng(n).integers(0, 2, n).astype(t) * np.array(12 if f is c_gcd else 1, t)
    if t == "int8":
        x[100:] = 0
    if n == 256:
        x[:128] = 0
    out = np.zeros(1, t)
    dev(k_reduce, (1,), x, out, f, n)
    assert_same(out, np.array([functools.reduce(py(f), x)], t))


@tegula.jit
def k_reduce_axis(x, out, f: tl.constexpr, axis: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, A)[:, None, None] * B * C + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    r = tl.reduce(tl.load(x + i), axis, f)
    tl.store(out + tl.arange(0, r.numel), tl.ravel(r))


@tegula.jit
def k_scan_axis(x, out, f: tl.constexpr, axis: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, reverse: tl.constexpr):
    i = tl.arange(0, A)[:, None, None] * B * C + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    tl.store(out + i, tl.associative_scan(tl.load(x + i), axis, f, reverse))


SHAPES = [(1, 2, 1), (4, 2, 16), (2, 32, 2), (16, 1, 4), (2, 2, 64)]


@pytest.mark.parametrize("f", ONE + LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reduce_an_axis(dev, f, shape, axis):
    x = np.random.default_rng(axis).integers(0, 95 if f is c_branch else 4, shape).astype(np.int32)
    want = functools.reduce(py(f), np.moveaxis(x, axis, 0)).astype(np.int32)
    out = np.zeros(want.size, np.int32)
    dev(k_reduce_axis, (1,), x, out, f, axis, *shape)
    assert_same(out, want.ravel())


@pytest.mark.parametrize("f", ONE + LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_an_axis(dev, f, shape, axis, reverse):
    x = np.random.default_rng(axis).integers(0, 95 if f is c_branch else 4, shape).astype(np.int32)
    rows = list(np.moveaxis(x, axis, 0))[::-1 if reverse else 1]
    done = [rows[0]]
    for row in rows[1:]:
        done.append(py(f)(done[-1], row).astype(np.int32))
    want = np.moveaxis(np.stack(done[::-1 if reverse else 1]), 0, axis)
    out = np.zeros(shape, np.int32)
    dev(k_scan_axis, (1,), x, out, f, axis, *shape, reverse)
    assert_same(out, want)


# Several values -------------------------------------------------------------------------------------------------------


@tegula.jit
def c_welford(m1, s1, w1, m2, s2, w2):
    w = w1 + w2
    r = tl.where(w == 0.0, 0.0, w2 / w)
    delta = m2 - m1
    return m1 + delta * r, s1 + s2 + delta * delta * w1 * r, w


@tegula.jit
def k_welford(x, out, A: tl.constexpr, B: tl.constexpr, axis: tl.constexpr):
    v = tl.load(x + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :])
    m, s, w = tl.reduce((v, tl.zeros([A, B], v.dtype), tl.full([A, B], 1.0, v.dtype)), axis, c_welford)
    i = tl.arange(0, m.shape[0])
    tl.store(out + i, m)
    tl.store(out + m.shape[0] + i, s)
    tl.store(out + 2 * m.shape[0] + i, w)


@tegula.jit
def k_welford_all(x, out, A: tl.constexpr):
    v = tl.load(x + tl.arange(0, A))
    m, s, w = tl.reduce((v, tl.zeros([A], v.dtype), tl.full([A], 1.0, v.dtype)), 0, c_welford)
    tl.store(out, m)
    tl.store(out + 1, s)
    tl.store(out + 2, w)


@tegula.jit
def c_grow(m1, w1, m2, w2):
    w = w1 + w2
    return m1 + m2 * tl.where(w == 0.0, 0.0, w2 / w), w


@tegula.jit
def k_grow(x, out, N: tl.constexpr):
    m, w = tl.reduce((tl.load(x + tl.arange(0, N)), tl.full([N], 1.0, tl.float32)), 0, c_grow)
    tl.store(out, m)
    tl.store(out + 1, w)


@pytest.mark.parametrize("n", [2, 4, 8, 16, 32])
def test_few_elements_are_combined_in_pairs(dev, n):
    """The combine function is not associative: of equal halves each step makes it half as large again."""
    x, out = np.ones(n, np.float32), np.zeros(2, np.float32)
    dev(k_grow, (1,), x, out, n)
    assert list(out) == [1.5 ** (n.bit_length() - 1), n]


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 8, 32, 1024])
def test_welford_of_a_vector(dev, n, t):
    x = np.random.default_rng(n).standard_normal(n).astype(t)
    out = np.zeros(3, t)
    dev(k_welford_all, (1,), x, out, n)
    y = x.astype(np.float64)
    assert_close(out, np.array([y.mean(), y.var() * n, n]), 1e-5, 1e-6)


@pytest.mark.parametrize("a, b", [(2, 2), (4, 32), (32, 4), (16, 128)])
@pytest.mark.parametrize("axis", [0, 1])
def test_welford_of_an_axis(dev, a, b, axis):
    x = np.random.default_rng(a).standard_normal((a, b)).astype(np.float32)
    y = x.astype(np.float64)
    want = np.stack([y.mean(axis), y.var(axis) * x.shape[axis], np.full(x.shape[1 - axis], x.shape[axis])])
    out = np.zeros(want.shape, np.float32)
    dev(k_welford, (1,), x, out, a, b, axis)
    assert_close(out, want, 1e-5, 1e-5)


@tegula.jit
def c_best(v1, i1, n1, v2, i2, n2):
    """Largest value, its first index; values of three dtypes, one of them a literal."""
    if v1 > v2:
        v = v1
        i = i1
    else:
        v = v2
        i = tl.where(v1 == v2, tl.minimum(i1, i2), i2)
    return v, i, n1 * 0 + 1


@tegula.jit
def k_best(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v, at, flag = tl.reduce((tl.load(x + i), i, (i * 0).to(tl.int8)), 0, c_best)
    tl.store(out, v.to(tl.int32))
    tl.store(out + 1, at)
    tl.store(out + 2, flag.to(tl.int32))


@tegula.jit
def k_best_scan(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v, at, flag = tl.associative_scan((tl.load(x + i), i, (i * 0).to(tl.int8)), 0, c_best)
    tl.store(out + i, v.to(tl.int32))
    tl.store(out + N + i, at)
    tl.store(out + 2 * N + i, flag.to(tl.int32))


@pytest.mark.parametrize("t", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("n", [2, 16, 64])
def test_values_of_several_dtypes(dev, n, t):
    x = np.random.default_rng(n).integers(0, 5, n).astype(t)
    out = np.zeros(3, np.int32)
    dev(k_best, (1,), x, out, n)
    assert_same(out, np.array([x.max(), x.argmax(), 1], np.int32))
    out = np.zeros((3, n), np.int32)
    dev(k_best_scan, (1,), x, out, n)
    top = np.maximum.accumulate(x.astype(np.int32))
    assert_same(out, np.stack([top, [x[:i + 1].argmax() for i in range(n)], np.arange(n) > 0]).astype(np.int32))


@tegula.jit
def c_fraction(p1, q1, p2, q2):
    """A sum of fractions in lowest terms."""
    p = p1 * q2 + p2 * q1
    q = q1 * q2
    d = c_gcd(p, q)
    return p // d, q // d


@tegula.jit
def k_fraction(p, q, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.reduce((tl.load(p + i), tl.load(q + i)), 0, c_fraction)
    tl.store(out, a)
    tl.store(out + 1, b)


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_several_values_by_a_loop(dev, n):
    g = np.random.default_rng(n)
    p, q = g.integers(1, 9, n), g.integers(1, 7, n)
    total = sum((fractions.Fraction(int(a), int(b)) for a, b in zip(p, q)), fractions.Fraction(0))
    p, q = (p // np.gcd(p, q)).astype(np.int64), (q // np.gcd(p, q)).astype(np.int64)
    out = np.zeros(2, np.int64)
    dev(k_fraction, (1,), p, q, out, n)
    assert_same(out, np.array([total.numerator, total.denominator]))


@tegula.jit
def c_pair(a, b, c, d):
    return a + c, 1.0


@tegula.jit
def k_pair(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    a, b = tl.reduce((v, v), 0, c_pair)
    tl.store(out, a)
    tl.store(out + 1, b)


@pytest.mark.parametrize("n", [2, 32, 512])
def test_a_value_that_is_a_literal(dev, n):
    x = np.arange(n, dtype=np.float32)
    out = np.zeros(2, np.float32)
    dev(k_pair, (1,), x, out, n)
    assert_same(out, np.array([x.sum(), 1], np.float32))


@tegula.jit
def k_first_of_overwritten(x, y, out, N: tl.constexpr, M: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    s = tl.reduce(v, 0, c_first)
    tl.store(y + tl.arange(0, N), v)
    tl.store(x + tl.arange(0, N), v + 1)
    tl.store(out + tl.arange(0, M), s)


@pytest.mark.parametrize("t", ["int8", "int16", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [2, 4, 8, 16])
@pytest.mark.parametrize("m", [1, 8, 32])
def test_element_of_a_tile_that_is_then_overwritten(dev, n, m, t):
    """One lane of a loaded vector, used in all lanes of another one behind the store over it."""
    x = np.full(n, 3, t)
    y, out = np.zeros(n, t), np.zeros(m, t)
    dev(k_first_of_overwritten, (1,), x, y, out, n, m)
    assert_same(x, np.full(n, 4, t))
    assert_same(y, np.full(n, 3, t))
    assert_same(out, np.full(m, 3, t))


@tegula.jit
def lanes_or(a, b):
    return a | b


@tegula.jit
def lanes_and(a, b):
    return a & b


@tegula.jit
def lanes_xor(a, b):
    return a ^ b


@tegula.jit
def lanes_add(a, b):
    return a + b


@tegula.jit
def lanes_max(a, b):
    return tl.maximum(a, b)


@tegula.jit
def lanes_min(a, b):
    return tl.minimum(a, b)


@tegula.jit
def f_combined(x, axis, how: tl.constexpr):
    return tl.reduce(x, axis, how)


@pytest.mark.parametrize("t", ["int1", "int8", "uint8", "int16", "uint16", "int64", "uint64"])
@pytest.mark.parametrize("how, ref", [(lanes_or, np.bitwise_or), (lanes_and, np.bitwise_and), (lanes_xor, np.bitwise_xor), (lanes_add, np.add),
                                      (lanes_max, np.maximum), (lanes_min, np.minimum)], ids=["or", "and", "xor", "add", "max", "min"])
def test_combined_across_lanes(dev, t, how, ref):
    """Votes and redux.sync: of conditions, and of integers that are not 32 bits wide."""
    if t == "int1" and how in (lanes_add, lanes_max, lanes_min):
        pytest.skip("not of conditions")
    g = rng(t, ref.__name__)
    for shape, axis in (((128, ), 0), ((4, 64), 1), ((32, 8), 0)):
        n = int(np.prod(shape))
        x = values(d(t), n, "combined").reshape(shape)
        if how in (lanes_or, lanes_and) and axis == 1:  # rows of one value but for one element
            x[:2] = x[:1, :1]
            x[0, int(g.integers(shape[1]))] = x[2, 3]
        assert_same(apply(dev, f_combined, [x], np.delete(shape, axis), d(t).np, (axis, how)), ref.reduce(x, axis=axis, dtype=x.dtype))
