# Running sums and products. bf16 accumulates in float32; small integers are widened in sums only.
import tegula.language as tl
from tegula import jit


@jit
def _for_cumsum(x, dtype):
    if dtype is not None:
        return x.to(dtype)
    elif x.dtype.is_bf16():
        return x.to(tl.float32)
    elif x.dtype.is_int() and x.dtype.primitive_bitwidth < 32:
        return x.to(tl.int32 if x.dtype.is_int_signed() else tl.uint32)
    else:
        return x


@jit
def cumsum(input, axis=0, reverse=False, dtype: tl.constexpr = None):
    return tl.associative_scan(_for_cumsum(input, dtype), axis, tl.standard._sum_combine, reverse)


@jit
def cumprod(input, axis=0, reverse=False):
    return tl.associative_scan(input.to(tl.float32) if input.dtype.is_bf16() else input, axis, tl.standard._prod_combine, reverse)
