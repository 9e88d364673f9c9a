"""Code for sim, under the name that Triton has for it."""
from ..compiler import SimBackend, GPUTarget, Options
