"""`triton.profiler.scope`: names that launches are found below."""
import time

from . import _session
from .metric import _add_metrics
from .state import _Around


def enter_scope(name, *, metrics=None):
    """Launches from now on are below `name`; `metrics`: {name: number, or list of numbers} of the scope. Returns how many scopes are open."""
    _session.stack("scopes").append(name)
    if metrics:
        _add_metrics(metrics)
    return len(_session.stack("scopes"))


def exit_scope(name=None, *, metrics=None):
    """Ends the innermost scope, which must be `name` if that is given."""
    scopes = _session.stack("scopes")
    if not scopes:
        return None
    if name is not None and scopes[-1] != name:
        raise RuntimeError(f"exit_scope({name!r}): the innermost scope is {scopes[-1]!r}")
    if metrics:
        _add_metrics(metrics)
    scopes.pop()
    return len(scopes)


class scope(_Around):
    """`with scope("name"):` or a decorator: the launches in it are below `name`."""

    def __init__(self, name, metrics=None):
        self.name, self.metrics = name, metrics

    def __enter__(self):
        enter_scope(self.name, metrics=self.metrics)
        return self

    def __exit__(self, *error):
        exit_scope(self.name)


class cpu_timed_scope(scope):
    """A scope that has the caller's time as metric "cpu_time (ns)"."""

    def __enter__(self):
        super().__enter__()
        self.starts = getattr(self, "starts", []) + [time.perf_counter_ns()]
        return self

    def __exit__(self, *error):
        exit_scope(self.name, metrics={"cpu_time (ns)": time.perf_counter_ns() - self.starts.pop()})
