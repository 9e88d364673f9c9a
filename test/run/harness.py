"""What the cases share: a table of data types, inputs, ways to compare, and kernels that apply a function to blocks.

A case is a row (language function, arguments, shapes, dtypes, numpy function). The kernels below load the inputs of a
row, call its function, check the result's dtype and shape while compiling, and store it. Nothing here knows which
device runs it: cases get a `dev` (conftest.py) and call `dev(kernel, grid, *args)`, with numpy arrays that are written
in place. """
import os
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl

# For cases in which an int32 wraps around on its way to an address or a mask: launches that compute those in 64 bits keep what is meant.
WRAPS = pytest.mark.skipif(os.environ.get("TEGULA_TEST_WIDE") == "1", reason="widened, such a sum does not wrap")

CompileError = tegula.CompilationError


@dataclass(frozen=True)
class D:
    """A data type: the language's name, its object, numpy's type, kind (b, i, u, f) and width."""
    name: str
    np: object
    kind: str
    bits: int
    mantissa: int = 0

    @property
    def tl(self):
        return getattr(tl, self.name)

    def __str__(self):
        return self.name

    @property
    def is_int(self):
        return self.kind in "biu"

    @property
    def is_fp8(self):
        return self.kind == "f" and self.bits == 8


ALL = [
    D("int1", np.bool_, "b", 1),
    D("int8", np.int8, "i", 8),
    D("int16", np.int16, "i", 16),
    D("int32", np.int32, "i", 32),
    D("int64", np.int64, "i", 64),
    D("uint8", np.uint8, "u", 8),
    D("uint16", np.uint16, "u", 16),
    D("uint32", np.uint32, "u", 32),
    D("uint64", np.uint64, "u", 64),
    D("float8e5", ml_dtypes.float8_e5m2, "f", 8, 2),
    D("float8e4nv", ml_dtypes.float8_e4m3fn, "f", 8, 3),
    D("float8e4b8", ml_dtypes.float8_e4m3fnuz, "f", 8, 3),
    D("float8e5b16", ml_dtypes.float8_e5m2fnuz, "f", 8, 2),
    D("float16", np.float16, "f", 16, 10),
    D("bfloat16", ml_dtypes.bfloat16, "f", 16, 7),
    D("float32", np.float32, "f", 32, 23),
    D("float64", np.float64, "f", 64, 52),
]
BY_NAME = {d.name: d for d in ALL}
INTS = [d for d in ALL if d.kind in "iu"]
FLOATS = [d for d in ALL if d.kind == "f" and not d.is_fp8]
FP8 = [d for d in ALL if d.is_fp8]
NO_FP8 = [d for d in ALL if not d.is_fp8]


def d(name):
    return BY_NAME[name]


def rng(*key):
    """A generator whose stream depends on the row alone, so that a case gives the same data when run by itself."""
    text = repr(key).encode()
    return np.random.default_rng(int.from_bytes(text[-64:], "little"))


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.0, 1e-3, 65504.0, -65504.0, 448.0, 57344.0, 1e-8, 6e-8, np.inf, -np.inf,
    np.nan
]


def values(dt, n, key=(), special=False, low=None, high=None):
    """n values of dtype `dt`. Floats are normal numbers around 1 unless `special`; ints cover the width unless
    low/high."""
    g = rng(dt.name, n, key)
    if dt.kind == "b":
        return g.integers(0, 2, n).astype(np.bool_)
    if dt.is_int:
        info = np.iinfo(dt.np)
        lo, hi = (info.min if low is None else low), (info.max if high is None else high)
        v = g.integers(lo, hi, n, dtype=dt.np, endpoint=True)
        if low is None and high is None and n >= 8:
            v[:6] = np.array([0, 1, info.max, info.min, info.max - 1, 7], dtype=dt.np)
        return v
    v = g.standard_normal(n) * 4 if low is None else g.uniform(low, high, n)
    if special:
        v[:len(SPECIAL)] = SPECIAL[:n]
        v[len(SPECIAL):] *= 10.0**g.integers(-9, 9, max(n - len(SPECIAL), 0))
    with np.errstate(all="ignore"):
        return v.astype(np.float32).astype(dt.np) if dt.bits <= 16 else v.astype(dt.np)


def bits(a):
    a = np.ascontiguousarray(a)
    return a.view(np.uint8) if a.dtype == np.bool_ else a.view(f"u{a.dtype.itemsize}")


def is_nan(a):
    return np.isnan(a.astype(np.float64)) if a.dtype.kind not in "biu" else np.zeros(a.shape, bool)


def assert_same(actual, expected, where=None):
    """Equal bit for bit; any NaN equals any NaN."""
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{actual.dtype} against {expected.dtype}"
    expected = np.broadcast_to(expected, actual.shape)
    bad = (bits(actual) != bits(expected)) & ~(is_nan(actual) & is_nan(expected))
    if where is not None:
        bad &= where
    if bad.any():
        at = np.unravel_index(int(np.flatnonzero(bad.ravel())[0]), actual.shape)
        raise AssertionError(f"{int(bad.sum())} of {bad.size} differ; first at {tuple(map(int, at))}: "
                             f"got {actual[at]!r}, expected {expected[at]!r}")


def assert_ulp(actual, exact, ulps):
    """`exact` is of higher precision; the error is at most `ulps` (a number, or one for each element) units in the last place of the actual
    dtype."""
    exact = np.asarray(exact, np.float64 if actual.dtype != np.float64 else np.longdouble)
    with np.errstate(all="ignore"):
        rounded = exact.astype(actual.dtype)
        finite = np.isfinite(rounded.astype(np.float64))
        a64 = actual.astype(exact.dtype)
        assert np.array_equal(np.isnan(a64), np.isnan(exact)), "NaN in different places"
        assert np.array_equal(a64[~finite & ~np.isnan(exact)],
                              rounded.astype(exact.dtype)[~finite & ~np.isnan(exact)]), "infinities differ"
        info = ml_dtypes.finfo(actual.dtype)
        unit = np.maximum(2.0**(np.floor(np.log2(np.maximum(np.abs(exact), 1e-320))) - info.nmant),
                          float(info.smallest_subnormal))
        error = np.where(finite, np.abs(a64 - exact) / unit, 0)
    worst = int(np.argmax(error - ulps))
    assert (error <= ulps).all(), (f"{float(error.ravel()[worst]):.2f} ulp at {worst}: got {actual.ravel()[worst]!r}, "
                             f"exact {float(exact.ravel()[worst])!r}")


def assert_close(actual, expected, rtol, atol=0.0):
    np.testing.assert_allclose(np.asarray(actual, np.float64), np.asarray(expected, np.float64), rtol=rtol, atol=atol)


# Kernels for rows. SHAPE () is a scalar.


@tegula.jit
def numel(shape: tl.constexpr):
    return 1 if len(shape) == 0 else shape[0] * numel(shape[1:])


@tegula.jit
def load_nd(p, shape: tl.constexpr):
    if len(shape) == 0:
        return tl.load(p)
    else:
        return tl.reshape(tl.load(p + tl.arange(0, numel(shape))), shape)


@tegula.jit
def store_nd(p, value, shape: tl.constexpr):
    if len(shape) == 0:
        tl.static_assert(len(value.shape) == 0, "a scalar was expected")
        tl.store(p, value)
    else:
        tl.static_assert(value.shape == shape, "the result has another shape than expected")
        tl.store(p + tl.arange(0, numel(shape)), tl.reshape(value, [numel(shape)]))


@tegula.jit
def apply1(x, out, FN: tl.constexpr, ARGS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, DTYPE: tl.constexpr):
    r = FN(load_nd(x, IN), *ARGS)
    tl.static_assert(r.dtype == DTYPE, "the result has another dtype than expected")
    store_nd(out, r, OUT)


@tegula.jit
def apply2(x, y, out, FN: tl.constexpr, ARGS: tl.constexpr, IN: tl.constexpr, IN2: tl.constexpr, OUT: tl.constexpr,
           DTYPE: tl.constexpr):
    r = FN(load_nd(x, IN), load_nd(y, IN2), *ARGS)
    tl.static_assert(r.dtype == DTYPE, "the result has another dtype than expected")
    store_nd(out, r, OUT)


@tegula.jit
def apply3(x, y, z, out, FN: tl.constexpr, ARGS: tl.constexpr, IN: tl.constexpr, IN2: tl.constexpr, IN3: tl.constexpr,
           OUT: tl.constexpr, DTYPE: tl.constexpr):
    r = FN(load_nd(x, IN), load_nd(y, IN2), load_nd(z, IN3), *ARGS)
    tl.static_assert(r.dtype == DTYPE, "the result has another dtype than expected")
    store_nd(out, r, OUT)


@tegula.jit
def apply1_pair(x, out, out2, FN: tl.constexpr, ARGS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr):
    a, b = FN(load_nd(x, IN), *ARGS)
    store_nd(out, a, OUT)
    store_nd(out2, b, OUT)


APPLY = {1: apply1, 2: apply2, 3: apply3}


def tl_dtype(np_dtype):
    for dt in ALL:
        if np.dtype(dt.np) == np.dtype(np_dtype):
            return dt.tl
    raise KeyError(np_dtype)


def apply(dev, fn, inputs, out_shape, out_dtype, args=(), dtype=None):
    """Runs FN on whole blocks; `dtype` is what the result must have where it differs from the array's."""
    inputs = [np.asarray(x) for x in inputs]
    out = np.zeros(max(int(np.prod(out_shape, dtype=np.int64)), 1), out_dtype)
    shapes = [tuple(int(n) for n in x.shape) for x in inputs]
    flat = [np.ascontiguousarray(x).reshape(-1) for x in inputs]
    dev(APPLY[len(inputs)], (1,), *flat, out, fn, tuple(args), *shapes, tuple(out_shape), dtype or tl_dtype(out_dtype))
    return out.reshape(out_shape)


def run(dev, kernel, *args, n=8, dtype=np.int32, grid=(1,), **kw):
    """Runs `kernel` on an output of n zeros, its first argument; returns it as a list."""
    out = np.zeros(n, dtype)
    dev(kernel, grid, out, *args, **kw)
    return out.tolist()


SEED = int(os.environ.get("TEGULA_TEST_SEED", "20240517"))
