"""The driver of nvidia, under the name that Triton has for it."""
import functools
import os
import subprocess

from ... import knobs
from ..driver import CudaDriver, ty_to_cpp


@functools.lru_cache
def libcuda_dirs():
    """The folders with libcuda.so.1: knobs.nvidia.libcuda_path, else what the loader knows. tegula opens the driver itself and needs none."""
    if knobs.nvidia.libcuda_path:
        return [knobs.nvidia.libcuda_path]
    try:
        known = subprocess.run(["/sbin/ldconfig", "-p"], text=True, capture_output=True).stdout
    except OSError:
        known = ""
    found = [line.split()[-1] for line in known.splitlines() if "libcuda.so.1" in line]
    if not found:
        raise AssertionError("libcuda.so.1 is not found: the NVIDIA driver is not installed here, or the loader does not know where; TRITON_LIBCUDA_PATH names its folder")
    return [os.path.dirname(path) for path in found]
