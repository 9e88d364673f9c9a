"""`-p triton._compile_warmup`: the plugin of pytest that Triton's tests are run with. Triton compiles the kernels of marked tests in other processes first; here the
marks are known and nothing is compiled ahead."""
from ._compile_warmup_state import is_compile_warmup  # noqa: F401


def pytest_configure(config):
    for mark in ("enable_warmup(min_capability, priority)", "disable_warmup"):
        config.addinivalue_line("markers", mark + ": which tests have their kernels compiled ahead")
