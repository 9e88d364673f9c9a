"""Python objects as compile-time values: what a kernel has of globals, of modules and of arguments for `tl.constexpr` parameters.

The compiler never sees Python's objects: it gets values that these functions make, and asks for the attributes of modules one by one.
"""
import dataclasses
import enum
import math
import types
import weakref

from . import _aggregate, _binding, _core, knobs
from ._binding import CONSTEXPR, JIT
from ._host import CLASS, CLASSES, class_names, class_value, is_place, plain_function
from ._memory import is_memory
from ._objects import has_fields, host_dtype, is_limits, number_of, opaque_object, properties, remember, settled
from ._source import is_module, is_namedtuple_class
from ._uses import ABSENT
from .language import _types

_PACKAGES, _LANGUAGE = ("tegula", "triton"), ("tegula.language", "triton.language")


def _constexpr_object(x):
    """What `tl.constexpr(...)` holds; a plain function in it is one that kernels may call on compile-time values."""
    f = x.value
    if not isinstance(f, types.FunctionType):
        return f
    if "_tegula_function" not in f.__dict__:
        f.__dict__["_tegula_function"] = _binding.makers[CONSTEXPR](f)
    return f.__dict__["_tegula_function"]


_deepest = 32  # as for tuples of runtime values


def to_value(x, depth=0, known=None):
    """A compile-time value for `x`, or TypeError. In the interpreter also what a kernel has of values. `known`: tuples that were converted on the
    way, by id; a tuple may hold another one many times."""
    if isinstance(x, _core.Value):
        return x
    if isinstance(x, _core.Function) and not _binding.lock._is_owned():
        x.ensure_prepared()  # an argument: what it reads must be as it was, as with the kernel's own
    v = x.__dict__.get("_tegula_value") if isinstance(x, (_core.Function, _types.dtype)) else None
    if v is not None:
        return v
    if isinstance(x, _types.constexpr):
        held = _constexpr_object(x)
        if isinstance(held, dict) or has_fields(held):
            return object_value(held)
        try:
            return to_value(held, depth, known)
        except TypeError:
            return constant_of(held)
    if name := host_dtype(x):
        return _opaque(x, name)
    if is_limits(x):
        return _core.value_opaque("python.numpy." + x.__name__, 0)
    if x is None:
        return _core.value_none()
    if isinstance(x, bool):
        return _core.value_bool(x)
    if isinstance(x, enum.Enum):
        return enum_value(x)
    if isinstance(x, int):
        return _core.value_int(int(x))
    if isinstance(x, float):
        return _core.value_float(float(x))
    if isinstance(x, str):
        return _core.value_str(str.__str__(x))
    if isinstance(x, _types.dtype):
        return _remember(x, _core.value_dtype(x.name))
    if isinstance(x, _core.Function):
        x._bind()
        return _remember(x, _core.value_function(x))
    if is_namedtuple_class(x):
        cls = getattr(x, "_tegula_aggregate", None)
        return _aggregate_value(cls, depth, known) if cls else _namedtuple_class(x)
    if _aggregate.is_aggregate(x) or _aggregate.is_aggregate(type(x)):
        return _aggregate_value(x, depth, known)
    if isinstance(x, (tuple, list)):
        if depth == _deepest:
            raise ValueError(f"tuples are nested more than {_deepest} deep")
        known = {} if known is None else known
        if id(x) not in known:
            items = [to_value(i, depth + 1, known) for i in x]
            value = _core.value_record(_namedtuple_class(type(x)), items) if is_namedtuple_class(type(x)) else _core.value_tuple(items)
            known[id(x)] = x, value
        return known[id(x)][1]
    if is_module(x):
        return module_value(x, None)
    path = getattr(x, "_tegula_name", None)  # a function of the language
    if path:
        module, _, name = path.rpartition(".")
        return _core.value_attribute(_core.value_module(module), name)
    if getattr(x, "__module__", None) == "math":
        return _core.value_attribute(_core.value_module("math"), x.__name__)
    if isinstance(x, type) and (x.__module__ or "").startswith(_LANGUAGE) and getattr(_types, x.__name__, None) is x:  # tl.constexpr, tl.tensor, ...
        return _core.value_attribute(_core.value_module("triton.language"), x.__name__)
    item = getattr(x, "item", None)  # numpy and torch scalars
    if callable(item) and getattr(x, "shape", None) == ():
        return to_value(item())
    raise TypeError(f"failed to specialize argument of type: {type(x).__name__}")


def _opaque(x, name, bare=False, depth=0):
    """`bare`: as an attribute of a module is, not in a constexpr. Members of enumerations, which do not change, keep their value."""
    kept = x.__dict__ if isinstance(x, enum.Enum) else {}
    which = "_tegula_bare" if bare else "_tegula_value"
    if which not in kept:
        kept[which] = _new_opaque(x, name, bare, depth)
    return kept[which]


def _new_opaque(x, name, bare, depth):
    return _core.value_opaque(name, number_of(x), _attributes_of(x, depth), bare)


def _enum_number(x, value, bare=False):
    """`value`, the int or string that the member `x` of an enumeration is, with its name and attributes. It is told from others by what can be read of it."""
    which = "_tegula_bare" if bare else "_tegula_value"
    if which not in x.__dict__:
        texts = {"repr of the host": repr(x), "str of the host": str(x), "format of the host": format(x)}
        fields = {**_attributes_of(x), **{k: _core.value_str(v) for k, v in texts.items()}}
        x.__dict__[which] = _core.value_member(value, _core.value_opaque(f"{type(x).__name__}.{x.name}", 0, fields, bare))
    return x.__dict__[which]


def _attributes_of(x, depth=0):
    """The fields of an object that are compile-time values, as kernels read them."""
    if isinstance(x, enum.Enum):
        own = {n: v for n, v in x.__dict__.items() if not n.startswith("_")}
        fields = {**own, **properties(x), "name": x.name, "value": x.value}
    elif dataclasses.is_dataclass(x):
        fields = {f.name: getattr(x, f.name, None) for f in dataclasses.fields(x)}
    else:
        fields = {n: v for n, v in getattr(x, "__dict__", {}).items() if not n.startswith("_")}
    values = {CLASSES: class_names(type(x))}
    for name, v in fields.items():
        try:
            values[name] = object_value(v, depth + 1)
        except (TypeError, ValueError):  # a kernel that reads it is told that it is not there
            pass
    return values


def object_value(x, depth=0):
    """A dict, an object with fields, or what else is a compile-time value, without functions."""
    if depth > _deepest or isinstance(x, _core.Function):
        raise TypeError(f"failed to specialize argument of type: {type(x).__name__}")
    if isinstance(x, dict):
        return _core.value_dict([object_value(k, depth + 1) for k in x], [object_value(v, depth + 1) for v in x.values()])
    if type(x) in (tuple, list):
        return _core.value_tuple([object_value(i, depth + 1) for i in x])
    if isinstance(x, enum.Enum):
        return enum_value(x, True, depth)
    if has_fields(x):
        return _opaque(x, f"{type(x).__name__} object", depth > 0, depth)
    return to_value(x)


def enum_value(x, bare=False, depth=0):
    """A member of an enumeration. Those of IntEnum and the like are numbers and strings that have a name."""
    if isinstance(x, int):
        return _enum_number(x, _core.value_int(int(x)), bare)
    if isinstance(x, str):
        return _enum_number(x, _core.value_str(str.__str__(x)), bare)
    return _opaque(x, f"{type(x).__name__}.{x.name}", bare, depth)


def _aggregate_value(x, depth, known):
    """A class of aggregates, or an instance."""
    if not _binding.lock._is_owned():
        for f in functions_in(x):
            f.ensure_prepared()  # as for functions
    with _binding.lock:
        return _aggregate.class_value(x, to_value) if isinstance(x, type) else _aggregate.instance_value(x, lambda v: to_value(v, depth + 1, known))


def _remember(x, value):
    x.__dict__["_tegula_value"] = value
    return value


def constant_of(x):
    """An argument of a `tl.constexpr` parameter. Objects that kernels cannot look into are only compared there, and equal ones have one kernel."""
    known = settled(x)
    if known is not None:
        return known
    try:
        return to_value(x)
    except TypeError:
        while isinstance(x, _types.constexpr):
            x = x.value
        if isinstance(x, dict):
            return remember(x, object_value(x))
        if isinstance(x, (tuple, list, _core.Function)) or is_namedtuple_class(x) or _aggregate.is_aggregate(x) or _aggregate.is_aggregate(type(x)) or is_memory(x):
            raise  # what is wrong with it is known
        try:
            return remember(x, _opaque(x, f"{type(x).__name__} object"))
        except TypeError:  # it cannot be hashed
            pass
        raise


namedtuple_classes = weakref.WeakKeyDictionary()


def _namedtuple_class(cls):
    value = namedtuple_classes.get(cls)
    if value is None:
        defaults = [to_value(cls._field_defaults[f]) for f in cls._fields if f in cls._field_defaults]
        value = namedtuple_classes[cls] = _core.value_class(cls.__name__, list(cls._fields), defaults)
    return value


def module_value(module, reader):
    """A module, or a class or object in one. `reader`: the function that reads it, None if that is not known."""
    name = getattr(module, "__name__", type(module).__name__)
    if is_module(module) and (name == "math" or name in _PACKAGES or name.startswith(_LANGUAGE)):
        return _core.value_module("triton" + name[6:] if name.split(".")[0] == "tegula" else name)

    # The compiler holds what `resolve` holds, and functions in the module hold the compiler's: Python's collector cannot see that way around.
    # So the reader keeps the module.
    reader_of, key = (weakref.ref(reader), id(module)) if reader else (lambda: None, None)
    module_of = (lambda: getattr(reader_of(), "_modules", {}).get(key)) if reader else (lambda: module)
    if reader:
        reader._modules[key] = module

    def resolve(attribute):
        with _binding.lock:
            reader, module = reader_of(), module_of()
            if attribute in (CLASS, CLASSES):
                return class_value(module, attribute)
            found = getattr(module, attribute, ABSENT)
            if reader:
                reader._read(module, attribute, found)
            return None if found is ABSENT else _attribute_value(found, reader)
    return _core.value_dynamic_module(name, resolve)


def _attribute_value(x, reader):
    """Of an attribute of a module, which may be anything that kernels know what to do with; None: they do not. What is not allowed of globals concerns their
    names alone. Classes and other objects are places of attributes, as modules are."""
    if isinstance(x, enum.Enum):
        return enum_value(x, bare=True)
    value, allowed = global_value(x, reader)
    if allowed or isinstance(x, (bool, int, float, str, tuple, list, enum.Enum)) or x is None or host_dtype(x):
        return value
    if reader and reader.kind != JIT and isinstance(x, (dict, set, frozenset)):
        return value
    return module_value(x, reader) if is_place(x) else None


def global_value(x, reader):
    """(value, allowed): which captured globals a kernel may read, docs/language.md §1.7."""
    allowed = (is_module(x) or is_namedtuple_class(x) or _aggregate.is_aggregate(x) or isinstance(x, (_core.Function, _types.dtype, _types.constexpr))
               or hasattr(x, "_tegula_name") or isinstance(x, type(math.sqrt)) or is_limits(x)
               or (getattr(x, "__module__", None) or "").startswith(_LANGUAGE) if not isinstance(x, (int, float, str)) else False)
    if not allowed and knobs.allow_non_constexpr_globals():
        allowed = True
    if isinstance(x, tuple) and x and all(isinstance(i, _core.Function) for i in x):
        allowed = True
    if reader and reader.kind != JIT:
        return host_value(x, reader), bool(allowed)
    try:
        return module_value(x, reader) if is_module(x) or isinstance(x, enum.EnumMeta) else to_value(x), bool(allowed)
    except TypeError:
        return opaque_object(x), False


def host_value(x, reader, depth=0):
    """What code that runs at compile time has of a variable: containers with what is in them, other objects as places of attributes."""
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
        return module_value(x, reader) if isinstance(x, types.ModuleType) else to_value(x)
    except TypeError:
        return module_value(x, reader) if is_place(x) else opaque_object(x)


def functions_in(x, seen=None):
    """The jit functions in a value. `seen`: tuples that were looked through on the way, by id."""
    if isinstance(x, _core.Function):
        return [x]
    if isinstance(x, _types.constexpr):
        return functions_in(_constexpr_object(x), seen)
    if _aggregate.is_aggregate(x):
        return _aggregate.functions_of(x)
    if _aggregate.is_aggregate(type(x)):
        return _aggregate.functions_of(type(x)) + [f for v in vars(x).values() for f in functions_in(v, seen)]
    seen = set() if seen is None else seen
    if not isinstance(x, (tuple, list)) or id(x) in seen:
        return []
    seen.add(id(x))
    return [f for i in x for f in functions_in(i, seen)]
