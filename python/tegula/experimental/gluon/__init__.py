"""Gluon: a language of its own, written in the layouts and instructions of one GPU, which tegula does not compile.

It can be imported, since libraries define kernels of both languages in one module and choose between them by the machine. Kernels and names of Gluon say
what they are where they are used (docs/differences.md).
"""
import inspect

from ... import constexpr_function
from ..._aggregate import aggregate
from ..._specialize import KernelParam
from .. import WHY_NO_GLUON
from . import language
from . import amd, nvidia

__all__ = ["GluonJITFunction", "aggregate", "amd", "constexpr_function", "jit", "language", "nvidia"]


class GluonJITFunction:
    """A kernel that cannot be launched: the error names it and its line. What decorators read of a kernel (`autotune`, `heuristics`, libraries' own) is there."""

    def __init__(self, fn):
        if fn.__code__.co_flags & inspect.CO_VARKEYWORDS:
            raise TypeError("JIT functions do not support **kwargs parameters")
        self.fn = fn
        self.__name__, self.__qualname__, self.__module__, self.__doc__ = fn.__name__, fn.__qualname__, fn.__module__, fn.__doc__
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        self.params = [KernelParam(i, p) for i, p in enumerate(self.signature.parameters.values())]
        self.constexprs = [p.num for p in self.params if p.is_constexpr]

    is_gluon = staticmethod(lambda: True)

    def _refuse(self, *args, **kwargs):
        code = self.fn.__code__
        raise NotImplementedError(f"{code.co_filename}:{code.co_firstlineno}: `{self.__name__}` is a kernel of Gluon. {WHY_NO_GLUON}")

    run = warmup = __call__ = _refuse

    def __getitem__(self, grid):
        return self._refuse

    def __repr__(self):
        return f"GluonJITFunction({self.__module__}:{self.__name__})"


def jit(fn=None, **options):
    """As triton.jit is written: with or without options, which have no effect."""
    return jit if fn is None else GluonJITFunction(fn)
