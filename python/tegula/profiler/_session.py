"""Sessions of the profiler: which kernels ran, in which scopes, for how long.

A session gets its launches by the launch hooks of triton.knobs. Times are the GPU's own (events of PyTorch's stream) where a program uses a GPU by PyTorch;
else the caller's, from the launch until the device is done with it.
"""
import itertools
import json
import sys
import threading
import time

from .. import _core, knobs
from .hooks import HookManager

_stack = threading.local()  # .scopes: [name], .states: [name], .starts: [what _Clock.start gave]
sessions: dict = {}
_ids = itertools.count()
_lock = threading.RLock()


def stack(kind):
    if not hasattr(_stack, kind):
        setattr(_stack, kind, [])
    return getattr(_stack, kind)


class Node:
    def __init__(self, name):
        self.name, self.children, self.metrics = name, {}, {}

    def child(self, name):
        if name not in self.children:
            self.children[name] = Node(name)
        return self.children[name]

    def at(self, path):
        node = self
        for name in path:
            node = node.child(name)
        return node

    def add(self, metrics):
        """Numbers are summed up, lists of one length element by element, everything else is the last."""
        for k, v in metrics.items():
            known = self.metrics.get(k)
            if isinstance(known, list) and isinstance(v, list) and len(known) == len(v):
                v = [a + b for a, b in zip(known, v)]
            elif isinstance(known, (int, float)) and isinstance(v, (int, float)):
                v = known + v
            self.metrics[k] = v

    def as_dict(self):
        return {"frame": {"name": self.name, "type": "function"}, "metrics": dict(self.metrics), "children": [c.as_dict() for c in self.children.values()]}


class _HostInterval:
    """From now until the device is done."""

    def __init__(self, device):
        self.device, self.begin, self.end = device, time.perf_counter_ns(), None

    def stop(self):
        if self.device:
            _core.synchronize(self.device)
        self.end = time.perf_counter_ns()

    def nanoseconds(self):
        return self.end - self.begin


class _GpuInterval:
    """Between two events of PyTorch's current stream; nobody waits for them before somebody asks."""

    def __init__(self, torch):
        self.begin = time.perf_counter_ns()
        self.first, self.last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.first.record()

    def stop(self):
        self.last.record()

    def nanoseconds(self):
        self.last.synchronize()
        return int(self.first.elapsed_time(self.last) * 1e6)


def _interval(kernel):
    if kernel.metadata.target.backend != "cuda":
        return _HostInterval(None)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return _GpuInterval(torch)
    from ..runtime.driver import driver
    return _HostInterval(f"cuda:{driver.active.get_current_device()}")


def _python_path():
    """The callers, outermost first, as file:function@line."""
    frames, f = [], sys._getframe()
    while f:
        if "tegula" not in f.f_globals.get("__name__", "").split(".")[0]:
            frames.append(f"{f.f_code.co_filename}:{f.f_code.co_name}@{f.f_lineno}")
        f = f.f_back
    return frames[::-1]


class Session:

    def __init__(self, name, context, data, hook):
        self.id, self.name, self.context, self.data, self.hook = next(_ids), name, context, data, hook
        self.active, self.phases, self.pending = False, [Node("ROOT")], []
        self.events = []  # for traces: (name, path, begin ns, nanoseconds, thread)

    @property
    def root(self):
        self.settle()
        return self.phases[-1]

    def path(self):
        base = _python_path() if self.context == "python" else list(stack("scopes"))
        states = stack("states")
        return base + states[-1:]

    def launched(self, interval, kernel, metadata):
        """A launch is over, or queued."""
        metrics, name = {}, kernel.name
        if self.hook is not None:
            name, metrics = self.hook.metrics_of(metadata)
            if name is None:
                return
        target = kernel.metadata.target
        metrics.update({"device_id": "0", "device_type": {"cuda": "CUDA", "cpu": "CPU", "sim": "SIM"}[target.backend]})
        with _lock:
            self.pending.append((self.phases[-1], self.path() + [name], metrics, interval, threading.get_ident()))

    def settle(self):
        """Takes the times of all launches, waiting for those that are under way."""
        with _lock:
            pending, self.pending = self.pending, []
        for root, path, metrics, interval, thread in pending:
            ns = interval.nanoseconds()
            node = root.at(path)
            fixed = {k: metrics.pop(k) for k in ("device_id", "device_type")}
            node.add({"time (ns)": ns, "count": 1, **metrics})
            node.metrics.update(fixed)
            self.events.append((path[-1], path[:-1], interval.begin, ns, thread))

    def tree(self, phase=None):
        self.settle()
        root = self.phases[-1 if phase is None else phase]
        return [root.as_dict(), _device_info()]

    def trace(self):
        self.settle()
        start = min((e[2] for e in self.events), default=0)
        rows = [{"name": name, "cat": "kernel", "ph": "X", "ts": (begin - start) / 1e3, "dur": ns / 1e3, "pid": 0, "tid": thread,
                 "args": {"call_stack": ["ROOT", *path, name]}} for name, path, begin, ns, thread in self.events]
        return {"displayTimeUnit": "us", "traceEvents": rows}

    def write(self, output_format):
        formats = {"tree": ("hatchet", "hatchet_msgpack"), "trace": ("chrome_trace",)}[self.data]
        chosen = output_format or formats[0]
        if chosen not in formats:
            raise ValueError(f"output_format of a session with data={self.data!r} is one of {', '.join(formats)}; found {chosen!r}")
        path = f"{self.name}.{chosen}"
        what = self.trace() if self.data == "trace" else self.tree()
        if chosen == "hatchet_msgpack":
            import msgpack
            with open(path, "wb") as out:
                out.write(msgpack.packb(what))
        else:
            with open(path, "w", encoding="utf-8") as out:
                json.dump(what, out)
        return path


def _device_info():
    from ..runtime.driver import driver
    target = driver.active.get_current_target()
    p = driver.active.utils.get_device_properties(0)
    return {{"cuda": "CUDA", "cpu": "CPU", "sim": "SIM"}.get(target.backend, target.backend):
            {"0": {"arch": str(target.arch), "clock_rate": p["sm_clock_rate"], "memory_clock_rate": p["mem_clock_rate"], "bus_width": p["mem_bus_width"],
                   "num_sms": p["multiprocessor_count"]}}}


def active_sessions():
    return [s for s in list(sessions.values()) if s.active]


def _entered(metadata):
    for s in active_sessions():
        if s.hook is not None:
            s.hook.enter(metadata)
    stack("starts").append(_interval(metadata.kernel))


def _exited(metadata):
    interval = stack("starts").pop()
    interval.stop()
    for s in active_sessions():
        s.launched(interval, metadata.kernel, metadata)
        if s.hook is not None:
            s.hook.exit(metadata)


def set_active(session, on):
    if session.active == on:
        return
    session.active = on
    if session.hook is not None:
        HookManager.set_active(session.id, on)
        (session.hook.activate if on else session.hook.deactivate)()
    # The clock starts last before the launch, and stops first behind it.
    for chain, f in ((knobs.runtime.launch_enter_hook, _entered), (knobs.runtime.launch_exit_hook, _exited)):
        if active_sessions():
            chain.add(f)
        else:
            chain.remove(f)


def chosen(session):
    """The sessions that an argument `session` means: all for None."""
    if session is None:
        return list(sessions.values())
    if session not in sessions:
        raise ValueError(f"Session has not been initialized: {session}")
    return [sessions[session]]
