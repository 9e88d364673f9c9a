"""`triton.profiler.profile`: sessions are started, stopped and written."""
import functools

from .. import knobs
from . import _session
from ._session import sessions
from .flags import flags
from .hooks import HookManager, LaunchHook

DEFAULT_PROFILE_NAME = "proton"


def _check(what, given, allowed, why=""):
    if given not in allowed:
        raise ValueError(f"{what} is one of {', '.join(map(repr, allowed))}; found {given!r}{why}")


def start(name=None, *, context="shadow", data="tree", backend=None, mode=None, hook=None):
    """Starts a session and gives its number; None if TRITON_PROTON_DISABLE says so, or if the program is run by proton.

    `context`: "shadow" for scopes, "python" for the callers; `data`: "tree" or "trace"; `hook`: "triton" takes what functions say by launch_metadata."""
    if knobs.proton.disable or flags.command_line:
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
    flags.profiling_on = True
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
    flags.profiling_on = bool(sessions)


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
