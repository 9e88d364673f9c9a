# Names that begin with an underscore and that published kernels take from `triton.language.standard` all the same. What combines two elements
# is what reductions and scans use.
import tegula.language as tl
from tegula import constexpr_function, jit


@constexpr_function
def _log2(i):
    # Rounded down; 0 for i < 2.
    log2 = 0
    while i > 1:
        i = i >> 1
        log2 += 1
    return log2


@constexpr_function
def _is_power_of_two(i):
    return i > 0 and (i & (i - 1)) == 0


@constexpr_function
def _last_dim(dim, shape):
    last = len(shape) - 1
    assert dim is None or dim == last or dim == -1, "only the last dimension is supported"
    return last


@constexpr_function
def _get_sort_dim(dim, shape):
    return _last_dim(dim, shape)


@constexpr_function
def _get_flip_dim(dim, shape):
    return _last_dim(dim, shape)


@jit
def _indicator(n_dims: tl.constexpr, j: tl.constexpr):
    # 0 and 1 along dimension `j`, counted from the last, of a shape of `n_dims` dimensions.
    return tl.reshape(tl.arange(0, 2), [1] * (n_dims - 1 - j) + [2] + [1] * j)


@jit
def _sum_combine(a, b):
    return a + b


@jit
def _prod_combine(a, b):
    return a * b


@jit
def _xor_combine(a, b):
    return a ^ b


@jit
def _or_combine(a, b):
    return a | b


@jit
def _for_extremum(x):
    # Everything under 32 bits is compared, and returned, in 32.
    if x.dtype.primitive_bitwidth >= 32:
        return x
    elif x.dtype.is_floating():
        return x.to(tl.float32)
    else:
        return x.to(tl.int32)


@jit
def _elementwise_max(a, b):
    return tl.maximum(a, b)


@jit
def _elementwise_min(a, b):
    return tl.minimum(a, b)


@jit
def _winner(better, value1, index1, value2, index2, tie_break_left):
    # `better` is the comparison of the values. A NaN loses against every number.
    first = better
    if tie_break_left:
        left = index1 < index2
        first = first | (left & (value1 == value2))
        if value1.dtype.is_floating():
            first = first | ((value2 != value2) & (left | (value1 == value1)))
    elif value1.dtype.is_floating():
        first = first | (value2 != value2)
    return tl.where(first, value1, value2), tl.where(first, index1, index2)


@jit
def _argmax_combine(value1, index1, value2, index2, tie_break_left):
    return _winner(value1 > value2, value1, index1, value2, index2, tie_break_left)


@jit
def _argmax_combine_tie_break_left(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, True)


@jit
def _argmax_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmax_combine(value1, index1, value2, index2, False)


@jit
def _argmin_combine(value1, index1, value2, index2, tie_break_left):
    return _winner(value1 < value2, value1, index1, value2, index2, tie_break_left)


@jit
def _argmin_combine_tie_break_left(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, True)


@jit
def _argmin_combine_tie_break_fast(value1, index1, value2, index2):
    return _argmin_combine(value1, index1, value2, index2, False)
