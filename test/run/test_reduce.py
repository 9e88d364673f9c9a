"""§3.7 reductions, scans, sorting, histogram, gather."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, FLOATS, NO_FP8, apply, apply1_pair, assert_close, assert_same, d, rng, values

pytestmark = pytest.mark.section("3.7 reductions")


@tegula.jit
def f_sum(x, axis, keep):
    return tl.sum(x, axis, keep)


@tegula.jit
def f_sum_dtype(x, axis, dtype):
    return tl.sum(x, axis, dtype=dtype)


@tegula.jit
def m_sum(x, axis, keep):
    return x.sum(axis=axis, keep_dims=keep)


@tegula.jit
def f_max(x, axis, keep):
    return tl.max(x, axis, keep_dims=keep)


@tegula.jit
def f_min(x, axis, keep):
    return tl.min(x, axis, keep_dims=keep)


@tegula.jit
def m_max(x, axis, keep):
    return x.max(axis, keep_dims=keep)


@tegula.jit
def f_max_index(x, axis, left, keep):
    return tl.max(x, axis, return_indices=True, return_indices_tie_break_left=left, keep_dims=keep)


@tegula.jit
def f_min_index(x, axis, left, keep):
    return tl.min(x, axis, return_indices=True, return_indices_tie_break_left=left, keep_dims=keep)


@tegula.jit
def f_argmax(x, axis, left, keep):
    return tl.argmax(x, axis, left, keep)


@tegula.jit
def f_argmin(x, axis, left, keep):
    return tl.argmin(x, axis, tie_break_left=left, keep_dims=keep)


@tegula.jit
def f_xor_sum(x, axis, keep):
    return tl.xor_sum(x, axis, keep)


@tegula.jit
def f_reduce_or(x, axis, keep):
    return tl.reduce_or(x, axis, keep)


@tegula.jit
def c_mul(a, b):
    return a * b


@tegula.jit
def c_first(a, b):
    return a


@tegula.jit
def f_product(x, axis, keep):
    return tl.reduce(x, axis, c_mul, keep_dims=keep)


SHAPES = [((64,), None), ((64,), 0), ((1,), 0), ((2048,), 0), ((8, 32), None), ((8, 32), 0), ((8, 32), 1),
          ((8, 32), -1), ((64, 1), 1), ((1, 64), 0), ((4, 8, 16), 0), ((4, 8, 16), 1), ((4, 8, 16), 2),
          ((4, 8, 16), None), ((2, 4, 2, 8), -2), ((256, 4), 0)]
FEW = SHAPES[1:8:2] + [((4, 8, 16), 1)]


def sum_type(t):
    return d("int32" if t.kind == "i" else "uint32") if t.is_int and t.bits < 32 else t


def extremum_type(t):
    return t if t.bits >= 32 else d("float32" if t.kind == "f" else "int32")


def reduced(x, axis, keep):
    return np.sum(x.astype(np.int8), axis, keepdims=keep).shape


@pytest.mark.parametrize("t", NO_FP8, ids=str)
@pytest.mark.parametrize("shp, axis", FEW, ids=str)
def test_sum_types(dev, t, shp, axis):
    x = values(t, int(np.prod(shp)), "sum").reshape(shp)
    r = sum_type(t)
    got = apply(dev, f_sum, [x], reduced(x, axis, False), r.np, (axis, False))
    if t.kind == "f":
        # Accumulated in the type itself: a relative error of a step for each level or element of the sum.
        eps = {16: 2.0**-8 if t.name == "bfloat16" else 2.0**-11, 32: 2.0**-24, 64: 2.0**-53}[t.bits]
        n = x.size / got.size
        bound = n * eps * np.abs(x.astype(np.float64)).sum(axis) + 1e-30
        assert (np.abs(got.astype(np.float64) - x.astype(np.float64).sum(axis)) <= bound).all()
    else:
        with np.errstate(all="ignore"):
            assert_same(got, x.astype(r.np).sum(axis, dtype=r.np))


@pytest.mark.parametrize("shp, axis", SHAPES, ids=str)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("fn, ref", [(f_sum, np.sum), (m_sum, np.sum),
                                     (f_max, np.max), (f_min, np.min), (m_max, np.max),
                                     (f_xor_sum, np.bitwise_xor.reduce), (f_reduce_or, np.bitwise_or.reduce),
                                     (f_product, np.prod)], ids=lambda f: getattr(f, "__name__", ""))
def test_axes(dev, shp, axis, keep, fn, ref):
    x = values(d("int32"), int(np.prod(shp)), "axes").reshape(shp)
    e = np.asarray(ref(x, axis=axis, keepdims=keep)).astype(np.int32)
    assert_same(apply(dev, fn, [x], e.shape, np.int32, (axis, keep)), e)


@tegula.jit
def both_axes(x, rows, columns, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + r[:, None] * C + c[None, :])
    tl.store(rows + r, tl.max(v, 1))
    tl.store(columns + c, tl.sum(v, 0))


@pytest.mark.parametrize("warps", [1, 2, 8, 16])
@pytest.mark.parametrize("r, c", [(32, 16), (128, 8), (512, 4), (2, 256), (64, 64)])
def test_warps(dev, r, c, warps):
    """Warps, and lanes, that hold different results or parts of one."""
    x = rng(r, c).permutation(r * c).astype(np.int32).reshape(r, c)
    rows, columns = np.zeros(r, np.int32), np.zeros(c, np.int32)
    dev(both_axes, (1,), x, rows, columns, r, c, num_warps=warps)
    assert_same(rows, x.max(1))
    assert_same(columns, x.sum(0, dtype=np.int32))


@pytest.mark.parametrize("t", NO_FP8, ids=str)
@pytest.mark.parametrize("fn, ref", [(f_max, np.fmax), (f_min, np.fmin)], ids=["max", "min"])
@pytest.mark.parametrize("shp, axis", FEW, ids=str)
def test_extremum_types(dev, t, fn, ref, shp, axis):
    x = values(t, int(np.prod(shp)), "extremum", special=True)
    if t.kind == "f":
        x[1] = 0.5  # one sign of zero
    x = x.reshape(shp)
    r = extremum_type(t)
    e = ref.reduce(x.astype(r.np), axis=axis)
    assert_same(apply(dev, fn, [x], np.shape(e), r.np, (axis, False)), np.asarray(e).astype(r.np))


SIGNALING = {"float16": 0x7c01, "bfloat16": 0x7f81, "float32": 0x7f800001, "float64": 0x7ff0000000000001}


@pytest.mark.parametrize("t", SIGNALING)
@pytest.mark.parametrize("fn, top", [(f_max, 30.0), (f_min, -33.0)], ids=["max", "min"])
@pytest.mark.parametrize("sign", [0, 1])
def test_signaling_nans_are_ignored(dev, t, fn, top, sign):
    """At any place: maxNum of C and of IEEE 754-2008 gives a NaN for one that signals."""
    t = d(t)
    bits = np.dtype(f"u{t.bits // 8}")
    x = np.arange(-33, 31).astype(t.np)
    for at in range(0, 32, 3):
        x.view(bits)[1 + at] = SIGNALING[t.name] | sign << t.bits - 1
    r = extremum_type(t)
    assert_same(apply(dev, fn, [x], (), r.np, (0, False)), np.asarray(top, r.np))


@pytest.mark.parametrize(
    "t", ["float32", "float16", "bfloat16", "float64", "int8", "int32", "uint8", "int64", "uint32", "int1"])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("shp, axis", [((64,), 0), ((8, 32), 0), ((8, 32), 1), ((8, 32), -1), ((4, 8, 16), 1)],
                         ids=str)
@pytest.mark.parametrize("keep", [False, True])
def test_indices(dev, t, name, shp, axis, keep):
    # Few different values, so that there are ties: the smallest index wins.
    x = (rng("idx", t, shp).integers(0, 2 if t == "int1" else 5, shp)).astype(d(t).np)
    value_fn, arg_fn, ref = (f_max_index, f_argmax, np.argmax) if name == "max" else (f_min_index, f_argmin, np.argmin)
    wide = x.astype(np.float64)
    index = np.asarray(ref(wide, axis=axis, keepdims=keep)).astype(np.int32)
    best = np.max(wide, axis, keepdims=keep) if name == "max" else np.min(wide, axis, keepdims=keep)
    result = d(t).np
    v, i = np.zeros(max(best.size, 1), result), np.zeros(max(best.size, 1), np.int32)
    dev(apply1_pair, (1,), x.reshape(-1), v, i, value_fn, (axis, True, keep), shp, best.shape)
    assert_same(v, best.reshape(-1).astype(result))
    assert_same(i, index.reshape(-1))
    assert_same(apply(dev, arg_fn, [x], best.shape, np.int32, (axis, True, keep)), index)
    # Without the tie break: any index of the best.
    i = apply(dev, arg_fn, [x], best.shape, np.int32, (axis, False, keep))
    picked = np.take_along_axis(wide, i if keep else np.expand_dims(i, axis), axis)
    assert np.array_equal(picked.reshape(best.shape), best)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("fn, ref", [(f_argmax, np.nanargmax), (f_argmin, np.nanargmin)], ids=["argmax", "argmin"])
def test_arg_skips_nan(dev, t, fn, ref):
    for key in range(4):
        x = rng("nan", key).integers(-9, 9, 64).astype(np.float32)
        x[rng("where", key).integers(0, 64, 40)] = np.nan
        x[key] = np.nan
        assert apply(dev, fn, [x.astype(t.np)], (), np.int32, (0, True, False)) == ref(x)
    assert apply(dev, fn, [np.full(16, np.nan, np.float32)], (), np.int32, (0, True, False)) == 0


# Registers, lanes, warps (more than eight: lanes read their parts) and several results a thread, each at work.
@pytest.mark.parametrize("shp, axis, warps", [((64,), 0, 1), ((512,), 0, 1), ((512,), 0, 4), ((2048,), 0, 16), ((4, 128), 1, 1), ((128, 4), 0, 2), ((16, 8), 1, 1)], ids=str)
@pytest.mark.parametrize("t", ["float32", "float16", "bfloat16", "int32", "uint32", "int8", "uint8", "int64", "float64"])
def test_index_and_value_are_of_one_element(dev, t, shp, axis, warps):
    """Ties, infinities, zeros of both signs, and NaNs, which lose: the value comes with the bits of the element that the index names."""
    g = rng("winner", t, shp)
    for kind in range(4):
        if t.startswith(("float", "bfloat")):
            x = g.choice(np.float32([[-0.0, 0.0], [-np.inf, np.nan], [1.5, np.nan], [-2.0, -0.0]][kind]), shp).astype(d(t).np)
            if kind == 2:
                x[...] = np.where(g.random(shp) < 0.98, np.float32(np.nan).astype(d(t).np), x)
        else:
            info = np.iinfo(d(t).np)
            x = g.choice(np.array([[info.min, info.max], [0, 1], [info.max, info.max - 1], [info.min, info.min + 1]][kind], d(t).np), shp)
        for name, fn in (("max", f_max_index), ("min", f_min_index)):
            wide = x.astype(np.float64) if t != "int64" else x
            lost = -np.inf if name == "max" else np.inf
            numbers = wide if wide.dtype == np.int64 else np.where(np.isnan(wide), lost, wide)
            best = np.max(numbers, axis, keepdims=True) if name == "max" else np.min(numbers, axis, keepdims=True)
            candidates = (numbers == best) & ~np.isnan(wide)
            candidates |= ~candidates.any(axis, keepdims=True)
            index = np.argmax(candidates, axis).astype(np.int32)
            v, i = np.zeros(max(index.size, 1), x.dtype), np.zeros(max(index.size, 1), np.int32)
            dev(apply1_pair, (1,), x.reshape(-1), v, i, fn, (axis, True, False), shp, index.shape, num_warps=warps)
            assert_same(i, index.reshape(-1))
            taken = np.take_along_axis(x, np.expand_dims(index, axis), axis).reshape(-1)
            assert v.tobytes() == taken.tobytes(), (v, taken)


@tegula.jit
def largest_first(x, out, at, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for k in tl.static_range(K):
        j = tl.argmax(v, 0)
        tl.store(out + k, tl.max(v, 0))
        tl.store(at + k, j)
        v = tl.where(i == j, -float("inf"), v)


@pytest.mark.parametrize("n, warps", [(32, 1), (256, 1), (256, 4), (1024, 16)])
def test_largest_elements_in_turn(dev, n, warps):
    """What argmax and max of one tile have in common is found once; one thread stores all scalars."""
    x = rng("turns", n).permutation(n).astype(np.float32) - n // 2
    out, at = np.zeros(6, np.float32), np.zeros(6, np.int32)
    dev(largest_first, (1,), x, out, at, n, 6, num_warps=warps)
    order = np.argsort(-x)[:6].astype(np.int32)
    assert_same(at, order)
    assert_same(out, x[order])


@pytest.mark.parametrize("t, dtype", [("float16", "float32"), ("int8", "int64"), ("int32", "float32"),
                                      ("float32", "float64"), ("bfloat16", "float32"), ("int1", "int8")])
def test_sum_dtype(dev, t, dtype):
    x = values(d(t), 64, "sd", low=None if t == "int1" else 0, high=100).reshape(8, 8)
    e = x.astype(d(dtype).np).sum(1, dtype=d(dtype).np)
    got = apply(dev, f_sum_dtype, [x], (8,), d(dtype).np, (1, d(dtype).tl))
    assert_close(got, e, 1e-6)


# Combine functions ---------------------------------------------------------------------------------------------------


@tegula.jit
def c_welford(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    delta = m2 - m1
    f = n2 / n
    return m1 + delta * f, s1 + s2 + delta * delta * n1 * f, n


@tegula.jit
def welford_kernel(x, mean, var, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + i)
    m, s, n = tl.reduce((v, tl.zeros([M, N], tl.float32), tl.full([M, N], 1.0, tl.float32)), 1, c_welford)
    tl.store(mean + tl.arange(0, M), m)
    tl.store(var + tl.arange(0, M), s / n)


def test_welford(dev):
    x = rng("welford").standard_normal((16, 128)).astype(np.float32) + 100
    m, v = np.zeros(16, np.float32), np.zeros(16, np.float32)
    dev(welford_kernel, (1,), x.reshape(-1), m, v, 16, 128)
    assert_close(m, x.astype(np.float64).mean(1), 1e-5)
    assert_close(v, x.astype(np.float64).var(1), 1e-3)


@tegula.jit
def c_min_max(a, b, c, e):
    return tl.minimum(a, c), tl.maximum(b, e)


@tegula.jit
def f_min_max(x, axis):
    return tl.reduce((x, x), axis, c_min_max)


@pytest.mark.parametrize("shp, axis", [((128,), 0), ((8, 32), 0), ((8, 32), 1), ((8, 32), None)], ids=str)
def test_tuple_of_one_input(dev, shp, axis):
    x = values(d("int32"), int(np.prod(shp)), "mm").reshape(shp)
    lo, hi = np.min(x, axis), np.max(x, axis)
    a, b = np.zeros(max(lo.size, 1), np.int32), np.zeros(max(lo.size, 1), np.int32)
    dev(apply1_pair, (1,), x.reshape(-1), a, b, f_min_max, (axis,), shp, lo.shape)
    assert_same(a, lo.reshape(-1))
    assert_same(b, hi.reshape(-1))


@tegula.jit
def c_recurrence(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@tegula.jit
def recurrence_kernel(a, b, out, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, c_recurrence, reverse=REVERSE)
    tl.store(out + i, h)


@pytest.mark.parametrize("n", [1, 2, 16, 64, 1024])
@pytest.mark.parametrize("reverse", [False, True])
def test_first_order_recurrence(dev, n, reverse):
    a, b = rng("rec", n).uniform(-1, 1, n).astype(np.float32), rng("rec b", n).standard_normal(n).astype(np.float32)
    e, h = np.zeros(n), 0.0
    for i in (range(n - 1, -1, -1) if reverse else range(n)):
        h = float(a[i]) * h + float(b[i])
        e[i] = h
    out = np.zeros(n, np.float32)
    dev(recurrence_kernel, (1,), a, b, out, n, reverse)
    assert_close(out, e, 1e-4, 1e-5)


# Scans ---------------------------------------------------------------------------------------------------------------


@tegula.jit
def f_cumsum(x, axis, reverse):
    return tl.cumsum(x, axis, reverse)


@tegula.jit
def m_cumsum(x, axis, reverse):
    return x.cumsum(axis=axis, reverse=reverse)


@tegula.jit
def f_cumsum_dtype(x, dtype):
    return tl.cumsum(x, 0, dtype=dtype)


@tegula.jit
def f_cumprod(x, axis, reverse):
    return tl.cumprod(x, axis, reverse)


@tegula.jit
def c_max(a, b):
    return tl.maximum(a, b)


@tegula.jit
def f_cummax(x, axis, reverse):
    return tl.associative_scan(x, axis, c_max, reverse)


def along(f, x, axis, reverse):
    return np.flip(f(np.flip(x, axis), axis), axis) if reverse else f(x, axis)


@pytest.mark.parametrize("shp, axis", [((1,), 0), ((64,), 0), ((2048,), 0), ((8, 32), 0), ((8, 32), 1),
                                       ((8, 32), -1), ((4, 8, 16), 1), ((2, 64, 2), 1), ((128, 4), 0)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("fn, ref", [(f_cumsum, np.cumsum), (m_cumsum, np.cumsum), (f_cumprod, np.cumprod),
                                     (f_cummax, np.maximum.accumulate)], ids=lambda f: getattr(f, "__name__", ""))
def test_scan_axes(dev, shp, axis, reverse, fn, ref):
    x = values(d("int32"), int(np.prod(shp)), "scan").reshape(shp)
    assert_same(apply(dev, fn, [x], shp, np.int32, (axis, reverse)), along(ref, x, axis, reverse).astype(np.int32))


@pytest.mark.parametrize("t", NO_FP8, ids=str)
def test_scan_types(dev, t):
    x = values(t, 128, "scan types", low=None if t.kind == "b" else 0, high=3)
    r = sum_type(t)
    got = apply(dev, f_cumsum, [x], (128,), r.np, (0, False))
    if t.kind == "f":
        assert_close(got, np.cumsum(x.astype(np.float64)), 0.02 if t.bits == 16 else 1e-5)
    else:
        assert_same(got, np.cumsum(x.astype(r.np), dtype=r.np))
    if t.kind != "b":
        r = sum_type(t)
        x = values(t, 16, "prod", low=1, high=2)
        got = apply(dev, f_cumprod, [x], (16,), r.np, (0, False))
        if t.kind == "f":
            assert_close(got, np.cumprod(x.astype(np.float64)), 0.02 if t.bits == 16 else 1e-5)
        else:
            with np.errstate(all="ignore"):
                assert_same(got, np.cumprod(x.astype(np.int64)).astype(r.np))


@pytest.mark.parametrize("t, dtype", [("int8", "int64"), ("float16", "float32"), ("int32", "float32")])
def test_cumsum_dtype(dev, t, dtype):
    x = values(d(t), 64, "cd", low=0, high=50)
    assert_close(apply(dev, f_cumsum_dtype, [x], (64,),
                       d(dtype).np, (d(dtype).tl,)), np.cumsum(x.astype(np.float64)), 1e-5)


# Sorting -------------------------------------------------------------------------------------------------------------


@tegula.jit
def f_sort(x, dim, descending):
    return tl.sort(x, dim, descending)


@tegula.jit
def f_topk(x, k, descending):
    return tl.topk(x, k, descending=descending)


@tegula.jit
def f_bitonic_merge(x, descending):
    return tl.bitonic_merge(x, None, descending)


@pytest.mark.parametrize("t", [t for t in NO_FP8], ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shp, dim", [((1,), None), ((2,), 0), ((64,), None), ((8, 16), 1), ((4, 2, 8), -1)],
                         ids=str)
def test_sort(dev, t, descending, shp, dim):
    x = values(t, int(np.prod(shp)), "sort").reshape(shp)
    e = np.sort(x.astype(np.float32), -1).astype(t.np) if t.name == "bfloat16" else np.sort(x, -1)
    assert_same(apply(dev, f_sort, [x], shp, t.np, (dim, descending)), e[..., ::-1] if descending else e)


@pytest.mark.parametrize("n", [256, 1024])
def test_sort_long(dev, n):
    x = values(d("float32"), 2 * n, "long").reshape(2, n)
    assert_same(apply(dev, f_sort, [x], x.shape, np.float32, (None, False)), np.sort(x, -1))


@tegula.jit
def k_sort(x, out, M: tl.constexpr, N: tl.constexpr, descending: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=descending))


@pytest.mark.parametrize("t", ["float32", "float16", "int8", "int64"])
@pytest.mark.parametrize("num_warps", [1, 2, 8])
@pytest.mark.parametrize("shp", [(1, 2048), (8, 64)], ids=str)
def test_sort_by_warps(dev, t, num_warps, shp):
    # Partners are in registers, lanes and warps.
    x = values(d(t), int(np.prod(shp)), "warps").reshape(shp)
    out = np.empty_like(x)
    dev(k_sort, (1,), x, out, *shp, num_warps % 2, num_warps=num_warps)
    e = np.sort(x, -1)
    assert_same(out, e[:, ::-1] if num_warps % 2 else e)


@pytest.mark.parametrize("dtype, integer", [(np.float32, np.int32), (np.float16, np.int16), (np.float64, np.int64)])
def test_sort_of_what_is_no_number(dev, dtype, integer):
    # Nothing is lost; a NaN lies beyond infinity, on the side of its sign, -0 in front of 0.
    x = values(d(np.dtype(dtype).name), 128, "nan").reshape(1, 128)
    x[0, :12] = [np.nan, -np.inf, 0.0, np.inf, -0.0, np.nan, -np.nan, 0.0, -np.inf, np.inf, -0.0, -np.nan]
    bits = x.view(integer)
    order = np.argsort(np.where(bits < 0, bits ^ np.iinfo(integer).max, bits), axis=-1, kind="stable")
    out = np.empty_like(x)
    dev(k_sort, (1,), x, out, 1, 128, False)
    assert np.array_equal(out.view(integer), np.take_along_axis(bits, order, -1))


@tegula.jit
def k_partners(x, out, M: tl.constexpr, N: tl.constexpr, distance: tl.constexpr):
    j = tl.arange(0, N)[None, :]
    at = tl.arange(0, M)[:, None] * N + j
    v = tl.load(x + at)
    tl.store(out + at, tl.gather(v, tl.broadcast_to(j ^ distance, [M, N]), 1))
    tl.store(out + M * N + at, tl.gather(v, tl.broadcast_to(N - 1 - j, [M, N]), 1))
    i = tl.broadcast_to(tl.arange(0, M)[:, None], [M, N])
    for step in range(0, 2):
        v = tl.gather(v, i ^ (M // 2 >> step), 0)
    tl.store(out + 2 * M * N + at, v)


@pytest.mark.parametrize("t", ["float32", "int8", "bfloat16", "int64"])
@pytest.mark.parametrize("M, N, distance", [(4, 256, 129), (16, 16, 3), (64, 8, 0), (4, 2, 1)])
def test_gather_of_partners(dev, t, M, N, distance):
    x = values(d(t), M * N, "partners").reshape(M, N)
    out = np.empty((3, M, N), x.dtype)
    dev(k_partners, (1,), x, out, M, N, distance)
    i = np.arange(M)
    assert_same(out, np.stack([x[:, np.arange(N) ^ distance], x[:, ::-1], x[i ^ M // 2 ^ M // 4]]))


def test_sort_of_other_axis(dev):
    with pytest.raises(CompileError, match="only minor dimension is currently supported"):
        apply(dev, f_sort, [np.zeros((4, 8), np.int32)], (4, 8), np.int32, (0, False))


@pytest.mark.parametrize("t", ["float32", "int32", "float16", "int8", "uint8", "int64", "bfloat16", "uint32"])
@pytest.mark.parametrize("shp, k", [((64,), 1), ((64,), 8), ((64,), 64), ((8, 32), 4), ((4, 16), 16),
                                    ((2, 4, 8), 2)], ids=str)
@pytest.mark.parametrize("descending", [True, False])
def test_topk(dev, t, shp, k, descending):
    t = d(t)
    x = values(t, int(np.prod(shp)), "topk").reshape(shp)
    r = t if k == shp[-1] else extremum_type(t)
    e = np.sort(x.astype(r.np if r.name != "bfloat16" else np.float32), -1)
    e = (e[..., ::-1] if descending else e)[..., :k].astype(r.np)
    assert_same(apply(dev, f_topk, [x], shp[:-1] + (k,), r.np, (k, descending)), e)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shp", [(64,), (8, 16)], ids=str)
def test_bitonic_merge(dev, descending, shp):
    x = np.sort(values(d("int32"), int(np.prod(shp)), "merge").reshape(shp), -1)
    half = shp[-1] // 2
    x[..., half:] = x[..., half:][..., ::-1].copy()
    e = np.sort(x, -1)
    assert_same(apply(dev, f_bitonic_merge, [x], shp, np.int32, (descending,)), e[..., ::-1] if descending else e)


# Histogram and gather ------------------------------------------------------------------------------------------------


@tegula.jit
def f_histogram(x, bins):
    return tl.histogram(x, bins)


@tegula.jit
def f_histogram_masked(x, m, bins):
    return x.histogram(bins, m)


@pytest.mark.parametrize("t", ["int32", "int64", "uint8", "int16"])
@pytest.mark.parametrize("n, bins", [(1024, 64), (16, 1), (64, 2), (256, 128), (8, 1024)])
def test_histogram(dev, t, n, bins):
    top = min(bins, 128)
    x = rng("histogram", n).integers(0, top, n).astype(d(t).np)
    assert_same(apply(dev, f_histogram, [x], (bins,), np.int32, (bins,)),
                np.bincount(x, minlength=bins).astype(np.int32))
    m = rng("mask", n).integers(0, 2, n).astype(np.bool_)
    assert_same(apply(dev, f_histogram_masked, [x, m], (bins,), np.int32, (bins,)),
                np.bincount(x[m], minlength=bins).astype(np.int32))


@tegula.jit
def f_gather(x, i, axis):
    return tl.gather(x, i, axis)


@tegula.jit
def m_gather(x, i, axis):
    return x.gather(i, axis)


@pytest.mark.parametrize("shp, ishp, axis", [((64,), (64,), 0), ((64,), (8,), 0), ((8,), (64,), 0),
                                             ((8, 16), (8, 4), 1), ((8, 16), (32, 16), 0), ((8, 16), (8, 16), -1),
                                             ((4, 8, 2), (4, 16, 2), 1), ((1, 8), (1, 8), 1)], ids=str)
@pytest.mark.parametrize("t", ["float32", "int8", "float64", "int1", "float16"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_gather(dev, shp, ishp, axis, t, index):
    x = values(d(t), int(np.prod(shp)), "gather").reshape(shp)
    i = rng("index", shp, ishp).integers(0, shp[axis], ishp).astype(d(index).np)
    assert_same(apply(dev, f_gather, [x, i], ishp, d(t).np, (axis,)), np.take_along_axis(x, i.astype(np.int64), axis))
    assert_same(apply(dev, m_gather, [x, i], ishp, d(t).np, (axis,)), np.take_along_axis(x, i.astype(np.int64), axis))


def test_gather_out_of_range_wraps(dev):
    x, i = np.arange(16, dtype=np.float32), np.array([0, 16, -1, 35, 2**31 - 1, -2**31, 7, -17], np.int32)
    assert_same(apply(dev, f_gather, [x, i], (8,), np.float32, (0,)), x[i & 15])


# Errors --------------------------------------------------------------------------------------------------------------


@tegula.jit
def e_xor_float(x):
    return tl.xor_sum(x.to(tl.float32))


@tegula.jit
def e_axis(x):
    return tl.sum(x, 2)


@tegula.jit
def e_arg_axis(x):
    return tl.argmax(x, 2)


@tegula.jit
def e_scan_axis(x):
    return tl.cumsum(x, 3)


@tegula.jit
def e_indices_without_axis(x):
    return tl.max(x, return_indices=True)[0]


@tegula.jit
def c_widens(a, b):
    return a.to(tl.int64) + b


@tegula.jit
def e_combine_type(x):
    return tl.reduce(x, 0, c_widens)


@tegula.jit
def c_three(a, b, c):
    return a


@tegula.jit
def e_combine_arity(x):
    return tl.reduce(x, 0, c_three)


@tegula.jit
def e_topk_size(x):
    return tl.topk(x, 3)


@tegula.jit
def e_topk_long(x):
    return tl.topk(x, 32)


@tegula.jit
def e_gather_rank(x):
    return tl.gather(x, tl.arange(0, 4)[None, :], 0)


@tegula.jit
def e_histogram_rank(x):
    return tl.histogram(x[None, :], 4)


@pytest.mark.parametrize("fn, text", [(e_xor_float, "integers"), (e_axis, "invalid axis"), (e_arg_axis, "invalid axis"),
                                      (e_scan_axis, "invalid axis"), (e_indices_without_axis, "axis"),
                                      (e_combine_type, "."), (e_combine_arity, "."), (e_topk_size, "power of two"),
                                      (e_topk_long, "."), (e_gather_rank, "."), (e_histogram_rank, ".")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_errors(dev, fn, text):
    with pytest.raises(CompileError, match=text):
        apply(dev, fn, [np.zeros(8, np.int32)], (), np.int32)


@tegula.jit
def k_under_mask(x, out, sums, n, N: tl.constexpr):
    i = tl.arange(0, N)
    mask = i < n
    v = tl.load(x + i, mask=mask, other=7.0)
    d = tl.where(mask, v - 2.0, 0.0)
    tl.store(sums, tl.sum(d * d, axis=0))
    tl.store(sums + 1, tl.sum(d, axis=0))
    tl.store(sums + 2, tl.max(d, axis=0))
    tl.store(sums + 3, tl.sum(tl.where(mask, v, 1.0), axis=0))
    tl.store(out + i, d * 3.0 + 1.0, mask=mask)  # nobody can tell what d is where the mask is off
    tl.store(out + N + i, d + 1.0, mask=mask & (i % 2 == 0))
    tl.store(out + 2 * N + i, d + 1.0)  # here everybody can
    tl.store(out + 3 * N + i, tl.where(mask, d + 1.0, 9.0))
    tl.store(out + 4 * N + i, d + 1.0, mask=mask | (i % 2 == 0))
    tl.store(out + 5 * N + i, tl.where(i < n + 5, d, 4.0), mask=i < n + 9)


@pytest.mark.parametrize("n", [0, 1, 37, 1000, 2048])
def test_selections_under_a_mask(dev, n):
    size = 2048
    x = rng("under mask", n).integers(-100, 100, size).astype(np.float32)
    out, sums = np.full(6 * size, -5, np.float32), np.zeros(4, np.float32)
    dev(k_under_mask, (1,), x, out, sums, n, size)
    i = np.arange(size)
    on, even = i < n, i % 2 == 0
    e = np.where(on, x - 2, 0)
    assert sums.tolist() == [(e.astype(np.float64)**2).sum(), e.sum(), e.max(), np.where(on, x, 1).sum()]
    rows = [np.where(on, e * 3 + 1, -5), np.where(on & even, e + 1, -5), e + 1, np.where(on, e + 1, 9), np.where(on | even, e + 1, -5),
            np.where(i < n + 9, np.where(i < n + 5, e, 4), -5)]
    for k, row in enumerate(rows):
        assert np.array_equal(out[k * size:(k + 1) * size], row), k


@tegula.jit
def larger_by_return(a, i, b, j):
    if a < b:
        return b, j
    if a > b:
        return a, i
    return a, tl.minimum(i, j)


@tegula.jit
def reduce_by_return(x, out, ROWS: tl.constexpr, N: tl.constexpr):
    v = tl.reshape(tl.load(x + tl.arange(0, ROWS * N)), [ROWS, N])
    i = tl.broadcast_to(tl.arange(0, N)[None, :], [ROWS, N])
    a, k = tl.reduce((v, i), 1, larger_by_return)
    tl.store(out + tl.arange(0, ROWS), a * N + k)


def test_many_elements_by_a_combine_function_that_returns_early(dev):
    """As branches, one for each of 1,024 elements of one warp, this took LLVM minutes and 10 GB."""
    x = values(d("int32"), 128 * 8, low=0, high=99)
    out = np.zeros(128, np.int32)
    dev(reduce_by_return, (1, ), x, out, 128, 8, num_warps=1)
    rows = x.reshape(128, 8)
    assert_same(out, rows.max(1) * 8 + rows.argmax(1).astype(np.int32))


@tegula.jit
def sum_of_range(out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.arange(0, N)))


def test_sum_of_a_large_range(dev):
    """Thousands of elements in each thread of a GPU: chains of integer sums that instruction selection must not work through again and again."""
    out = np.zeros(1, np.int32)
    dev(sum_of_range, (1,), out, 2**18)
    assert out[0] == np.arange(2**18, dtype=np.int32).sum(dtype=np.int32)


@tegula.jit
def partners_from_far(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for k in range(3, -1, -1):
        v = v * 2 + tl.gather(v, i ^ (1 << k), 0)
    tl.store(out + i, v)


def test_partners_in_loops_that_count_down(dev):
    x, out, i = np.arange(64, dtype=np.int32), np.zeros(64, np.int32), np.arange(64)
    dev(partners_from_far, (1,), x, out, 64)
    for k in (3, 2, 1, 0):
        x = x * 2 + x[i ^ (1 << k)]
    assert_same(out, x)


@tegula.jit
def k_flat_end(x, y, n, other, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at, at < n, other=other)
    r = tl.min(v, AXIS) if KIND == "min" else tl.max(v, AXIS) if KIND == "max" else tl.sum(v, AXIS)
    tl.store(y + tl.arange(0, C if AXIS == 0 else R), r)


@pytest.mark.parametrize("kind", ["min", "max", "sum"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("t", ["int32", "float32", "int16"])
def test_ends_in_the_middle_of_a_row(dev, t, axis, kind):
    """Elements up to a number count, the columns of one row are results of their own: where a row of the tile is left in part, some have not seen what comes instead."""
    for r, c, n in ((2, 32, 1), (2, 64, 33), (8, 32, 40), (8, 128, 300), (4, 16, 64), (16, 8, 5), (4, 1024, 1500)):
        x = np.arange(1, r * c + 1).astype(t)
        for other in (0, -7, 20000):
            v = np.where(np.arange(r * c) < n, x, np.array(other, t)).reshape(r, c)
            expected = v.min(axis) if kind == "min" else v.max(axis) if kind == "max" else v.sum(axis, dtype=np.float64 if t == "float32" else np.int64)
            y = np.zeros(c if axis == 0 else r, np.float32 if t == "float32" else np.int32)
            dev(k_flat_end, (1, ), x, y, n, other, r, c, axis, kind)
            assert_same(y, expected.astype(y.dtype))


def test_zeros_with_a_sign_behind_the_end(dev):
    """A sum of -0 and of the 0 that masked elements are is 0, in each column."""
    x, y = np.full(64, -0.0, np.float32), np.ones(32, np.float32)
    dev(k_flat_end, (1, ), x, y, 5, 0.0, 2, 32, 0, "sum")
    assert_same(y, np.zeros(32, np.float32))
