"""What a function read of Python's variables when it was bound, and whether they still hold it.

A variable that holds a value (a constexpr, a type, a number) must not change between compiling a kernel and launching
it: the launch raises. One that holds code (a helper, a module, a class), or held nothing, may: the kernel is compiled
anew from what it holds now.
"""
import builtins
import copy
import math
import types

from .language import _types

ABSENT = type("undefined", (), {"__repr__": lambda self: "undefined"})()
_MUTABLE = (_types.constexpr, list, dict, set, bytearray)  # beside objects whose changes do not count


def frozen(x):
    """A copy that no later change of `x` reaches; objects whose changes do not count stay themselves."""
    if isinstance(x, _types.constexpr):
        return _types.constexpr(frozen(x.value))
    if isinstance(x, (list, dict, set, bytearray)):
        try:
            return copy.deepcopy(x)
        except Exception:
            return copy.copy(x)
    if isinstance(x, tuple) and not is_immutable(x):
        items = [frozen(i) for i in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x


def is_immutable(x):
    return all(map(is_immutable, x)) if isinstance(x, tuple) else not isinstance(x, _MUTABLE)


def same(a, b):
    """Equal, and of one type at every depth: 1, True and 1.0 make different kernels."""
    if isinstance(a, _types.constexpr) and isinstance(b, _types.constexpr):
        return same(a.value, b.value)
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or a != a and b != b
    if a is b:
        return True
    try:
        return bool(a == b)
    except Exception:
        return False


class Use:
    """One variable that a function read: `place` is its dict or cell."""
    __slots__ = ("place", "name", "value", "snapshot")

    def __init__(self, place, name, value):
        self.place, self.name, self.value = place, name, value
        self.snapshot = frozen(value) if self.is_value else value

    @property
    def is_value(self):
        v = self.value
        is_code = callable(v) and not isinstance(v, (_types.constexpr, _types.dtype))
        return not (v is ABSENT or isinstance(v, (types.ModuleType, type)) or is_code)

    @property
    def key(self):
        return id(self.place), self.name

    def current(self):
        if isinstance(self.place, dict):
            return self.place.get(self.name, ABSENT)
        try:
            return self.place.cell_contents
        except ValueError:
            return ABSENT

    def refresh(self):
        """True if the variable holds what it held; an equal object in its place is taken over. RuntimeError if it held a value."""
        now = self.current()
        if now is self.value and is_immutable(now):
            return True
        if not self.is_value:
            return now is self.value
        if now is ABSENT or not same(now, self.snapshot):
            raise RuntimeError(f"Global variable {self.name} has changed since we compiled this kernel, "
                               f"from {self.snapshot} to {now}")
        self.value = now
        return True

    @property
    def row(self):
        """For Watch::make (python/src/Watch.h)."""
        holds = isinstance(self.value, _types.constexpr) and is_immutable(self.value.value)
        found = self.value is not ABSENT
        return self.place, self.name, found, self.value, holds, self.value.value if holds else None

    @property
    def needs_looking(self):
        """It can change without an assignment that Watch sees."""
        held = self.value.value if isinstance(self.value, _types.constexpr) else self.value
        return self.is_value and not is_immutable(held)


def is_builtin(name):
    return hasattr(builtins, name)
