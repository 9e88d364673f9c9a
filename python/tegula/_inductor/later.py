"""What `python -m tegula` does for PyTorch: nothing until a program imports Inductor's settings, then Inductor emits to tegula. Imports nothing of PyTorch."""
import importlib.abc
import importlib.machinery
import os
import sys
import warnings

SETTINGS = "torch._inductor.config"


class _WhenImported(importlib.abc.MetaPathFinder):
    """Calls `then(module)` when the module of this name has been imported."""

    def __init__(self, name, then):
        self.name, self.then = name, then

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module  # each spec has a loader of its own
        return spec


def lead_workers():
    """Inductor's compile workers find this `triton`: they are given the paths of this process behind PyTorch's own, where an installed Triton may be,
    unless a variable says otherwise."""
    from tegula.__main__ import alias_path
    paths = os.environ.get("TORCH_CUSTOM_PYTHONPATH", os.pathsep.join(sys.path)).split(os.pathsep)
    os.environ["TORCH_CUSTOM_PYTHONPATH"] = os.pathsep.join(dict.fromkeys([alias_path(), *paths]))


def _configure(config):
    from . import versions
    try:
        wanted = versions.wanted()
    except versions.UnknownVersion as e:
        warnings.warn(f"{e}; torch.compile goes the way it would without tegula", RuntimeWarning)
        return
    for name, value in wanted.settings.items():
        setattr(config, name, value)
    lead_workers()


def when_imported():
    """Inductor emits to tegula from the time that it is imported, which may have been already."""
    if SETTINGS in sys.modules:
        _configure(sys.modules[SETTINGS])
    elif not any(isinstance(f, _WhenImported) for f in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported(SETTINGS, _configure))
