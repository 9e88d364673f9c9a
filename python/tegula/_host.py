"""What functions that run at compile time have of Python's variables: containers with what is in them, helpers as functions, other objects as places of attributes."""
import abc
import enum
import functools
import types
import weakref

from . import _core

_deepest = 32


def host_value(x, reader, depth=0):
    """What code that runs at compile time has of a variable: containers with what is in them, other objects as places of attributes."""
    from .jit import _module_value, _opaque_object, to_value
    if depth > _deepest:
        raise ValueError(f"containers are nested more than {_deepest} deep")
    inner = lambda items: [host_value(i, reader, depth + 1) for i in items]
    if isinstance(x, dict):
        return _core.value_dict(inner(x), inner(x.values()))
    if isinstance(x, (set, frozenset)):
        return _core.value_set(inner(x))
    if type(x) in (list, tuple):
        return _core.value_tuple(inner(x))
    x = plain_function(x)
    try:
        return _module_value(x, reader) if isinstance(x, types.ModuleType) else to_value(x)
    except TypeError:
        return _module_value(x, reader) if is_place(x) else _opaque_object(x)


def is_place(x):
    """Is it a class or an object that has attributes, and no tensor?"""
    from .jit import _is_memory as is_memory
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
            from .jit import PLAIN, ConstexprFunction
            f.__dict__["_tegula_plain"] = ConstexprFunction(f, kind=PLAIN)
        except (OSError, TypeError, ValueError):
            return x
    return f.__dict__["_tegula_plain"]
