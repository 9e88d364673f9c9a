"""Runs under `python -m tegula -m pytest` (make test-torch)."""
import pytest


@pytest.fixture(autouse=True)
def emit_to_tegula():
    from torch._inductor import config
    with config.patch(cpu_backend="triton"):
        yield
