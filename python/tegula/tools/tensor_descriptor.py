"""Tensor descriptors as kernel arguments: where a tensor lies, and the block that a kernel reads and writes of it at a time.

A plain mutable object: every launch reads its fields anew, so that a configuration's `pre_hook` may set `block_shape`. The
kernel is compiled for the base's dtype, block_shape and padding; base, shape and strides are ordinary run-time arguments.
"""
from dataclasses import dataclass
from typing import Any, List

from .. import _core
from .._arrays import dtype_number

_FIRST_FLOAT = _core.dtype_number("fp8e5")


def _is_power_of_two(n):
    return n > 0 and n & (n - 1) == 0


def _item_size(tensor):
    size = getattr(tensor, "element_size", None)
    return size() if callable(size) else tensor.dtype.itemsize


def _is_float(dtype):
    torch_says = getattr(dtype, "is_floating_point", None)
    if torch_says is not None:
        return bool(torch_says)
    return dtype_number(dtype) >= _FIRST_FLOAT


def _is_float32(dtype):
    return str(dtype).removeprefix("torch.") == "float32"


def _address(tensor):
    """None where there is none yet (tensors of a tracing compiler)."""
    try:
        if hasattr(tensor, "data_ptr"):
            return int(tensor.data_ptr())
        for interface in ("__array_interface__", "__cuda_array_interface__"):
            if hasattr(tensor, interface):
                return getattr(tensor, interface)["data"][0]
    except (RuntimeError, TypeError, ValueError):
        pass
    return None


def _strides(tensor):
    """In elements."""
    if callable(getattr(tensor, "stride", None)):
        return list(tensor.stride())
    strides = getattr(tensor, "strides", None)
    if strides is not None:
        return [s // _item_size(tensor) for s in strides]
    dense = [1]
    for extent in reversed(tensor.shape[1:]):
        dense.insert(0, dense[0] * extent)
    return dense


@dataclass
class TensorDescriptor:
    """With `round_f32_to_tf32` what kernels load of a float32 tensor is rounded to tf32, to nearest even; a tf32 dot alone drops
    the bits that it does not use."""
    base: Any
    shape: List[int]
    strides: List[int]
    block_shape: List[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self):
        rank = len(self.shape)
        assert len(self.strides) == rank, f"rank mismatch: {rank} extents and {len(self.strides)} strides"
        assert len(self.block_shape) == rank, f"rank mismatch: {rank} extents and {len(self.block_shape)} block dimensions"
        assert rank > 0, "rank must not be zero"
        assert rank <= 5, f"rank cannot be more than 5, found {rank}"
        address = _address(self.base)
        assert address is None or address % 16 == 0, "base must be 16-byte aligned"
        for extent in self.block_shape:
            if not _is_power_of_two(extent):
                raise ValueError(f"block_shape elements must be a power of 2, found {list(self.block_shape)}")
        size = _item_size(self.base)
        for stride in self.strides[:-1]:
            assert stride * size % 16 == 0, f"strides must be 16-byte aligned: {stride} elements of {size} bytes"
        for extent in self.shape:
            assert extent > 0, f"shape must be positive, found {list(self.shape)}"
        assert self.strides[-1] == 1, f"last dimension must be contiguous: its stride is {self.strides[-1]}, not 1"
        assert self.padding in ("zero", "nan"), f"padding must be 'zero' or 'nan', found {self.padding!r}"
        if self.padding == "nan":
            assert _is_float(self.base.dtype), f"padding with NaN needs a floating-point tensor, found {self.base.dtype}"
        if self.round_f32_to_tf32:
            assert _is_float32(self.base.dtype), f"round_f32_to_tf32 needs a float32 tensor, found {self.base.dtype}"

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero", round_f32_to_tf32=False):
        """A descriptor of all of `tensor`."""
        return TensorDescriptor(tensor, list(tensor.shape), _strides(tensor), block_shape, padding, round_f32_to_tf32)


_core.set_descriptor_class(TensorDescriptor)
