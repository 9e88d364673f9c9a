"""What kernels and their wrappers (autotuners, heuristics) have in common: launches by `[grid]`, and how pickle finds ours."""
import importlib
import pickle
import sys

from . import _core
from ._mock import MockTensor


def _by_name(module, qualname, depth):
    found = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    for _ in range(depth):
        found = found.fn
    return found


class KernelInterface:
    """Whatever is launched by `[grid](...)`: JITFunction and what wraps it."""

    def run(self, *args, grid, warmup, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} does not say how it runs")

    def warmup(self, *args, grid, **kwargs):
        """Compiles without launching; dtypes stand for tensors of them."""
        return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class NamedKernel(KernelInterface):
    """Those of ours: pickled by name and copied as functions are. What other libraries derive from KernelInterface (Inductor's autotuner) is pickled and copied as any object."""

    def _named(self):
        """Where pickle finds it: (module, name, how many `.fn` away), None if it is nowhere."""
        base = self
        while not isinstance(base, _core.Function):
            base = base.fn
        found, depth = sys.modules.get(base.__module__), 0
        for part in base.__qualname__.split("."):
            found = getattr(found, part, None)
        while found is not None and found is not self:
            found, depth = getattr(found, "fn", None), depth + 1
        return None if found is None else (base.__module__, base.__qualname__, depth)

    def bind(self, *args, grid, **kwargs):
        raise TypeError(f"{type(self).__name__} has no bind(): what it decides depends on the arguments of each launch; bind the kernel below it with what it "
                        f"decided, as in tuned.fn.bind(*args, grid=grid, **tuned.best_config.all_kwargs())")

    def __reduce_ex__(self, protocol):
        name = self._named()
        if name is None and isinstance(self, _core.Function):
            raise pickle.PicklingError(f"{self!r} cannot be pickled: it is not found as {self.__module__}.{self.__qualname__}")
        return super().__reduce_ex__(protocol) if name is None else (_by_name, name)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self  # as functions are


def check_decorated(fn, decorator):
    if not hasattr(fn, "arg_names"):
        raise TypeError(f"@{decorator} stands above @jit: `{getattr(fn, '__name__', fn)}` is no kernel yet")
    return fn
