"""Kernel arguments of kinds that the launch in C++ (python/src/Args.cpp) does not know by itself."""
from . import _aggregate, _core
from ._arrays import address_of, bytes_of, cuda_array, numpy_pointer
from ._memory import gpu_of
from ._mock import MockTensor
from ._specialize import is_buffer
from ._values import to_value
from .language import _types

_AS_BYTES = ("float8_e8m0fnu", "float4_e2m1fn_x2")  # PyTorch's dtypes of scales and pairs that kernels read as bytes


def argument_of(x, name):
    """A kernel argument of a kind that C++ does not know: (address, dtype number, bytes, 1 if read only + 2 if dense, ordinal of its GPU or -1, stream or 0), a
    number, or a Value. Bytes: from the address on; -1: unknown; -1 - n: n in all, some of them before the address."""
    data_ptr = getattr(x, "data_ptr", None)
    if data_ptr is not None and hasattr(x, "dtype"):
        try:
            number = _core.dtype_number(str(x.dtype).removeprefix("torch."))
        except ValueError:
            kind = str(x.dtype).removeprefix("torch.")
            hint = "; pass .view(torch.uint8)" if kind in _AS_BYTES else "; pass torch.view_as_real(x)" if kind.startswith("complex") else ""
            raise TypeError(f"argument `{name}`: tensors of dtype {x.dtype} cannot be passed to a kernel{hint}") from None
        gpu, address = gpu_of(x, name), address_of(x, name)
        size = bytes_of(x)
        if isinstance(x, MockTensor):
            return x.address, number, -1, False, -1, 0
        if not address and size != 0:
            raise ValueError(f"argument `{name}`: the {type(x).__name__} has no memory (its data_ptr() is 0)")
        return address, number, size, 2 * bool(getattr(x, "is_contiguous", bool)()), gpu, 0
    if _aggregate.is_aggregate(type(x)):
        record = _aggregate.lifted(x)
        return to_value(x) if record is x else record
    if isinstance(x, (_types.constexpr, _core.Function)):
        return to_value(x)
    if type(x).__module__ == "numpy" and getattr(x, "shape", None) == () and hasattr(x, "item"):
        return x.item()
    if hasattr(x, "__cuda_array_interface__"):
        return cuda_array(x)
    if hasattr(x, "__array_interface__"):
        import numpy
        return numpy_pointer(numpy.asarray(x))
    if hasattr(x, "__dlpack__"):
        import numpy
        return numpy_pointer(numpy.from_dlpack(x))
    if hasattr(x, "__index__"):
        return int(x)
    if is_buffer(x):
        import numpy
        return numpy_pointer(numpy.asarray(memoryview(x)))
    raise TypeError(f"failed to specialize argument of type: {type(x).__name__} (parameter `{name}`; such objects are for tl.constexpr parameters)")
