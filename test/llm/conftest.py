"""Kernels of examples/llm/kernels by name, and the devices that they are tested on."""
import os
import sys
from pathlib import Path

os.environ["TEGULA_CACHE_DIR"] = ""  # what is tested is compiled here and now

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/llm/kernels"))
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["cpu", "sim"])
def dev(request):
    """Launches on a device: dev(kernel, grid, *args, **constants)."""
    def launch(kernel, grid, *args, **kw):
        kernel[grid](*args, device=request.param, **kw)
    launch.name = request.param
    return launch
