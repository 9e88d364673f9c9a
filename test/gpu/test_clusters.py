"""CTAs of a cluster send each other partial results: rows that are reduced meet no barrier of the cluster but the one at the beginning, in front of which they are loaded."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def layer_norm(x, w, out, mean, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=0.0)
    m = tl.sum(v, 0) / n
    centred = tl.where(at < n, v - m, 0.0)
    tl.store(mean + row, m)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    tl.store(out + row * n + at, centred * scale * tl.load(w + at, at < n), at < n)


@tegula.jit
def cross_entropy(x, labels, loss, lse, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, other=-float("inf"))
    top = tl.max(v, 0)
    log_sum = tl.log(tl.sum(tl.exp(v - top), 0)) + top
    tl.store(lse + row, log_sum)
    label = tl.load(labels + row)
    if label >= 0:
        tl.store(loss + row, log_sum - tl.load(x + row * n + label) - tl.sum(tl.where(at < n, v, 0.0), 0) / n)


def ptx_of(kernel, *args, **options):
    return kernel.warmup(*args, grid=(1,), device="sim", **options).compile_for("sm_90a").stage("ptx")


@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize("kernel", [layer_norm, cross_entropy])
def test_parts_are_sent(kernel, ctas):
    x, row = np.zeros((4, 4096), np.float32), np.zeros(4096, np.float32)
    args = (x, row, x.copy(), row.copy(), 4096, 4096) if kernel is layer_norm else (x, row.astype(np.int32), row.copy(), row.copy(), 4096, 4096)
    steps = re.findall(r"\b(barrier\.cluster\.[a-z.]+|st\.async|ld\.global\S*v4|mbarrier\.(?:init|try_wait)|fence\.acq_rel|membar)", ptx_of(kernel, *args, num_ctas=ctas, num_warps=2))
    sums = 2 if kernel is layer_norm else 3
    assert steps.count("st.async") == steps.count("mbarrier.try_wait") == steps.count("mbarrier.init") == sums
    assert [s for s in steps if s.startswith("barrier")] == ["barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.wait.aligned"]
    assert not {"fence.acq_rel", "membar"} & set(steps)
    between = steps[steps.index("barrier.cluster.arrive.relaxed.aligned"):steps.index("barrier.cluster.wait.aligned")]
    assert any(s.startswith("ld.global") for s in between)  # the row is on its way while the others begin


@tegula.jit
def rows_in_a_loop(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(n):
        v = tl.load(x + i * BLOCK + at)
        tl.store(out + i * BLOCK + at, v / tl.sum(v, 0))


def test_not_in_loops():
    x = np.zeros((4, 4096), np.float32)
    assert "st.async" not in ptx_of(rows_in_a_loop, x, x.copy(), 4, 4096, num_ctas=2)
