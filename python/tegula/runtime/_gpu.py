"""Facts about GPUs from NVIDIA's driver, for programs without PyTorch."""
import ctypes
import functools
import os

# name: CUdevice_attribute
_ATTRIBUTES = {"max_shared_mem": 97, "max_num_regs": 12, "multiprocessor_count": 16, "warpSize": 10, "sm_clock_rate": 13, "mem_clock_rate": 36,
               "mem_bus_width": 37, "max_threads_per_block": 1, "max_threads_per_sm": 39, "l2_cache_size": 38, "capability_major": 75,
               "capability_minor": 76}


@functools.cache
def _driver():
    name = os.environ.get("TEGULA_LIBCUDA") or os.environ.get("TRITON_LIBCUDA_PATH") or "libcuda.so.1"
    try:
        library = ctypes.CDLL(os.path.join(name, "libcuda.so.1") if os.path.isdir(name) else name)
    except OSError as e:
        raise RuntimeError(f"there is no NVIDIA driver on this machine ({e})") from None
    if status := library.cuInit(0):
        raise RuntimeError(f"cuInit: CUDA error {status}")
    return library


@functools.cache
def attributes(ordinal):
    """{name: int} of GPU `ordinal`; clock rates in kHz, the bus width in bits. RuntimeError if there is none."""
    library, device, value, found = _driver(), ctypes.c_int(), ctypes.c_int(), {}
    if status := library.cuDeviceGet(ctypes.byref(device), ordinal):
        raise RuntimeError(f"there is no GPU {ordinal} (CUDA error {status})")
    for name, number in _ATTRIBUTES.items():
        if library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0:
            found[name] = value.value
    return found
