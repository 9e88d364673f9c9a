"""The memory of a kernel's arguments, as the tuner of the library (src/tune/Memory.h) is told of it, and what hooks do to tensors."""
import json
import math
import re

from .. import _core


def copy_of(tensor):
    """Of the values: PyTorch's gradients know nothing of it."""
    return tensor.detach().clone() if hasattr(tensor, "detach") else tensor.clone() if hasattr(tensor, "clone") else tensor.copy()


def set_back(tensor, saved):
    """As a kernel writes: PyTorch counts no change of a tensor that it may have kept for gradients."""
    if hasattr(tensor, "copy_"):
        getattr(tensor, "data", tensor).copy_(saved)
    else:
        tensor[...] = saved


def zero(tensor):
    if hasattr(tensor, "zero_"):
        tensor.zero_()
    else:
        tensor[...] = 0


class AllKept:
    """The tensors among arguments ({parameter: value}) are as before at the end of the block: for runs of which nothing says what they write."""

    def __init__(self, arguments):
        found = [t for name, value in arguments.items() for _, t in _tensors(name, value)]
        self.saved = [(t, copy_of(t)) for t in found if getattr(getattr(t, "flags", None), "writeable", True) and (hasattr(t, "clone") or hasattr(t, "copy"))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for tensor, saved in self.saved:
            set_back(tensor, saved)


def _tensors(name, value):
    """(name, tensor) of an argument, items of tuples one by one."""
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _tensors(f"{name}.{i}", item)
    elif (base := getattr(value, "base", None)) is not None and type(value).__name__ in ("TensorDescriptor", "TensorWrapper"):
        yield name, base
    elif hasattr(value, "data_ptr") or _interface(value) or (hasattr(value, "dtype") and getattr(value, "shape", ()) != ()):
        yield name, value


def _interface(value):
    """How numpy, CuPy and others describe their arrays; None: this is none of them."""
    return getattr(value, "__array_interface__", None) or getattr(value, "__cuda_array_interface__", None)


def _extent(t):
    """(address, bytes) from the first to the last element; -1 bytes: nothing says."""
    if hasattr(t, "data_ptr"):
        address = t.data_ptr()
        if hasattr(t, "stride") and hasattr(t, "element_size"):
            if t.numel() == 0:
                return address, 0
            last = sum((n - 1) * s for n, s in zip(t.shape, t.stride() if callable(t.stride) else t.stride))
            return address, (last + 1) * t.element_size()
        return address, int(getattr(t, "nbytes", -1))
    about = _interface(t)
    if about is None:
        return id(t), -1  # no kernel's memory begins there
    low, shape, strides = about["data"][0], about["shape"], about.get("strides")
    step = int(about["typestr"][2:])
    if strides is None:
        return low, step * math.prod(shape)
    high = low + step
    for n, s in zip(shape, strides):
        if n == 0:
            return low, 0
        low, high = (low + (n - 1) * s, high) if s < 0 else (low, high + (n - 1) * s)
    return low, high - low


def buffers_of(kernel, arguments, reset):
    """What a compiled kernel reads and writes of `arguments` ({parameter: value}), for _core.tune(); `reset`: parameters that the caller's hooks set back."""
    try:
        known = json.loads(kernel.metadata_json())["args"]
    except (AttributeError, KeyError, ValueError):
        return ()
    found = []
    for name, value in arguments.items():
        parts = [a for a in known if a["type"].startswith("*") and re.match(r"\w*", a["name"]).group() == name]
        if not parts:
            continue
        for label, t in _tensors(name, value):
            # A tuple's item by its own leaf, anything else by all leaves of its parameter.
            own = [a for a in parts if a["name"] == label] or parts
            reads, writes = any(a["read"] for a in own), any(a["written"] for a in own)
            if reads or writes:
                found.append((label, *_extent(t), _core.dtype_number(own[0]["type"][1:]), reads, writes, name in reset))
    return tuple(found)
