"""What tuning does with the memory of a kernel's arguments.

A configuration is tried by running the kernel many times on the caller's own arguments. What it does to them is known from its loads and stores
(`read` and `written` in the kernel's metadata), so that nobody has to say: what is both read and written is set back before every run, so that each
sees what the caller passed, and once more at the end. What the configurations leave in all they write is compared.
"""
import json
import os
import re
import warnings

# How far results may be apart, relative to the larger of the two and to the largest of all: what another order of additions and other tiles do. The coarsest
# type among the arguments counts, as what is computed between them is often rounded to it. Types that are not named are compared exactly.
_TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-4, "complex64": 2e-4, "float16": 4e-3, "bfloat16": 3e-2, "float8_e4m3fn": 0.15,
              "float8_e4m3fnuz": 0.15, "float8_e5m2": 0.3, "float8_e5m2fnuz": 0.3}


def _tolerance(tensor):
    return _TOLERANCE.get(str(getattr(tensor, "dtype", "")).removeprefix("torch."), 0)


def _limit():
    """Bytes that copies may take: TEGULA_TUNE_BYTES, else 4 GiB."""
    text = os.environ.get("TEGULA_TUNE_BYTES", "")
    return int(text) if text else 4 << 30


def copy_of(tensor):
    """Of the values: PyTorch's gradients know nothing of it."""
    return tensor.detach().clone() if hasattr(tensor, "detach") else tensor.clone() if hasattr(tensor, "clone") else tensor.copy()


def set_back(tensor, saved):
    """As a kernel writes: PyTorch counts no change of a tensor that it may have kept for gradients."""
    if hasattr(tensor, "copy_"):
        getattr(tensor, "data", tensor).copy_(saved)
    else:
        tensor[...] = saved


def _can_be_copied(x):
    return (hasattr(x, "clone") and hasattr(x, "copy_")) or (hasattr(x, "copy") and hasattr(x, "__setitem__") and hasattr(x, "dtype"))


def _tensors(name, value):
    """(name, tensor) of an argument, items of tuples one by one."""
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _tensors(f"{name}[{i}]", item)
    elif (base := getattr(value, "base", None)) is not None and type(value).__name__ in ("TensorDescriptor", "TensorWrapper"):
        yield name, base
    elif hasattr(value, "data_ptr") or (hasattr(value, "dtype") and getattr(value, "shape", ()) != ()):
        yield name, value


def _of_parameter(leaf):
    """The parameter that an argument of the compiled kernel belongs to: `t` of `t.0`, `t[1]`."""
    return re.match(r"\w*", leaf).group()


def access_of(kernel):
    """{parameter: (is read, is written)} of a compiled kernel; None if it does not say."""
    try:
        args = json.loads(kernel.metadata_json())["args"]
    except (AttributeError, KeyError, ValueError):
        return None
    found = {}
    for a in args:
        if a["type"].startswith("*"):
            reads, writes = found.get(_of_parameter(a["name"]), (False, False))
            found[_of_parameter(a["name"])] = (reads or a["read"], writes or a["written"])
    return found


def _close(a, b, tolerance):
    """Are two tensors of one library, shape and type the same, beyond rounding if they hold floats? All NaNs are one. Numbers become doubles a part at a time."""
    if 0 in a.shape:
        return True
    if not _tolerance(a):
        return bool((a == b).all())
    if hasattr(a, "double"):  # PyTorch
        import torch as library
        as_double = lambda x: library.nan_to_num(x.detach().double(), nan=0.5)
    else:
        import numpy as library
        as_double = lambda x: library.nan_to_num(x.astype(library.float64), nan=0.5)
    a, b = a.reshape(-1), b.reshape(-1)
    parts = [slice(i, i + (1 << 22)) for i in range(0, len(a), 1 << 22)]
    largest = max(float(abs(as_double(x[part])).max()) for x in (a, b) for part in parts)

    def part_is_close(part):
        x, y = as_double(a[part]), as_double(b[part])
        return bool((abs(x - y) <= tolerance * (library.maximum(abs(x), abs(y)) + largest)).all())
    return all(map(part_is_close, parts))


def _memory(t):
    """[begin, end) of the addresses that a tensor's memory has, all of its base's."""
    if hasattr(t, "untyped_storage"):
        storage = t.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    if hasattr(t, "data_ptr"):
        return t.data_ptr(), t.data_ptr() + int(getattr(t, "nbytes", 1))
    while getattr(t, "base", None) is not None and hasattr(t.base, "__array_interface__"):
        t = t.base
    start = t.__array_interface__["data"][0]
    return start, start + t.nbytes


def _overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


class Trials:
    """The memory of one tuning. `arguments`: {parameter: value}; `cared_for`: parameters that the user's restore_value and reset_to_zero name; `validate`: are
    results compared? All kernels are made known by add() before they run for the first time."""

    def __init__(self, arguments, cared_for=(), validate=True):
        self._arguments = {n: list(_tensors(n, v)) for n, v in arguments.items()}
        self._cared_for, self._left, self._reads, self._written = cared_for, _limit(), [], {}
        self._saved, self._again = {}, None  # {name: (tensor, copy)} of what is written; those that are set back before each run
        self.blind = []  # names of what changes from run to run and cannot be set back
        self.validates = validate
        self._groups = []  # [results, [who has them]], a few
        self._tried = 0
        self._tolerance = max((_tolerance(t) for tensors in self._arguments.values() for _, t in tensors), default=0)

    def add(self, kernel):
        access = access_of(kernel) or {}
        self._again = None
        self._reads += [_memory(t) for n, (reads, _) in access.items() if reads for _, t in self._arguments.get(n, ())]
        new = {name: (n, t) for n, (_, writes) in access.items() if writes for name, t in self._arguments.get(n, ()) if name not in self._written}
        self._written.update(new)
        # Copies of results are as large as what is written: more than an eighth of the limit is not compared.
        if sum(int(getattr(t, "nbytes", 0)) for _, t in self._written.values()) > _limit() // 8:
            self.validates = False
        for name, (parameter, t) in self._written.items():
            if name not in self._saved and name not in self.blind and (self._is_read(t) or (self.validates and name in new)):
                self._save(parameter, name, t)

    def _is_read(self, tensor):
        return any(_overlap(_memory(tensor), r) for r in self._reads)

    def _save(self, parameter, name, t):
        size = int(getattr(t, "nbytes", 0))
        if _can_be_copied(t) and size <= self._left:
            self._left -= size
            self._saved[name] = (t, copy_of(t))
            return
        self.validates = False
        if self._is_read(t) and parameter not in self._cared_for:
            self.blind.append(name)

    def restore(self):
        """What one run leaves does not change the next one."""
        if self._again is None:
            self._again = [s for s in self._saved.values() if self._is_read(s[0])]
        for tensor, saved in self._again:
            set_back(tensor, saved)

    def restore_all(self):
        """Also what is written only: what a run does not write is seen."""
        for tensor, saved in self._saved.values():
            set_back(tensor, saved)

    def note_results(self, who):
        """`who` has run once, after restore_all()."""
        if not self.validates:
            return
        self._tried += 1
        for representative, members in self._groups:
            if self._differing(representative, {name: t for name, (t, _) in self._saved.items()}) is None:
                members.append(who)
                return
        if len(self._groups) < 4:  # a fifth different result is in no majority
            self._groups.append(({name: copy_of(t) for name, (t, _) in self._saved.items()}, [who]))

    def _differing(self, a, b):
        """Name of the first argument that two results are apart in, None if there is none."""
        return next((name for name in a if name in b and not _close(a[name], b[name], self._tolerance)), None)

    def outvoted(self):
        """{who: name of the argument that is apart} of those that differ from what more than half of all have; {} if there is no such majority."""
        best, members = max(self._groups, key=lambda g: len(g[1]), default=(None, []))
        if not self.validates or len(members) < 2 or 2 * len(members) <= self._tried:
            return {}
        return {who: self._differing(best, results) for results, others in self._groups if others is not members for who in others}


def warn_of_blind(function, names):
    is_or_are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    warnings.warn(f"{function}: {', '.join(names)} {is_or_are} read and written by the kernel and cannot be set back between trials "
                  f"(more than TEGULA_TUNE_BYTES = {_limit()} bytes, or no copy can be made): name {them} in restore_value or reset_to_zero", stacklevel=2)
