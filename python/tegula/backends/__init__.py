"""Backends by name: {"nvidia": Backend(compiler, driver), "cpu": ..., "sim": ...}, and those that installed packages register as entry points
`triton.backends`."""
import importlib
import importlib.metadata
import inspect
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


def _discover():
    found = {"nvidia": Backend(_compiler.CUDABackend, _driver.CudaDriver), "cpu": Backend(_compiler.CPUBackend, _driver.CPUDriver),
             "sim": Backend(_compiler.SimBackend, _driver.SimDriver)}
    for point in importlib.metadata.entry_points().select(group="triton.backends"):
        if point.name in ("nvidia", "amd", "cpu", "sim"):
            continue  # Triton's own, whose code generators are part of Triton
        try:
            found[point.name] = Backend(_subclass_in(importlib.import_module(f"{point.value}.compiler"), BaseBackend),
                                        _subclass_in(importlib.import_module(f"{point.value}.driver"), DriverBase))
        except Exception as e:
            warnings.warn(f"the backend {point.name} ({point.value}) cannot be used: {e}", RuntimeWarning)
    return found


backends = _discover()
