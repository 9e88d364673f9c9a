"""What a launch's arguments make of a kernel, in the terms of docs/language.md §4.4: a type code and a key for each parameter.

The compiler decides by itself (src/api); this is for hooks and for programs that ask.
"""
import ast
import collections
import enum
import re

from . import _aggregate, _core
from .language import _types

# Names of element types as annotations and tensors of any library have them.
type_canonicalisation_dict = {
    "bool": "i1", "int1": "i1", "u1": "u1", "i1": "i1", "int": "i32", "float": "fp32", "half": "fp16", "double": "fp64",
    **{f"int{w}": f"i{w}" for w in (8, 16, 32, 64)}, **{f"uint{w}": f"u{w}" for w in (8, 16, 32, 64)},
    **{f"i{w}": f"i{w}" for w in (8, 16, 32, 64)}, **{f"u{w}": f"u{w}" for w in (8, 16, 32, 64)},
    "float8_e5m2": "fp8e5", "float8e5": "fp8e5", "fp8e5": "fp8e5", "float8_e4m3fn": "fp8e4nv", "float8e4nv": "fp8e4nv", "fp8e4nv": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8", "float8e4b8": "fp8e4b8", "fp8e4b8": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16", "float8e5b16": "fp8e5b16",
    "fp8e5b16": "fp8e5b16", "float8e4b15": "fp8e4b15", "fp8e4b15": "fp8e4b15", "float16": "fp16", "fp16": "fp16", "bfloat16": "bf16",
    "bf16": "bf16", "float32": "fp32", "fp32": "fp32", "float64": "fp64", "fp64": "fp64"
}
_CODES = frozenset(type_canonicalisation_dict.values())


def canonicalize_dtype(dtype):
    """The code of an element type: a dtype of any library, or its name."""
    name = str(getattr(dtype, "name", dtype)).split(".")[-1]
    if name not in type_canonicalisation_dict:
        raise TypeError(f"{dtype} is no element type of the language")
    return type_canonicalisation_dict[name]


def canonicalize_ptr_dtype(dtype, is_const):
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


def annotation_text(annotation):
    """An annotation as text: "*fp32", "constexpr", "i64"; "" for none that has a name."""
    if not isinstance(annotation, type) and "constexpr" in str(annotation):
        return "constexpr"  # also of `tl.constexpr | None`
    if isinstance(annotation, str):
        text = annotation.strip()
        pointer = text.startswith("*")
        const = text.startswith("*k") and text[2:] in type_canonicalisation_dict
        name = text[2:] if const else text[1:] if pointer else text
        name = name.split(".")[-1]
        return ("*k" if const else "*" if pointer else "") + type_canonicalisation_dict.get(name, name)
    if isinstance(annotation, _types.pointer_type):
        return canonicalize_ptr_dtype(annotation.element_ty, annotation.is_const())
    if isinstance(annotation, _types.dtype):
        return type_canonicalisation_dict.get(annotation.name, annotation.name)
    name = getattr(annotation, "__name__", None)
    return "" if not isinstance(name, str) else type_canonicalisation_dict.get(name, name)


def annotation_of(parameter):
    """annotation_text() of an inspect.Parameter."""
    return "" if parameter.annotation is parameter.empty else annotation_text(parameter.annotation)


class KernelParam:
    """A parameter of a jit function."""

    def __init__(self, num, param, do_not_specialize=False, do_not_specialize_on_alignment=False):
        self.num, self._param = num, param
        self.do_not_specialize, self.do_not_specialize_on_alignment = do_not_specialize, do_not_specialize_on_alignment

    @property
    def name(self):
        return self._param.name

    @property
    def annotation(self):
        return annotation_of(self._param)

    @property
    def annotation_type(self):
        """The annotation if it is a type that the argument must have, else ""."""
        text = self.annotation
        return text if text.removeprefix("*k").removeprefix("*") in _CODES else ""

    @property
    def is_constexpr(self):
        return self.annotation == "constexpr"

    @property
    def is_const(self):
        return not self.is_constexpr and (self.annotation.startswith("*k") or self.annotation == "const")

    @property
    def default(self):
        return self._param.default

    @property
    def has_default(self):
        return self._param.default is not self._param.empty

    @property
    def kind(self):
        return self._param.kind

    def __repr__(self):
        return f"KernelParam({self.num}, {self._param})"


def _integer(x, specialize_value, align):
    if specialize_value and x == 1:
        return "constexpr", 1
    for low, high, code in ((-2**31, 2**31, "i32"), (-2**63, 2**63, "i64"), (2**63, 2**64, "u64")):
        if low <= x < high:
            return code, ("D" if align and x % 16 == 0 else "") if specialize_value else None
    raise OverflowError(f"integer to be specialized too large to represent: {x}")


def address_of(x):
    for read in (lambda: x.data_ptr(), lambda: x.__array_interface__["data"][0], lambda: x.__cuda_array_interface__["data"][0]):
        try:
            return int(read())
        except (AttributeError, TypeError):
            continue
    return None


def is_buffer(x):
    """Does it give its memory by the buffer protocol?"""
    try:
        return not isinstance(x, (str, type)) and memoryview(x) is not None
    except TypeError:
        return False


def specialize(x, is_const=False, specialize_value=True, align=True):
    """(type code, key) of an argument; ("constexpr", value) for those that are compile-time values."""
    if x is None:
        return "constexpr", None
    if isinstance(x, _types.constexpr):
        return "constexpr", x.value
    if isinstance(x, bool):
        return "u1", None
    if isinstance(x, int) and not isinstance(x, enum.Enum):
        return _integer(int(x), specialize_value, align)
    if isinstance(x, float):
        return "fp32", None
    if isinstance(x, _core.Function):
        return "constexpr", x.cache_key
    if _aggregate.is_aggregate(type(x)):
        x = _aggregate.lifted(x, constants=True)
    if isinstance(x, tuple):
        rows = [specialize(i) for i in x]
        make = type(x) if hasattr(x, "_fields") else lambda *items: tuple(items)
        return make(*(t for t, _ in rows)), make(*(k for _, k in rows))
    if hasattr(x, "block_shape") and hasattr(x, "base"):
        return f"tensordesc<{canonicalize_dtype(x.base.dtype)}{list(x.block_shape)}>", None
    if hasattr(x, "dtype") and getattr(x, "shape", None) == () and hasattr(x, "item") and not hasattr(x, "data_ptr"):
        return specialize(x.item(), is_const, specialize_value, align)  # numpy's scalars
    if not hasattr(x, "dtype") or address_of(x) is None:
        if hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__"):
            import numpy
            x = numpy.asarray(x) if hasattr(x, "__array_interface__") else numpy.from_dlpack(x)
        elif hasattr(x, "__index__"):
            return specialize(int(x), is_const, specialize_value, align)
        elif is_buffer(x):
            import numpy
            x = numpy.asarray(memoryview(x))
    address = address_of(x)
    if address is not None and hasattr(x, "dtype"):
        key = ("D" if align and address % 16 == 0 else "") if specialize_value else None
        return canonicalize_ptr_dtype(x.dtype, is_const), key
    raise TypeError(f"failed to specialize argument of type: {type(x).__name__}")


def specialize_parameter(p, x):
    """(type code, key) of the argument of a KernelParam."""
    if p.is_constexpr:
        return "constexpr", x
    if p.kind == p._param.VAR_POSITIONAL:
        return specialize(tuple(x))
    specialize_value = not p.do_not_specialize
    forced = p.annotation_type
    if forced and not forced.startswith("*"):
        if forced == "u1" or forced == "i1" or forced.startswith(("fp", "bf")):
            return forced, None
        return forced, specialize(x, p.is_const, specialize_value, not p.do_not_specialize_on_alignment)[1]
    return specialize(x, p.is_const, specialize_value, not p.do_not_specialize_on_alignment)


Specialization = collections.namedtuple("Specialization", "constants signature")


def items_of(text):
    """`a:*fp32:16, b:(1, 2)` as [("a", "*fp32:16"), ("b", "(1, 2)")]: commas in brackets and quotes divide nothing."""
    out, depth, quote, item = [], 0, "", ""
    for c in text + ",":
        if c == "," and not depth and not quote:
            name, _, rest = item.strip().partition(":")
            out += [(name, rest)] if name else []
            item = ""
            continue
        if quote:
            quote = "" if c == quote and not item.endswith("\\") else quote
        elif c in "'\"":
            quote = c
        else:
            depth += (c in "([<") - (c in ")]>")
        item += c
    return out


def name_of_kernel(repr, constexprs, text):
    """What `repr=` calls the kernel of this signature."""
    constants, signature = {}, {}
    for name, what in items_of(text):
        try:
            value, is_constant = ast.literal_eval(what), True
        except (ValueError, SyntaxError):
            value, is_constant = what, name in constexprs
        if is_constant:
            constants[name] = value
        signature[name] = "constexpr" if is_constant else re.sub(r":\w+", "", what)
    name = repr(Specialization(constants, signature))
    if not isinstance(name, str):
        raise TypeError(f"`repr` of a kernel gives its name as str, found {type(name).__name__}")
    return name
