"""Code for nvidia, under the name that Triton has for it."""
from ... import knobs
from ..compiler import CUDABackend, GPUTarget, Options

CUDAOptions = Options


def get_ptxas(arch):
    """The assembler that scripts run for `sm_ARCH`; the library itself needs none."""
    return knobs.nvidia.ptxas if arch < 90 else knobs.nvidia.ptxas_blackwell
