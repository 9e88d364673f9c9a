"""Launches as libraries with launchers of their own write them: compiled kernels without their compile-time values, grids with more than three extents."""
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def scale(x, y, n, s: tl.constexpr, B: tl.constexpr, m):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * s + m, mask=o < n)


@pytest.mark.parametrize("m", (1, 16, 7))  # numbers that are specialized, and one that is not
def test_compile_time_values_may_be_left_out(m):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel = scale[(1,)](x, y, 60, 3, 64, m)
    for args in ((x, y, 60, 3, 64, m), (x, y, 60, m)):
        y[:] = 0
        kernel[(1, 1, 1)](*args)
        assert (y[:60] == x[:60] * 3 + m).all() and (y[60:] == 0).all()


def test_further_extents_of_one():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    scale[(1, 1, 1, 1)](x, y, 64, 3, 64, 1)
    assert (y == x * 3 + 1).all()
    with pytest.raises(ValueError, match="1 to 3 extents, found 4"):
        scale[(1, 1, 1, 2)](x, y, 64, 3, 64, 1)
