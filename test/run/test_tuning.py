"""Autotuning on each device: memory is as the caller left it, and a configuration that computes something else is not used; where results are large a GPU
compares them itself (src/api/CompareThere.h)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import Config

pytestmark = [pytest.mark.section("4.7"), pytest.mark.filterwarnings("ignore:.*is not used")]


def accumulate(x, out, n, BLOCK: tl.constexpr, FIRST: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(out + i, mask=i < n) + tl.load(x + i, mask=i < n)
    # Wrong in one element of all.
    tl.store(out + i, tl.where(i == n - 1, y + FIRST, y), mask=i < n)


CONFIGS = [Config({"BLOCK": b, "FIRST": f}, num_ctas=None) for b, f in ((256, 0), (512, 1), (1024, 0), (2048, 0))]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("n", [1000, 5_000_001])  # the latter: beyond what is copied to the host
def test_wrong_configurations(dev, dtype, n):
    if dev.name == "interpreter":
        pytest.skip("nothing is compared")
    if n > 1_000_000 and not (dev.name.startswith("cuda") or (dev.name == "cpu" and dtype == "float32")):
        pytest.skip("as with few elements, for longer")
    tuned = tegula.autotune(CONFIGS, key=["n"])(tegula.jit(accumulate))
    rng = np.random.default_rng(1)
    x = rng.integers(-8, 8, n).astype(dtype)
    out = np.full(n, 3, dtype)
    dev(tuned, lambda m: (tegula.cdiv(n, m["BLOCK"]),), x, out, n)
    np.testing.assert_array_equal(out, x + 3)
    (failed,) = tuned.failures
    assert failed is CONFIGS[1] and "leaves other values in `out`" in str(tuned.failures[failed])
