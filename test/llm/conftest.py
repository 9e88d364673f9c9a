"""Kernels of examples/llm/kernels by name, and the devices that they are tested on: TEGULA_TEST_DEVICES (cpu,sim; `cuda` where there is one)."""
import os
import sys
from pathlib import Path

os.environ["TEGULA_CACHE_DIR"] = ""  # what is tested is compiled here and now

import pytest
from tegula.testing import Mirror

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/llm/kernels"))
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=os.environ.get("TEGULA_TEST_DEVICES", "cpu,sim").split(","))
def dev(request):
    """Launches on a device: dev(kernel, grid, *args, **constants)."""
    def launch(kernel, grid, *args, **kw):
        kw["device"] = request.param
        if not request.param.startswith("cuda"):
            kernel[grid](*args, **kw)
            return
        with Mirror(request.param) as m:
            kernel[grid](*m.to(args), **m.to(kw))
    launch.name = request.param
    return launch
