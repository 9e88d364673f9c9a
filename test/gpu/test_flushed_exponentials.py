"""Exponentials that may be zero instead of subnormal (src/gpu/FlushExponentials.h): only where nobody can tell, so not where a sum lacks the element that is the maximum."""
import numpy as np
import pytest

import tegula
import tegula.language as tl


@tegula.jit
def running_maximum(x, n, B: tl.constexpr):
    top = -float("inf")
    for at in range(0, n, B):
        top = tl.maximum(top, tl.max(tl.load(x + at + tl.arange(0, B)), 0))
    return top


@tegula.jit
def sum_of_all(x, out, n, B: tl.constexpr):
    top = running_maximum(x, n, B)
    total = 0.0
    for at in range(0, n, B):
        total += tl.sum(tl.exp(tl.load(x + at + tl.arange(0, B)) - top), 0)
    tl.store(out, tl.log(total))


@tegula.jit
def narrowed(x, out, n, B: tl.constexpr):
    top = running_maximum(x, n, B)
    for at in range(0, n, B):
        tl.store(out + at + tl.arange(0, B), tl.exp(tl.load(x + at + tl.arange(0, B)) - top).to(tl.float16))


@tegula.jit
def of_one_row(x, out, n, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.log(tl.sum(tl.exp(v - tl.max(v, 0)), 0)))


@tegula.jit
def of_each_block(x, out, n, B: tl.constexpr):
    top = running_maximum(x, n, B)
    for at in range(0, n, B):
        tl.store(out + at // B, tl.log(tl.sum(tl.exp(tl.load(x + at + tl.arange(0, B)) - top), 0)))


@tegula.jit
def of_each_lane(x, out, n, B: tl.constexpr):
    top = running_maximum(x, n, B)
    total = tl.zeros([B], tl.float32)
    for at in range(0, n, B):
        total += tl.exp(tl.load(x + at + tl.arange(0, B)) - top)
    tl.store(out + tl.arange(0, B), tl.log(total))


@tegula.jit
def above_the_last_block(x, out, n, B: tl.constexpr):
    top = 0.0
    for at in range(0, n, B):
        top = tl.max(tl.load(x + at + tl.arange(0, B)), 0)
    total = 0.0
    for at in range(0, n, B):
        total += tl.sum(tl.exp(tl.load(x + at + tl.arange(0, B)) - top), 0)
    tl.store(out, tl.log(total))


@tegula.jit
def stored_before(x, out, n, B: tl.constexpr):
    top = running_maximum(x, n, B)
    total = 0.0
    for at in range(0, n, B):
        p = x + at + tl.arange(0, B)
        tl.store(p, tl.full([B], -95.0, tl.float32), at + tl.arange(0, B) < n)
        total += tl.sum(tl.exp(tl.load(p) - top), 0)
    tl.store(out, tl.log(total))


@tegula.jit
def above_a_floor(x, out, n, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.log(tl.sum(tl.exp(v - tl.maximum(tl.max(v, 0), 0.0)), 0)))


@tegula.jit
def of_each_column(x, out, n, B: tl.constexpr):
    c = tl.arange(0, 32)
    v = tl.load(x + c[:, None] * 32 + c[None, :])
    tl.store(out + c, tl.log(tl.sum(tl.exp(v - tl.max(tl.max(v, 1), 0)), 0)))


@tegula.jit
def of_all_but_one(x, out, n, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.log(tl.sum(tl.where(tl.arange(0, B) != 3, tl.exp(v - tl.max(v, 0)), 0.0), 0)))


@tegula.jit
def of_a_part(x, out, n, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.log(tl.sum(tl.exp(tl.where(tl.arange(0, B) < n, v - tl.max(v, 0), -float("inf"))), 0)))


@tegula.jit
def weighted(x, out, n, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.log(tl.sum(tl.exp(v - tl.max(v, 0)) * tl.load(out + tl.arange(0, B)), 0)))


@tegula.jit
def above_what_was_loaded(x, out, n, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.log(tl.sum(tl.exp(v - tl.maximum(tl.max(v, 0), tl.load(out))), 0)))


@tegula.jit
def of_what_is_there(x, out, n, B: tl.constexpr):
    """Masks of the sum that hold for whatever the maximum was found among."""
    there, kept = tl.arange(0, B) < n, tl.arange(0, B) != 3
    v = tl.where(kept, tl.load(x + tl.arange(0, B), there, other=-float("inf")) * 0.5, -float("inf"))
    p = tl.where(kept & there, tl.exp(v - tl.max(v, 0)), 0.0)
    tl.store(out, tl.log(tl.sum(p * 2.0, 0)))


@pytest.mark.parametrize("kernel, is_flushed", [(sum_of_all, True), (narrowed, True), (of_one_row, True), (of_each_block, False), (of_each_lane, False), (above_the_last_block, False),
                                                (stored_before, False), (above_a_floor, False), (of_each_column, False), (of_all_but_one, False), (of_a_part, False), (weighted, False),
                                                (above_what_was_loaded, False), (of_what_is_there, True)])
def test_who_sees_subnormal_terms(kernel, is_flushed):
    x, out = np.zeros(4096, np.float32), np.zeros(4096, np.float16 if kernel is narrowed else np.float32)
    text = kernel.warmup(x, out, 4096, 512, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    assert ("ex2.approx.ftz.f32" in text, "ex2.approx.f32" in text) == (is_flushed, not is_flushed)
