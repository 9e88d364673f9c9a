"""The host side of the C++ API (host/): devices, buffers, streams, typed kernels, calls between C++ and .py files, structs of tiles, tuning. And every function of the language in C++ (every/)."""
import os
import subprocess
from pathlib import Path

import pytest
from test_twins import COMPILERS, build

HERE = Path(__file__).parent


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source,arguments", [("host/host.cpp", []), ("host/calls.cpp", [HERE / "host/helpers.py"]), ("host/structs.cpp", []), ("host/tuning.cpp", []), ("every/every.cpp", [])],
                         ids=["host", "calls", "structs", "tuning", "every"])
def test_program(compiler, source, arguments, tmp_path):
    run(build(compiler, HERE / source, tmp_path), arguments, tmp_path)


def run(program, arguments, folder):
    p = subprocess.run([program, *arguments], capture_output=True, text=True, env={**os.environ, "TEGULA_CACHE_DIR": "", "TEGULA_TUNE_DIR": str(folder), "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"})
    assert p.returncode == 0, p.stdout + p.stderr
    assert "right" in p.stdout, p.stdout


@pytest.mark.parametrize("source,arguments,sanitizer", [("structs.cpp", [], "address,undefined"), ("calls.cpp", [HERE / "host/helpers.py"], "address,undefined"), ("host.cpp", [], "thread"), ("tuning.cpp", [], "thread")])
def test_under_sanitizers(source, arguments, sanitizer, tmp_path):
    """The headers, and what programs do with them: the library itself is tested under sanitizers by the unit tests."""
    run(build(COMPILERS[-1], HERE / "host" / source, tmp_path, "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"), arguments, tmp_path)
