# Sorting along the last axis by Batcher's bitonic network.
#
# A step of the network compares each element with the one whose position differs in one bit, `distance`: the lower of the
# two positions keeps the smaller value. Where a run is to decrease, its elements are complemented for the time of its steps; of
# those of 64 bits, which GPUs compare in two halves and have no minimum of, the comparisons are reversed instead.
# Complements want a total order that `~` reverses, so floats are sorted as integers that are ordered as they are (-0 before +0, a
# NaN beyond infinity, on the side of its sign), and the result is always a permutation. Steps are iterations of run-time
# loops: the code does not grow with the length, unless a target unrolls them to know each distance.
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
def _with_sign_last(x):
    # Of a float's bits to an integer in its order, and back: magnitudes of negative numbers are complemented.
    bits: tl.constexpr = x.dtype.primitive_bitwidth
    return x ^ ((x >> (bits - 1)) & ((1 << (bits - 1)) - 1))


@jit
def _to_keys(x):
    bits: tl.constexpr = x.dtype.primitive_bitwidth
    if x.dtype.is_floating():
        return _with_sign_last(x.to(tl.core.get_int_dtype(bits, True), bitcast=True))
    elif bits == 1:
        return x.to(tl.int8)
    else:
        return x


@jit
def _from_keys(keys, t: tl.constexpr):
    if t.is_floating():
        return _with_sign_last(keys).to(t, bitcast=True)
    else:
        return keys.to(t)


@jit
def _step(x, position, distance, falls, axis: tl.constexpr):
    other = tl.gather(x, position ^ distance, axis)
    return tl.where((x > other) ^ ((position & distance) != 0) ^ falls, other, x)


@jit
def _merge(x, position, log_n, falls, axis: tl.constexpr):
    # Sorts runs of 2**log_n elements, each of them bitonic.
    for i in range(log_n):
        x = _step(x, position, 1 << (log_n - 1 - i), falls, axis)
    return x


@jit
def _merge_in_turn(x, position, log_n, descending: tl.constexpr, axis: tl.constexpr):
    # Every other run the other way round; the first one falls if `descending`.
    turn = (position >> log_n & 1) ^ (1 if descending else 0)
    if x.dtype.primitive_bitwidth == 64:
        return _merge(x, position, log_n, turn != 0, axis)
    else:
        mask = (0 - turn).to(x.dtype)
        return _merge(x ^ mask, position, log_n, False, axis) ^ mask


@jit
def _sort_runs(x, position, log_n: tl.constexpr, descending: tl.constexpr, axis: tl.constexpr):
    for size in range(1, log_n + 1):
        x = _merge_in_turn(x, position, size, descending, axis)
    return x


@jit
def sort(x, dim: tl.constexpr = None, descending: tl.constexpr = False):
    axis: tl.constexpr = _last_axis(x, dim)
    keys = _sort_runs(_to_keys(x), _positions(x, axis), tl.standard._log2(x.shape[axis]), descending, axis)
    return _from_keys(keys, x.dtype)


@jit
def bitonic_merge(x, dim: tl.constexpr = None, descending: tl.constexpr = False):
    axis: tl.constexpr = _last_axis(x, dim)
    keys = _merge_in_turn(_to_keys(x), _positions(x, axis), tl.standard._log2(x.shape[axis]), descending, axis)
    return _from_keys(keys, x.dtype)


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
        keys = _sort_runs(_to_keys(x), _positions(x, axis), log_k, descending, axis)
        for i in tl.static_range(tl.standard._log2(n) - log_k):
            pairs = tl.reshape(keys, lead + [(n // k) >> (i + 1), 2, k])
            best = tl.reduce(pairs, axis + 1, tl.standard._elementwise_max if descending else tl.standard._elementwise_min)
            keys = tl.reshape(best, lead + [n >> (i + 1)])
            keys = _merge_in_turn(keys, _positions(keys, axis), log_k, descending, axis)
        return tl.standard._for_extremum(_from_keys(keys, x.dtype))
