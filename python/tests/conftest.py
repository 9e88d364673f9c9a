import os

os.environ["TEGULA_CACHE_DIR"] = ""  # what is tested is compiled here and now

import pytest
from tegula import backends
from tegula.runtime import driver


@pytest.fixture(autouse=True)
def cpu_is_active():
    """The tests bring arrays of numpy: what they compile for no device in particular is for the CPU, on machines with a GPU too."""
    driver.set_active(backends.backends["cpu"].driver())
    yield
    driver.reset_active()
