"""`triton.language.semantic`: for code that imports it. Operations are checked and built in C++, so the functions here are the language's own."""
import typing

from .. import language as _tl
from ._types import tensor

TensorTy = typing.TypeVar("TensorTy")


class TritonSemantic(typing.Generic[TensorTy]):
    """The class that functions of the language get as `_semantic` in Triton; here for annotations and isinstance()."""
    tensor = tensor
    lang = _tl

    def __init__(self, builder=None):
        self.builder = builder

    def __getattr__(self, name):
        return _function(name)


def _function(name):
    value = getattr(_tl, name, None)
    if not isinstance(value, _tl._Function):
        raise AttributeError(f"triton.language.semantic has no attribute `{name}`: of it only functions of the language are here")
    return value


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _function(name)
