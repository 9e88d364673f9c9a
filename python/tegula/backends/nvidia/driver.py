"""The driver of nvidia, under the name that Triton has for it."""
from ..driver import CudaDriver, ty_to_cpp
