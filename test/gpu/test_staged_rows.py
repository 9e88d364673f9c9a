"""Long rows of 16-bit elements stay in shared memory, where each thread reads again what it copied (gpu/parts/StageRows.h)."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, e / tl.sum(e, 0), at < n)


@tegula.jit
def rms_norm(x, w, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(v * v, 0) / n + 1e-5)
    tl.store(out + row * n + at, v * scale * tl.load(w + at, at < n), at < n)


@tegula.jit
def two_exponentials(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.exp(tl.load(x + row * n + at, at < n, other=0.0).to(tl.float32))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, e / tl.sum(e, 0), at < n)


def compiled(kernel, *args, target="sm_90a", **options):
    return kernel.warmup(*args, grid=(1,), device="sim", **options).compile_for(target)


def rows(columns, dtype=np.float16, block=None):
    x = np.random.default_rng(columns).normal(size=(2, columns)).astype(dtype)
    return x, np.zeros_like(x), columns, block or 1 << (columns - 1).bit_length()


@pytest.mark.parametrize("columns, warps, ctas", [(32768, 8, 1), (32768, 16, 1), (65536, 16, 2), (131072, 16, 4), (262144, 16, 8)])
def test_softmax(columns, warps, ctas):
    k = compiled(softmax, *rows(columns), num_warps=warps)
    assert k.metadata.num_ctas == ctas
    assert 2 * columns // ctas <= k.metadata.shared <= 2 * columns // ctas + 4096
    text = k.asm["ptx"]
    assert text.count("cp.async.cg.shared.global") == columns // ctas // (32 * warps) // 8
    assert not re.search(r"ld\.global\S*v4", text)
    # Nobody reads what others copied: the barriers are those of two reductions across warps.
    assert len(re.findall(r"bar\.sync|barrier\.sync", text)) <= 4


@tegula.jit
def cross_entropy(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + row * n + at, mask, other=-float("inf")).to(tl.float32)
    top = tl.max(v, 0)
    total = tl.sum(tl.exp(v - top), 0)
    tl.store(out + row, tl.log(total) + top - tl.sum(tl.where(mask, v, 0.0), 0) / n)


@pytest.mark.parametrize("columns, warps, ctas", [(32752, 16, 1), (131056, 16, 4)])
def test_words(columns, warps, ctas):
    """A mask chooses words of two elements where they end with a whole vector, maxima are those of pairs, and what is only added up flushes, also behind the exchange of a cluster."""
    x, _, n, block = rows(columns, ml_dtypes.bfloat16)
    out = np.zeros(2, np.float32)
    k = compiled(cross_entropy, x, out, n, block, num_warps=warps)
    assert k.metadata.num_ctas == ctas
    text, elements = k.asm["ptx"], block // ctas // (32 * warps)
    assert text.count("max.bf16x2") >= elements // 2 - 1
    assert text.count("selp.b32") <= elements + 16 and text.count("selp") < 2 * elements
    assert len(re.findall(r"ex2\.approx\.ftz\.f32", text)) == elements and "ex2.approx.f32" not in text
    cross_entropy[(2,)](x, out, n, block, num_warps=warps, device="sim")
    v = x.astype(np.float64)
    top = v.max(1)
    assert np.allclose(out, np.log(np.exp(v - top[:, None]).sum(1)) + top - v.mean(1), rtol=1e-5)


@pytest.mark.parametrize("why, kernel, args", [
    ("rows of 32 bits take as much there", softmax, rows(32768, np.float32)),
    ("registers have room for short rows", softmax, rows(4096)),
    ("an instruction copies 4 bytes at least", softmax, rows(32767)),
    ("exponentials take as long as memory", two_exponentials, rows(32768)),
])
def test_rows_in_registers(why, kernel, args):
    assert "cp.async" not in compiled(kernel, *args, num_warps=16).asm["ptx"], why


def test_forms_that_are_asked_for():
    """One CTA where clusters are forbidden; num_ctas is as it was."""
    args = rows(65536)
    alone = compiled(softmax, *args, num_warps=16, clusters=False)
    assert alone.metadata.num_ctas == 1 and "cp.async" in alone.asm["ptx"]
    assert "cp.async" not in compiled(softmax, *args, num_warps=16, num_ctas=4).asm["ptx"]


@pytest.mark.parametrize("columns", [32768, 25600, 65536])
@pytest.mark.parametrize("warps", [8, 16])
def test_values(columns, warps):
    x, out, n, block = rows(columns)
    softmax[(2,)](x, out, n, block, num_warps=warps, device="sim")
    wide = x.astype(np.float64)
    want = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=2e-3, atol=1e-7)
    w = np.random.default_rng(1).normal(size=columns).astype(np.float16)
    k = rms_norm[(2,)](x, w, out, n, block, num_warps=warps, device="sim")
    assert k.metadata.shared > 16384
    np.testing.assert_allclose(out, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w, rtol=2e-3, atol=2e-3)


def test_in_place():
    x, _, n, block = rows(32768)
    wide = x.astype(np.float64)
    softmax[(2,)](x, x, n, block, num_warps=8, device="sim")
    want = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(x, want / want.sum(1, keepdims=True), rtol=2e-3, atol=1e-7)
