"""Reductions of several rows: all of a thread's own work stands in front of the exchanges between lanes, which then run side by side."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def row_max(x, out, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    tl.store(out + r, tl.max(tl.load(x + r[:, None] * C + c[None, :]), 1))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_lanes_exchange_behind_what_threads_do_alone(target):
    x, out = np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
    ptx = row_max.warmup(x, out, 64, 64, num_warps=4, grid=(1,), device="sim").compile_for(target).stage("ptx")
    steps = re.findall(r"\b(max\.f32|shfl\.sync)", ptx)
    first = steps.index("shfl.sync")
    exchanges = steps.count("shfl.sync")
    assert exchanges > 4 and first > 4  # several rows a thread, several elements a row
    assert steps[first:].count("max.f32") == exchanges  # each combines what came from another lane
