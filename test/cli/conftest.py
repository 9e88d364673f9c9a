"""Fixtures of the command-line tests: the program with a cache of its own, and a folder with a kernel file."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEGULA = ROOT / "build/bin/tegula"

KERNELS = '''
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out + offs, tl.load(x + offs, mask=mask) + tl.load(y + offs, mask=mask), mask=mask)


@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offs, 7.0)


@triton.jit
def forever(x):
    while tl.load(x) == 0:
        pass


@triton.jit
def twice(x, n):
    tl.device_assert(n > 100, "n is small")
    tl.store(x, n)
'''


@pytest.fixture
def tegula(tmp_path):
    """tegula("run", ...) -> CompletedProcess with text output; cwd has kernels.py."""
    (tmp_path / "kernels.py").write_text(KERNELS)

    def run(*args, env=None, timeout=60, **kw):
        # VIRTUAL_ENV: where the command finds the assembler of GPU code that scripts/requirements.txt brings.
        full = {"VIRTUAL_ENV": sys.prefix, **os.environ, "TEGULA_CACHE_DIR": str(tmp_path / "cache"), **(env or {})}
        return subprocess.run([str(TEGULA), *map(str, args)], cwd=tmp_path, env=full, capture_output=True, text=True, errors="replace", timeout=timeout, **kw)

    run.dir = tmp_path
    return run
