"""Slices of a tensor by descriptors: `slice_size` rows from row `slice_off` on, both known only in the kernel. Rows past the slice read as zero
and are not written, so that neighbouring slices of any length need no mask.

A bound that a kernel knows only late is no part of a descriptor. But a coordinate can be made to meet a fixed bound where the slice ends, if
other dimensions take it back: the ragged dimension becomes three,

    extent   stride      coordinate
    LATE     WRAP - s    BOUND                  BOUND * WRAP is 2^64, so this is BOUND rows back
    LATE     s           slice_off + slice_size
    BOUND    s           BOUND - slice_size + row

Together they give row `slice_off + row`, and row `slice_size` has the coordinate BOUND, the first outside.
"""
from .. import jit
from .. import language as tl
from .tensor_descriptor import TensorDescriptor, _strides

_BOUND = tl.constexpr(1 << 30)
_WRAP = 1 << 34
_LATE = (1 << 31) - 1


def create_ragged_descriptor(T, block_shape, ragged_dim=0):
    """A descriptor of `T`, of two to three dimensions, for the functions below: blocks of `block_shape`, and slices along `ragged_dim`, which is
    not the last dimension."""
    rank, shape, strides = len(T.shape), [int(n) for n in T.shape], _strides(T)
    assert 2 <= rank <= 3, f"ragged descriptors are of tensors of 2 or 3 dimensions, found {rank}"
    assert len(block_shape) == rank, f"rank mismatch: {rank} extents and {len(block_shape)} block dimensions"
    assert -rank <= ragged_dim < rank, f"ragged_dim is {ragged_dim}; the tensor has {rank} dimensions"
    ragged_dim %= rank
    assert ragged_dim < rank - 1, "the last dimension cannot be ragged, as its elements must follow each other"
    step = strides[ragged_dim]
    shape[ragged_dim] = _BOUND.value
    return TensorDescriptor(T, [_LATE, _LATE, *shape], [_WRAP - step, step, *strides], [1, 1, *block_shape])


@jit
def _ragged_coords(slice_off, slice_size, coords, ragged_dim: tl.constexpr):
    AT: tl.constexpr = ragged_dim % len(coords)
    row = _BOUND - slice_size + coords[AT]
    end = slice_off + slice_size
    if len(coords) == 2:
        return (_BOUND, end, row, coords[1])
    elif AT == 0:
        return (_BOUND, end, row, coords[1], coords[2])
    else:
        return (_BOUND, end, coords[0], row, coords[2])


@jit
def load_ragged(TMA, slice_off, slice_size, coords, ragged_dim: tl.constexpr = 0):
    """The block at `coords`, counted within the slice along `ragged_dim`; coordinates there are not negative. What is past the slice is zero."""
    data = TMA.load(_ragged_coords(slice_off, slice_size, coords, ragged_dim))
    return tl.reshape(data, data.shape[2:])


@jit
def store_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Writes the part of the block that is in the slice."""
    TMA.store(_ragged_coords(slice_off, slice_size, coords, ragged_dim), tl.reshape(data, [1, 1] + data.shape))


@jit
def atomic_add_ragged(TMA, slice_off, slice_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Adds the part of the block that is in the slice to what is there, atomically."""
    TMA.atomic_add(_ragged_coords(slice_off, slice_size, coords, ragged_dim), tl.reshape(data, [1, 1] + data.shape))
