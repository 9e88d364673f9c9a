"""The decorators: `@jit`, `@constexpr_function`, `@must_use_result`; and what the extension module is told when the package is imported."""
import atexit
import os
import sys

from . import _core, _hooks, errors, knobs
from ._arguments import argument_of
from ._arrays import dtype_number, dtype_numbers
from ._function import BuiltinFunction, ConstexprFunction, InterpretedFunction, JITCallable, JITFunction
from ._interface import KernelInterface
from ._kernel import CompiledKernel
from ._memory import memory_of
from ._values import constant_of
from .language import _types

_JIT_OPTIONS = ("version", "repr", "launch_metadata", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline", "exact")


def jit(fn=None, **options):
    """Decorator of kernels and of the helpers they call; options as in docs/language.md §4.2. While knobs.runtime.interpret is on
    ($TRITON_INTERPRET, $TEGULA_INTERPRET) it gives functions that the interpreter runs. `autotune="auto"`: as `@autotune(space="auto")`."""
    cls = InterpretedFunction if knobs.runtime.interpret else JITFunction
    tuned = options.pop("autotune", None)
    unknown = next((name for name in options if name not in _JIT_OPTIONS), None)
    if unknown is not None:
        raise TypeError(f"jit() has no option `{unknown}`; there are {', '.join((*_JIT_OPTIONS, 'autotune'))}. Options of launches (num_warps ...) belong to the launch, or to a Config of autotune")
    make = lambda f: cls(f, **options)
    if tuned is not None:
        from .runtime.autotuner import proposing
        make = lambda f: proposing(tuned)(cls(f, **options))
    return make if fn is None else make(fn)


def constexpr_function(fn):
    """Ordinary Python that kernels may call on compile-time values; host code may call it too."""
    return ConstexprFunction(fn)


def must_use_result(hint=None):
    """Marks a helper whose result a kernel must not drop. `@must_use_result` or `@must_use_result("why")`, above or below @jit."""
    def mark(f, text):
        return JITFunction(getattr(f, "fn", f), must_use=text)
    if callable(hint):
        return mark(hint, "")
    return lambda f: mark(f, hint or "")


# --------------------------------------------------------------------------------------------------- set-up of the extension module

def _print(stream, text):
    print(text, end="", flush=True)


def _install():
    try:
        import numpy
        array = numpy.ndarray
    except ImportError:  # numpy is a convenience, not a need
        array = None
    _core.set_exceptions(errors.CompilationError, errors.DeviceError, errors.OutOfResources, errors.PTXASError)
    _core.set_converters(constant_of, argument_of, dtype_numbers, dtype_number, array)
    _core.set_memory_finder(memory_of)
    _core.set_kernel_class(CompiledKernel)
    _core.set_explainer(errors.explain)
    _core.set_constexpr_class(_types.constexpr)
    _hooks.install()
    atexit.register(_core.begin_exit)
    _core.set_output(_print)
    for folder in sys.path:  # where pip puts NVIDIA's libraries
        if os.path.isdir(os.path.join(folder, "nvidia")):
            _core.add_packages(folder)


_install()
