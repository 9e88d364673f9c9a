"""`@heuristics`: meta-parameters that functions of the arguments give."""
from .. import _core
from .._interface import NamedKernel, check_decorated

_FORESEEN = 128


class _Foreseen(dict):
    """Arguments of a launch some of whose meta-parameters are not known yet."""

    def __missing__(self, name):
        return _FORESEEN


class Heuristics(_core.Layer, NamedKernel):
    """A kernel some of whose meta-parameters are computed at launch."""

    def __init__(self, fn, arg_names, values):
        self.fn, self.arg_names, self.values = fn, arg_names, values
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", __name__)

    def _completed(self, args, kwargs):
        bound = {**dict(zip(self.arg_names, args)), **kwargs}
        for name, f in self.values.items():
            kwargs[name] = bound[name] = f(bound)
        return kwargs

    def _foreseen(self, given):
        """What the functions give where meta-parameters are still to be proposed: these have `_FORESEEN` to them, at which flags about what tiles divide keep their masks."""
        bound, values = _Foreseen(given), {}
        for name, f in self.values.items():
            values[name] = bound[name] = f(bound)
        return values

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **self._completed(args, kwargs))

    def warmup(self, *args, **kwargs):
        return self.fn.warmup(*args, **self._completed(args, kwargs))


def heuristics(values):
    """Decorator: {name of a meta-parameter: function of the dict of bound arguments}. Each sees what the ones before it gave."""
    return lambda fn: Heuristics(check_decorated(fn, "heuristics"), fn.arg_names, values)
