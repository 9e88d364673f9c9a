# Movement of elements that is composed of reshape, join and gather.
import tegula.language as tl
from tegula import jit


@jit
def ravel(x, can_reorder=False):
    return tl.reshape(x, [x.numel], can_reorder=can_reorder)


@jit
def interleave(a, b):
    pairs = tl.join(a, b)
    if len(pairs.shape) == 1:
        return pairs
    else:
        return tl.reshape(pairs, pairs.shape[:-2] + [2 * pairs.shape[-2]])


@jit
def flip(x, dim=None):
    # Without `dim`: the last axis.
    rank: tl.constexpr = len(x.shape)
    axis: tl.constexpr = rank - 1 if dim is None else dim
    tl.static_assert(axis >= -rank and axis < rank, "flip: `dim` is not an axis of the tensor")
    place: tl.constexpr = axis % rank
    n: tl.constexpr = x.shape[place]
    backward = tl.reshape((n - 1) - tl.arange(0, n), [1] * place + [n] + [1] * (rank - 1 - place))
    return tl.gather(x, tl.broadcast_to(backward, x.shape), place)
