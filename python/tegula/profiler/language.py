"""`triton.profiler.language`: marks of places in kernels, for instruments in them. There are none here (the profiler times whole launches), so these
are checked and compiled to nothing."""
from .. import language as tl
from .._aggregate import aggregate
from ..jit import jit

_semantics = {"gluon"}


def enable_semantic(name):
    """Marks in kernels of this kind ("triton", "gluon") count."""
    _check(name)
    _semantics.add(name)


def disable_semantic(name):
    _check(name)
    _semantics.discard(name)


def _check(name):
    if name not in ("triton", "gluon"):
        raise ValueError(f"kernels are of kind 'triton' or 'gluon', found {name!r}")


@aggregate
class Event:
    """What allocate_event gives; may be passed on, carried by loops, kept."""
    name: tl.constexpr


@jit
def enter_scope(name: tl.constexpr):
    pass


@jit
def exit_scope(name: tl.constexpr):
    pass


@aggregate
class scope:
    """`with scope(name):`"""
    name: tl.constexpr

    @jit
    def __enter__(self):
        enter_scope(self.name)

    @jit
    def __exit__(self, kind, value, trace):
        exit_scope(self.name)


@jit
def allocate_event(name: tl.constexpr):
    return Event(name)


@jit
def start_event(event):
    tl.static_assert(isinstance(event, Event), "expected an event returned by allocate_event")


@jit
def end_event(event):
    tl.static_assert(isinstance(event, Event), "expected an event returned by allocate_event")
