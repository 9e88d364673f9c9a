"""`@jit`: from a live Python function to a kernel.

The compiler never runs Python: it gets the function's source text and, for each global or closure variable the text reads, a compile-time
value made by `to_value`. Launching is C++ (python/src/Function.cpp); this file runs once per function.
"""
import ast
import collections
import enum
import functools
import inspect
import json
import math
import os
import sys
import types

from . import _core, errors
from ._source import captured, function_source, is_module, is_namedtuple_class
from .language import _types

JIT, CONSTEXPR = 0, 1


Remark = collections.namedtuple("Remark", "kind message file line column")


class CompiledKernel(_core.Kernel):
    """One compiled form of a kernel: `.asm[stage]`, `.metadata`, `.timings` (nanoseconds by stage)."""

    @property
    def asm(self):
        return _Asm(self)

    @property
    def metadata(self):
        return types.SimpleNamespace(**self.info())

    @property
    def name(self):
        return self.info()["name"]

    @property
    def hash(self):
        return self.info()["hash"]

    @property
    def timings(self):
        return self.timings_ns()

    @property
    def n_regs(self):
        """Registers per thread (GPU)."""
        return self.info()["n_regs"]

    @property
    def n_spills(self):
        """Registers spilled to local memory, per thread (GPU)."""
        return self.info()["n_spills"]

    @property
    def shared(self):
        """Bytes of shared memory per block (GPU)."""
        return self.info()["shared"]

    @property
    def n_max_threads(self):
        """Threads of a block (GPU)."""
        return self.info()["threads"]

    @property
    def occupancy(self):
        """Blocks that fit on one multiprocessor at once (GPU, once loaded)."""
        return self.info()["blocks_per_core"]

    @property
    def remarks(self):
        """What the compiler has to say that is no mistake: list of Remark (kind, message, file, line, column)."""
        return [Remark(*row) for row in self.remark_rows()]

    def __getitem__(self, grid):
        return functools.partial(self._relaunch, grid)

    def _relaunch(self, grid, *args):
        self.launch(grid, args)


class _Asm:
    """The stages of a kernel as a read-only mapping."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getitem__(self, stage):
        return self._kernel.stage(stage)

    def keys(self):
        return self._kernel.stage_names()

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, stage):
        return stage in self.keys()

    def __len__(self):
        return len(self.keys())


Specialization = collections.namedtuple("Specialization", "constants signature")


def _is_constexpr(parameter):
    a = parameter.annotation
    return a.split(".")[-1] == "constexpr" if isinstance(a, str) else a is _types.constexpr


def _items(text):
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


def _name_of_kernel(repr, constexprs, text):
    """What `repr=` calls the kernel of this signature."""
    constants, signature = {}, {}
    for name, what in _items(text):
        try:
            value, is_constant = ast.literal_eval(what), True
        except (ValueError, SyntaxError):
            value, is_constant = what, name in constexprs
        if is_constant:
            constants[name] = value
        signature[name] = "constexpr" if is_constant else what.partition(":")[0] if not what.startswith("tensordesc") else what
    name = repr(Specialization(constants, signature))
    if not isinstance(name, str):
        raise TypeError(f"`repr` of a kernel gives its name as str, found {type(name).__name__}")
    return name


class JITFunction(_core.Function):
    """What `@jit` gives: `kernel[grid](*args, **options)` launches, `.warmup(...)` compiles."""

    def __init__(self, fn, kind=JIT, noinline=False, must_use=None, do_not_specialize=(), do_not_specialize_on_alignment=(), debug=None,
                 repr=None, launch_metadata=None, version=None):
        file, text, first = function_source(fn)
        self.signature = inspect.signature(fn)
        names = list(self.signature.parameters)
        by_name = lambda items: tuple(names[i] if isinstance(i, int) else i for i in items or ())
        super().__init__(file=file, text=text, first_line=first, kind=kind, noinline=bool(noinline), must_use=must_use,
                         do_not_specialize=by_name(do_not_specialize),
                         do_not_specialize_on_alignment=by_name(do_not_specialize_on_alignment), prepare=self._prepare)
        self.fn = fn
        self.src = text
        self.noinline, self.debug, self.version = noinline, debug, version
        self.kind = kind
        functools.update_wrapper(self, fn)
        for i, p in enumerate(self.signature.parameters.values()):
            if p.default is not p.empty:
                self.set_default(i, None, p.default)  # for grid callables; the compiler gets it in _prepare
        if debug is not None:
            self.set_option("debug", debug)
        self.repr = repr or (lambda specialization: fn.__qualname__)
        if repr is not None:
            self.set_namer(functools.partial(_name_of_kernel, repr, {p.name for p in self.signature.parameters.values() if _is_constexpr(p)}))

    @property
    def arg_names(self):
        return list(self.param_names)

    @property
    def params(self):
        return list(self.signature.parameters.values())

    @property
    def cache_key(self):
        return self.content_hash()

    hash = cache_key

    def _prepare(self):
        """Binds captured names and defaults; called by the first launch."""
        self._bind_names()
        rows = []
        pending, seen = [self], set()
        while pending:  # the globals of helpers count as this kernel's
            f = pending.pop()
            if id(f) in seen:
                continue
            seen.add(id(f))
            if f is not self:
                f._bind_names()
            for name in f.free_names():
                found, value, where = captured(f.fn, name)
                if found and isinstance(value, JITFunction):
                    pending.append(value)
                if found and where and isinstance(value, _types.constexpr):
                    rows.append((where[0], where[1], value))
        self.watch(tuple(rows), functools.partial(_global_changed, rows))

    def _bind_names(self):
        if self.__dict__.get("_bound"):
            return
        self.__dict__["_bound"] = True
        for name in self.free_names():
            found, value, _ = captured(self.fn, name)
            if found:
                converted, allowed = _global_value(value)
                self.bind(name, converted, allowed)
        for i, p in enumerate(self.signature.parameters.values()):
            if p.default is not p.empty:
                self.set_default(i, to_value(p.default), p.default)

    def warmup(self, *args, grid=None, **kwargs):
        """Compiles for these arguments without launching and returns the kernel."""
        return self.warmup_launcher()(*args, **kwargs)

    def run(self, *args, grid, warmup=False, **kwargs):
        return self.warmup(*args, grid=grid, **kwargs) if warmup else self[grid](*args, **kwargs)

    def __call__(self, *args, **kwargs):
        if self.kind == CONSTEXPR:
            unwrap = lambda x: x.value if isinstance(x, _types.constexpr) else x
            return self.fn(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()})
        raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel; launch it with kernel[grid](...)")

    def __repr__(self):
        return f"JITFunction({self.__module__}:{self.__qualname__})"


def _global_changed(rows, index):
    mapping, name, old = rows[index]
    new = mapping.get(name)
    if isinstance(new, _types.constexpr) and new.value == old.value:
        return
    raise RuntimeError(f"Global variable {name} has changed since we compiled this kernel, from {old} to {new}")


def jit(fn=None, **options):
    """Decorator of kernels and of the helpers they call; options as in docs/language.md §4.2."""
    if fn is None:
        return lambda f: JITFunction(f, **options)
    return JITFunction(fn, **options)


def constexpr_function(fn):
    """Ordinary Python that kernels may call on compile-time values; host code may call it too."""
    return JITFunction(fn, kind=CONSTEXPR)


def must_use_result(hint=None):
    """Marks a helper whose result a kernel must not drop. `@must_use_result` or `@must_use_result("why")`, above or below @jit."""
    def mark(f, text):
        return JITFunction(getattr(f, "fn", f), must_use=text)
    if callable(hint):
        return mark(hint, "")
    return lambda f: mark(f, hint or "")


# ------------------------------------------------------------------------------------------- Python objects as compile-time values

_LANGUAGE = ("tegula.language", "triton.language")


def _constexpr_object(x):
    """What `tl.constexpr(...)` holds; a plain function in it is one that kernels may call on compile-time values."""
    if not isinstance(x.value, types.FunctionType):
        return x.value
    return x.__dict__.setdefault("_tegula_function", JITFunction(x.value, kind=CONSTEXPR))


def to_value(x):
    """A compile-time value for `x`, or TypeError."""
    v = x.__dict__.get("_tegula_value") if isinstance(x, (JITFunction, _types.dtype)) else None
    if v is not None:
        return v
    if isinstance(x, _types.constexpr):
        return to_value(_constexpr_object(x))
    if x is None:
        return _core.value_none()
    if isinstance(x, bool):
        return _core.value_bool(x)
    if isinstance(x, enum.Enum):
        return _opaque(x, f"{type(x).__name__}.{x.name}")
    if isinstance(x, int):
        return _core.value_int(int(x))
    if isinstance(x, float):
        return _core.value_float(float(x))
    if isinstance(x, str):
        return _core.value_str(x)
    if isinstance(x, _types.dtype):
        return _remember(x, _core.value_dtype(x.name))
    if isinstance(x, JITFunction):
        x._bind_names()
        return _remember(x, _core.value_function(x))
    if is_namedtuple_class(x):
        return _namedtuple_class(x)
    if isinstance(x, tuple) and is_namedtuple_class(type(x)):
        return _core.value_record(_namedtuple_class(type(x)), [to_value(i) for i in x])
    if isinstance(x, (tuple, list)):
        return _core.value_tuple([to_value(i) for i in x])
    if is_module(x):
        return _module_value(x)
    path = getattr(x, "_tegula_name", None)  # a function of the language
    if path:
        module, _, name = path.rpartition(".")
        return _core.value_attribute(_core.value_module(module), name)
    if getattr(x, "__module__", None) == "math":
        return _core.value_attribute(_core.value_module("math"), x.__name__)
    item = getattr(x, "item", None)  # numpy and torch scalars
    if callable(item) and getattr(x, "shape", None) == ():
        return to_value(item())
    raise TypeError(f"failed to specialize argument of type: {type(x).__name__}")


def _remember(x, value):
    x.__dict__["_tegula_value"] = value
    return value


_opaque_ids = {}


def _opaque(x, name):
    number = _opaque_ids.setdefault(x, len(_opaque_ids) + 1)
    return _core.value_opaque(name, number)


_classes = {}


def _namedtuple_class(cls):
    if cls not in _classes:
        defaults = [to_value(cls._field_defaults[f]) for f in cls._fields if f in cls._field_defaults]
        _classes[cls] = _core.value_class(cls.__name__, list(cls._fields), defaults)
    return _classes[cls]


def _module_value(module):
    name = module.__name__
    if name == "math" or name.split(".")[0] in ("tegula", "triton"):
        return _core.value_module("triton" + name[6:] if name.split(".")[0] == "tegula" else name)

    def resolve(attribute):
        if not hasattr(module, attribute):
            return None
        value, allowed = _global_value(getattr(module, attribute))
        return value if allowed else None
    return _core.value_dynamic_module(name, resolve)


def _global_value(x):
    """(value, allowed): which captured globals a kernel may read, docs/language.md §1.7."""
    allowed = (is_module(x) or is_namedtuple_class(x) or isinstance(x, (JITFunction, _types.dtype, _types.constexpr))
               or hasattr(x, "_tegula_name") or isinstance(x, type(math.sqrt)) or isinstance(x, enum.EnumMeta)
               or getattr(x, "__module__", "").startswith(_LANGUAGE) if not isinstance(x, (int, float, str)) else False)
    from . import knobs
    if not allowed and knobs.allow_non_constexpr_globals():
        allowed = True
    if isinstance(x, tuple) and x and all(isinstance(i, JITFunction) for i in x):
        allowed = True
    try:
        return to_value(x), bool(allowed)
    except TypeError:
        return _opaque_object(x), False


def _opaque_object(x):
    return _core.value_opaque(getattr(x, "__name__", type(x).__name__), id(x))


# --------------------------------------------------------------------------------------------------- set-up of the extension module

_dtype_numbers = {}


def _dtype_number(d):
    """numpy dtype (ml_dtypes included) -> dtype number; remembers it."""
    name = {"bool": "i1"}.get(d.name, d.name)
    try:
        if not d.isnative:
            raise LookupError
        number = _core.dtype_number(name)
    except (LookupError, ValueError):
        raise TypeError(f"arrays of dtype {d} cannot be passed to a kernel") from None
    _dtype_numbers[d] = number
    return number


def _argument_of(x, name):
    """A kernel argument of a kind that C++ does not know: (address, dtype number, bytes, read only, ordinal of its GPU or -1, stream or 0), a
    number, or a Value."""
    data_ptr = getattr(x, "data_ptr", None)
    if data_ptr is not None and hasattr(x, "dtype"):
        number = _core.dtype_number(str(x.dtype).removeprefix("torch."))
        contiguous = not hasattr(x, "is_contiguous") or x.is_contiguous()
        size = getattr(x, "nbytes", None)
        return int(data_ptr()), number, int(size) if contiguous and size is not None else -1, False, _gpu_of(x, name), 0
    if isinstance(x, (_types.constexpr, JITFunction)):
        return to_value(x)
    if type(x).__module__ == "numpy" and getattr(x, "shape", None) == () and hasattr(x, "item"):
        return x.item()
    if hasattr(x, "__cuda_array_interface__"):
        return _cuda_array(x)
    if hasattr(x, "__array_interface__"):
        import numpy
        return _numpy_pointer(numpy.asarray(x))
    if hasattr(x, "__dlpack__"):
        import numpy
        return _numpy_pointer(numpy.from_dlpack(x))
    if hasattr(x, "__index__"):
        return int(x)
    raise TypeError(f"failed to specialize argument of type: {type(x).__name__} (parameter `{name}`; such objects are for tl.constexpr parameters)")


def _numpy_pointer(a):
    number = _dtype_numbers.get(a.dtype)
    contiguous = a.flags.c_contiguous or a.flags.f_contiguous
    return a.ctypes.data, _dtype_number(a.dtype) if number is None else number, a.nbytes if contiguous else -1, not a.flags.writeable, -1, 0


def _gpu_of(x, name):
    """Ordinal of the GPU that a tensor is on, -1 for CPU memory."""
    device = getattr(x, "device", None)
    kind = "cpu" if device is None else getattr(device, "type", None) or str(device).partition(":")[0]
    if kind in ("cpu", "meta", "sim"):
        return -1
    if kind != "cuda":
        raise ValueError(f"argument `{name}`: the tensor is on device {device}; kernels run on cpu, cuda and sim")
    index = getattr(device, "index", None)
    if not isinstance(index, int):
        index = str(device).partition(":")[2]
    return int(index or 0)


def _cuda_array(x):
    """An array of CuPy, Numba and others by the CUDA array interface (version 2 or 3)."""
    i = x.__cuda_array_interface__
    address, read_only = i["data"]
    kind, size = i["typestr"][1], int(i["typestr"][2:])
    number = _core.dtype_number({"b": "i1", "i": f"i{size * 8}", "u": f"u{size * 8}", "f": f"fp{size * 8}"}.get(kind, i["typestr"]))
    count = math.prod(i["shape"])
    ordinal = getattr(getattr(x, "device", None), "id", 0)  # CuPy says which GPU; the interface does not
    return address or 0, number, count * size if i.get("strides") is None else -1, bool(read_only), int(ordinal), i.get("stream") or 0


def _print(stream, text):
    print(text, end="", flush=True)


def _install():
    try:
        import numpy
        array = numpy.ndarray
    except ImportError:  # numpy is a convenience, not a need
        array = None
    _core.set_exceptions(errors.CompilationError, errors.DeviceError, errors.OutOfResources, errors.PTXASError)
    _core.set_converters(to_value, _argument_of, _dtype_numbers, _dtype_number, array)
    _core.set_kernel_class(CompiledKernel)
    _core.set_output(_print)
    for folder in sys.path:  # where pip puts NVIDIA's libraries
        if os.path.isdir(os.path.join(folder, "nvidia")):
            _core.add_packages(folder)


_install()
