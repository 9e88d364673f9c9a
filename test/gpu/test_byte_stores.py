"""Stores of bytes, how many ever a thread has: in registers until they are stored, none by way of local memory."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def quantized(x, q, kept, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(q + at, tl.minimum(tl.maximum(v * 16, -128.0), 127.0).to(tl.int8))
    tl.store(kept + at, v > 0)


@pytest.mark.parametrize("each", [1, 2, 4, 8, 16])
def test_bytes(each):
    n = 128 * each
    x = np.linspace(-9, 9, n, dtype=np.float32)
    q, kept = np.zeros(n, np.int8), np.zeros(n, bool)
    kernel = quantized[(1,)](x, q, kept, n, num_warps=4, device="sim")
    assert np.array_equal(q, np.clip(x * 16, -128, 127).astype(np.int8)) and np.array_equal(kept, x > 0)
    ptx = kernel.compile_for("sm_90a").stage("ptx")
    assert "local" not in ptx
    widest = {1: r"\.b8|\.u8", 2: r"\.b16|\.u16"}.get(each, r"[bu]32")
    assert len(re.findall(rf"st\.global\S*(?:{widest})", ptx)) == 2
