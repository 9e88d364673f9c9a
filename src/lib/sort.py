# Sorting along the last axis by Batcher's bitonic network.
#
# A step of the network compares each element with the one whose position differs in one bit, `distance`. Both partners
# look at the same pair: the one that is to hold the smaller value takes the partner's if that is smaller, the other one
# if it is larger. Where the comparison is false both ways (equal, NaN) neither moves, so the result is always a
# permutation. Steps are iterations of run-time loops: the code does not grow with the length.
import tegula.language as tl
from tegula import jit


@jit
def _last_axis(x, dim):
    rank: tl.constexpr = len(x.shape)
    tl.static_assert(rank > 0, "a scalar has no axis to sort along")
    tl.static_assert(dim is None or dim == rank - 1 or dim == -1, "only minor dimension is currently supported")
    tl.static_assert(tl.standard._is_power_of_two(x.shape[rank - 1]), "sort, topk and bitonic_merge take a power of two of elements along the axis")
    return rank - 1


@jit
def _positions(x, axis: tl.constexpr):
    n: tl.constexpr = x.shape[axis]
    return tl.broadcast_to(tl.reshape(tl.arange(0, n), [1] * axis + [n]), x.shape)


@jit
def _step(x, position, distance, falling, axis: tl.constexpr):
    # `falling`: int1, per element or for all: is this part of the sequence to decrease?
    other = tl.gather(x, position ^ distance, axis)
    smaller = ((position & distance) == 0) ^ falling
    return tl.where((smaller & (other < x)) | ((smaller == 0) & (other > x)), other, x)


@jit
def _merge(x, position, log_n: tl.constexpr, falling, axis: tl.constexpr):
    # Sorts runs of 2**log_n elements, each of them bitonic.
    for i in range(log_n):
        x = _step(x, position, 1 << (log_n - 1 - i), falling, axis)
    return x


@jit
def _sort_runs(x, position, log_n: tl.constexpr, descending, axis: tl.constexpr):
    # Sorts runs of 2**log_n elements, every other one the other way round. Where there is one run, it falls if
    # `descending`.
    for size in range(1, log_n + 1):
        falling = (((position >> size) & 1) != 0) ^ descending
        for i in range(size):
            x = _step(x, position, 1 << (size - 1 - i), falling, axis)
    return x


@jit
def sort(x, dim: tl.constexpr = None, descending: tl.constexpr = False):
    axis: tl.constexpr = _last_axis(x, dim)
    return _sort_runs(x, _positions(x, axis), tl.standard._log2(x.shape[axis]), descending, axis)


@jit
def bitonic_merge(x, dim: tl.constexpr = None, descending: tl.constexpr = False):
    axis: tl.constexpr = _last_axis(x, dim)
    return _merge(x, _positions(x, axis), tl.standard._log2(x.shape[axis]), descending, axis)


@jit
def _pick(pairs, axis: tl.constexpr, descending):
    if descending:
        return tl.max(pairs, axis)
    else:
        return tl.min(pairs, axis)


@jit
def topk(x, k: tl.constexpr, dim: tl.constexpr = None, descending: tl.constexpr = True):
    axis: tl.constexpr = _last_axis(x, dim)
    n: tl.constexpr = x.shape[axis]
    tl.static_assert(k > 0, "topk: k must be greater than 0")
    tl.static_assert((k & (k - 1)) == 0, "topk: k must be a power of two")
    tl.static_assert(k <= n, "topk: k must not exceed the size of the selected dimension")
    if k == n:
        return sort(x, dim, descending)
    else:
        # Runs of k, sorted in turn up and down; of two neighbours the k best are an elementwise choice, and a bitonic
        # run.
        lead: tl.constexpr = x.shape[:-1]
        log_k: tl.constexpr = tl.standard._log2(k)
        x = _sort_runs(x, _positions(x, axis), log_k, descending, axis)
        for i in tl.static_range(tl.standard._log2(n) - log_k):
            pairs = tl.reshape(x, lead + [(n // k) >> (i + 1), 2, k])
            x = tl.reshape(_pick(pairs, axis + 1, descending), lead + [n >> (i + 1)])
            position = _positions(x, axis)
            x = _merge(x, position, log_k, (((position >> log_k) & 1) != 0) ^ descending, axis)
        return x
