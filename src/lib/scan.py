# Running sums and products. Integers under 32 bits are widened (of products from level 3.9 on); bfloat16 accumulates in float32, which
# the result is too below level 3.9.
import tegula.language as tl
from tegula import jit


@jit
def _widened(x):
    if x.dtype.is_int() and x.dtype.primitive_bitwidth < 32:
        return x.to(tl.int32 if x.dtype.is_int_signed() else tl.uint32)
    else:
        return x


@jit
def _running(x, axis, combine, reverse):
    if x.dtype.is_bf16():
        total = tl.associative_scan(x.to(tl.float32), axis, combine, reverse)
        return total.to(tl.bfloat16) if tl.core._level() >= 39 else total
    else:
        return tl.associative_scan(x, axis, combine, reverse)


@jit
def cumsum(input, axis=0, reverse=False, dtype: tl.constexpr = None):
    x = _widened(input) if dtype is None else input.to(dtype)
    return _running(x, axis, tl.standard._sum_combine, reverse)


@jit
def cumprod(input, axis=0, reverse=False, dtype: tl.constexpr = None):
    if dtype is None:
        x = _widened(input) if tl.core._level() >= 39 else input
    else:
        x = input.to(dtype)
    return _running(x, axis, tl.standard._prod_combine, reverse)
