"""`heuristics`: meta-parameters computed at launch from the bound arguments."""


from .jit import KernelInterface


def heuristics(values):
    """Computes meta-parameters at launch: {name: function of the dict of bound arguments}."""
    return lambda fn: Heuristics(fn, values)


class Heuristics(KernelInterface):
    def __init__(self, fn, values):
        self.fn, self.values = fn, values
        self.__name__ = fn.__name__
        self.arg_names = fn.arg_names

    def _complete(self, args, kwargs):
        bound = dict(zip(self.arg_names, args))
        bound.update(kwargs)
        for name, f in self.values.items():
            kwargs[name] = bound[name] = f(bound)
        return kwargs

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.fn[grid](*args, **self._complete(args, kwargs))

    def warmup(self, *args, grid=None, **kwargs):
        return self.fn.warmup(*args, grid=grid, **self._complete(args, kwargs))

    def run(self, *args, grid, warmup=False, **kwargs):
        return self.warmup(*args, grid=grid, **kwargs) if warmup else self[grid](*args, **kwargs)
