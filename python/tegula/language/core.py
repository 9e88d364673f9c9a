"""`tl.core`: the same functions as `tl`, under the module name some code imports them from."""
import builtins as _builtins

from .. import language as _tl
from ._types import constexpr, constexpr_type, dtype, pointer_type, slice, str_to_ty, tensor

TRITON_BUILTIN = "__triton_builtin__"
base_value = tensor  # what isinstance() is asked: a value of a kernel, and a type
base_type = dtype
CONSTEXPR_0 = constexpr(0)


def _unwrap_if_constexpr(x):
    if isinstance(x, (list, _builtins.tuple)) and not hasattr(x, "_fields"):
        return type(x)(_unwrap_if_constexpr(i) for i in x)
    return x.value if isinstance(x, constexpr) else x


_constexpr_to_value = _unwrap_if_constexpr


def _unwrap_shape(shape):
    return [_unwrap_if_constexpr(n) for n in _unwrap_if_constexpr(shape)]


def is_negative_zero(x):
    import math
    return x == 0.0 and math.copysign(1.0, x) < 0


def is_builtin(fn):
    """Is it a function of the language?"""
    return isinstance(fn, _tl._Function)


def extern_elementwise(*args, **kwargs):
    """There to be imported: a function of a library of bitcode, which tegula does not link."""
    raise NotImplementedError("extern_elementwise calls functions of bitcode libraries, which tegula does not link (docs/differences.md); those of libdevice are in tl.extra.libdevice")


def get_int_dtype(bitwidth, signed):
    """int1, int8 ... uint64; `signed` does not matter for 1 bit."""
    if bitwidth not in (1, 8, 16, 32, 64):
        raise ValueError(f"Unsupported bitwidth {bitwidth} and signedness {signed}")
    return dtype("int1" if bitwidth == 1 else f"{'int' if signed else 'uint'}{bitwidth}")


def _aggregate(cls):
    """`triton.aggregate`, under the name that it had before it was public."""
    from .._aggregate import aggregate
    return aggregate(cls)


def check_bit_width(value, shift_value):
    """Warns of a compile-time shift that leaves nothing."""
    width, shift = value.type.scalar.primitive_bitwidth, _unwrap_if_constexpr(shift_value)
    if isinstance(value, tensor) and isinstance(shift, int) and shift >= width:
        import warnings
        warnings.warn(f"Value {shift} exceeds the maximum bitwidth ({width}) for type '{value.dtype}'. This may result in undefined behavior.")


def builtin(fn):
    """Marks ordinary Python that kernels call with run-time values; the compiler reads its text as that of a method of an aggregate."""
    from .._function import BuiltinFunction
    return BuiltinFunction(fn)


def extern(fn):
    """As builtin."""
    return builtin(fn)


def __getattr__(name):
    if name == "__all__":
        return __dir__()
    return getattr(_tl, {"tensor_descriptor_base": "tensor_descriptor", "tensor_descriptor_base_type": "tensor_descriptor_type"}.get(name, name))


def __dir__():
    return sorted({n for n in (*globals(), *_tl._names_of("triton.language.core")) if not n.startswith("_")})
