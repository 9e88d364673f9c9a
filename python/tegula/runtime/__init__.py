"""What programs written for Triton import from triton.runtime."""
from . import autotuner, cache, errors
from .autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from .cache import RedisRemoteCacheBackend, RemoteCacheBackend
from .driver import driver
from ._allocation import set_allocator
from ._async_compile import AsyncCompileMode, FutureKernel
from .errors import InterpreterError, OutOfResources, PTXASError
from .jit import JITFunction, KernelInterface, MockTensor, TensorWrapper, reinterpret


def __getattr__(name):
    if name in ("build", "interpreter"):
        import importlib
        try:
            return importlib.import_module(f"tegula.runtime.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'triton.runtime' has no attribute `{name}`")
