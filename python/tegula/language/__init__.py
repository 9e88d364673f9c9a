"""`import tegula.language as tl`: the names kernels use.

Types are real host objects; functions are names only (kernels are compiled from source, this code runs in them only where they are
interpreted, see runtime/interpreter.py). The list of functions is the compiler's own: an attribute exists here exactly if kernels can use it.
"""
import builtins as _builtins
import enum as _enum
import functools as _functools

from . import _types
from . import _tensor
from ._tensor import session as _session
from ._types import const, constexpr, constexpr_type, dtype, pointer_type, slice, str_to_ty, tensor

globals().update(_types.scalar_types())
pi32_t = pointer_type(_types.dtype("int32"))
TRITON_MAX_TENSOR_NUMEL = 1048576


class PropagateNan(_enum.Enum):
    """What minimum, maximum and clamp do with NaN."""
    NONE = 0
    ALL = 0xFFFF


class _Function:
    """A function of the language."""

    def __init__(self, module, name):
        self._tegula_name = f"{module}.{name}"
        self.__name__ = name
        self.__module__ = "triton.language"

    def __call__(self, *args, _semantic=None, **kwargs):  # libraries look for that name in the signature
        if _session() is not None:
            return _tensor.interpreter.call_language(self, args, kwargs)
        raise RuntimeError(f"tl.{self.__name__} can only be called in a kernel (a function decorated with @jit)")

    def __getattr__(self, name):
        return _lookup(self._tegula_name, name)  # it may be a module: tl.target_info

    @property
    def __signature__(self):
        """For inspect.signature: programs ask it what this version of the language has. None where only the compiler knows."""
        return _signatures().get(self.__name__)

    @property
    def signature(self):
        return self.__signature__

    def __instancecheck__(self, x):  # tl.tensor_descriptor, in functions that the interpreter calls
        return _tensor.interpreter is not None and isinstance(x, _tensor.interpreter.Handle) and repr(x).startswith(self.__name__ + "(")

    def __or__(self, other):  # annotations: tl.tensor | tl.tensor_descriptor
        import typing
        return typing.Union[self, other]

    def __ror__(self, other):
        import typing
        return typing.Union[other, self]

    def __repr__(self):
        return f"<function {self._tegula_name}>"


@_functools.cache
def _signatures():
    """{name: inspect.Signature}, of the stubs; `_semantic` is in all of them, as libraries look for it."""
    import ast
    import inspect
    import os
    with open(os.path.join(os.path.dirname(__file__), "__init__.pyi"), encoding="utf-8") as f:
        functions = [n for n in ast.parse(f.read()).body if isinstance(n, ast.FunctionDef)]
    P = inspect.Parameter

    def of(a):
        absent = [None] * (len(a.args) - len(a.defaults))
        found = [(p, P.POSITIONAL_OR_KEYWORD, d) for p, d in zip(a.args, absent + a.defaults)]
        found += [(a.vararg, P.VAR_POSITIONAL, None)] if a.vararg else []
        found += [(p, P.KEYWORD_ONLY, d) for p, d in zip(a.kwonlyargs, a.kw_defaults)]
        parameters = [P(p.arg, kind, default=P.empty if d is None else ast.literal_eval(d)) for p, kind, d in found]
        parameters.append(P("_semantic", P.KEYWORD_ONLY, default=None))
        return inspect.Signature(parameters + ([P(a.kwarg.arg, P.VAR_KEYWORD)] if a.kwarg else []))
    return {f.name: of(f.args) for f in functions}


class _BlockType(_Function):
    """tl.block_type: on the host a type that can be looked at (_types.py), and what isinstance() tells."""

    def __call__(self, element_ty, shape):
        return super().__call__(element_ty, shape) if _session() is not None else _types.block_type(element_ty, shape)

    def __instancecheck__(self, x):
        return isinstance(x, _types.block_type)


class _AggregateReplace(_Function):
    """tl.aggregate_replace, which works on the host too."""

    def __call__(self, obj, **changes):
        from .._aggregate import replace
        return replace(obj, **changes)


class _Tuple(_Function):
    """tl.tuple: on the host, tuples of Python are what it makes and what isinstance() tells."""

    def __call__(self, args=(), **kwargs):
        return super().__call__(args, **kwargs) if _session() is not None else _builtins.tuple(args)

    def __instancecheck__(self, x):
        return isinstance(x, _builtins.tuple)


tuple = _Tuple("triton.language", "tuple")
block_type = _BlockType("triton.language", "block_type")
aggregate_replace = _AggregateReplace("triton.language", "aggregate_replace")


def _lookup(module, name):
    """The host object for attribute `name` of a language module; AttributeError if the language has no such name."""
    if not name.startswith("__"):
        from .. import _core
        try:
            _core.value_attribute(_core.value_module(module), name)
        except (LookupError, ValueError, RuntimeError):
            pass
        else:
            return _Function(module, name)
    raise AttributeError(f"module '{module}' has no attribute `{name}`; this version of tegula does not provide it")


def _names_of(module):
    """The language's names in one of its modules."""
    from .. import _core
    return _core.module_names(module)


def __getattr__(name):
    if name == "__all__":
        return _names_of("triton.language")
    if name in ("math", "extra", "standard", "random", "core", "target_info"):
        import importlib
        try:
            return importlib.import_module(f"tegula.language.{name}")
        except ModuleNotFoundError:
            pass
    value = _lookup("triton.language", name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_names_of("triton.language")})
