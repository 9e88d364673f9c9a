"""Objects of Python's that kernels get for `tl.constexpr` parameters: what tells them apart, and whether they have changed."""
import collections
import dataclasses
import enum
import itertools
import operator
import types
import weakref

from . import _core
from .language import _types
from ._memory import is_memory

_new_ids = itertools.count(1)  # an object that ended leaves its number to nobody
_opaque_ids = {}  # by _Key


class _Key:
    """An object in _opaque_ids, which it leaves when it ends. One that cannot be referred to weakly is kept."""

    def __init__(self, x, ended=None):
        self.hash = hash(x)
        try:
            self.object = weakref.ref(x, ended and (lambda _: ended(self, None)))
        except TypeError:
            self.object = lambda: x

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        a, b = self.object(), other.object()
        return a is not None and (a is b or type(a) is type(b) and (a == b) is True)  # == may be done for each element


class _Settled:
    """An object whose fields hold what does not change by itself, with its value as it was made of these fields."""
    __slots__ = ("object", "fields", "value")

    def __init__(self, x, fields, value):
        if type(x).__weakrefoffset__:
            key = id(x)
            self.object = weakref.ref(x, lambda _: _settled.pop(key, None))
        else:
            self.object = lambda: x
        self.fields, self.value = fields, value


_settled = {}  # by id
_most_held = 64
_held = collections.deque()  # ids of objects that cannot be referred to weakly: dicts, objects with slots


def settled(x):
    """What `remember` was given for this object, if its fields hold the same objects still; else None."""
    known = _settled.get(id(x))
    if known is None or known.object() is not x:
        return None
    now, then = _fields_of(x), known.fields
    return known.value if len(now) == len(then) and all(map(operator.is_, now, then)) else None


def remember(x, value):
    """Keeps the value of an object as long as its fields stay as they are and it lives. Of those that cannot be referred to weakly the last few are kept."""
    fields = _fields_of(x)
    if not fields or not all(map(_is_settled, fields)):
        return value
    if not type(x).__weakrefoffset__ and id(x) not in _settled:
        _held.append(id(x))
        if len(_held) > _most_held:
            _settled.pop(_held.popleft(), None)
    _settled[id(x)] = _Settled(x, fields, value)
    return value


def _fields_of(x):
    """The names of its attributes or its keys, and the objects that they hold. Empty: they are not known."""
    own = x if type(x) is dict else getattr(x, "__dict__", None)
    if own is None and dataclasses.is_dataclass(x):
        names = type(x).__dataclass_fields__
        return (*names, *(getattr(x, n, None) for n in names))
    return (*own, *own.values()) if own else ()


def _is_settled(x):
    return x is None or type(x) in (int, float, str, bool, type) or isinstance(x, (enum.Enum, _types.dtype)) or type(x) is tuple and all(map(_is_settled, x))


def has_fields(x):
    """Is it an object of a class of a user's, whose fields say what it is?"""
    return not isinstance(x, type) and (dataclasses.is_dataclass(x) or type(x).__module__.split(".")[0] not in _NOT_USERS) and hasattr(x, "__dict__") \
        and not callable(x) and not isinstance(x, (enum.Enum, types.ModuleType, tuple, _core.Value)) and not is_memory(x)


def host_dtype(x):
    """The name of an element type of PyTorch's or NumPy's, else None. Kernels compare it, and ask finfo and iinfo about it."""
    of, of_type = getattr(x, "__module__", None), (type(x).__module__, type(x).__name__)
    if of_type == ("torch", "dtype"):
        return str(x)
    if of_type[0] == "numpy.dtypes":
        return f"numpy.{x}"
    return f"numpy.{x.__name__}" if isinstance(x, type) and of == "numpy" and hasattr(x, "dtype") else None


def is_limits(x):
    """Is it `finfo` or `iinfo` of PyTorch or NumPy? The compiler has its own."""
    return isinstance(x, type) and x.__name__ in ("finfo", "iinfo") and x.__module__ in ("torch", "numpy")


_NOT_USERS = {"builtins", "tegula", "triton", "torch", "numpy"}


def properties(x):
    """What the properties of an enumeration's class give of a member, which does not change."""
    values = {}
    for cls in type(x).__mro__:
        for n, p in vars(cls).items() if not cls.__module__ == "enum" else ():
            if type(p) is property and not n.startswith("_") and n not in values:
                try:
                    values[n] = p.fget(x)
                except Exception:  # a kernel that reads it is told that it is not there
                    pass
    return values


def number_of(x):
    """A number that tells an object from others, and is one for equal ones."""
    number = _opaque_ids.get(_Key(x))
    return _opaque_ids.setdefault(_Key(x, _opaque_ids.pop), next(_new_ids)) if number is None else number


def opaque_object(x):
    """An object that kernels cannot look into."""
    return _core.value_opaque(getattr(x, "__name__", type(x).__name__), id(x))
