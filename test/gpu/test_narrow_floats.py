"""Floats that are narrowed and stored in words: one instruction converts two."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


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
