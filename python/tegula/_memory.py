"""The memory that a tensor is a view of: what kernels may reach through its address, as they may with Triton, which passes addresses only."""
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
