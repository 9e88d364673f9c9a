"""Products of float32 by tensor cores: of operands that were widened as what they were, in several terms as the sums of the products of parts (WidenDots.h)."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def product(a, b, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """o += a @ b.T, both operands as float32."""
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, BK)[None, :]
    out = o + m * N + n[None, :]
    acc = tl.load(out)
    for i in range(0, K, BK):
        x = tl.load(a + m * K + i + k).to(tl.float32)
        y = tl.load(b + n[:, None] * K + i + k).to(tl.float32)
        acc += tl.dot(x, y.T, input_precision=PRECISION)
    tl.store(out, acc)


def instructions(left, right, precision, m=16, k=32):
    a, b, o = np.ones((m, 128), left), np.ones((32, 128), right), np.zeros((m, 32), np.float32)
    ptx = product.warmup(a, b, o, m, 32, 128, k, precision, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    assert "fma.rn.f32" not in ptx
    return re.findall(r"mma(?:\.sync|_async\.sync)\.aligned\.m\d+n\d+k\d+[\w.]*?f32\.(\w+)", ptx)


@pytest.mark.parametrize("dtype, name", [(np.float16, "f16"), (ml_dtypes.bfloat16, "bf16")])
@pytest.mark.parametrize("m", [16, 64])
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x6"])
def test_widened_operands(dtype, name, m, precision):
    """Half the instructions of tf32, for half of the bytes."""
    assert set(instructions(dtype, dtype, precision, m)) == {name}
    assert 2 * len(instructions(dtype, dtype, precision, m)) == len(instructions(np.float32, np.float32, "tf32", m))


def test_operands_that_stay_wide():
    assert set(instructions(np.float16, ml_dtypes.bfloat16, "tf32")) == set(instructions(np.float32, np.float16, "tf32")) == {"tf32"}
    assert set(instructions(np.float16, np.float16, "tf32", k=8)) == {"tf32"}  # an instruction takes 16 of float16


@pytest.mark.parametrize("precision, name, products", [("tf32x3", "tf32", 3), ("bf16x3", "bf16", 3), ("bf16x6", "bf16", 6)])
@pytest.mark.parametrize("m", [16, 64])
def test_terms(precision, name, products, m):
    """One that was widened from what a part holds is one part, with two or three of the other one."""
    once = len(instructions(np.float32, np.float32, "tf32", m)) // (1 if name == "tf32" else 2)
    assert instructions(np.float32, np.float32, precision, m) == [name] * (products * once)
    assert instructions(ml_dtypes.bfloat16, np.float32, precision, m) == [name] * ((2 if products == 3 else 3) * once)


@pytest.mark.parametrize("precision, tiles", [("tf32x3", 2), ("bf16x3", 2), ("bf16x6", 3)])
@pytest.mark.parametrize("m", [16, 64])
def test_parts_are_made_where_products_take_them(precision, tiles, m):
    """mma.sync: both operands come from the rings of copies as fragments, and their parts are made in registers; wgmma: A's are, and B's are stored in front of one barrier. Products of small parts follow each other without a wait."""
    a, b, o = (np.ones(shape, np.float32) for shape in [(m, 512), (32, 512), (m, 32)])
    gpu = product.warmup(a, b, o, m, 32, 512, 32, precision, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("gpu")
    loop = gpu.partition(" = for ")[2].partition("\n  }\n")[0]
    stores, products = (0, []) if m == 16 else (tiles, re.findall(r" = dot (%\S+), ", loop))
    assert loop.count("async_copy") == 2 and "convert" not in loop and loop.count("shared_store") == stores and loop.count("shared_barrier") == (2 if stores else 1)
    assert bool(re.search(r"\n    if %\S+ \{\n(?:      .*\n)*      async_copy", loop)) == (m == 64)  # not between wgmmas, behind which all wait
    assert loop.count("dot_wait") == (2 if stores else 0) and all(f"{a} = shared_slot" not in loop for a in products)


@tegula.jit
def rounded(a, b, o, K):
    m, k = tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(0, K, 64):
        acc = tl.dot(tl.load(a + m[:, None] * K + i + k[None, :]).to(tl.bfloat16), tl.load(b + (i + k)[:, None] * 64 + m[None, :]), acc)
    tl.store(o + m[:, None] * 64 + m[None, :], acc)


def test_words_that_are_rounded_for_one_product_stay_in_registers():
    """Also where nothing else is computed for it: B comes from its ring as it is."""
    a, b, o = np.ones((64, 512), np.float32), np.ones((512, 64), ml_dtypes.bfloat16), np.ones((64, 64), np.float32)
    gpu = rounded.warmup(a, b, o, 512, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("gpu")
    assert "shared_store" not in gpu.partition(" = for ")[2].partition("\n  }\n")[0] and "async_mma" in gpu


@pytest.mark.parametrize("precision, bound", [("tf32x3", 3 * 2.0**-20), ("bf16x3", 2.0**-14), ("bf16x6", 2.0**-21)])
@pytest.mark.parametrize("left", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("m, warps", [(16, 4), (64, 4), (32, 2), (128, 8)])
def test_results_of_terms(precision, bound, left, m, warps):
    """Infinities stay what they are, whatever stands beside them."""
    rng = np.random.default_rng(3)
    a, b, o = rng.standard_normal((m, 128)).astype(left), rng.standard_normal((32, 128)).astype(np.float32), rng.standard_normal((m, 32)).astype(np.float32)
    a[3, 5], a[4, 70], a[9, 9] = np.inf, -np.inf, np.nan
    wide, before = [x.astype(np.float64) for x in (a, b)], o.astype(np.float64)
    product[(1,)](a, b, o, m, 32, 128, 32, precision, num_warps=warps, device="sim")
    want = before + wide[0] @ wide[1].T
    finite = np.isfinite(want)
    assert np.array_equal(np.isnan(o), np.isnan(want)) and np.array_equal(o[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)])
    size = np.abs(before) + np.abs(np.where(np.isfinite(wide[0]), wide[0], 0)) @ np.abs(wide[1]).T
    assert (np.abs(o - want)[finite] <= ((bound + 2.0**-20) * size)[finite]).all()
