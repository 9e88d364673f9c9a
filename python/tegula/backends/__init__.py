"""Backends by name: {"nvidia": Backend(compiler, driver), "cpu": ..., "sim": ...}, and those that installed packages register as entry points
`triton.backends`."""
import collections
import functools
import glob
import importlib
import inspect
import os
import sys
import warnings
from dataclasses import dataclass

from . import driver as _driver
from . import compiler as _compiler
from .compiler import BaseBackend, GPUTarget, Language
from .driver import DriverBase


@dataclass(frozen=True)
class Backend:
    compiler: type
    driver: type


def _subclass_in(module, base):
    found = [c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, base) and not inspect.isabstract(c) and c.__module__ == module.__name__]
    if len(found) != 1:
        raise RuntimeError(f"{module.__name__} has {len(found)} classes derived from {base.__name__}, there should be one")
    return found[0]


_OWN = {"nvidia": Backend(_compiler.CUDABackend, _driver.CudaDriver), "cpu": Backend(_compiler.CPUBackend, _driver.CPUDriver),
        "sim": Backend(_compiler.SimBackend, _driver.SimDriver)}
_TRITONS = ("nvidia", "amd", "cpu", "sim")  # names that Triton's own packages may register; their code generators are part of Triton


def _entry_points():
    """(name, module) of the entry points `triton.backends` of installed packages. importlib.metadata would do, at several times the cost of all else that
    importing tegula does."""
    for folder in sys.path:
        for file in glob.iglob(os.path.join(glob.escape(folder or "."), "*-info", "entry_points.txt")):
            with open(file, encoding="utf-8") as text:
                lines = [line.strip() for line in text]
            if "[triton.backends]" not in lines:
                continue
            for line in lines[lines.index("[triton.backends]") + 1:]:
                if line.startswith("["):
                    break
                name, equals, module = (part.strip() for part in line.partition("="))
                if equals:
                    yield name, module


def _discover():
    found = dict(_OWN)
    for name, module in _entry_points():
        if name in _TRITONS:
            continue
        try:
            found[name] = Backend(_subclass_in(importlib.import_module(f"{module}.compiler"), BaseBackend),
                                  _subclass_in(importlib.import_module(f"{module}.driver"), DriverBase))
        except Exception as e:
            warnings.warn(f"the backend {name} ({module}) cannot be used: {e}", RuntimeWarning)
    return found


class _Backends(collections.UserDict):
    """Looks for packages when it is asked for the first time."""

    def __init__(self):
        pass

    @functools.cached_property
    def data(self):
        return _discover()


backends = _Backends()


def backend_of(target):
    """The backend object for a target; None if there is none or more than one."""
    for cls in (b.compiler for b in _OWN.values()):
        if cls.supports_target(target):
            return cls(target)
    found = [b.compiler for b in backends.values() if b.compiler.supports_target(target)]
    return found[0](target) if len(found) == 1 else None
