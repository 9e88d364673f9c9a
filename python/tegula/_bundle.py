"""Shipping without the compiler: bundles of kernels compiled ahead of time (docs/bundle.md)."""
import os
import warnings
from pathlib import Path

from . import _core
from ._function import JITFunction

_CLASSES = {None: -1, "generic": 0, "given": 1, "all": 2, "distinct": 3}
_MODES = {False: 0, True: 1, "error": 1, "warn": 2}


def _key(key, size):
    """Bytes of a key: of bytes, or of the file that `tegula aot --new-key` made."""
    if key is None or isinstance(key, bytes):
        return key
    text = Path(key).read_text().strip()
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != size:
        raise ValueError(f"{key} is no key: it must have {2 * size} hexadecimal digits")
    return found


def _function(kernel):
    while kernel is not None and not isinstance(kernel, JITFunction):
        kernel = getattr(kernel, "fn", None)  # what wraps kernels says nothing here
    if kernel is None:
        raise TypeError("a kernel is a function with @jit")
    return kernel


def aot(what, output=None, *, targets=None, classes=None, header=None, key=None, check=None, any_target=False, keep_going=False):
    """Compiles a bundle, and gives the number of its entries.

    `what`: the path of a manifest, or a list of kernels: (kernel, signature), (kernel, signature, constants) or dicts with kernel, signature, constants, options, grid, targets.
    Signatures are those of `tegula compile --sig`: "x:*fp32:16, n:i32". `targets`: names, as "cpu:avx2" or "sm_90a"; this machine's CPU if there are none. `classes`: "given", "generic" (the default: the given
    one, and those that rely on nothing), "all", or "distinct" (all in which no two parameters are one buffer). `header`: where a header for C and C++ goes. `key`: a secret key, or its file, to sign with. With `check`, a bundle's path, nothing is compiled: the
    result is a list of what the bundle lacks. `any_target`: what a program recorded is compiled for all targets, else for those of the kind that it ran on (CPUs or GPUs). `keep_going`: what cannot be
    compiled is left out. What is left out, for either reason, is told in a warning."""
    if classes not in _CLASSES:
        raise ValueError(f"classes is {classes!r}; it must be 'given', 'generic', 'all' or 'distinct'")
    if output is None and check is None:
        raise ValueError("tegula.aot needs an output, the path of the bundle")
    targets = [targets] if isinstance(targets, str) else list(targets or ())
    made = _core.aot_new()
    _core.aot_set_flags(made, any_target | keep_going << 1)
    if isinstance(what, (str, os.PathLike)):
        _core.aot_manifest(made, os.fspath(what), targets, _CLASSES[classes])
    else:
        from ._values import to_value
        for item in what:
            item = item if isinstance(item, dict) else dict(zip(("kernel", "signature", "constants"), item))
            unknown = set(item) - {"kernel", "signature", "constants", "options", "grid", "targets", "classes"}
            if unknown:
                raise ValueError(f"a kernel of a bundle has no `{min(unknown)}`")
            constants = {name: to_value(v) for name, v in (item.get("constants") or {}).items()}
            which = _CLASSES[classes or item.get("classes") or "generic"]
            _core.aot_add(made, _function(item["kernel"]).handle(), item.get("signature", ""), constants, targets or list(item.get("targets") or ()), dict(item.get("options") or {}),
                          item.get("grid") or "", which)
    if check is not None:
        return _core.aot_gaps(made, os.fspath(check), None).splitlines()
    count = _core.aot_write(made, os.fspath(output), _key(key, 64))
    left_out = _core.aot_left_out(made)
    if left_out:
        warnings.warn(f"{output} is without\n{left_out.rstrip()}", stacklevel=2)
    if header is not None:
        Path(header).write_text(_core.aot_header(made, Path(output).name.partition(".")[0]))
    return count


def load_bundle(path, public_key=None):
    """Launches take from the bundle what it has. `public_key` (32 bytes, or the file): the bundle must be signed with it."""
    _core.load_bundle(os.fspath(path), _key(public_key, 32))


class _NoJit:
    """What no_jit() gives: as a context manager it sets the mode back at the end."""

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _core.set_no_jit(self._before)


def no_jit(mode=True):
    """From now on nothing is compiled: a launch takes an entry of the bundles that relies on less, or raises RuntimeError, which names the kernel and the missing class. "warn": the same goes to
    standard error, and it is compiled; False: off. `with tegula.no_jit():` is for a block."""
    if mode not in _MODES:
        raise ValueError(f"no_jit takes True, False or 'warn', found {mode!r}")
    before = _core.no_jit()
    _core.set_no_jit(_MODES[mode])
    return _NoJit(before)


def record(path):
    """Writes what launches take from the compiler from now on to a manifest, as TEGULA_RECORD does; None: ends it."""
    _core.record(None if path is None else os.fspath(path))
