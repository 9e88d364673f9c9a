"""What `python -m tegula` does for PyTorch: nothing until a program imports Inductor's settings, then Inductor emits to tegula. Imports nothing of PyTorch."""
import importlib.abc
import importlib.machinery
import os
import sys
import warnings

SETTINGS = "torch._inductor.config"


class _WhenImported(importlib.abc.MetaPathFinder):
    """Calls `then[name](module)` when a module of such a name has been imported."""

    def __init__(self, then):
        self.then = then
        self.unfinished = []  # [(module, then)]: such modules that were being imported already when they were asked for

    def _finish(self):
        done = [pair for pair in self.unfinished if not _is_unfinished(pair[0])]
        self.unfinished = [pair for pair in self.unfinished if pair not in done]
        for module, then in done:
            then(module)

    def find_spec(self, name, path=None, target=None):
        if self.unfinished:
            self._finish()
        then = self.then.pop(name, None)
        spec = then and importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            then(module)

        spec.loader.exec_module = exec_module  # each spec has a loader of its own
        return spec


_finder = _WhenImported({})


def _is_unfinished(module):
    return getattr(module.__spec__, "_initializing", False)


def _when_imported(name, then):
    module = sys.modules.get(name)
    if module is not None and not _is_unfinished(module):
        then(module)
        return
    if module is not None:
        _finder.unfinished.append((module, then))  # at the next import of anything
    else:
        _finder.then[name] = then
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def lead_workers():
    """Inductor's compile workers find this `triton`: they are given the paths of this process behind PyTorch's own, where an installed Triton may be,
    unless a variable says otherwise."""
    from tegula._triton_name import alias_path
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
    adapt(wanted)
    lead_workers()


def adapt(wanted):
    """What settings cannot say: changes parts of Inductor when they are imported. They look at `cpu_backend` and go the usual way for another."""
    from .aoti import compute_grids, remember_launches
    from .conv import add_bias_apart
    from .devices import complete_cpu, complete_cpu_text
    from .flex import lower_by_template
    from .mutations import know_what_is_written
    from .static import lend_cubins
    _when_imported("torch._dynamo.device_interface", complete_cpu)
    _when_imported("torch._inductor.codegen.cpu_device_op_overrides", complete_cpu_text)
    _when_imported("torch._inductor.codegen.cpp_wrapper_cpu", compute_grids)
    _when_imported("torch._inductor.runtime.triton_heuristics", lambda module: (remember_launches(module), lend_cubins(module)))
    _when_imported("torch._inductor.kernel.conv", add_bias_apart)
    _when_imported("torch._higher_order_ops.triton_kernel_wrap", know_what_is_written)
    _when_imported(wanted.flex, lower_by_template)


def when_imported():
    """Inductor emits to tegula from the time that it is imported, which may have been already."""
    _when_imported(SETTINGS, _configure)
