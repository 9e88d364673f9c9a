"""CompiledKernel.estimate: the cost model from Python, for devices that are there and for those that are not."""
import re

import numpy as np
import pytest

import tegula
import tegula.language as tl


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def compiled(n, block=1024):
    x, y, out = (np.zeros(n, np.float32) for _ in range(3))
    return add.warmup(x, y, out, n, BLOCK=block, grid=(1,)), (x, y, out, n, block)


def test_estimate_grows_with_the_work():
    kernel, small = compiled(1 << 14)
    _, large = compiled(1 << 20)
    few = kernel.estimate((16,), *small)
    many = kernel.estimate((1024,), *large)
    assert 0 < few.ns < many.ns / 8
    assert "bounded by" in few.why.splitlines()[0]
    assert f"programs = {16}" in few.why


def test_more_threads_are_not_slower():
    kernel, args = compiled(1 << 20)
    assert kernel.estimate((1024,), *args, num_threads=2).ns < kernel.estimate((1024,), *args, num_threads=1).ns


def test_estimate_is_the_same_each_time():
    kernel, args = compiled(1 << 16)
    assert kernel.estimate((64,), *args) == kernel.estimate((64,), *args)


def test_estimate_for_a_gpu_that_is_not_there():
    kernel, args = compiled(1 << 24)
    gpu = kernel.compile_for("sm_90a")
    estimate = gpu.estimate((1 << 14,), *args)
    # 200 MB by a memory of 3.4 TB/s, not less and not much more.
    assert 3 * (1 << 26) / 3352 < estimate.ns < 2 * 3 * (1 << 26) / 3352
    assert "memory" in estimate.why.splitlines()[0]


def test_the_cache_keeps_what_was_counted(tmp_path):
    import pickle
    kernel, args = compiled(1 << 16)
    again = pickle.loads(pickle.dumps(kernel))
    assert again.estimate((64,), *args) == kernel.estimate((64,), *args)


def test_wrong_arguments_are_errors():
    kernel, args = compiled(1 << 12)
    with pytest.raises(ValueError, match="grid"):
        kernel.estimate((-1,), *args)
    with pytest.raises(ValueError, match="argument `x` must be a pointer"):
        kernel.estimate((1,), 1, *args[1:])


@tegula.jit
def softmax(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + at, e / tl.sum(e, axis=0))


def test_rows_that_a_warp_cannot_hold_are_read_again():
    def loaded(warps):
        kernel = softmax.compile_signature("x:*fp32:16, out:*fp32:16, BLOCK:8192", {}, "sm_90a", {"num_warps": warps})
        x = np.zeros((64, 8192), np.float32)
        why = kernel.estimate((64,), x, x, 8192).why
        return {k: float(v) for k, v in re.findall(r"^(\w+) = (\S+)", why, re.M)}
    whole, parts = loaded(8), loaded(1)
    assert whole["loadBytes"] == 4 * 8192 and "againBytes" not in whole
    assert parts["loadBytes"] == 3 * whole["loadBytes"] and parts["againBytes"] == 2 * parts["keptBytes"] == 2 * whole["loadBytes"]
