"""tegula: tile kernels in the Triton language on CPUs and GPUs."""
from . import _core
from . import knobs, language
from .errors import CompilationError, DeviceError, InterpreterError, OutOfResources, PTXASError, TegulaError
from ._aggregate import aggregate
from ._hooks import interpret
from .jit import CompiledKernel, JITFunction, KernelInterface, constexpr_function, jit, must_use_result
from . import backends, compiler, runtime
from .compiler import compile
from .runtime._allocation import set_allocator
from .runtime._async_compile import AsyncCompileMode, FutureKernel
from .runtime.autotuner import Config, autotune, heuristics
from .runtime.jit import MockTensor, TensorWrapper, reinterpret

__version__ = _core.version
TritonError = TegulaError


@constexpr_function
def cdiv(x, y):
    """Ceiling division of ints; in kernels on compile-time ints (for runtime values: tl.cdiv)."""
    return (x + y - 1) // y


@constexpr_function
def next_power_of_2(n):
    """The smallest power of two >= n; 0 for n <= 0."""
    if n <= 0:
        return 0
    r = 1
    while r < n:
        r = r * 2
    return r


def devices():
    """[(name, target)] of the devices that kernels can run on."""
    return _core.devices()


def __getattr__(name):
    import importlib
    if name in ("testing", "errors", "tools", "profiler"):
        try:
            return importlib.import_module(f"tegula.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'triton' (tegula) has no attribute `{name}`; this version of tegula does not provide it")
