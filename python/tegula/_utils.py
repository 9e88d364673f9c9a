"""Nested tuples, dtypes and warnings: what other libraries take from triton._utils."""
import functools
import math
import warnings

from ._specialize import canonicalize_dtype, canonicalize_ptr_dtype, type_canonicalisation_dict
from .language._types import constexpr

TRITON_MAX_TENSOR_NUMEL = 1048576
BITWIDTH_DICT = {**{f"u{n}": n for n in (1, 8, 16, 32, 64)}, **{f"i{n}": n for n in (1, 8, 16, 32, 64)}, **{f"fp{n}": n for n in (16, 32, 64)},
                 **{f"fp8{s}": 8 for s in ("e4nv", "e4b15", "e4b8", "e5", "e5b16")}, "bf16": 16, "void": 0}

FP_FUSION_DEFAULT_WARNING = ("TRITON_DEFAULT_FP_FUSION is unset. FP fusion is on by default; later versions of Triton have it off. "
                             "Set TRITON_DEFAULT_FP_FUSION to keep what you have.")
CAT_CAN_REORDER_WARNING = "tl.cat(can_reorder=True) is deprecated: later versions of Triton keep the order. Use tl.cat(..., can_reorder=False), or tl.join."
RESHAPE_CAN_REORDER_WARNING = "tl.reshape(can_reorder=True) is deprecated: later versions of Triton keep the order."


def get_iterable_path(iterable, path):
    """iterable[path[0]][path[1]]..."""
    return functools.reduce(lambda a, i: a[i], path, iterable)


def set_iterable_path(iterable, path, val):
    get_iterable_path(iterable, path[:-1])[path[-1]] = val


def find_paths_if(iterable, pred):
    """Paths, in order, of the items that are no tuples or lists and for which pred(path, item)."""
    found = {}

    def walk(path, item):
        if isinstance(item, (tuple, list)):
            for i, x in enumerate(item):
                walk((*path, i), x)
        elif pred(path, item):
            found[path] = None

    for i, item in enumerate(iterable):
        walk((i,), item)
    return list(found)


def apply_with_path(value, fn, path=()):
    """fn(path, item) for every item of nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            apply_with_path(item, fn, (*path, i))
    else:
        fn(path, value)


def is_namedtuple(value):
    cls = value if isinstance(value, type) else type(value)
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def tuple_create(arg, contents):
    """A tuple of the class of `arg`."""
    return type(arg)(*contents) if hasattr(arg, "_fields") else type(arg)(contents)


def list_list_flatten(x):
    """(lengths, all items)"""
    return [len(row) for row in x], [item for row in x for item in row]


def list_list_unflatten(spec, flat):
    rest, out = list(flat), []
    for n in spec:
        out.append(rest[:n])
        rest = rest[n:]
    assert not rest
    return out


def parse_list_string(s):
    """["a", "b"] of "[a, b]" or "a, b"."""
    return [item.strip() for item in s.strip().removeprefix("[").removesuffix("]").split(",") if item.strip()]


def is_power_of_two(x):
    return x > 0 and x & (x - 1) == 0


def validate_block_shape(shape):
    """The number of elements of a tile's shape; TypeError or ValueError if no tile can have it."""
    for i, d in enumerate(shape):
        d = d.value if isinstance(d, constexpr) else d
        if not isinstance(d, int):
            raise TypeError(f"Shape element {i} must have type `constexpr[int]`, got `constexpr[{type(d)}]")
        if not is_power_of_two(d):
            raise ValueError(f"Shape element {i} must be a power of 2")
    count = math.prod(int(d) for d in shape)
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(f"numel ({count}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})")
    return count


def get_primitive_bitwidth(dtype):
    return BITWIDTH_DICT[dtype]


_warned = set()


def warn_once(message):
    """A UserWarning, once a process."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, UserWarning, stacklevel=2)


def prewarm_deprecation_warnings():
    """From now on these are as if they had been given."""
    _warned.update((FP_FUSION_DEFAULT_WARNING, CAT_CAN_REORDER_WARNING, RESHAPE_CAN_REORDER_WARNING))
