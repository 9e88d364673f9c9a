"""The memory that a tensor is a view of, and the GPU that it is on. Kernels may reach what lies behind an address, as they may with Triton, which passes addresses only."""
import sys


def memory_of(x):
    """(address, bytes) of the memory behind a tensor, an array or the like; None if nothing says."""
    descriptors = sys.modules.get("tegula.tools.tensor_descriptor")
    if descriptors and isinstance(x, descriptors.TensorDescriptor):
        x = x.base
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(x, numpy.ndarray):
        return _of_array(x, numpy)
    for t in (x, getattr(x, "base", None)):  # a tensor, or what wraps one
        storage = getattr(t, "untyped_storage", None)
        if storage is not None:
            whole = storage()
            return whole.data_ptr(), whole.nbytes()
    if numpy and hasattr(x, "__array_interface__"):
        return _of_array(numpy.asarray(x), numpy)
    return None


def _of_array(a, numpy):
    """Of the array that owns the memory; of a foreign owner, what it exports as a buffer."""
    address = a.ctypes.data
    while a.base is not None:
        owner = a.base
        if not isinstance(owner, numpy.ndarray):
            owner = getattr(owner, "base", owner)  # as_strided() has an object in between
        if isinstance(owner, numpy.ndarray):
            a = owner
            continue
        try:
            whole = numpy.frombuffer(owner.obj if isinstance(owner, memoryview) else owner, numpy.uint8)
        except (TypeError, ValueError, BufferError):
            break
        low, size = whole.ctypes.data, whole.nbytes
        if low <= address <= low + size:
            return low, size
        break
    low = high = a.ctypes.data
    if a.size == 0:
        return low, 0
    for extent, stride in zip(a.shape, a.strides):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + a.itemsize - low


def gpu_of(x, name):
    """Ordinal of the GPU that a tensor is on, -1 for CPU memory."""
    device = getattr(x, "device", None)
    kind = "cpu" if device is None else getattr(device, "type", None) or str(device).partition(":")[0]
    if kind in ("cpu", "sim"):
        return -1
    if kind == "meta":
        raise ValueError(f"argument `{name}`: the tensor is on device meta, which has no memory")
    if kind != "cuda":
        raise ValueError(f"argument `{name}`: the tensor is on device {device}; kernels run on cpu, cuda and sim")
    index = getattr(device, "index", None)
    if not isinstance(index, int):
        index = str(device).partition(":")[2]
    return int(index or 0)


def is_memory(x):
    """A tensor, and no scalar of numpy, which is passed by value."""
    return hasattr(x, "data_ptr") or type(x).__name__ == "ndarray"
