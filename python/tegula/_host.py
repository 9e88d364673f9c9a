"""What functions that run at compile time have of Python's variables: containers with what is in them, helpers as functions, other objects as places of attributes."""
import abc
import enum
import functools
import types
import weakref

from . import _core
from ._binding import PLAIN, makers
from ._memory import is_memory

def is_place(x):
    """Is it a class or an object that has attributes, and no tensor?"""
    return isinstance(x, type) or (not callable(x) and isinstance(getattr(x, "__dict__", None), dict) and not is_memory(x))


CLASS, CLASSES = "class of the host", "classes of the host"  # attributes of places that isinstance reads; no program can name them by `.`


def class_value(x, attribute):
    """What isinstance asks of a place. CLASS: of a class its name, and whether its instances may be numbers, strings or containers, which kernels have
    without their class; None of what only Python can decide. CLASSES: of an object the names of all its classes."""
    if attribute == CLASSES:
        return None if isinstance(x, type) else class_names(type(x))
    if not isinstance(x, type) or isinstance(x, abc.ABCMeta):
        return None
    plain = issubclass(x, (int, float, str, tuple, list, dict, set, frozenset)) and not isinstance(x, enum.EnumMeta)  # members are known as such
    return _core.value_tuple([_core.value_str(_class_name(x)), _core.value_bool(plain)])


def class_names(cls):
    if cls not in _class_names:
        _class_names[cls] = _core.value_tuple([_core.value_str(_class_name(c)) for c in cls.__mro__])
    return _class_names[cls]


_class_names = weakref.WeakKeyDictionary()


def _class_name(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def plain_function(x):
    """A function of Python as those that run at compile time call it; `x` itself if it is none or has no text of its own."""
    f = x.__wrapped__ if isinstance(x, functools._lru_cache_wrapper) else x
    if not isinstance(f, types.FunctionType) or "_tegula_name" in f.__dict__ or "__wrapped__" in f.__dict__ or f.__name__ == "<lambda>":
        return x
    if "_tegula_plain" not in f.__dict__:
        try:
            f.__dict__["_tegula_plain"] = makers[PLAIN](f)
        except (OSError, TypeError, ValueError):
            return x
    return f.__dict__["_tegula_plain"]
