"""Loads of single elements in a loop under masks that hold for whole tiles in most iterations (gpu/masks/WholeMasks.h): limits on and beside the borders of tiles, numbers that wrap. §3.3."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_close

pytestmark = pytest.mark.section("3.3 memory")


@tegula.jit
def every_third(x, y, first, limit, steps, B: tl.constexpr, HOW: tl.constexpr):
    """y[i] = x[3 i], or -1 where the mask is off; i counts from `first` in the mask."""
    for k in range(steps):
        at = k * B + tl.arange(0, B)
        i = first + at
        if HOW == "less":
            mask = i < limit
        elif HOW == "twice":
            mask = i * 2 <= limit
        elif HOW == "wide":
            mask = i.to(tl.int64) < limit
        elif HOW == "far":
            mask = i < 2**31 - 200
        else:
            mask = (i < limit) | (k == 1)
        tl.store(y + at, tl.load(x + at * 3, mask=mask, other=-1.0))


@pytest.mark.parametrize("how, first, limit", [("less", 0, 512), ("less", 0, 511), ("less", 0, 513), ("less", -5, 250), ("less", 2**31 - 300, 2**31 - 200), ("less", 2**31 - 1, 0), ("twice", 0, 1022), ("twice", 0, 1021),
                                               ("twice", 2**30 - 300, 100), ("wide", 2**31 - 300, 2**31 - 200), ("far", 2**31 - 712, 2**31 - 200), ("far", 2**31 - 300, 2**31 - 200), ("or", 0, 256), ("or", 0, 100)])
def test_every_third(dev, how, first, limit):
    b, steps = 256, 3
    x = np.arange(3 * b * steps, dtype=np.float32)
    y = np.zeros(b * steps, np.float32)
    dev(every_third, (1,), x, y, first, limit, steps, b, how, num_warps=1)
    wrap = lambda n: (n + 2**31) % 2**32 - 2**31
    at = np.arange(b * steps)
    i = wrap(first + at)
    keep = wrap(2 * i) <= limit if how == "twice" else i < limit
    if how == "or":
        keep = keep | (at // b == 1)
    assert_close(y, np.where(keep, x[::3], -1), 0, 0)
