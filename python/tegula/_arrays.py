"""Where the memory of arrays is: tuples (address, dtype number, bytes, 1 if read only + 2 if dense, ordinal of its GPU or -1, stream or 0), as jit.py gives them to C++.

Bytes: from the address on; -1: unknown; -1 - n: n in all, some of them before the address."""
import math

from . import _core

dtype_numbers = {}


def dtype_number(d):
    """numpy dtype (ml_dtypes included) -> dtype number; remembers it."""
    name = {"bool": "i1"}.get(d.name, d.name)
    try:
        if not d.isnative:
            raise LookupError
        number = _core.dtype_number(name)
    except (LookupError, ValueError):
        raise TypeError(f"arrays of dtype {d} cannot be passed to a kernel") from None
    dtype_numbers[d] = number
    return number


def _reach(shape, strides, item):
    """Bytes from the first element to the end of the last one, as argument_of gives them. Strides are in bytes."""
    if 0 in shape:
        return 0
    steps = [(n - 1) * s for n, s in zip(shape, strides)]
    size = sum(map(abs, steps)) + item
    return size if all(s >= 0 for s in steps) else -1 - size


def bytes_of(x):
    """The same of a tensor that has data_ptr(): PyTorch's, or one that looks like it."""
    size = getattr(x, "nbytes", None)
    if hasattr(x, "is_contiguous") and not x.is_contiguous():
        if not (callable(getattr(x, "stride", None)) and hasattr(x, "element_size") and hasattr(x, "shape")):
            return -1
        item = x.element_size()
        return _reach(tuple(x.shape), [s * item for s in x.stride()], item)
    return -1 if size is None else int(size)


def address_of(x, name):
    try:
        return int(x.data_ptr())
    except RuntimeError as e:  # what tracing compilers make in place of tensors
        raise ValueError(f"argument `{name}`: the {type(x).__name__} has no memory ({e})") from None


def numpy_pointer(a):
    number = dtype_numbers.get(a.dtype)
    return a.ctypes.data, dtype_number(a.dtype) if number is None else number, _reach(a.shape, a.strides, a.itemsize), (not a.flags.writeable) + 2 * (a.flags.c_contiguous or a.flags.f_contiguous), -1, 0


def cuda_array(x):
    """An array of CuPy, Numba and others by the CUDA array interface (version 2 or 3)."""
    i = x.__cuda_array_interface__
    address, read_only = i["data"]
    kind, size = i["typestr"][1], int(i["typestr"][2:])
    number = _core.dtype_number({"b": "i1", "i": f"i{size * 8}", "u": f"u{size * 8}", "f": f"fp{size * 8}"}.get(kind, i["typestr"]))
    count = math.prod(i["shape"])
    ordinal = getattr(getattr(x, "device", None), "id", 0)  # CuPy says which GPU; the interface does not
    strides = i.get("strides")
    return address or 0, number, count * size if strides is None else _reach(i["shape"], strides, size), bool(read_only), int(ordinal), i.get("stream") or 0
