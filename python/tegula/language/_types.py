"""Types as host objects: `tl.float32`, `tl.pointer_type(tl.float16)`, `tl.constexpr(3)`.

The compiler never runs this code (it has its own types, src/lang/Dtype.h); it exists so that host code, annotations and the interpreter work.
"""
import enum
import math

from .. import _core
from ._tensor import tensor

_INT = {"int1": (1, False), **{f"int{w}": (w, True) for w in (8, 16, 32, 64)},
        **{f"uint{w}": (w, False) for w in (8, 16, 32, 64)}}
# name: (bits, mantissa bits, exponent bias)
_FLOAT = {"fp8e5": (8, 2, 15), "fp8e4nv": (8, 3, 7), "fp8e4b15": (8, 3, 15), "fp8e4b8": (8, 3, 8), "fp8e5b16": (8, 2, 16),
          "fp16": (16, 10, 15), "bf16": (16, 7, 127), "fp32": (32, 23, 127), "fp64": (64, 52, 1023)}
_LONG = {"fp8e5": "float8e5", "fp8e4nv": "float8e4nv", "fp8e4b15": "float8e4b15", "fp8e4b8": "float8e4b8",
         "fp8e5b16": "float8e5b16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
_SHORT = {**{v: k for k, v in _LONG.items()}, "half": "fp16", "float": "fp32", "double": "fp64", "bool": "int1", "i1": "int1",
          "u1": "int1", "int": "int32", "f16": "fp16", "f32": "fp32", "f64": "fp64", "float8_e4m3fn": "fp8e4nv",
          "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
          **{f"i{w}": f"int{w}" for w in (8, 16, 32, 64)}, **{f"u{w}": f"uint{w}" for w in (8, 16, 32, 64)}}


class dtype:
    """A scalar type of the language. Equality and hash go by name."""

    SINT_TYPES = ["int8", "int16", "int32", "int64"]
    UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"]
    STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES = ["void"]

    class SIGNEDNESS(enum.Enum):
        SIGNED = 0
        UNSIGNED = 1

    class KIND(enum.Enum):
        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    def kind(self):
        if self.is_bool():
            return dtype.KIND.BOOLEAN
        if self.is_int():
            return dtype.KIND.INTEGRAL
        if self.is_floating():
            return dtype.KIND.FLOATING
        raise TypeError(f"{self} has no kind")

    def __init__(self, name):
        name = _SHORT.get(name, name)
        if name not in _INT and name not in _FLOAT and name != "void":
            raise TypeError(f"unknown dtype `{name}`")
        self.name = name

    @property
    def primitive_bitwidth(self):
        if self.name == "void":
            return 0
        return (_INT.get(self.name) or _FLOAT[self.name])[0]

    @property
    def itemsize(self):
        return (self.primitive_bitwidth + 7) // 8

    @property
    def int_bitwidth(self):
        return self.primitive_bitwidth

    @property
    def int_signedness(self):
        return dtype.SIGNEDNESS.SIGNED if self.is_int_signed() else dtype.SIGNEDNESS.UNSIGNED

    @property
    def fp_mantissa_width(self):
        return _FLOAT[self.name][1]

    @property
    def exponent_bias(self):
        return _FLOAT[self.name][2]

    @property
    def scalar(self):
        return self

    def is_int(self):
        return self.name in _INT

    def is_int_signed(self):
        return _INT.get(self.name, (0, False))[1]

    def is_int_unsigned(self):
        return self.is_int() and not self.is_int_signed()

    def is_bool(self):
        return self.name == "int1"

    def is_floating(self):
        return self.name in _FLOAT

    def is_standard_floating(self):
        return self.name in ("fp16", "bf16", "fp32", "fp64")

    def is_fp8(self):
        return self.name.startswith("fp8")

    def is_ptr(self):
        return False

    def is_const(self):
        return False

    def is_block(self):
        return False

    def is_void(self):
        return self.name == "void"

    @staticmethod
    def is_dtype(name):
        return name in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES

    @property
    def cache_key_part(self):
        return self.name

    def codegen_name(self):
        """float32, bfloat16, int8 ..."""
        return _LONG.get(self.name, self.name)

    def mangle(self):
        """i32, u8, fp16, V: as a part of a symbol."""
        return "V" if self.is_void() else ("i" if self.is_int_signed() else "u") + str(self.primitive_bitwidth) if self.is_int() else self.name

    def with_element_ty(self, element_ty):
        return element_ty

    def get_int_min_value(self):
        return -(1 << (self.primitive_bitwidth - 1)) if self.is_int_signed() else 0

    def get_int_max_value(self):
        return (1 << (self.primitive_bitwidth - int(self.is_int_signed()))) - 1

    def __reduce__(self):
        return type(self), (self.name,)  # without the compiler's handle that _values.py keeps on it

    def __eq__(self, other):
        return other.name == self.name if type(other) is type(self) else NotImplemented  # a constexpr compares what it holds

    def __hash__(self):
        return hash((type(self).__name__, self.name))

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"triton.language.{_LONG.get(self.name, self.name)}"


def _install_predicates():
    """is_fp16(), is_int32(), is_fp8e4nv() ...: one for each type."""
    for name in (*_INT, *_FLOAT):
        setattr(dtype, f"is_{name}", lambda self, name=name: self.name == name)


_install_predicates()


class pointer_type(dtype):
    """A pointer to elements of `element_ty`; const pointers cannot be stored through."""

    def __init__(self, element_ty, address_space=1, const=False):
        if not isinstance(element_ty, dtype):
            raise TypeError(f"element_ty must be a dtype, found {type(element_ty).__name__}")
        self.element_ty = element_ty
        self.address_space = address_space
        self.is_const_ptr = const
        self.name = f"*{'k' if const else ''}{element_ty.name}"

    primitive_bitwidth = 64

    def __reduce__(self):
        return type(self), (self.element_ty, self.address_space, self.is_const_ptr)

    def is_ptr(self):
        return True

    def is_const(self):
        return self.is_const_ptr

    def mangle(self):
        return "P" + self.element_ty.mangle()


class block_type(dtype):
    """The type of blocks; for host code that looks at types."""

    def __init__(self, element_ty, shape):
        self.element_ty, self.shape = element_ty, tuple(_unwrap(n) for n in _unwrap(shape))
        if not self.shape:
            raise TypeError("0d block_type is forbidden")
        if not all(isinstance(n, int) and n > 0 for n in self.shape):
            raise TypeError(f"the extents of a block are positive numbers, found {list(self.shape)}")
        self.numel = math.prod(self.shape)
        self.name = f"<{list(self.shape)}, {element_ty.name}>"

    primitive_bitwidth = property(lambda self: self.element_ty.primitive_bitwidth)
    scalar = property(lambda self: self.element_ty)
    nbytes = property(lambda self: self.numel * (self.primitive_bitwidth // 8))

    def __reduce__(self):
        return type(self), (self.element_ty, self.shape)

    def __repr__(self):
        return self.name

    def is_block(self):
        return True

    def get_block_shapes(self):
        return self.shape

    def with_element_ty(self, element_ty):
        return block_type(element_ty, self.shape)

    def mangle(self):
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}S"


class constexpr_type:
    """The type of a constexpr: which value it holds."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, constexpr_type) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"constexpr_type[{self.value}]"

    def mangle(self):
        return repr(self)


class constexpr:
    """A compile-time value: `N = tl.constexpr(16)` at module level may be read in kernels; as an annotation it marks parameters."""

    __slots__ = ("value", "__weakref__")  # a slot: launches look at it (python/src/Watch.h)

    def __init__(self, value):
        while isinstance(value, constexpr):
            value = value.value
        self.value = value

    def __reduce__(self):
        return type(self), (self.value,)

    @property
    def type(self):
        return constexpr_type(self.value)

    def __repr__(self):
        return f"constexpr[{self.value}]"

    def __index__(self):
        return self.value.__index__()

    def __bool__(self):
        return bool(self.value)

    def __hash__(self):
        return hash(self.value)

    def __call__(self, *args, **kwargs):
        return self.value(*args, **kwargs)

    def logical_and(self, other):
        return constexpr(self.value and _unwrap(other))

    def logical_or(self, other):
        return constexpr(self.value or _unwrap(other))

    def __getitem__(self, i):
        return self.value[i]

    def __iter__(self):
        return iter(self.value)

    def __getattr__(self, name):
        if name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)


def _unwrap(x):
    return x.value if isinstance(x, constexpr) else x


def _install_operators():
    import operator
    table = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
             "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "lshift": operator.lshift,
             "rshift": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
    # With a tensor (in the interpreter) the result is one, which its own operators make.
    wrap = lambda b, compute: NotImplemented if isinstance(b, tensor) else constexpr(compute())
    for name, op in table.items():
        setattr(constexpr, f"__{name}__", lambda a, b, op=op: wrap(b, lambda: op(a.value, _unwrap(b))))
        setattr(constexpr, f"__r{name}__", lambda a, b, op=op: wrap(b, lambda: op(_unwrap(b), a.value)))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        op = getattr(operator, name)
        setattr(constexpr, f"__{name}__", lambda a, b, op=op: wrap(b, lambda: op(a.value, _unwrap(b))))
    for name, op in {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}.items():
        setattr(constexpr, f"__{name}__", lambda a, op=op: constexpr(op(a.value)))


_install_operators()
tensor.numel = property(lambda x: constexpr(math.prod(_core.tensor_info(x)[2])), doc="How many elements it has.")


class slice:
    """`a:b:c` in a subscript, for host code that looks at one; in kernels such slices are written, not made."""

    def __init__(self, start, stop, step):
        self.start, self.stop, self.step = start, stop, step

    def __repr__(self):
        return f"slice({self.start}, {self.stop}, {self.step})"


def str_to_ty(name, c=None):
    """The type that a signature names: "fp32", "*i32", "*kfp16" (a pointer that is not stored through)."""
    if name.startswith("*"):
        const = name.startswith("*k")
        return pointer_type(str_to_ty(name[2 if const else 1:]), const=const)
    return constexpr if name == "constexpr" else dtype(name)


class const:
    """Annotation of a pointer parameter that the kernel never stores to."""


def scalar_types():
    """{exported name: dtype}: float32, int64, void ..."""
    names = {**{n: n for n in _INT}, **{_LONG[n]: n for n in _FLOAT}, "void": "void"}
    return {exported: dtype(name) for exported, name in names.items()}
