"""The names of Gluon's language, which may stand in annotations and default values; calling one says that it is not there. `constexpr` and the types of elements are Triton's."""
from ... import language as _language
from ...language import constexpr  # noqa: F401
from .. import WHY_NO_GLUON


class _Name:
    """A function, class or module of Gluon."""

    def __init__(self, name):
        self._name = name

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{self._name} is of Gluon. {WHY_NO_GLUON}")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(f"{self._name}.{name}")

    def __or__(self, other):  # annotations
        return self

    __ror__ = __or__

    def __repr__(self):
        return f"<{self._name}, which tegula does not have>"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(_language, name, None)
    return found if isinstance(found, _language.dtype) else _Name(f"gluon.language.{name}")
