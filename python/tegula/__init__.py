"""tegula: tile kernels in the Triton language on CPUs and GPUs."""
from . import _core
from . import knobs, language
from .errors import CompilationError, DeviceError, InterpreterError, OutOfResources, PTXASError, TegulaError
from ._aggregate import aggregate
from ._interface import KernelInterface
from ._kernel import CompiledKernel
from ._options import interpret
from .jit import JITFunction, constexpr_function, jit, must_use_result

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


# What most programs do not touch is loaded when it is asked for: name -> module, itself or what it holds.
_LATER = {
    **{name: f"tegula.{name}" for name in ("_C", "_utils", "backends", "compiler", "runtime", "testing", "tools", "profiler")},
    "compile": "tegula.compiler",
    **dict.fromkeys(("aot", "load_bundle", "no_jit", "record"), "tegula._bundle"),
    "set_allocator": "tegula.runtime._allocation",
    **dict.fromkeys(("AsyncCompileMode", "FutureKernel"), "tegula.runtime._async_compile"),
    **dict.fromkeys(("Config", "autotune", "heuristics", "powers"), "tegula.runtime.autotuner"),
    **dict.fromkeys(("MockTensor", "TensorWrapper", "reinterpret"), "tegula.runtime.jit"),
}


def __getattr__(name):
    import importlib
    where = _LATER.get(name)
    if where is None:
        raise AttributeError(f"module 'triton' (tegula) has no attribute `{name}`; this version of tegula does not provide it")
    module = importlib.import_module(where)
    found = module if where == f"tegula.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__():
    return sorted({*globals(), *_LATER})
