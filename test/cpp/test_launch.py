"""Kernels in C++ run on cpu and sim; what is wrong with one is said at its line of the C++ file, with the names of its variables (twins/launch.cpp)."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from test_twins import COMPILERS, build

SOURCE = Path(__file__).parent / "twins/launch.cpp"


@pytest.fixture(scope="module", params=COMPILERS)
def program(request, tmp_path_factory):
    return build(request.param, SOURCE, tmp_path_factory.mktemp("launch"))


def line_of(text):
    return next(i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_launch(program, device):
    p = subprocess.run([program, device], capture_output=True, text=True, env={**os.environ, "TEGULA_CACHE_DIR": ""})
    out = p.stdout
    assert p.returncode == 0, out + p.stderr
    assert re.findall(r"^(\w+): right$", out, re.M) == ["vector_add", "softmax_rows", "matmul", "shared_sums", "collatz", "arg_reduce", "names"]
    assert not re.search(r"\b_+[vf]\d", out), out
    for place in ("wide + narrow", "acc = tg::zeros<float>({32})", "later + 1.0", "tg::sum(v, 0)", "tg::store(x + i * n"):
        assert re.search(rf"launch\.cpp:{line_of(place)}:\d+", out), (place, out)
    for text in ("`acc`", "`lambda_at_line_", "float32[64]", "float32[32]", "a tile is read before it has been assigned",
                 "a function that combines elements can use its parameters only, not the tiles of the kernel around it"):
        assert text in out, (text, out)
