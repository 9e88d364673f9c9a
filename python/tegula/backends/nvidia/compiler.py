"""Code for nvidia, under the name that Triton has for it."""
import functools
import hashlib
import subprocess

from ... import knobs
from ..compiler import BaseBackend, CUDABackend, GPUTarget, Language, Options

CUDAOptions = Options


def get_ptxas(arch):
    """The assembler that scripts run for `sm_ARCH`; the library itself needs none."""
    return knobs.nvidia.ptxas if arch < 90 else knobs.nvidia.ptxas_blackwell


@functools.lru_cache
def get_ptxas_version(arch=80):
    """What that assembler says of itself."""
    return knobs.nvidia.mock_ptx_version or subprocess.check_output([get_ptxas(arch).path, "--version"], text=True)


@functools.lru_cache
def ptx_get_version(cuda_version):
    """The PTX version, times ten, that a CUDA version reads: 84 for "12.4"."""
    major, minor = map(int, cuda_version.split("."))
    if major < 10:
        raise RuntimeError(f"CUDA 10.0 or higher is needed, found {cuda_version}")
    first = {10: 63, 11: 70, 12: 80}.get(major, 90 + (major - 13) * 10)
    return first + minor - (major == 12 and minor >= 6)


def sm_arch_from_capability(capability):
    return f"sm_{capability}" + ("a" if capability >= 90 else "")


def min_dot_size(target):
    """f(lhs type, rhs type): (m, n, k), below which Triton refuses a dot on nvidia; tegula takes smaller ones."""
    def least(lhs, rhs):
        bits = lhs.scalar.primitive_bitwidth
        if bits != rhs.scalar.primitive_bitwidth:
            raise AssertionError("lhs and rhs bitwidth must be the same")
        return 1, 1, {8: 32, 32: 8, 64: 4}.get(bits, 16)
    return least


@functools.lru_cache(None)
def file_hash(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()
