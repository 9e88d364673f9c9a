"""§5 control flow: loops whose iterations store different elements, by steps that are known at run time only, and such whose iterations meet: the last one counts."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same

pytestmark = pytest.mark.section("5 control flow")


@tegula.jit
def grid_stride(x, out, n, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        at = start + tl.arange(0, B)
        tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@tegula.jit
def rows_of_programs(x, out, rows, cols, B: tl.constexpr):
    c = tl.arange(0, B)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        tl.store(out + row * cols + c, tl.load(x + row * cols + c, mask=c < cols) + 1, mask=c < cols)


@tegula.jit
def steps(x, out, T, D, STEP, B: tl.constexpr):
    # Where STEP is not D rows overlap: what the last one stores stays.
    d = tl.program_id(0) * B + tl.arange(0, B)
    at = d
    for t in range(T):
        tl.store(out + at, tl.load(x + t * D + d, mask=d < D), mask=d < D)
        at += STEP


@tegula.jit
def widened(out, T, D, B: tl.constexpr):
    # Reads more than it stores: what the iteration before left, of other threads.
    d = tl.arange(0, B)
    for t in range(T):
        v = tl.load(out + t * D + d, mask=d < D + 1, other=0)
        before = tl.load(out + t * D + d - 1, mask=(d == 0) & (t > 0), other=0)
        tl.store(out + t * D + d, v + before + 1, mask=d < D)


def test_grid_stride(dev):
    x = np.arange(1000, dtype=np.int32)
    out = np.zeros_like(x)
    dev(grid_stride, (3,), x, out, 1000, 64, num_warps=2)
    assert_same(out, x + 1)


@pytest.mark.parametrize("cols", [1, 37, 64])
def test_rows(dev, cols):
    x = np.arange(11 * cols, dtype=np.int32)
    out = np.zeros_like(x)
    dev(rows_of_programs, (3,), x, out, 11, cols, 64, num_warps=2)
    assert_same(out, x + 1)


@pytest.mark.parametrize("d, step", [(100, 100), (100, 1), (100, 7), (64, 63), (5, 5), (5, 0)])
def test_steps(dev, d, step):
    x = np.arange(6 * d, dtype=np.int32)
    out, want = np.zeros(6 * d + 200, np.int32), np.zeros(6 * d + 200, np.int32)
    for t in range(6):
        want[t * step:t * step + d] = x[t * d:(t + 1) * d]
    dev(steps, (1,), x, out, 6, d, step, 128, num_warps=4)
    assert_same(out, want)


def test_reads_what_the_last_iteration_stored(dev):
    out, want = np.zeros(201, np.int32), np.zeros(201, np.int32)
    for t in range(2):
        before = want[t * 100 - 1] if t else 0
        want[t * 100:(t + 1) * 100] += 1
        want[t * 100] += before
    dev(widened, (1,), out, 2, 100, 128, num_warps=4)
    assert_same(out, want)
