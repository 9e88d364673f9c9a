"""The names of Gluon's language, which may stand in annotations and default values; calling one says that it is not there. `constexpr`, `tensor` and the types of elements
are Triton's."""
import importlib.machinery as _machinery
import sys as _sys
import types as _types

from ... import language as _language
from ...language import constexpr  # noqa: F401
from .. import WHY_NO_GLUON


_SHARED = ("tensor", "tuple", "tuple_type", "pointer_type", "dtype")  # one class for both languages


class _Name:
    """A function, class or module of Gluon."""

    def __init__(self, name):
        self._name = name

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{self._name} is of Gluon. {WHY_NO_GLUON}")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return _Name(f"{self._name}.{name}")

    def __or__(self, other):  # annotations
        return self

    __ror__ = __or__

    def __repr__(self):
        return f"<{self._name}, which tegula does not have>"


class _Module(_types.ModuleType):
    """A module of one GPU, for `from triton.experimental.gluon.language.nvidia.ampere import mma_v2`."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(f"{self.__name__.partition('.experimental.')[2]}.{name}")


def _add_modules(parent, tree):
    for name, below in tree.items():
        module = _Module(f"{parent.__name__}.{name}")
        module.__path__, module.__spec__ = [], _machinery.ModuleSpec(module.__name__, None, is_package=True)
        _sys.modules[module.__name__] = module
        setattr(parent, name, module)
        _add_modules(module, below)


_COPIES = {"async_copy": {}, "mbarrier": {}}
_TMA = {**_COPIES, "tma": {}, "cluster": {}}
_add_modules(_sys.modules[__name__], {
    "nvidia": {"ampere": _COPIES, "hopper": _TMA, "blackwell": {**_TMA, "float2": {}, "clc": {}}, "rubin": _TMA},
    "amd": {"cdna3": {}, "cdna4": _COPIES, "cdna5": {**_TMA, "tdm": {}}, "gfx1250": {**_TMA, "tdm": {}}, "rdna3": {}, "rdna4": {}},
})


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(_language, name, None)
    return found if isinstance(found, _language.dtype) or name in _SHARED else _Name(f"gluon.language.{name}")
