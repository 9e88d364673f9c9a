"""Code for nvidia, under the name that Triton has for it."""
from ..compiler import CUDABackend, GPUTarget, Options

CUDAOptions = Options
