"""`@aggregate`: classes of values made of values, in kernels and on the host (docs/language.md §1.10).

In kernels the compiler builds instances from the text of `__init__` and of the methods (src/sema/Aggregate.cpp). On the host a class stays the
class it is: its instances take only what the annotations say, and cannot be changed once they are made.
"""
import functools
import inspect
import itertools
import sys
import types

from . import _binding, _core
from ._binding import BUILTIN, JIT
from ._memory import is_memory
from ._objects import opaque_object
from ._uses import same
from .language import _types

_PLAIN, _STATIC, _CLASS, _PROPERTY = range(4)
_MISSING = object()
_identities = itertools.count(1)
_LANGUAGE_TYPES = {_types.tensor: "tensor", _types.constexpr: "constexpr"}
# What else may stand in an annotation, by the name that the language has for it.
_NAMED_TYPES = {"tuple", "tensor_descriptor", "tensor_descriptor_type"}


def is_aggregate(x):
    """Is it a class that `aggregate` decorated?"""
    return isinstance(x, type) and "_tegula_fields" in x.__dict__


def _type_name(t):
    """The name of a type of the language that fields may have; None if it is none."""
    path = getattr(t, "_tegula_name", "")
    name = _LANGUAGE_TYPES.get(t) if isinstance(t, type) else path.rpartition(".")[2]
    return name if name in _NAMED_TYPES or isinstance(t, type) else None


def _resolved(annotation, cls, names):
    """What an annotation means; None for a text whose names are not there (yet)."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, {**vars(sys.modules[cls.__module__]), **names})
    except NameError:
        return None


def _check_type(cls, name, t):
    if t is cls:
        raise TypeError(f"field '{name}' of aggregate {cls.__name__} cannot be of the class itself")
    if not is_aggregate(t) and not _type_name(t):
        raise TypeError(f"field '{name}' of aggregate {cls.__name__}: {t!r} is no type of values; use tl.tensor, tl.constexpr, tl.tuple, "
                        "tl.tensor_descriptor or an aggregate")


def field_types(cls):
    """{field: type}, those of bases first. NameError for an annotation whose names are still not there."""
    for name, (annotation, owner, names) in cls._tegula_fields.items():
        if isinstance(annotation, str):
            t = _resolved(annotation, owner, names)
            if t is None:
                raise NameError(f"the annotation `{annotation}` of field '{name}' of aggregate {cls.__name__} has a name that is not defined")
            _check_type(cls, name, t)
            cls._tegula_fields[name] = t, owner, {}
    return {name: t for name, (t, _, _) in cls._tegula_fields.items()}


def _is_runtime(x):
    """Is it what a launch gives a kernel as a run-time value: a tensor of any library, a number?"""
    return isinstance(x, (_types.tensor, int, float)) or is_memory(x) or hasattr(x, "item")


def _fitting(t, name, value):
    """The value as the field holds it: plain Python objects are compile-time values, but in fields of tl.tensor. TypeError if it does not fit."""
    kind = _type_name(t)
    if kind == "constexpr":
        if isinstance(value, _types.tensor):
            fits = False
        else:
            return value if isinstance(value, _types.constexpr) else _types.constexpr(value)
    elif kind == "tuple":
        fits = isinstance(value, (tuple, list))
        if fits:
            keeps = lambda i: isinstance(i, (_types.constexpr, _types.tensor)) or is_aggregate(type(i)) or is_memory(i)
            items = [i if keeps(i) else _types.constexpr(i) for i in value]
            return value._make(items) if hasattr(value, "_fields") else tuple(items)
    elif kind in ("tensor_descriptor", "tensor_descriptor_type"):
        fits = hasattr(value, "block_shape")
    else:
        fits = isinstance(value, t) or kind == "tensor" and _is_runtime(value)
    if not fits:
        raise TypeError(f"Expected {t} for attribute '{name}', got {type(value)}")
    return value


def _set(self, name, value):
    cls = type(self)
    if "_tegula_frozen" in self.__dict__:
        raise AttributeError(f"cannot assign to field '{name}' on immutable aggregate {cls.__name__}")
    fields = field_types(cls)
    if name not in fields:
        raise AttributeError(f"{cls.__name__} has no attribute '{name}'")
    object.__setattr__(self, name, _fitting(fields[name], name, value))


def _delete(self, name):
    raise AttributeError(f"cannot delete field '{name}' of immutable aggregate {type(self).__name__}")


def _default(cls, name):
    for base in cls.__mro__:
        if name in base.__dict__.get("_tegula_defaults", ()):
            return base._tegula_defaults[name]
        if name in base.__dict__.get("_tegula_own", ()):
            return _MISSING
    return _MISSING


def _finish(self):
    """After the constructor: every field is there, and stays what it is."""
    for name in type(self)._tegula_fields:
        if name not in self.__dict__:
            value = _default(type(self), name)
            if value is _MISSING:
                raise AttributeError(f"constructor for {type(self).__name__} did not initialize attribute '{name}'")
            _set(self, name, value)
    object.__setattr__(self, "_tegula_frozen", True)


def _signature(cls):
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    for name in cls._tegula_fields:
        value = _default(cls, name)
        # A base may have given an earlier field a default; Python's signatures know no such order.
        optional = value is not _MISSING or parameters[-1].default is not inspect.Parameter.empty
        default = value if optional else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)


def _generated(cls):
    signature = _signature(cls)

    def init(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name in cls._tegula_fields:
            if bound.arguments[name] is _MISSING:
                raise TypeError(f"{cls.__name__}.__init__() missing required argument: '{name}'")
            setattr(self, name, bound.arguments[name])

    init.__signature__ = signature
    return init


def _host_init(cls, user):
    """`__init__` of the class on the host; what the user wrote runs in it as it is."""
    takes = () if user is None else inspect.signature(getattr(user, "fn", user)).parameters
    hidden = {n: None for n in ("_semantic", "_generator") if n in takes and takes[n].default is inspect.Parameter.empty}
    initialize = user or _generated(cls)

    @functools.wraps(getattr(initialize, "fn", initialize))
    def __init__(self, *args, **kwargs):
        initialize(self, *args, **{**hidden, **kwargs})
        if type(self) is cls:
            _finish(self)

    return __init__


def _repr(self):
    return f"{type(self).__name__}({', '.join(f'{n}={self.__dict__[n]!r}' for n in self._tegula_fields if n in self.__dict__)})"


def _values(self):
    return [getattr(self, name) for name in self._tegula_fields]


def _equal(self, other):
    return type(self) is type(other) and all(map(same, _values(self), _values(other))) if is_aggregate(type(other)) else NotImplemented


def _hash(self):
    return hash((type(self), *_values(self)))


def aggregate(cls):
    """Class decorator: instances hold values of the annotated fields, and kernels make them, call their methods and carry them about."""
    for base in cls.__bases__:
        if base is not object and not is_aggregate(base):
            raise TypeError(f"Aggregates can only inherit from other aggregates, and {base.__name__}, a base of {cls.__name__}, is none")
    init = cls.__dict__.get("__init__")
    if isinstance(init, _core.Function) and init.kind == JIT:
        raise ValueError(f"{cls.__name__}.__init__ cannot be a @triton.jit function")
    own = inspect.get_annotations(cls)
    fields = {}
    for base in reversed(cls.__mro__[1:-1]):
        fields.update(base._tegula_fields)
    for name, annotation in own.items():
        names = sys._getframe(1).f_locals if isinstance(annotation, str) else {}
        t = _resolved(annotation, cls, names)
        if t is not None:
            _check_type(cls, name, t)
            annotation, names = t, {}
        fields[name] = annotation, cls, dict(names)
    cls._tegula_fields, cls._tegula_own = fields, frozenset(own)
    cls._tegula_defaults = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
    cls._tegula_identity = next(_identities)
    if init is None and not own:  # a base's, where it can set all fields
        init = next((b._tegula_init for b in cls.__mro__[1:-1] if b._tegula_own_init and len(b._tegula_fields) == len(fields)), None)
    cls._tegula_own_init, cls._tegula_init = "__init__" in cls.__dict__, init
    cls._tegula_members = {name: member for name, member in cls.__dict__.items()
                           if name not in fields and not name.startswith("_tegula_") and name not in _NO_MEMBERS}
    given = {n for b in cls.__mro__[:-1] for n in b.__dict__}
    cls.__init__ = _host_init(cls, init)
    cls.__setattr__, cls.__delattr__ = _set, _delete
    if "__repr__" not in given:
        cls.__repr__ = _repr
    if "__eq__" not in given:
        cls.__eq__, cls.__hash__ = _equal, _hash
    return cls


_NO_MEMBERS = frozenset(("__module__", "__qualname__", "__doc__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dict__",
                         "__weakref__", "__firstlineno__", "__static_attributes__", "__hash__", "__slots__", "__orig_bases__", "__parameters__"))


def replace(obj, **changes):
    """A copy with other values in the fields that are named."""
    if not is_aggregate(type(obj)):
        raise TypeError(f"aggregate_replace() expects an aggregate instance, found {type(obj).__name__}")
    fields = field_types(type(obj))
    for name in changes:
        if name not in fields:
            raise TypeError(f"{type(obj).__name__} has no field '{name}'")
    return with_values(obj, [_fitting(t, name, changes[name]) if name in changes else getattr(obj, name) for name, t in fields.items()])


# ------------------------------------------------------------------------------------------------------------ what the compiler gets

def _compiled(cls, name, f):
    """The function of a method: a jit or constexpr function, or one made of an undecorated one. None if it has no text."""
    if isinstance(f, _core.Function) or not isinstance(f, types.FunctionType):
        return f if isinstance(f, _core.Function) else None
    made = cls.__dict__.get("_tegula_compiled")
    if made is None:
        made = cls._tegula_compiled = {}
    if name not in made:
        try:
            made[name] = _binding.makers[BUILTIN](f)
        except (TypeError, ValueError):
            made[name] = None
    return made[name]


_ROLES = {staticmethod: (_STATIC, "__func__"), classmethod: (_CLASS, "__func__"), property: (_PROPERTY, "fget")}


def _members(cls):
    """(name, role, function or None, the object) of the class's own members."""
    for name, member in list(cls._tegula_members.items()):
        role, inner = _ROLES.get(type(member), (_PLAIN, None))
        f = getattr(member, inner) if inner else member
        yield name, role, _compiled(cls, name, f), f


def functions_of(cls):
    """The functions of the class and its bases that kernels may call."""
    return [f for c in cls.__mro__[:-1] for _, _, f, _ in _members(c) if f is not None]


def class_value(cls, to_value):
    """The class as a compile-time object. Under _binding.lock. `to_value`: of _values.py."""
    made = cls.__dict__.get("_tegula_class")
    if made and all(f.__dict__.get("_tegula_value") is v for f, v in made[1]):
        return made[0]
    fields = field_types(cls)
    defaults = [_default(cls, name) for name in fields]
    value = _core.value_aggregate(cls.__name__, cls._tegula_identity, list(fields), [_type_value(t, to_value) for t in fields.values()],
                                  [None if d is _MISSING else to_value(d) for d in defaults], [class_value(b, to_value) for b in cls.__mro__[1:-1]])
    bound = []
    cls._tegula_class = value, bound
    try:
        for name, role, f, member in _members(cls):
            v = _member_value(f, member, to_value)
            if v is None:
                continue
            if f is not None:
                bound.append((f, v))
            _core.value_add_member(value, name, role, v)
    except BaseException:
        del cls._tegula_class
        raise
    return value


def _member_value(f, member, to_value):
    if f is not None:
        return to_value(f)
    if callable(member) and not isinstance(member, (type, _types.constexpr)):
        return opaque_object(member)
    try:
        return to_value(member)
    except (TypeError, ValueError):
        return None


def _type_value(t, to_value):
    if is_aggregate(t):
        return class_value(t, to_value)
    return _core.value_attribute(_core.value_module("triton.language"), _type_name(t))


def instance_value(x, to_value):
    """An instance whose fields are compile-time values."""
    return _core.value_record(class_value(type(x), to_value), [to_value(v) for v in _values(x)])


# ------------------------------------------------------------------------------------------------------------ arguments of launches

def _is_constant(v):
    if isinstance(v, (tuple, list)):
        return all(map(_is_constant, v))
    return all(map(_is_constant, _values(v))) if is_aggregate(type(v)) else isinstance(v, _types.constexpr)


def lifted(x, constants=False):
    """An instance as a launch takes it: a tuple of its fields, of a type that stands for the class as those of namedtuples do. One of compile-time values
    only is itself, but with `constants`."""
    return _record_type(type(x))(*_values(x)) if constants or not _is_constant(x) else x


def _record_type(cls):
    made = cls.__dict__.get("_tegula_record")
    if made is None:
        fields = {"_fields": tuple(field_types(cls)), "_tegula_aggregate": cls, "__slots__": (), "__new__": lambda record, *items: tuple.__new__(record, items),
                  "__repr__": lambda self: f"{cls.__module__}.{cls.__qualname__}#{cls._tegula_identity}{tuple.__repr__(self)}"}
        made = cls._tegula_record = type(cls.__name__, (tuple,), fields)
    return made


def with_values(x, values):
    """An instance of the class of `x` that holds `values`, as they are."""
    copy = object.__new__(type(x))
    for name, value in zip(type(x)._tegula_fields, values):
        object.__setattr__(copy, name, value)
    object.__setattr__(copy, "_tegula_frozen", True)
    return copy


def of(cls, values):
    """An instance that holds `values`, which no constructor has seen. TypeError if one does not fit its field."""
    made = object.__new__(cls)
    for (name, t), value in zip(field_types(cls).items(), values):
        object.__setattr__(made, name, _fitting(t, name, value))
    object.__setattr__(made, "_tegula_frozen", True)
    return made
