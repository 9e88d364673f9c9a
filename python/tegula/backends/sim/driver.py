"""The driver of sim, under the name that Triton has for it."""
from ..driver import SimDriver, ty_to_cpp
