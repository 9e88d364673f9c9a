"""`acc += tl.dot(a, b)` is the code of `acc = tl.dot(a, b, acc)` (passes/AccumulateDots.h)."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def matmul(a, b, c, K, form: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + n[None, :] * K + (i + k)[:, None])
        if form == "bounded":
            acc = tl.dot(x, y, acc, max_num_imprecise_acc=BK)
        elif form == "precise":
            acc = tl.dot(x, y, acc, max_num_imprecise_acc=0)
        elif form == "inside":
            acc = tl.dot(x, y, acc)
        elif form == "added":
            acc += tl.dot(x, y)
        elif form == "first":
            acc = tl.dot(x, y) + acc
        else:
            product = tl.dot(x, y)
            acc = acc + product
    tl.store(c + m[:, None] * BN + n[None, :], acc)


def ptx(form, t, target):
    a, c = np.zeros((128, 1024), t), np.zeros((128, 128), np.float32)
    kernel = matmul.warmup(a, a, c, 1024, form, 128, 128, 64, num_warps=8, grid=(1,), device="sim")
    # Without where in the source it comes from.
    return re.sub(r"(?m)^\s*//.*\n", "", kernel.compile_for(target).stage("ptx"))


@pytest.mark.parametrize("form", ["added", "first", "named"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_spellings_are_one_code(form, target):
    assert ptx(form, ml_dtypes.bfloat16, target) == ptx("inside", ml_dtypes.bfloat16, target)


def test_fp8_is_added_outside():
    """Where the hardware keeps fewer bits of its sums."""
    assert ptx("added", ml_dtypes.float8_e5m2, "sm_90a") != ptx("inside", ml_dtypes.float8_e5m2, "sm_90a")


def test_imprecise_sums_are_bounded():
    """By max_num_imprecise_acc: those of one dot are added outside; where none are allowed the operands become fp16."""
    e4m3, half = ml_dtypes.float8_e4m3fn, np.float16
    assert ptx("bounded", e4m3, "sm_90a") == ptx("added", e4m3, "sm_90a")
    assert "e4m3.e4m3" in ptx("inside", e4m3, "sm_90a") and "e4m3.e4m3" not in ptx("precise", e4m3, "sm_90a")
    for form in ("bounded", "precise"):
        assert ptx(form, half, "sm_90a") == ptx("inside", half, "sm_90a")  # nothing is lost there
