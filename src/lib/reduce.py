# Reductions. tl.reduce takes the combination of two elements; what is here chooses it and the type to accumulate in.
import tegula.language as tl
from tegula import jit


@jit
def _for_sum(x, dtype):
    # Integers under 32 bits count in 32 bits; floats stay what they are.
    if dtype is not None:
        return x.to(dtype)
    elif x.dtype.is_int() and x.dtype.primitive_bitwidth < 32:
        return x.to(tl.int32 if x.dtype.is_int_signed() else tl.uint32)
    else:
        return x


@jit
def _with_index(x, axis, combine, keep_dims):
    rank: tl.constexpr = len(x.shape)
    tl.static_assert(axis is not None, "an axis is required where indices are returned")
    tl.static_assert(axis >= -rank and axis < rank, "invalid axis: it is not an axis of the tensor")
    place: tl.constexpr = axis % rank
    n: tl.constexpr = x.shape[place]
    index = tl.reshape(tl.arange(0, n), [1] * place + [n] + [1] * (rank - 1 - place))
    value = x.to(tl.float32) if x.dtype.is_bf16() and tl.core._level() < 39 else x
    return tl.reduce((value, tl.broadcast_to(index, x.shape)), place, combine, keep_dims=keep_dims)


@jit
def sum(input, axis=None, keep_dims=False, dtype: tl.constexpr = None):
    return tl.reduce(_for_sum(input, dtype), axis, tl.standard._sum_combine, keep_dims=keep_dims)


@jit
def max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    if return_indices:
        return _with_index(input, axis, tl.standard._argmax_combine_tie_break_left if return_indices_tie_break_left else tl.standard._argmax_combine_tie_break_fast, keep_dims)
    else:
        return tl.reduce(tl.standard._for_extremum(input), axis, tl.standard._elementwise_max, keep_dims=keep_dims)


@jit
def min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    if return_indices:
        return _with_index(input, axis, tl.standard._argmin_combine_tie_break_left if return_indices_tie_break_left else tl.standard._argmin_combine_tie_break_fast, keep_dims)
    else:
        return tl.reduce(tl.standard._for_extremum(input), axis, tl.standard._elementwise_min, keep_dims=keep_dims)


@jit
def argmax(input, axis, tie_break_left=True, keep_dims=False):
    return _with_index(input, axis, tl.standard._argmax_combine_tie_break_left if tie_break_left else tl.standard._argmax_combine_tie_break_fast, keep_dims)[1]


@jit
def argmin(input, axis, tie_break_left=True, keep_dims=False):
    return _with_index(input, axis, tl.standard._argmin_combine_tie_break_left if tie_break_left else tl.standard._argmin_combine_tie_break_fast, keep_dims)[1]


@jit
def xor_sum(input, axis=None, keep_dims=False):
    tl.static_assert(input.dtype.is_int(), "xor_sum only supports integers")
    return tl.reduce(input, axis, tl.standard._xor_combine, keep_dims=keep_dims)


@jit
def reduce_or(input, axis, keep_dims=False):
    tl.static_assert(input.dtype.is_int(), "reduce_or only supports integers")
    return tl.reduce(input, axis, tl.standard._or_combine, keep_dims=keep_dims)
