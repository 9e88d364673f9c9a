"""`triton.profiler`: which kernels ran in which scopes, and for how long. No hardware counters. The rules: docs/language.md, level 3.9; details: _session.py."""
import contextlib
import functools
import re
import time

from .. import knobs
from . import _session, context, data, hooks, language, mode, specs
from ._session import sessions
from .hooks import Hook, HookManager, LaunchHook

DEFAULT_PROFILE_NAME = "proton"
_command_line = False  # proton.py runs the program


def _check(what, given, allowed, why=""):
    if given not in allowed:
        raise ValueError(f"{what} is one of {', '.join(map(repr, allowed))}; found {given!r}{why}")


def start(name=None, *, context="shadow", data="tree", backend=None, mode=None, hook=None):
    """Starts a session and gives its number; None if TRITON_PROTON_DISABLE says so, or if the program is run by proton.

    `context`: "shadow" for scopes, "python" for the callers; `data`: "tree" or "trace"; `hook`: "triton" takes what functions say by launch_metadata."""
    if knobs.proton.disable or _command_line:
        return None
    return _start(name, context, data, backend, mode, hook)


def _start(name, context, data, backend, mode, hook):
    _check("context", context, ("shadow", "python"))
    _check("data", data, ("tree", "trace"))
    if backend == "instrumentation" or str(mode or "").split(":")[0] not in ("", "periodic_flushing"):
        raise NotImplementedError(f"the profiler takes the times of launches; backend={backend!r}, mode={str(mode)!r} needs instruments in kernels or counters")
    _check("backend", backend, (None, "cupti", "rocprofiler", "roctracer"))
    if isinstance(hook, str):
        _check("hook", hook, ("triton",))
        hook = LaunchHook()
    session = _session.Session(name or DEFAULT_PROFILE_NAME, context, data, hook)
    sessions[session.id] = session
    if hook is not None:
        HookManager.register(hook, session.id)
    _session.set_active(session, True)
    return session.id


def activate(session=None):
    """The session, or all, look at launches again."""
    for s in _session.chosen(session):
        _session.set_active(s, True)


def deactivate(session=None, flushing=False):
    """The session, or all, look away. `flushing`: wait for what is under way."""
    for s in _session.chosen(session):
        _session.set_active(s, False)
        if flushing:
            s.settle()


def finalize(session=None, output_format=""):
    """Ends the session, or all, and writes NAME.hatchet (a tree as JSON; "hatchet_msgpack": packed) or NAME.chrome_trace."""
    for s in _session.chosen(session):
        _session.set_active(s, False)
        s.write(output_format)
        HookManager.unregister(s.id)
        del sessions[s.id]


def profile(func=None, *, name=None, context="shadow", data="tree", backend=None, mode=None, hook=None):
    """Decorator: each call of the function is a session."""
    if func is None:
        return functools.partial(profile, name=name, context=context, data=data, backend=backend, mode=mode, hook=hook)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        session = start(name, context=context, data=data, backend=backend, mode=mode, hook=hook)
        try:
            return func(*args, **kwargs)
        finally:
            if session is not None:
                finalize(session)
    return wrapper


# --------------------------------------------------------------------------------------------------------------------------- scopes


def _metric(v):
    """A number, or a list of numbers."""
    if hasattr(v, "tolist"):
        v = v.tolist()
    return [float(x) for x in v] if isinstance(v, (list, tuple)) else float(v)


def _add_metrics(metrics):
    """"name (pty)" is a property, which may be text and is not summed up, "name (exc)" too."""
    sums, properties = {}, {}
    for k, v in metrics.items():
        bare = re.sub(r"\s*\((?:pty|exc)\)$", "", k)
        if bare == k:
            sums[k] = _metric(v)
        else:
            properties[bare] = v if isinstance(v, str) else _metric(v)
    for s in _session.active_sessions():
        node = s.root.at(s.path())
        node.add(sums)
        node.metrics.update(properties)


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


class _Around(contextlib.ContextDecorator):
    """A context manager that may be entered again while it is open, and a decorator."""

    def _recreate_cm(self):
        return self


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


def enter_state(name):
    """Launches from now on are below `name`, the innermost state only, within the scopes."""
    _session.stack("states").append(name)


def exit_state():
    states = _session.stack("states")
    if states:
        states.pop()


class state(_Around):
    """`with state("name"):` or a decorator: the launches in it are below `name`, in place of states around it."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        enter_state(self.name)
        return self

    def __exit__(self, *error):
        exit_state()


class metadata_state(state):
    """The launches in it compute metrics; they count by themselves."""

    def __init__(self, kernel_name=None):
        super().__init__("__proton_launch_metadata" + (f"/{kernel_name}" if kernel_name else ""))
