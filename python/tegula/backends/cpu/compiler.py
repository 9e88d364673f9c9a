"""Code for cpu, under the name that Triton has for it."""
from ..compiler import CPUBackend, GPUTarget, Options
