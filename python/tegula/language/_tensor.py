"""`tl.tensor` as a host object: a tile with its elements, while the interpreter runs a kernel (runtime/interpreter.py).

Nothing is computed here: every operator, method and attribute is one call of the compiler's own evaluator (`_core.Eager`).
"""
import math
import threading

from .. import _core

_active = threading.local()
_active.session = None
interpreter = None  # the module runtime/interpreter.py from its import on, so before there is a session


def session():
    """The launch that the interpreter runs in this thread, None if there is none."""
    return getattr(_active, "session", None)


def require_session():
    s = getattr(_active, "session", None)
    if s is None:
        raise RuntimeError("a tensor can only be computed with while the interpreter runs the kernel that it belongs to")
    return s


def _numbers(x):
    """The elements as nested lists, or as an array where there is numpy."""
    _, _, shape = _core.tensor_info(x)
    if not shape:
        return _core.tensor_item(x)
    values = _core.tensor_list(x)
    try:
        import numpy
    except ImportError:
        for n in reversed(shape[1:]):
            values = [values[i:i + n] for i in range(0, len(values), n)]
        return values
    return numpy.array(values, dtype=_numpy_dtype(x)).reshape(shape)


def _numpy_dtype(x):
    """The nearest that numpy has."""
    name, pointer, _ = _core.tensor_info(x)
    if pointer:
        return "uint64"
    known = {"i1": "bool", "fp16": "float16", "fp64": "float64"}
    return known.get(name) or {"i": "int", "u": "uint"}.get(name[0], "float") + (name[1:] if name[0] in "iu" else "32")


class tensor(_core.Value):
    """A run-time value of a kernel. Objects of it are there in the interpreter only; else it is for annotations and isinstance()."""

    __slots__ = ()
    __hash__ = object.__hash__
    __iter__ = None

    def __bool__(self):
        if math.prod(_core.tensor_info(self)[2]) != 1:
            require_session().operate("truth", self)  # the compiler's words for what is wrong
        return _core.tensor_item(self) != 0

    def __int__(self):
        return int(_core.tensor_item(self))

    def __float__(self):
        return float(_core.tensor_item(self))

    def __index__(self):
        item = _core.tensor_item(self)
        if isinstance(item, float):
            raise TypeError(f"{self!r} cannot be interpreted as an integer")
        return int(item)

    def __getitem__(self, index):
        return require_session().operate("[]", self, index)

    def __getattr__(self, name):
        if session() is None:  # hasattr() is false then, as debuggers and libraries expect
            raise AttributeError(f"`{name}` of a tensor can only be read while the interpreter runs the kernel that it belongs to; `.data` and print() show it")
        return interpreter.attribute(self, name)

    @property
    def data(self):
        """The elements as a numpy array (bf16 and fp8 as float32), or as lists where there is no numpy."""
        return _numbers(self)

    @property
    def handle(self):
        return self  # programs print x.handle.data

    def __repr__(self):
        name, pointer, shape = _core.tensor_info(self)
        kind = {"": "", "*": "*", "k": "*k"}[pointer] + name
        values = _numbers(self)
        if not shape:
            return f"tensor({hex(values) if pointer else values}, {kind})"
        try:
            import numpy
            text = numpy.array2string(values, separator=", ", prefix="tensor(", formatter={"int": hex} if pointer else None)
        except ImportError:
            text = repr(values)
        return f"tensor({text}, {kind})"

    def __str__(self):
        """As Triton's interpreter prints: the elements alone as numpy writes them, a scalar in brackets. Pointers and lists without numpy: as repr()."""
        _, pointer, shape = _core.tensor_info(self)
        values = _numbers(self)
        if pointer or isinstance(values, list):
            return repr(self)
        if shape:
            return str(values)
        try:
            import numpy
        except ImportError:
            return f"[{values}]"
        return str(numpy.array([values], dtype=_numpy_dtype(self)))

    def __format__(self, spec):
        return format(_core.tensor_item(self), spec) if spec else str(self)


def _install_operators():
    two = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lshift": "<<", "rshift": ">>",
           "and": "&", "or": "|", "xor": "^", "matmul": "@"}
    # An aggregate has operators of its own.
    apply = lambda op, a, b: NotImplemented if "_tegula_fields" in type(b).__dict__ else require_session().operate(op, a, b)
    for name, op in two.items():
        setattr(tensor, f"__{name}__", lambda a, b, op=op: apply(op, a, b))
        setattr(tensor, f"__r{name}__", lambda a, b, op=op: require_session().operate(op, b, a))
    for name, op in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
        setattr(tensor, f"__{name}__", lambda a, b, op=op: apply(op, a, b))
    for name in ("neg", "pos", "invert"):
        setattr(tensor, f"__{name}__", lambda a, op=name: require_session().operate(op, a))
    tensor.__abs__ = lambda a: a.abs()


_install_operators()
