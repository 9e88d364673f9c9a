# Tensors of zeros.
import tegula.language as tl
from tegula import jit


@jit
def zeros(shape, dtype):
    return tl.full(shape, 0, dtype)


@jit
def zeros_like(input):
    return tl.full(input.shape, 0, input.dtype)
