"""The classes of kernels, under the names of triton.runtime.jit."""
from ..jit import JITFunction, KernelInterface, constexpr_function, jit
