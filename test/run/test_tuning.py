"""Autotuning on each device: memory is as the caller left it, and a configuration that computes something else is not used; where results are large a GPU
compares them itself (src/api/CompareThere.h)."""
import os
import subprocess
import sys
from pathlib import Path

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


def in_place(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2 + tl.load(y + i, mask=i < n), mask=i < n)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "error:.*CUDA graphs")
@pytest.mark.parametrize("n", [1000, 300_000])
def test_in_cuda_graphs(dev, n):
    """Rows of launches, each on what the caller passed; where there are no graphs the device's own clock."""
    if n > 100_000 and not dev.name.startswith(("cpu", "cuda")):
        pytest.skip("as with few elements, for longer")
    tuned = tegula.autotune([Config({"BLOCK": b}, num_ctas=None) for b in (128, 1024)], key=["n"], use_cuda_graph=True)(tegula.jit(in_place))
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    dev(tuned, lambda m: (tegula.cdiv(n, m["BLOCK"]),), x, y, n)
    np.testing.assert_array_equal(x, np.arange(n, dtype=np.float32) * 2 + 1)
    if dev.name != "interpreter":
        assert all(0 < t[0] < 1000 for t in tuned.configs_timings.values())


# The choice, and whether it was known, of a process of its own.
PROCESS = """
import sys
sys.path.insert(0, sys.argv[2])
import numpy as np
import tegula
import tegula.language as tl
from conftest import Device

known = []
tegula.knobs.autotuning.listener = lambda cache_hit, **_: known.append(cache_hit)

@tegula.autotune([tegula.Config({"BLOCK": b}, num_warps=w) for b in (64, 256, 1024) for w in (1, 4)], key=["n"])
@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

x = np.ones(100_000, np.float32)
Device(sys.argv[1])(twice, lambda m: (tegula.cdiv(100_000, m["BLOCK"]),), x, 100_000)
assert (x == 2).all()
print(known[0], twice.best_config, sep=": ")
"""


@pytest.fixture
def processes(dev, tmp_path):
    """f(folder, count, **environment): what so many processes that tune at once say, and the bytes of their file of results."""
    if not dev.name.startswith("cuda"):
        pytest.skip("python/tests/test_autotune.py has the same for the CPU; the others keep no times")

    def run(folder, count=1, **env):
        (tmp_path / "twice.py").write_text(PROCESS)
        env = {**os.environ, "TEGULA_TUNE_DIR": str(tmp_path / folder), "PYTHONPATH": str(Path(tegula.__file__).parent.parent), **env}
        started = [subprocess.Popen([sys.executable, "twice.py", dev.name, str(Path(__file__).parent)], cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for _ in range(count)]
        said = []
        for p in started:
            out, err = p.communicate(timeout=300)
            assert p.returncode == 0, err
            said.append(tuple(out.strip().split(": ", 1)))
        (file,) = (tmp_path / folder).rglob("*.json")
        return said, file.read_bytes()
    return run


def test_deterministic_choices_are_the_same_bytes(processes):
    (first,), one = processes("one", TEGULA_TUNE="deterministic")
    (second,), other = processes("other", TEGULA_TUNE="deterministic")
    assert first[0] == "False" and second == first and one == other
    (again,), same = processes("one", TEGULA_TUNE="deterministic")
    assert again == ("True", first[1]) and same == one


def test_processes_that_tune_at_once_measure_once(processes):
    said, _ = processes("all", 8)
    assert [known for known, _ in said].count("False") == 1 and len({choice for _, choice in said}) == 1
