"""Random programs against numpy: TEGULA_TEST_PROGRAMS (2000) of them, from TEGULA_TEST_SEED. A failure prints the
program and the seed."""
import importlib.util
import os

import numpy as np
import pytest
from harness import SEED
from progen import HEADER, SLOT, Program, inputs, kernel_text

pytestmark = pytest.mark.section("2-3 random programs")

PROGRAMS = int(os.environ.get("TEGULA_TEST_PROGRAMS", "2000"))
PER_KERNEL = 20
KERNELS = -(-PROGRAMS // PER_KERNEL)


def module_of(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(dev, path, programs, x, y, seed):
    """Runs one kernel of these programs; returns the failing ones with the first difference."""
    module = module_of(
        path,
        "\n\n".join([HEADER.format(seed=seed)] + [p.text() for p in programs] + [kernel_text("kernel", programs)]))
    out = np.full(SLOT * len(programs), -12345, np.int64)
    dev(module.kernel, (1,), x.reshape(-1), y.reshape(-1), out, enable_fp_fusion=False)
    failed = []
    for slot, p in enumerate(programs):
        e = p.expected()
        got = out[slot * SLOT:slot * SLOT + e.size]
        if not np.array_equal(got, e):
            at = int(np.flatnonzero(got != e)[0])
            failed.append(
                (p,
                 f"element {at} of {e.size}: got {got[at]:#x}, expected {e[at]:#x} ({int((got != e).sum())} differ)"))
        if (out[slot * SLOT + e.size:(slot + 1) * SLOT] != -12345).any():
            failed.append((p, "wrote outside its result"))
    return failed


@pytest.mark.parametrize("k", range(KERNELS))
def test_programs(dev, tmp_path, k):
    g = np.random.default_rng([SEED, k])
    x, y = inputs(g)
    programs = [Program(g, f"p{i}").build(x, y, int(g.integers(5, 14))) for i in range(PER_KERNEL)]
    try:
        failed = check(dev, tmp_path / f"programs_{k}.py", programs, x, y, SEED)
    except Exception as whole:
        # Which program is it? Compile each alone.
        for p in programs:
            try:
                check(dev, tmp_path / f"{p.name}_{k}.py", [p], x, y, SEED)
            except Exception as alone:
                pytest.fail(f"TEGULA_TEST_SEED={SEED}, kernel {k}:\n{p.text()}\n{type(alone).__name__}: {alone}",
                            pytrace=False)
        raise whole
    if failed:
        p, text = failed[0]
        pytest.fail(
            f"TEGULA_TEST_SEED={SEED}, kernel {k}, {len(failed)} of {len(programs)} programs differ; the first:\n"
            f"{p.text()}\n{text}",
            pytrace=False)
