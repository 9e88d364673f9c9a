"""What programs written for Triton import from triton.runtime."""
from . import autotuner, build, cache, errors
from .autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from .cache import RedisRemoteCacheBackend
from .driver import driver
from ._allocation import set_allocator
from ._async_compile import AsyncCompileMode, FutureKernel
from .errors import InterpreterError, OutOfResources, PTXASError
from .jit import JITFunction, KernelInterface, MockTensor, TensorWrapper, reinterpret
