"""Descriptors that each program makes for its head and batch are copied by TMA, through one map for all programs (passes/LiftBases.h)."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def scores(q, k, out, sb, sh, srow, ob, H, n, D: tl.constexpr, B: tl.constexpr, FORM: tl.constexpr):
    i = tl.program_id(0)
    batch, head = i // H, i % H
    if FORM == "number unknown":
        head = tl.load(out + i).to(tl.int32)
    if FORM == "may be negative":
        batch -= 1
    a = tl.make_tensor_descriptor(q + batch * sb + head * sh, [n, D], [srow, 1], [B, D])
    b = tl.make_tensor_descriptor(k + (batch.to(tl.int64) * sb + head * sh), [n, D], [srow, 1], [B, D])
    c = tl.make_tensor_descriptor(out + i * ob, [B, B], [B, 1], [B, B])
    acc = tl.zeros((B, B), tl.float32)
    for r in range(0, n, B):
        acc = tl.dot(a.load([r, 0]), b.load([r, 0]).T, acc)
    c.store([0, 0], acc)


def ptx(form, between=0):
    """`between`: elements between the end of a head and the next one."""
    x, out = np.zeros((2, 3, 256, 64), np.float16), np.zeros((6, 64, 64), np.float32)
    head = 256 * 64 + between
    kernel = scores.warmup(x, x, out, 3 * head, head, 64, 64 * 64, 3, 256, D=64, B=64, FORM=form, grid=(6,), device="sim", num_warps=4)
    return kernel.compile_for("sm_90a").stage("ptx")


def copies(text):
    return set(re.findall(r"cp\.async\.bulk\.tensor\.(\dd)\.(\w+)", text))


def test_a_head_and_a_batch_are_dimensions():
    text = ptx("")
    assert copies(text) == {("4d", "shared"), ("3d", "global")}
    assert not re.search(r"cp\.async\.c[ag]|ld\.global|st\.global", text)


@pytest.mark.parametrize("form, between", [("number unknown", 0), ("may be negative", 0), ("", 4)])
def test_what_no_map_can_say_goes_by_pointers(form, between):
    """The last one: heads that need not start at multiples of 16 bytes, for all that a launch says of their stride."""
    text = ptx(form, between)
    assert ("4d", "shared") not in copies(text) and "cp.async.c" in text


@tegula.jit
def add_up(x, out, sb, srow, n, D: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0)
    o = tl.make_tensor_descriptor(out + tl.program_id(1) * sb, [n, D], [srow, 1], [B, D])
    tile = tl.load(x + (i * B + tl.arange(0, B))[:, None] * D + tl.arange(0, D)[None, :])
    o.atomic_add([i * B, 0], tl.dot(tile, tile.T))


def test_sums_are_reductions_of_the_copy_engine():
    x, out = np.zeros((128, 64), np.float16), np.zeros((2, 128, 64), np.float32)
    text = add_up.warmup(x, out, 128 * 64, 64, 128, 64, 64, grid=(2, 2), device="sim", num_warps=4).compile_for("sm_90a").stage("ptx")
    assert "cp.reduce.async.bulk.tensor.3d" in text and not re.search(r"\bred\.", text)
