"""What programs written for Triton import from triton.runtime."""
from . import autotuner, cache, errors
from .autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from .cache import RedisRemoteCacheBackend
from .driver import driver
from .errors import InterpreterError, OutOfResources, PTXASError
from .jit import JITFunction, KernelInterface, MockTensor, TensorWrapper, reinterpret
