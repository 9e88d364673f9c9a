"""Floats that are narrowed and stored in words: one instruction converts two."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from test_dot_choice import product


@tegula.jit
def narrowed(x, scale, out, G: tl.constexpr, GROUPS: tl.constexpr):
    at = tl.arange(0, GROUPS)[:, None] * G + tl.arange(0, G)[None, :]
    t = tl.load(x + at).to(tl.float32)
    tl.store(out + at, (t / tl.load(scale + tl.arange(0, GROUPS))[:, None]).to(out.dtype.element_ty))


@pytest.mark.parametrize("dtype, name", [(ml_dtypes.float8_e4m3fn, "e4m3x2"), (ml_dtypes.float8_e5m2, "e5m2x2"), (np.float16, "f16x2"), (ml_dtypes.bfloat16, "bf16x2")])
def test_pairs(dtype, name):
    x, scale, out = np.linspace(-600, 600, 2048, dtype=np.float32), np.ones(32, np.float32), np.zeros(2048, dtype)
    ptx = narrowed.warmup(x, scale, out, 64, 32, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    conversions = re.findall(rf"cvt\.rn\.(?:satfinite\.)?{name}\.f32\s+%\w+, ([^,]+), ([^;]+);", ptx)
    assert len(conversions) == 16 // 2  # of the elements of a thread
    assert all(high.startswith("%") and low.startswith("%") for high, low in conversions)
    if "8" in np.dtype(dtype).name:  # the pairs become words without taking bytes apart
        assert not re.search(r"prmt|bfi", ptx)


@tegula.jit
def rounded(x, y, out, N: tl.constexpr):
    """Sums and products as eager code rounds them, one after the other."""
    at = tl.arange(0, N)
    a, b = tl.load(x + at).to(tl.float32), tl.load(y + at).to(tl.float32)
    dtype: tl.constexpr = out.dtype.element_ty
    tl.store(out + at, ((a * b).to(dtype).to(tl.float32) - (a + b).to(dtype).to(tl.float32)).to(dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rounded_in_pairs(dtype):
    generator = np.random.default_rng(5)
    x, y = (generator.standard_normal(4096).astype(np.float32).astype(dtype) * dtype(8) ** generator.integers(-2, 3, 4096).astype(dtype) for _ in range(2))
    out = np.zeros(4096, dtype)
    kernel = rounded[(1,)](x, y, out, 4096, num_warps=4, device="sim")
    wide = lambda v: v.astype(np.float64)  # of which every sum and product is exact
    expected = (wide((wide(x) * wide(y)).astype(dtype)) - wide((wide(x) + wide(y)).astype(dtype))).astype(dtype)
    assert np.array_equal(out.view(np.uint16), expected.view(np.uint16))
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    assert "cvt.rn" not in ptx and len(re.findall(r"fma\.rn\.b?f16x2", ptx)) == 3 * 32 // 2  # of the elements of a thread


@tegula.jit
def scaled_rows(x, w, out, scale, R: tl.constexpr, C: tl.constexpr):
    """A row of weights for all rows of a tile, every step rounded as eager code does it."""
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    dtype: tl.constexpr = out.dtype.element_ty
    y = (tl.load(x + at).to(tl.float32) * scale).to(dtype).to(tl.float32)
    y = (y * tl.load(w + tl.arange(0, C)).to(tl.float32)[None, :]).to(dtype).to(tl.float32)
    tl.store(out + at, (y + 0.3).to(dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rounded_and_widened_in_pairs(dtype):
    rows, columns, scale = 4, 512, 1.7
    generator = np.random.default_rng(6)
    x, w = (generator.standard_normal(shape).astype(np.float32).astype(dtype) for shape in ((rows, columns), columns))
    out = np.zeros_like(x)
    kernel = scaled_rows[(1,)](x, w, out, scale, rows, columns, num_warps=4, device="sim")
    wide = lambda v: v.astype(np.float32)
    y = (wide((wide(x) * np.float32(scale)).astype(dtype)) * wide(w)).astype(dtype)
    expected = (wide(y) + np.float32(0.3)).astype(dtype)
    assert np.array_equal(out.view(np.uint16), expected.view(np.uint16))
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    pairs = rows * columns // 128 // 2  # of a thread
    name = "f16x2" if dtype == np.float16 else "bf16x2"
    conversions = re.findall(rf"cvt\.rn\.{name}\.f32\s+%\w+, ([^,]+), ([^;]+);", ptx)
    assert len(conversions) == 2 * pairs and all(high.startswith("%") and low.startswith("%") for high, low in conversions)
    assert len(re.findall(rf"fma\.rn\.{name}", ptx)) == pairs  # the weights were widened as a row
    # Two warps share a row: each loads its weights by one access, which takes no way through shared memory.
    assert "shared" not in ptx.split("{", 1)[1] and len(re.findall(r"ld\.global\.v4", ptx)) == 2 + 1


@tegula.jit
def toward_zero(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    product = tl.load(x + at).to(tl.float32) * tl.load(y + at).to(tl.float32)
    tl.store(out + at, product.to(out.dtype.element_ty, fp_downcast_rounding="rtz"))


def test_products_toward_zero_are_no_pairs():
    x = np.linspace(1, 2, 1024).astype(ml_dtypes.bfloat16)
    ptx = toward_zero.warmup(x, x, np.zeros(1024, ml_dtypes.bfloat16), 1024, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    assert "fma.rn.bf16x2" not in ptx and "cvt.rz" in ptx


@pytest.mark.parametrize("left, right", [("e4m3fn", "e4m3fn"), ("e5m2", "e5m2"), ("e4m3fn", "e5m2")])
def test_products_without_tensor_cores_for_fp8(left, right):
    """mma.sync of fp8 is two of fp16 on Hopper, whose assembler adds each pair's sum to the accumulator by instructions of its own: they are written as two. Ada has the instruction."""
    a, b = (np.random.default_rng(i).standard_normal(shape).astype(getattr(ml_dtypes, "float8_" + t)) for i, (shape, t) in enumerate((((16, 256), left), ((32, 256), right))))
    a[3, 5], b[7, 9] = 2**-9, -(2**-8)  # less than normal numbers of e4m3
    c = np.zeros((16, 32), np.float32)
    options = dict(BM=16, BN=32, BK=64, num_warps=2, device="sim")
    kernel = product.warmup(a, b, c, 256, grid=(1,), **options)
    hopper, ada = (kernel.compile_for(t).stage("ptx") for t in ("sm_90a", "sm_89"))
    assert hopper.count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16") == 2 * ada.count("mma.sync.aligned.m16n8k32") > 0
    assert "m16n8k32" not in hopper and "m16n8k16" not in ada
    product[(1,)](a, b, c, 256, **options)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c - want).max() <= 1e-6 * np.abs(want).max()
