"""Stand-ins for tensors: for compiling without memory, and for memory seen as another type."""
from .language import _types


class MockTensor:
    """What a tensor of this type is to the compiler, without memory: its address is divisible by 16."""

    @staticmethod
    def wrap_dtype(arg):
        """The stand-in of a dtype of torch, numpy or the language; anything else as it is."""
        kind = type(arg)
        if kind.__name__ == "dtype" and kind.__module__ == "torch" or isinstance(arg, _types.dtype) and not arg.is_ptr():
            return MockTensor(arg)
        return arg

    def __init__(self, dtype, shape=None):
        self.dtype, self.shape, self.address = dtype, [1] if shape is None else list(shape), 0

    def stride(self):
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * extent)
        return tuple(strides)

    def data_ptr(self):
        return self.address

    def ptr_range(self):
        return 0


class TensorWrapper:
    """A tensor whose elements kernels take to be of another type of the same size."""

    def __init__(self, base, dtype):
        self.dtype, self.base = dtype, base
        self.data, self.device, self.shape = base.data, getattr(base, "device", None), base.shape

    def data_ptr(self):
        if hasattr(self.base, "data_ptr"):
            return self.base.data_ptr()
        return self.base.__array_interface__["data"][0]

    def stride(self, *args):
        from .tools.tensor_descriptor import _strides
        return self.base.stride(*args) if hasattr(self.base, "stride") else tuple(_strides(self.base))[args[0] if args else slice(None)]

    def element_size(self):
        return self.base.element_size() if hasattr(self.base, "element_size") else self.base.dtype.itemsize

    @property
    def nbytes(self):
        return self.base.nbytes

    def is_contiguous(self):
        return self.base.is_contiguous() if hasattr(self.base, "is_contiguous") else bool(self.base.flags.c_contiguous)

    def numel(self):
        return self.base.numel() if hasattr(self.base, "numel") else self.base.size

    def cpu(self):
        return TensorWrapper(self.base.cpu() if hasattr(self.base, "cpu") else self.base, self.dtype)

    def to(self, device):
        return TensorWrapper(self.base.to(device), self.dtype)

    def copy_(self, other):
        if hasattr(self.base, "copy_"):
            self.base.copy_(other.base)
        else:
            self.base[...] = other.base

    def clone(self):
        return TensorWrapper(self.base.clone() if hasattr(self.base, "clone") else self.base.copy(), self.dtype)

    def new_empty(self, sizes):
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def new_empty_strided(self, sizes, strides):
        return TensorWrapper(self.base.new_empty_strided(sizes, strides), self.dtype)

    def __str__(self):
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor, dtype):
    """The tensor with its elements taken to be of `dtype`, for the arguments of kernels; no memory is copied."""
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if hasattr(tensor, "data_ptr") or hasattr(tensor, "__array_interface__"):
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"Cannot reinterpret a {type(tensor)}.")
