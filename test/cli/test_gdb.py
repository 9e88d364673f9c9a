"""A scripted gdb session: breaks on a kernel's line in the .py file and prints a scalar."""
import os
import shutil
import subprocess

import pytest

from conftest import TEGULA

KERNEL = """import triton
import triton.language as tl


@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    start = pid * BLOCK
    offs = start + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n)
    tl.store(x + offs, v * factor, mask=offs < n)
"""


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_break_on_a_kernel_line_and_print_a_scalar(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    p = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set breakpoint pending on", "-ex", "break k.py:10", "-ex", "run", "-ex",
                        "bt 1", "-ex", "info source", "-ex", "print n", "-ex", "print start", "--args", str(TEGULA), "run", "k.py::scale", "--grid", "3", "-a", "x=ones:f32[100]",
                        "-a", "n=100", "-a", "factor=2.0", "-c", "BLOCK=64", "-g", "--threads", "1"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                       env=dict(os.environ, TEGULA_CACHE_DIR=""), stdin=subprocess.DEVNULL)
    out = p.stdout + p.stderr
    assert "k.py:10" in out, out
    assert "$1 = 100" in out, out
    # Instructions of line 10 that were moved into the loop over programs can make gdb stop one program later.
    assert any(f"$2 = {v}\n" in out for v in (0, 64, 128)), out
