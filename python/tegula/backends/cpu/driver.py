"""The driver of cpu, under the name that Triton has for it."""
from ..driver import CPUDriver, ty_to_cpp
