"""Where versions of the language differ without a word: the rules of 3.9, and those of 3.7 where a launch asks for them."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError

pytestmark = pytest.mark.section("0 levels")


@tegula.jit
def k_literals(x, out, B: tl.constexpr, LATEST: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    T: tl.constexpr = v.dtype if LATEST else tl.float32
    tl.static_assert(tl.maximum(v, 0.0).dtype == T)
    tl.static_assert(tl.minimum(1, v).dtype == T if LATEST else True)
    tl.static_assert(tl.clamp(v, 0.0, 1.0).dtype == T)
    tl.static_assert(tl.fma(v, 2.0, 1.0).dtype == T)
    tl.static_assert((v > 1e-8).dtype == tl.int1)
    tl.static_assert((v / 2.0).dtype == tl.float32)
    tl.static_assert((v % v).dtype == tl.float32)
    tl.store(out + tl.arange(0, B), (tl.maximum(v, 1.5) + tl.fma(v, 0.5, 0.25)).to(tl.float32))


@pytest.mark.parametrize("level", [0, 39, 37, 36])
@pytest.mark.parametrize("t", [np.float16, ml_dtypes.bfloat16])
def test_literals_take_the_tensors_type(dev, t, level):
    x, out = np.arange(16).astype(t), np.zeros(16, np.float32)
    dev(k_literals, (1, ), x, out, 16, level in (0, 39), language_level=level)
    y = x.astype(np.float32)
    assert (out == np.maximum(y, 1.5) + (y * 0.5 + 0.25)).all()


@tegula.jit
def k_compare(x, out, B: tl.constexpr, WHAT: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    if WHAT == "tenth":
        r = v == 0.1
    elif WHAT == "tenth first":
        r = 0.1 == v
    elif WHAT == "256":
        r = v != 256
    elif WHAT == "-1":
        r = v < -1
    else:
        r = 0 < v <= 0.1
    tl.store(out + tl.arange(0, B), r.to(tl.int32))


# A tenth is another number in float16 and in float32. -1 as int32 meets uint32 as 2^32 - 1, and uint8 as itself.
COMPARED = [(np.float16, "tenth", 0.1, [0, 1, 0], [0, 0, 0]), (np.float16, "tenth first", 0.1, [0, 1, 0], [0, 0, 0]),
            (ml_dtypes.bfloat16, "chained", 0.1, [0, 1, 0], [0, 0, 0]), (np.uint8, "256", 255, None, [1, 1, 1]),
            (np.uint32, "-1", 2**32 - 1, None, [1, 0, 1]), (np.uint8, "-1", 255, None, [0, 0, 0])]


@pytest.mark.parametrize("t, what, middle, latest, before", COMPARED, ids=[f"{np.dtype(t)}-{w}" for t, w, *_ in COMPARED])
def test_literals_in_comparisons(dev, t, what, middle, latest, before):
    x = np.array([0, middle, 2, 3], t)
    for level, expected in ((39, latest), (37, before), (36, before)):
        out = np.full(4, -1, np.int32)
        if expected is None:
            with pytest.raises(CompileError, match="out of range for type uint8|unsigned tensor and a negative scalar"):
                dev(k_compare, (1, ), x, out, 4, what, language_level=level)
            continue
        dev(k_compare, (1, ), x, out, 4, what, language_level=level)
        assert list(out[:3]) == expected, level


@tegula.jit
def k_bf16(x, out, B: tl.constexpr, LATEST: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    T: tl.constexpr = tl.bfloat16 if LATEST else tl.float32
    tl.static_assert(tl.maximum(v, v).dtype == T)
    tl.static_assert(tl.max(v, 0, return_indices=True)[0].dtype == T)
    tl.static_assert(tl.min(v, 0, return_indices=True)[0].dtype == T)
    tl.static_assert(tl.cumsum(v, 0).dtype == T)
    tl.static_assert(tl.cumprod(v, 0).dtype == T)
    tl.static_assert(tl.clamp(v, v, v).dtype == T)
    tl.static_assert(tl.max(v, 0).dtype == tl.float32)
    tl.static_assert(tl.sum(v, 0).dtype == tl.bfloat16)
    small = tl.arange(0, B).to(tl.int8)
    tl.static_assert(tl.cumprod(small, 0).dtype == (tl.int32 if LATEST else tl.int8))
    tl.store(out + tl.arange(0, B), tl.cumsum(v, 0).to(tl.float32))


@pytest.mark.parametrize("level", [39, 37])
def test_bfloat16_stays(dev, level):
    x, out = np.ones(16, ml_dtypes.bfloat16), np.zeros(16, np.float32)
    dev(k_bf16, (1, ), x, out, 16, level == 39, language_level=level)
    assert (out == np.arange(1, 17)).all()


@tegula.jit
def k_fp8(x, out, B: tl.constexpr, T: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.static_assert((v / v).dtype == T)
    tl.static_assert((v / 2.0).dtype == T)
    tl.store(out + tl.arange(0, B), (v / v).to(tl.float32))


@pytest.mark.parametrize("level", [39, 37])
def test_division_of_fp8(dev, level):
    x, out = np.ones(16, ml_dtypes.float8_e5m2), np.zeros(16, np.float32)
    dev(k_fp8, (1, ), x, out, 16, tl.float32 if level == 39 else tl.float8e5, language_level=level)
    assert (out == 1).all()


@tegula.jit
def k_softmax(x, out, B: tl.constexpr, DIM: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    r = tl.softmax(tl.load(x + at), DIM)
    tl.static_assert(r.shape == [B, B])
    tl.store(out + at, r)


@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_softmax_along_any_axis(dev, dim):
    x, out = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32), np.zeros((8, 8), np.float32)
    dev(k_softmax, (1, ), x.reshape(-1), out.reshape(-1), 8, dim)
    e = np.exp(x - x.max(dim or 0, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(dim or 0, keepdims=True), rtol=1e-5)


@tegula.jit
def k_method(x, out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.load(x + tl.arange(0, B)).exp())


def test_methods_check_their_type(dev):
    x, out = np.zeros(16, np.float16), np.zeros(16, np.float16)
    with pytest.raises(CompileError, match=r"Expected dtype \['fp32', 'fp64'\] but got fp16"):
        dev(k_method, (1, ), x, out, 16)
    dev(k_method, (1, ), x, out, 16, language_level=37)
    assert (out == 1).all()


@tegula.jit
def k_fdiv(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    h, n = tl.load(x + i), tl.load(y + i)
    tl.static_assert(tl.fdiv(h, h).dtype == tl.float32)
    tl.static_assert(tl.fdiv(h, 2).dtype == tl.float32)
    tl.static_assert(tl.fdiv(h, n).dtype == tl.float32)
    tl.store(out + i, tl.fdiv(h, n, ieee_rounding=True) + tl.fdiv(h.to(tl.float32), 2.0, approx=True))


def test_fdiv(dev):
    x, y, out = np.arange(8).astype(np.float16), np.arange(1, 9).astype(np.int32), np.zeros(8, np.float32)
    dev(k_fdiv, (1, ), x, y, out, 8)
    np.testing.assert_allclose(out, x.astype(np.float32) / y + x.astype(np.float32) / 2, rtol=1e-6)


@tegula.jit
def k_old_fdiv(x, out):
    h = tl.load(x)
    tl.static_assert(tl.fdiv(h, h).dtype == tl.float16)
    tl.store(out, tl.fdiv(h, h))


def test_fdiv_of_one_type_before_3_9(dev):
    out = np.zeros(1, np.float16)
    dev(k_old_fdiv, (1, ), np.full(1, 3, np.float16), out, language_level=37)
    assert out[0] == 1


@tegula.jit
def k_wrong_fdiv(x, out, WHAT: tl.constexpr):
    v = tl.load(x)
    if WHAT == 0:
        r = tl.fdiv(v, v)
    elif WHAT == 1:
        r = tl.fdiv(v.to(tl.float64), 2.0, approx=True)
    else:
        r = tl.fdiv(v.to(tl.float32), 2.0, ieee_rounding=True, approx=True)
    tl.store(out, r)


@pytest.mark.parametrize("what, text", [(0, "fdiv requires floating-point operands after type promotion"),
                                        (1, "approx division requires float32 operands"),
                                        (2, "approx and ieee_rounding cannot both be True")])
def test_mistakes_of_fdiv(dev, what, text):
    with pytest.raises(CompileError, match=text):
        dev(k_wrong_fdiv, (1, ), np.ones(1, np.int32), np.zeros(1, np.float32), what)


@tegula.jit
def k_chained(x, out, B: tl.constexpr, LO: tl.constexpr, n):
    tl.static_assert(1 < B <= 64)
    tl.static_assert(not 1 < B < 4)
    v = tl.load(x + tl.arange(0, B))
    inside = LO < v <= n < 100
    tl.static_assert(inside.shape == [B])
    if 0 < n < 9 == 9:
        tl.store(out + tl.arange(0, B), inside.to(tl.int32))


def test_chained_comparisons(dev):
    x, out = np.arange(16, dtype=np.int32), np.full(16, -1, np.int32)
    dev(k_chained, (1, ), x, out, 16, 3, 7)
    assert (out == ((3 < x) & (x <= 7))).all()
    dev(k_chained, (1, ), x, out := np.full(16, -1, np.int32), 16, 3, 12)
    assert (out == -1).all()


@tegula.jit
def k_comprehension(out):
    pairs: tl.constexpr = ((1, 2), (3, 4), (5, 6))
    products = [a * b for a, b in pairs if a != 3 if b > 0]
    tl.static_assert(len(products) == 2)
    sums: tl.constexpr = [a + b for (a, b) in pairs]
    tl.store(out, products[0])
    tl.store(out + 1, products[1])
    tl.store(out + 2, sums[2])
    squares = [tl.load(out + 2) * i for i in range(1, 7, 2)]
    tl.store(out + 3, squares[0] + squares[1] + squares[2] + len([i for i in tl.static_range(4)]))


def test_comprehensions(dev):
    out = np.zeros(4, np.int32)
    dev(k_comprehension, (1, ), out)
    assert list(out) == [2, 30, 11, 11 * 9 + 4]


@tegula.jit
def k_shapes(out, B: tl.constexpr):
    x = tl.arange(0, B)
    y = tl.squeeze(tl.unsqueeze(x, -1), -1)
    tl.store(out + x, tl.load(out + x, cache_modifier="cs", eviction_policy="evict_last") + y, cache_modifier="wt")


def test_negative_dimensions_and_modifiers_without_a_dot(dev):
    out = np.zeros(16, np.int32)
    dev(k_shapes, (1, ), out, 16)
    assert (out == np.arange(16)).all()


def test_levels_that_do_not_exist(dev):
    with pytest.raises(ValueError, match="language_level is 35; it must be 36, 37 or 39"):
        dev(k_shapes, (1, ), np.zeros(16, np.int32), 16, language_level=35)


@tegula.jit
def k_axes_of_scalars(out, n):
    i, j = tl.program_id(0), tl.program_id(1)
    offsets = i[:, None] * 2 + j[None, :]
    tl.static_assert(i[:, None].shape == [1])
    tl.store(out + offsets, tl.full((), 5, tl.int32) + i * 10 + j, mask=(i[:, None] < n) & (j[None, :] < 2))


@pytest.mark.parametrize("strict, level", [(False, 39), (False, 37), (True, 37)])
def test_axes_of_scalars(dev, strict, level):
    """`scale[:, None]`, as kernels for block scales write it, was a block of one element before 3.9."""
    out = np.zeros((3, 2), np.int32)
    dev(k_axes_of_scalars, (3, 2), out, 3, strict=strict, language_level=level)
    assert (out == 5 + 10 * np.arange(3)[:, None] + np.arange(2)).all()


@tegula.jit
def k_colon_too_many(out, n):
    tl.store(out + tl.arange(0, 2)[:, :], n)


def test_colons_too_many(dev):
    """A `:` without an axis was nothing before 3.9, whose rule `strict` asks for."""
    for strict, level in ((False, 39), (True, 37)):
        out = np.zeros(2, np.int32)
        dev(k_colon_too_many, (1, ), out, 3, strict=strict, language_level=level)
        assert (out == 3).all()
    with pytest.raises(CompileError, match="too many indices for a tensor of rank 1"):
        dev(k_colon_too_many, (1, ), np.zeros(2, np.int32), 3, strict=True, language_level=39)


def test_axes_of_scalars_strict(dev):
    with pytest.raises(CompileError, match="too many indices for a tensor of rank 0"):
        dev(k_axes_of_scalars, (3, 2), np.zeros((3, 2), np.int32), 3, strict=True, language_level=39)
